//! The source of an input's bytes: a file, a pipe or any reader, plain or compressed, and once
//! more for a second pass.
//!
//! The first stage of the flow. Compression is known by content, never by
//! name. A file is opened again for its second pass and must be the same; an input
//! that cannot be opened again is copied, as it is read, to a temporary file without a name.
//!
//! Must never: buffer more than it must, or take a damaged stream's beginning
//! for the whole.

use std::fs::{File, Metadata};
use std::io::{self, BufReader, Chain, Cursor, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::fingerprint::{Changed, Fingerprint};
use super::foreign::FOREIGN_BYTES;
use super::gzip::{self, GzipReader};
use super::pipe::Pipe;
use super::small::SmallFile;
#[cfg(feature = "arrow")]
use super::stored::Stored;
use super::unreadable::{Unreadable, read_once};
use crate::cancel::CancelToken;
use crate::rights;
use crate::vfs::locks::FileHandle;
use crate::words::path_text;
use crate::{Error, ErrorKind, Result};

/// Compressed bytes that are read at once.
const COMPRESSED_BUFFER_BYTES: usize = 256 << 10;

/// An input that can be opened, at least once.
pub struct Source<'a> {
    name: String,
    origin: Origin<'a>,
}

enum Origin<'a> {
    /// A regular file, its size and time when it was first opened, and its content if that is kept.
    File { path: PathBuf, seen: Option<Fingerprint>, kept: Option<SmallFile> },
    /// A reader whose bytes can be read only once; `None` after it was taken.
    Stream { reader: Option<Box<dyn Read + Send + 'a>>, spool: Option<Spool> },
}

/// The copy of a stream, and whether it is whole.
struct Spool {
    folder: PathBuf,
    file: Option<File>,
    is_whole: Arc<AtomicBool>,
}

impl Spool {
    fn new(folder: &Path) -> Self {
        Self { folder: folder.to_owned(), file: None, is_whole: Arc::default() }
    }
}

/// The error of an input that cannot be opened, with advice.
pub(crate) fn not_opened(path: &Path, source: io::Error) -> Error {
    let advice = match source.kind() {
        io::ErrorKind::NotFound if is_url(path) => {
            "inputs are files, not URLs: fetch it first, or pipe it in, with - as the input"
        }
        io::ErrorKind::NotFound => "check the name",
        io::ErrorKind::PermissionDenied => "change its permissions (chmod), or run as its owner",
        _ => "check the path: each part of it but the last must be a folder, or a link to one",
    };
    Error::io("open", path, source).to_do(advice)
}

/// Returns true for a path that was meant as a URL.
fn is_url(path: &Path) -> bool {
    let scheme = path.to_str().and_then(|text| text.split_once("://"));
    scheme.is_some_and(|(scheme, _)| {
        !scheme.is_empty() && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric())
    })
}

/// The error of a folder that an input cannot be copied to.
pub(super) fn no_copy(folder: &Path, source: io::Error) -> Error {
    Error::io("write a temporary file in", folder, source)
        .to_do("name a folder with room that you may write to with ⟦tmpdir⟧")
}

impl<'a> Source<'a> {
    /// The file at `path`. What is not a regular file (a pipe, a terminal) is
    /// copied to `spool`, a folder, if there is to be a second pass, and awaited until `cancel` is
    /// cancelled.
    ///
    /// # Errors
    /// Fails if there is no file at `path`, or a folder.
    pub fn file(
        path: impl Into<PathBuf>,
        spool: Option<&Path>,
        cancel: &CancelToken,
    ) -> Result<Self> {
        let path = path.into();
        let name = path_text(&path);
        let metadata = std::fs::metadata(&path).map_err(|error| not_opened(&path, error))?;
        if metadata.is_dir() {
            let reason = "is a folder, not a file".to_owned();
            return Err(Error::from(ErrorKind::Input { file: name, reason })
                .to_do("name the files in it, or ⟦all_files⟧"));
        }
        if metadata.is_file() {
            return Ok(Self { name, origin: Origin::File { path, seen: None, kept: None } });
        }
        let pipe = Pipe::open(&path, cancel).map_err(|error| not_opened(&path, error))?;
        Ok(Self::reader(name, pipe, spool))
    }

    /// The file at `path`, whose content is kept. It is read from the disk once it has changed.
    pub fn small_file(path: &Path, kept: SmallFile) -> Self {
        let origin = Origin::File { path: path.to_owned(), seen: None, kept: Some(kept) };
        Self { name: path_text(path), origin }
    }

    /// Any reader, named `name` in messages, copied to the folder `spool` if
    /// there is to be a second pass.
    pub fn reader(
        name: impl Into<String>,
        reader: impl Read + Send + 'a,
        spool: Option<&Path>,
    ) -> Self {
        let spool = spool.map(Spool::new);
        let reader = Box::new(Fused { reader, is_over: false });
        let origin = Origin::Stream { reader: Some(reader), spool };
        Self { name: name.into(), origin }
    }

    /// Copies the input to the folder `spool` as it is read, if it can be read only once. To be
    /// called before it is opened.
    pub fn copy_to(&mut self, folder: &Path) {
        if let Origin::Stream { spool, .. } = &mut self.origin {
            spool.get_or_insert_with(|| Spool::new(folder));
        }
    }

    /// The path, or the name given for the reader.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns true if the input can be read only once, so that a second reading must first
    /// take the first one to its end.
    pub fn is_stream(&self) -> bool {
        matches!(self.origin, Origin::Stream { .. })
    }

    /// Size of a file that was opened before; `None` for an input that has no size, such as a pipe: its
    /// reader may have to wait.
    pub fn known_bytes(&self) -> Option<u64> {
        match &self.origin {
            Origin::File { seen: Some(seen), .. } => Some(seen.bytes).filter(|&bytes| bytes > 0),
            _ => None,
        }
    }

    /// Opens the input from its start. `bytes_read` counts, from 0, the bytes that are read from it,
    /// compressed ones as they are.
    ///
    /// # Errors
    /// Fails if the input cannot be opened (again), or has changed in between.
    pub fn open(&mut self, bytes_read: &Arc<AtomicU64>) -> Result<Opened<'a>> {
        bytes_read.store(0, Ordering::Relaxed);
        let (raw, bytes_total) = match &mut self.origin {
            Origin::File { path, seen, kept } => open_file(&self.name, path, seen, kept.as_ref())?,
            Origin::Stream { reader, spool } => open_stream(&self.name, reader, spool.as_mut())?,
        };
        let counted = Counted { inner: raw, bytes_read: Arc::clone(bytes_read) };
        Opened::detect(self.name.clone(), counted, bytes_total)
    }

    /// The input's first bytes, looked at after decompression and without
    /// taking anything from it.
    ///
    /// # Errors
    /// Fails if the input cannot be read.
    pub fn beginning(&mut self) -> Result<Vec<u8>> {
        if let Origin::Stream { reader, .. } = &mut self.origin {
            let Some(mut stream) = reader.take() else { return Err(read_once(&self.name)) };
            let first = read_first(&mut stream);
            let first = first.map_err(|error| Error::io("read", Path::new(&self.name), error))?;
            *reader = Some(Box::new(Cursor::new(first.clone()).chain(stream)));
            let mut copy = Self::reader(self.name.clone(), Cursor::new(first), None);
            return copy.open(&Arc::default()).map(Opened::first_bytes);
        }
        self.open(&Arc::default()).map(Opened::first_bytes)
    }

    /// The input as a file that can be read at any place: the file itself, or a copy of its
    /// content in the folder `spool`.
    ///
    /// # Errors
    /// Fails if it cannot be read, or not be copied.
    #[cfg(feature = "arrow")]
    pub(super) fn stored(&mut self, spool: &Path) -> Result<Stored> {
        let mut opened = self.open(&Arc::default())?;
        if let Origin::File { path, .. } = &self.origin
            && opened.format == Format::Plain
        {
            let file = FileHandle::open(path).map_err(|error| not_opened(path, error))?;
            return Stored::new(&self.name, file);
        }
        let failed = |error| no_copy(spool, error);
        let mut copy = rights::unnamed_file(spool).map_err(failed)?;
        let mut buffer = vec![0; COMPRESSED_BUFFER_BYTES];
        loop {
            let count = opened.read(&mut buffer).map_err(|error| opened.describe(error))?;
            if count == 0 {
                return Stored::new(&self.name, FileHandle::of_unnamed(copy));
            }
            copy.write_all(&buffer[..count]).map_err(failed)?;
        }
    }
}

type Raw<'a> = Box<dyn Read + Send + 'a>;

fn open_file<'a>(
    name: &str,
    path: &Path,
    seen: &mut Option<Fingerprint>,
    kept: Option<&SmallFile>,
) -> Result<(Raw<'a>, Option<u64>)> {
    if let Some(kept) = kept
        && let Some(now) = kept.still_at(path)
        && seen.get_or_insert_with(|| now.clone()) == now
    {
        return Ok((Box::new(Cursor::new(Arc::clone(kept.bytes()))), Some(now.bytes)));
    }
    let failed = |error| not_opened(path, error);
    let file = FileHandle::open(path).map_err(failed)?;
    let now = Fingerprint::of(&file.metadata().map_err(failed)?);
    let bytes = now.bytes;
    if seen.get_or_insert_with(|| now.clone()) != &now {
        return Err(Fingerprint::changed(name));
    }
    // The system gives some files, as those of /proc, no size, and a new time at each look.
    let raw: Raw<'a> = match bytes {
        0 => Box::new(file),
        _ => Box::new(Unchanged { file, seen: now, bytes_read: 0 }),
    };
    Ok((raw, Some(bytes)))
}

fn open_stream<'a>(
    name: &str,
    reader: &mut Option<Raw<'a>>,
    spool: Option<&mut Spool>,
) -> Result<(Raw<'a>, Option<u64>)> {
    match (reader.take(), spool) {
        (Some(reader), None) => Ok((reader, None)),
        (Some(reader), Some(spool)) => {
            let failed = |error| no_copy(&spool.folder, error);
            let copy = rights::unnamed_file(&spool.folder).map_err(failed)?;
            spool.file = Some(copy.try_clone().map_err(failed)?);
            let is_whole = Arc::clone(&spool.is_whole);
            let folder = spool.folder.clone();
            Ok((Box::new(Tee { reader, copy, folder, is_whole }), None))
        }
        (None, Some(spool)) if spool.is_whole.load(Ordering::Acquire) => {
            let failed = |error| Error::io("read a temporary file in", &spool.folder, error);
            let Some(copy) = &spool.file else { return Err(read_once(name)) };
            let mut copy = copy.try_clone().map_err(failed)?;
            copy.seek(SeekFrom::Start(0)).map_err(failed)?;
            let bytes = copy.metadata().map_err(failed)?.len();
            Ok((Box::new(copy), Some(bytes)))
        }
        (None, _) => Err(read_once(name)),
    }
}

/// Reads the beginning of a stream, long enough to tell its format: if it is compressed, a
/// buffer of the compressed data.
fn read_first(reader: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut first = Vec::new();
    reader.by_ref().take(FOREIGN_BYTES as u64).read_to_end(&mut first)?;
    if matches!(Format::of(&first), Format::Gzip | Format::Zstandard) {
        reader.take(COMPRESSED_BUFFER_BYTES as u64).read_to_end(&mut first)?;
    }
    Ok(first)
}

/// A reader of a regular file. At the file's end it fails if the file is not as it was when it was
/// opened: then what was read may be half of it, or of two versions.
struct Unchanged {
    file: FileHandle,
    seen: Fingerprint,
    bytes_read: u64,
}

impl Read for Unchanged {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = (&*self.file).read(buffer)?;
        self.bytes_read += count as u64;
        if count > 0 || buffer.is_empty() {
            return Ok(count);
        }
        let now = self.file.metadata()?;
        let is_whole = self.bytes_read == self.seen.bytes
            || (self.bytes_read < self.seen.bytes && may_be_shorter(&now));
        if !is_whole || Fingerprint::of(&now) != self.seen {
            return Err(io::Error::other(Changed));
        }
        Ok(0)
    }
}

/// Largest page of memory.
#[cfg(unix)]
const MEMORY_PAGE_MAX: u64 = 64 << 10;

/// Returns true if a file's size may be more than its content: files of /sys have the size of a page
/// of memory, and take no block of a disk.
#[cfg(unix)]
fn may_be_shorter(metadata: &Metadata) -> bool {
    metadata.len() <= MEMORY_PAGE_MAX && std::os::unix::fs::MetadataExt::blocks(metadata) == 0
}

/// Other systems have no such files.
#[cfg(not(unix))]
fn may_be_shorter(_metadata: &Metadata) -> bool {
    false
}

/// A reader that has ended once it gave no byte. A terminal goes on after ctrl-D.
struct Fused<R> {
    reader: R,
    is_over: bool,
}

impl<R: Read> Read for Fused<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.is_over {
            return Ok(0);
        }
        let count = self.reader.read(buffer)?;
        self.is_over = count == 0 && !buffer.is_empty();
        Ok(count)
    }
}

/// A reader that copies what is read to a file.
struct Tee<'a> {
    reader: Raw<'a>,
    copy: File,
    /// Where the copy is.
    folder: PathBuf,
    is_whole: Arc<AtomicBool>,
}

impl Read for Tee<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.reader.read(buffer)?;
        self.copy.write_all(&buffer[..count]).map_err(|source| {
            io::Error::other(NotCopied { folder: self.folder.clone(), source })
        })?;
        if count == 0 && !buffer.is_empty() {
            self.is_whole.store(true, Ordering::Release);
        }
        Ok(count)
    }
}

/// A failed write to the copy of an input, passed on through [`io::Error`].
#[derive(Debug, thiserror::Error)]
#[error("cannot be copied to a temporary file: {source}")]
struct NotCopied {
    folder: PathBuf,
    source: io::Error,
}

/// A reader that counts the bytes read.
struct Counted<'a> {
    inner: Raw<'a>,
    bytes_read: Arc<AtomicU64>,
}

impl Read for Counted<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.bytes_read.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }
}

/// An input's compression, by its first bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    Plain,
    Gzip,
    Zstandard,
}

/// The largest window of Zstandard, as of `--long=31`, where addresses have room for it; a power of two.
const WINDOW_LOG_MAX: u32 = if cfg!(target_pointer_width = "64") { 31 } else { 27 };

/// Advice for a sound Zstandard input that the decoder refuses, by a word in its reason.
const ZSTANDARD_REFUSED: [(&str, &str, &str); 2] = [
    (
        "ictionary",
        "need a dictionary",
        "unpack them: zstd -dc -D DICTIONARY FILE | leafpress load DB -",
    ),
    ("memory", "need more memory", "unpack them: zstd -dc -M2048MB FILE | leafpress load DB -"),
];

/// Number of first bytes that tell a compression.
const MAGIC_BYTES_MAX: usize = 4;

impl Format {
    fn of(first: &[u8]) -> Self {
        // Data that may be skipped before a Zstandard frame.
        let is_skippable =
            first.len() >= 4 && first[0] >> 4 == 5 && first[1..4] == *b"\x2a\x4d\x18";
        if first.starts_with(&gzip::MAGIC) {
            Self::Gzip
        } else if is_skippable || first.starts_with(b"\x28\xb5\x2f\xfd") {
            Self::Zstandard
        } else {
            Self::Plain
        }
    }
}

/// An input that is being read, uncompressed.
pub struct Opened<'a> {
    name: String,
    reader: Raw<'a>,
    format: Format,
    bytes_total: Option<u64>,
    bytes_read: Arc<AtomicU64>,
}

impl<'a> Opened<'a> {
    fn detect(name: String, mut raw: Counted<'a>, bytes_total: Option<u64>) -> Result<Self> {
        let bytes_read = Arc::clone(&raw.bytes_read);
        let mut first = Vec::new();
        let read = raw.by_ref().take(MAGIC_BYTES_MAX as u64).read_to_end(&mut first);
        read.map_err(|error| Error::io("read", Path::new(&name), error))?;
        let format = Format::of(&first);
        let whole: Chain<Cursor<Vec<u8>>, Counted<'a>> = Cursor::new(first).chain(raw);
        let buffered = |whole| BufReader::with_capacity(COMPRESSED_BUFFER_BYTES, whole);
        let reader: Raw<'a> = match format {
            Format::Plain => Box::new(whole),
            Format::Gzip => Box::new(GzipReader::new(buffered(whole))),
            Format::Zstandard => {
                let decoder =
                    zstd::Decoder::with_buffer(buffered(whole)).and_then(|mut decoder| {
                        decoder.window_log_max(WINDOW_LOG_MAX)?;
                        Ok(decoder)
                    });
                Box::new(decoder.map_err(|error| Error::io("read", Path::new(&name), error))?)
            }
        };
        Ok(Self { name, reader, format, bytes_total, bytes_read })
    }

    /// The first bytes of the input, which tell its format, as far as they can be read.
    fn first_bytes(mut self) -> Vec<u8> {
        let mut first = [0; FOREIGN_BYTES];
        let mut length = 0;
        while length < first.len() {
            match self.reader.read(&mut first[length..]) {
                Ok(0) | Err(_) => break,
                Ok(count) => length += count,
            }
        }
        first[..length].to_vec()
    }

    /// Returns true if the input is compressed as a whole.
    #[cfg(feature = "arrow")]
    pub(super) fn is_compressed(&self) -> bool {
        matches!(self.format, Format::Gzip | Format::Zstandard)
    }

    /// The input's name, for messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The size of the input in its compressed form, if known.
    pub fn bytes_total(&self) -> Option<u64> {
        self.bytes_total
    }

    /// The size of an input that is a file and not compressed.
    pub(super) fn plain_bytes(&self) -> Option<u64> {
        self.bytes_total.filter(|_| self.format == Format::Plain)
    }

    /// Puts a filter around the reader.
    pub(super) fn wrap(&mut self, filter: impl FnOnce(Raw<'a>) -> Raw<'a>) {
        let reader = std::mem::replace(&mut self.reader, Box::new(io::empty()));
        self.reader = filter(reader);
    }

    /// Makes an error of a failed read, with its cause: the system, or damaged data.
    pub(super) fn describe(&self, error: io::Error) -> Error {
        if error.get_ref().is_some_and(<dyn std::error::Error + Send + Sync>::is::<Changed>) {
            return Fingerprint::changed(&self.name);
        }
        let error = match error.downcast::<NotCopied>() {
            Ok(NotCopied { folder, source }) => return no_copy(&folder, source),
            Err(error) => error,
        };
        let at = self.bytes_read.load(Ordering::Relaxed);
        let packing = match self.format {
            Format::Gzip => "gzip",
            Format::Zstandard => "Zstandard",
            Format::Plain => "",
        };
        if self.format == Format::Zstandard && error.raw_os_error().is_none() {
            let text = error.to_string();
            if let Some((_, need, advice)) =
                ZSTANDARD_REFUSED.iter().find(|(word, ..)| text.contains(word))
            {
                let reason = format!("the Zstandard data {need}: {error}");
                let file = if self.name.starts_with('<') { "FILE" } else { &self.name };
                return Error::input(&self.name, reason).to_do(advice.replace("FILE", file));
            }
        }
        let reason = match error.get_ref().and_then(|inner| inner.downcast_ref::<Unreadable>()) {
            Some(Unreadable(reason)) => reason.clone(),
            // What the system refuses has a code, what a decoder finds has not.
            None if packing.is_empty() || error.raw_os_error().is_some() => {
                return Error::io("read", Path::new(&self.name), error);
            }
            None if error.kind() == io::ErrorKind::UnexpectedEof => {
                format!("the {packing} data are truncated: they end at byte {at}, within a stream")
            }
            None => format!("the {packing} data are damaged before byte {at}: {error}"),
        };
        ErrorKind::Input { file: self.name.clone(), reason }.into()
    }
}

impl Read for Opened<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.reader.read(buffer)
    }
}
