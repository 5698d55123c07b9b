//! Eight threads write to one database, and each row is on disk when its call
//! returns: `cargo run --release -p leafpress --example writer [DATABASE]`.

use std::path::PathBuf;

use leafpress::writer::Writer;

const THREADS: u64 = 8;
const ROWS_A_THREAD: u64 = 1_000;

fn main() -> leafpress::Result<()> {
    let folder = std::env::temp_dir();
    let default = folder.join(format!("leafpress-example-{}.db", std::process::id()));
    let path = std::env::args_os().nth(1).map_or(default, PathBuf::from);
    let writer = Writer::builder(&path).open()?;
    if let Some(in_force) = writer.in_force() {
        println!("{in_force}\n");
    }
    writer.execute_batch("CREATE TABLE IF NOT EXISTS event(thread INTEGER, number INTEGER)")?;
    std::thread::scope(|scope| {
        let callers: Vec<_> = (0..THREADS)
            .map(|thread| {
                let writer = writer.clone();
                scope.spawn(move || {
                    (0..ROWS_A_THREAD).try_for_each(|number| {
                        let values = [thread as i64, number as i64];
                        writer.execute("INSERT INTO event VALUES (?1, ?2)", values).map(drop)
                    })
                })
            })
            .collect();
        callers.into_iter().try_for_each(|caller| match caller.join() {
            Ok(outcome) => outcome,
            Err(panic) => std::panic::resume_unwind(panic),
        })
    })?;
    println!("{}", writer.stats());
    writer.close()?;
    println!("\n{} rows are in {}", THREADS * ROWS_A_THREAD, path.display());
    Ok(())
}
