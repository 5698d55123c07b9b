//! Finds out if a file of code has SQLite inside, and which version.
//!
//! A library of another process cannot be asked. The texts in it are evidence:
//!
//! | text | shows |
//! |---|---|
//! | one that the core of SQLite writes to its error log | SQLite's code is in the file. A program that only calls SQLite does not have it, nor has an extension |
//! | the time of a check-in and a hash, `2022-12-28 14:03:47 df5c…` | the length of the hash tells versions before 3.18 from later ones |
//! | the version, `3.40.1`, with a zero byte behind it | the version, unless another number in the file can be one too |
//!
//! A version is thin evidence: Python's `3.12.1` looks like one of SQLite. So a file with two
//! has none.
//!
//! Must never: read without a limit, or say of a file that was not read to its end that no
//! SQLite is in it.

use std::collections::{BTreeSet, HashMap};
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::ops::Range;
use std::path::Path;
use std::sync::{LazyLock, Mutex};
use std::time::{Duration, Instant};

use super::maps::RunFile;
use crate::sync::lock;
use crate::vfs::locks::FileHandle;

/// In each SQLite since 3.7.0, whose log of errors has it.
const TEXT_OF_CORE: &[u8] = b"API call with %s database connection pointer";
/// Bytes that are looked at together.
const PIECE_BYTES: usize = 1 << 20;
/// Bytes of a piece that are looked at once more with the next: more than the longest text.
const OVERLAP_BYTES: usize = 256;
/// Limits of one look: enough for all but the largest programs, which have their code in memory
/// already.
const LOOK_BYTES_MAX: u64 = 2 << 30;
const LOOK_TIME_MAX: Duration = Duration::from_secs(3);
/// Files that are remembered.
const KNOWN_MAX: usize = 10_000;

/// SQLite in a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Contents {
    /// Its code is there.
    pub holds_sqlite: bool,
    /// The version, if one text tells it.
    pub version: Option<String>,
}

/// A file as it was, and the parts of it that were looked at. A change gives another one.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Key {
    device: u64,
    inode: u64,
    bytes: u64,
    changed: (i64, i64),
    parts: Vec<Range<u64>>,
}

/// The doctor looks several times at the same processes, and these have the same files.
static KNOWN: LazyLock<Mutex<HashMap<Key, Contents>>> = LazyLock::new(Mutex::default);

/// The effort that is left for one look at all processes.
#[derive(Debug)]
pub struct Effort {
    bytes: u64,
    until: Instant,
}

impl Effort {
    /// The effort of a look that begins now.
    pub fn begin() -> Self {
        Self { bytes: LOOK_BYTES_MAX, until: Instant::now() + LOOK_TIME_MAX }
    }

    fn spend(&mut self, bytes: usize) -> io::Result<()> {
        self.bytes = self.bytes.saturating_sub(bytes as u64);
        if self.bytes == 0 || Instant::now() > self.until {
            return Err(io::Error::other("it takes too long"));
        }
        Ok(())
    }
}

/// The SQLite in a file that a process runs; `None` if the file cannot be read, or not in time.
pub fn of_file(pid: u32, file: &RunFile<'_>, effort: &mut Effort) -> Option<Contents> {
    use std::os::unix::fs::MetadataExt as _;

    // The path as the process sees it, which may be in a container.
    let by_name = format!("/proc/{pid}/root{}", file.path);
    let is_it = |path: &str| {
        std::fs::metadata(path).ok().filter(|facts| facts.ino() == file.inode && !file.is_deleted)
    };
    let (path, facts) = if let Some(facts) = is_it(&by_name) {
        (by_name, facts)
    } else {
        // The file itself, whatever has its name now; for root only.
        let Range { start, end } = &file.addresses;
        let mapped = format!("/proc/{pid}/map_files/{start:x}-{end:x}");
        let facts = std::fs::metadata(&mapped).ok()?;
        (mapped, facts)
    };
    if !facts.is_file() {
        // A device: memory without a file.
        return Some(Contents::default());
    }
    let key = Key {
        device: facts.dev(),
        inode: facts.ino(),
        bytes: facts.len(),
        changed: (facts.ctime(), facts.ctime_nsec()),
        parts: file.parts.clone(),
    };
    if let Some(contents) = lock(&KNOWN).get(&key) {
        return Some(contents.clone());
    }
    let contents = read(Path::new(&path), &file.parts, effort).ok()?;
    let mut known = lock(&KNOWN);
    if known.len() >= KNOWN_MAX {
        known.clear();
    }
    known.insert(key, contents.clone());
    Some(contents)
}

/// SQLite's number for a version: 3.40.1 is 3040001.
pub fn number(version: &str) -> Option<i32> {
    let mut parts = version.split('.').map(|part| {
        let is_plain = part.len() <= 3 && part.bytes().all(|byte| byte.is_ascii_digit());
        part.parse::<i32>().ok().filter(|_| is_plain)
    });
    let (major, minor, patch) = (parts.next()??, parts.next()??, parts.next()??);
    parts.next().is_none().then_some(major * 1_000_000 + minor * 1000 + patch)
}

/// Most files have no SQLite, so the version is looked for only in those that have one.
fn read(path: &Path, parts: &[Range<u64>], effort: &mut Effort) -> io::Result<Contents> {
    let mut file = FileHandle::open(path)?;
    let core = memchr::memmem::Finder::new(TEXT_OF_CORE);
    let mut holds_sqlite = false;
    for part in parts {
        in_pieces(&mut file, part, effort, |piece, _| {
            holds_sqlite |= core.find(piece).is_some();
            holds_sqlite
        })?;
        if holds_sqlite {
            break;
        }
    }
    if !holds_sqlite {
        return Ok(Contents::default());
    }
    let mut texts = Texts::default();
    for part in parts {
        in_pieces(&mut file, part, effort, |piece, is_first| {
            texts.collect(piece, is_first);
            false
        })?;
    }
    Ok(Contents { holds_sqlite, version: texts.version() })
}

/// Passes a part of a file on in pieces that overlap, until `is_enough` says so. It also hears
/// if a piece is the first.
fn in_pieces(
    file: &mut FileHandle,
    part: &Range<u64>,
    effort: &mut Effort,
    mut is_enough: impl FnMut(&[u8], bool) -> bool,
) -> io::Result<()> {
    file.seek(SeekFrom::Start(part.start))?;
    let mut rest = file.by_ref().take(part.end - part.start);
    let mut piece = Vec::with_capacity(PIECE_BYTES + OVERLAP_BYTES);
    let mut is_first = true;
    loop {
        let read = rest.by_ref().take(PIECE_BYTES as u64).read_to_end(&mut piece)?;
        effort.spend(read)?;
        let is_end = read == 0 && !is_first;
        if is_end || is_enough(&piece, is_first) {
            return Ok(());
        }
        piece.drain(..piece.len().saturating_sub(OVERLAP_BYTES));
        is_first = false;
    }
}

/// Texts of a file that has SQLite inside.
#[derive(Debug, Default)]
struct Texts {
    /// Lengths of the hashes of check-ins: 40 digits before 3.18.0, 64 since; SQLite marks sources
    /// that were changed by its last digits.
    has_short_hash: bool,
    has_long_hash: bool,
    /// Numbers that can be versions of SQLite.
    versions: BTreeSet<String>,
}

impl Texts {
    fn collect(&mut self, piece: &[u8], is_first: bool) {
        const DATE: &[u8] = b"dddd-dd-dd dd:dd:dd ";
        let is_date = |window: &[u8]| {
            window.iter().zip(DATE).all(|(byte, wanted)| match wanted {
                b'd' => byte.is_ascii_digit(),
                wanted => byte == wanted,
            })
        };
        for at in memchr::memmem::find_iter(piece, b"20") {
            let hash = at + DATE.len();
            if !piece.get(at..hash).is_some_and(is_date) {
                continue;
            }
            let digits = piece[hash..].iter().take_while(|it| it.is_ascii_hexdigit()).count();
            self.has_long_hash |= digits >= 60;
            // One that the piece cuts is whole in the next.
            self.has_short_hash |= digits == 40 && piece.len() > hash + digits;
        }
        for at in memchr::memmem::find_iter(piece, b"3.") {
            // A letter or a digit makes it another name or number: OPENSSL_3.0.0.
            let is_begin = match at.checked_sub(1) {
                Some(before) => !piece[before].is_ascii_graphic(),
                None => is_first,
            };
            let text = &piece[at..piece.len().min(at + "3.999.999".len() + 1)];
            let end = text.iter().position(|&byte| byte == 0).filter(|_| is_begin);
            let text = end.and_then(|end| std::str::from_utf8(&text[..end]).ok());
            self.versions.extend(text.filter(|it| number(it).is_some()).map(str::to_owned));
        }
    }

    /// The one number that fits the check-in.
    fn version(&self) -> Option<String> {
        const FIRST_LONG: i32 = 3_018_000;
        let fits = |number: i32| match (self.has_short_hash, self.has_long_hash) {
            (_, true) => number >= FIRST_LONG,
            (true, false) => (3_007_000..FIRST_LONG).contains(&number),
            (false, false) => false,
        };
        let mut versions = self.versions.iter().filter(|it| number(it).is_some_and(fits));
        let first = versions.next()?;
        versions.next().is_none().then(|| first.clone())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use proptest::prelude::*;

    use super::*;

    const SOURCE: &str =
        "2022-12-28 14:03:47 df5c253c0b3dd24916e4ec7cf77d3db5294cc9fd45ae7b9c5e82ad8197f3alt1";
    const OLD_SOURCE: &str = "2013-05-20 00:56:22 118a3b35693b134d56ebd780123b7fd6f1497668";
    const CORE: &str = "API call with %s database connection pointer\0";

    fn of_bytes(bytes: &[u8]) -> Contents {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(bytes).unwrap();
        let whole = 0..bytes.len() as u64;
        read(file.path(), std::slice::from_ref(&whole), &mut Effort::begin()).unwrap()
    }

    fn version(text: &str) -> Option<String> {
        let contents = of_bytes(text.as_bytes());
        assert!(contents.holds_sqlite);
        contents.version
    }

    #[test]
    fn the_version_is_found_behind_any_byte_that_is_no_text() {
        for before in ["\0", "\x01", "\n", "\u{80}"] {
            let library = format!("\x7fELF\0{CORE}{SOURCE}{before}3.40.1\0more\0python-3.12.1\0");
            assert_eq!(version(&library).as_deref(), Some("3.40.1"), "{before:?}");
        }
        let twice = format!("3.40.1\0{CORE}{SOURCE}\x003.40.1\0OPENSSL_3.20.0\0\x003.0.19\0");
        assert_eq!(version(&twice).as_deref(), Some("3.40.1"));
        let old = format!("{CORE}{OLD_SOURCE}\0\x003.7.17\0\x003.21.12\0");
        assert_eq!(version(&old).as_deref(), Some("3.7.17"));
    }

    #[test]
    fn what_is_not_sure_is_no_version() {
        for library in [
            format!("{CORE}\x003.40.1\0"),
            format!("{CORE}{SOURCE}\x003.40.1\x003.41.0\0"),
            format!("{CORE}{SOURCE}\x003.40\0"),
            format!("{CORE}{SOURCE}\x003.40.1.2\x003.x.1\x003.1234.1\0x3.40.1\0"),
            format!("{CORE}{OLD_SOURCE}\x003.40.1\0"),
            format!("{CORE}{SOURCE}"),
            format!("{CORE}{}\x003.40.1\0", &SOURCE[..50]),
        ] {
            assert_eq!(version(&library), None, "{library:?}");
        }
    }

    #[test]
    fn a_program_that_calls_sqlite_has_none_inside() {
        // The `sqlite3` of Debian, and each extension, has the text of the check-in.
        let library = format!("{SOURCE}\x003.40.1\0SQL logic error\0");
        assert_eq!(of_bytes(library.as_bytes()), Contents::default());
        assert_eq!(of_bytes(b""), Contents::default());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(16))]
        #[test]
        fn texts_are_found_wherever_a_piece_ends(from in PIECE_BYTES - 400..PIECE_BYTES + 50) {
            let mut bytes = vec![b'.'; from];
            bytes.extend(format!("{CORE}{OLD_SOURCE}\x003.7.17\0").bytes());
            bytes.resize(2 * PIECE_BYTES + 7, 0);
            let version = Some("3.7.17".to_owned());
            prop_assert_eq!(of_bytes(&bytes), Contents { holds_sqlite: true, version });
        }
    }

    #[test]
    fn a_file_that_is_too_large_for_a_look_is_not_called_free_of_sqlite() {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(3 * PIECE_BYTES as u64).unwrap();
        let whole = 0..3 * PIECE_BYTES as u64;
        let parts = std::slice::from_ref(&whole);
        let mut effort = Effort { bytes: 2 * PIECE_BYTES as u64, ..Effort::begin() };
        read(file.path(), parts, &mut effort).unwrap_err();
        read(file.path(), parts, &mut Effort::begin()).unwrap();
    }

    #[test]
    fn a_version_is_a_number() {
        assert_eq!(number("3.40.1"), Some(3_040_001));
        assert_eq!(number("3.7.17"), Some(3_007_017));
        for none in ["", "3", "3.40", "3.40.1.1", "3.-1.1", "3.+1.1", "a.b.c", "3.40.9999999999"] {
            assert_eq!(number(none), None, "{none}");
        }
    }

    #[test]
    fn the_sqlite_of_this_program_is_found_in_it() {
        use super::super::maps;

        let own = std::env::current_exe().unwrap();
        let text = std::fs::read_to_string("/proc/self/maps").unwrap();
        let pid = std::process::id();
        let files = maps::files(&text, own.to_str());
        let copies: Vec<Contents> = files
            .iter()
            .filter_map(|file| of_file(pid, file, &mut Effort::begin()))
            .filter(|contents| contents.holds_sqlite)
            .collect();
        assert_eq!(copies.len(), 1, "{files:?}");
        // The texts of these tests are in it too.
        let version = copies[0].version.as_deref();
        assert!(version.is_none_or(|it| it == rusqlite::version()), "{copies:?}");
    }
}
