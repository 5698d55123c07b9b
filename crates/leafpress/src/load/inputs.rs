//! Inputs of a load: format, table name, and feed.
//!
//! The first bytes show a format that is not text. For text, the format comes from the caller, the
//! ending of the name or the first character.

use std::ffi::OsStr;
use std::path::Path;

use super::endings::{self, binary_format, foreign_format, without_endings};
use super::monitor::Monitor;
use super::options::{InputFormat, LoadOptions};
use crate::error::{Error, Result};
#[cfg(feature = "arrow")]
use crate::input::arrow::ArrowSource;
use crate::input::detect_encoding::{detect, is_auto};
use crate::input::encoding::beginning_in_utf8;
use crate::input::foreign::{foreign, foreign_text};
use crate::input::json::{JsonOptions, JsonSource};
use crate::input::kind::{Kind, kind_of};
use crate::input::rows::RowSource;
use crate::input::source::Source;
use crate::load::csv::{CsvFeed, CsvRows};
use crate::load::mixed::MixedSource;
use crate::load::passes::feed::{Input, MakeFeed};
use crate::load::rows::TypedFeed;

/// Limit of the bytes of files that are read in a moment.
const SHORT_BYTES_MAX: u64 = 1 << 20;

/// The inputs of a load: of one format, or each of its own.
pub enum Inputs<'s> {
    Csv(Vec<Source<'s>>),
    Json(Vec<Source<'s>>),
    Arrow(Vec<(Source<'s>, Kind)>),
    Mixed(Vec<(Source<'s>, Format)>),
}

/// Format of an input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    Csv,
    Json,
    Arrow(Kind),
}

impl<'s> Inputs<'s> {
    /// Finds the format of the inputs.
    pub fn of(options: &LoadOptions, sources: Vec<Source<'s>>) -> Result<Self> {
        let mut inputs = Vec::new();
        for mut source in sources {
            let beginning = source.beginning()?;
            let found = kind_of(&beginning);
            let text = beginning_in_utf8(&beginning, options.csv.encoding.as_deref());
            if found.is_none() {
                refuse_foreign(options, source.name(), &beginning, &text)?;
            }
            let format = match (found, options.format) {
                (Some(kind), _) => Format::Arrow(kind),
                (None, Some(InputFormat::Json)) => Format::Json,
                (None, None) if is_json(source.name(), &text) => Format::Json,
                (None, _) => Format::Csv,
            };
            if format == Format::Json {
                // A key that is new further on costs another pass, whatever the types.
                source.copy_to(&options.folder_beside(&options.database));
            }
            inputs.push((source, format));
        }
        let all = |format| inputs.iter().all(|(_, it)| *it == format);
        let all_arrow = inputs.iter().all(|(_, format)| matches!(format, Format::Arrow(_)));
        let (is_csv, is_json) = (all(Format::Csv), all(Format::Json));
        let sources =
            |inputs: Vec<(Source<'s>, Format)>| inputs.into_iter().map(|(it, _)| it).collect();
        Ok(match inputs.is_empty() {
            true => return Err(Error::misuse("there is no input to load")),
            false if is_csv => Self::Csv(sources(inputs)),
            false if is_json => Self::Json(sources(inputs)),
            false if all_arrow => {
                let arrow = inputs.into_iter().filter_map(|(source, format)| match format {
                    Format::Arrow(kind) => Some((source, kind)),
                    _ => None,
                });
                Self::Arrow(arrow.collect())
            }
            false => Self::Mixed(inputs),
        })
    }

    /// Returns true if all of it is read in a moment: files of text that are there and small.
    fn is_short(&self) -> bool {
        let (Self::Csv(sources) | Self::Json(sources)) = self else { return false };
        let bytes: Option<u64> = sources.iter().map(Source::known_bytes).sum();
        bytes.is_some_and(|bytes| bytes <= SHORT_BYTES_MAX)
    }

    /// The input of the load; more than its beginning is read later.
    pub fn into_input<'l>(self, options: &'l LoadOptions, monitor: &'l Monitor) -> Result<Input<'l>>
    where
        's: 'l,
    {
        let is_short = self.is_short();
        match self {
            Self::Csv(sources) => {
                let table = table_name(options, sources.first().map_or("", Source::name))?;
                let make: MakeFeed<'l> = Box::new(move |table| {
                    Ok(Box::new(CsvFeed::new(options, sources, table, monitor)?))
                });
                Ok(Input { table, make, is_short })
            }
            Self::Json(sources) => {
                let is_alone = sources.len() == 1;
                let open = |source| json(options, monitor, source, is_alone);
                typed(options, monitor, sources, open).map(|input| Input { is_short, ..input })
            }
            #[cfg(feature = "arrow")]
            Self::Arrow(sources) => {
                typed(options, monitor, sources, |(source, kind)| arrow(options, source, kind))
            }
            #[cfg(not(feature = "arrow"))]
            Self::Arrow(sources) => Err(match sources.first() {
                Some((source, kind)) => kind.refuse(source.name()),
                None => Error::misuse("there is no input to load"),
            }),
            Self::Mixed(sources) => typed(options, monitor, sources, |(source, format)| {
                Ok(match format {
                    Format::Csv => {
                        MixedSource::Csv(Box::new(CsvRows::new(options, monitor, source)?))
                    }
                    Format::Json => {
                        MixedSource::Json(Box::new(json(options, monitor, source, false)?))
                    }
                    #[cfg(feature = "arrow")]
                    Format::Arrow(kind) => {
                        MixedSource::Arrow(Box::new(arrow(options, source, kind)?))
                    }
                    #[cfg(not(feature = "arrow"))]
                    Format::Arrow(kind) => return Err(kind.refuse(source.name())),
                })
            }),
        }
    }
}

/// Refuses what cannot be loaded: an archive or another known file that holds no rows, and text under the
/// name of a format that is none, such as the page of a failed download. `text` is the beginning, in UTF-8
/// if it is text.
fn refuse_foreign(options: &LoadOptions, name: &str, beginning: &[u8], text: &[u8]) -> Result<()> {
    if let Some(format) = foreign(beginning) {
        return Err(format.refuse(name));
    }
    if options.format.is_some() {
        return Ok(());
    }
    if let Some(format) = foreign_text(text).or_else(|| foreign_format(name)) {
        return Err(format.refuse(name));
    }
    let Some(format) = binary_format(name) else { return Ok(()) };
    let reason = format!("has the name of a file of {format}, and does not begin as one");
    let advice = "see where it comes from; if it is text all the same, say so by ⟦format⟧";
    Err(Error::input(name, reason).to_do(advice))
}

/// The input of a load of typed rows; `open` opens each of its sources.
pub fn typed<'l, I, S: RowSource + 'l>(
    options: &'l LoadOptions,
    monitor: &'l Monitor,
    inputs: Vec<I>,
    open: impl Fn(I) -> Result<S>,
) -> Result<Input<'l>> {
    let mut sources = inputs.into_iter().map(open).collect::<Result<Vec<_>>>()?;
    // The look at the database waits for its writers, whose commits would wait for these readers.
    sources.iter_mut().for_each(RowSource::release);
    let table = match sources.first().and_then(RowSource::table) {
        Some(table) => options.table.as_deref().unwrap_or(table).to_owned(),
        None => table_name(options, sources.first().map_or("", RowSource::name))?,
    };
    let make: MakeFeed<'l> =
        Box::new(move |table| Ok(Box::new(TypedFeed::new(options, sources, table, monitor)?)));
    Ok(Input { table, make, is_short: false })
}

/// An input of JSON, alone or beside others.
fn json<'s>(
    options: &LoadOptions,
    monitor: &Monitor,
    mut source: Source<'s>,
    is_alone: bool,
) -> Result<JsonSource<'s>> {
    let mut json = JsonOptions {
        record_bytes_max: options.csv.max_record_bytes,
        encoding: options.csv.encoding.clone(),
        notes_list: is_alone,
        threads: options.threads,
        ..JsonOptions::default()
    };
    if is_auto(json.encoding.as_deref()) {
        let detected = detect(&mut source)?;
        json.encoding = Some(detected.label);
        json.note = Some(detected.note);
    }
    JsonSource::new(source, json, &monitor.bytes_read)
}

/// An input of Arrow or Parquet.
#[cfg(feature = "arrow")]
fn arrow<'s>(options: &LoadOptions, source: Source<'s>, kind: Kind) -> Result<ArrowSource<'s>> {
    ArrowSource::new(source, kind, &options.folder_beside(&options.database))
}

/// Returns true if a text is JSON: an object at its start, or an array of objects.
fn is_json(name: &str, beginning: &[u8]) -> bool {
    if endings::is_json(name) {
        return true;
    }
    let text = beginning.strip_prefix(b"\xef\xbb\xbf").unwrap_or(beginning).trim_ascii_start();
    let second = |text: &[u8]| text[1..].trim_ascii_start().first().copied();
    match text.first() {
        Some(b'{') => matches!(second(text), Some(b'"' | b'}')),
        Some(b'[') => second(text) == Some(b'{'),
        _ => false,
    }
}

/// Name of the table: given, or made from the input's name. A byte of a file's name that is not
/// UTF-8 is in it as [`path_text`](crate::words::path_text) shows it, so that files with different
/// names give different tables.
pub fn table_name(options: &LoadOptions, input: &str) -> Result<String> {
    if let Some(name) = &options.table {
        return Ok(name.clone());
    }
    let name = Path::new(input).file_name().and_then(OsStr::to_str).unwrap_or_default();
    let stem = without_endings(name.trim_matches(['<', '>']));
    stem.map(str::to_owned).ok_or_else(|| {
        Error::misuse(format!("'{input}' gives no name for the table"))
            .to_do("name the table with ⟦table⟧")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_known_by_its_name_or_its_first_character() {
        for (name, beginning, expected) in [
            ("a.json", &b"x"[..], true),
            ("a.NDJSON.gz", b"", true),
            ("a.csv", b"{\"a\":1}", true),
            ("<stdin>", b" [ {\"a\": 1", true),
            ("<stdin>", b"\xef\xbb\xbf{ }", true),
            ("a.csv", b"{a},b", false),
            ("a.csv", b"[1]", false),
            ("json", b"a,b", false),
            ("a.csv", b"", false),
        ] {
            assert_eq!(is_json(name, beginning), expected, "{name}");
        }
    }

    #[test]
    fn text_in_utf16_is_known_by_its_first_characters() {
        use crate::load::{CsvOptions, Loader};

        let folder = tempfile::tempdir().unwrap();
        let load = |text: &str, encoding: &str, table: &str| {
            let bytes: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
            let csv = CsvOptions::default().encoding(encoding);
            let loader = Loader::new(folder.path().join("a.db")).csv(csv).table(table);
            loader.load_reader("<stdin>", &bytes[..])
        };
        let json = "{\"a\": 1, \"b\": 2}\n{\"a\": 3, \"b\": 4}\n";
        for (mark, encoding) in
            [("", "utf-16le"), ("\u{feff}", "utf-16le"), ("\u{feff}", "utf-16"), ("", "auto")]
        {
            let table = format!("t{encoding}{}", mark.len());
            let report = load(&format!("{mark}{json}"), encoding, &table).unwrap();
            assert_eq!((report.rows_loaded, report.columns.len()), (2, 2), "{encoding}");
        }
        let error = load("\u{feff}<?xml version=\"1.0\"?>\n", "utf-16le", "x").unwrap_err();
        assert!(error.to_string().contains("is a file of XML"), "{error}");
    }

    #[test]
    fn an_archive_is_refused_also_inside_gzip() {
        use std::io::Write as _;

        use crate::load::Loader;

        let folder = tempfile::tempdir().unwrap();
        let mut archive = vec![0; 1024];
        archive[..5].copy_from_slice(b"a.csv");
        archive[148..156].fill(b' ');
        let sum: u32 = archive.iter().map(|byte| u32::from(*byte)).sum();
        archive[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
        archive[512..520].copy_from_slice(b"id\n1\n2\n3");
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packed.write_all(&archive).unwrap();
        let packed = packed.finish().unwrap();
        for (name, bytes) in [("a.tar", &archive), ("a.tgz", &packed), ("a.csv", &packed)] {
            let path = folder.path().join(name);
            std::fs::write(&path, bytes).unwrap();
            let database = folder.path().join("a.db");
            let loader = || Loader::new(&database).table("t");
            for loaded in [
                loader().load_file(&path),
                loader().format(InputFormat::Csv).load_file(&path),
                loader().load_reader(name, &bytes[..]),
            ] {
                let error = loaded.expect_err("an archive").to_string();
                assert!(error.contains("is a tar archive") && error.contains("tar -xf"), "{error}");
            }
            assert!(!database.exists());
        }
    }
}
