//! Names as text. No character that steers a terminal is left, and names that are no UTF-8 are
//! told apart.
//!
//! Stands below all that writes messages. A name of a file, a table or a queue may hold any
//! character: shown as it is, it could change the meaning of the message.
//!
//! Must never: be used for what programs read (JSON escapes by its own rules).

use std::ffi::OsStr;
use std::fmt::Write as _;

/// The text in one line, with each character escaped that ends a line, steers a terminal or
/// turns the direction of writing: `\n`, `\u{1b}`, `\u{202e}`. A tab stays.
pub fn printable(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    for character in text.chars() {
        if is_harmless(character) {
            clean.push(character);
        } else {
            clean.extend(character.escape_default());
        }
    }
    clean
}

/// As [`printable`], for a text of several lines: those behind the first are set in, so that
/// none can be taken for a line of the message around it.
pub fn printable_lines(text: &str) -> String {
    let lines: Vec<String> = text.lines().map(printable).collect();
    lines.join("\n  ")
}

fn is_harmless(character: char) -> bool {
    let turns_or_breaks = matches!(
        character,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
    );
    character == '\t' || !(character.is_control() || turns_or_breaks)
}

/// A size in decimal units, three digits: `1.07 GB`.
pub fn bytes(number: u64) -> String {
    scaled(number as f64, 1000.0, &["B", "kB", "MB", "GB", "TB", "PB", "EB"])
}

/// A number in the unit that fits, with three digits: `740 ns`, `3.10 µs`. Numbers of the first
/// unit are whole; each further one is `step` times the one before.
pub fn scaled(number: f64, step: f64, units: &[&str]) -> String {
    let (mut value, mut index) = (number, 0);
    while value >= 999.5 && index + 1 < units.len() {
        (value, index) = (value / step, index + 1);
    }
    let decimals = match value {
        _ if index == 0 => 0,
        value if value < 9.995 => 2,
        value if value < 99.95 => 1,
        _ => 0,
    };
    format!("{value:.decimals$} {}", units[index])
}

/// A path as a text, the one way in which paths are shown: each byte that is not UTF-8 as `\xE9`.
///
/// On Unix the path can be told from it again, as a name that holds such four characters itself
/// is shown with `\x5C` for its backslash. What steers a terminal is left to [`printable`].
pub fn path_text(path: impl AsRef<OsStr>) -> String {
    bytes_text(path.as_ref().as_encoded_bytes())
}

/// A text as a word of a shell's command line, in quotes where it needs them.
pub fn shell_word(text: &str) -> String {
    let is_plain = |it: char| it.is_ascii_alphanumeric() || "/._-+,:@%=".contains(it);
    if !text.is_empty() && text.chars().all(is_plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

/// As [`path_text`], for bytes that are a part of a path or of another word of the system.
pub fn bytes_text(bytes: &[u8]) -> String {
    let mut text = String::new();
    for chunk in bytes.utf8_chunks() {
        push_valid(chunk.valid(), &mut text);
        chunk.invalid().iter().for_each(|&byte| push_escaped(byte, &mut text));
    }
    text
}

fn push_valid(valid: &str, text: &mut String) {
    let mut rest = valid;
    // On Windows a backslash parts folders.
    while let Some(at) = rest.find('\\').filter(|_| cfg!(unix)) {
        text.push_str(&rest[..at]);
        let behind = &rest[at + 1..];
        if looks_escaped(behind.as_bytes()) {
            push_escaped(b'\\', text);
        } else {
            text.push('\\');
        }
        rest = behind;
    }
    text.push_str(rest);
}

fn looks_escaped(behind: &[u8]) -> bool {
    let is_digit = |byte: &u8| byte.is_ascii_digit() || (b'A'..=b'F').contains(byte);
    matches!(behind, [b'x', high, low, ..] if is_digit(high) && is_digit(low))
}

fn push_escaped(byte: u8, text: &mut String) {
    // Writing to a String cannot fail.
    let _ = write!(text, "\\x{byte:02X}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_of_a_shell_has_quotes_where_it_needs_them() {
        for (text, expected) in [
            ("/mnt/a-b_1.db", "/mnt/a-b_1.db"),
            ("--dir=/mnt", "--dir=/mnt"),
            ("/mnt/a&b", "'/mnt/a&b'"),
            ("two  blanks", "'two  blanks'"),
            ("it's", r"'it'\''s'"),
            ("hash(id)", "'hash(id)'"),
            ("~", "'~'"),
            ("", "''"),
        ] {
            assert_eq!(shell_word(text), expected);
        }
    }

    #[test]
    fn no_name_ends_a_line_steers_a_terminal_or_turns_the_writing() {
        assert_eq!(printable("a\x1b[2Jb\r\nto do: x"), "a\\u{1b}[2Jb\\r\\nto do: x");
        for character in ('\0'..='\u{2fff}').filter(|it| it.is_control() && *it != '\t') {
            assert!(!printable(&character.to_string()).contains(character), "{character:?}");
        }
        for turning in "\u{202a}\u{202b}\u{202c}\u{202d}\u{202e}\u{2066}\u{2067}\u{2068}\u{2069}\
                        \u{200e}\u{200f}\u{61c}\u{2028}\u{2029}"
            .chars()
        {
            assert!(printable(&turning.to_string()).is_ascii(), "{turning:?}");
        }
        assert_eq!(printable("Größe 東京\t👩‍🚀"), "Größe 東京\t👩‍🚀");
        assert_eq!(printable_lines("SELECT\nto do: x"), "SELECT\n  to do: x");
    }

    #[cfg(unix)]
    #[test]
    fn paths_that_are_not_utf_8_are_told_apart() {
        use std::os::unix::ffi::OsStrExt as _;

        let text = |bytes: &[u8]| path_text(OsStr::from_bytes(bytes));
        assert_eq!(text(b"d\xe9.db"), "d\\xE9.db");
        assert_eq!(text("dé.db".as_bytes()), "dé.db");
        assert_ne!(text(b"d\xe8.db"), text(b"d\xe9.db"));
        assert_eq!(text(br"d\xE9.db"), r"d\x5CxE9.db", "a name that looks escaped");
        assert_eq!(text(b"\\\xe9\\x5C\\"), r"\\xE9\x5Cx5C\");
        for plain in [r"a\b", r"\x", r"\xe9", r"\\server\x1", "x5C"] {
            assert_eq!(text(plain.as_bytes()), plain);
        }
    }
}
