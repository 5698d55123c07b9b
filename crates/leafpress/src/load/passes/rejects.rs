//! Bad rows that are left out: a file with each row as it was, and a log of places and reasons.
//!
//! Rows arrive in the input's order. The file of rows begins with the input's header, and with the
//! lines in front of it that make the same command line read it ([`RejectsHead`]). So the file can
//! be corrected and loaded as it is.
//!
//! Must never: overwrite an existing file, except an empty one; or leave files without a row
//! behind.

use std::collections::BTreeMap;
use std::io::{self, BufWriter, Seek, Write};
use std::path::{Path, PathBuf};

use crate::error::{BadRow, Error, ErrorKind, Result};
use crate::input::csv::sniff::{self, CANDIDATES};
use crate::input::detect_encoding::{guess, is_other};
use crate::load::endings;
use crate::load::options::OnError;
use crate::load::report::RejectReason;
use crate::load::values::fields::is_not_utf8;
use crate::paths::{companion_of, folder_of};
use crate::refusal::why_not_writable;
use crate::rights::Rights;
use crate::vfs::locks::{FileHandle, Open};
use crate::words::path_text;

/// The lines at the beginning of a file of rejected rows. With them both the original command line
/// and one without its flags read the rows correctly.
#[derive(Debug, Clone, Copy)]
pub struct RejectsHead {
    /// Number of lines that `--skip-lines` leaves out. They are blank, and blank lines are no rows.
    pub skip_lines: u64,
    pub delimiter: u8,
    /// True if a line `sep=;` names the delimiter.
    pub is_csv: bool,
}

impl RejectsHead {
    /// Its bytes in the file `name`, in front of `first_line`.
    pub fn bytes(self, name: &str, first_line: &[u8]) -> Vec<u8> {
        let mut bytes: Vec<u8> = (0..self.skip_lines).map(|_| b'\n').collect();
        // A single record, or a few ragged ones, do not show which byte is the delimiter.
        let others = CANDIDATES.iter().filter(|byte| **byte != self.delimiter);
        let is_default =
            self.delimiter == b',' && !others.into_iter().any(|it| first_line.contains(it));
        let named = endings::delimiter(name);
        let is_found = named.map_or(is_default, |named| named == self.delimiter);
        if self.is_csv && !is_found && sniff::is_sep_delimiter(self.delimiter) {
            bytes.extend_from_slice(&[b's', b'e', b'p', b'=', self.delimiter, b'\n']);
        }
        bytes
    }
}

/// The error for a bad row; if its encoding is the fault, with the encoding that fits.
pub fn with_encoding(error: Error, bytes: &[u8]) -> Error {
    let is_text = bad_row_of(&error).is_some_and(|row| is_not_utf8(&row.reason));
    match is_text.then(|| guess(bytes)).flatten() {
        Some(guess) => error.to_do(guess.advice()),
        None => error,
    }
}

/// The bad row that an error is about.
pub fn bad_row_of(error: &Error) -> Option<&BadRow> {
    match error.kind() {
        ErrorKind::BadRow(row) | ErrorKind::TooManyRejects { last: row, .. } => Some(row),
        _ => None,
    }
}

/// Counts the bad rows, and writes them to a file if the caller named one.
#[derive(Debug)]
pub struct Rejects {
    count: u64,
    limit: Option<u64>,
    /// True if the first bad row is the error itself.
    stops: bool,
    /// Rows that wait for [`Rejects::release`], if they come out of order.
    held: Option<Vec<Rejected>>,
    /// Names of the inputs, in their order.
    inputs: Vec<String>,
    files: Option<Files>,
    keep: bool,
    /// First bad rows, for the report.
    shown: Vec<BadRow>,
    shown_max: usize,
    /// Number of rows for each reason; the reasons without values that differ from row to row.
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

/// Source of a reason's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Words {
    /// Leafpress, which names values and lines.
    Own,
    /// SQLite, which quotes the declaration: the names of columns, a CHECK, the message of a
    /// trigger.
    Sqlite,
}

/// Number of rejected rows in a report.
pub const SHOWN_MAX: usize = 10;
/// Limit of reasons that are counted separately. More than these differ from row to row after all,
/// and would fill the memory.
const REASONS_MAX: usize = 1000;
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";
const OTHER_REASONS: &str = "other reasons";

#[derive(Debug)]
struct Files {
    rows: RejectsFile,
    log: RejectsFile,
    /// True if the file needs a byte order mark to say that it is UTF-8, because `--encoding` names
    /// another encoding.
    has_mark: bool,
    /// The lines in front of the header, for inputs of CSV.
    head: Option<RejectsHead>,
    /// Header of the inputs, with its line end.
    header: Option<Vec<u8>>,
    is_begun: bool,
}

#[derive(Debug)]
struct RejectsFile {
    path: PathBuf,
    file: BufWriter<FileHandle>,
    /// True if there was an empty file before.
    was_there: bool,
}

impl Rejects {
    /// Makes the files, if rows are skipped into a file.
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

    /// Counts rows without a limit and keeps the first `shown_max`.
    pub fn only_shown(shown_max: usize) -> Self {
        Self::new(None, None).showing(shown_max)
    }

    /// Keeps the first `shown_max` rows instead of [`SHOWN_MAX`].
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

    /// First bad rows.
    pub fn take_shown(&mut self) -> Vec<BadRow> {
        std::mem::take(&mut self.shown)
    }

    /// Reasons for which rows were rejected, the most frequent one first.
    pub fn take_reasons(&mut self) -> Vec<RejectReason> {
        let reasons = std::mem::take(&mut self.reasons).into_iter();
        let mut reasons: Vec<_> =
            reasons.map(|(reason, rows)| RejectReason { reason, rows }).collect();
        reasons.sort_by_key(|reason| std::cmp::Reverse(reason.rows));
        reasons
    }

    /// Sets the lines at the beginning of the file of rows.
    pub fn set_head(&mut self, head: RejectsHead) {
        if let Some(files) = &mut self.files {
            files.head = Some(head);
        }
    }

    /// Sets the header of the inputs, as it stands there; only the first call counts.
    pub fn set_header(&mut self, header: &[u8]) {
        if let Some(files) = &mut self.files {
            files.header.get_or_insert_with(|| header.to_vec());
        }
    }

    /// Number of bad rows so far.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Number of bad rows that can be added; the last of them is the one too many.
    pub fn room(&self) -> usize {
        let held = self.held.as_ref().map_or(0, Vec::len) as u64;
        let room =
            self.limit.map(|limit| limit.saturating_add(1).saturating_sub(self.count + held));
        room.and_then(|rows| usize::try_from(rows).ok()).unwrap_or(usize::MAX)
    }

    /// Number of bad rows that are of use, of those that are found late: the limit, and the one too many.
    /// 0 if the first one ends the load.
    pub fn listed_max(&self) -> usize {
        match self.limit {
            _ if self.stops => 0,
            Some(limit) => usize::try_from(limit).unwrap_or(usize::MAX).saturating_add(1),
            None => usize::MAX,
        }
    }

    /// Adds a bad row with its bytes. Returns an error if it is one too many.
    pub fn add(&mut self, bad: BadRow, row: &[u8], words: Words) -> Result<()> {
        if self.stops {
            return Err(bad.into());
        }
        if let Some(held) = &mut self.held {
            held.push(Rejected { bad, bytes: row.to_vec(), words });
            // One too many fails at once, so that no more rows are held than the limit allows.
            return if self.room() == 0 { self.release() } else { Ok(()) };
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

    /// Holds the rows of these inputs back until [`release`](Self::release).
    pub fn hold(&mut self, inputs: Vec<String>) {
        self.held = Some(Vec::new());
        self.inputs = inputs;
    }

    /// Adds the rows that were held back, in the input's order.
    pub fn release(&mut self) -> Result<()> {
        let Some(mut held) = self.held.take() else { return Ok(()) };
        let file = |bad: &BadRow| {
            self.inputs.iter().position(|name| *name == bad.file).unwrap_or(usize::MAX)
        };
        held.sort_by_cached_key(|Rejected { bad, .. }| (file(bad), bad.line, bad.column));
        held.drain(..).try_for_each(|Rejected { bad, bytes, words }| self.add(bad, &bytes, words))
    }

    /// Drops all rows, as the input is read anew.
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

    /// Keeps the files if they have a row; without this call they are removed.
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
        // Both paths are checked before a file is made.
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

    /// Writes the lines in front of the first row.
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

    /// Removes the file; a file that was there before is emptied again.
    fn take_away(&self) {
        if self.was_there {
            let _ = self.file.get_ref().set_len(0);
        } else {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Returns true if there is an empty file; an error if there is anything else.
fn is_there(path: &Path) -> Result<bool> {
    match path.symlink_metadata() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(not_made(path, error)),
        Ok(metadata) if metadata.is_file() && metadata.len() == 0 => Ok(true),
        Ok(_) => Err(taken(path)),
    }
}

/// A reason without the values that differ from row to row: texts in quotes, and numbers that are
/// no part of a name.
fn without_values(reason: &str) -> String {
    let mut kind = String::new();
    let mut rest = reason.chars().peekable();
    while let Some(c) = rest.next() {
        kind.push(c);
        match c {
            '"' => {
                // A column's name stays.
                for c in rest.by_ref() {
                    kind.push(c);
                    if c == '"' {
                        break;
                    }
                }
            }
            '\'' => {
                // A value may contain quotes; the last quote ends it.
                let value: String = rest.by_ref().collect();
                kind.push('…');
                let end = value.rfind('\'').unwrap_or(value.len());
                kind.push_str(&value[end..]);
            }
            c if c.is_ascii_digit() => {
                kind.pop();
                // The number may be hexadecimal.
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

/// Refuses what [`Rejects::create`] would refuse, and makes no file.
pub fn look_at(path: &Path) -> Result<()> {
    for path in [path, &log_of(path)] {
        let folder = folder_of(path);
        let place = if is_there(path)? { path } else { folder };
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

/// Path of the log with the place and fault of each rejected row.
pub fn log_of(rejects: &Path) -> PathBuf {
    companion_of(rejects, ".log")
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
                "the row has 3 fields, but the table has 12 columns",
                "the row has … fields, but the table has … columns",
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
    fn rows_that_are_held_back_count_against_the_limit() {
        let skip = OnError::Skip { rejects: None, max_rejects: Some(2) };
        let rights = Rights::of(Path::new("app.db"));
        let mut rejects = Rejects::create(&skip, None, rights).unwrap();
        rejects.hold(vec!["a.csv".to_owned()]);
        let row = |line| BadRow {
            file: "a.csv".to_owned(),
            line,
            column: 1,
            reason: "bad".to_owned(),
            row: "1".to_owned(),
        };
        assert_eq!(rejects.room(), 3);
        rejects.add(row(9), b"1", Words::Own).unwrap();
        rejects.add(row(8), b"1", Words::Own).unwrap();
        assert_eq!(rejects.room(), 1);
        let error = rejects.add(row(7), b"1", Words::Own).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::TooManyRejects { rejected: 3, limit: 2, .. }));
        let lines: Vec<u64> = rejects.take_shown().iter().map(|row| row.line).collect();
        assert_eq!(lines, [7, 8, 9]);
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
        // An earlier version or mktemp may have made an empty file.
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
