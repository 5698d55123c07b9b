"""Options of `load`: each keyword does what the flag of the command of that name does."""

from __future__ import annotations

import inspect
import json
import pathlib
import sqlite3

import leafpress as lp
import pandas
import polars
import pytest

ROWS = [{"id": 2, "name": "b", "at": "2026-01-01T00:00:00Z"}, {"id": 1, "name": "A", "at": None}]
CSV = "id;name\n1;'x'\n2;NA\n\n"


@pytest.fixture
def db(tmp_path):
    return tmp_path / "app.db"


def ask(db, sql: str) -> list[tuple]:
    with sqlite3.connect(db) as connection:
        return connection.execute(sql).fetchall()


def schema(db) -> str:
    return "\n".join(sql for (sql,) in ask(db, "SELECT sql FROM sqlite_schema WHERE sql NOT NULL"))


def test_keys_and_indexes(db):
    lp.load(db, ROWS, table="t", pk="id", index=["name NOCASE, at DESC"], unique="at")
    made = schema(db)
    assert '"id" INTEGER PRIMARY KEY' in made
    assert "NOCASE" in made and "DESC" in made and "CREATE UNIQUE INDEX" in made
    assert ask(db, "SELECT id FROM t") == [(1,), (2,)]
    lp.load(db, ROWS, table="w", pk=["name", "id"], without_rowid=True, strict=True, analyze=True)
    assert "WITHOUT ROWID" in schema(db) and "STRICT" in schema(db)
    assert ask(db, "SELECT count(*) FROM sqlite_stat1 WHERE tbl = 'w'") == [(1,)]


def test_options_of_csv_are_refused_for_other_files(db, tmp_path):
    rows = tmp_path / "rows.ndjson"
    rows.write_text('{"a": "NA"}\n')
    for option in ({"null": "NA"}, {"delimiter": ";"}, {"columns": ["b"]}, {"trim": True}):
        with pytest.raises(lp.ProgrammingError, match=r"is for CSV, and .*rows\.ndjson seems to be none"):
            lp.load(db, rows, **option)
    with open(rows, "rb") as stream, pytest.raises(lp.ProgrammingError, match="null is for CSV"):
        lp.load(db, stream, null="NA")
    with pytest.raises(lp.ProgrammingError, match='trim is for CSV, and format says "json"'):
        lp.load(db, b'{"a": 1}', table="t", format="json", trim=True)
    assert not db.exists()
    lp.load(db, rows, table="t", encoding="utf-8", max_row_bytes="1M")
    lp.load(db, rows, table="csv", format="csv", header=False, null="NA")


def test_columns(db):
    lp.load(db, ROWS, table="t", select=["name", "key"], rename={"id": "key"})
    assert ask(db, "SELECT * FROM t") == [("b", 2), ("A", 1)]
    lp.load(db, ROWS, table="d", drop="at", not_null="name")
    refuses = ask(db, "SELECT name, \"notnull\" FROM pragma_table_info('d')")
    assert refuses == [("id", 0), ("name", 1)]
    with pytest.raises(lp.DataError, match='"at"'):
        lp.load(db, ROWS, table="n", not_null=["at"])
    with pytest.raises(lp.ProgrammingError, match="nothing"):
        lp.load(db, ROWS, table="n", select="nothing")


@pytest.mark.parametrize(
    ("word", "stored"),
    [
        ("unixepoch", 1767225600),
        ("unixepoch_ms", 1767225600000),
        ("date", "2026-01-01"),
        ("datetime", "2026-01-01 00:00:00"),
        ("text", "2026-01-01T00:00:00Z"),
        (str, "2026-01-01T00:00:00Z"),
    ],
)
def test_types(db, word, stored):
    lp.load(db, ROWS, table="t", types={"at": word})
    assert ask(db, "SELECT at FROM t") == [(stored,), (None,)]


def test_one_name_as_a_text_and_none(db):
    lp.load(db, [(1,)], table="t", columns="id", pk="id", index=None, unique=None, select=None, null=None)
    assert ask(db, "SELECT id FROM t") == [(1,)]
    lp.load(db, [(1,)], table="u", columns=["id"], pk=pandas.Index(["id"]), drop=None, not_null=None)
    for word in (None, 5):
        with pytest.raises(lp.ProgrammingError, match=f"{word} is no type of a column"):
            lp.load(db, ROWS, table="v", types={"id": word})


def test_types_of_python(db):
    row = {"i": "5", "r": 1, "b": b"x", "t": 7, "y": "yes", "f": True}
    types = {"i": int, "r": float, "b": bytes, "t": str, "y": bool, "f": "boolean"}
    report = lp.load(db, [row], table="t", types=types)
    assert [column.declared_type for column in report.columns] == [
        "INTEGER", "REAL", "BLOB", "TEXT", "INTEGER", "INTEGER",
    ]
    assert ask(db, "SELECT * FROM t") == [(5, 1.0, b"x", "7", 1, 1)]
    with pytest.raises(lp.ProgrammingError, match="complex is no type"):
        lp.load(db, [row], table="u", types={"i": complex})
    with pytest.raises(lp.ProgrammingError, match="types.*\"money\" is unknown"):
        lp.load(db, [row], table="u", types={"i": "money"})


def test_all_text_and_a_declaration(db):
    lp.load(db, ROWS, table="t", all_text=True)
    assert ask(db, "SELECT id FROM t") == [("2",), ("1",)]
    sql = "CREATE TABLE made (id INTEGER PRIMARY KEY, name TEXT, at, more DEFAULT 9)"
    assert lp.load(db, ROWS, create=sql).table == "made"
    assert ask(db, "SELECT id, more FROM made") == [(1, 9), (2, 9)]
    with pytest.raises(lp.ProgrammingError, match="create declares the table: say pk"):
        lp.load(db, ROWS, create=sql, pk="id")


def test_uuid7(db):
    lp.load(db, ROWS, table="t", uuid7="key")
    lp.load(db, ROWS, table="u", uuid7={"key": "text"})
    assert ask(db, "SELECT DISTINCT typeof(key), length(key) FROM t") == [("blob", 16)]
    assert ask(db, "SELECT DISTINCT typeof(key), length(key) FROM u") == [("text", 36)]
    with pytest.raises(lp.ProgrammingError, match="blob or text"):
        lp.load(db, ROWS, table="v", uuid7={"key": "hex"})


@pytest.mark.parametrize(
    ("if_exists", "expected"),
    [
        ("replace", [(1, "new"), (3, "new")]),
        ("ignore", [(1, "old"), (2, "old"), (3, "new")]),
        ("upsert", [(1, "new"), (2, "old"), (3, "new")]),
    ],
)
@pytest.mark.parametrize("make", [list, polars.DataFrame], ids=["rows", "frame"])
def test_a_table_that_is_there(db, if_exists, expected, make):
    lp.load(db, [{"k": 1, "v": "old"}, {"k": 2, "v": "old"}], table="t", pk="k")
    new = make([{"k": 3, "v": "new"}, {"k": 1, "v": "new"}])
    report = lp.load(db, new, table="t", if_exists=if_exists)
    assert ask(db, "SELECT * FROM t") == expected
    assert report.rows_read == 2
    lp.load(db, new, table="made", if_exists="append")
    assert ask(db, "SELECT count(*) FROM made") == [(2,)]


@pytest.mark.parametrize("if_exists", ["append", "replace", "ignore", "upsert"])
def test_a_call_can_be_repeated(db, if_exists):
    """The first one makes the table, with the rules that the later ones name again."""
    how = {"table": "t", "pk": "k", "index": ["v NOCASE"], "not_null": ["v"], "if_exists": if_exists}
    lp.load(db, [{"k": 1, "v": "a"}], **how)
    [(made,)] = ask(db, "SELECT sql FROM sqlite_schema WHERE name = 't'")
    lp.load(db, [{"k": 2, "v": "b"}], **how)
    assert ask(db, "SELECT sql FROM sqlite_schema WHERE name = 't'") == [(made,)]
    expected = [(2, "b")] if if_exists == "replace" else [(1, "a"), (2, "b")]
    assert ask(db, "SELECT * FROM t") == expected
    for other in ({"pk": "v"}, {"index": ["v"]}, {"unique": ["v"]}, {"not_null": ["v"], "strict": True}):
        with pytest.raises(lp.ProgrammingError, match="with its own declaration"):
            lp.load(db, [{"k": 3, "v": "c"}], table="t", if_exists=if_exists, **other)
    with pytest.raises(lp.ProgrammingError, match="there is no column"):
        lp.load(db, [{"k": 3, "v": "c"}], table="t", if_exists=if_exists, pk="x")
    assert ask(db, "SELECT * FROM t") == expected


@pytest.mark.parametrize("key", ["k", ["k", "v"]])
def test_a_repeated_call_with_a_key_of_texts(db, key):
    for _ in range(2):
        rows = [{"k": "a", "v": "b", "n": 1}, {"k": "a", "v": "b", "n": 2}]
        lp.load(db, rows, table="t", pk=key, if_exists="upsert")
        assert ask(db, "SELECT * FROM t") == [("a", "b", 2)]
        lp.load(db, rows, table="i", pk=key, without_rowid=True, if_exists="ignore")
        assert ask(db, "SELECT n FROM i") == [(1,)]


def test_a_missing_table_of_an_upsert_needs_its_key(db):
    for how in ({}, {"pk": "k", "unique": ["v"]}):
        with pytest.raises(lp.ProgrammingError, match="no table 't'|no database"):
            lp.load(db, [{"k": 1, "v": 2}], table="t", if_exists="upsert", **how)
    assert not db.exists()


def test_rows_that_share_a_key(db):
    rows = [{"k": 1, "v": "a"}, {"k": 1, "v": "b"}]
    assert lp.load(db, rows, table="i", pk="k", on_conflict="ignore").rows_ignored == 1
    lp.load(db, rows, table="r", pk="k", on_conflict="replace")
    assert ask(db, "SELECT v FROM i UNION ALL SELECT v FROM r") == [("a",), ("b",)]
    report = lp.load(db, rows, table="s", pk="k", on_error="skip")
    assert (report.rows_loaded, report.rows_rejected, report.rejects[0].line) == (1, 1, 2)


def test_csv(db):
    lp.load(
        db, CSV.encode(), table="t", delimiter=";", quote="'", null="NA", columns=["a", "b"],
        types={"a": "text"}, encoding="latin1", threads=1, memory="64M", max_row_bytes="1K",
    )
    assert ask(db, "SELECT * FROM t") == [("1", "x"), ("2", None)]
    lp.load(db, CSV.encode(), table="u", delimiter=";", quote=None, header=False)
    assert ask(db, "SELECT * FROM u") == [("id", "name"), ("1", "'x'"), ("2", "NA")]
    text = "# c\nn,m\n1.50,x , y\n#2\n3\n2.5,z\n"
    lp.load(db, text.encode(), table="v", comment="#", ragged="truncate", skip_lines=1, trim=True,
            on_error="skip", exact=True)
    assert ask(db, "SELECT * FROM v") == [("1.50", "x"), ("2.5", "z")]
    lp.load(db, b"a\tb\n1\t\\N\n", table="w", format="tsv", null=["\\N"])
    assert ask(db, "SELECT * FROM w") == [(1, None)]
    lp.load(db, b"1\t\\N\n", table="p", format="pgtext", columns=["a", "b"])
    assert ask(db, "SELECT * FROM p") == [(1, None)]


def test_page_size_and_folder(db, tmp_path):
    lp.load(db, ROWS, table="t", page_size=512, tmpdir=tmp_path, busy_timeout=0.5)
    assert ask(db, "PRAGMA page_size") == [(512,)]
    with pytest.raises(lp.Error, match="none"):
        lp.load(db, ROWS, table="u", tmpdir=tmp_path / "none")


def test_layout_and_preset(db, tmp_path):
    lp.load(db, ROWS, table="t", layout="remote")
    assert ask(db, "PRAGMA page_size") == [(8192,)]
    turso = tmp_path / "turso.db"
    lp.load(turso, ROWS, table="t", preset="turso")
    assert ask(turso, "PRAGMA journal_mode") == [("wal",)]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"layout": "near"}, "local or remote"),
        ({"preset": "windows"}, "choose one of turso"),
        ({"preset": "turso", "page_size": 512}, "4096"),
        ({"if_exists": "append!"}, "if_exists=\"append!\" is unknown: it is fail, append"),
        ({"on_conflict": "fail"}, "abort, ignore or replace"),
        ({"on_error": "ignore"}, "stop or skip"),
        ({"rejects": "x"}, 'on_error="skip"'),
        ({"max_rejects": 3}, 'on_error="skip"'),
        ({"if_exists": "upsert", "on_conflict": "ignore"}, "leave out on_conflict"),
        ({"delimiter": ";"}, "delimiter is for files"),
        ({"null": ["NA"]}, "null is for files"),
        ({"busy_timeout": -1}, "no number of seconds"),
        ({"memory": "much"}, "no size"),
        ({"uuid7": {"a": "text", "b": "text"}}, "one column"),
        ({"page_size": 1000}, "page"),
    ],
    ids=lambda part: str(part)[:30],
)
def test_options_that_make_no_sense(db, options, says):
    with pytest.raises(lp.ProgrammingError, match=says):
        lp.load(db, ROWS, table="t", **options)
    assert not db.exists()


@pytest.mark.parametrize("byte", ["ab", "", "é"])
def test_bytes_of_csv(db, byte):
    with pytest.raises(lp.ProgrammingError, match="not one ASCII character"):
        lp.load(db, b"a\n1\n", table="t", comment=byte)
    assert not db.exists()


def test_wrong_types_of_options(db):
    with pytest.raises(lp.ProgrammingError, match="^table is a str or None, not 7"):
        lp.load(db, ROWS, table=7)
    with pytest.raises(TypeError):
        lp.load(db, ROWS, table="t", unknown=1)
    assert not db.exists()


@pytest.mark.parametrize("name", [":memory:", "file:a.db"])
def test_a_database_is_a_path(name):
    with pytest.raises(lp.ProgrammingError, match="named by its path"):
        lp.load(name, ROWS, table="t")


def test_a_dry_run(db):
    for source in (ROWS, iter(ROWS), polars.DataFrame(ROWS), json.dumps(ROWS).encode()):
        dry = lp.load(db, source, table="t", pk="id", unique="name", dry_run=True)
        assert isinstance(dry, lp.DryRun)
        assert (dry.rows_read, dry.would_reject) == (2, 0)
        assert '"id" INTEGER PRIMARY KEY' in dry.create_sql
    assert list(db.parent.iterdir()) == []
    dry = lp.load(db, [{"id": 1}, {"id": 1}], table="t", pk="id", dry_run=True)
    assert (dry.would_reject, dry.rejects[0].line) == (1, 2)


def test_every_option_of_the_library_has_a_keyword():
    """Advice names keywords that `load` has."""
    import re

    keywords = set(inspect.signature(lp.load).parameters)
    root = pathlib.Path(__file__).parents[3]
    text = (root / "crates/leafpress-cli/src/flags/load.rs").read_text()
    flags = re.findall(r"#\[arg\((long[^\]]*)\)\]\s*pub (\w+):", text)
    here = {"schema": "create", "tsv": "format", "no_header": "header", "no_progress": "progress",
            "append": "if_exists", "replace": "if_exists", "ignore": "if_exists",
            "upsert": "if_exists", "quiet": "progress", "json": "progress"}
    assert len(flags) > 35
    for _, name in flags:
        assert here.get(name, name) in keywords, name


def test_the_keywords_have_types_for_functions_that_pass_them_on():
    parameters = inspect.signature(lp.load).parameters.values()
    keywords = {it.name: it.annotation for it in parameters if it.kind is it.KEYWORD_ONLY}
    del keywords["dry_run"]
    typed = lp.LoadOptions.__annotations__.items()
    assert {name: it.__forward_arg__ for name, it in typed} == keywords


@pytest.mark.parametrize("options", [{"page_size": "x"}, {"threads": "x"}, {"strict": 7}, {"table": 5}])
def test_a_wrong_type_names_the_option(db, options):
    [name] = options
    with pytest.raises(lp.ProgrammingError, match=f"^{name} is "):
        lp.load(db, ROWS, **{"table": "t", **options})
    assert not db.exists()


@pytest.mark.parametrize("option", ["memory", "threads", "max_rejects", "page_size", "max_row_bytes", "skip_lines"])
def test_negative_numbers_are_refused(db, tmp_path, option):
    (tmp_path / "a.csv").write_text("a\n1\n")
    with pytest.raises(lp.ProgrammingError, match=option):
        lp.load(db, tmp_path / "a.csv", on_error="skip", **{option: -1})
    assert not db.exists()


def test_a_choice_among_rows_that_share_a_key_needs_a_key(db):
    rows = [{"a": 1}, {"a": 1}]
    for on_conflict in ("ignore", "replace"):
        with pytest.raises(lp.ProgrammingError, match="no key.*\n(.*\n)*.*pk"):
            lp.load(db, rows, table="t", on_conflict=on_conflict)
        with pytest.raises(lp.ProgrammingError, match="no key"):
            lp.load(db, rows, table="t", on_conflict=on_conflict, if_exists="append")
    assert not db.exists()
    lp.load(db, rows, table="t")
    with pytest.raises(lp.ProgrammingError, match="no key"):
        lp.load(db, rows, table="t", on_conflict="ignore", if_exists="append")
    assert ask(db, "SELECT count(*) FROM t") == [(2,)]
    # Keys of each kind.
    lp.load(db, rows, table="p", pk="a", on_conflict="ignore")
    lp.load(db, rows, table="u", unique="a", on_conflict="ignore")
    lp.load(db, rows, table="c", create="CREATE TABLE c(a UNIQUE)", on_conflict="ignore")
    for table in "puc":
        lp.load(db, rows, table=table, on_conflict="ignore", if_exists="append")
        assert ask(db, f"SELECT a FROM {table}") == [(1,)]
