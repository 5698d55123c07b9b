//! SQL cut into words, for questions that no pragma answers.
//!
//! SQLite checks every statement before it comes here. So this module need not tell good SQL from
//! bad, only bare words from quoted ones and comments. Callers must ask such that a wrong yes costs
//! speed only.
//!
//! Must never: decide the meaning of a statement.

/// A piece of SQL that is neither space nor comment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SqlWord<'s> {
    /// A keyword, a name or a number that is not quoted.
    Bare(&'s str),
    /// Text between quotes of that kind: `'`, `"`, `` ` `` or `[`.
    Quoted(char, &'s str),
    /// Any other character.
    Symbol(char),
}

impl SqlWord<'_> {
    /// Returns true if the word is that keyword.
    pub fn is(self, keyword: &str) -> bool {
        matches!(self, Self::Bare(word) if word.eq_ignore_ascii_case(keyword))
    }

    /// Returns true if the word may stand for that name, in quotes or not.
    pub fn may_name(self, name: &str) -> bool {
        match self {
            Self::Bare(word) | Self::Quoted('"' | '`' | '[', word) => {
                word.eq_ignore_ascii_case(name)
            }
            Self::Quoted(..) | Self::Symbol(_) => false,
        }
    }
}

/// The words of some SQL.
pub fn sql_words(sql: &str) -> Vec<SqlWord<'_>> {
    words_and_rest(sql).0
}

/// The statement up to its last word. SQLite keeps a comment behind it, which would swallow a semicolon.
pub fn without_last_comment(sql: &str) -> &str {
    let rest_bytes = words_and_rest(sql).1.len();
    &sql[..sql.len() - rest_bytes]
}

/// The words of some SQL, and what is behind the last one.
fn words_and_rest(mut sql: &str) -> (Vec<SqlWord<'_>>, &str) {
    let (mut words, mut rest) = (Vec::new(), sql);
    while let Some(first) = sql.chars().next() {
        let words_before = words.len();
        let bytes = match first {
            '\'' | '"' | '`' | '[' => {
                let bytes = quoted_bytes(sql, first);
                let content = sql.get(1..bytes - 1).unwrap_or_default();
                words.push(SqlWord::Quoted(first, content));
                bytes
            }
            '-' if sql.starts_with("--") => sql.find('\n').unwrap_or(sql.len()),
            '/' if sql.starts_with("/*") => sql[2..].find("*/").map_or(sql.len(), |at| at + 4),
            _ if is_word_character(first) => {
                let bytes = sql.find(|c| !is_word_character(c)).unwrap_or(sql.len());
                words.push(SqlWord::Bare(&sql[..bytes]));
                bytes
            }
            _ => {
                if !first.is_ascii_whitespace() {
                    words.push(SqlWord::Symbol(first));
                }
                first.len_utf8()
            }
        };
        sql = &sql[bytes..];
        if words.len() > words_before {
            rest = sql;
        }
    }
    (words, rest)
}

/// Returns true for characters of a word. As in SQLite, all characters beyond ASCII are.
fn is_word_character(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '$' || !c.is_ascii()
}

/// Length of the quoted word at the start, with both quotes. A quote is doubled within a word,
/// except a bracket, which cannot be in one.
fn quoted_bytes(sql: &str, quote: char) -> usize {
    let end = if quote == '[' { b']' } else { quote as u8 };
    let bytes = sql.as_bytes();
    let mut at = 1;
    while at < bytes.len() {
        if bytes[at] == end {
            if quote == '[' || bytes.get(at + 1) != Some(&end) {
                return at + 1;
            }
            at += 1;
        }
        at += 1;
    }
    bytes.len()
}

/// Returns true for the declaration of a trigger that runs before SQLite checks a row, as those
/// without AFTER do.
pub fn is_before_trigger(sql: &str) -> bool {
    let words = sql_words(sql);
    let runs_later = |pair: &[SqlWord<'_>]| {
        pair[0].is("AFTER") && ["INSERT", "UPDATE", "DELETE"].iter().any(|it| pair[1].is(it))
    };
    let head: Vec<_> = words.into_iter().take_while(|word| !word.is("BEGIN")).collect();
    head.iter().any(|word| word.is("TRIGGER")) && !head.windows(2).any(runs_later)
}

/// Returns true for the declaration of a STRICT table.
pub fn is_strict_table(sql: &str) -> bool {
    let words = sql_words(sql);
    let mut options = words.iter().rev().take_while(|word| **word != SqlWord::Symbol(')'));
    words.get(1).is_some_and(|word| word.is("TABLE")) && options.any(|word| word.is("STRICT"))
}

/// Returns true if the declaration of a table has an ON CONFLICT, which decides about rows that break
/// a rule.
pub fn declares_conflicts(words: &[SqlWord<'_>]) -> bool {
    words.windows(2).any(|pair| pair[0].is("ON") && pair[1].is("CONFLICT"))
}

#[cfg(test)]
mod tests {
    use super::SqlWord::{Bare, Quoted, Symbol};
    use super::*;

    #[test]
    fn quotes_and_comments_hide_words() {
        let sql = "a/* CHECK */(\"che\"\"ck\" -- CHECK\n,[a]]'it''s' `x` é_1";
        let expected = [
            Bare("a"),
            Symbol('('),
            Quoted('"', "che\"\"ck"),
            Symbol(','),
            Quoted('[', "a"),
            Symbol(']'),
            Quoted('\'', "it''s"),
            Quoted('`', "x"),
            Bare("é_1"),
        ];
        assert_eq!(sql_words(sql), expected);
        assert!(Bare("Check").is("CHECK") && !Quoted('"', "CHECK").is("CHECK"));
    }

    #[test]
    fn a_comment_at_the_end_of_a_statement_is_left_out() {
        for (sql, left) in [
            ("SELECT 1 -- one", "SELECT 1"),
            ("SELECT '--' /* b */ x\n-- c\n/* d", "SELECT '--' /* b */ x"),
            ("SELECT 1", "SELECT 1"),
            ("-- é", ""),
        ] {
            assert_eq!(without_last_comment(sql), left);
        }
    }

    #[test]
    fn what_does_not_end_ends_at_the_end() {
        for sql in ["'", "'é", "[é", "/* é", "-- é", "\"a\"\"", ""] {
            assert!(sql_words(sql).len() <= 1, "{sql}");
        }
    }

    #[test]
    fn a_strict_table_says_so_behind_its_columns() {
        for (sql, is_strict) in [
            ("CREATE TABLE t(a INT) WITHOUT ROWID, strict -- end", true),
            ("CREATE TABLE t(strict, b) WITHOUT ROWID", false),
            ("CREATE TABLE t(a) /* STRICT */", false),
            ("CREATE VIEW v AS SELECT (1) strict", false),
        ] {
            assert_eq!(is_strict_table(sql), is_strict, "{sql}");
        }
    }

    #[test]
    fn a_trigger_without_after_runs_before() {
        for (sql, is_before) in [
            ("CREATE TRIGGER b BEFORE INSERT ON t BEGIN SELECT 1; END", true),
            ("CREATE TRIGGER b INSERT ON t BEGIN SELECT 1; END", true),
            ("CREATE TEMP TRIGGER after BEFORE UPDATE OF x ON t BEGIN SELECT 1; END", true),
            ("create trigger b after/**/delete on t begin select 1; end", false),
            ("CREATE VIEW v AS SELECT 1", false),
        ] {
            assert_eq!(is_before_trigger(sql), is_before, "{sql}");
        }
    }
}
