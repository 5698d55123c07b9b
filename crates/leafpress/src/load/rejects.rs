//! Bad rows that are left out: each as it was, and a log of where and why.
//!
//! Rows arrive in the input's order. The file of rows begins with the input's header, and with
//! the lines in front of it that make the same command line read it ([`RejectsHead`]), so that
//! it can be mended and loaded as it is.
//!
//! Must never: overwrite a file that was there before, but for an empty one, which holds
//! nothing; or leave files without a row behind.

use std::collections::BTreeMap;
use std::io::{self, BufWriter, Seek, Write};
use std::path::{Path, PathBuf};

use super::csv_reading::RejectsHead;
use super::options::OnError;
use super::report::RejectReason;
use crate::error::{BadRow, Error, ErrorKind, Result};
use crate::input::detect_encoding::is_other;
use crate::paths::folder_of;
use crate::refusal::why_not_writable;
use crate::rights::Rights;
use crate::vfs::locks::{FileHandle, Open};
use crate::words::path_text;

/// Counts the bad rows, and writes them where a file was named.
#[derive(Debug)]
pub struct Rejects {
    count: u64,
    limit: Option<u64>,
    /// Whether the first bad row is the error itself.
    stops: bool,
    /// Rows that wait for [`Rejects::release`], if they come out of order.
    held: Option<Vec<Rejected>>,
    /// The names of the inputs, in their order.
    inputs: Vec<String>,
    files: Option<Files>,
    keep: bool,
    /// The first few.
    shown: Vec<BadRow>,
    shown_max: usize,
    /// How many rows there are for each reason, without what differs from row to row.
    reasons: BTreeMap<String, u64>,
}

/// A bad row.
#[derive(Debug)]
struct Rejected {
    bad: BadRow,
    /// The row as it was.
    bytes: Vec<u8>,
    words: Words,
}

/// Author of a reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Words {
    /// Leafpress, which names values and lines.
    Own,
    /// SQLite, which gives the texts of the declaration: the names of columns, a CHECK, the
    /// message of a trigger.
    Sqlite,
}

/// Rows that a load shows of those that were rejected.
pub const SHOWN_MAX: usize = 10;
/// Reasons that are counted each for itself. More than these differ from row to row after all,
/// and must not fill the memory.
const REASONS_MAX: usize = 1000;
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";
const OTHER_REASONS: &str = "other reasons";

#[derive(Debug)]
struct Files {
    rows: RejectsFile,
    log: RejectsFile,
    /// True if a byte order mark must say that the file is UTF-8, as `--encoding` names another
    /// encoding.
    has_mark: bool,
    /// The lines in front of the header, of inputs of CSV.
    head: Option<RejectsHead>,
    /// The header of the inputs, with its line end.
    header: Option<Vec<u8>>,
    is_begun: bool,
}

#[derive(Debug)]
struct RejectsFile {
    path: PathBuf,
    file: BufWriter<FileHandle>,
    /// Whether an empty file was there before.
    was_there: bool,
}

impl Rejects {
    /// Makes the files, if rows are to be skipped into one.
    pub fn create(on_error: &OnError, encoding: Option<&str>, rights: Rights) -> Result<Self> {
        let OnError::Skip { rejects, max_rejects } = on_error else {
            let mut rejects = Self::new(None, None);
            rejects.stops = true;
            return Ok(rejects);
        };
        let mut files = rejects.as_deref().map(|path| Files::create(path, rights)).transpose()?;
        if let Some(files) = &mut files {
            files.has_mark = is_other(encoding);
        }
        Ok(Self::new(*max_rejects, files))
    }

    /// Counts without end and remembers the first `shown_max`.
    pub fn only_shown(shown_max: usize) -> Self {
        Self::new(None, None).showing(shown_max)
    }

    /// Remembers the first `shown_max` rows in place of [`SHOWN_MAX`].
    pub fn showing(mut self, shown_max: usize) -> Self {
        self.shown_max = shown_max;
        self
    }

    fn new(limit: Option<u64>, files: Option<Files>) -> Self {
        Self {
            count: 0,
            limit,
            stops: false,
            held: None,
            inputs: Vec::new(),
            files,
            keep: false,
            shown: Vec::new(),
            shown_max: SHOWN_MAX,
            reasons: BTreeMap::new(),
        }
    }

    /// The first bad rows.
    pub fn take_shown(&mut self) -> Vec<BadRow> {
        std::mem::take(&mut self.shown)
    }

    /// Why rows were rejected, the most frequent reason first.
    pub fn take_reasons(&mut self) -> Vec<RejectReason> {
        let reasons = std::mem::take(&mut self.reasons).into_iter();
        let mut reasons: Vec<_> =
            reasons.map(|(reason, rows)| RejectReason { reason, rows }).collect();
        reasons.sort_by_key(|reason| std::cmp::Reverse(reason.rows));
        reasons
    }

    /// The lines that the file of rows begins with.
    pub fn set_head(&mut self, head: RejectsHead) {
        if let Some(files) = &mut self.files {
            files.head = Some(head);
        }
    }

    /// The header of the inputs, as it stands there; the first one counts.
    pub fn set_header(&mut self, header: &[u8]) {
        if let Some(files) = &mut self.files {
            files.header.get_or_insert_with(|| header.to_vec());
        }
    }

    /// Bad rows so far.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Adds a bad row, given with its bytes; an error if it is one too many.
    pub fn add(&mut self, bad: BadRow, row: &[u8], words: Words) -> Result<()> {
        if self.stops {
            return Err(bad.into());
        }
        if let Some(held) = &mut self.held {
            held.push(Rejected { bad, bytes: row.to_vec(), words });
            return Ok(());
        }
        self.count += 1;
        if let Some(files) = &mut self.files {
            files.add(&bad, row)?;
        }
        if self.shown.len() < self.shown_max {
            self.shown.push(bad.clone());
        }
        let mut reason = match words {
            Words::Own => without_values(&bad.reason),
            Words::Sqlite => bad.reason.clone(),
        };
        if self.reasons.len() >= REASONS_MAX && !self.reasons.contains_key(&reason) {
            OTHER_REASONS.clone_into(&mut reason);
        }
        *self.reasons.entry(reason).or_default() += 1;
        match self.limit {
            Some(limit) if self.count > limit => {
                self.keep = true;
                self.flush()?;
                let rejected = self.count;
                Err(ErrorKind::TooManyRejects { rejected, limit, last: Box::new(bad) }.into())
            }
            _ => Ok(()),
        }
    }

    /// From now on rows of these inputs wait until they are released.
    pub fn hold(&mut self, inputs: Vec<String>) {
        self.held = Some(Vec::new());
        self.inputs = inputs;
    }

    /// Adds the rows that wait, in the input's order.
    pub fn release(&mut self) -> Result<()> {
        let Some(mut held) = self.held.take() else { return Ok(()) };
        let file = |bad: &BadRow| {
            self.inputs.iter().position(|name| *name == bad.file).unwrap_or(usize::MAX)
        };
        held.sort_by_cached_key(|Rejected { bad, .. }| (file(bad), bad.line, bad.column));
        held.drain(..).try_for_each(|Rejected { bad, bytes, words }| self.add(bad, &bytes, words))
    }

    /// Forgets all rows, as the input is read anew.
    pub fn restart(&mut self) -> Result<()> {
        self.count = 0;
        self.held = None;
        self.shown.clear();
        self.reasons.clear();
        self.files.as_mut().map_or(Ok(()), Files::restart)
    }

    /// Completes the files.
    pub fn flush(&mut self) -> Result<()> {
        self.files.as_mut().map_or(Ok(()), Files::flush)
    }

    /// Leaves the files where they are, if they hold a row; without this they go away again.
    pub fn keep(mut self) {
        self.keep = self.count > 0;
    }
}

impl Drop for Rejects {
    fn drop(&mut self) {
        let Some(files) = &mut self.files else { return };
        let _ = files.flush();
        if !self.keep {
            files.rows.take_away();
            files.log.take_away();
        }
    }
}

impl Files {
    fn create(path: &Path, rights: Rights) -> Result<Self> {
        let log_path = log_of(path);
        // Both are looked at before one is made.
        let (rows_is_there, log_is_there) = (is_there(path)?, is_there(&log_path)?);
        let rows = RejectsFile::open(path, rows_is_there, rights)?;
        let log =
            RejectsFile::open(&log_path, log_is_there, rights).inspect_err(|_| rows.take_away())?;
        Ok(Self { rows, log, has_mark: false, head: None, header: None, is_begun: false })
    }

    fn add(&mut self, bad: &BadRow, row: &[u8]) -> Result<()> {
        if !self.is_begun {
            self.begin(row)?;
        }
        self.rows.write_line(row)?;
        let BadRow { file, line, column, reason, .. } = bad;
        self.log.write_line(format!("{file}:{line}:{column}: {reason}").as_bytes())
    }

    /// Writes what stands in front of the first row.
    fn begin(&mut self, row: &[u8]) -> Result<()> {
        if self.has_mark {
            self.rows.write(BYTE_ORDER_MARK)?;
        }
        if let Some(head) = self.head {
            let name = path_text(&self.rows.path);
            let lines = head.bytes(&name, self.header.as_deref().unwrap_or(row));
            self.rows.write(&lines)?;
        }
        if let Some(header) = &self.header {
            self.rows.write_line(header)?;
        }
        self.is_begun = true;
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        self.rows.flush()?;
        self.log.flush()
    }

    fn restart(&mut self) -> Result<()> {
        self.is_begun = false;
        self.rows.restart()?;
        self.log.restart()
    }
}

impl RejectsFile {
    fn open(path: &Path, was_there: bool, rights: Rights) -> Result<Self> {
        let opened = if was_there {
            FileHandle::open_as(path, Open::ReadWrite)
        } else {
            FileHandle::create(path, rights)
        };
        let file = opened.map_err(|error| {
            if error.kind() == io::ErrorKind::AlreadyExists {
                taken(path)
            } else {
                not_made(path, error)
            }
        })?;
        Ok(Self { path: path.to_owned(), file: BufWriter::new(file), was_there })
    }

    fn write_line(&mut self, line: &[u8]) -> Result<()> {
        self.write(line)?;
        self.write(if line.ends_with(b"\n") { b"" } else { b"\n" })
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.file.write_all(bytes).map_err(|error| Error::io("write", &self.path, error))
    }

    fn flush(&mut self) -> Result<()> {
        self.file.flush().map_err(|error| Error::io("write", &self.path, error))
    }

    fn restart(&mut self) -> Result<()> {
        self.file
            .rewind()
            .and_then(|()| self.file.get_ref().set_len(0))
            .map_err(|error| Error::io("write", &self.path, error))
    }

    /// Removes the file; one that was there before is as it was again.
    fn take_away(&self) {
        if self.was_there {
            let _ = self.file.get_ref().set_len(0);
        } else {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Whether an empty file is there; an error if something else is.
fn is_there(path: &Path) -> Result<bool> {
    match path.symlink_metadata() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(not_made(path, error)),
        Ok(metadata) if metadata.is_file() && metadata.len() == 0 => Ok(true),
        Ok(_) => Err(taken(path)),
    }
}

/// A reason without what differs from row to row: texts in quotes, and numbers that are no
/// part of a name.
fn without_values(reason: &str) -> String {
    let mut kind = String::new();
    let mut rest = reason.chars().peekable();
    while let Some(c) = rest.next() {
        kind.push(c);
        match c {
            '"' => {
                // A name stays as it is.
                for c in rest.by_ref() {
                    kind.push(c);
                    if c == '"' {
                        break;
                    }
                }
            }
            '\'' => {
                // A value may hold quotes; its end is the last one.
                let value: String = rest.by_ref().collect();
                kind.push('…');
                let end = value.rfind('\'').unwrap_or(value.len());
                kind.push_str(&value[end..]);
            }
            c if c.is_ascii_digit() => {
                kind.pop();
                // A hexadecimal number, too.
                while rest.next_if(char::is_ascii_alphanumeric).is_some() {}
                kind.push('…');
            }
            c if c.is_alphabetic() || c == '_' => {
                while let Some(c) = rest.next_if(|c| c.is_alphanumeric() || "_-".contains(*c)) {
                    kind.push(c);
                }
            }
            _ => {}
        }
    }
    kind
}

/// Refuses what [`Rejects::create`] would refuse, and makes nothing.
pub fn look_at(path: &Path) -> Result<()> {
    for path in [path, &log_of(path)] {
        let folder = folder_of(path);
        let place = if is_there(path)? { path } else { &folder };
        match folder.metadata() {
            Err(error) => return Err(not_made(path, error)),
            Ok(found) if !found.is_dir() => {
                return Err(not_made(path, io::ErrorKind::NotADirectory.into()));
            }
            Ok(_) => {}
        }
        if let Some(why) = why_not_writable(place) {
            return Err(not_made(path, io::Error::new(io::ErrorKind::PermissionDenied, why)));
        }
    }
    Ok(())
}

/// The file that says of each rejected row where it stands and what is wrong with it.
pub fn log_of(rejects: &Path) -> PathBuf {
    let mut log = rejects.as_os_str().to_owned();
    log.push(".log");
    log.into()
}

fn not_made(path: &Path, source: io::Error) -> Error {
    Error::io("create", path, source)
        .on_disk("nothing was written")
        .to_do("name a file with ⟦rejects⟧ in a folder that is there and that you may write to")
}

fn taken(path: &Path) -> Error {
    let reason = "it exists already, and rejects never overwrite a file".to_owned();
    Error::from(ErrorKind::Destination { path: path.to_owned(), reason })
        .on_disk("it is as it was")
        .to_do("see to the rows in it and move it away, or name another file with ⟦rejects⟧")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_counted_without_their_values() {
        for (reason, expected) in [
            (
                "column \"age 7\": 'abc' is not an INTEGER",
                "column \"age 7\": '…' is not an INTEGER",
            ),
            ("column \"x\": 'it's 7' is not a REAL", "column \"x\": '…' is not a REAL"),
            (
                "the row has 3 fields, the table 12 columns",
                "the row has … fields, the table … columns",
            ),
            (
                "column \"id\": line 17 has its primary key already",
                "column \"id\": line … has its primary key already",
            ),
            ("invalid UTF-8: byte 0x9f", "invalid UTF-8: byte …"),
        ] {
            assert_eq!(without_values(reason), expected);
        }
    }

    #[test]
    fn what_sqlite_says_is_counted_as_it_is() {
        let mut rejects = Rejects::only_shown(1);
        let mut add = |reason: &str, words| {
            let bad = BadRow {
                file: "a.csv".to_owned(),
                line: 2,
                column: 1,
                reason: reason.to_owned(),
                row: "1".to_owned(),
            };
            rejects.add(bad, b"1", words).unwrap();
        };
        add("CHECK constraint failed: a > 10", Words::Sqlite);
        add("CHECK constraint failed: a > 10", Words::Sqlite);
        add("CHECK constraint failed: b <> 'x1'", Words::Sqlite);
        add("line 10 has its primary key already", Words::Own);
        let reasons = rejects.take_reasons();
        let mut reasons: Vec<_> = reasons.iter().map(|it| (it.rows, it.reason.as_str())).collect();
        reasons.sort_unstable();
        let expected = [
            (1, "CHECK constraint failed: b <> 'x1'"),
            (1, "line … has its primary key already"),
            (2, "CHECK constraint failed: a > 10"),
        ];
        assert_eq!(reasons, expected);
    }

    #[test]
    fn files_without_a_row_go_away_and_others_are_not_touched() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("bad.csv");
        let log = folder.path().join("bad.csv.log");
        let skip = OnError::Skip { rejects: Some(path.clone()), max_rejects: None };
        let rights = Rights::of(&folder.path().join("app.db"));
        Rejects::create(&skip, None, rights).unwrap().keep();
        assert!(!path.exists() && !log.exists());
        // One of an earlier version, or of mktemp.
        drop(FileHandle::create(&path, rights).unwrap());
        Rejects::create(&skip, None, rights).unwrap().keep();
        assert!(path.exists() && !log.exists());
        let bad = BadRow {
            file: "a.csv".to_owned(),
            line: 2,
            column: 1,
            reason: "bad".to_owned(),
            row: "1".to_owned(),
        };
        let mut rejects = Rejects::create(&skip, None, rights).unwrap();
        rejects.set_header(b"a,b\n");
        rejects.add(bad.clone(), b"1", Words::Own).unwrap();
        rejects.restart().unwrap();
        rejects.add(bad, b"1", Words::Own).unwrap();
        rejects.keep();
        let text = crate::vfs::locks::read_to_string(&path).unwrap();
        assert_eq!(text, "a,b\n1\n");
        let error = Rejects::create(&skip, None, rights).unwrap_err();
        assert!(error.to_string().contains("never overwrite"), "{error}");
        assert_eq!(crate::vfs::locks::read_to_string(&path).unwrap(), text);
    }
}
