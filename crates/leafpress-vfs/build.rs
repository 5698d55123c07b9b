//! Compiles the part of the library that must be C: `src/c_api/system_calls.c`.

fn main() {
    let source = "src/c_api/system_calls.c";
    println!("cargo::rerun-if-changed={source}");
    if std::env::var_os("CARGO_CFG_UNIX").is_some() {
        cc::Build::new().file(source).warnings(true).compile("leafpress_system_calls");
    }
}
