//! Options of `load`, from Python to a [`Loader`].
//!
//! `leafpress._load` brings them into one form; what only the library can tell wrong is its to
//! say.

use std::path::PathBuf;
use std::time::Duration;

use leafpress::Error;
use leafpress::load::{
    CancelToken, ColumnType, CsvOptions, InputFormat, IntoTable, Layout, Loader, OnConflict,
    OnError, Ragged, TimestampForm, Uuid7Form,
};
use pyo3::prelude::*;

/// Options, each as the keyword of `load` of the same name.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
#[expect(clippy::struct_excessive_bools, reason = "each is a keyword of its own")]
pub struct Options {
    pub table: Option<String>,
    columns: Option<Vec<String>>,
    pk: Vec<String>,
    index: Vec<String>,
    unique: Vec<String>,
    if_exists: String,
    pub create: Option<String>,
    strict: bool,
    page_size: Option<u32>,
    layout: Option<String>,
    preset: Option<String>,
    select: Vec<String>,
    rename: Vec<(String, String)>,
    drop: Vec<String>,
    types: Vec<(String, String)>,
    exact: bool,
    all_text: bool,
    not_null: Vec<String>,
    without_rowid: bool,
    uuid7: Option<(String, String)>,
    pub on_conflict: Option<String>,
    pub analyze: bool,
    busy_timeout: Option<f64>,
    format: Option<String>,
    delimiter: Option<u8>,
    quote: Option<u8>,
    escape: Option<u8>,
    header: bool,
    ragged: String,
    trim: bool,
    null: Vec<String>,
    empty_null: bool,
    encoding: Option<String>,
    skip_lines: u64,
    comment: Option<u8>,
    max_row_bytes: Option<u64>,
    on_error: String,
    pub rejects: Option<PathBuf>,
    max_rejects: Option<u64>,
    threads: Option<usize>,
    memory: Option<usize>,
    pub tmpdir: Option<PathBuf>,
}

impl Options {
    /// Names of the columns, if they are given.
    pub fn columns(&self) -> Option<Vec<String>> {
        self.columns.clone()
    }

    /// A loader that is told all of them.
    ///
    /// # Errors
    /// An option has a word that it does not know.
    pub fn loader(&self, database: PathBuf, token: &CancelToken) -> leafpress::Result<Loader> {
        self.with_keys(self.keyless_loader(database, token)?)
    }

    /// A loader that is told all of them but those about the table's keys and about rows that are there.
    ///
    /// # Errors
    /// As those of [`loader`](Self::loader).
    pub fn keyless_loader(
        &self,
        database: PathBuf,
        token: &CancelToken,
    ) -> leafpress::Result<Loader> {
        let mut loader = Loader::new(database).cancel(token.clone()).on_error(self.on_error()?);
        loader = self.with_table(loader)?;
        loader = self.with_columns(loader)?;
        loader = self.with_input(loader)?;
        if let Some(seconds) = self.busy_timeout {
            let timeout = Duration::try_from_secs_f64(seconds).map_err(|_| {
                Error::misuse(format!("busy_timeout={seconds} is no number of seconds"))
            })?;
            loader = loader.busy_timeout(timeout);
        }
        if let Some(threads) = self.threads {
            loader = loader.threads(threads);
        }
        if let Some(bytes) = self.memory {
            loader = loader.memory(bytes);
        }
        Ok(match &self.tmpdir {
            Some(folder) => loader.tmpdir(folder),
            None => loader,
        })
    }

    fn with_table(&self, mut loader: Loader) -> leafpress::Result<Loader> {
        loader = loader.strict(self.strict);
        if let Some(table) = &self.table {
            loader = loader.table(table);
        }
        if let Some(sql) = &self.create {
            loader = loader.declaration(sql);
        }
        if let Some(bytes) = self.page_size {
            loader = loader.page_size(bytes);
        }
        if let Some(layout) = &self.layout {
            loader = loader.layout(layout_of(layout)?);
        }
        if let Some(preset) = &self.preset {
            loader = loader.preset(preset.parse().map_err(Error::misuse)?);
        }
        Ok(loader)
    }

    /// The way into a table that is there; `None` if there must be none.
    ///
    /// # Errors
    /// The word is unknown.
    pub fn into(&self) -> leafpress::Result<Option<IntoTable>> {
        Ok(match self.if_exists.as_str() {
            "fail" => None,
            "append" => Some(IntoTable::Append),
            "replace" => Some(IntoTable::Replace),
            "ignore" => Some(IntoTable::Ignore),
            "upsert" => Some(IntoTable::Upsert),
            other => {
                let words = "fail, append, replace, ignore or upsert";
                return Err(unknown("if_exists", other, words));
            }
        })
    }

    fn with_columns(&self, mut loader: Loader) -> leafpress::Result<Loader> {
        loader = loader.all_text(self.all_text).exact(self.exact);
        for (old, new) in &self.rename {
            loader = loader.rename(old, new);
        }
        if let Some((column, form)) = &self.uuid7 {
            let form = match form.as_str() {
                "blob" => Uuid7Form::Blob,
                "text" => Uuid7Form::Text,
                other => return Err(unknown("uuid7", other, "blob or text")),
            };
            loader = loader.uuid7(column, form);
        }
        loader = self.select.iter().fold(loader, Loader::select);
        loader = self.drop.iter().fold(loader, Loader::drop_column);
        loader = self.not_null.iter().fold(loader, Loader::not_null);
        for (column, named) in &self.types {
            loader = match named.as_str() {
                "integer" => loader.column_type(column, ColumnType::Integer),
                "real" => loader.column_type(column, ColumnType::Real),
                "text" => loader.column_type(column, ColumnType::Text),
                "blob" => loader.column_type(column, ColumnType::Blob),
                "boolean" => loader.boolean(column),
                "exact" => loader.exact_column(column),
                other => {
                    let words = "integer, real, text, blob, boolean, exact, unixepoch, \
                                 unixepoch-ms, date or datetime";
                    let form = other.parse::<TimestampForm>();
                    let unknown = |_| unknown(&format!("types[{column:?}]"), other, words);
                    loader.timestamp(column, form.map_err(unknown)?)
                }
            };
        }
        Ok(loader)
    }

    /// The loader with the options about the table's keys and about rows that are there.
    ///
    /// # Errors
    /// As those of [`loader`](Self::loader).
    pub fn with_keys(&self, mut loader: Loader) -> leafpress::Result<Loader> {
        if let Some(into) = self.into()? {
            loader = loader.into_table(into).create_missing(true);
        }
        loader = loader.without_rowid(self.without_rowid).analyze(self.analyze);
        loader = self.pk.iter().fold(loader, Loader::primary_key);
        loader = self.index.iter().fold(loader, Loader::index);
        loader = self.unique.iter().fold(loader, Loader::unique);
        Ok(match self.on_conflict.as_deref() {
            None => loader,
            Some("abort") => loader.on_conflict(OnConflict::Abort),
            Some("ignore") => loader.on_conflict(OnConflict::Ignore),
            Some("replace") => loader.on_conflict(OnConflict::Replace),
            Some(other) => return Err(unknown("on_conflict", other, "abort, ignore or replace")),
        })
    }

    fn with_input(&self, mut loader: Loader) -> leafpress::Result<Loader> {
        loader = loader.csv(self.csv()?).trim(self.trim).empty_null(self.empty_null);
        loader = self.null.iter().fold(loader, Loader::null_marker);
        let format = match self.format.as_deref() {
            None => return Ok(loader),
            Some("csv" | "tsv") => InputFormat::Csv,
            Some("json" | "ndjson" | "jsonl") => InputFormat::Json,
            Some("pgtext") => InputFormat::PostgresText,
            Some("mysqltext") => InputFormat::MysqlText,
            Some(other) => {
                return Err(unknown("format", other, "csv, tsv, json, pgtext or mysqltext"));
            }
        };
        Ok(loader.format(format))
    }

    fn csv(&self) -> leafpress::Result<CsvOptions> {
        let ragged = match self.ragged.as_str() {
            "reject" => Ragged::Reject,
            "pad" => Ragged::Pad,
            "truncate" => Ragged::Truncate,
            other => return Err(unknown("ragged", other, "reject, pad or truncate")),
        };
        let is_tsv = self.format.as_deref() == Some("tsv");
        let mut csv = CsvOptions::default()
            .delimiter(if is_tsv { Some(b'\t') } else { self.delimiter })
            .quote(self.quote)
            .escape(self.escape)
            .header(self.header)
            .columns(self.columns.clone())
            .ragged(ragged)
            .skip_lines(self.skip_lines)
            .comment(self.comment);
        csv.encoding.clone_from(&self.encoding);
        Ok(match self.max_row_bytes {
            Some(bytes) => csv.max_record_bytes(bytes),
            None => csv,
        })
    }

    fn on_error(&self) -> leafpress::Result<OnError> {
        match self.on_error.as_str() {
            "stop" => Ok(OnError::Stop),
            "skip" => {
                let (rejects, max_rejects) = (self.rejects.clone(), self.max_rejects);
                Ok(OnError::Skip { rejects, max_rejects })
            }
            other => Err(unknown("on_error", other, "stop or skip")),
        }
    }
}

fn unknown(option: &str, word: &str, words: &str) -> Error {
    Error::misuse(format!("{option}={word:?} is unknown: it is {words}"))
}

/// The order of pages with this name.
///
/// # Errors
/// There is none.
pub fn layout_of(name: &str) -> leafpress::Result<Layout> {
    match name {
        "local" => Ok(Layout::Local),
        "remote" => Ok(Layout::Remote),
        other => Err(Error::misuse(format!("layout={other:?}: it is local or remote"))),
    }
}
