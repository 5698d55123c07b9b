"""Exceptions: their classes, what they carry, and their way between processes."""

import multiprocessing
import pickle
import sqlite3
from contextlib import closing

import pytest

import leafpress as lp
from leafpress import _errors

CLASSES = [
    thing
    for name in lp.__all__
    if isinstance(thing := getattr(lp, name), type) and issubclass(thing, lp.Error)
]


@pytest.mark.parametrize("class_", [it for it in CLASSES if it is not lp.Error])
def test_each_class_is_one_of_sqlite3_too(class_):
    standard = next(
        it for it in class_.__mro__ if it.__module__ == "sqlite3" and it is not sqlite3.Error
    )
    assert issubclass(class_, lp.Error) and issubclass(class_, sqlite3.Error)
    base = next(it for it in class_.__mro__ if it.__name__ == standard.__name__)
    assert base is getattr(lp, standard.__name__)


STATEMENTS = [
    ("INSERT INTO t(a) VALUES (1)", "SQLITE_CONSTRAINT_PRIMARYKEY"),
    ("INSERT INTO t(a, b) VALUES (2, 1)", "SQLITE_CONSTRAINT_UNIQUE"),
    ("INSERT INTO t(a, b) VALUES (2, NULL)", "SQLITE_CONSTRAINT_NOTNULL"),
    ("INSERT INTO t(a, b) VALUES (2, -1)", "SQLITE_CONSTRAINT_CHECK"),
    ("INSERT INTO t(a, b, c) VALUES (2, 5, 77)", "SQLITE_CONSTRAINT_FOREIGNKEY"),
    ("INSERT INTO t(a, b) VALUES ('x', 5)", "SQLITE_MISMATCH"),
    ("INSERT INTO s VALUES ('x')", "SQLITE_CONSTRAINT_DATATYPE"),
    ("INSERT INTO t(a, b) VALUES (3, 2); SELECT 1", None),
    ("INSERT INTO nowhere VALUES (1)", "SQLITE_ERROR"),
    ("INSRT", "SQLITE_ERROR"),
    ("SELECT zeroblob(2000000000)", "SQLITE_TOOBIG"),
]
SCHEMA = """
CREATE TABLE u(a INTEGER PRIMARY KEY);
CREATE TABLE s(a INTEGER) STRICT;
CREATE TABLE t(
    a INTEGER PRIMARY KEY, b INTEGER NOT NULL DEFAULT 9 UNIQUE CHECK (b >= 0),
    c REFERENCES u(a)
);
INSERT INTO t VALUES (1, 1, NULL);
"""


@pytest.mark.parametrize(("sql", "name"), STATEMENTS)
def test_classes_and_codes_are_those_of_sqlite3(tmp_path, sql, name):
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("PRAGMA foreign_keys = ON")
        connection.executescript(SCHEMA)
        with pytest.raises(sqlite3.Error) as expected:
            connection.execute(sql)
            connection.commit()
    with lp.Writer(tmp_path / "a.db") as writer:
        writer.execute_batch(SCHEMA)
        for call in (writer.execute, lambda sql: writer.submit(sql).result()):
            with pytest.raises(lp.Error) as caught:
                call(sql)
            error = caught.value
            if name:
                assert isinstance(error, type(expected.value))
                assert error.sqlite_errorname == name
                code = getattr(expected.value, "sqlite_errorcode", None)
                assert code is None or error.sqlite_errorcode == code
            assert "nothing of this call" in error.on_disk and error.on_disk in str(error)
        assert writer.query("SELECT count(*) FROM t").fetchone() == (1,)


def test_names_of_codes_are_those_of_sqlite():
    known = {
        name: value
        for name, value in vars(sqlite3).items()
        if name.startswith("SQLITE_") and name not in ("SQLITE_OK", "SQLITE_DENY", "SQLITE_IGNORE")
    }
    names = _errors._NAMES
    assert len(names) > 90
    for code, name in names.items():
        if name in known:
            assert known[name] == code, name
    if hasattr(sqlite3, "SQLITE_IOERR_CORRUPTFS"):  # Python 3.11 has them all
        assert sum(name in known for name in names.values()) > 80
    assert _errors._code_name(19 | 250 << 8) == "SQLITE_CONSTRAINT"


def an_error():
    return _errors.make(
        "it is wrong", "constraint", code=2067, on_disk="nothing", to_do="correct it",
        file="a.csv", line=3, column=7,
    )


def attributes(error):
    names = ("kind", "file", "line", "column", "on_disk", "to_do", "sqlite_errorcode")
    return [getattr(error, name) for name in (*names, "sqlite_errorname")]


def raise_one():
    raise an_error()


def test_an_exception_goes_between_processes():
    expected = [
        "constraint", "a.csv", 3, 7, "nothing", "correct it", 2067, "SQLITE_CONSTRAINT_UNIQUE",
    ]
    for error in (an_error(), pickle.loads(pickle.dumps(an_error()))):
        assert type(error) is lp.IntegrityError and str(error) == "it is wrong"
        assert attributes(error) == expected
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        with pytest.raises(sqlite3.IntegrityError) as caught:
            pool.apply(raise_one)
    assert attributes(caught.value) == expected


def test_a_mistake_with_a_value_keeps_its_cause(tmp_path):
    class Odd:
        def __iter__(self):
            raise KeyError("own")

    with lp.Writer(tmp_path / "a.db") as writer:
        writer.execute_batch("CREATE TABLE t(a)")
        with pytest.raises(KeyError, match="own"):
            writer.insert_many("t", [Odd()], ["a"])
        with pytest.raises(lp.DataError, match="64 bits") as caught:
            writer.execute("INSERT INTO t VALUES (?)", (2**64,))
        assert isinstance(caught.value, sqlite3.DataError) and caught.value.kind == "bad_row"


def test_a_busy_database_says_so(tmp_path):
    path = tmp_path / "a.db"
    with lp.Writer(path, busy_timeout=0.05) as writer:
        writer.execute_batch("CREATE TABLE t(a)")
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            with pytest.raises(sqlite3.OperationalError) as caught:
                writer.execute("INSERT INTO t VALUES (1)")
        assert caught.value.kind == "busy" and caught.value.sqlite_errorname == "SQLITE_BUSY"
        assert caught.value.to_do and caught.value.is_retryable
        with pytest.raises(lp.Error) as caught:
            writer.execute("INSERT INTO missing VALUES (1)")
        assert caught.value.is_retryable is False
        writer.execute("INSERT INTO t VALUES (1)")


def test_a_file_that_is_no_database(tmp_path):
    path = tmp_path / "a.db"
    path.write_text("this is no database, but some text that is long enough for a header" * 20)
    before = path.read_bytes()
    with pytest.raises(sqlite3.DatabaseError) as caught:
        lp.Writer(path)
    assert caught.value.kind == "not_a_database" and path.read_bytes() == before
