//! Signs that an input is read in the wrong dialect, found in its bad rows and escapes, or with a text
//! for values that are missing: for the advice of an error and the notes of a report.
//!
//! Must never: change the loaded rows, or slow the load of good rows.

use memchr::memchr_iter;

use super::input::CsvInput;
use super::reading::Reading;
use crate::error::{BadRow, Error, ErrorKind};
use crate::input::block::Block;
use crate::input::csv::locate::{Position, unclosed_quote};
use crate::input::csv::{Carry, Dialect, FieldIndex};
use crate::input::detect_encoding::{Guess, guess};
use crate::load::options::Ragged;
use crate::load::passes::columns::is_about_columns;
use crate::load::passes::rejects::bad_row_of;
use crate::load::report::ColumnReport;
use crate::load::values::fields::{Misfit, is_not_utf8, is_ragged};
use crate::schema::names::listed;
use crate::words::counted;

/// Letters that mean control characters behind a backslash in the text formats of databases.
const DATABASE_LETTERS: &[u8] = b"bfnrtv0Z";

/// Quotes at places where quotes mean nothing.
#[derive(Debug, Default)]
pub struct Strays {
    quotes: u64,
    first_line: Option<u64>,
    /// Position of the quote before the first stray quote, if it may never be closed.
    unclosed: Option<Position>,
}

impl Strays {
    /// Adds those of the next block.
    pub fn add(&mut self, block: &Block, index: &FieldIndex, dialect: Dialect) {
        self.quotes += index.stray_quotes();
        if let (None, Some(at)) = (self.first_line, index.first_stray()) {
            self.first_line = Some(block.position(at).line);
            let mut records = index.records(block.bytes(), block.start());
            let strayed = records.find(|span| span.end() > at);
            let quote = strayed.and_then(|span| unclosed_quote(block.bytes(), &span, dialect));
            self.unclosed = quote.map(|at| block.position(at));
        }
    }

    /// Adds those of a record that the end of the input leaves open.
    pub fn add_open(&mut self, carry: &Carry) {
        self.quotes += carry.stray_quotes();
    }

    /// The note about them.
    pub fn note(&self, file: &str) -> Option<String> {
        let line = self.first_line?;
        let (quotes, stand) = match self.quotes {
            1 => ("1 quote".to_owned(), "stands"),
            n => (format!("{n} quotes"), "stand"),
        };
        let unclosed = self.unclosed.map_or(String::new(), |place| {
            format!(
                ". Perhaps the quote that opens at line {}, column {} is never closed, and lines \
                 behind it have become one field",
                place.line, place.column
            )
        });
        Some(format!(
            "{file}: {quotes} {stand} where none belongs, the first in line {line}; text behind a quote \
             that closes belongs to the field, other quotes are kept as text{unclosed}. If the file \
             escapes quotes with a backslash, load it with ⟦escape '\\'⟧"
        ))
    }
}

/// The signs that a pass has seen.
#[derive(Debug, Default, Clone, Copy)]
pub struct Signs {
    /// True if a bad row has another number of fields than the header.
    ragged: bool,
    /// The encoding that fits the first bad row that is not UTF-8, and the line of its block.
    guess: Option<(u64, Guess)>,
    /// Rows that were filled or cut as the caller says, and the line of the first one.
    reshaped: u64,
    reshaped_line: Option<u64>,
    /// First line with an escape before a letter for which databases mean another character.
    letter_line: Option<u64>,
}

impl Signs {
    /// Adds a bad row.
    pub fn add(&mut self, misfit: &Misfit, block: &Block) {
        self.ragged |= is_ragged(&misfit.reason);
        if self.guess.is_none() && is_not_utf8(&misfit.reason) {
            self.guess = guess(block.data()).map(|guess| (block.first_line(), guess));
        }
    }

    /// Adds a row that has another number of fields than the header, and is loaded all the same.
    pub fn add_reshaped(&mut self, line: impl FnOnce() -> u64) {
        self.reshaped += 1;
        self.reshaped_line.get_or_insert_with(line);
    }

    /// Adds the line that [`escaped_letter_line`] found in a block.
    pub fn add_letter(&mut self, line: Option<u64>) {
        self.letter_line = self.letter_line.or(line);
    }

    /// Adds the signs of another stretch of the input.
    pub fn merge(&mut self, other: Self) {
        let first = |one: Option<u64>, two: Option<u64>| one.into_iter().chain(two).min();
        self.ragged |= other.ragged;
        self.guess = self.guess.into_iter().chain(other.guess).min_by_key(|(line, _)| *line);
        self.reshaped += other.reshaped;
        self.reshaped_line = first(self.reshaped_line, other.reshaped_line);
        self.letter_line = first(self.letter_line, other.letter_line);
    }

    /// Notes on an input after a pass.
    pub fn notes(&self, file: &str, reading: &Reading, ragged: Ragged) -> Vec<String> {
        let mut notes = Vec::new();
        if let Some(advice) = reading.ragged_advice().filter(|_| self.ragged) {
            notes.push(format!("{file}: rows have another number of fields; {advice}"));
        }
        if let Some(line) = self.reshaped_line {
            let rows = counted(self.reshaped, "row has", "rows have");
            let how = match ragged {
                Ragged::Truncate => "surplus fields are dropped",
                _ => "missing fields are empty",
            };
            notes.push(format!(
                "{file}: {rows} another number of fields, the first in line {line}: {how}"
            ));
        }
        if let Some((_, guess)) = self.guess {
            let (label, how_sure) = (guess.label(), guess.how_sure());
            notes.push(format!(
                "{file}: rows are not UTF-8; the encoding that fits is {label} ({how_sure}): load \
                 it with ⟦encoding {label}⟧"
            ));
        }
        if let Some(line) = self.letter_line {
            notes.push(format!(
                "{file}: in line {line}, and perhaps others, a backslash stands before a letter \
                 and was dropped, so that \\t is t. If a database wrote the file, load it with \
                 ⟦postgres_text⟧ (PostgreSQL) or ⟦mysql_text⟧ (MySQL)"
            ));
        }
        notes
    }
}

/// The line of the first backslash in a block that is an escape before a letter that databases
/// write for a control character. `None` at once if no backslash escapes, or all do by a database's
/// rules.
pub fn escaped_letter_line(block: &Block, dialect: Dialect) -> Option<u64> {
    if dialect.escape() != Some(b'\\') || dialect.is_database_text() {
        return None;
    }
    let data = block.data();
    let mut after_escape = None;
    let at = memchr_iter(b'\\', data).find(|at| {
        if after_escape.replace(*at + 1) == Some(*at) {
            // The second backslash of a pair is text.
            after_escape = None;
            return false;
        }
        data.get(*at + 1).is_some_and(|next| DATABASE_LETTERS.contains(next))
    })?;
    Some(block.position(block.start() + at).line)
}

/// The error for a bad row, with other possible faults: the delimiter, or the escapes of quotes.
pub fn with_dialect(error: Error, reading: &Reading) -> Error {
    let else_to_do = match error.kind() {
        ErrorKind::TooManyRejects { .. } => "allow more bad rows with ⟦max_rejects⟧",
        _ => "leave bad rows out with ⟦skip_bad_rows⟧",
    };
    match bad_row_of(&error).and_then(|row| advice_for(row, reading)) {
        Some(advice) => error.to_do(format!("{advice}; or correct the row, or {else_to_do}")),
        None if bad_row_of(&error).is_some_and(|row| is_ragged(&row.reason)) => {
            error.to_do(format!(
                "correct the row; fill short rows with ⟦ragged pad⟧, or cut long ones with \
                 ⟦ragged truncate⟧; or {else_to_do}"
            ))
        }
        None => error,
    }
}

/// The error for columns that differ from the ones named, with other possible faults: the
/// delimiter, or lines above the header.
pub fn with_columns(error: Error, reading: &Reading) -> Error {
    match reading.column_advice().filter(|_| is_about_columns(&error)) {
        Some(advice) => error.advise_first(advice),
        None => error,
    }
}

/// The error for the columns of several inputs. Names the last input that seems to be read in the
/// wrong dialect.
pub fn with_columns_of<'i, 's: 'i>(
    error: Error,
    inputs: impl DoubleEndedIterator<Item = &'i CsvInput<'s>>,
) -> Error {
    let advice = |input: &CsvInput<'_>| {
        let advice = input.reading.column_advice()?;
        Some(format!("{}: {advice}", input.source.name()))
    };
    match inputs.rev().find_map(advice).filter(|_| is_about_columns(&error)) {
        Some(advice) => error.advise_first(advice),
        None => error,
    }
}

/// Advice for a bad row, if it shows an escaped quote or another number of fields.
fn advice_for(row: &BadRow, reading: &Reading) -> Option<String> {
    let dialect = reading.dialect;
    let escapes_quotes =
        dialect.quote() == Some(b'"') && dialect.escape().is_none() && row.row.contains("\\\"");
    if escapes_quotes {
        return Some(
            "if the file escapes quotes with a backslash, load it with ⟦escape '\\'⟧".to_owned(),
        );
    }
    reading.ragged_advice().filter(|_| is_ragged(&row.reason))
}

/// Texts by which programs say that a value is missing.
const NO_VALUE: [&str; 20] = [
    "NA", "N/A", "n/a", "#N/A", "NaN", "nan", "NULL", "null", "None", "-", "--", "?", "\\N",
    "<NA>", "(null)", "nil", "#DIV/0!", "#VALUE!", "#REF!", "#NUM!",
];

/// Notes on columns of TEXT that would be numbers if a text meant that a value is missing, as far as
/// the first value tells that is no number. A text that is `known` to mean it stands behind an escape.
pub fn missing_value_notes(columns: &[ColumnReport], known: &[Vec<u8>]) -> Vec<String> {
    let is_new = |marker: &&&str| !known.iter().any(|known| known == marker.as_bytes());
    let notes = NO_VALUE.iter().filter(is_new).filter_map(|marker| {
        let found = columns.iter().filter_map(|column| {
            let by = column.decided_by.as_ref().filter(|by| by.value == *marker)?;
            (column.declared_type == "TEXT").then_some((column, by))
        });
        let (columns, first): (Vec<_>, Vec<_>) =
            found.map(|(column, by)| (column.name.as_str(), by)).unzip();
        let by = first.first()?;
        let of_file = by.file.as_ref().map_or(String::new(), |file| format!(" of {file}"));
        let (columns_word, are) =
            if columns.len() == 1 { ("column", "is") } else { ("columns", "are") };
        Some(format!(
            "{columns_word} {} {are} TEXT because of '{marker}', first in line {}{of_file}: if that \
             means no value, say ⟦null '{marker}'⟧",
            listed(&columns),
            by.line
        ))
    });
    notes.collect()
}
