//! What inputs are, and the feed that reads them.
//!
//! A format that is not text is known by its first bytes. Which text it is, is
//! known by the caller's word, the name's ending or the first character.

use super::Loader;
use super::csv::CsvFeed;
use super::flow::{dry_run, load};
use super::monitor::Monitor;
use super::options::InputFormat;
use super::report::{DryRun, Report};
use super::typed_feed::TypedFeed;
use crate::error::{Error, Result};
use crate::input::detect_encoding::{detect, is_auto};
use crate::input::json::{JsonOptions, JsonSource};
use crate::input::kind::{Kind, kind_of};
use crate::input::rows::RowSource;
use crate::input::source::Source;
use crate::schema::shape::TableShape;

/// Endings of the names of JSON files.
const JSON_ENDINGS: [&str; 4] = ["json", "jsonl", "ndjson", "geojsonl"];
/// Endings of compressed files, which say nothing of what is in them.
const PACKED_ENDINGS: [&str; 3] = ["gz", "zst", "zstd"];

/// The inputs of a load, all of one format.
pub enum Inputs<'s> {
    Csv(Vec<Source<'s>>),
    Json(Vec<Source<'s>>),
    Arrow(Vec<(Source<'s>, Kind)>),
}

/// What a load is asked for.
pub trait Goal {
    /// What it comes to.
    type Outcome;

    /// Does it with the feed that `make` makes.
    fn run<F: super::flow::Feed>(
        loader: &Loader,
        table: &str,
        monitor: &Monitor,
        make: impl FnOnce(Option<&TableShape>, usize) -> Result<F>,
    ) -> Result<Self::Outcome>;
}

/// To load.
pub struct ToLoad;

impl Goal for ToLoad {
    type Outcome = Report;

    fn run<F: super::flow::Feed>(
        loader: &Loader,
        table: &str,
        monitor: &Monitor,
        make: impl FnOnce(Option<&TableShape>, usize) -> Result<F>,
    ) -> Result<Report> {
        load(loader, table, monitor, make)
    }
}

/// To look only.
pub struct ToLook;

impl Goal for ToLook {
    type Outcome = DryRun;

    fn run<F: super::flow::Feed>(
        loader: &Loader,
        table: &str,
        monitor: &Monitor,
        make: impl FnOnce(Option<&TableShape>, usize) -> Result<F>,
    ) -> Result<DryRun> {
        dry_run(loader, table, monitor, make)
    }
}

impl<'s> Inputs<'s> {
    /// Finds out what the inputs are.
    pub fn of(loader: &Loader, sources: Vec<Source<'s>>) -> Result<Self> {
        let mut csv = Vec::new();
        let mut json = Vec::new();
        let mut arrow = Vec::new();
        for mut source in sources {
            let beginning = source.beginning()?;
            match (kind_of(&beginning), loader.format) {
                (Some(kind), _) => arrow.push((source, kind)),
                (None, Some(InputFormat::Json)) => json.push(source),
                (None, None) if is_json(source.name(), &beginning) => json.push(source),
                (None, _) => csv.push(source),
            }
        }
        match (csv.is_empty(), json.is_empty(), arrow.is_empty()) {
            (true, true, true) => Err(Error::usage("there is no input to load")),
            (false, true, true) => Ok(Self::Csv(csv)),
            (true, false, true) => Ok(Self::Json(json)),
            (true, true, false) => Ok(Self::Arrow(arrow)),
            _ => Err(Error::usage("the inputs are of different formats")
                .to_do("load those of each format by themselves, the later ones with --append")),
        }
    }

    /// Does what is asked for.
    pub fn run<G: Goal>(self, loader: &Loader, monitor: &Monitor) -> Result<G::Outcome> {
        match self {
            Self::Csv(sources) => {
                let table = loader.table_name(sources.first().map_or("", Source::name))?;
                G::run(loader, &table, monitor, |declared, page_bytes| {
                    CsvFeed::new(loader, sources, declared, &table, page_bytes, monitor)
                })
            }
            Self::Json(sources) => {
                let options = JsonOptions {
                    record_bytes_max: loader.csv.max_record_bytes,
                    encoding: loader.csv.encoding.clone(),
                    ..JsonOptions::default()
                };
                run_typed::<G, _, _>(loader, monitor, sources, |mut source| {
                    let mut options = options.clone();
                    if is_auto(options.encoding.as_deref()) {
                        let detected = detect(&mut source)?;
                        options.encoding = Some(detected.label);
                        options.note = Some(detected.note);
                    }
                    JsonSource::new(source, options, &monitor.bytes_read)
                })
            }
            Self::Arrow(sources) => run_arrow::<G>(loader, monitor, sources),
        }
    }
}

/// Does what is asked for with inputs of typed rows.
pub fn run_typed<G: Goal, I, S: RowSource>(
    loader: &Loader,
    monitor: &Monitor,
    inputs: Vec<I>,
    open: impl Fn(I) -> Result<S>,
) -> Result<G::Outcome> {
    let sources = inputs.into_iter().map(open).collect::<Result<Vec<_>>>()?;
    let table = match sources.first().and_then(RowSource::table) {
        Some(table) => loader.table.as_deref().unwrap_or(table).to_owned(),
        None => loader.table_name(sources.first().map_or("", RowSource::name))?,
    };
    G::run(loader, &table, monitor, |declared, _| {
        TypedFeed::new(loader, sources, declared, &table, monitor)
    })
}

#[cfg(feature = "arrow")]
fn run_arrow<G: Goal>(
    loader: &Loader,
    monitor: &Monitor,
    sources: Vec<(Source<'_>, Kind)>,
) -> Result<G::Outcome> {
    let spool = loader.spool();
    run_typed::<G, _, _>(loader, monitor, sources, |(source, kind)| {
        crate::input::arrow::ArrowSource::new(source, kind, &spool)
    })
}

#[cfg(not(feature = "arrow"))]
#[expect(clippy::needless_pass_by_value, reason = "as with the feature")]
fn run_arrow<G: Goal>(
    _loader: &Loader,
    _monitor: &Monitor,
    sources: Vec<(Source<'_>, Kind)>,
) -> Result<G::Outcome> {
    Err(match sources.first() {
        Some((source, kind)) => kind.refuse(source.name()),
        None => Error::usage("there is no input"),
    })
}

/// Whether a text is JSON: an object at its start, or an array of objects.
fn is_json(name: &str, beginning: &[u8]) -> bool {
    let name = name.to_ascii_lowercase();
    let mut parts = name.split('.').skip(1).collect::<Vec<_>>();
    while parts.last().is_some_and(|ending| PACKED_ENDINGS.contains(ending)) {
        parts.pop();
    }
    if parts.last().is_some_and(|ending| JSON_ENDINGS.contains(ending)) {
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
}
