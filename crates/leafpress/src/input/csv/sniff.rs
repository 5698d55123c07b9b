//! The form of a CSV input, where nothing says it: its delimiter, the line `sep=;` that
//! Excel writes, and line ends that are carriage returns alone.
//!
//! Looks at a sample, the input's first block, and at no more.
//!
//! Must never: decide on less than ten records, unless there are no more.

use memchr::{memchr, memchr_iter, memrchr};

use super::dialect::Dialect;
use super::lines::LineRules;
use super::scan::{FieldIndex, RecordSpan, Scanner, record_start};

/// Delimiters that are looked for, the likeliest first.
pub const CANDIDATES: [u8; 4] = [b',', b';', b'\t', b'|'];
/// Records that must agree in their number of fields, if there are as many.
const RECORDS_MIN: usize = 10;
/// Records whose fields are looked at.
const RECORDS_WEIGHED_MAX: usize = 100;
/// Bytes that are looked at first; all of the sample only where they hold too few records.
const LOOK_BYTES: usize = 128 << 10;

/// The beginning of an input.
#[derive(Debug, Clone, Copy)]
pub struct Sample<'s> {
    /// The beginning, in UTF-8.
    pub text: &'s [u8],
    /// True if it is all of the input.
    pub is_all: bool,
}

/// A delimiter, and how well it fits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fit {
    /// The byte between fields.
    pub delimiter: u8,
    /// Fields of the first record.
    pub fields: usize,
    /// Records that have as many, counted from the first one without a gap.
    pub agreeing: usize,
    /// Records that have as many, wherever they stand.
    pub alike: usize,
    /// Records that were looked at.
    pub records: usize,
    /// Records that have more than one field.
    pub divided: usize,
    /// True if these are ten records, or all that there are.
    is_enough: bool,
    /// True if no quote is stray: a quote inside a field is often one around a field of another
    /// delimiter.
    is_clean: bool,
    /// Fields that are numbers, dates or times, in the first agreeing records.
    numbers: usize,
    /// True if each delimiter in those records stands before a space, as commas in sentences do.
    is_spaced: bool,
}

impl Fit {
    /// Tells whether it divides the records, and all of them alike: ten, or as many as there are.
    pub fn is_consistent(&self) -> bool {
        self.is_enough && self.fields > 1 && self.agreeing >= self.records.min(RECORDS_MIN)
    }

    /// Tells whether it divides most of the records as the first one. That is enough for an
    /// advice, and not for a decision.
    pub fn is_likely(&self) -> bool {
        self.fields > 1 && self.alike * 2 > self.records
    }

    /// Tells whether records read with this delimiter have one field each, where `other` divides
    /// most of them, or all in some way.
    pub fn is_one_field_for(&self, other: &Self) -> bool {
        let is_one = self.fields == 1 && self.alike == self.records;
        is_one && other.fields > 1 && (other.is_likely() || other.divided == other.records)
    }

    /// Evidence for its quality, the weightiest first.
    fn evidence(&self) -> (bool, usize, usize) {
        (self.is_clean, self.agreeing, self.numbers)
    }

    /// The order of consistent fits.
    fn rank(&self) -> impl Ord + use<> {
        (self.evidence(), !self.is_spaced, self.fields)
    }
}

/// Bytes that comments begin with, as far as they are looked for.
const COMMENTS: [u8; 3] = [b'#', b'%', b'!'];

/// Lines at the beginning of an input that may be comments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CommentLines {
    /// The byte that they begin with.
    pub byte: u8,
    /// Lines of the file in front of the first one that is no comment and not blank.
    pub lines: u64,
}

/// The lines of a sample that may be comments, if it begins with some and goes on with others.
pub fn comment_lines(sample: Sample<'_>, rules: &LineRules) -> Option<CommentLines> {
    let text = whole_lines(sample, rules)?;
    let is_blank = |line: &&[u8]| line.trim_ascii().is_empty();
    let lines = || text.split(|byte| *byte == b'\n');
    let byte = *lines().find(|line| !is_blank(line))?.first()?;
    let is_above = |line: &&[u8]| is_blank(line) || line.first() == Some(&byte);
    let goes_on = lines().any(|line| !is_above(&line));
    let lines = rules.skip_lines + lines().take_while(is_above).count() as u64;
    (COMMENTS.contains(&byte) && goes_on).then_some(CommentLines { byte, lines })
}

/// Tells whether carriage returns alone end the lines of a sample: there is one outside quotes,
/// and no newline is. `dialect` has the delimiter that was given; where none was, quotes may
/// open behind any candidate.
pub fn returns_end_lines(sample: Sample<'_>, dialect: Dialect, is_delimiter_given: bool) -> bool {
    if memchr(b'\r', sample.text).is_none() {
        return false;
    }
    let delimits = |byte: u8| {
        byte == dialect.delimiter() || (!is_delimiter_given && CANDIDATES.contains(&byte))
    };
    let (mut place, mut found) = (Place::FieldStart, false);
    let mut bytes = sample.text.iter().copied().enumerate();
    while let Some((at, byte)) = bytes.next() {
        if dialect.escape() == Some(byte) && place != Place::Closed {
            // The next byte is text.
            bytes.next();
            place = if place == Place::Quoted { Place::Quoted } else { Place::Text };
            continue;
        }
        place = match (place, dialect.quote() == Some(byte)) {
            (Place::Quoted, true) => Place::Closed,
            (Place::Quoted, false) | (Place::FieldStart | Place::Closed, true) => Place::Quoted,
            _ if byte == b'\n' => return false,
            _ if byte == b'\r' => {
                match sample.text.get(at + 1) {
                    Some(b'\n') => return false,
                    None if !sample.is_all => {}
                    _ => found = true,
                }
                Place::FieldStart
            }
            _ if delimits(byte) => Place::FieldStart,
            _ => Place::Text,
        };
    }
    found
}

/// The place of a byte, as far as quotes are concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    FieldStart,
    Text,
    Quoted,
    /// After a quote that closes, unless another follows.
    Closed,
}

/// The delimiter that the first line names, as Excel reads and writes it: `sep=;`, and the
/// number of lines up to that one, with those that are blank.
pub fn sep_line(text: &[u8]) -> Option<(u8, u64)> {
    let (blank, text) = text.split_at(record_start(text, 0).min(text.len()));
    let lines = 1 + memchr_iter(b'\n', blank).count() as u64;
    let end = text.iter().position(|byte| matches!(byte, b'\n' | b'\r')).unwrap_or(text.len());
    let line = &text[..end];
    let line = match line {
        [b'"', inner @ .., b'"'] => inner,
        _ => line,
    };
    match line {
        [s, e, p, b'=', delimiter] if [*s, *e, *p].eq_ignore_ascii_case(b"sep") => {
            is_sep_delimiter(*delimiter).then_some((*delimiter, lines))
        }
        _ => None,
    }
}

/// Tells whether a line `sep=;` may name this delimiter.
pub fn is_sep_delimiter(delimiter: u8) -> bool {
    delimiter.is_ascii() && !matches!(delimiter, b'"' | b'\\')
}

/// The fit of a delimiter; `None` where the byte means something else in the input, or no
/// record is whole.
pub fn fit(sample: Sample<'_>, rules: &LineRules, delimiter: u8) -> Option<Fit> {
    if rules.comment == Some(delimiter) {
        return None;
    }
    let (quote, escape) = (rules.dialect.quote(), rules.dialect.escape());
    let dialect = Dialect::new(delimiter, quote, escape).ok()?;
    let rules = LineRules { dialect, ..rules.clone() };
    let beginning = Sample {
        text: &sample.text[..sample.text.len().min(LOOK_BYTES)],
        is_all: sample.is_all && sample.text.len() <= LOOK_BYTES,
    };
    fit_of(beginning, &rules).filter(|fit| fit.is_enough).or_else(|| fit_of(sample, &rules))
}

/// The fit of the rules' own delimiter to the whole lines of a sample.
fn fit_of(sample: Sample<'_>, rules: &LineRules) -> Option<Fit> {
    let (text, index) = indexed(sample, rules)?;
    let counts = || index.records(&text, 0).map(|record| record.field_ends.len());
    let fields = counts().next()?;
    let (mut numbers, mut is_spaced) = (0, fields > 1);
    let agreeing = index.records(&text, 0).take_while(|record| record.field_ends.len() == fields);
    for RecordSpan { mut start, field_ends } in agreeing.take(RECORDS_WEIGHED_MAX) {
        for (at, end) in field_ends.iter().map(|end| *end as usize).enumerate() {
            let raw = &text[start..end];
            numbers += usize::from(is_number_or_date(raw));
            is_spaced &= at == 0 || raw.first() == Some(&b' ');
            start = end + 1;
        }
    }
    let records = index.record_ends().len();
    Some(Fit {
        delimiter: rules.dialect.delimiter(),
        is_enough: sample.is_all || records >= RECORDS_MIN,
        fields,
        agreeing: counts().take_while(|count| *count == fields).count(),
        alike: counts().filter(|count| *count == fields).count(),
        records,
        divided: counts().filter(|count| *count > 1).count(),
        is_clean: index.stray_quotes() == 0,
        numbers,
        is_spaced,
    })
}

/// Tells whether a field, perhaps in quotes, is a number, a date or a time without a comma.
fn is_number_or_date(raw: &[u8]) -> bool {
    let raw = raw.strip_suffix(b"\r").unwrap_or(raw);
    let raw = raw.strip_prefix(b"\"").and_then(|it| it.strip_suffix(b"\"")).unwrap_or(raw);
    raw.iter().any(u8::is_ascii_digit)
        && raw.iter().all(|byte| byte.is_ascii_digit() || b".+-:/".contains(byte))
}

/// The whole lines of a sample, by the rules.
fn whole_lines(sample: Sample<'_>, rules: &LineRules) -> Option<Vec<u8>> {
    let mut text = if rules.are_idle() { sample.text.to_vec() } else { rules.apply(sample.text) };
    if sample.is_all {
        text.push(b'\n');
    } else {
        text.truncate(memrchr(b'\n', &text)? + 1);
    }
    Some(text)
}

/// The whole lines of a sample, and where their records are.
fn indexed(sample: Sample<'_>, rules: &LineRules) -> Option<(Vec<u8>, FieldIndex)> {
    let text = whole_lines(sample, rules)?;
    let mut index = FieldIndex::new();
    let mut scanner = Scanner::new(rules.dialect);
    scanner.begin(0, &mut index);
    scanner.scan(&text, &mut index);
    Some((text, index))
}

/// Tells whether each whole record of a sample ends with these bytes, before its newline.
pub fn records_end_with(sample: Sample<'_>, rules: &LineRules, ending: &[u8]) -> bool {
    // In most inputs no line does, and then no record has to be found.
    if memchr::memmem::find(sample.text, ending).is_none() {
        return false;
    }
    let Some((text, index)) = indexed(Sample { is_all: false, ..sample }, rules) else {
        return false;
    };
    let ends = index.record_ends();
    !ends.is_empty() && ends.iter().all(|end| text[..*end as usize].ends_with(ending))
}

/// The number of lines above the header, if the records of a sample begin with some of few
/// fields and go on with at least two that have as many as each other.
pub fn title_lines(sample: Sample<'_>, rules: &LineRules) -> Option<u64> {
    CANDIDATES.iter().find_map(|delimiter| {
        let (quote, escape) = (rules.dialect.quote(), rules.dialect.escape());
        let dialect = Dialect::new(*delimiter, quote, escape).ok()?;
        let (text, index) = indexed(sample, &LineRules { dialect, ..rules.clone() })?;
        let records: Vec<_> = index.records(&text, 0).collect();
        let fields = records.last()?.field_ends.len();
        let titles = records.iter().take_while(|record| record.field_ends.len() < fields).count();
        let rows = &records[titles..];
        let is_table = titles > 0
            && rows.len() > 1
            && rows.iter().all(|record| record.field_ends.len() == fields);
        let above = rules.line_ends().count(&text[..rows.first()?.start]);
        is_table.then_some(rules.skip_lines + above)
    })
}

/// Tells whether the first record of a sample has one field less than all others, as where a
/// column of row names has no name.
pub fn is_header_short(sample: Sample<'_>, rules: &LineRules) -> bool {
    let Some((text, index)) = indexed(sample, rules) else { return false };
    let mut counts = index.records(&text, 0).map(|record| record.field_ends.len());
    let (Some(names), rest) = (counts.next(), counts) else { return false };
    names > 1 && rest.len() > 0 && rest.into_iter().all(|fields| fields == names + 1)
}

/// The fit of each candidate, in the order of [`CANDIDATES`].
pub fn fits(sample: Sample<'_>, rules: &LineRules) -> Vec<Fit> {
    CANDIDATES.iter().filter_map(|delimiter| fit(sample, rules, *delimiter)).collect()
}

/// The candidate that fits best: without stray quotes, for most records, with most numbers, not
/// before a space, with most fields. Of equals, the comma.
pub fn best(fits: &[Fit]) -> Option<Fit> {
    let consistent = fits.iter().filter(|fit| fit.is_consistent());
    // The last of several equals is taken: the likeliest must come last.
    consistent.rev().max_by_key(|fit| (fit.rank(), fit.delimiter == b',')).copied()
}

/// A candidate that fits as well as the best one, so that nothing decides. A header is evidence: the
/// lists in a column make as many fields in each row, but seldom in its name. Without one, the number
/// of fields and the spaces do not decide against the comma.
pub fn equal_of(best: &Fit, fits: &[Fit], has_header: bool) -> Option<Fit> {
    let is_equal = |fit: &&Fit| {
        let is_decided = has_header || (best.delimiter == b',' && best.fields > fit.fields);
        fit.delimiter != best.delimiter
            && fit.is_consistent()
            && fit.evidence() == best.evidence()
            && !(is_decided && fit.rank() != best.rank())
    };
    fits.iter().find(is_equal).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(text: &str) -> Sample<'_> {
        Sample { text: text.as_bytes(), is_all: true }
    }

    fn found(text: &str) -> Option<u8> {
        best(&fits(all(text), &LineRules::new(Dialect::default()))).map(|fit| fit.delimiter)
    }

    #[test]
    fn the_delimiter_divides_all_records_alike() {
        for (text, expected) in [
            ("a,b\n1,2\n", Some(b',')),
            ("a;b\n1,5;x\n", Some(b';')),
            ("a\tb\n1\t2\n", Some(b'\t')),
            ("a|b\n1|2", Some(b'|')),
            // One column.
            ("a\n1\n2\n", None),
            // Both fit: the comma is the likelier.
            ("1,2;3\n4,5;6\n", Some(b',')),
            ("a;\"b\n;\"\n1;2\n\n3;4\n", Some(b';')),
            // Ragged.
            ("a;b\n1;2;3\n", None),
            ("", None),
        ] {
            assert_eq!(found(text), expected, "{text:?}");
        }
    }

    /// Texts in which several candidates divide all records: with a header or without, the
    /// delimiter that is taken, and another one if nothing decides. Above each, the one that
    /// Python's `csv.Sniffer` takes.
    #[test]
    fn rivals_are_told_apart_by_quotes_numbers_spaces_and_fields() {
        for (text, has_header, taken, equal) in [
            // Python: the semicolon. The quotes are not around the fields of commas.
            ("\"id\";\"Name, Vorname\"\n\"1\";\"Müller, Hans\"\n", true, b';', None),
            // Python: the comma. Dates and numbers are fields of semicolons.
            ("Datum;Von;Betrag, EUR;Konto\n01.01.2024;X;1,50;0012\n", true, b';', None),
            // Python: the comma. A comma before a space is one of a sentence.
            ("Ort;Lage (Breite, Länge);Land\nA;52.0, 13.0;DE\n", true, b';', None),
            ("place\tlat, lon\nA\t52.0, 13.0\n", true, b'\t', None),
            // Python: the comma. The header has no pipe.
            ("id,tags\n1,a|b|c\n2,d|e|f\n", true, b',', None),
            // Python: the semicolon, as the header has no comma.
            ("id;text\n1;a, b\n2;c, d\n", true, b';', None),
            // Python: the comma. It stands before spaces, and makes less fields.
            ("id;n;m, n\nx;y;a, b\n", true, b';', None),
            // Python: the tab, with more numbers.
            ("id\tn;m\tv\n1\t5;6\t7\n", true, b'\t', None),
            // Python: the comma. With decimal commas or lists of two, nothing decides.
            ("a,b;c\n1,2;3\n4,5;6\n", true, b',', Some(b';')),
            ("1;2,5;3,5\n4;5,5;6,5\n", false, b',', Some(b';')),
            ("x,a|b\ny,c|d\n", false, b',', Some(b'|')),
            // Python: the comma. Lists without a header may have any number of items.
            ("x,a|b|c\ny,d|e|f\n", false, b'|', Some(b',')),
            ("1,a|b|c\n2,d|e|f\n", false, b',', None),
            // Python: the comma. It makes more fields.
            ("x,y,a|b\nz,v,c|d\n", false, b',', None),
        ] {
            let fits = fits(all(text), &LineRules::new(Dialect::default()));
            let best = best(&fits).unwrap();
            let equal_of = equal_of(&best, &fits, has_header).map(|fit| fit.delimiter);
            assert_eq!((best.delimiter, equal_of), (taken, equal), "{text:?}");
        }
    }

    #[test]
    fn what_quotes_enclose_never_decides() {
        for (delimiter, other) in CANDIDATES.iter().flat_map(|it| CANDIDATES.map(|b| (*it, b))) {
            let (d, o) = (char::from(delimiter), char::from(other));
            let row = format!("\"x{o}{o}\"{d}\"{o} {o}{o}\"{d}\"1{o}2\"\n");
            let text = format!("a{d}b{d}c\n{}", row.repeat(11));
            assert_eq!(found(&text), Some(delimiter), "{text:?}");
            let text = format!("\"a{o}\"{d}\"b{o}{o}{o}\"{d}c\n{}", row.repeat(11));
            assert_eq!(found(&text), Some(delimiter), "{text:?}");
        }
    }

    #[test]
    fn a_ragged_record_at_any_place_makes_no_single_column() {
        let rules = LineRules::new(Dialect::default());
        for (delimiter, at) in [b';', b'\t', b'|'].iter().flat_map(|it| (1..15).map(|at| (*it, at)))
        {
            let d = char::from(delimiter);
            let mut records = vec![format!("a{d}b"); 15];
            records[at] = format!("1{d}\"t\nu\"{d}2");
            let text = records.join("\n");
            let one = fit(all(&text), &rules, b',').unwrap();
            let other = fit(all(&text), &rules, delimiter).unwrap();
            let is_known = best(&[one, other]).is_some_and(|fit| fit.delimiter == delimiter);
            assert!(is_known || one.is_one_field_for(&other), "{text:?}");
        }
        let one = |text: &str| {
            let other = fit(all(text), &rules, b';').unwrap();
            fit(all(text), &rules, b',').unwrap().is_one_field_for(&other)
        };
        assert!(one("a;b\n1;2;3\n"));
        // One column of texts, and a header that is one with a few.
        for text in ["text\na;b\nc;d\n", "a; b\nc\nd\n", "a;b\n1;2,3\n4;5\n6;7;8\n"] {
            assert!(!one(text), "{text:?}");
        }
    }

    #[test]
    fn ten_records_are_enough_and_less_are_not() {
        let lines = |count: usize| "a;b\n".repeat(count);
        assert_eq!(found(&format!("{}x\n", lines(10))), Some(b';'));
        assert_eq!(found(&format!("{}x\n", lines(9))), None);
        // A comma that holds for ten is second to what holds for all.
        assert_eq!(found(&format!("{}1,2;3,4\n", "a,b;c\n".repeat(12))), Some(b';'));
    }

    #[test]
    fn a_sample_counts_only_with_enough_whole_records() {
        let rules = LineRules::new(Dialect::default());
        let text = "a;b\n".repeat(9) + "a;";
        let sample = Sample { text: text.as_bytes(), is_all: false };
        let few = fit(sample, &rules, b';').unwrap();
        assert!(!few.is_consistent());
        // They do not decide, but they are a reason to ask.
        assert!(fit(sample, &rules, b',').unwrap().is_one_field_for(&few));
        let long = format!("{};b\n", "x".repeat(20_000)).repeat(12);
        let sample = Sample { text: long.as_bytes(), is_all: false };
        assert_eq!(fit(sample, &rules, b';').unwrap().records, 12);
    }

    #[test]
    fn lines_that_go_and_comments_have_no_say() {
        let rules = LineRules {
            skip_lines: 1,
            comment: Some(b'#'),
            returns_end_lines: true,
            ..LineRules::new(Dialect::default())
        };
        let fits = fits(all("Report, 2024\r#;;\ra;b\r1;2\r"), &rules);
        assert_eq!(best(&fits).unwrap().delimiter, b';');
    }

    #[test]
    fn lone_returns_are_line_ends_where_no_newline_is() {
        let is = |text: &str| returns_end_lines(all(text), Dialect::default(), false);
        for text in ["id,n\r5,6\r", "a\r\"x\ny\"\rb", "\"a\nb\",c\r\"d\"\"\n\"\r", "a;\"b\n\"\r"] {
            assert!(is(text), "{text:?}");
        }
        for text in ["a\nb\rc\n", "a\r\nb\r\n", "\"a\rb\"\n", "\"a\rb\"", "a", "", "a\"\rb\"\n"] {
            assert!(!is(text), "{text:?}");
        }
        let cut = Sample { text: b"a,b\r", is_all: false };
        assert!(!returns_end_lines(cut, Dialect::default(), false));
        // A semicolon that is text opens no quote behind it.
        let text = "a,b;\"\n\"\r";
        assert!(is(text) && !returns_end_lines(all(text), Dialect::default(), true));
        let escaping = Dialect::new(b',', Some(b'"'), Some(b'\\')).unwrap();
        assert!(returns_end_lines(all("a\\\nb\rc"), escaping, false));
    }

    #[test]
    fn lines_above_a_header_are_counted() {
        let rules = LineRules::new(Dialect::default());
        let lines = |text: &str| title_lines(all(text), &rules);
        assert_eq!(lines("Report\n\na,b,c\n1,2,3\n4,5,6\n"), Some(2));
        assert_eq!(lines("Report, 2024\n\"by\nann\"\na;b;c\n1;2;3\n"), Some(3));
        assert_eq!(lines("a,b\n1,2\n"), None);
        assert_eq!(lines("a\n1,2\n"), None);
        assert_eq!(lines("a\n1,2\n1,2\n1,2,3\n"), None);
        let skipping = LineRules { skip_lines: 1, ..rules.clone() };
        assert_eq!(title_lines(all("x\ny\na,b\n1,2\n"), &skipping), Some(2));
    }

    #[test]
    fn comments_above_a_header_are_counted() {
        let lines = |text: &str| {
            let found = comment_lines(all(text), &LineRules::new(Dialect::default()));
            found.map(|found| (found.byte, found.lines))
        };
        assert_eq!(lines("# a\n#b\r\n\nid,n\n"), Some((b'#', 3)));
        assert_eq!(lines("\n% a\nid\n% b\n"), Some((b'%', 2)));
        assert_eq!(lines("# a\n! b\n"), Some((b'#', 1)));
        for text in ["# a\n# b\n", "a\n# b\n", " # a\nb\n", ""] {
            assert_eq!(lines(text), None, "{text:?}");
        }
        let rules = LineRules {
            skip_lines: 2,
            returns_end_lines: true,
            ..LineRules::new(Dialect::default())
        };
        let found = comment_lines(all("x\ry\r# a\rid\r"), &rules);
        assert_eq!(found, Some(CommentLines { byte: b'#', lines: 3 }));
    }

    #[test]
    fn most_records_make_a_delimiter_likely_and_do_not_decide() {
        let rules = LineRules::new(Dialect::default());
        let likely = |text: &str| {
            let fit = fit(all(text), &rules, b';').unwrap();
            (fit.is_likely(), fit.is_consistent())
        };
        assert_eq!(likely("a;b;c\n1;2;3\n4;5\n6;7;8\n"), (true, false));
        assert_eq!(likely("a;b\n1;2\n"), (true, true));
        assert_eq!(likely("a;b\nx\ny\n"), (false, false));
        assert_eq!(likely("a\nx\ny\n"), (false, false));
        let commenting = LineRules { comment: Some(b';'), ..rules.clone() };
        assert_eq!(fit(all("a;b\n1;2\n"), &commenting, b';'), None);
    }

    #[test]
    fn lines_above_a_header_are_counted_as_an_editor_does() {
        let rules = LineRules { returns_end_lines: true, ..LineRules::new(Dialect::default()) };
        let text = "\"Report\rby\nann\r\nx\"\ra,b\r1,2\r3,4\r";
        assert_eq!(title_lines(all(text), &rules), Some(4));
    }

    #[test]
    fn excels_first_line_names_the_delimiter() {
        for (text, expected) in [
            ("sep=;\r\na;b\r\n", Some(b';')),
            ("SEP=\t\na", Some(b'\t')),
            ("\"sep=|\"\n", Some(b'|')),
            ("sep=,", Some(b',')),
            ("sep=", None),
            ("sep=;;\n", None),
            ("sep=\"\n", None),
            ("sepal=;\n", None),
        ] {
            let expected = expected.map(|delimiter| (delimiter, 1));
            assert_eq!(sep_line(text.as_bytes()), expected, "{text:?}");
        }
        assert_eq!(sep_line(b"\n\r\nsep=|\na"), Some((b'|', 3)));
        assert_eq!(sep_line(b"\n\n"), None);
    }
}
