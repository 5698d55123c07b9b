//! Encodings of text: those that are recognised, and the names that they go by.

use super::{Found, assert_all};

const ENCODINGS: &[Found] = &[
    Found {
        finding: "UTF-32 is neither UTF-16 nor loaded as garbage",
        run: "printf 'id,n\\n1,a\\n' > t.csv; for e in LE BE; do \
              iconv -f UTF-8 -t UTF-32$e t.csv > $e.csv; done; \
              { printf '\\377\\376\\0\\0'; cat LE.csv; } > mLE.csv; \
              { printf '\\0\\0\\376\\377'; cat BE.csv; } > mBE.csv; \
              for f in LE BE mLE mBE; do leafpress load t.db $f.csv; \
              leafpress load t.db $f.csv --encoding auto; done",
        status: 3,
        says: &[
            "mLE.csv: this is UTF-32LE, which is not read",
            "mBE.csv: this is UTF-32BE",
            "to do: convert it first, such as by iconv -f UTF-32LE -t UTF-8 OLD > NEW",
        ],
        never_says: &["loaded", "UTF-16", "reads like data"],
        leaves_no: &["t.db"],
        ..Found::NONE
    },
    Found {
        finding: "encodings by their names in Python",
        files: &[("l.csv", b"a\nJos\xe9\n"), ("w.csv", b"a\0\n\0b\0\n\0"), ("u.csv", b"a\nb\n")],
        run: "for e in latin-1 latin_1 ascii; do \
              leafpress load t.db l.csv --append --encoding $e || exit; done; \
              for e in utf16 utf-16; do leafpress load t.db w.csv --append --encoding $e || exit; \
              done; leafpress load t.db u.csv --encoding utf_8",
        holds: &[
            ("t.db", "SELECT * FROM l", "'José';'José';'José'"),
            ("t.db", "SELECT * FROM w", "'b';'b'"),
        ],
        ..Found::NONE
    },
    Found {
        finding: "an encoding that is not there, and UTF-32",
        files: &[("t.csv", b"a\n1\n")],
        run: "leafpress load t.db t.csv --encoding cp437; leafpress load t.db t.csv --encoding utf_32",
        status: 2,
        says: &["there is no encoding 'cp437'", "to do: convert it first, such as by iconv"],
        ..Found::NONE
    },
];

#[test]
fn encodings_are_recognised_and_named() {
    assert_all(ENCODINGS);
}
