//! The values that flags take, from their words.
//!
//! Must never: look at anything but the words.

use std::num::IntErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::builder::{PathBufValueParser, TypedValueParser};
use leafpress::load::{ColumnType, TimestampForm, Uuid7Form};
use leafpress::why_no_path;

use crate::cluster::url_of;

/// A database is named by its path, in all commands alike.
///
/// SQLite would take `file:x.db` for a URI, with parameters that change how it is opened, and
/// `:memory:` for a database that is gone at the end; a load would make files of these names.
pub fn database_path() -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().try_map(|path| match why_no_path(&path) {
        Some(reason) => Err(reason),
        None if is_misspelled_url(&path) => {
            Err("a cluster is named as rqlite://HOST:PORT, and a file of \
             such a name as ./rqlite:…"
                .to_owned())
        }
        None => Ok(path),
    })
}

/// A folder for shards, or their URL in an object store; `file:` and `:memory:` are refused, as for
/// databases.
pub fn shards_path() -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().try_map(|path| why_no_path(&path).map_or(Ok(path), Err))
}

/// A database in a file, for commands that know no clusters.
pub fn file_path() -> impl TypedValueParser<Value = PathBuf> {
    database_path().try_map(|path| match url_of(&path) {
        Some(_) => {
            Err("it is a cluster of rqlite, and this command takes a file; load, queue and \
             doctor take clusters"
                .to_owned())
        }
        None => Ok(path),
    })
}

fn is_misspelled_url(path: &Path) -> bool {
    let begins_with = |text: &str, scheme: &str| {
        text.get(..scheme.len()).is_some_and(|it| it.eq_ignore_ascii_case(scheme))
    };
    let is_meant = |text: &str| ["rqlite:", "rqlites:"].iter().any(|it| begins_with(text, it));
    path.to_str().is_some_and(is_meant) && url_of(path).is_none()
}

/// Names between commas.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Names(pub Vec<String>);

/// A byte that can be switched off. (A bare `Option` means "not given" to clap.)
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ByteOrNone(pub Option<u8>);

/// A column type, comparable: two equal ones for one column are no contradiction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NamedType {
    /// A type of SQLite's.
    Column(ColumnType),
    /// Dates and times, stored in that form.
    Timestamp(TimestampForm),
    /// Words of truth, stored as 1 and 0.
    Boolean,
    /// No type, but the rule by which it is found: all texts can be had back.
    Exact,
}

/// Names between commas; one that holds a comma stands in double quotes.
pub fn parse_names(text: &str) -> Result<Names, String> {
    let mut names = Vec::new();
    let mut rest = text;
    loop {
        let (name, after) = first_name(rest)?;
        if name.is_empty() {
            return Err("a name is missing; write them as A,B,C".to_owned());
        }
        names.push(name);
        match after {
            Some(after) => rest = after,
            None => return Ok(Names(names)),
        }
    }
}

/// The first name, and what stands behind its comma.
fn first_name(text: &str) -> Result<(String, Option<&str>), String> {
    let Some((name, after)) = quoted_name(text)? else {
        return Ok(match text.split_once(',') {
            Some((name, after)) => (name.to_owned(), Some(after)),
            None => (text.to_owned(), None),
        });
    };
    match after.strip_prefix(',') {
        Some(after) => Ok((name, Some(after))),
        None if after.is_empty() => Ok((name, None)),
        None => Err(format!("a comma is missing before '{after}'")),
    }
}

/// The name in double quotes with which a text begins, and what stands behind it; `None` if the
/// text begins without quotes.
fn quoted_name(text: &str) -> Result<Option<(String, &str)>, String> {
    match leafpress::quoted_name(text) {
        None if text.starts_with('"') => Err(format!("a closing quote is missing: {text}")),
        found => Ok(found),
    }
}

/// `OLD=NEW`, split at the last equals sign; a name that holds one may stand in double quotes.
pub fn parse_rename(text: &str) -> Result<(String, String), String> {
    let wrong = || "write it as OLD=NEW; names with an equals sign as \"OLD\"=\"NEW\"".to_owned();
    let (old, new) = if let Some((old, after)) = quoted_name(text)? {
        (old, after.strip_prefix('=').ok_or_else(wrong)?)
    } else {
        let split = if text.ends_with('"') { text.split_once("=\"") } else { None };
        // The quote belongs to the new name.
        let quoted = split.map(|(old, _)| (old, &text[old.len() + 1..]));
        let (old, new) = quoted.or_else(|| text.rsplit_once('=')).ok_or_else(wrong)?;
        (old.to_owned(), new)
    };
    let new = match quoted_name(new)? {
        Some((new, "")) => new,
        Some(_) => return Err(wrong()),
        None => new.to_owned(),
    };
    if old.is_empty() || new.is_empty() { Err(wrong()) } else { Ok((old, new)) }
}

/// `COL` or `COL=blob` or `COL=text`.
pub fn parse_uuid7(text: &str) -> Result<(String, Uuid7Form), String> {
    let (column, form) = match text.rsplit_once('=') {
        None => (text, Uuid7Form::Blob),
        Some((column, form)) if form.eq_ignore_ascii_case("blob") => (column, Uuid7Form::Blob),
        Some((column, form)) if form.eq_ignore_ascii_case("text") => (column, Uuid7Form::Text),
        Some(_) => return Err("write it as COLUMN, COLUMN=blob or COLUMN=text".to_owned()),
    };
    if column.is_empty() {
        return Err("the column's name is missing".to_owned());
    }
    Ok((column.to_owned(), form))
}

/// `COL=T`. A name may hold an equals sign.
pub fn parse_column_type(text: &str) -> Result<(String, NamedType), String> {
    let (column, type_name) =
        text.rsplit_once('=').ok_or("write it as COLUMN=TYPE, as in --type zip=text")?;
    if column.is_empty() {
        return Err("the column's name is missing before '='".to_owned());
    }
    let lower = type_name.to_ascii_lowercase();
    let named = match lower.as_str() {
        "integer" => NamedType::Column(ColumnType::Integer),
        "real" => NamedType::Column(ColumnType::Real),
        "text" => NamedType::Column(ColumnType::Text),
        "blob" => NamedType::Column(ColumnType::Blob),
        "boolean" => NamedType::Boolean,
        "exact" => NamedType::Exact,
        other => match other.parse::<TimestampForm>() {
            Ok(form) => NamedType::Timestamp(form),
            Err(_) => return Err(unknown_type(other)),
        },
    };
    Ok((column.to_owned(), named))
}

fn unknown_type(type_name: &str) -> String {
    let hint = match type_name {
        "int" | "bigint" => ", here perhaps integer",
        "bool" => ", here perhaps boolean",
        "float" | "double" | "numeric" | "decimal" => ", here perhaps real",
        "str" | "string" | "varchar" => ", here perhaps text",
        "timestamp" | "time" => ", here perhaps datetime or unixepoch",
        _ => "",
    };
    format!(
        "a type is integer, real, text, blob, boolean or exact, or for dates unixepoch, \
         unixepoch-ms, date or datetime{hint}"
    )
}

/// Parses one of SQLite's page sizes.
pub fn parse_page_size(text: &str) -> Result<u32, String> {
    match text.parse::<u32>() {
        Ok(bytes) if (512..=65536).contains(&bytes) && bytes.is_power_of_two() => Ok(bytes),
        _ => Err("SQLite's page sizes are 512, 1024, 2048, 4096, 8192, 16384, 32768 and 65536"
            .to_owned()),
    }
}

/// A number from 1 up.
pub fn parse_number<T: TryFrom<u64>>(text: &str) -> Result<T, String> {
    let too_large = || {
        let most = u64::MAX >> (u64::BITS as usize - 8 * size_of::<T>());
        format!("name a number from 1 to {most}")
    };
    match text.parse::<u64>() {
        Ok(number @ 1..) => T::try_from(number).map_err(|_| too_large()),
        Err(error) if *error.kind() == IntErrorKind::PosOverflow => Err(too_large()),
        _ => Err("name a number from 1 up".to_owned()),
    }
}

/// A waiting time in milliseconds, the unit of `sqlite3`'s `.timeout`.
pub fn parse_milliseconds(text: &str) -> Result<Duration, String> {
    let milliseconds = text.parse::<u32>();
    milliseconds
        .map(|milliseconds| Duration::from_millis(milliseconds.into()))
        .map_err(|_| "name a number of milliseconds, such as 5000".to_owned())
}

/// A size in bytes, with an optional `K`, `M`, `G` or `T` for powers of 1024.
pub fn parse_memory(text: &str) -> Result<usize, String> {
    let wrong = || "name a size such as 512M, 2G or 1T".to_owned();
    let number_end = text.find(|it: char| !it.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(number_end);
    let factor: u64 = match unit.to_ascii_uppercase().as_str() {
        "" => 1,
        "K" | "KB" | "KIB" => 1 << 10,
        "M" | "MB" | "MIB" => 1 << 20,
        "G" | "GB" | "GIB" => 1 << 30,
        "T" | "TB" | "TIB" => 1 << 40,
        _ => return Err(wrong()),
    };
    let bytes = number.parse::<u64>().ok().and_then(|it| it.checked_mul(factor));
    bytes.and_then(|bytes| usize::try_from(bytes).ok()).ok_or_else(wrong)
}

/// The length of a row in bytes, with a unit as [`parse_memory`] takes it.
pub fn parse_row_bytes(text: &str) -> Result<u64, String> {
    const LONGEST: u64 = 2 << 30;
    match parse_memory(text)? as u64 {
        bytes @ 1..=LONGEST => Ok(bytes),
        _ => {
            Err("name a size from 1 byte to 2G; SQLite stores rows of up to 1000000000".to_owned())
        }
    }
}

/// A number from 1 up, with an optional `k`, `M` or `G` for thousands, millions, billions.
pub fn parse_amount(text: &str) -> Result<u64, String> {
    let wrong = || "name a number from 1 up, such as 1000000, 50M or 1G".to_owned();
    let number_end = text.find(|it: char| !it.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(number_end);
    let factor = match unit {
        "" => 1,
        "k" | "K" => 1_000,
        "M" => 1_000_000,
        "G" => 1_000_000_000,
        _ => return Err(wrong()),
    };
    let amount = number.parse::<u64>().ok().and_then(|number| number.checked_mul(factor));
    amount.filter(|amount| *amount > 0).ok_or_else(wrong)
}

/// A time in seconds, which may have a fraction.
pub fn parse_seconds(text: &str) -> Result<Duration, String> {
    let wrong = || "name seconds, such as 10 or 0.5, up to 3600".to_owned();
    let seconds = text.parse().ok().filter(|it| (0.001..=3600.0).contains(it));
    seconds.map(Duration::from_secs_f64).ok_or_else(wrong)
}

/// The byte between fields.
pub fn parse_delimiter(text: &str) -> Result<u8, String> {
    if text.eq_ignore_ascii_case("tab") { Ok(b'\t') } else { parse_byte(text) }
}

/// The byte around fields, or none.
pub fn parse_quote(text: &str) -> Result<ByteOrNone, String> {
    if text.is_empty() || text.eq_ignore_ascii_case("none") {
        return Ok(ByteOrNone(None));
    }
    parse_byte(text).map(|byte| ByteOrNone(Some(byte)))
}

/// A byte, as it is or as `\t`.
pub fn parse_byte(text: &str) -> Result<u8, String> {
    match text.as_bytes() {
        b"\\t" => Ok(b'\t'),
        [b'\n' | b'\r'] => Err("a line end cannot stand for anything else".to_owned()),
        [byte] => Ok(*byte),
        [] => Err("it is empty; name one character".to_owned()),
        bytes => {
            let wrong = format!("it has {} bytes and must have one", bytes.len());
            Err(match bytes {
                // As in C; the shell can make the byte of it.
                [b'\\', b'0'..=b'7' | b'x' | b'a' | b'b' | b'e' | b'f' | b'v', ..] => {
                    format!("{wrong}: let the shell make the byte, in bash and zsh with $'{text}'")
                }
                _ => wrong,
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_name_may_hold_an_equals_sign() {
        assert_eq!(
            parse_column_type("a=b=REAL"),
            Ok(("a=b".to_owned(), NamedType::Column(ColumnType::Real)))
        );
        assert!(parse_column_type("=text").is_err());
        assert!(parse_column_type("zip").is_err());
        assert!(parse_column_type("n=int").is_err_and(|it| it.contains("perhaps integer")));
        for (text, old, new) in [
            ("a=b=c", "a=b", "c"),
            ("a=\"b=c\"", "a", "b=c"),
            ("\"a=b\"=c", "a=b", "c"),
            ("\"a\"=b=c", "a", "b=c"),
            ("\"a=1\"=\"b=\"\"2\"\"\"", "a=1", "b=\"2\""),
        ] {
            assert_eq!(parse_rename(text), Ok((old.to_owned(), new.to_owned())), "{text}");
        }
        for bad in ["\"a\"", "\"a\"b=c", "\"a=b", "a=\"b\"c\"", "a=\"\"", "\"\"=a"] {
            assert!(parse_rename(bad).is_err(), "{bad}");
        }
        for bad in ["a", "=a", "a="] {
            assert!(parse_rename(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn truth_and_exactness_are_named_beside_types() {
        assert_eq!(parse_column_type("a=Boolean"), Ok(("a".to_owned(), NamedType::Boolean)));
        assert_eq!(parse_column_type("a=exact"), Ok(("a".to_owned(), NamedType::Exact)));
        assert!(parse_column_type("a=bool").is_err_and(|it| it.contains("perhaps boolean")));
    }

    #[test]
    fn dates_are_types_too() {
        let form = NamedType::Timestamp(TimestampForm::Milliseconds);
        assert_eq!(parse_column_type("at=UnixEpoch-ms"), Ok(("at".to_owned(), form)));
        assert!(parse_column_type("at=timestamp").is_err_and(|it| it.contains("or unixepoch")));
    }

    #[test]
    fn names_stand_between_commas_or_in_quotes() {
        let names = |text| parse_names(text).map(|names| names.0);
        assert_eq!(names("a,b c"), Ok(vec!["a".to_owned(), "b c".to_owned()]));
        assert_eq!(names(r#""a,b","say ""x""",c"#), {
            Ok(["a,b", "say \"x\"", "c"].map(str::to_owned).to_vec())
        });
        for bad in ["", "a,", ",a", "a,,b", "\"a", "\"a\"b", "\"\""] {
            assert!(names(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_made_key_has_a_form() {
        assert_eq!(parse_uuid7("id"), Ok(("id".to_owned(), Uuid7Form::Blob)));
        assert_eq!(parse_uuid7("id=TEXT"), Ok(("id".to_owned(), Uuid7Form::Text)));
        for bad in ["", "=text", "id=uuid"] {
            assert!(parse_uuid7(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn sizes_and_times_take_their_units() {
        assert_eq!(
            ["7", "2K", "512MiB", "1g"].map(parse_memory),
            [7, 2 << 10, 512 << 20, 1 << 30].map(Ok)
        );
        assert_eq!(
            parse_memory("1T").ok().map(|bytes| bytes as u64),
            usize::try_from(1_u64 << 40).ok().map(|bytes| bytes as u64)
        );
        for bad in ["", "M", "1.5G", "-1", "1P", "99999999999999999999"] {
            assert!(parse_memory(bad).is_err(), "{bad}");
        }
        assert_eq!(["1", "64M", "2G"].map(parse_row_bytes), [1, 64 << 20, 2 << 30].map(Ok));
        for bad in ["0", "3G", "x"] {
            assert!(parse_row_bytes(bad).is_err(), "{bad}");
        }
        assert_eq!(parse_milliseconds("250"), Ok(Duration::from_millis(250)));
        assert!(parse_milliseconds("5s").is_err_and(|it| it.contains("milliseconds")));
    }

    #[test]
    fn numbers_are_from_1_up_to_the_largest_of_their_type() {
        assert_eq!(parse_number("4294967295"), Ok(u32::MAX));
        assert_eq!(parse_number::<u64>("18446744073709551615"), Ok(u64::MAX));
        for bad in ["4294967296", "18446744073709551616"] {
            let why = parse_number::<u32>(bad).unwrap_err();
            assert_eq!(why, "name a number from 1 to 4294967295");
        }
        for bad in ["0", "-1", "", "x", "1.5"] {
            assert_eq!(parse_number::<u32>(bad).unwrap_err(), "name a number from 1 up");
        }
    }

    #[test]
    fn amounts_take_a_unit() {
        assert_eq!(
            ["7", "10k", "50M", "1G"].map(parse_amount),
            [7, 10_000, 50_000_000, 1_000_000_000].map(Ok)
        );
        for bad in ["", "0", "M", "1.5G", "-1", "1GB", "18446744073709551615G"] {
            assert!(parse_amount(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn bytes_are_single_and_no_line_ends() {
        assert_eq!(parse_delimiter(r"\t"), Ok(b'\t'));
        assert_eq!(parse_delimiter("TAB"), Ok(b'\t'));
        assert_eq!(parse_delimiter("\u{1f}"), Ok(0x1f));
        assert_eq!(parse_quote(""), Ok(ByteOrNone(None)));
        assert_eq!(parse_quote("none"), Ok(ByteOrNone(None)));
        assert_eq!(parse_quote("'"), Ok(ByteOrNone(Some(b'\''))));
        assert_eq!(parse_byte("\\"), Ok(b'\\'));
        for bad in ["", "\n", "||", "€"] {
            assert!(parse_byte(bad).is_err(), "{bad:?}");
        }
    }
}
