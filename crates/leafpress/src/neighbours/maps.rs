//! Reads `/proc/PID/maps`: which files a process runs, and which parts of them it has mapped.
//!
//! Stands under [`super::processes`]. Knows nothing but that text:
//!
//! ```text
//! 7f2c4a000000-7f2c4a0f0000 r-xp 00010000 fe:00 4711   /usr/lib/libsqlite3.so.0.8.6
//! range                     perm offset   device inode file
//! ```
//!
//! Only files that are mapped to be run count, and the program itself, whose code some
//! runtimes copy to memory without a file. SQLite maps the `-shm` file of a database too,
//! whatever that is called.
//!
//! Must never: fail on a line that it does not understand.

use std::ops::Range;

/// A file that a process runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunFile<'t> {
    /// Its path, as the process sees it.
    pub path: &'t str,
    /// True if the path led elsewhere, or nowhere, when this was read.
    pub is_deleted: bool,
    /// Its inode.
    pub inode: u64,
    /// Its parts that are mapped, in order, none of which touch.
    pub parts: Vec<Range<u64>>,
    /// A range of addresses, by which the system names one of these mappings.
    pub addresses: Range<u64>,
    is_run: bool,
}

impl RunFile<'_> {
    /// Returns true if the name tells of SQLite, of Leafpress, or of eatmydata.
    pub fn has_telling_name(&self) -> bool {
        let name = self.path.rsplit('/').next().unwrap_or(self.path).to_ascii_lowercase();
        ["sqlite", "leafpress", "eatmydata"].iter().any(|word| name.contains(word))
    }

    /// Number of mapped bytes.
    pub fn bytes(&self) -> u64 {
        self.parts.iter().map(|part| part.end - part.start).sum()
    }
}

/// The files that a process runs, each once, the smallest first. `program`: the path of its program.
pub fn files<'t>(text: &'t str, program: Option<&str>) -> Vec<RunFile<'t>> {
    let mut found: Vec<RunFile<'t>> = Vec::new();
    for line in text.lines().filter_map(file_of_line) {
        let is_same = |it: &RunFile<'_>| {
            (it.path, it.is_deleted, it.inode) == (line.path, line.is_deleted, line.inode)
        };
        match found.iter().rposition(is_same) {
            Some(at) => {
                found[at].parts.extend(line.parts);
                found[at].is_run |= line.is_run;
            }
            None => found.push(line),
        }
    }
    found.retain(|file| file.is_run || Some(file.path) == program);
    for file in &mut found {
        file.parts = joined(std::mem::take(&mut file.parts));
    }
    found.sort_by_key(RunFile::bytes);
    found
}

fn file_of_line(line: &str) -> Option<RunFile<'_>> {
    let mut rest = line;
    let mut fields = [""; 5];
    for field in &mut fields {
        rest = rest.trim_start();
        let end = rest.find(' ').unwrap_or(rest.len());
        (*field, rest) = rest.split_at(end);
    }
    let [addresses, permissions, offset, _, inode] = fields;
    let named = rest.trim_start();
    let path = named.strip_suffix(" (deleted)").unwrap_or(named);
    if !path.starts_with('/') {
        return None;
    }
    let number = |text| u64::from_str_radix(text, 16).ok();
    let (from, to) = addresses.split_once('-')?;
    let (addresses, offset) = (number(from)?..number(to)?, number(offset)?);
    let bytes = addresses.end.checked_sub(addresses.start)?;
    let part = offset..offset.checked_add(bytes)?;
    Some(RunFile {
        path,
        is_deleted: path != named,
        inode: inode.parse().ok()?,
        parts: vec![part],
        addresses,
        is_run: permissions.contains('x'),
    })
}

/// The ranges in order, those that touch as one.
fn joined(mut parts: Vec<Range<u64>>) -> Vec<Range<u64>> {
    parts.sort_by_key(|part| part.start);
    let mut joined: Vec<Range<u64>> = Vec::new();
    for part in parts {
        match joined.last_mut() {
            Some(last) if part.start <= last.end => last.end = last.end.max(part.end),
            _ => joined.push(part),
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TEXT: &str = "\
55d0c0000000-55d0c0001000 r--p 00000000 fe:00 10      /usr/bin/python3.11
55d0c0001000-55d0c0002000 r-xp 00001000 fe:00 10      /usr/bin/python3.11
55d0c0004000-55d0c0005000 rw-p 00004000 fe:00 10      /usr/bin/python3.11
7f2c4a000000-7f2c4a010000 r--p 00000000 fe:00 11      /usr/lib/libsqlite3.so.0.8.6
7f2c4a010000-7f2c4a0f0000 r-xp 00010000 fe:00 11      /usr/lib/libsqlite3.so.0.8.6
7f2c4a0f0000-7f2c4a0f1000 r-xp 000f0000 fe:00 11      /usr/lib/libsqlite3.so.0.8.6
7f2c4b000000-7f2c4b010000 r-xp 00010000 fe:00 12      /opt/my libs/_sqlite3.so (deleted)
7f2c4c000000-7f2c4c008000 rw-s 00000000 fe:00 13      /data/sqlite.db-shm
7f2c4d000000-7f2c4d008000 rw-p 00000000 00:00 0
7f2c4e000000-7f2c4e001000 r--p 00000000 fe:00 14      /usr/bin/node
7ffd00000000-7ffd00001000 r-xp 00000000 00:00 0       [vdso]
";

    #[test]
    fn files_that_are_run_are_found_once_and_databases_are_none() {
        let found = files(TEXT, None);
        let paths: Vec<_> = found.iter().map(|it| (it.path, it.is_deleted, it.inode)).collect();
        let expected = [
            ("/usr/bin/python3.11", false, 10),
            ("/opt/my libs/_sqlite3.so", true, 12),
            ("/usr/lib/libsqlite3.so.0.8.6", false, 11),
        ];
        assert_eq!(paths, expected);
        assert_eq!(found[0].parts, [0..0x2000, 0x4000..0x5000]);
        let (one, whole) = (0x10000..0x20000, 0..0xf_1000);
        assert_eq!((&found[1].parts, &found[2].parts), (&vec![one], &vec![whole]));
        assert_eq!(found[1].addresses, 0x7f2c_4b00_0000..0x7f2c_4b01_0000);
        assert_eq!(
            found.iter().map(RunFile::has_telling_name).collect::<Vec<_>>(),
            [false, true, true]
        );
    }

    #[test]
    fn the_program_counts_though_its_code_is_elsewhere() {
        assert_eq!(files(TEXT, Some("/usr/bin/node"))[0].path, "/usr/bin/node");
    }

    proptest! {
        #[test]
        fn no_text_is_too_strange(text in "\\PC{0,200}", cut in 0..TEXT.len()) {
            let _ = files(&text, None);
            let _ = files(&TEXT[..cut], None);
        }
    }
}
