//! SQL text to statements, each with its place. `leafpress io` uses it too.
//!
//! The end of a statement follows the rules of SQLite's own `sqlite3_complete`: a semicolon
//! outside of quotes and comments; in the body of a trigger only the one behind `END`. SQLite
//! judges later what a statement means; the last semicolon may be missing.
//!
//! Must never: change a byte of a statement, since SQLite's errors point into it.

use std::sync::Arc;

use crate::error::{Error, ErrorKind, Result, ScriptError};

/// Number of characters of a statement that an error shows.
const SHOWN_CHARACTERS_MAX: usize = 200;
const NOTHING_RUN: &str = "nothing was run";

/// One statement and where it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Statement {
    /// The text's name: a file, `<stdin>`, or another that was given to [`split`].
    pub source: Arc<str>,
    /// Line of its first word, counted from 1.
    pub line: u64,
    /// Byte column of its first word in that line, counted from 1.
    pub column: u64,
    /// The statement, without the semicolon that ends it.
    pub sql: String,
}

/// Splits a text into its statements; `source` names it in messages.
///
/// # Errors
/// Names the place where a string, a comment or a trigger begins that has no end, where a zero
/// byte stands, or a command of the `sqlite3` shell.
pub fn split(source: &str, text: &str) -> Result<Vec<Statement>> {
    Splitter::new(source, text).split()
}

impl Statement {
    /// The error at a byte of this statement.
    pub fn error_at(&self, offset: usize, reason: impl Into<String>) -> Error {
        let (line, column) = place(&self.sql, offset, self.line, self.column);
        let kind = ScriptError {
            file: self.source.to_string(),
            line,
            column,
            reason: reason.into(),
            sql: shown(&self.sql),
            transactions_committed: 0,
        };
        ErrorKind::Script(Box::new(kind)).into()
    }
}

/// Line and column of a byte in a text whose first byte stands at `line` and `column`.
fn place(text: &str, offset: usize, line: u64, column: u64) -> (u64, u64) {
    let before = &text.as_bytes()[..offset.min(text.len())];
    let lines = memchr::memchr_iter(b'\n', before).count() as u64;
    match memchr::memrchr(b'\n', before) {
        Some(last) => (line + lines, (before.len() - last) as u64),
        None => (line, column + before.len() as u64),
    }
}

/// A statement as an error shows it: cut where long.
pub(crate) fn shown(sql: &str) -> String {
    match sql.char_indices().nth(SHOWN_CHARACTERS_MAX) {
        Some((end, _)) => format!("{}…", &sql[..end]),
        None => sql.to_owned(),
    }
}

/// The splitter's place in a statement, as far as the statement's end depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Before the first word.
    Start,
    /// A semicolon ends it.
    Plain,
    /// Behind EXPLAIN: a CREATE TRIGGER may follow.
    Explain,
    /// Behind CREATE or CREATE TEMP.
    Create,
    /// In a trigger: a semicolon does not end it.
    Trigger,
    /// In a trigger, behind a semicolon.
    TriggerSemicolon,
    /// In a trigger, behind a semicolon and END: a semicolon ends it.
    TriggerEnd,
}

/// The words that matter for the end of a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Word {
    Explain,
    Create,
    Temp,
    Trigger,
    End,
    Other,
}

impl State {
    fn after_word(self, word: Word) -> Self {
        match (self, word) {
            // EXPLAIN QUERY PLAN
            (Self::Start, Word::Explain) | (Self::Explain, Word::Other) => Self::Explain,
            (Self::Start | Self::Explain, Word::Create) | (Self::Create, Word::Temp) => {
                Self::Create
            }
            (Self::TriggerSemicolon, Word::End) => Self::TriggerEnd,
            (Self::Create, Word::Trigger)
            | (Self::Trigger | Self::TriggerSemicolon | Self::TriggerEnd, _) => Self::Trigger,
            _ => Self::Plain,
        }
    }

    fn is_in_trigger(self) -> bool {
        matches!(self, Self::Trigger | Self::TriggerSemicolon | Self::TriggerEnd)
    }
}

fn word_of(text: &str) -> Word {
    let is = |word: &str| text.eq_ignore_ascii_case(word);
    match () {
        () if is("explain") => Word::Explain,
        () if is("create") => Word::Create,
        () if is("temp") || is("temporary") => Word::Temp,
        () if is("trigger") => Word::Trigger,
        () if is("end") => Word::End,
        () => Word::Other,
    }
}

/// Goes once over a text.
struct Splitter<'a> {
    source: Arc<str>,
    text: &'a str,
    at: usize,
    /// Offset of the statement's first word; `None` before it.
    begin: Option<usize>,
    state: State,
    /// Offset up to which `line` was counted.
    counted: usize,
    line: u64,
    statements: Vec<Statement>,
}

impl<'a> Splitter<'a> {
    fn new(source: &str, text: &'a str) -> Self {
        Self {
            source: source.into(),
            text,
            at: 0,
            begin: None,
            state: State::Start,
            counted: 0,
            line: 1,
            statements: Vec::new(),
        }
    }

    fn split(mut self) -> Result<Vec<Statement>> {
        while let Some(&byte) = self.text.as_bytes().get(self.at) {
            match byte {
                b' ' | b'\t' | b'\n' | b'\r' | b'\x0c' => self.at += 1,
                b'-' if self.rest().starts_with("--") => self.skip_line(),
                b'/' if self.rest().starts_with("/*") => self.skip_comment(),
                b';' => self.semicolon(),
                b'\'' | b'"' | b'`' | b'[' => self.quoted(byte)?,
                0 => return Err(self.error(self.at, "a zero byte ends all SQL")),
                b'.' if self.begin.is_none() => return Err(self.shell_command()),
                _ => self.word(),
            }
        }
        match self.begin {
            Some(begin) if self.state.is_in_trigger() && self.state != State::TriggerEnd => {
                Err(self.error(begin, "this trigger has no END before the text ends"))
            }
            _ => {
                self.finish();
                Ok(self.statements)
            }
        }
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn skip_line(&mut self) {
        let rest = self.rest();
        self.at += memchr::memchr(b'\n', rest.as_bytes()).unwrap_or(rest.len());
    }

    /// Skips a comment. A comment without an end reaches to the end of the text, as for SQLite.
    fn skip_comment(&mut self) {
        let rest = self.rest();
        self.at += rest[2..].find("*/").map_or(rest.len(), |end| end + 4);
    }

    fn semicolon(&mut self) {
        if self.state.is_in_trigger() && self.state != State::TriggerEnd {
            self.state = State::TriggerSemicolon;
        } else {
            self.finish();
        }
        self.at += 1;
    }

    /// A doubled quote is two quoted texts side by side, which ends at the same place.
    fn quoted(&mut self, quote: u8) -> Result<()> {
        self.begin.get_or_insert(self.at);
        let end = if quote == b'[' { b']' } else { quote };
        let Some(length) = memchr::memchr(end, &self.rest().as_bytes()[1..]) else {
            let what = if quote == b'\'' { "string" } else { "name" };
            return Err(self.error(self.at, &format!("the {what} that begins here has no end")));
        };
        self.state = self.state.after_word(Word::Other);
        self.at += length + 2;
        Ok(())
    }

    fn word(&mut self) {
        self.begin.get_or_insert(self.at);
        let is_in_word =
            |it: char| it.is_ascii_alphanumeric() || matches!(it, '_' | '$') || !it.is_ascii();
        let rest = self.rest();
        let length = rest.find(|it| !is_in_word(it)).unwrap_or(rest.len());
        self.state = self.state.after_word(word_of(&rest[..length]));
        self.at += length.max(1);
    }

    fn finish(&mut self) {
        let state = std::mem::replace(&mut self.state, State::Start);
        debug_assert!(state != State::Trigger, "a trigger ends at its END");
        let Some(begin) = self.begin.take() else { return };
        let sql = self.text[begin..self.at].trim_end().to_owned();
        let (line, column) = self.place(begin);
        self.statements.push(Statement { source: Arc::clone(&self.source), line, column, sql });
    }

    /// Counts on from the last statement, as a script may have very many.
    fn place(&mut self, offset: usize) -> (u64, u64) {
        let between = &self.text.as_bytes()[self.counted..offset];
        self.line += memchr::memchr_iter(b'\n', between).count() as u64;
        self.counted = offset;
        let before = &self.text.as_bytes()[..offset];
        let line_start = memchr::memrchr(b'\n', before).map_or(0, |it| it + 1);
        (self.line, (offset - line_start) as u64 + 1)
    }

    fn error(&self, offset: usize, reason: &str) -> Error {
        let (line, column) = place(self.text, offset, 1, 1);
        let kind = ScriptError {
            file: self.source.to_string(),
            line,
            column,
            reason: reason.to_owned(),
            sql: shown(self.text[offset..].lines().next().unwrap_or_default()),
            transactions_committed: 0,
        };
        Error::from(ErrorKind::Script(Box::new(kind))).on_disk(NOTHING_RUN)
    }

    fn shell_command(&self) -> Error {
        self.error(self.at, "SQL does not begin with a dot")
            .to_do("leave out commands of the sqlite3 shell, such as .read and .mode")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(text: &str) -> Vec<(u64, u64, String)> {
        let statements = split("test.sql", text).unwrap();
        statements.into_iter().map(|it| (it.line, it.column, it.sql)).collect()
    }

    #[test]
    fn statements_end_at_semicolons_and_know_their_places() {
        assert_eq!(
            pieces("SELECT 1;\n  -- a; comment\n\tSELECT\n 2 ;;; /* ; */ SELECT 'é;'"),
            [
                (1, 1, "SELECT 1".to_owned()),
                (3, 2, "SELECT\n 2".to_owned()),
                (4, 16, "SELECT 'é;'".to_owned()),
            ]
        );
        assert_eq!(pieces(" ;; -- nothing\n/* at all"), []);
    }

    #[test]
    fn quotes_hide_semicolons() {
        for text in
            ["SELECT 'a;''b'", "SELECT \"a;\"\"\"", "SELECT `;`", "SELECT [;]", "SELECT 1 --;"]
        {
            let found = pieces(text);
            assert_eq!(found.len(), 1, "{text}: {found:?}");
        }
    }

    #[test]
    fn a_trigger_ends_at_its_end() {
        let body = "AFTER INSERT ON t BEGIN UPDATE t SET a = CASE WHEN b THEN 1 END; SELECT 2; END";
        for head in ["CREATE TRIGGER x", "create temp trigger x", "EXPLAIN CREATE TRIGGER \"end\""]
        {
            let text = format!("{head} {body}; SELECT 1");
            assert_eq!(pieces(&text).len(), 2, "{text}");
        }
        // The word alone makes no trigger.
        assert_eq!(pieces("CREATE TABLE trigger2(a); SELECT 1").len(), 2);
        assert_eq!(pieces("SELECT trigger; SELECT 1").len(), 2);
        assert_eq!(pieces("EXPLAIN QUERY PLAN SELECT 1; BEGIN; END").len(), 3);
    }

    #[test]
    fn what_has_no_end_is_found_where_it_begins() {
        for (text, line, column, reason) in [
            ("SELECT 1;\nSELECT 'a", 2, 8, "string"),
            ("SELECT \"a", 1, 8, "name"),
            ("\n CREATE TRIGGER x AFTER INSERT ON t BEGIN SELECT 1;", 2, 2, "no END"),
            ("SELECT 1;\n.tables", 2, 1, "dot"),
            ("SELECT\0 1", 1, 7, "zero byte"),
        ] {
            let error = split("test.sql", text).unwrap_err();
            let ErrorKind::Script(found) = error.kind() else { panic!("{error}") };
            assert_eq!((found.line, found.column), (line, column), "{error}");
            assert!(found.reason.contains(reason), "{error}");
            assert_eq!(error.state_on_disk(), Some(NOTHING_RUN));
        }
    }

    #[test]
    fn an_offset_in_a_statement_is_a_place_in_its_file() {
        let statements = split("test.sql", "SELECT 1;\n  SELECT\n nope").unwrap();
        let statement = &statements[1];
        let error = statement.error_at(statement.sql.find("nope").unwrap(), "no such column");
        assert!(error.to_string().starts_with("test.sql:3:2: no such column\n"), "{error}");
        let error = statement.error_at(0, "whole");
        assert!(error.to_string().starts_with("test.sql:2:3: whole\n"), "{error}");
    }

    proptest::proptest! {
        /// SQLite is the judge: it finds one statement in each piece, and nothing behind it.
        #[test]
        fn pieces_are_what_sqlite_takes_as_one(
            words in proptest::collection::vec(proptest::sample::select(vec![
                "SELECT 1", ";", "'a;b'", "-- x;\n", "/* ; */", " ", "\n", "BEGIN", "\"q;\"", "END",
            ]), 0..12)
        ) {
            let text = words.concat();
            let connection = rusqlite::Connection::open_in_memory().unwrap();
            for (_, _, sql) in pieces(&text) {
                let outcome = connection.execute(&sql, []);
                let is_several = matches!(outcome, Err(rusqlite::Error::MultipleStatement));
                proptest::prop_assert!(!is_several, "{sql}");
            }
        }
    }
}
