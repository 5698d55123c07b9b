//! Any bytes in any dialect: the scanner, 64 bytes at a time and in blocks of
//! any size, must read what a reader of one byte at a time reads.
//!
//! 1. The values of all records, and where an unclosed field starts, are those
//!    of the reference below.
//! 2. They and the count of stray quotes do not depend on the size of blocks.
#![no_main]

use leafpress::fuzzing::{Reading, read};
use libfuzzer_sys::fuzz_target;

type Dialect = (u8, Option<u8>, Option<u8>);

fuzz_target!(|input: &[u8]| {
    let [choice, size, input @ ..] = input else { return };
    if is_not_utf8_text(input) {
        return;
    }
    let dialect: Dialect = [
        (b',', Some(b'"'), None),
        (b',', Some(b'"'), Some(b'\\')),
        (b'\t', None, None),
        (b'\t', None, Some(b'\\')),
        (b';', Some(b'\''), Some(b'^')),
        (0xff, Some(0), None),
    ][usize::from(choice % 6)];
    // Whole in one block, and cut after about so many bytes.
    let Ok(whole) = read(input, dialect, 1 << 16) else { return };
    let cut = read(input, dialect, usize::from(*size) + 1).expect("it was read before");
    assert_eq!(whole, cut, "blocks of {size} bytes");
    let (records, unfinished) = reference(input, dialect);
    let expected = Reading { records, unfinished, stray_quotes: whole.stray_quotes };
    assert_eq!(whole, expected);
});

/// Whether it begins like compressed data or UTF-16, which are unpacked on the way.
fn is_not_utf8_text(input: &[u8]) -> bool {
    let beginnings: [&[u8]; 4] = [b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"\xfe\xff", b"\xff\xfe"];
    beginnings.iter().any(|beginning| input.starts_with(beginning))
        || input.get(1..4) == Some(b"\x2a\x4d\x18")
}

#[derive(Clone, Copy, PartialEq)]
enum At {
    RecordStart,
    FieldStart,
    Unquoted,
    Quoted,
    Closed,
}

type Records = Vec<Vec<Vec<u8>>>;

/// The rules, one byte at a time: the records, and the place of an open field.
fn reference(input: &[u8], (delimiter, quote, escape): Dialect) -> (Records, Option<(u64, u64)>) {
    let mut bytes = input.strip_prefix(b"\xef\xbb\xbf").unwrap_or(input).to_vec();
    if bytes.last().is_some_and(|&last| last != b'\n') {
        bytes.push(b'\n');
    }
    let (mut records, mut record, mut value) = (Records::new(), Vec::new(), Vec::new());
    let (mut at, mut is_escaped, mut ends_in_return) = (At::RecordStart, false, false);
    let mut field_start = 0;
    for (offset, &byte) in bytes.iter().enumerate() {
        let is_line_end = byte == b'\n' || bytes[offset..].starts_with(b"\r\n");
        if at == At::RecordStart && is_line_end {
            continue;
        }
        if matches!(at, At::RecordStart | At::FieldStart) && !is_escaped {
            field_start = offset;
        }
        if (byte == delimiter || byte == b'\n') && at != At::Quoted && !is_escaped {
            if byte == b'\n' && ends_in_return {
                value.pop();
            }
            record.push(std::mem::take(&mut value));
            at = At::FieldStart;
            if byte == b'\n' {
                records.push(std::mem::take(&mut record));
                at = At::RecordStart;
            }
            ends_in_return = false;
            continue;
        }
        ends_in_return = false;
        if std::mem::take(&mut is_escaped) {
            value.push(byte);
        } else if Some(byte) == quote && at != At::Unquoted {
            if at == At::Closed {
                value.push(byte);
            }
            at = if at == At::Quoted { At::Closed } else { At::Quoted };
        } else if Some(byte) == escape && at != At::Closed {
            is_escaped = true;
            if at != At::Quoted {
                at = At::Unquoted;
            }
        } else {
            value.push(byte);
            if at != At::Quoted {
                at = At::Unquoted;
                ends_in_return = byte == b'\r';
            }
        }
    }
    let is_open = at != At::RecordStart;
    (records, is_open.then(|| place(&bytes, field_start)))
}

fn place(bytes: &[u8], offset: usize) -> (u64, u64) {
    let before = &bytes[..offset];
    let lines = before.iter().filter(|&&byte| byte == b'\n').count();
    let line_start = before.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
    (lines as u64 + 1, (offset - line_start) as u64 + 1)
}
