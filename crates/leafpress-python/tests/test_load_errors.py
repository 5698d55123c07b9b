"""Errors of `load`: what they say, and that they leave nothing."""

from __future__ import annotations

import math
import os
import signal
import sqlite3
import stat
import struct
import subprocess
import sys
import textwrap
import time

import leafpress as lp
import numpy
import pandas
import polars
import pyarrow
import pytest


@pytest.fixture(autouse=True)
def nothing_is_left(tmp_path):
    """Whatever happens, there is the database or nothing."""
    yield
    left = {path.name for path in tmp_path.iterdir()}
    assert left <= {"app.db", "bad.json", "bad.json.log", "script.py"}


@pytest.fixture
def db(tmp_path):
    return tmp_path / "app.db"


@pytest.fixture
def old(db):
    """A database with a table that must stay as it is."""
    with sqlite3.connect(db) as connection:
        connection.execute("CREATE TABLE t (k INTEGER PRIMARY KEY, v)")
        connection.execute("INSERT INTO t VALUES (1, 'old')")
    before = db.read_bytes()
    yield db
    assert db.read_bytes() == before


def bad(k: object) -> list[object]:
    return [{"n": 1}, {"n": 2}, {"n": k}, {"n": 4}]


class Own:
    pass


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (2**63, "column \"n\": the integer 9223372036854775808 does not fit in the 64 bits"),
        (-(2**63) - 1, "does not fit in the 64 bits"),
        (10**5000, "64 bits"),
        (Own(), "of type Own"),
        (1j, "of type complex"),
        ([Own()], "of type Own"),
        ("\ud800", "surrogates not allowed"),
    ],
    ids=["large", "small", "huge", "object", "complex", "nested", "surrogate"],
)
def test_a_value_that_cannot_be_stored_names_row_and_column(db, value, says):
    with pytest.raises(lp.DataError) as caught:
        lp.load(db, bad(value), table="t")
    error = caught.value
    assert says in str(error)
    assert (error.kind, error.file, error.line) == ("bad_row", "<rows>", 3)
    assert error.on_disk == f"nothing was written to {db}"
    assert 'on_error="skip"' in error.to_do
    assert isinstance(error, sqlite3.DataError)
    assert not db.exists()


def test_a_large_integer_in_a_frame_of_pandas_names_the_row(db):
    frame = pandas.DataFrame({"n": [1, -(2**70), 3]})
    with pytest.raises(lp.DataError, match="does not fit in the 64 bits") as caught:
        lp.load(db, frame, table="t")
    assert (caught.value.file, caught.value.line) == ("<frame>", 2)


def test_bad_rows_are_skipped_and_kept(db, tmp_path):
    rows = [(1, "a"), (2**64, "b"), (3,), (4, "d", "e"), 5, (6, Own()), (7, "g")]
    rejects = tmp_path / "bad.json"
    report = lp.load(db, rows, table="t", columns=["n", "s"], on_error="skip", rejects=rejects)
    assert (report.rows_read, report.rows_loaded, report.rows_rejected) == (7, 2, 5)
    assert sqlite3.connect(db).execute("SELECT * FROM t").fetchall() == [(1, "a"), (7, "g")]
    assert [row.line for row in report.rejects] == [2, 3, 4, 5, 6]
    assert rejects.read_text().splitlines()[:3] == [
        '{"n":18446744073709551616,"s":"b"}',
        '{"n":3}',
        '{"n":4,"s":"d","value 3":"e"}',
    ]
    log = (tmp_path / "bad.json.log").read_text()
    assert "the row has 1 values, and there are 2 columns" in log
    assert "a row of type builtins.int" in log


def test_corrected_rejects_have_the_values_of_their_rows(db, tmp_path):
    kept = {
        "nan": math.nan, "inf": -math.inf, "number": numpy.int64(3), "flag": numpy.bool_(True), "real": 0.1,
        "large": "9" * 300, "bytes": b"\xff", "missing": pandas.NA, "list": list(range(300)), "what": "é\\n",
    }
    rows = [{"id": 1, **kept}, {"id": numpy.uint64(2**64 - 1), **kept}]
    rejects = tmp_path / "bad.json"
    lp.load(db, rows, table="t", on_error="skip", rejects=rejects)
    rejects.write_text(rejects.read_text().replace(str(2**64 - 1), "1"))
    lp.load(db, rejects, table="t", if_exists="append", format="json")
    first, second = sqlite3.connect(db).execute("SELECT * FROM t").fetchall()
    assert first == second and first[1:3] == (None, -math.inf)


def test_too_many_bad_rows(db):
    with pytest.raises(lp.DataError) as caught:
        lp.load(db, [{"n": 1}, *[{"n": 2**70}] * 5], table="t", on_error="skip", max_rejects=3)
    assert caught.value.kind == "too_many_rejects"
    assert not db.exists()


def test_a_bad_row_brings_no_column(db):
    rows = [{"a": 1}, {"a": 2, "b": 2**70}, {"a": 3}]
    report = lp.load(db, rows, table="t", on_error="skip")
    assert [column.name for column in report.columns] == ["a"]


def test_ragged_tuples(db):
    with pytest.raises(lp.DataError, match="the row has 3 values, and there are 2 columns"):
        lp.load(db, [(1, 2), (3, 4, 5)], table="t", columns=["a", "b"])
    with pytest.raises(lp.ProgrammingError, match=r"columns=\[…\]"):
        lp.load(db, [(1, 2)], table="t")
    with pytest.raises(lp.DataError, match='the key "c" is none of the columns'):
        lp.load(db, [{"a": 1, "c": 2}], table="t", columns=["a", "b"])
    with pytest.raises(lp.DataError, match="a key is no text but int"):
        lp.load(db, [{1: 2}], table="t")


def test_a_missing_file(db, tmp_path):
    with pytest.raises(lp.ProgrammingError) as caught:
        lp.load(db, tmp_path / "none.csv")
    assert caught.value.kind == "not_found"
    assert caught.value.on_disk.startswith("nothing was written")


def test_a_table_that_is_there(old):
    with pytest.raises(lp.OperationalError) as caught:
        lp.load(old, [{"k": 2}], table="t")
    assert caught.value.kind == "table_exists"
    assert 'if_exists="append"' in caught.value.to_do


@pytest.mark.parametrize("kind", ["rows", "frame", "batches"])
def test_a_key_that_is_taken(old, kind):
    rows = [{"k": k, "v": "new"} for k in (3, 2, 1)]
    batch = pyarrow.RecordBatch.from_pylist(rows)
    source = {
        "rows": rows,
        "frame": polars.DataFrame(rows),
        "batches": pyarrow.RecordBatchReader.from_batches(batch.schema, [batch]),
    }[kind]
    with pytest.raises(lp.IntegrityError) as caught:
        lp.load(old, source, table="t", if_exists="append")
    error = caught.value
    assert (error.kind, error.line) == ("constraint", 3)
    assert error.sqlite_errorname == "SQLITE_CONSTRAINT_PRIMARYKEY"
    assert isinstance(error, sqlite3.IntegrityError)


@pytest.mark.parametrize("kind", ["rows", "frame", "batches"])
def test_two_rows_with_one_key(db, kind):
    rows = [{"k": 2}, {"k": 1}, {"k": 2}]
    batch = pyarrow.RecordBatch.from_pylist(rows)
    source = {
        "rows": iter(rows),
        "frame": polars.DataFrame(rows),
        "batches": pyarrow.RecordBatchReader.from_batches(batch.schema, [batch]),
    }[kind]
    with pytest.raises(lp.IntegrityError, match="line 1 has its primary key already") as caught:
        lp.load(db, source, table="t", pk="k")
    assert caught.value.line == 3


class OwnError(Exception):
    pass


def noted(error: BaseException) -> str:
    return "\n".join(getattr(error, "__notes__", ["nothing was written"]))


@pytest.mark.parametrize("at", [0, 1, 50_000])
def test_an_iterable_that_raises(db, old, at):
    def rows():
        for n in range(100_000):
            if n == at:
                raise OwnError("the sensor is gone")
            yield {"k": n, "v": None}

    for options in ({"table": "new"}, {"table": "t", "if_exists": "replace"}):
        with pytest.raises(OwnError, match="the sensor is gone") as caught:
            lp.load(db, rows(), **options)
        assert "nothing was written" in noted(caught.value)


def test_a_file_that_raises(db):
    class Broken:
        name = "x.csv"
        reads = 0

        def read(self, size):
            self.reads += 1
            if self.reads > 2:
                raise OwnError("unplugged")
            return b"n\n1\n" if self.reads == 1 else b"2\n"

    with pytest.raises(OwnError, match="unplugged"):
        lp.load(db, Broken())

    class Wrong:
        def read(self, size):
            return 7

    with pytest.raises(lp.ProgrammingError, match="neither bytes nor text but <class 'int'>"):
        lp.load(db, Wrong(), table="t")
    assert not db.exists()


def test_record_batches_that_fail(db):
    schema = pyarrow.schema([("n", pyarrow.int64())])

    def batches():
        yield pyarrow.record_batch([[1]], schema=schema)
        raise OwnError("no more")

    reader = pyarrow.RecordBatchReader.from_batches(schema, batches())
    with pytest.raises(lp.DataError, match="record batch 2 cannot be read.*no more"):
        lp.load(db, reader, table="t")

    class Refuses:
        def __arrow_c_stream__(self, requested_schema=None):
            raise OwnError("not today")

    with pytest.raises(OwnError, match="not today"):
        lp.load(db, Refuses(), table="t")
    assert not db.exists()


def unchecked(kind, buffer, content=b"abc\xff\xfe\xe4"):
    """Three values of Arrow, as a library without checks makes them."""
    buffers = [None, pyarrow.py_buffer(buffer), pyarrow.py_buffer(content)]
    return pyarrow.Array.from_buffers(kind, 3, buffers)


def offsets(*places, form="i"):
    return struct.pack(f"<{len(places)}{form}", *places)


def keys(*places):
    names = pyarrow.array(["a", "b", "c"])
    return pyarrow.DictionaryArray.from_arrays(pyarrow.array(places), names, safe=False)


STRING = pyarrow.string()
NO_TEXT = unchecked(STRING, offsets(0, 2, 4, 6))
IN_LISTS = pyarrow.array([0, 1, 2, 3], pyarrow.int32())
VIEW = b"".join(struct.pack("<i12s", 2, text) for text in (b"ab", b"\xff\xfe", b"ef"))
NO_ARRAYS = {
    "a text": NO_TEXT,
    "a large text": unchecked(pyarrow.large_string(), offsets(0, 2, 4, 6, form="q")),
    "a view": pyarrow.Array.from_buffers(pyarrow.string_view(), 3, [None, pyarrow.py_buffer(VIEW)]),
    "a text of a dictionary": pyarrow.DictionaryArray.from_arrays(pyarrow.array([0, 1, 2]), NO_TEXT),
    "a text of lists": pyarrow.ListArray.from_arrays(IN_LISTS, NO_TEXT),
    "a text of structs": pyarrow.StructArray.from_arrays([NO_TEXT], ["in"]),
    "texts that share a character": unchecked(STRING, offsets(0, 1, 2, 4), "äbc".encode()),
    "views that share a character": unchecked(
        pyarrow.string_view(),
        struct.pack("<i4siii4siii12s", 14, b"xxxx", 0, 0, 14, b"\xa4yyy", 0, 14, 1, b"z"),
        f"{'x' * 13}ä{'y' * 13}".encode(),
    ),
    "a key beyond its dictionary": keys(0, 7, 2),
    "a negative key": keys(0, -7, 2),
    "offsets that go back": unchecked(STRING, offsets(0, 4, 2, 6), b"abcdef"),
    "a negative offset": unchecked(STRING, offsets(0, -4, 2, 6), b"abcdef"),
    "lists that go back": pyarrow.ListArray.from_arrays(
        pyarrow.array([0, 2, 1, 3], pyarrow.int32()), pyarrow.array([1, 2, 3])
    ),
    "a view of no buffer": unchecked(pyarrow.string_view(), offsets(20, 0, 5, 100) * 3),
}


@pytest.mark.parametrize("what", NO_ARRAYS)
def test_an_array_that_is_none(db, what):
    refuses(db, pyarrow.RecordBatch.from_arrays([IN_LISTS[:3], NO_ARRAYS[what]], ["k", "v"]))


def test_a_negative_last_offset(db):
    places = bytearray(offsets(0, 2, 4, 6))
    array = unchecked(STRING, places, b"abcdef")
    batch = pyarrow.RecordBatch.from_arrays([IN_LISTS[:3], array], ["k", "v"])
    # pyarrow looks at the last one when it makes an array.
    struct.pack_into("<i", places, 12, -6)
    refuses(db, batch, 'column "v": the last offset of texts is -6')


def refuses(db, batch, reason='column "v"'):
    class Exporter:
        def __arrow_c_array__(self, requested_schema=None):
            return batch.__arrow_c_array__(requested_schema)

    for frame in (batch, Exporter(), pyarrow.RecordBatchReader.from_batches(batch.schema, [batch])):
        with pytest.raises(lp.DataError, match=f"record batch 1 cannot be read.*{reason}") as caught:
            lp.load(db, frame, table="t")
        assert "nothing was written" in caught.value.on_disk
        assert not db.exists()
    with lp.Writer(db) as writer:
        writer.execute("CREATE TABLE t (k, v)")
        with pytest.raises(lp.DataError, match=reason):
            writer.insert_many("t", batch)
        assert writer.query("SELECT count(*) FROM t").fetchone() == (0,)


def test_only_the_rows_of_a_batch_are_looked_at(db):
    texts = unchecked(STRING, offsets(0, 1, 3, 6))
    lists = pyarrow.ListArray.from_arrays(IN_LISTS, texts)
    batch = pyarrow.RecordBatch.from_arrays([texts, lists], ["text", "list"])
    lp.load(db, batch.slice(0, 1), table="t")
    with sqlite3.connect(db) as connection:
        assert connection.execute("SELECT * FROM t").fetchall() == [("a", '["a"]')]


def test_what_is_in_the_place_of_a_null_is_not_looked_at(db):
    views = struct.pack("<i12siiii16x", 2, b"ab", 20, 0, 5, 100)
    buffers = [pyarrow.py_buffer(given) for given in (b"\5", views)]
    array = pyarrow.Array.from_buffers(pyarrow.string_view(), 3, buffers)
    lp.load(db, pyarrow.RecordBatch.from_arrays([array], ["v"]), table="t")
    with sqlite3.connect(db) as connection:
        assert connection.execute("SELECT * FROM t").fetchall() == [("ab",), (None,), ("",)]


def test_capsules_that_hold_no_table(db):
    batch = pyarrow.record_batch({"n": [1, 2], "text": ["x", "y"]})
    other = pyarrow.record_batch({"q": [1.5, 2.5]})
    schema, array = batch.__arrow_c_array__()

    class Exporter:
        def __init__(self, given):
            self.given = given

        def __arrow_c_array__(self, requested_schema=None):
            return self.given

    twice = Exporter((schema, array))
    lp.load(db, twice, table="t")
    for exporter, reason in [
        (twice, "the array was taken before"),
        (Exporter(batch.__arrow_c_array__()[::-1]), "incorrect name"),
        (Exporter((other.__arrow_c_array__()[0], batch.__arrow_c_array__()[1])), "2 columns, and"),
        (Exporter(pyarrow.array([1]).__arrow_c_array__()), "a column of type Int64"),
        (Exporter(1), "tuple"),
        (Exporter((1, 2)), "PyCapsule"),
    ]:
        with pytest.raises(lp.ProgrammingError, match=f"gives no rows of a table: .*{reason}"):
            lp.load(db, exporter, table="t", if_exists="append")


def test_a_callback_that_raises(db):
    def tell(progress):
        raise OwnError(progress.stage)

    with pytest.raises(OwnError):
        lp.load(db, ({"n": n} for n in range(10**9)), table="t", progress=tell)
    assert not db.exists()


def test_progress(db):
    seen = []
    lp.load(db, ({"n": n} for n in range(100_000)), table="t", progress=seen.append)
    assert seen[-1].rows == 100_000
    assert {progress.stage for progress in seen} <= {"", "detecting types", "pressing", "syncing"}
    assert all(isinstance(progress, lp.Progress) for progress in seen)


def test_each_stage_counts_its_own_rows(db):
    lp.load(db, [{"n": 1}], table="other")
    for rows in (
        [{"n": n, "text": "a text"} for n in range(100_000)],
        polars.DataFrame({"n": range(100_000), "text": ["a text"] * 100_000}),
    ):
        for if_exists, stage in [("fail", "moving in"), ("append", "inserting")]:
            seen = []
            lp.load(db, rows, table="t", if_exists=if_exists, progress=seen.append)
            assert (seen[-1].stage, seen[-1].rows) == (stage, 100_000)
            assert max(progress.rows for progress in seen) == 100_000
        with sqlite3.connect(db) as connection:
            connection.execute("DROP TABLE t")


def test_a_slow_callback_gets_the_newest_progress_only(db):
    seen = []

    def tell(progress):
        seen.append(progress.rows)
        time.sleep(0.5)

    began = time.monotonic()
    source = polars.DataFrame({"n": range(1_000_000), "text": ["a text"] * 1_000_000})
    lp.load(db, source, table="t", index=["text, n"], progress=tell)
    assert seen[-1] == 1_000_000
    # Each of these calls took half a second: none waits for its turn after the load.
    assert len(seen) <= (time.monotonic() - began) / 0.5 + 1


def test_a_bar(db, capfd, monkeypatch):
    lp.load(db, [{"n": 1}], table="t", progress=True)
    assert "1 rows" in capfd.readouterr().err
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    lp.load(db, [{"n": 1}], table="u", progress=True)
    assert "1 rows" in capfd.readouterr().err


SCRIPT = """
import sys, threading, time
import leafpress as lp

db, kind = sys.argv[1:]

def rows():
    for n in range(10**9):
        if n == 200_000:
            print("ready", flush=True)
        yield (n, f"text {n}")

class Endless:
    sent = 0
    def read(self, size):
        self.sent += 1
        if self.sent == 20:
            print("ready", flush=True)
        return b"1,a\\n" * 100_000

def pressing():
    import pyarrow
    schema = pyarrow.schema([("a", pyarrow.int64()), ("b", pyarrow.string())])
    batch = pyarrow.record_batch([[7] * 50_000, ["text"] * 50_000], schema=schema)
    table = pyarrow.Table.from_batches([batch] * 2_000)
    threading.Timer(0.5, lambda: print("ready", flush=True)).start()
    return table

try:
    if kind == "rows":
        lp.load(db, rows(), table="new", columns=["a", "b"], index="b")
    elif kind == "file":
        lp.load(db, Endless(), table="new", header=False)
    else:
        lp.load(db, pressing(), table="new")
except KeyboardInterrupt as stopped:
    print("stopped", getattr(stopped, "__notes__", ["nothing was written"]), flush=True)
    sys.exit(0)
sys.exit(1)
"""


@pytest.mark.parametrize("kind", ["rows", "file", "pressing"])
def test_ctrl_c_stops_and_leaves_nothing(old, tmp_path, kind):
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(SCRIPT))
    child = subprocess.Popen(
        [sys.executable, str(script), str(old), kind], stdout=subprocess.PIPE, text=True
    )
    assert child.stdout.readline() == "ready\n"
    began = time.monotonic()
    child.send_signal(signal.SIGINT)
    said, _ = child.communicate(timeout=60)
    assert child.returncode == 0
    assert "stopped" in said and "nothing was written" in said
    assert time.monotonic() - began < 10


def test_temporary_files_have_the_rights_of_the_database(db):
    """Only the owner can read the files that lie in the folder while rows are loaded."""
    with sqlite3.connect(db) as connection:
        connection.execute("CREATE TABLE t (n)")
    db.chmod(0o600)
    seen = {}

    def rows():
        for n in range(50_000):
            if n % 10_000 == 0:
                for path in db.parent.iterdir():
                    if path != db:
                        seen[path.name] = stat.S_IMODE(path.stat().st_mode)
            yield {"n": n}

    mask = os.umask(0)
    try:
        lp.load(db, rows(), table="t", if_exists="append")
        lp.load(db, rows(), table="u", pk="n")
    finally:
        os.umask(mask)
    assert seen and all(mode & 0o077 == 0 for mode in seen.values()), seen


@pytest.mark.parametrize(
    ("row", "error"),
    [
        ({"id": 2, "name": None}, lp.DataError),
        ({"id": "x", "name": "a"}, lp.DataError),
        ({"id": 1, "name": "a"}, lp.IntegrityError),
        ({"id": 2, "name": "long"}, lp.IntegrityError),
    ],
)
def test_the_class_of_a_row_that_breaks_a_rule_of_the_table(db, row, error):
    with lp.Writer(db) as writer:
        check = "CHECK (length(name) < 3)"
        writer.execute_batch(f"CREATE TABLE t(id INTEGER PRIMARY KEY, name TEXT NOT NULL {check})")
        writer.execute("INSERT INTO t VALUES (1, 'a')")
    with pytest.raises(error) as caught:
        lp.load(db, [row], table="t", if_exists="append")
    assert type(caught.value) is error and caught.value.line == 1


@pytest.mark.parametrize("rows", [[Own()], (Own(), {"k": 2})], ids=["a list", "a tuple"])
def test_what_is_no_row_is_named_also_where_the_table_needs_columns(db, rows):
    with sqlite3.connect(db) as connection:
        connection.execute("CREATE TABLE t (k INTEGER PRIMARY KEY, v TEXT NOT NULL)")
    with pytest.raises(lp.DataError, match="a row of type .*Own: rows are dicts") as caught:
        lp.load(db, rows, table="t", if_exists="append")
    error = caught.value
    assert (error.kind, error.file, error.line) == ("bad_row", "<rows>", 1)
    assert error.on_disk and "nothing was written" in error.on_disk and error.to_do in str(error)
    # A row that lacks a column is another matter.
    with pytest.raises(lp.ProgrammingError, match="NOT NULL and missing in the input: v"):
        lp.load(db, [{"k": 1}], table="t", if_exists="append")


def test_a_series_is_no_table(db):
    for series in (polars.Series("a", [1]), pandas.Series([1])):
        with pytest.raises(lp.ProgrammingError, match="a Series is one column"):
            lp.load(db, series, table="t")


def test_a_frame_of_an_old_polars_comes_through_pyarrow(db, monkeypatch):
    """Before polars 1.3 a frame exported nothing by itself."""
    frame = polars.DataFrame({"a": [1, 2]})
    monkeypatch.delattr(polars.DataFrame, "__arrow_c_stream__")
    assert lp.load(db, frame, table="t").rows_loaded == 2

    def refuse(_):
        raise ModuleNotFoundError("No module named 'pyarrow'")

    monkeypatch.setattr(polars.DataFrame, "to_arrow", refuse)
    with pytest.raises(lp.ProgrammingError, match="without pyarrow") as caught:
        lp.load(db, frame, table="t2")
    assert "polars 1.3" in caught.value.to_do
