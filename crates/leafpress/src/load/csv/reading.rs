//! The dialect of a CSV input: decided once, from the caller's options, the input's name and its
//! beginning. Every pass over the input uses it.
//!
//! Must never: decide something that the caller did not say without a note.

use std::sync::atomic::Ordering;

use crate::error::{Error, Result};
use crate::input::csv::Dialect;
use crate::input::csv::lines::{BlankLines, LineRules};
use crate::input::csv::sniff::{self, CANDIDATES, CommentLines, Fit, Sample};
use crate::load::endings;
use crate::load::options::{CsvOptions, InputFormat, LoadOptions};
use crate::schema::names::ColumnName;
use crate::words::counted;

/// Dialect of one input.
#[derive(Debug, Clone)]
pub struct Reading {
    pub dialect: Dialect,
    /// The label of its encoding; UTF-8 where there is none.
    pub encoding: Option<String>,
    pub lines: LineRules,
    /// The line that is read first.
    pub first_line: u64,
    /// Another delimiter, which seems to divide the records better.
    pub other: Option<Fit>,
    /// True if the header has one name less than the records have fields.
    is_header_short: bool,
    /// Lines that seem to stand above the header.
    title_lines: Option<u64>,
    /// Lines at the beginning that may be comments.
    comments: Option<CommentLines>,
    /// True if most records have as many fields as the first one, and that is more than one.
    is_likely: bool,
    /// The reason that a delimiter that was not given cannot be taken.
    unsure: Option<Unsure>,
    /// Notes about all that was decided without the caller's word.
    pub notes: Vec<String>,
}

/// A choice of a delimiter for which too little speaks.
#[derive(Debug, Clone, Copy)]
enum Unsure {
    /// Both divide the records alike.
    Equal(u8, u8),
    /// The records have one field, and another delimiter divides most of them.
    OneField(Fit),
}

impl Reading {
    /// Decides the dialect of the input `file`, which begins with `sample`.
    ///
    /// # Errors
    /// [`ErrorKind::Misuse`](crate::ErrorKind::Misuse) where the dialect's bytes clash.
    pub fn of(
        options: &LoadOptions,
        file: &str,
        encoding: Option<String>,
        sample: Sample<'_>,
    ) -> Result<Self> {
        let csv = &options.csv;
        let tab = || csv.delimiter.unwrap_or(b'\t');
        let dialect = match options.format {
            Some(InputFormat::PostgresText) => Dialect::postgres_text(tab())?,
            Some(InputFormat::MysqlText) => Dialect::mysql_text(tab())?,
            _ => {
                let delimiter = csv.delimiter.unwrap_or_else(|| any_delimiter(csv));
                refuse_clash(csv, file, delimiter, "the option")?;
                Dialect::new(delimiter, csv.quote, csv.escape)?
            }
        };
        let lines = LineRules { skip_lines: csv.skip_lines, ..LineRules::new(dialect) };
        let mut reading = Self {
            dialect,
            encoding,
            lines,
            first_line: 1,
            other: None,
            is_header_short: false,
            title_lines: None,
            comments: None,
            is_likely: false,
            unsure: None,
            notes: Vec::new(),
        };
        if options.is_database_text() {
            reading.lines.has_end_mark = options.format == Some(InputFormat::PostgresText);
            if options.format == Some(InputFormat::MysqlText) {
                reading.find_returns(file, sample, b"\r", "a carriage return and a newline");
            }
        } else {
            reading.lines.comment = csv.comment;
            reading.find_line_ends(options, file, sample);
            let taken = reading.find_delimiter(options, file, sample)?;
            let ends =
                "two carriage returns and a newline, as of line ends that were translated twice";
            reading.find_returns(file, sample, b"\r\r", ends);
            reading.find_blank_lines(options, taken);
        }
        reading.first_line = 1 + reading.lines.skip_lines;
        Ok(reading)
    }

    fn find_line_ends(&mut self, options: &LoadOptions, file: &str, sample: Sample<'_>) {
        let is_given = options.csv.delimiter.is_some();
        self.lines.returns_end_lines = sniff::returns_end_lines(sample, self.dialect, is_given);
        if self.lines.returns_end_lines {
            self.notes.push(format!(
                "{file}: its lines end with a carriage return alone, as on old Macs, and are \
                 read so"
            ));
        }
    }

    /// Takes carriage returns for a part of the line ends where all records end with them.
    fn find_returns(&mut self, file: &str, sample: Sample<'_>, returns: &[u8], ends: &str) {
        if sniff::records_end_with(sample, &self.lines, returns) {
            self.lines.drops_returns = true;
            self.notes.push(format!("{file}: its lines end with {ends}, and are read so"));
        }
    }

    /// Takes blank lines for rows where the first record has one field, so that there is one column.
    /// Without a quote byte there is no way to write such a row.
    fn find_blank_lines(&mut self, options: &LoadOptions, taken: Option<Fit>) {
        if taken.is_some_and(|fit| fit.fields == 1) && self.dialect.quote().is_some() {
            self.lines.blank_lines =
                if options.has_header() { BlankLines::RowsBelowHeader } else { BlankLines::Rows };
        }
    }

    /// Decides the delimiter, and gives its fit.
    fn find_delimiter(
        &mut self,
        options: &LoadOptions,
        file: &str,
        sample: Sample<'_>,
    ) -> Result<Option<Fit>> {
        let csv = &options.csv;
        let named = self.take_sep_line(file, sample);
        let given = csv.delimiter.or(named).or_else(|| endings::delimiter(file));
        let fits = sniff::fits(sample, &self.lines);
        let found = sniff::best(&fits);
        let delimiter = given.or(found.map(|fit| fit.delimiter)).unwrap_or(b',');
        let says = match named {
            Some(named) => &format!("its line 'sep={}'", named.escape_ascii()),
            None if given.is_some() => "its name",
            None => "the default",
        };
        refuse_clash(csv, file, delimiter, says)?;
        self.dialect = Dialect::new(delimiter, csv.quote, csv.escape)?;
        self.lines.dialect = self.dialect;
        if given.is_none()
            && let Some(fit) = found.filter(|fit| fit.delimiter != b',')
        {
            let (shown, records) = (fit.delimiter.escape_ascii(), fit.agreeing);
            let records = if records == 1 { "record" } else { &format!("{records} records") };
            self.notes.push(format!(
                "{file}: fields are separated by '{shown}', as its first {records} tell; \
                 ⟦delimiter⟧ decides otherwise"
            ));
        }
        let taken = match fits.iter().find(|fit| fit.delimiter == delimiter) {
            Some(fit) => Some(*fit),
            None => sniff::fit(sample, &self.lines, delimiter),
        };
        self.find_other_delimiter(file, sample, &fits, taken, given.is_none());
        if given.is_none() {
            self.unsure = self.find_doubt(options, &fits, taken);
        }
        Ok(taken)
    }

    /// Finds a reason to ask for the delimiter.
    fn find_doubt(
        &self,
        options: &LoadOptions,
        fits: &[Fit],
        taken: Option<Fit>,
    ) -> Option<Unsure> {
        if let Some(best) = sniff::best(fits) {
            let equal = sniff::equal_of(&best, fits, options.has_header())?;
            return Some(Unsure::Equal(best.delimiter, equal.delimiter));
        }
        let is_one_named = options.csv.columns.as_ref().is_some_and(|names| names.len() == 1);
        let other =
            self.other.filter(|other| taken.is_some_and(|it| it.is_one_field_for(other)))?;
        (!is_one_named).then_some(Unsure::OneField(other))
    }

    /// Refuses an input whose delimiter would decide the columns of a table, and is not sure.
    ///
    /// # Errors
    /// An input error, with the delimiters to choose from.
    pub fn refuse_unsure(&self, file: &str) -> Result<()> {
        let (reason, advice) = match self.unsure {
            None => return Ok(()),
            Some(Unsure::Equal(one, other)) => {
                let (one, other) = (one.escape_ascii(), other.escape_ascii());
                (
                    format!("'{one}' and '{other}' divide its records equally well"),
                    format!(
                        "say which of them separates its fields: ⟦delimiter '{one}'⟧ or \
                         ⟦delimiter '{other}'⟧"
                    ),
                )
            }
            Some(Unsure::OneField(Fit { delimiter, fields, .. })) => {
                let (taken, other) = (self.dialect.delimiter(), delimiter.escape_ascii());
                (
                    format!(
                        "it would be one column, but '{other}' divides its first record into \
                         {fields} fields, and others too, if not all alike"
                    ),
                    format!(
                        "the file looks as if its delimiter were '{other}': use \
                         ⟦delimiter '{other}'⟧; rows of other lengths are bad rows then. If it is one \
                         column, use ⟦delimiter '{}'⟧",
                        taken.escape_ascii()
                    ),
                )
            }
        };
        Err(Error::input(file, reason).to_do(advice))
    }

    /// Looks for a delimiter that fits as well as the chosen one, or better.
    fn find_other_delimiter(
        &mut self,
        file: &str,
        sample: Sample<'_>,
        fits: &[Fit],
        taken: Option<Fit>,
        is_open: bool,
    ) {
        let fields = taken.map_or(0, |fit| fit.fields);
        let others = || fits.iter().filter(|fit| fit.delimiter != self.dialect.delimiter());
        let is_likely = taken.is_some_and(|fit| fit.is_likely());
        self.is_likely = is_likely;
        if self.lines.comment.is_none() {
            self.comments = sniff::comment_lines(sample, &self.lines);
        }
        if !taken.is_some_and(|fit| fit.is_consistent()) {
            let is_better = |fit: &&Fit| {
                fit.is_consistent()
                    || (fields <= 1 && fit.fields > 1)
                    || (!is_likely && fit.is_likely())
            };
            let rank = |fit: &&Fit| (fit.is_consistent(), fit.alike, fit.fields);
            self.is_header_short = sniff::is_header_short(sample, &self.lines);
            self.other = others().filter(is_better).max_by_key(rank).copied();
            if !self.other.is_some_and(|fit| fit.is_consistent()) {
                self.title_lines = sniff::title_lines(sample, &self.lines);
            }
            return;
        }
        let rival = others().find(|fit| {
            fit.is_consistent()
                && fit.fields >= fields
                && taken.is_some_and(|taken| fit.agreeing >= taken.agreeing)
        });
        if let Some(rival) = rival.filter(|_| is_open) {
            self.notes.push(format!(
                "{file}: '{}' is taken to separate the fields, but '{1}' divides its records \
                 alike, too: if it is that, load with ⟦delimiter '{1}'⟧",
                self.dialect.delimiter().escape_ascii(),
                rival.delimiter.escape_ascii()
            ));
        }
    }

    /// The delimiter that the first line names; that line is no data.
    fn take_sep_line(&mut self, file: &str, sample: Sample<'_>) -> Option<u8> {
        let named = if self.lines.are_idle() {
            sniff::sep_line(sample.text)
        } else {
            sniff::sep_line(&self.lines.apply(sample.text))
        }?;
        let (named, lines) = named;
        self.lines.skip_lines += lines;
        self.notes.push(format!(
            "{file}: its line {} says how fields are separated, and is no row: 'sep={}'",
            self.lines.skip_lines,
            named.escape_ascii()
        ));
        Some(named)
    }

    /// Notes about the input's lines that need a whole pass over them.
    pub fn late_notes(&self, file: &str) -> Vec<String> {
        let mut notes = Vec::new();
        if self.lines.is_cut.load(Ordering::Relaxed) {
            notes.push(format!(
                "{file}: the line \\. ends the data, as in PostgreSQL's text format; what \
                 follows it is not read"
            ));
        }
        let blank = self.lines.blank_lines_at_end.load(Ordering::Relaxed);
        if blank > 0 {
            let lines = counted(
                blank,
                "blank line behind its last row is",
                "blank lines behind its last row are",
            );
            notes.push(format!("{file}: {lines} no rows; those before it are"));
        }
        notes
    }

    /// Advice for rows with another number of fields.
    pub fn ragged_advice(&self) -> Option<String> {
        let comments = self.comments.filter(|_| !self.is_likely);
        comments.map(comment_advice).or_else(|| self.header_advice())
    }

    /// Advice for columns that differ from the ones the caller named.
    pub fn column_advice(&self) -> Option<String> {
        self.comments.map(comment_advice).or_else(|| self.header_advice())
    }

    /// A note about a header that may be a comment. The header is loaded like any other.
    pub fn header_note(&self, file: &str, names: &[ColumnName]) -> Option<String> {
        let comments = self.comments?;
        let begins_with_blank = names[0].written.as_bytes().get(1) == Some(&b' ');
        (names.len() == 1 || begins_with_blank).then(|| {
            let (name, advice) = (&names[0].written, comment_advice(comments));
            format!("{file}: the name of its first column is '{name}'; {advice}")
        })
    }

    fn header_advice(&self) -> Option<String> {
        if self.is_header_short {
            let lines = self.lines.skip_lines + 1;
            return Some(format!(
                "the header has one name less than the rows have fields: if it lacks the first \
                 column's, as of row names in R, leave it out with ⟦skip_lines {lines}⟧ and \
                 ⟦no_header⟧, and name all columns with ⟦columns⟧"
            ));
        }
        if let Some(lines) = self.title_lines {
            return Some(format!(
                "if lines stand above the header, leave them out with ⟦skip_lines {lines}⟧"
            ));
        }
        let delimiter = self.other?.delimiter.escape_ascii();
        Some(format!(
            "the file looks as if its delimiter were '{delimiter}': use ⟦delimiter '{delimiter}'⟧"
        ))
    }
}

fn comment_advice(CommentLines { byte, lines }: CommentLines) -> String {
    let byte = char::from(byte);
    format!(
        "if lines that begin with '{byte}' are comments, leave them out with ⟦comment '{byte}'⟧ \
         (or with ⟦skip_lines {lines}⟧)"
    )
}

/// A delimiter for a first look at the lines, before the input's own is known.
fn any_delimiter(csv: &CsvOptions) -> u8 {
    let taken = [csv.quote, csv.escape, csv.comment];
    CANDIDATES.into_iter().find(|byte| !taken.contains(&Some(*byte))).unwrap_or(b',')
}

/// Refuses a byte with two meanings in an input; `says` names the source of the delimiter.
fn refuse_clash(csv: &CsvOptions, file: &str, delimiter: u8, says: &str) -> Result<()> {
    let others = [
        ("quote", "⟦quote⟧", csv.quote),
        ("escape", "⟦escape⟧", csv.escape),
        ("comment", "⟦comment⟧", csv.comment),
    ];
    if let Some((name, option, _)) = others.iter().find(|(.., byte)| *byte == Some(delimiter)) {
        let shown = delimiter.escape_ascii();
        return Err(Error::misuse(format!(
            "{file}: '{shown}' separates the fields ({says} says so), and is the {name} byte, too"
        ))
        .to_do(format!(
            "name another byte with {option}, or with ⟦delimiter⟧ the one that separates the fields"
        )));
    }
    let clash = others[..2].iter().find(|(.., byte)| byte.is_some() && *byte == csv.comment);
    let is_line_end = matches!(csv.comment, Some(b'\n' | b'\r'));
    let reason = match clash {
        Some((name, ..)) => format!("comment and {name} are the same byte"),
        None if is_line_end => "a comment cannot begin with a line end".to_owned(),
        None => return Ok(()),
    };
    Err(Error::misuse(reason).to_do("name another byte with ⟦comment⟧"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::CsvOptions;

    fn reading(csv: CsvOptions, file: &str, text: &str) -> Reading {
        let options = LoadOptions { csv, ..LoadOptions::new("unused.db".into()) };
        let sample = Sample { text: text.as_bytes(), is_all: true };
        Reading::of(&options, file, None, sample).unwrap()
    }

    #[test]
    fn what_is_said_counts_more_than_what_is_found() {
        let found = |csv, file: &str, text: &str| {
            let reading = reading(csv, file, text);
            (reading.dialect.delimiter(), reading.first_line)
        };
        let given = || CsvOptions { delimiter: Some(b'|'), ..CsvOptions::default() };
        for (csv, file, text, expected) in [
            (CsvOptions::default(), "a.csv", "a;b\n1;2\n", (b';', 1)),
            (CsvOptions::default(), "a.tsv", "a;b\n1;2\n", (b'\t', 1)),
            (CsvOptions::default(), "a.TAB.gz", "a;b\n1;2\n", (b'\t', 1)),
            (CsvOptions::default(), "a.tsv", "sep=;\na;b\n", (b';', 2)),
            (CsvOptions::default(), "a.csv", "sep=:\r\na:b\r\n", (b':', 2)),
            (CsvOptions::default(), "a.csv", "a\n1\n", (b',', 1)),
            (given(), "a.csv", "a;b\n1;2\n", (b'|', 1)),
            (given(), "a.csv", "sep=;\na;b\n1;2\n", (b'|', 2)),
            (CsvOptions { skip_lines: 3, ..given() }, "a.csv", "x\n", (b'|', 4)),
        ] {
            assert_eq!(found(csv, file, text), expected, "{file}: {text:?}");
        }
    }

    #[test]
    fn what_is_found_is_noted_and_a_rival_is_named() {
        let notes = |text: &str| reading(CsvOptions::default(), "a.csv", text).notes;
        assert!(notes("a,b\n1,2\n").is_empty());
        assert_eq!(
            notes("a;b\n1;2\n"),
            ["a.csv: fields are separated by ';', as its first 2 records tell; ⟦delimiter⟧ \
              decides otherwise"]
        );
        assert!(notes("1,2;3\n4,5;6\n")[0].contains("but ';' divides its records alike"));
        assert!(notes("a,b,c\n1,x;y,3\n2,x;y,3\n").is_empty());
        assert!(notes("id,n\r5,6\r")[0].contains("a carriage return alone"));
    }

    #[test]
    fn another_delimiter_is_advised_where_the_taken_one_does_not_fit() {
        let csv = || CsvOptions { delimiter: Some(b','), ..CsvOptions::default() };
        let advice = reading(csv(), "a.csv", "a;b\n1,5;x\n").ragged_advice();
        assert!(advice.is_some_and(|advice| advice.ends_with("⟦delimiter ';'⟧")));
        let advice = reading(CsvOptions::default(), "a.tsv", "a,b\n1\t2,3\n").ragged_advice();
        assert!(advice.is_some_and(|advice| advice.ends_with("⟦delimiter ','⟧")));
        assert_eq!(reading(csv(), "a.csv", "a,b\n1,2\n").ragged_advice(), None);
    }
}
