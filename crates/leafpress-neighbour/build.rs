//! Builds the second copy of SQLite: the bundled amalgamation once more, as a shared
//! library that the tests load at run time.
//!
//! The amalgamation is that of `libsqlite3-sys`, which tells its dependents where it
//! lies. Nothing is downloaded.
//!
//! One fault of SQLite itself is fixed in it, as it breaks a database without us: under a
//! rollback journal `unixClose` looks whether other connections of the process hold locks,
//! lets go of the mutex that guards them, and then closes the descriptor. A lock that
//! another thread takes in between is dropped (seen in one of 300,000 transactions, with
//! one copy of SQLite in the process too; within seconds if `close` is delayed by 0.3 ms).
//! Our copy does not have this fault, as closing drops no lock there.
//!
//! Must never: link that library into the tests. Its symbols would be those of our copy,
//! and there would be one copy only.

use std::env;
use std::fs;
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
    let folder = PathBuf::from(env::var_os("OUT_DIR").unwrap());
    let library = folder.join("libneighbour.so");
    let amalgamation = PathBuf::from(include).join("sqlite3.c");
    let source = fs::read_to_string(&amalgamation).expect("the amalgamation can be read");
    fs::write(folder.join("sqlite3.c"), fixed(&source)).expect("the output folder is writable");
    let mut build = cc::Build::new();
    let compiler = build.opt_level(2).debug(false).warnings(false).pic(true).get_compiler();
    let mut command = compiler.to_command();
    command.args(["-w", "-shared", "-fvisibility=hidden"]).args(DEFINES);
    command.arg("-I").arg(&folder).arg("src/neighbour.c").arg("-o").arg(&library);
    command.args(["-lpthread", "-lm"]);
    let status = command.status().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(status.success(), "{command:?}: {status}");
    println!("cargo::rustc-env=LEAFPRESS_NEIGHBOUR_LIBRARY={}", library.display());
}

/// SQLite's source, with the descriptor closed while the mutex is held.
fn fixed(source: &str) -> String {
    const LOOK: &str = "    setPendingFd(pFile);
  }
  sqlite3_mutex_leave(pInode->pLockMutex);
  releaseInodeInfo(pFile);";
    const CLOSE: &str = "    setPendingFd(pFile);
  }else if( pFile->h>=0 ){
    robust_close(pFile, pFile->h, __LINE__);
    pFile->h = -1;
  }
  sqlite3_mutex_leave(pInode->pLockMutex);
  releaseInodeInfo(pFile);";
    assert_eq!(source.matches(LOOK).count(), 1, "unixClose is another one in this SQLite");
    source.replace(LOOK, CLOSE)
}
