//! Sources, encodings and blocks together, as the loader uses them: what goes
//! in as a file or a stream comes out as whole lines, or as an error that says
//! what is wrong.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;

use super::block::{BLOCK_HEADROOM, Block, BlockOptions, BlockReader};
use super::csv::{Carry, Dialect, FieldIndex, Scanner};
use super::small::{KEPT_BYTES_MAX, SmallFile};
use super::source::Source;
use crate::cancel::CancelToken;
use crate::{ErrorKind, Result};

fn options(block_bytes: usize) -> BlockOptions {
    BlockOptions { block_bytes, ..BlockOptions::default() }
}

/// All blocks' data, and how many bytes the source says were read.
fn read_all(source: &mut Source<'_>, options: &BlockOptions) -> Result<(Vec<Vec<u8>>, u64)> {
    let bytes_read = Arc::new(AtomicU64::new(0));
    let mut reader = BlockReader::new(source.open(&bytes_read)?, options)?;
    let mut block = Block::new();
    let mut blocks = Vec::new();
    while reader.next(&mut block)? {
        blocks.push(block.data().to_vec());
    }
    assert!(!reader.next(&mut block)?, "the end stays the end");
    Ok((blocks, bytes_read.load(Ordering::Relaxed)))
}

fn read_bytes(input: &[u8], options: &BlockOptions) -> Result<Vec<u8>> {
    read_all(&mut Source::reader("<stdin>", input, None), options)
        .map(|(blocks, _)| blocks.concat())
}

fn message(result: Result<Vec<u8>>) -> String {
    result.unwrap_err().to_string()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn utf16(text: &str, to_bytes: fn(u16) -> [u8; 2]) -> Vec<u8> {
    text.encode_utf16().flat_map(to_bytes).collect()
}

fn with_encoding(label: &str) -> BlockOptions {
    BlockOptions { encoding: Some(label.to_owned()), ..options(7) }
}

#[test]
fn blocks_hold_whole_lines() {
    let input = b"one\ntwo\nthree is longer\n\n4";
    for block_bytes in 1..40 {
        let mut source = Source::reader("<stdin>", &input[..], None);
        let (blocks, bytes_read) = read_all(&mut source, &options(block_bytes)).unwrap();
        assert!(blocks.iter().all(|block| block.ends_with(b"\n")));
        assert_eq!(blocks.concat(), b"one\ntwo\nthree is longer\n\n4\n");
        assert_eq!(bytes_read, input.len() as u64);
    }
    let mut source = Source::reader("<stdin>", &input[..], None);
    let (blocks, _) = read_all(&mut source, &options(8)).unwrap();
    assert_eq!(blocks[..2], [b"one\ntwo\n".to_vec(), b"three is longer\n".to_vec()]);
}

#[test]
fn blocks_know_their_line() {
    let input = "a\n\nb\n".repeat(50);
    let mut source = Source::reader("<stdin>", input.as_bytes(), None);
    let opened = source.open(&Arc::default()).unwrap();
    let mut reader = BlockReader::new(opened, &options(10)).unwrap();
    let (mut block, mut line) = (Block::new(), 1);
    while reader.next(&mut block).unwrap() {
        assert_eq!((block.first_line(), block.start()), (line, BLOCK_HEADROOM));
        line += memchr::memchr_iter(b'\n', block.data()).count() as u64;
    }
    assert_eq!(line, 151);
}

#[test]
fn an_empty_input_has_no_blocks() {
    for input in [&b""[..], b"\xef\xbb\xbf"] {
        assert_eq!(read_bytes(input, &options(10)).unwrap(), b"");
    }
    assert_eq!(read_bytes(b"\n", &options(10)).unwrap(), b"\n");
}

#[test]
fn a_long_line_grows_its_block_up_to_the_limit() {
    let long = [b'x'; 5000];
    let limited = |record_bytes_max| BlockOptions { record_bytes_max, ..options(16) };
    assert_eq!(read_bytes(&long, &limited(5000)).unwrap().len(), 5001);
    let input = [&b"a\nb\n"[..], &long].concat();
    assert_eq!(
        message(read_bytes(&input, &limited(999))).lines().next(),
        Some("<stdin>: line 3 is longer than 999 bytes")
    );
}

#[test]
fn a_long_record_names_its_line_and_its_open_quote() {
    let input = ["a,b\n", "1,\"open\n", &"text\n".repeat(1000)].concat();
    let mut source = Source::reader("<stdin>", input.as_bytes(), None);
    let opened = source.open(&Arc::default()).unwrap();
    let mut reader = BlockReader::new(opened, &options(64)).unwrap();
    let (mut block, mut index) = (Block::new(), FieldIndex::new());
    let mut scanner = Scanner::new(Dialect::default());
    let mut carry = Carry::new(Dialect::default(), "<stdin>", 500);
    let mut settled = Ok(());
    while settled.is_ok() && reader.next(&mut block).unwrap() {
        scanner.begin(block.start(), &mut index);
        scanner.scan(block.bytes(), &mut index);
        settled = carry.settle(&mut block, &mut index, &mut scanner);
    }
    assert_eq!(
        settled.unwrap_err().kind().to_string(),
        "<stdin>: the record that starts at line 2 is longer than 500 bytes, \
         and the quote at line 2, column 3 is still open"
    );
    let unfinished = carry.unfinished().unwrap();
    assert_eq!((unfinished.line, unfinished.column), (2, 3));
    assert!(unfinished.row.starts_with("1,\"open\\ntext\\n"));
}

#[test]
fn a_byte_order_mark_is_no_data() {
    assert_eq!(read_bytes(b"\xef\xbb\xbfa\n", &options(2)).unwrap(), b"a\n");
    assert_eq!(read_bytes(b"\xef\xbb\xbfa\n", &with_encoding("utf8")).unwrap(), b"a\n");
    // A file that says what it is need not be believed to be something else.
    assert_eq!(
        read_bytes(b"\xef\xbb\xbf\xc3\xa9\n", &with_encoding("latin1")).unwrap(),
        "é\n".as_bytes()
    );
}

#[test]
fn utf16_is_recognised_and_read_when_asked() {
    let text = "name,größe\nAda,𝄞\n".repeat(300);
    let little = utf16(&text, u16::to_le_bytes);
    let marked = utf16(&format!("\u{feff}{text}"), u16::to_be_bytes);
    for (input, label) in [(&little, "utf-16le"), (&marked, "utf-16be")] {
        let refused = message(read_bytes(input, &options(64)));
        assert!(refused.contains(&format!("CsvOptions::encoding({label})")), "{refused}");
        assert_eq!(read_bytes(input, &with_encoding(label)).unwrap(), text.as_bytes());
    }
    assert_eq!(read_bytes(&marked, &with_encoding("utf-16")).unwrap(), text.as_bytes());
    let refused = message(read_bytes(&[0; 100], &options(64)));
    assert!(refused.contains("no text in UTF-8: 100 of its first 100 bytes are NUL"), "{refused}");
}

#[test]
fn utf32_is_recognised_and_refused() {
    let utf32 = |text: &str, bytes: fn(u32) -> [u8; 4]| -> Vec<u8> {
        text.chars().flat_map(|it| bytes(it.into())).collect()
    };
    for mark in ["", "\u{feff}"] {
        let text = format!("{mark}name,größe\nAda,𝄞\n").repeat(300);
        for (bytes, name) in [
            (utf32(&text, u32::to_le_bytes), "UTF-32LE"),
            (utf32(&text, u32::to_be_bytes), "UTF-32BE"),
        ] {
            for options in [options(64), with_encoding("utf-16le"), with_encoding("utf8")] {
                let refused = message(read_bytes(&bytes, &options));
                assert!(refused.contains(&format!("this is {name}")), "{refused}");
                assert!(refused.contains(&format!("iconv -f {name} -t UTF-8")), "{refused}");
            }
        }
    }
    // Lines of one character, and a NUL behind the mark of UTF-16.
    for text in ["1\n2\n3\n", "a\tb\n", "\u{feff}\0a\nb\n"] {
        let bytes = utf16(text, u16::to_le_bytes);
        let read = read_bytes(&bytes, &with_encoding("utf-16le")).unwrap();
        assert_eq!(read, text.trim_start_matches('\u{feff}').as_bytes());
    }
}

#[test]
fn encodings_are_known_by_the_names_of_other_programs() {
    let read = |bytes: &[u8], label: &str| read_bytes(bytes, &with_encoding(label)).unwrap();
    for label in ["latin-1", "latin_1", "L1", "ascii", "windows_1252", "cp1252", "ISO_8859_1"] {
        assert_eq!(read(b"gr\xfc\xdfe\n", label), "grüße\n".as_bytes(), "{label}");
    }
    for label in ["utf8", "utf_8", "U8", "utf-8-sig", "UTF 8"] {
        assert_eq!(read("é\n".as_bytes(), label), "é\n".as_bytes(), "{label}");
    }
    for label in ["utf16", "utf-16", "utf_16", "utf_16_le", "UTF-16-LE"] {
        assert_eq!(read(b"a\0\n\0", label), b"a\n", "{label}");
    }
    assert_eq!(read(b"\x82\xa0\n", "cp932"), "あ\n".as_bytes());
    assert_eq!(read(b"\x8e\n", "mac_roman"), "é\n".as_bytes());
    assert!(message(read_bytes(b"a\n", &with_encoding("utf_32"))).contains("iconv -f UTF-32 "));
}

#[test]
fn other_encodings_are_read_or_refused_but_never_guessed() {
    assert_eq!(
        read_bytes(b"gr\xfc\xdfe\n", &with_encoding("windows-1252")).unwrap(),
        "grüße\n".as_bytes()
    );
    let unknown = message(read_bytes(b"a\n", &with_encoding("klingon")));
    assert!(unknown.starts_with("there is no encoding 'klingon'"), "{unknown}");
    let mut damaged = vec![b'a'; 100_000];
    damaged.extend_from_slice(b"\xff\n");
    let refused = message(read_bytes(&damaged, &with_encoding("shift_jis")));
    assert_eq!(refused, "<stdin>: byte 100001 and what follows are not Shift_JIS");
    // Without a label, bytes that are no UTF-8 are the loader's business.
    assert_eq!(read_bytes(b"\xff\n", &options(10)).unwrap(), b"\xff\n");
}

#[test]
fn compressed_input_is_known_by_its_content() {
    let text = "one,two\n".repeat(40_000);
    let (first, second) = text.as_bytes().split_at(100_001);
    let members = [gzip(first), gzip(b""), gzip(second)].concat();
    let frames = [first, b"", second].map(|part| zstd::encode_all(part, 1).unwrap()).concat();
    let skippable = [b"\x50\x2a\x4d\x18\x02\0\0\0ab", &frames[..]].concat();
    for packed in [members, frames, skippable] {
        let mut source = Source::reader("<stdin>", &packed[..], None);
        let (blocks, bytes_read) = read_all(&mut source, &options(1 << 12)).unwrap();
        assert!(blocks.concat() == text.as_bytes());
        assert_eq!(bytes_read, packed.len() as u64);
    }
}

#[test]
fn damaged_compressed_input_is_an_error() {
    let lines: Vec<String> = (0..20_000).map(|number| format!("{number},two\n")).collect();
    let text = lines.concat();
    let zstandard = zstd::encode_all(text.as_bytes(), 1).unwrap();
    for (packed, name) in [(gzip(text.as_bytes()), "gzip"), (zstandard, "Zstandard")] {
        for cut_bytes in [20, packed.len() / 2, packed.len() - 1] {
            let refused = message(read_bytes(&packed[..cut_bytes], &options(1 << 12)));
            let expected = format!(
                "<stdin>: the {name} data are truncated: they end at byte {cut_bytes}, within a stream"
            );
            assert_eq!(refused, expected);
        }
        let mut damaged = packed.clone();
        let middle = damaged.len() / 2;
        damaged[middle..middle + 200].fill(0x55);
        let refused = message(read_bytes(&damaged, &options(1 << 12)));
        assert!(refused.contains(&format!("the {name} data are damaged before byte")), "{refused}");
    }
}

#[test]
fn a_file_is_read_twice_if_it_stays_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("people.csv");
    fs::write(&path, "id\n1\n").unwrap();
    let mut source = Source::file(&path, None, &CancelToken::new()).unwrap();
    assert!(!source.is_stream());
    assert_eq!(source.open(&Arc::default()).unwrap().bytes_total(), Some(5));
    for _ in 0..2 {
        assert_eq!(read_all(&mut source, &options(10)).unwrap().0.concat(), b"id\n1\n");
    }
    fs::write(&path, "id\n1\n2\n").unwrap();
    let changed = read_all(&mut source, &options(10)).unwrap_err();
    assert!(changed.to_string().contains("people.csv: has changed while it was read"));
    assert!(changed.advice().is_some());
}

#[test]
fn a_small_file_is_read_from_memory_until_it_changes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("people.csv");
    fs::write(&path, "id\n1\n").unwrap();
    let small = || {
        let mut room = KEPT_BYTES_MAX;
        SmallFile::read(&path, &mut room).unwrap()
    };
    let read = |source: &mut Source<'_>| read_all(source, &options(10)).map(|it| it.0.concat());
    let (mut source, mut unopened) = (Source::small_file(&path, small()), small());
    assert_eq!(source.beginning().unwrap(), b"id\n1\n");
    // Only another reading would show the difference: size and time are the same.
    let modified = fs::metadata(&path).unwrap().modified().unwrap();
    fs::write(&path, "id\n2\n").unwrap();
    File::options().write(true).open(&path).unwrap().set_modified(modified).unwrap();
    assert_eq!(read(&mut source).unwrap(), b"id\n1\n");
    fs::write(&path, "id\n1\n2\n").unwrap();
    let changed = read(&mut source).unwrap_err();
    assert!(changed.to_string().contains("people.csv: has changed while it was read"));
    // What has changed before the first opening is read as it is then.
    let mut late = Source::small_file(&path, std::mem::replace(&mut unopened, small()));
    assert_eq!(read(&mut late).unwrap(), b"id\n1\n2\n");
    let mut gone = Source::small_file(&path, unopened);
    fs::remove_file(&path).unwrap();
    let missing = read(&mut gone).unwrap_err();
    assert!(matches!(missing.kind(), ErrorKind::NotFound { what: "file", .. }));
}

#[test]
fn a_file_that_changes_while_it_is_read_is_no_whole_one() {
    type Change = fn(&Path);
    let changes: [(&str, Change); 4] = [
        ("nothing", |_| {}),
        ("cut", |path| File::options().write(true).open(path).unwrap().set_len(400).unwrap()),
        ("longer", |path| {
            File::options().append(true).open(path).unwrap().write_all(b"9\n").unwrap();
        }),
        ("written anew", |path| {
            let file = File::options().write(true).open(path).unwrap();
            (&file).write_all(b"no").unwrap();
            let before = file.metadata().unwrap().modified().unwrap();
            file.set_modified(before + Duration::from_millis(1)).unwrap();
        }),
    ];
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("people.csv");
    for (what, change) in changes {
        fs::write(&path, format!("id\n{}", "1\n".repeat(1_000))).unwrap();
        let mut source = Source::file(&path, None, &CancelToken::new()).unwrap();
        let mut opened = source.open(&Arc::default()).unwrap();
        opened.read_exact(&mut [0; 20]).unwrap();
        change(&path);
        let read = opened.read_to_end(&mut Vec::new());
        let error = read.map_err(|error| opened.describe(error).to_string());
        match what {
            "nothing" => assert_eq!(error, Ok(2_003 - 20)),
            _ => assert!(error.unwrap_err().contains("has changed while it was read"), "{what}"),
        }
    }
}

#[test]
fn a_missing_file_and_a_folder_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let missing = Source::file(folder.path().join("no.csv"), None, &CancelToken::new())
        .map(|_| ())
        .unwrap_err();
    assert!(matches!(missing.kind(), ErrorKind::NotFound { what: "file", .. }));
    assert!(missing.to_string().contains("no.csv"));
    assert_eq!(missing.advice(), Some("check the name"));
    let url =
        Source::file("s3://bucket/people.csv", None, &CancelToken::new()).map(|_| ()).unwrap_err();
    assert!(url.advice().is_some_and(|advice| advice.starts_with("inputs are files, not URLs")));
    let refused = Source::file(folder.path(), None, &CancelToken::new()).map(|_| ()).unwrap_err();
    assert!(refused.to_string().contains(": is a folder, not a file"), "{refused}");
}

#[test]
fn a_stream_is_read_twice_through_a_copy() {
    let folder = tempfile::tempdir().unwrap();
    let text = "one,two\n".repeat(10_000);
    for input in [text.as_bytes().to_vec(), gzip(text.as_bytes())] {
        let mut source = Source::reader("<stdin>", &input[..], Some(folder.path()));
        for _ in 0..3 {
            let (blocks, bytes_read) = read_all(&mut source, &options(1 << 10)).unwrap();
            assert!(blocks.concat() == text.as_bytes());
            assert_eq!(bytes_read, input.len() as u64);
        }
        assert_eq!(source.open(&Arc::default()).unwrap().bytes_total(), Some(input.len() as u64));
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "the copy has no name");
}

#[test]
fn a_stream_without_a_copy_is_read_once() {
    let mut source = Source::reader("<stdin>", &b"a\n"[..], None);
    assert!(source.is_stream());
    read_all(&mut source, &options(10)).unwrap();
    let refused = read_all(&mut source, &options(10)).unwrap_err();
    let told = refused.to_string();
    assert!(told.starts_with("<stdin>: cannot be read a second time\nto do: save it"), "{told}");
}

/// Gives each of these, and no byte in between, as a terminal does at ctrl-D.
struct Terminal(std::vec::IntoIter<&'static [u8]>);

impl Read for Terminal {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let typed = self.0.next().expect("it is not read on behind its end");
        buffer[..typed.len()].copy_from_slice(typed);
        Ok(typed.len())
    }
}

#[test]
fn a_stream_ends_once() {
    let folder = tempfile::tempdir().unwrap();
    for spool in [None, Some(folder.path())] {
        let typed: Vec<&'static [u8]> = vec![b"a\n", b"", b"late\n"];
        let terminal = Terminal(typed.into_iter());
        let mut source = Source::reader("<stdin>", terminal, spool);
        assert_eq!(source.beginning().unwrap(), b"a\n");
        let (blocks, _) = read_all(&mut source, &options(10)).unwrap();
        assert_eq!(blocks.concat(), b"a\n");
    }
}

#[test]
fn half_a_copy_is_not_taken_for_the_whole() {
    let folder = tempfile::tempdir().unwrap();
    let mut source = Source::reader("<stdin>", &[b'a'; 100][..], Some(folder.path()));
    source.open(&Arc::default()).unwrap().read_exact(&mut [0; 2]).unwrap();
    assert!(source.open(&Arc::default()).is_err());
}

#[test]
fn a_copy_that_cannot_be_made_is_an_error() {
    let mut source = Source::reader("<stdin>", &b"a\n"[..], Some(Path::new("/no/such/folder")));
    let refused = source.open(&Arc::default()).map(|_| ()).unwrap_err();
    assert!(refused.to_string().starts_with("cannot write a temporary file in /no/such/folder"));
}

/// Fails as a disk would, after its first bytes.
struct Failing(bool);

impl Read for Failing {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        if std::mem::replace(&mut self.0, true) {
            return Err(std::io::Error::from_raw_os_error(5));
        }
        buffer.fill(b'a');
        Ok(buffer.len())
    }
}

#[test]
fn what_the_system_refuses_is_passed_on() {
    let mut source = Source::reader("<stdin>", Failing(false), None);
    let refused = read_all(&mut source, &options(10)).unwrap_err();
    assert!(matches!(refused.kind(), ErrorKind::Io { action: "read", .. }));
}
