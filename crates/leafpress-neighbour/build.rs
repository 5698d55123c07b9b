//! Builds the second copy of SQLite: the bundled amalgamation once more, as a shared
//! library that the tests load at run time.
//!
//! The amalgamation is that of `libsqlite3-sys`, which tells its dependents where it
//! lies. Nothing is downloaded.
//!
//! Must never: link that library into the tests. Its symbols would be those of our copy,
//! and there would be one copy only.

use std::env;
use std::path::PathBuf;

/// As Python's and Debian's copies are built, as far as locks are concerned.
const DEFINES: [&str; 3] =
    ["-DSQLITE_THREADSAFE=1", "-DSQLITE_OMIT_LOAD_EXTENSION", "-DHAVE_USLEEP=1"];

fn main() {
    println!("cargo::rerun-if-changed=src/neighbour.c");
    if env::var_os("CARGO_CFG_UNIX").is_none() {
        return;
    }
    let include = env::var_os("DEP_SQLITE3_INCLUDE")
        .expect("libsqlite3-sys says where the amalgamation is only with its feature `bundled`");
    let library = PathBuf::from(env::var_os("OUT_DIR").unwrap()).join("libneighbour.so");
    let mut build = cc::Build::new();
    let compiler = build.opt_level(2).debug(false).warnings(false).pic(true).get_compiler();
    let mut command = compiler.to_command();
    command.args(["-w", "-shared", "-fvisibility=hidden"]).args(DEFINES);
    command.arg("-I").arg(include).arg("src/neighbour.c").arg("-o").arg(&library);
    command.args(["-lpthread", "-lm"]);
    let status = command.status().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(status.success(), "{command:?}: {status}");
    println!("cargo::rustc-env=LEAFPRESS_NEIGHBOUR_LIBRARY={}", library.display());
}
