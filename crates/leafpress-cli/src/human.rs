//! Numbers and tables, in the same shapes everywhere.
//!
//! Must never: let text from an input reach the terminal with its control
//! characters.

use std::path::Path;
use std::time::Duration;

use leafpress::path_text;
use leafpress::vfs::text::scaled;

pub use leafpress::vfs::text::bytes;
pub use leafpress_bench::numbers::{count, time};
use unicode_width::UnicodeWidthStr;

/// A count and its noun: `1 row`, `2 rows`.
pub fn counted(number: u64, singular: &str, plural: &str) -> String {
    format!("{} {}", count(number), if number == 1 { singular } else { plural })
}

/// A rate of things: `4.48 M`.
pub fn rate(per_second: f64) -> String {
    scaled(per_second, 1000.0, &["", "k", "M", "G", "T"]).trim_end().to_owned()
}

/// Duration of a single call as text: `14 µs`, `1.2 ms`, `2.50 s`.
pub fn latency(us: f64) -> String {
    time(us / 1e6)
}

/// A time, as exact as it matters: `0.92 s`, `3 min 20 s`, `2 h 05 min`.
pub fn duration(length: Duration) -> String {
    time(length.as_secs_f64())
}

/// The text in one line, with all escaped that could steer the terminal, forge another line or
/// turn the direction of writing. For names and all else that others chose.
pub use leafpress::printable;

/// A path in one line, as all messages show it.
pub fn path(path: &Path) -> String {
    printable(&path_text(path))
}

/// As [`printable`], for a text that is meant to have several lines, such as SQL.
pub fn printable_lines(text: &str) -> String {
    text.split('\n').map(printable).collect::<Vec<_>>().join("\n")
}

/// The text in one line of at most `width_max` columns, cut with `…` where longer.
pub fn cut(text: &str, width_max: usize) -> String {
    let line = printable(text).replace('\t', "\\t");
    if line.width() <= width_max {
        return line;
    }
    let mut short = String::new();
    for character in line.chars() {
        short.push(character);
        if short.width() >= width_max {
            short.pop();
            break;
        }
    }
    short.push('…');
    short
}

/// The text in one line, cut in its middle: names that differ at their end stay apart.
pub fn cut_inside(text: &str, width_max: usize) -> String {
    let line = cut(text, usize::MAX);
    let (width, half) = (line.width(), width_max / 2);
    if width <= width_max {
        return line;
    }
    let mut end = line.as_str();
    while end.width() > half {
        let mut characters = end.chars();
        characters.next();
        end = characters.as_str();
    }
    cut(&line, width_max - end.width()) + end
}

/// The text in lines of at most `width` columns, where its words are no longer;
/// the second and later lines begin with `indent` blanks.
pub fn wrapped(text: &str, width: usize, indent: usize) -> String {
    let mut lines = String::with_capacity(text.len());
    let mut used = 0;
    for word in text.split_whitespace() {
        let word_width = word.width();
        if used > 0 && used + 1 + word_width > width {
            lines.push('\n');
            lines.push_str(&" ".repeat(indent));
            used = 0;
        } else if used > 0 {
            lines.push(' ');
            used += 1;
        }
        lines.push_str(word);
        used += word_width;
    }
    lines
}

/// The text filled with blanks on the right.
pub fn left(text: &str, width: usize) -> String {
    format!("{text}{}", " ".repeat(width.saturating_sub(text.width())))
}

/// The text filled with blanks on the left.
pub fn right(text: &str, width: usize) -> String {
    format!("{}{text}", " ".repeat(width.saturating_sub(text.width())))
}

/// The widest of these texts.
pub fn widest<'a>(texts: impl IntoIterator<Item = &'a str>) -> usize {
    texts.into_iter().map(UnicodeWidthStr::width).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well_at_every_size() {
        assert_eq!([0, 999, 1000, 4_120_000].map(count), ["0", "999", "1,000", "4,120,000"]);
        assert_eq!(
            [0, 999, 1000, 99_949, 999_499, 999_999, 1_073_741_824].map(bytes),
            ["0 B", "999 B", "1.00 kB", "99.9 kB", "999 kB", "1.00 MB", "1.07 GB"]
        );
        assert_eq!(bytes(u64::MAX), "18.4 EB");
        assert_eq!([12.4, 4_480_000.0, 1e18].map(rate), ["12", "4.48 M", "1000000 T"]);
    }

    #[test]
    fn text_of_an_input_cannot_steer_the_terminal() {
        assert_eq!(printable("a\x1b[2Jb\r\n"), "a\\u{1b}[2Jb\\r\\n");
        assert_eq!(printable_lines("a\x1b\nb"), "a\\u{1b}\nb");
        assert_eq!(cut("two\nlines", 20), "two\\nlines");
    }

    #[test]
    fn sentences_break_between_words() {
        assert_eq!(wrapped("one two three", 7, 2), "one two\n  three");
        assert_eq!(wrapped("incomprehensible", 7, 2), "incomprehensible");
        assert_eq!(wrapped("a  b", 7, 2), "a b", "one blank is as good as two");
        assert_eq!(wrapped("", 7, 2), "");
    }

    #[test]
    fn cut_text_fits_its_width_in_any_script() {
        for text in ["short", "exactly 10", "longer than ten", "東京都千代田区", ""] {
            assert!(cut(text, 10).width() <= 10, "{text}");
        }
        assert_eq!(cut("exactly 10", 10), "exactly 10");
        assert_eq!(cut("longer than ten", 10), "longer th…");
        assert_eq!(cut("東京都千代田区", 10), "東京都千…");
    }

    #[test]
    fn text_that_is_cut_inside_keeps_both_ends() {
        assert_eq!(cut_inside("a transaction a row", 11), "a tra…a row");
        assert_eq!(cut_inside("short", 11), "short");
        for width in 1..20 {
            for text in
                ["longer than that by far", "東京都千代田区千代田一番", "a\nb\x1bc d e f g h"]
            {
                let cut = cut_inside(text, width);
                assert!(cut.width() <= width && !cut.contains('\n'), "{width}: {cut}");
            }
        }
    }

    #[test]
    fn a_latency_has_the_unit_that_fits() {
        let texts = [14.2, 999.6, 1234.0, 53_600.0, 2_500_000.0].map(latency);
        assert_eq!(texts, ["14 µs", "1.0 ms", "1.2 ms", "54 ms", "2.50 s"]);
    }
}
