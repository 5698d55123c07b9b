//! Reads `/proc/PID/maps`: which libraries with SQLite in them a process has loaded.
//!
//! Stands under [`super::processes`]. Knows nothing but that text:
//!
//! ```text
//! 7f2c4a000000-7f2c4a0f0000 r-xp 00010000 fe:00 4711   /usr/lib/libsqlite3.so.0.8.6
//! range                     leave offset  device inode file
//! ```
//!
//! Only files that are mapped to be run count: SQLite maps the `-shm` file of a
//! database too, whatever that is called.
//!
//! Must never: fail on a line that it does not understand.

/// The files with `sqlite`, `leafpress` or `eatmydata` in their names that are mapped to be run,
/// each once.
pub fn libraries(text: &str) -> Vec<&str> {
    let mut found: Vec<&str> = Vec::new();
    for file in text.lines().filter_map(executable_file) {
        let name = file.rsplit('/').next().unwrap_or(file).to_ascii_lowercase();
        let is_wanted = ["sqlite", "leafpress", "eatmydata"].iter().any(|word| name.contains(word));
        if is_wanted && !found.contains(&file) {
            found.push(file);
        }
    }
    found
}

fn executable_file(line: &str) -> Option<&str> {
    let mut rest = line;
    let mut fields = [""; 5];
    for field in &mut fields {
        rest = rest.trim_start();
        let end = rest.find(' ').unwrap_or(rest.len());
        (*field, rest) = rest.split_at(end);
    }
    let file = rest.trim_start();
    let file = file.strip_suffix(" (deleted)").unwrap_or(file);
    (fields[1].contains('x') && file.starts_with('/')).then_some(file)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TEXT: &str = "\
55d0c0000000-55d0c0001000 r--p 00000000 fe:00 10      /usr/bin/python3.11
55d0c0001000-55d0c0002000 r-xp 00001000 fe:00 10      /usr/bin/python3.11
7f2c4a000000-7f2c4a010000 r--p 00000000 fe:00 11      /usr/lib/libsqlite3.so.0.8.6
7f2c4a010000-7f2c4a0f0000 r-xp 00010000 fe:00 11      /usr/lib/libsqlite3.so.0.8.6
7f2c4a0f0000-7f2c4a0f1000 r-xp 000f0000 fe:00 11      /usr/lib/libsqlite3.so.0.8.6
7f2c4b000000-7f2c4b010000 r-xp 00010000 fe:00 12      /opt/my libs/_sqlite3.so (deleted)
7f2c4c000000-7f2c4c008000 rw-s 00000000 fe:00 13      /data/sqlite.db-shm
7f2c4d000000-7f2c4d008000 rw-p 00000000 00:00 0
7ffd00000000-7ffd00001000 r-xp 00000000 00:00 0       [vdso]
";

    #[test]
    fn libraries_are_named_once_and_databases_are_none() {
        assert_eq!(libraries(TEXT), ["/usr/lib/libsqlite3.so.0.8.6", "/opt/my libs/_sqlite3.so"]);
    }

    proptest! {
        #[test]
        fn no_text_is_too_strange(text in "\\PC{0,200}", cut in 0..TEXT.len()) {
            let _ = libraries(&text);
            let _ = libraries(&TEXT[..cut]);
        }
    }
}
