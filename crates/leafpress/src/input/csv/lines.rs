//! The changes to lines before they are scanned: lines in front of the header go, comments
//! become blank lines, carriage returns that end lines become newlines or go, blank lines become
//! empty fields where they are rows, and the line `\.` ends the text.
//!
//! Few inputs need any of it; for those this filter stands between the source and the blocks,
//! and knows as much of quotes as it must. Each line keeps its newline, so that lines count as
//! in the file, but for those in front of the header, which are counted by the caller.
//!
//! Must never: change a byte inside quotes.

use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use memchr::{memchr, memchr2, memmem, memrchr};

use super::dialect::Dialect;
use super::locate::LineEnds;

/// Bytes that are read at once.
const CHUNK_BYTES: usize = 64 << 10;
/// Bytes after which the output is given away: held lines may be many.
const OUTPUT_BYTES: usize = 4 * CHUNK_BYTES;
/// The longest line that must be seen whole: `\.` with its line end.
const MARK_BYTES_MAX: usize = 4;

/// The meaning of blank lines before the last record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlankLines {
    /// They are left as they are.
    Kept,
    /// Those below the header are rows of one empty field.
    RowsBelowHeader,
    /// All are.
    Rows,
}

/// The rules for an input's lines.
#[derive(Debug, Clone)]
pub struct LineRules {
    /// The dialect, by which quotes and escapes are found.
    pub dialect: Dialect,
    /// True if a carriage return alone ends a line.
    pub returns_end_lines: bool,
    /// True if carriage returns before the newline of a line go.
    pub drops_returns: bool,
    /// Rows of blank lines. Needs a quote byte in the dialect.
    pub blank_lines: BlankLines,
    /// The number of blank lines behind the last record, where others are rows.
    pub blank_lines_at_end: Arc<AtomicU64>,
    /// Lines in front of the header that go.
    pub skip_lines: u64,
    /// The first byte of lines that are comments.
    pub comment: Option<u8>,
    /// True if a line `\.` ends the text.
    pub has_end_mark: bool,
    /// Set where text follows the line `\.`.
    pub is_cut: Arc<AtomicBool>,
}

impl LineRules {
    /// Rules that leave all lines as they are.
    pub fn new(dialect: Dialect) -> Self {
        Self {
            dialect,
            returns_end_lines: false,
            drops_returns: false,
            blank_lines: BlankLines::Kept,
            blank_lines_at_end: Arc::default(),
            skip_lines: 0,
            comment: None,
            has_end_mark: false,
            is_cut: Arc::default(),
        }
    }

    /// Tells whether there is nothing to do.
    pub fn are_idle(&self) -> bool {
        !self.returns_end_lines
            && !self.drops_returns
            && self.blank_lines == BlankLines::Kept
            && self.skip_lines == 0
            && self.comment.is_none()
            && !self.has_end_mark
    }

    /// The bytes that end lines as an editor shows them.
    pub fn line_ends(&self) -> LineEnds {
        if self.returns_end_lines { LineEnds::ReturnsToo } else { LineEnds::Newlines }
    }

    /// The bytes of a blank line with its end, if `rest` begins with one.
    fn blank_line_bytes(&self, rest: &[u8]) -> Option<usize> {
        match rest {
            [b'\n', ..] => Some(1),
            [b'\r', b'\n', ..] => Some(2),
            [b'\r', b'\r', b'\n', ..] if self.drops_returns => Some(3),
            [b'\r', ..] if self.returns_end_lines => Some(1),
            _ => None,
        }
    }

    /// Tells whether these whole lines hold no quote, no escape and nothing that a rule looks for.
    fn leaves_unchanged(&self, lines: &[u8]) -> bool {
        let has = |byte| memchr(byte, lines).is_some();
        let begins_line = |byte| lines[0] == byte || memmem::find(lines, &[b'\n', byte]).is_some();
        let quotes = [self.dialect.quote(), self.dialect.escape()];
        let ends_lines_by_returns = self.returns_end_lines || self.drops_returns;
        let has_rows_in_blank_lines = self.blank_lines != BlankLines::Kept;
        !(quotes.into_iter().flatten().any(has)
            || lines[0] == b'\n'
            || (ends_lines_by_returns && has(b'\r'))
            || (has_rows_in_blank_lines && (begins_line(b'\n') || begins_line(b'\r')))
            || (self.has_end_mark && begins_line(b'\\'))
            || self.comment.is_some_and(begins_line))
    }

    /// The lines of a text that is at hand, such as a sample.
    pub fn apply(&self, text: &[u8]) -> Vec<u8> {
        let mut made = Vec::with_capacity(text.len());
        let (is_cut, blank_lines_at_end) = (Arc::default(), Arc::default());
        let rules = Self { blank_lines_at_end, is_cut, ..self.clone() };
        // Reading from memory cannot fail.
        let _ = LineFilter::new(rules, text).read_to_end(&mut made);
        made
    }
}

/// The place of the next byte in its line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// In a line that is left out.
    Skipped,
    /// At the first byte of a line.
    LineStart,
    /// After a delimiter.
    FieldStart,
    /// In text where quotes mean nothing.
    Text,
    /// After an escape byte outside quotes.
    Escaped,
    Quoted,
    /// After an escape byte inside quotes.
    QuotedEscaped,
    /// After a quote that closes, unless another follows.
    QuoteInQuoted,
    /// In a comment.
    Comment,
    /// Behind the line `\.`.
    Ended,
}

/// Numbers of lines that are held back.
#[derive(Debug, Default)]
struct HeldLines {
    blank: u64,
    comments: u64,
}

impl Place {
    /// Tells whether a carriage return may belong to a line end here.
    fn is_outside_quotes(self) -> bool {
        matches!(self, Self::LineStart | Self::FieldStart | Self::Text | Self::QuoteInQuoted)
    }
}

/// Reads lines by their rules.
#[expect(clippy::struct_excessive_bools, reason = "facts that do not depend on one another")]
pub struct LineFilter<R> {
    reader: R,
    rules: LineRules,
    lines_to_skip: u64,
    place: Place,
    /// True if the last byte was a carriage return that ended a line.
    after_return: bool,
    /// Carriage returns that go if a newline follows, and else are text.
    returns_held: usize,
    /// True if blank lines are rows from here on.
    blanks_are_rows: bool,
    /// Blank lines that are rows, and comments among them, which go if no record follows.
    held: HeldLines,
    /// Bytes that were read; those not yet looked at begin at `position`.
    input: Vec<u8>,
    position: usize,
    /// True if the bytes that were read last were searched for lines that need no change.
    is_plain_checked: bool,
    is_ended: bool,
    /// Bytes that were made; those not yet given begin at `given`.
    output: Vec<u8>,
    given: usize,
}

impl<R: Read> LineFilter<R> {
    /// A filter over a reader that stands at the input's start.
    pub fn new(rules: LineRules, reader: R) -> Self {
        let place = if rules.skip_lines > 0 { Place::Skipped } else { Place::LineStart };
        Self {
            reader,
            lines_to_skip: rules.skip_lines,
            blanks_are_rows: rules.blank_lines == BlankLines::Rows,
            rules,
            place,
            after_return: false,
            returns_held: 0,
            held: HeldLines::default(),
            input: Vec::new(),
            position: 0,
            is_plain_checked: false,
            is_ended: false,
            output: Vec::with_capacity(CHUNK_BYTES),
            given: 0,
        }
    }

    /// Reads more bytes, behind those that were not looked at yet.
    fn read_input(&mut self) -> io::Result<()> {
        self.input.drain(..self.position);
        self.position = 0;
        let kept = self.input.len();
        self.input.resize(kept + CHUNK_BYTES, 0);
        let read = self.reader.read(&mut self.input[kept..]);
        self.input.truncate(kept + *read.as_ref().unwrap_or(&0));
        self.is_ended = matches!(read, Ok(0));
        self.is_plain_checked = false;
        read.map(|_| ())
    }

    /// Looks at what there is, and reads more where that is all used up.
    fn advance(&mut self) -> io::Result<()> {
        self.output.clear();
        self.given = 0;
        let left = self.input.len() - self.position;
        let must_see_more = self.place == Place::LineStart && left < MARK_BYTES_MAX;
        if left == 0 || (must_see_more && !self.is_ended) {
            self.read_input()?;
        }
        while self.position < self.input.len() && self.output.len() < OUTPUT_BYTES {
            let is_short = self.input.len() - self.position < MARK_BYTES_MAX;
            if self.place == Place::LineStart {
                if is_short && !self.is_ended {
                    break;
                }
                if self.take_plain_lines() || self.take_line_start() {
                    continue;
                }
            }
            if self.place == Place::Ended {
                self.drop_rest();
                break;
            }
            self.step(self.input[self.position]);
            self.position += 1;
        }
        if self.is_ended {
            let at_end = &self.rules.blank_lines_at_end;
            at_end.store(self.held.blank, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Takes the lines that were read whole if the rules change none of them. Says no if they may,
    /// or if these lines were asked before.
    fn take_plain_lines(&mut self) -> bool {
        let holds = self.returns_held > 0 || self.held.blank > 0 || self.held.comments > 0;
        if self.is_plain_checked || holds {
            return false;
        }
        self.is_plain_checked = true;
        let rest = &self.input[self.position..];
        let Some(end) = memrchr(b'\n', rest) else { return false };
        let lines = &rest[..=end];
        if !self.rules.leaves_unchanged(lines) {
            return false;
        }
        self.after_return = false;
        self.blanks_are_rows |= self.rules.blank_lines == BlankLines::RowsBelowHeader;
        self.position += lines.len();
        self.output.extend_from_slice(lines);
        true
    }

    /// Takes a blank line where such lines may be rows, or writes those that a record follows. Says
    /// no where there is nothing of either.
    fn take_blank_line(&mut self) -> bool {
        let rest = &self.input[self.position..];
        let Some(bytes) = self.rules.blank_line_bytes(rest) else {
            let is_record = self.rules.comment != Some(rest[0]);
            self.blanks_are_rows |= is_record;
            return is_record && self.write_held();
        };
        self.after_return = false;
        self.position += bytes;
        match self.rules.dialect.quote() {
            Some(_) if self.blanks_are_rows => self.held.blank += 1,
            _ => self.output.push(b'\n'),
        }
        true
    }

    /// Writes some of the lines that are held, the rows first. Says no if there are none.
    fn write_held(&mut self) -> bool {
        let HeldLines { blank, comments } = &mut self.held;
        match self.rules.dialect.quote() {
            Some(quote) if *blank > 0 => {
                *blank -= 1;
                self.output.extend_from_slice(&[quote, quote, b'\n']);
            }
            _ if *comments > 0 => {
                *comments -= 1;
                self.output.push(b'\n');
            }
            _ => return false,
        }
        true
    }

    /// Writes the newline of a line, behind the blank lines that are held where it was a comment.
    fn end_line(&mut self, is_comment: bool) {
        if is_comment && self.held.blank > 0 {
            self.held.comments += 1;
        } else {
            self.output.push(b'\n');
        }
    }

    /// Takes a line whose start tells enough: the last line, or a plain one, which is taken whole.
    /// Returns false if the line must be read byte by byte.
    fn take_line_start(&mut self) -> bool {
        if self.returns_held > 0 {
            return false;
        }
        let is_old_end = self.after_return && self.input[self.position] == b'\n';
        if self.rules.blank_lines != BlankLines::Kept && !is_old_end && self.take_blank_line() {
            return true;
        }
        let rest = &self.input[self.position..];
        if self.rules.has_end_mark && is_end_mark(rest, self.is_ended) {
            self.position += rest.len().min(2);
            self.place = Place::Ended;
            return true;
        }
        if self.rules.returns_end_lines || self.rules.comment == Some(rest[0]) {
            return false;
        }
        let Some(end) = memchr(b'\n', rest) else { return false };
        let line = &rest[..=end];
        let (quote, escape) = (self.rules.dialect.quote(), self.rules.dialect.escape());
        let has_special = match (quote, escape) {
            (Some(a), Some(b)) => memchr2(a, b, line).is_some(),
            (Some(one), None) | (None, Some(one)) => memchr(one, line).is_some(),
            (None, None) => false,
        };
        if has_special {
            return false;
        }
        self.position += line.len();
        if self.rules.drops_returns {
            let is_end = |byte: &u8| matches!(byte, b'\n' | b'\r');
            let text_bytes = line.iter().rposition(|byte| !is_end(byte)).map_or(0, |at| at + 1);
            self.output.extend_from_slice(&line[..text_bytes]);
            self.output.push(b'\n');
        } else {
            self.output.extend_from_slice(line);
        }
        true
    }

    /// Drops what follows the end mark, and says if that is more than blank lines.
    fn drop_rest(&mut self) {
        let rest = &self.input[self.position..];
        if rest.iter().any(|byte| !byte.is_ascii_whitespace()) {
            self.rules.is_cut.store(true, Ordering::Relaxed);
        }
        self.position = self.input.len();
    }

    /// Takes one byte.
    fn step(&mut self, byte: u8) {
        if std::mem::take(&mut self.after_return) && byte == b'\n' {
            // The line ended with the return before it.
            return;
        }
        if byte == b'\r' && self.rules.drops_returns && self.place.is_outside_quotes() {
            self.returns_held += 1;
            return;
        }
        let returns = std::mem::take(&mut self.returns_held);
        if returns > 0 && byte != b'\n' {
            self.output.resize(self.output.len() + returns, b'\r');
            self.place = Place::Text;
        }
        let is_return = byte == b'\r' && self.rules.returns_end_lines;
        let is_comment = self.place == Place::Comment;
        let dialect = self.rules.dialect;
        let is_quote = dialect.quote() == Some(byte);
        let is_escape = dialect.escape() == Some(byte);
        self.place = match self.place {
            Place::Skipped => {
                self.skip(byte, is_return);
                return;
            }
            Place::Comment if byte != b'\n' && !is_return => return,
            Place::Quoted if is_quote => Place::QuoteInQuoted,
            Place::Quoted if is_escape => Place::QuotedEscaped,
            Place::Quoted | Place::QuotedEscaped => Place::Quoted,
            Place::Escaped => Place::Text,
            Place::LineStart if self.rules.comment == Some(byte) => {
                self.place = Place::Comment;
                return;
            }
            _ if is_return => {
                self.after_return = true;
                self.place = Place::LineStart;
                self.end_line(is_comment);
                return;
            }
            _ if byte == b'\n' => {
                self.place = Place::LineStart;
                self.end_line(is_comment);
                return;
            }
            _ if byte == dialect.delimiter() => Place::FieldStart,
            Place::LineStart | Place::FieldStart | Place::QuoteInQuoted if is_quote => {
                Place::Quoted
            }
            // Right after a closing quote an escape byte is text.
            Place::QuoteInQuoted => Place::Text,
            _ if is_escape => Place::Escaped,
            _ => Place::Text,
        };
        self.output.push(byte);
    }

    /// Takes a byte of the lines that go.
    fn skip(&mut self, byte: u8, is_return: bool) {
        if byte == b'\n' || is_return {
            self.after_return = is_return;
            self.lines_to_skip -= 1;
            if self.lines_to_skip == 0 {
                self.place = Place::LineStart;
            }
        }
    }
}

/// Tells whether a line's start is the line `\.`.
fn is_end_mark(rest: &[u8], is_all: bool) -> bool {
    match rest.strip_prefix(b"\\.") {
        Some([b'\n', ..] | [b'\r', b'\n', ..]) => true,
        Some([] | [b'\r']) => is_all,
        _ => false,
    }
}

impl<R: Read> Read for LineFilter<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.given == self.output.len() {
            if self.is_ended && self.position == self.input.len() {
                return Ok(0);
            }
            self.advance()?;
        }
        let ready = &self.output[self.given..];
        let count = ready.len().min(buffer.len());
        buffer[..count].copy_from_slice(&ready[..count]);
        self.given += count;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;
    use proptest::sample;

    use super::*;

    /// Gives one byte at a time.
    struct Drops<'a>(&'a [u8]);

    impl Read for Drops<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let count = self.0.len().min(buffer.len()).min(1);
            let (now, rest) = self.0.split_at(count);
            buffer[..count].copy_from_slice(now);
            self.0 = rest;
            Ok(count)
        }
    }

    fn assert_becomes(rules: &LineRules, text: &str, expected: &str) {
        let made = rules.apply(text.as_bytes());
        assert_eq!(String::from_utf8(made).unwrap(), expected, "{text:?}");
        let mut made = String::new();
        LineFilter::new(rules.clone(), Drops(text.as_bytes())).read_to_string(&mut made).unwrap();
        assert_eq!(made, expected, "byte by byte: {text:?}");
    }

    #[test]
    fn returns_end_lines_but_not_inside_quotes() {
        let rules = LineRules { returns_end_lines: true, ..LineRules::new(Dialect::default()) };
        for (text, expected) in [
            ("id,n\r5,6\r", "id,n\n5,6\n"),
            ("a\r\"x\ry\"\rb", "a\n\"x\ry\"\nb"),
            ("a\r\nb\r\rc", "a\nb\n\nc"),
            ("\"a\"\"\r\"\r\"b\nc\"\r", "\"a\"\"\r\"\n\"b\nc\"\n"),
            ("a\"\rb\"\r", "a\"\nb\"\n"),
        ] {
            assert_becomes(&rules, text, expected);
        }
    }

    #[test]
    fn returns_before_the_newline_of_a_line_go() {
        let rules = LineRules { drops_returns: true, ..LineRules::new(Dialect::default()) };
        for (text, expected) in [
            ("a,b\r\r\n1,2\r\r\n", "a,b\n1,2\n"),
            ("a,\"b\r\n\"\r\r\n\r\r\nc\r\n", "a,\"b\r\n\"\n\nc\n"),
            ("a\rb,\"c\"\r\rd\r\n", "a\rb,\"c\"\r\rd\n"),
            ("a\r\r", "a"),
        ] {
            assert_becomes(&rules, text, expected);
        }
        let dialect = Dialect::mysql_text(b'\t').unwrap();
        let rules = LineRules { dialect, ..rules };
        assert_becomes(&rules, "1\t\\N\r\n\\t\r\n", "1\t\\N\n\\t\n");
    }

    #[test]
    fn blank_lines_are_rows_up_to_the_last_record() {
        let rules = LineRules {
            blank_lines: BlankLines::RowsBelowHeader,
            comment: Some(b'#'),
            ..LineRules::new(Dialect::default())
        };
        for (text, expected) in [
            ("a\n\nb\n", "a\n\"\"\nb\n"),
            ("\n\r\na\r\n\r\nb\n\n\n", "\n\na\r\n\"\"\nb\n"),
            ("a\n\n#x\n\nb\n#y\n\n#z\n", "a\n\"\"\n\"\"\n\nb\n\n"),
            ("a\n\"\n\n\"\n\n", "a\n\"\n\n\"\n"),
            ("a\n \n", "a\n \n"),
        ] {
            assert_becomes(&rules, text, expected);
        }
        assert_becomes(
            &LineRules { returns_end_lines: true, ..rules.clone() },
            "a\r\rb\r\n\rc\r",
            "a\n\"\"\nb\n\"\"\nc\n",
        );
        let rules = LineRules { blank_lines: BlankLines::Rows, ..rules };
        assert_becomes(&rules, "\na\n\n", "\"\"\na\n");
        let mut made = Vec::new();
        LineFilter::new(rules.clone(), &b"a\n\nb\n\n\r\n#x\n"[..]).read_to_end(&mut made).unwrap();
        assert_eq!(rules.blank_lines_at_end.load(Ordering::Relaxed), 2);
    }

    #[test]
    fn comments_become_blank_lines_but_not_inside_quotes() {
        let rules = LineRules { comment: Some(b'#'), ..LineRules::new(Dialect::default()) };
        for (text, expected) in [
            ("# a\nb\n#\nc # d\n#", "\nb\n\nc # d\n"),
            ("a\n\"b\n# c\"\n# d\"\ne\n", "a\n\"b\n# c\"\n\ne\n"),
            ("a,\"#\"\n\"#b\"\n #c\n", "a,\"#\"\n\"#b\"\n #c\n"),
        ] {
            assert_becomes(&rules, text, expected);
        }
        let dialect = Dialect::new(b',', None, Some(b'\\')).unwrap();
        let rules = LineRules { comment: Some(b'#'), ..LineRules::new(dialect) };
        assert_becomes(&rules, "a\\\n#b\n#c\n", "a\\\n#b\n\n");
        let rules = LineRules { returns_end_lines: true, ..rules };
        assert_becomes(&rules, "#a\r#b\rc\r", "\n\nc\n");
    }

    #[test]
    fn lines_in_front_go_whatever_they_hold() {
        let skip = |skip_lines| LineRules { skip_lines, ..LineRules::new(Dialect::default()) };
        assert_becomes(&skip(2), "Report \"x\n\"\na,b\n1,2\n", "a,b\n1,2\n");
        assert_becomes(&skip(1), "\r\na\n", "a\n");
        assert_becomes(&skip(9), "a\nb\n", "");
        let rules = LineRules { returns_end_lines: true, ..skip(1) };
        assert_becomes(&rules, "\"Report\ra\rb\r", "a\nb\n");
        assert_becomes(&rules, "x\r\na\r", "a\n");
    }

    #[test]
    fn the_end_mark_ends_the_text() {
        let rules = LineRules {
            has_end_mark: true,
            ..LineRules::new(Dialect::postgres_text(b'\t').unwrap())
        };
        for (text, expected) in [
            ("1\ta\n\\.\n", "1\ta\n"),
            ("1\n\\.\r\nSELECT 1;\n", "1\n"),
            ("1\n\\.", "1\n"),
            ("1\\\n\\.\n2\n", "1\\\n\\.\n2\n"),
            ("\\.x\n\\..\n", "\\.x\n\\..\n"),
            ("a\\.\n", "a\\.\n"),
        ] {
            assert_becomes(&rules, text, expected);
        }
        let is_cut = |text: &str| {
            let rules = LineRules { is_cut: Arc::default(), ..rules.clone() };
            let is_cut = Arc::clone(&rules.is_cut);
            LineFilter::new(rules, text.as_bytes()).read_to_end(&mut Vec::new()).unwrap();
            is_cut.load(Ordering::Relaxed)
        };
        assert!(is_cut("1\n\\.\n\n-- more\n"));
        assert!(!is_cut("1\n\\.\n\n"));
    }

    proptest! {
        #[test]
        fn lines_taken_whole_are_as_lines_that_are_walked(
            lines in vec(
                sample::select(vec![
                    "a\n", "12,b\n", "a\n", "\n", "\r\n", "#x\n", "\\.\n", "\"q\n#\"\n", "c\rd\n", "e",
                ]),
                0..6,
            ),
            returns_end_lines: bool,
            drops_returns: bool,
            blank_lines in sample::select(vec![
                BlankLines::Kept, BlankLines::RowsBelowHeader, BlankLines::Rows,
            ]),
            skip_lines in 0_u64..2,
            has_comments: bool,
            has_end_mark: bool,
        ) {
            let rules = LineRules {
                returns_end_lines,
                drops_returns,
                blank_lines,
                skip_lines,
                comment: has_comments.then_some(b'#'),
                has_end_mark,
                ..LineRules::new(Dialect::default())
            };
            let text = lines.concat();
            let mut walked = Vec::new();
            LineFilter::new(rules.clone(), Drops(text.as_bytes())).read_to_end(&mut walked).unwrap();
            prop_assert_eq!(rules.apply(text.as_bytes()), walked);
        }
    }

    #[test]
    fn long_lines_and_many_pass_as_they_are() {
        let rules = LineRules { comment: Some(b'#'), ..LineRules::new(Dialect::default()) };
        let long = "x".repeat(3 * CHUNK_BYTES);
        let text = format!("{long}\n\"{long}\n#\"\n#{long}\nz\n{}", "a,b\n".repeat(40_000));
        let expected = text.replace(&format!("#{long}"), "");
        assert!(rules.apply(text.as_bytes()) == expected.as_bytes());
    }
}
