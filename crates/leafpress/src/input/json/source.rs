//! An input of JSON: how its rows are laid out, and which columns it has.
//!
//! Both are read from its first megabyte. Where that does not say all (a key
//! that comes late) the decoder notices, and the whole input is looked at.
//!
//! Must never: guess silently. An input that has no objects is an error, which says what the input
//! has instead.

use std::io::{Cursor, Read};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};

use super::batch::{JsonBatch, JsonPiece};
use super::decode::{Form, JsonDecoder, NewKeys, decode};
use super::keys::Keys;
use super::nesting::{Elements, Objects, list_in};
use super::reader::JsonReader;
use super::repeats::{self, OfPass};
use super::text::skip_blank;
use crate::input::block::{
    BLOCK_BYTES_DEFAULT, BlockOptions, BlockReader, Cut, record_bytes_limit,
};
use crate::input::csv::header::Header;
use crate::input::encoding;
use crate::input::rows::{DecodeHalt, RowReader, RowSource, SourceColumn, ValueKinds};
use crate::input::source::{Opened, Source};
use crate::sync::lock;
use crate::threads;
use crate::{Error, ErrorKind, Result};

/// Options for reading an input of JSON.
#[derive(Debug, Clone)]
pub struct JsonOptions {
    /// True for objects one after the other, false for one array of objects; `None` decides by
    /// the first byte.
    pub lines: Option<bool>,
    /// No row may be longer.
    pub record_bytes_max: u64,
    /// The label of the input's encoding; UTF-8 where there is none.
    pub encoding: Option<String>,
    /// A note about how the encoding was found.
    pub note: Option<String>,
    /// True if a note says that the only row has an array of objects.
    pub notes_list: bool,
    /// The size of a piece to aim at.
    pub block_bytes: usize,
    /// Number of bytes that are first read to tell the layout of the rows and the columns.
    pub beginning_bytes: usize,
    /// Number of threads that look for keys in all of the input.
    pub threads: usize,
}

impl Default for JsonOptions {
    fn default() -> Self {
        let BlockOptions { record_bytes_max, .. } = BlockOptions::default();
        Self {
            lines: None,
            record_bytes_max,
            encoding: None,
            note: None,
            notes_list: false,
            block_bytes: BLOCK_BYTES_DEFAULT,
            beginning_bytes: BLOCK_BYTES_DEFAULT,
            threads: std::thread::available_parallelism().map_or(1, usize::from),
        }
    }
}

impl JsonOptions {
    fn block_options(&self, encoding: Option<String>) -> BlockOptions {
        let Self { block_bytes, record_bytes_max, .. } = *self;
        BlockOptions { block_bytes, record_bytes_max, encoding }
    }
}

/// An input of JSON.
pub struct JsonSource<'a> {
    source: Source<'a>,
    options: JsonOptions,
    form: Form,
    keys: Arc<Keys>,
    columns: Vec<SourceColumn>,
    notes: Vec<String>,
    /// The note about an input of one row whose value has more of them.
    list_note: Option<String>,
    /// True if there is no row.
    is_empty: bool,
    /// The first opening, of which only the beginning was looked at.
    first: Option<Opened<'a>>,
    /// Rows that repeat a key, for each opening.
    repeats: Vec<OfPass>,
}

impl<'a> JsonSource<'a> {
    /// Opens the input and looks at its beginning. The first
    /// [`open`](RowSource::open) goes on with this opening, so it must be given
    /// the same `bytes_read`.
    ///
    /// # Errors
    /// Fails if the input cannot be opened, is not text, or holds something else
    /// than objects.
    pub fn new(
        mut source: Source<'a>,
        options: JsonOptions,
        bytes_read: &Arc<AtomicU64>,
    ) -> Result<Self> {
        let mut opened = source.open(bytes_read)?;
        encoding::prepare(&mut opened, options.encoding.as_deref())?;
        let name = source.name().to_owned();
        let mut beginning = Beginning::new(&name, &options);
        let trial = loop {
            beginning.read_on(&mut opened)?;
            if let Some(trial) = beginning.judge()? {
                break trial;
            }
        };
        let is_empty = beginning.is_all && !trial.has_rows();
        let list_note = beginning.list_note(&trial);
        let bytes = beginning.bytes;
        opened.wrap(|reader| Box::new(Cursor::new(bytes).chain(reader)));
        let mut json = Self {
            source,
            options,
            form: trial.form,
            keys: Arc::default(),
            columns: Vec::new(),
            notes: Vec::new(),
            list_note,
            is_empty,
            first: Some(opened),
            repeats: Vec::new(),
        };
        json.set_keys(trial.batch.found);
        Ok(json)
    }

    /// The layout of the rows.
    #[cfg(test)]
    pub fn form(&self) -> Form {
        self.form
    }

    fn set_keys(&mut self, keys: Keys) {
        let names = keys.names().iter().map(|name| String::from_utf8_lossy(name));
        let header = Header::from_names(names);
        let column = |name| SourceColumn { name, declared: None, declared_sql: None };
        self.columns = header.names.into_iter().map(column).collect();
        let notes = [&self.options.note, &self.list_note].into_iter().flatten().cloned();
        self.notes = notes.chain(header.notes).collect();
        self.keys = Arc::new(keys);
    }

    fn blocks(&mut self, bytes_read: &Arc<AtomicU64>) -> Result<BlockReader<'a>> {
        if let Some(opened) = self.first.take() {
            // The encoding was seen to already.
            let options = self.options.block_options(Some("utf-8".to_owned()));
            return BlockReader::new(opened, &options);
        }
        let options = self.options.block_options(self.options.encoding.clone());
        BlockReader::new(self.source.open(bytes_read)?, &options)
    }
}

impl<'a> RowSource for JsonSource<'a> {
    type Reader = JsonReader<'a>;
    type Decoder = JsonDecoder;

    const HAS_OPTIONAL_COLUMNS: bool = true;

    fn name(&self) -> &str {
        self.source.name()
    }

    fn value_kinds(&self) -> ValueKinds {
        ValueKinds::Json
    }

    fn columns(&self) -> &[SourceColumn] {
        &self.columns
    }

    fn notes(&self) -> Vec<String> {
        self.notes.clone()
    }

    fn notes_at_end(&self) -> Vec<String> {
        repeats::note(self.source.name(), &self.keys, &self.repeats).into_iter().collect()
    }

    fn is_empty(&self) -> bool {
        self.is_empty
    }

    fn is_stream(&self) -> bool {
        self.source.is_stream()
    }

    fn open(&mut self, bytes_read: &Arc<AtomicU64>) -> Result<(JsonReader<'a>, JsonDecoder)> {
        let blocks = self.blocks(bytes_read)?;
        let repeats = OfPass::default();
        self.repeats.push(Arc::clone(&repeats));
        let decoder = JsonDecoder {
            file: self.source.name().into(),
            form: self.form,
            keys: Arc::clone(&self.keys),
            repeats,
        };
        Ok((JsonReader::new(self.source.name(), blocks, self.form), decoder))
    }

    fn discover_columns(&mut self, bytes_read: &Arc<AtomicU64>) -> Result<()> {
        let (reader, decoder) = self.open(bytes_read)?;
        let survey = Survey { reader: Mutex::new((0, reader)), decoder };
        let count = self.options.threads;
        let outcomes = std::thread::scope(|scope| {
            threads::start_workers(scope, count, || || survey.collect_keys()).map(threads::join_all)
        })?;
        let mut found = Vec::new();
        for outcome in outcomes {
            found.extend(outcome?);
        }
        found.sort_by_key(|&(piece, _)| piece);
        let mut keys = (*self.keys).clone();
        for key in found.iter().flat_map(|(_, found)| found.names()) {
            keys.add(key);
        }
        self.set_keys(keys);
        Ok(())
    }
}

/// A look at all keys of an input, side by side.
struct Survey<'a> {
    /// The reader, and how many pieces it has given.
    reader: Mutex<(u64, JsonReader<'a>)>,
    decoder: JsonDecoder,
}

impl Survey<'_> {
    /// Takes pieces until none is left. Returns, for each piece, the keys that this thread did
    /// not know before: each thread gets pieces in rising order, so the first appearance of a
    /// key is among the keys that all threads return.
    fn collect_keys(&self) -> Result<Vec<(u64, Keys)>> {
        let JsonDecoder { file, form, keys, .. } = &self.decoder;
        let mut keys = (**keys).clone();
        let (mut piece, mut batch) = (JsonPiece::default(), JsonBatch::default());
        let mut found = Vec::new();
        while let Some(number) = self.claim(&mut piece)? {
            match decode(file, *form, &keys, NewKeys::Collect, &mut piece, &mut batch) {
                Ok(()) | Err(DecodeHalt::NewColumn) => {}
                Err(DecodeHalt::Failed(error)) => return Err(error),
            }
            let new = std::mem::take(&mut batch.found);
            if new.len() > 0 {
                new.names().iter().for_each(|key| {
                    keys.add(key);
                });
                found.push((number, new));
            }
        }
        Ok(found)
    }

    fn claim(&self, piece: &mut JsonPiece) -> Result<Option<u64>> {
        let mut guard = lock(&self.reader);
        let (claimed, reader) = &mut *guard;
        *claimed += 1;
        Ok(reader.claim(piece)?.then_some(*claimed))
    }
}

/// The beginning of an input.
struct Beginning<'o> {
    name: &'o str,
    options: &'o JsonOptions,
    bytes: Vec<u8>,
    is_all: bool,
}

/// A beginning, read in one form.
struct Trial {
    form: Form,
    batch: JsonBatch,
}

impl Trial {
    /// The reading of a beginning without rows.
    fn empty(is_array: bool) -> Self {
        let form = if is_array { Form::Array } else { Form::Lines };
        Self { form, batch: JsonBatch::default() }
    }

    /// Returns true if reading the beginning as objects on any lines gives better rows than
    /// `lines`, the reading of the same beginning line by line: it has a first good row, or
    /// fewer bad rows.
    fn is_better_than(&self, lines: &Self) -> bool {
        let (bad, lines_bad) = (self.batch.bad_rows.len(), lines.batch.bad_rows.len());
        let is_first_good = lines.batch.rows.is_empty() && !self.batch.rows.is_empty();
        is_first_good || bad < lines_bad
    }

    fn has_rows(&self) -> bool {
        !self.batch.rows.is_empty() || !self.batch.bad_rows.is_empty()
    }
}

impl<'o> Beginning<'o> {
    fn new(name: &'o str, options: &'o JsonOptions) -> Self {
        Self { name, options, bytes: Vec::new(), is_all: false }
    }

    /// Reads as much again, or a first block.
    fn read_on(&mut self, opened: &mut Opened<'_>) -> Result<()> {
        let wanted = self.bytes.len().max(self.options.beginning_bytes).max(1);
        let read = opened.by_ref().take(wanted as u64).read_to_end(&mut self.bytes);
        self.is_all = read.map_err(|error| opened.describe(error))? < wanted;
        Ok(())
    }

    /// The layout of the rows, with the rows read so far; `None` if more bytes are needed to
    /// tell.
    fn judge(&self) -> Result<Option<Trial>> {
        let at = skip_blank(&self.bytes, 0);
        let first = self.bytes.get(at).copied();
        let is_array =
            matches!((first, self.options.lines), (Some(b'['), None) | (Some(_), Some(false)));
        let trial = match (is_array, first) {
            (true, Some(byte)) if byte != b'[' => {
                return Err(self.not_objects("it does not begin with '['"));
            }
            (true, _) => self.read_as(Form::Array)?,
            (false, _) => self.read_as_objects()?,
        };
        let Some(trial) = trial.filter(|trial| trial.has_rows() || self.is_enough()) else {
            return Ok(self.is_enough().then(|| Trial::empty(is_array)));
        };
        match trial.batch.bad_rows.first() {
            Some(bad) if trial.batch.rows.is_empty() && first != Some(b'{') => {
                let at = format!("line {}: {}", bad.bad_row.line, bad.bad_row.reason);
                Err(self.not_objects(&at))
            }
            _ => Ok(Some(trial)),
        }
    }

    /// Returns true if no more bytes can be read, or need to be.
    fn is_enough(&self) -> bool {
        self.is_all || self.bytes.len() as u64 > record_bytes_limit(self.options.record_bytes_max)
    }

    /// Reads the beginning as lines, or as objects on any lines if these fit better.
    fn read_as_objects(&self) -> Result<Option<Trial>> {
        let lines = self.read_as(Form::Lines)?;
        let is_good = |trial: &Trial| !trial.batch.rows.is_empty();
        if lines.as_ref().is_some_and(|lines| is_good(lines) && lines.batch.bad_rows.is_empty()) {
            return Ok(lines);
        }
        let objects = self.read_as(Form::Objects)?;
        Ok(match (lines, objects) {
            (Some(lines), Some(objects)) if objects.is_better_than(&lines) => Some(objects),
            // The text may be the beginning of an object.
            (Some(lines), None) if !is_good(&lines) => None,
            (Some(lines), _) => Some(lines),
            (None, objects) => objects,
        })
    }

    /// The whole rows, read in one form; `None` if there are none.
    fn read_as(&self, form: Form) -> Result<Option<Trial>> {
        let end = match form {
            _ if self.is_all => Some(self.bytes.len()),
            Form::Lines => memchr::memrchr(b'\n', &self.bytes).map(|newline| newline + 1),
            Form::Objects => Objects::default().last_cut(&self.bytes),
            Form::Array => Elements::default().last_cut(&self.bytes),
        };
        let Some(end) = end else { return Ok(None) };
        let mut piece = JsonPiece { is_first: true, ..JsonPiece::default() };
        let pushed = piece.block.push(&self.bytes[..end]);
        pushed.map_err(|error| error.describe(self.name))?;
        let mut batch = JsonBatch::default();
        let keys = Keys::default();
        match decode(self.name, form, &keys, NewKeys::Collect, &mut piece, &mut batch) {
            Ok(()) | Err(DecodeHalt::NewColumn) => Ok(Some(Trial { form, batch })),
            Err(DecodeHalt::Failed(error)) => Err(error),
        }
    }

    /// The note about an input that is one object with an array of objects, as web services answer.
    fn list_note(&self, trial: &Trial) -> Option<String> {
        let JsonBatch { rows, bad_rows, .. } = &trial.batch;
        let is_one = self.is_all && rows.len() == 1 && bad_rows.is_empty();
        if !is_one || trial.form == Form::Array || !self.options.notes_list {
            return None;
        }
        let list = list_in(&self.bytes)?;
        let key = String::from_utf8_lossy(list);
        let name = self.name;
        Some(format!(
            "{name}: it is one object, so it is one row. {key} in it is an array of objects: to load these as \
             rows, take them out first, as with jq '.{key}[]'"
        ))
    }

    fn not_objects(&self, found: &str) -> Error {
        let wanted = match self.options.lines {
            Some(true) => "objects, one a line",
            Some(false) => "one array of objects",
            None => "objects, one a line, or one array of objects",
        };
        let reason = format!("JSON to load must be {wanted}, but {found}");
        Error::from(ErrorKind::Input { file: self.name.to_owned(), reason })
            .to_do("rows look like {\"name\": \"Ada\", \"age\": 36}, with the column names as keys")
    }
}
