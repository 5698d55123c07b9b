//! Loads a file into a new cluster of rqlite: presses a database, and gives it to the lone node.
//!
//! `cargo run --release -p leafpress-rqlite --example rqlite_load -- URL FILE` prints the tables and
//! their rows, as the node counts them.

use std::path::Path;

use leafpress::load::Loader;
use leafpress::{Error, Result};
use leafpress_rqlite::{Address, boot};

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [url, file] = words.as_slice() else { return Err(Error::misuse("give URL FILE")) };
    let address: Address = url.parse()?;
    let folder = tempfile::tempdir()
        .map_err(|error| Error::io("make a folder in", Path::new("."), error))?;
    let database = folder.path().join("pressed.db");
    let report = Loader::new(&database).load_file(file)?;
    println!("pressed {} rows in {:.1} s", report.rows_loaded, report.elapsed.as_secs_f64());
    let booted = boot(&address, &database)?;
    for (table, rows) in &booted.tables {
        println!("{table}: {rows} rows");
    }
    println!("given to the node in {:.1} s: {} bytes", booted.elapsed.as_secs_f64(), booted.bytes);
    Ok(())
}
