//! The note about a header that may be the first row of an input without one.
//!
//! Called once an input, with the first records. Must never: refuse an input. Columns may be
//! named after years, so a header of numbers is loaded as one.

use crate::load::values::fields::{Timestamp, shown};

/// Rows that are compared with the names.
pub const ROWS_SEEN_MAX: usize = 100;
/// Names that are more likely a year than a value.
const YEARS: std::ops::RangeInclusive<u64> = 1900..=2100;

/// The note about a header of numbers and dates alone, or with a number or date as the name of a
/// column that holds the like.
pub fn row_as_header_note(file: &str, names: &[Vec<u8>], rows: &[Vec<Vec<u8>>]) -> Option<String> {
    let begin = format!("{file}: its first record is taken as the header, and");
    let end = "if it is a row, load with ⟦no_header⟧";
    let is_value = |value: &&Vec<u8>| is_number(value) || is_date(value);
    let mut filled = names.iter().filter(|name| !name.is_empty()).peekable();
    let first = shown(filled.peek()?);
    if filled.all(|value| is_value(&value)) {
        return Some(format!(
            "{begin} each name in it is a number or a date, such as '{first}': {end}"
        ));
    }
    let is_counted = are_counted(names);
    let name = names.iter().enumerate().find_map(|(column, name)| {
        let values = || rows.iter().filter_map(move |row| row.get(column));
        let is_sign = !(is_counted && whole(name).is_some()) && is_like(name, values);
        is_sign.then_some(name)
    })?;
    let what = if is_date(name) { "date" } else { "number" };
    Some(format!("{begin} its name '{}' is a {what}, as are the values below: {end}", shown(name)))
}

/// Returns true if a name is a number or date, and all values below it are.
fn is_like<'v, I: Iterator<Item = &'v Vec<u8>>>(name: &[u8], values: impl Fn() -> I) -> bool {
    let all = |is: &dyn Fn(&[u8]) -> bool| {
        let mut filled = values().filter(|value| !value.is_empty()).peekable();
        filled.peek().is_some() && filled.all(|value| is(value))
    };
    match whole(name) {
        Some(number) if is_year(number) => all(&|value| whole(value).is_some_and(is_year)),
        _ if is_number(name) => all(&is_number),
        _ => is_date(name) && all(&is_date),
    }
}

/// Returns true if the whole numbers among the names count columns: 0, 1, 2 or 2019, 2020.
fn are_counted(names: &[Vec<u8>]) -> bool {
    let numbers: Vec<u64> = names.iter().filter_map(|name| whole(name)).collect();
    numbers.len() > 1 && numbers.windows(2).all(|pair| pair[0].checked_add(1) == Some(pair[1]))
}

fn is_year(number: u64) -> bool {
    YEARS.contains(&number)
}

fn is_date(value: &[u8]) -> bool {
    Timestamp::parse(value).is_some()
}

/// The value of a whole number, written in digits alone.
fn whole(value: &[u8]) -> Option<u64> {
    let is_digits = value.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(value).ok().filter(|_| is_digits)?.parse().ok()
}

pub fn is_number(value: &[u8]) -> bool {
    let text = std::str::from_utf8(value).unwrap_or_default().trim();
    text.ends_with(|last: char| last.is_ascii_digit()) && text.parse::<f64>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(header: &str, rows: &[&str]) -> Option<String> {
        let fields = |line: &str| -> Vec<Vec<u8>> {
            line.split(',').map(|field| field.as_bytes().to_vec()).collect()
        };
        let rows: Vec<_> = rows.iter().map(|row| fields(row)).collect();
        row_as_header_note("a.csv", &fields(header), &rows)
    }

    #[test]
    fn a_name_that_is_like_the_values_below_is_doubted() {
        for (header, rows, name) in [
            ("1,Goroka,2.5", &["2,Madang,3.5"][..], "its name '1' is a number"),
            ("Goroka,-6.08,x", &["Madang,-5.2,y", "Wewak,,z"], "its name '-6.08' is a number"),
            ("x,2026-01-31", &["y,2026-02-01"], "its name '2026-01-31' is a date"),
            ("x,2019", &["y,2020"], "its name '2019' is a number"),
            ("x,00501", &["y,00502"], "its name '00501' is a number"),
            ("1,5", &[], "each name in it is a number or a date, such as '1'"),
            ("2019,2020", &["a,b"], "each name in it"),
        ] {
            let note = note(header, rows).expect(header);
            assert!(note.contains(name) && note.ends_with("⟦no_header⟧"), "{note}");
        }
    }

    #[test]
    fn names_that_are_years_numbers_of_columns_or_unlike_the_values_are_not() {
        for (header, rows) in [
            ("name,2019,2020", &["Ada,5,6"][..]),
            ("name,2010,2020", &["Ada,2013,6", "Bob,7,2012"]),
            ("id,1,2,3", &["a,5,6,7"]),
            ("place,2020-01-22,2020-01-23", &["Peru,5,6"]),
            ("a,1", &["b,c", "d,2"]),
            ("a,1", &["b,"]),
            ("a,1", &[]),
            ("id,name", &["1,2"]),
        ] {
            assert_eq!(note(header, rows), None, "{header}");
        }
    }
}
