//! scratch
fn main() {
    let a: Vec<String> = std::env::args().collect();
    leafpress_bench::generate::write_csv(a[1].as_ref(), a[2].parse().unwrap(), &mut |_| {})
        .unwrap();
}
