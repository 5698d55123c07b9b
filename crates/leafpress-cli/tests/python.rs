//! Runs `tests/python/`: real files against what Python's `csv` module reads.

use std::path::Path;
use std::process::Command;

#[test]
fn real_files_load_to_what_python_reads() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/python/real_files.py");
    let mut python = Command::new("python3");
    let python = python.arg(script).env("LEAFPRESS", env!("CARGO_BIN_EXE_leafpress"));
    let output = match python.output() {
        Ok(output) => output,
        Err(error) => {
            println!("skipped: python3 does not start: {error}");
            return;
        }
    };
    let said =
        [output.stdout, output.stderr].map(|said| String::from_utf8_lossy(&said).into_owned());
    println!("{}", said.concat());
    assert!(output.status.success());
}
