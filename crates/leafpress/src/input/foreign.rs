//! Formats that cannot be loaded, told by an input's first bytes: archives, packings that are not
//! read here, and files of other programs. Loaded as text they would become a table of nonsense.
//!
//! The bytes are looked at after decompression, so an archive inside gzip is found as well.
//!
//! Must never: take text for one of these formats.

use crate::Error;

/// Number of first bytes that [`foreign`] needs, if the input has that many: the header of an archive
/// of tar.
pub const FOREIGN_BYTES: usize = 512;

/// A format that cannot be loaded: its name, and the advice with `FILE` in place of the name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Foreign {
    what: &'static str,
    to_do: &'static str,
}

const fn of(what: &'static str, to_do: &'static str) -> Foreign {
    Foreign { what, to_do }
}

const NO_ROWS: &str = "name the file that holds the rows";
const PG_DUMP: Foreign = of(
    "a dump of PostgreSQL that pg_restore reads",
    "restore it, and load what \\copy writes of its tables as CSV",
);
/// Text that other programs read, by its first bytes or its ending. The caller may say that it is CSV.
pub const SQL: Foreign = of(
    "a script of SQL",
    "run it: sqlite3 DB < FILE (one of another server there, and load what that server writes of the \
     tables as CSV); if its lines are rows all the same, say so by ⟦format⟧",
);
/// A page of the web.
pub const HTML: Foreign = of(
    "a page of HTML",
    "see where it comes from: a download that failed leaves such a page; save its table as CSV; if its \
     lines are rows all the same, say so by ⟦format⟧",
);
/// Elements with names.
pub const XML: Foreign = of(
    "a file of XML",
    "write its rows as CSV or JSON; if its lines are rows all the same, say so by ⟦format⟧",
);
/// Documents of indented lines.
pub const YAML: Foreign = of(
    "a file of YAML",
    "write its rows as JSON; if its lines are rows all the same, say so by ⟦format⟧",
);
/// A table of SPSS.
pub const SPSS: Foreign = of("a file of SPSS", "save its table as CSV or Parquet");
const PICKLE: Foreign = of("a pickle of Python", "save its rows as CSV or Parquet");
const R: Foreign = of("a file of R", "save its table as CSV or Parquet");
const OFFICE: Foreign =
    of("a workbook or document of an office program", "save its sheet as CSV, and load that file");
const ZIP: Foreign =
    of("a zip archive", "load the file in it: unzip -p FILE NAME | leafpress load DB -");
const SEVEN_ZIP: Foreign =
    of("a 7z archive", "unpack it with '7z x FILE', and load the files in it");
const RAR: Foreign = of("a rar archive", "unpack it with 'unrar x FILE', and load the files in it");
const TAR: Foreign = of(
    "a tar archive",
    "unpack it with 'tar -xf FILE', and load the files in it, or pipe one of them in: \
     tar -xOf FILE NAME | leafpress load DB -",
);

/// First bytes and their formats. Each has a byte that no text has, or is too long to be one by chance.
const FIRST_BYTES: [(&[u8], Foreign); 28] = [
    (b"\xfd7zXZ\0", of("an xz file", "unpack it: xz -dc FILE | leafpress load DB -")),
    (b"]\0\0", of("an lzma file", "unpack it: xz -dc FILE | leafpress load DB -")),
    (b"LZIP\x01", of("an lzip file", "unpack it: lzip -dc FILE | leafpress load DB -")),
    (b"\x04\x22\x4d\x18", of("an lz4 file", "unpack it: lz4 -dc FILE | leafpress load DB -")),
    (b"\x1f\x9d", of("a file of compress", "unpack it: gzip -dc FILE | leafpress load DB -")),
    (b"\xff\x06\0\0sNaPpY", of("a snappy file", "unpack it first")),
    (b"7z\xbc\xaf\x27\x1c", SEVEN_ZIP),
    (b"Rar!\x1a\x07", RAR),
    (b"PK\x05\x06", ZIP),
    (b"PK\x07\x08", ZIP),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", OFFICE),
    (b"\x89PNG\r\n\x1a\n", of("a PNG image", NO_ROWS)),
    (b"\xff\xd8\xff", of("a JPEG image", NO_ROWS)),
    (b"%PDF-1.", of("a PDF document", NO_ROWS)),
    (b"\x7fELF", of("a program", NO_ROWS)),
    (b"\x89HDF\r\n\x1a\n", of("an HDF5 file", "save its table as CSV or Parquet")),
    (b"Obj\x01", of("an Avro file", "save its rows as JSON lines or Parquet")),
    (b"\x93NUMPY", of("a NumPy file", "save its rows as CSV or Parquet")),
    (
        b"\x1f\x8b\x08",
        of("a gzip file inside another", "unpack it once: gzip -dc FILE | leafpress load DB -"),
    ),
    (
        b"\x28\xb5\x2f\xfd",
        of(
            "a zstd file inside another file",
            "unpack it once: zstd -dc FILE | leafpress load DB -",
        ),
    ),
    (b"PGDMP\x01", PG_DUMP),
    (b"$FL2@(#)", SPSS),
    (b"RDX2\nX\n\0", R),
    (b"RDX3\nX\n\0", R),
    (b"X\n\0\0\0", R),
    (b"\x80\x04\x95", PICKLE),
    (b"\x80\x05\x95", PICKLE),
    (b"\0\x01\0\0Standard ", of("a database of Access", "save its table as CSV")),
];

/// Names of the first file in zip archives that are documents of an office program.
const OFFICE_NAMES: [&[u8]; 5] =
    [b"[Content_Types].xml", b"_rels/", b"docProps/", b"xl/", b"mimetypeapplication/vnd."];

/// Least number of bytes by which data of no known format are told from text.
const UNKNOWN_BYTES_MIN: usize = 64;

impl Foreign {
    /// The refusal of an input of this format.
    pub fn refuse(self, file: &str) -> Error {
        // A stream has a name such as <stdin>.
        let name = if file.starts_with('<') { "FILE" } else { file };
        let advice = self.to_do.replace("FILE", name);
        Error::input(file, format!("is {}, which cannot be loaded", self.what)).to_do(advice)
    }
}

/// The format of an input that begins with `first`; `None` for text, and for formats that are read.
pub fn foreign(first: &[u8]) -> Option<Foreign> {
    if first.starts_with(b"PK\x03\x04") {
        let name = first.get(30..).unwrap_or_default();
        let is_office = OFFICE_NAMES.iter().any(|known| name.starts_with(known));
        return Some(if is_office { OFFICE } else { ZIP });
    }
    let is_bzip2 = first.starts_with(b"BZh") && first.get(4..10) == Some(b"1AY&SY");
    if is_bzip2 {
        return Some(of("a bzip2 file", "unpack it: bzip2 -dc FILE | leafpress load DB -"));
    }
    if first.get(8..12) == Some(b"DUCK") && first.contains(&0) {
        return Some(of("a database of DuckDB", "save its table as Parquet, and load that file"));
    }
    let begins = |known: &&(&[u8], Foreign)| first.starts_with(known.0);
    let found = FIRST_BYTES.iter().find(begins).map(|(_, format)| *format);
    found.or_else(|| is_tar(first).then_some(TAR))
}

/// First words of texts that are no rows, in lower case.
const FIRST_WORDS: [(&[u8], Foreign); 20] = [
    (b"<?xml", XML),
    (b"<!doctype html", HTML),
    (b"<!doctype", XML),
    (b"<html", HTML),
    (b"<table>", HTML),
    (b"<table ", HTML),
    (b"pragma foreign_keys=off;", SQL),
    (b"begin;\n", SQL),
    (b"begin;\r\n", SQL),
    (b"begin transaction;", SQL),
    (b"create table ", SQL),
    (b"drop table ", SQL),
    (b"insert into ", SQL),
    (b"-- mysql dump ", SQL),
    (b"-- mariadb dump ", SQL),
    (b"/*m!999999", SQL),
    (b"/*!40", SQL),
    (b"--\n-- postgresql database ", SQL),
    (b"---\n", YAML),
    (b"---\r\n", YAML),
];

/// The format of text that begins with `first` as no rows do.
pub fn foreign_text(first: &[u8]) -> Option<Foreign> {
    let text = first.strip_prefix(b"\xef\xbb\xbf").unwrap_or(first).trim_ascii_start();
    let begins =
        |word: &[u8]| text.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word));
    FIRST_WORDS.iter().find(|(word, _)| begins(word)).map(|(_, format)| *format)
}

/// The refusal of first bytes without a byte order mark that are neither text in UTF-8 nor a known format:
/// many are NUL.
pub fn refuse_unknown(file: &str, first: &[u8]) -> Option<Error> {
    let nuls = memchr::memchr_iter(0, first).count();
    if first.len() < UNKNOWN_BYTES_MIN || nuls * 3 < first.len() {
        return None;
    }
    let reason = format!("is no text in UTF-8: {nuls} of its first {} bytes are NUL", first.len());
    Some(Error::input(file, reason).to_do(
        "if it is text, name what it is in with ⟦encoding⟧, such as utf-16, or utf-8 to load it as it is; \
         else save its rows as CSV, JSON or Parquet",
    ))
}

/// Returns true for the header of a file in an archive of tar, whose sum stands in it.
fn is_tar(first: &[u8]) -> bool {
    const SUM: std::ops::Range<usize> = 148..156;
    let Some(header) = first.get(..FOREIGN_BYTES) else { return false };
    let digits = header[SUM].split(|byte| matches!(byte, 0 | b' ')).find(|it| !it.is_empty());
    let digits = digits.and_then(|it| std::str::from_utf8(it).ok());
    let Some(expected) = digits.and_then(|it| u32::from_str_radix(it, 8).ok()) else {
        return false;
    };
    let sum = header
        .iter()
        .enumerate()
        .map(|(at, byte)| u32::from(if SUM.contains(&at) { b' ' } else { *byte }));
    header.contains(&0) && sum.sum::<u32>() == expected
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The header of a file in an archive of tar.
    fn tar() -> [u8; FOREIGN_BYTES] {
        let mut header = [0; FOREIGN_BYTES];
        header[..5].copy_from_slice(b"a.csv");
        header[100..107].copy_from_slice(b"0000644");
        header[148..156].fill(b' ');
        let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
        header[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
        header
    }

    #[test]
    fn formats_are_named_with_the_command_that_unpacks_them() {
        let mut workbook = vec![0; 30];
        workbook[..4].copy_from_slice(b"PK\x03\x04");
        let archive = [&workbook[..], b"a.csv"].concat();
        workbook.extend_from_slice(b"[Content_Types].xml");
        for (first, name, what, command) in [
            (&tar()[..], "a.tgz", "a tar archive", "tar -xf a.tgz"),
            (&archive, "a.zip", "a zip archive", "unzip -p a.zip"),
            (&workbook, "a.xlsx", "a workbook", "as CSV"),
            (b"\xfd7zXZ\0\0\0", "a.csv.xz", "an xz file", "xz -dc a.csv.xz"),
            (b"BZh91AY&SY", "<stdin>", "a bzip2 file", "bzip2 -dc FILE"),
            (b"7z\xbc\xaf\x27\x1c\0\x04", "a.7z", "a 7z archive", "7z x a.7z"),
            (b"\x89PNG\r\n\x1a\n\0", "a.png", "a PNG image", "holds the rows"),
        ] {
            let error = foreign(first).expect(name).refuse(name).to_string();
            assert!(error.contains(what) && error.contains(command), "{error}");
        }
    }

    #[test]
    fn texts_of_other_programs_are_known_by_their_first_words() {
        for (first, what) in [
            (&b"\xef\xbb\xbf<?xml version=\"1.0\"?>"[..], XML),
            (b"\n<!DOCTYPE html>", HTML),
            (b"<HTML>", HTML),
            (b"PRAGMA foreign_keys=OFF;\nBEGIN", SQL),
            (b"-- MySQL dump 10.13", SQL),
            (b"--\n-- PostgreSQL database dump\n", SQL),
            (b"Insert INTO t VALUES (1);\n", SQL),
            (b"BEGIN;\nCREATE", SQL),
            (b"BEGIN;\r\n", SQL),
            (b"BEGIN TRANSACTION;\n", SQL),
            (b"DROP TABLE IF EXISTS t;\n", SQL),
            (b"CREATE TABLE t(a);\n", SQL),
            (b"<table>\n", HTML),
            (b"<TABLE class=\"a\">\n", HTML),
            (b"---\na: 1\n", YAML),
            (b"---\r\na: 1\r\n", YAML),
        ] {
            assert_eq!(foreign_text(first), Some(what), "{first:?}");
        }
        for text in [
            &b"a,b\n"[..],
            b"<a>,b\n",
            b"--,x\n",
            b"---,b\n",
            b"----\n",
            b"pragma,b\n",
            b"begin,end\n",
            b"begin;end\n1;2\n",
            b"insert,into\n",
            b"create table\n",
            b"<tablet>,b\n",
            b"",
        ] {
            assert_eq!(foreign_text(text), None, "{text:?}");
        }
        assert!(foreign(b"PGDMP\x01\x0f").is_some() && foreign(b"PGDMP,b\n").is_none());
    }

    #[test]
    fn text_is_none_of_them() {
        let long = "a,b\n1,2\n".repeat(100);
        let texts: [&[u8]; 6] =
            [b"", b"PK,id\n1,2\n", b"BZh9,x\n", b"Obj,x\n", b"7z,Rar!\n", long.as_bytes()];
        for text in texts {
            assert_eq!(foreign(text), None, "{text:?}");
            assert!(refuse_unknown("a.csv", text).is_none(), "{text:?}");
        }
        let error = refuse_unknown("a.csv", &[0; UNKNOWN_BYTES_MIN]).expect("no text").to_string();
        assert!(error.contains("CsvOptions::encoding"), "{error}");
    }
}
