"""Inputs of `load`: paths, files, bytes, frames, rows."""

from __future__ import annotations

import collections
import dataclasses
import gzip
import io
import pathlib
import sqlite3
import subprocess
import sys
import threading

import datafusion
import duckdb
import geopandas
import ibis
import leafpress as lp
import numpy
import pandas
import polars
import pyarrow
import pydantic
import pytest
import shapely
import sqlalchemy

async def asynchronous():
    yield {"a": 1}


Point = collections.namedtuple("Point", "x y")


def rows_of(db: pathlib.Path, table: str = "t") -> list[tuple]:
    with sqlite3.connect(db) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        return connection.execute(f'SELECT * FROM "{table}"').fetchall()


def columns_of(db: pathlib.Path, table: str = "t") -> list[str]:
    with sqlite3.connect(db) as connection:
        return [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]


@pytest.fixture
def db(tmp_path):
    return tmp_path / "out" / "app.db"


@pytest.fixture(autouse=True)
def nothing_is_left(tmp_path):
    """No temporary file stays beside the database."""
    (tmp_path / "out").mkdir()
    yield
    left = {path.name for path in (tmp_path / "out").iterdir()}
    assert left <= {"app.db", "app.db-wal", "app.db-shm"}


def test_files_of_several_formats_make_one_table(tmp_path, db, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with gzip.open("a.csv.gz", "wt") as file:
        file.write("id,what\n1,start\nbroken\n02,\n")
    pathlib.Path("logs").mkdir()
    pathlib.Path("logs/b.ndjson").write_text('{"id": 3, "what": null, "new": true}\n{"id": \n')
    polars.DataFrame({"what": ["stop"], "id": [4]}).write_parquet("logs/c.parquet")
    inputs = ["a.csv.gz", "logs/*.ndjson", "logs/c.parquet"]
    with pytest.raises(lp.DataError) as stopped:
        lp.load(db, inputs, table="log")
    assert (stopped.value.file, stopped.value.line) == ("a.csv.gz", 3)
    assert not db.exists()
    report = lp.load(db, inputs, table="log", on_error="skip", rejects="bad.csv")
    assert (report.rows_loaded, report.rows_rejected) == (4, 2)
    assert pathlib.Path("bad.csv").read_text() == 'broken\n{"id": \n'
    assert rows_of(db, "log") == [
        ("1", "start", None),
        ("02", "", None),
        ("3", None, 1),
        ("4", "stop", None),
    ]


def test_files_of_a_pattern_come_in_the_order_of_the_command(tmp_path, db, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for number, folder in enumerate(("a", "a-b"), 1):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "x.csv").write_text(f"n\n{number}\n")
    lp.load(db, "*/x.csv", table="t")
    assert rows_of(db) == [(1,), (2,)]


def test_paths_patterns_and_lists(tmp_path, db, monkeypatch):
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "a.ndjson").write_text('{"n":1}\n')
    (tmp_path / "logs" / "b.ndjson").write_text('{"n":2}\n{"n":3}\n')
    report = lp.load(db, str(tmp_path / "logs" / "*.ndjson"), table="t")
    assert (report.rows_loaded, rows_of(db)) == (3, [(1,), (2,), (3,)])
    monkeypatch.chdir(tmp_path)
    files = [pathlib.Path("logs/b.ndjson"), "logs/a*"]
    assert lp.load(str(db), files).table == "b"
    assert rows_of(db, "b") == [(2,), (3,), (1,)]
    with pytest.raises(lp.ProgrammingError, match="no file fits logs/z"):
        lp.load(db, "logs/z*")
    with pytest.raises(lp.ProgrammingError, match="no path"):
        lp.load(db, ["logs/a.ndjson", 7])


def test_a_table_of_another_database(tmp_path, db):
    other = tmp_path / "other.db"
    with sqlite3.connect(other) as connection:
        connection.execute("CREATE TABLE a (n INTEGER)")
        connection.execute("INSERT INTO a VALUES (5)")
    lp.load(db, f"{other}::a")
    assert rows_of(db, "a") == [(5,)]


def test_files_and_bytes(tmp_path, db):
    text = "n,name\n1,Zoë\n2,\n"
    path = tmp_path / "people.csv.gz"
    path.write_bytes(gzip.compress(text.encode()))
    with path.open("rb") as file:
        assert lp.load(db, file).table == "people"
    expected = [(1, "Zoë"), (2, "")]
    assert rows_of(db, "people") == expected
    for table, source in [
        ("t1", io.StringIO(text)),
        ("t2", io.BytesIO(text.encode())),
        ("t3", text.encode()),
        ("t4", bytearray(text.encode())),
        ("t5", memoryview(text.encode())),
    ]:
        lp.load(db, source, table=table)
        assert rows_of(db, table) == expected
    with pytest.raises(lp.ProgrammingError, match="no name"):
        lp.load(db, text.encode())


def test_a_file_is_read_by_this_thread_and_in_parts(db):
    class Slow(io.BytesIO):
        threads = set()

        def read(self, size=-1):
            self.threads.add(threading.get_ident())
            return super().read(min(size, 1000))

    rows = 20_000
    file = Slow(b"n\n" + b"".join(b"%d\n" % n for n in range(rows)))
    # A key that does not ascend needs a second pass over what can be read only once.
    lp.load(db, file, table="t", pk="n")
    assert Slow.threads == {threading.get_ident()}
    assert rows_of(db) == [(n,) for n in range(rows)]


FRAME = {"id": [3, 1, 2], "name": ["c", None, "b"], "x": [0.5, 1.0, None]}
SORTED = [(1, None, 1.0), (2, "b", None), (3, "c", 0.5)]


@pytest.mark.parametrize(
    "frame",
    [
        polars.DataFrame(FRAME),
        polars.DataFrame(FRAME).lazy(),
        pyarrow.table(FRAME),
        pyarrow.record_batch(FRAME),
        pyarrow.RecordBatchReader.from_batches(
            pyarrow.table(FRAME).schema, pyarrow.table(FRAME).to_batches(max_chunksize=1)
        ),
        pandas.DataFrame(FRAME),
        duckdb.sql("SELECT 3 id, 'c' AS name, 0.5::DOUBLE x UNION ALL SELECT 1, NULL, 1.0"
                   " UNION ALL SELECT 2, 'b', NULL"),
    ],
    ids=["polars", "lazy", "pyarrow", "batch", "reader", "pandas", "duckdb"],
)
def test_frames(db, frame):
    # Sorted by the key: all of the rows are read, and those that can be read once are kept.
    report = lp.load(db, frame, table="t", pk="id", unique="name")
    assert (report.rows_loaded, report.create_sql.count("PRIMARY KEY")) == (3, 1)
    assert rows_of(db) == SORTED


def test_frames_of_datafusion_and_ibis(db):
    context = datafusion.SessionContext()
    frame = context.from_arrow(pyarrow.table(FRAME))
    lp.load(db, frame.filter(datafusion.col("id") < 4), table="d", pk="id")
    lp.load(db, ibis.memtable(polars.DataFrame(FRAME).to_pandas()), table="i", pk="id")
    assert rows_of(db, "d") == rows_of(db, "i") == SORTED


def test_a_frame_of_geopandas(db):
    points = [shapely.Point(1, 2), None]
    frame = geopandas.GeoDataFrame({"a": [1, 2]}, geometry=points, crs=4326)
    frame.index = pandas.Index(["x", "y"], name="k")
    lp.load(db, frame, table="t")
    expected = [("x", 1, shapely.to_wkb(points[0])), ("y", 2, None)]
    assert rows_of(db) == expected
    assert columns_of(db) == ["k", "a", "geometry"]


def test_a_class_of_ones_own_that_is_a_frame(db):
    class Own(pandas.DataFrame):
        pass

    frame = Own(FRAME)
    lp.load(db, frame[frame["id"] > 1], table="t", pk="id")
    assert rows_of(db) == SORTED[1:]


def test_frames_of_many_batches_into_a_table_that_is_there(db):
    schema = pyarrow.schema([("k", pyarrow.int64()), ("v", pyarrow.string())])

    def batches(start):
        for first in range(start, start + 50_000, 5_000):
            ks = list(range(first, first + 5_000))[::-1]
            yield pyarrow.record_batch([ks, [f"v{k}" for k in ks]], schema=schema)

    for start in (0, 25_000):
        reader = pyarrow.RecordBatchReader.from_batches(schema, batches(start))
        options = {"if_exists": "upsert"} if start else {"pk": "k"}
        report = lp.load(db, reader, table="t", **options)
        assert report.rows_read == 50_000
    assert rows_of(db) == [(k, f"v{k}") for k in range(75_000)]


def test_a_frame_that_exports_an_array(db):
    class Exporter:
        def __arrow_c_array__(self, requested_schema=None):
            return pyarrow.record_batch(FRAME).__arrow_c_array__(requested_schema)

    lp.load(db, Exporter(), table="t", pk="id")
    assert rows_of(db) == SORTED


def test_what_exports_no_rows(db):
    for source in (polars.Series([1, 2]), pyarrow.chunked_array([[1, 2]])):
        with pytest.raises(lp.ProgrammingError, match="gives no rows of a table"):
            lp.load(db, source, table="t")
    assert not db.exists()


def test_an_index_of_pandas(db):
    frame = pandas.DataFrame({"x": [1, 2, 3]})
    assert lp.load(db, frame[frame.x > 1], table="unnamed").notes == []
    assert columns_of(db, "unnamed") == ["x"]
    days = frame.set_index(pandas.date_range("2026-01-01", periods=3))
    for report in (lp.load(db, days, table="days"), lp.load(db, days, table="never", dry_run=True)):
        assert ["reset_index()" in note for note in report.notes] == [True]
        assert report.to_dict()["notes"] == report.notes
    assert columns_of(db, "days") == ["x"]
    lp.load(db, frame.set_index(pandas.Index(["a", "b", "c"], name="k")), table="named")
    assert rows_of(db, "named") == [("a", 1), ("b", 2), ("c", 3)]
    levels = pandas.MultiIndex.from_tuples([(1, "u"), (1, "v"), (2, "u")], names=["i", None])
    lp.load(db, frame.set_index(levels), table="levels")
    assert columns_of(db, "levels") == ["i", "x"]


def test_a_frame_of_pandas_with_mixed_objects(db):
    frame = pandas.DataFrame({"a": [1, "x", 2.5, None], 7: [b"z", 1, None, "q"]})
    lp.load(db, frame, table="t")
    assert columns_of(db) == ["a", "7"]
    assert rows_of(db) == [("1", b"z"), ("x", 1), ("2.5", None), (None, "q")]


def test_a_frame_of_pandas_without_pyarrow(db, monkeypatch):
    frame = pandas.DataFrame(FRAME)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    lp.load(db, frame, table="t", pk="id")
    assert rows_of(db) == SORTED


@dataclasses.dataclass
class Person:
    id: int
    name: str | None


class Model(pydantic.BaseModel):
    id: int
    name: str | None = None


class Open(pydantic.BaseModel, extra="allow"):
    id: int


@dataclasses.dataclass
class Single:
    id: int


EXPECTED = [(1, "a"), (2, None)]


@pytest.mark.parametrize(
    ("rows", "columns"),
    [
        ([{"id": 1, "name": "a"}, {"name": None, "id": 2}], None),
        ([{"id": 1, "name": "a"}, {"id": 2}], None),
        ([(1, "a"), [2, None]], ["id", "name"]),
        ([Point(1, "a"), Point(2, None)], ["id", "name"]),
        ([Person(1, "a"), Person(2, None)], None),
        ([Model(id=1, name="a"), Model(id=2)], None),
        ([Open(id=1, name="a"), Open(id=2)], None),
        ([Single(1), {"id": 2}], None),
        ([collections.OrderedDict(id=1, name="a"), collections.ChainMap({"id": 2})], None),
        (numpy.array([(1, "a"), (2, "b")], dtype=[("id", "i4"), ("name", "U1")]), None),
    ],
    ids=["dicts", "missing", "tuples", "namedtuples", "dataclasses", "models", "open", "single",
         "mappings", "numpy"],
)
def test_rows(db, rows, columns):
    for table, source in (("t", rows), ("g", (row for row in rows)), ("i", iter(rows))):
        lp.load(db, source, table=table, columns=columns)
        found = rows_of(db, table)
        if columns_of(db, table) == ["id"]:
            assert found == [(1,), (2,)]
        else:
            assert found in (EXPECTED, [(1, "a"), (2, "b")])


def test_named_tuples_and_rows_of_other_libraries(db):
    lp.load(db, [Point(1, 2), Point(y=4, x=3)], table="points")
    assert (columns_of(db, "points"), rows_of(db, "points")) == (["x", "y"], [(1, 2), (3, 4)])
    with sqlite3.connect(db) as connection:
        connection.row_factory = sqlite3.Row
        lp.load(db, connection.execute("SELECT y, x FROM points"), table="rows")
    assert (columns_of(db, "rows"), rows_of(db, "rows")) == (["y", "x"], [(2, 1), (4, 3)])
    engine = sqlalchemy.create_engine("sqlite://")
    with engine.connect() as connection:
        lp.load(db, connection.execute(sqlalchemy.text("SELECT 1 AS a, 'b' AS b")), table="sa")
    assert (columns_of(db, "sa"), rows_of(db, "sa")) == (["a", "b"], [(1, "b")])


def test_a_cursor_of_a_database_names_its_columns(db):
    # It must be read by the thread that made it.
    cursor = sqlite3.connect(":memory:").execute("SELECT 1 AS a, NULL AS b UNION ALL SELECT 2, 'x'")
    lp.load(db, cursor, table="t")
    assert (columns_of(db), rows_of(db)) == (["a", "b"], [(1, None), (2, "x")])
    with pytest.raises(lp.ProgrammingError, match="has names for its columns"):
        lp.load(db, polars.DataFrame(FRAME), table="u", columns=["a", "b", "c"])


class Resumes:
    """An iterator that begins anew after its end."""

    def __init__(self) -> None:
        self.left = [(1,), None, (2,), None]

    def __iter__(self):
        return self

    def __next__(self):
        row = self.left.pop(0) if self.left else (3,)
        if row is None:
            raise StopIteration
        return row


@pytest.mark.timeout(60)
def test_an_iterator_is_not_asked_after_its_end(db):
    lp.load(db, Resumes(), table="t", columns=["a"])
    assert rows_of(db) == [(1,)]


def test_columns_with_the_same_name(db):
    frame = pandas.DataFrame([[1, 2], [3, 4]], columns=["a", "a"])
    lp.load(db, frame, table="t")
    assert (columns_of(db), rows_of(db)) == (["a", "a_2"], [(1, 2), (3, 4)])
    table = pyarrow.Table.from_arrays([pyarrow.array([1]), pyarrow.array([2])], ["a", "a"])
    report = lp.load(db, table, table="u")
    assert (columns_of(db, "u"), rows_of(db, "u")) == (["a", "a_2"], [(1, 2)])
    assert 'column 2 is named "a" again: it becomes "a_2"' in report.notes


def test_a_stream_without_its_end_mark_is_noted(db):
    sink = pyarrow.BufferOutputStream()
    table = pyarrow.table({"a": [1, 2]})
    with pyarrow.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    stream = sink.getvalue().to_pybytes()
    whole = lp.load(db, io.BytesIO(stream), table="whole")
    cut = lp.load(db, io.BytesIO(stream[:-8]), table="cut")
    assert rows_of(db, "whole") == rows_of(db, "cut") == [(1,), (2,)]
    assert not any("end mark" in note for note in whole.notes)
    assert any("has no end mark, so it may have been cut" in note for note in cut.notes)


def test_keys_that_come_late_are_columns(db):
    # More rows than a batch has, so that the first ones are pressed before the key comes.
    count = 20_000
    rows = ({"n": n} if n < count - 1 else {"late": "x", "n": n} for n in range(count))
    lp.load(db, rows, table="t")
    assert columns_of(db) == ["n", "late"]
    assert rows_of(db)[-2:] == [(count - 2, None), (count - 1, "x")]
    assert len(rows_of(db)) == count


def test_types_that_change_late(db):
    count = 20_000
    lp.load(db, ((n if n < count - 1 else "last",) for n in range(count)), table="t", columns=["n"])
    assert rows_of(db)[-2:] == [(str(count - 2),), ("last",)]


def test_no_rows(db):
    with pytest.raises(lp.DataError, match="no row"):
        lp.load(db, [], table="t")
    with pytest.raises(lp.DataError, match="no keys"):
        lp.load(db, [{}, {}], table="t")
    assert not db.exists()
    lp.load(db, [], table="t", columns=["a", "b"])
    assert (columns_of(db), rows_of(db)) == (["a", "b"], [])
    lp.load(db, polars.DataFrame(schema={"a": polars.Int64}), table="e")
    assert (columns_of(db, "e"), rows_of(db, "e")) == (["a"], [])


def test_columns_that_are_one_to_sqlite(db):
    report = lp.load(db, [{"a": 1, "A": 2, "": 3}], table="t")
    assert columns_of(db) == ["a", "A_2", "column3"]
    assert len(report.notes) == 2


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ({"a": 1}, "a dict is one row"),
        (7, "type builtins.int gives no rows"),
        (asynchronous(), "asynchronous"),
        (pandas.Series([1, 1]).value_counts(), r"to_frame\(\)(.|\n)*reset_index\(\)"),
    ],
    ids=["dict", "int", "async", "series"],
)
def test_what_is_no_input(db, source, says):
    with pytest.raises(lp.ProgrammingError, match=says):
        lp.load(db, source, table="t")
    assert not db.exists()


def test_paths_of_an_iterator_are_no_rows(db, tmp_path):
    (tmp_path / "a.csv").write_text("a\n1\n")
    with pytest.raises(lp.DataError, match="give a list of paths"):
        lp.load(db, tmp_path.glob("*.csv"), table="t")


def test_rows_that_can_also_be_read_asynchronously(db):
    class Rows(list):
        def __aiter__(self):
            raise AssertionError

    lp.load(db, Rows([{"a": 1}]), table="t")
    assert rows_of(db) == [(1,)]


def test_an_array_of_two_dimensions(db):
    lp.load(db, numpy.array([[1, 2], [3, 4]]), table="t", columns=["a", "b"])
    times = numpy.array([["2026-01-01", "NaT"]], dtype="datetime64[ns]")
    lp.load(db, times, table="u", columns=["a", "b"])
    assert (rows_of(db), rows_of(db, "u")) == ([(1, 2), (3, 4)], [("2026-01-01 00:00:00", None)])


@pytest.mark.parametrize("unit", ["s", "ns"])
def test_times_in_structures_of_numpy(db, unit):
    row = (numpy.timedelta64(1, "s"), "2026-01-01", "x", (1, 2.5), [1, 2])
    fields = [("d", f"m8[{unit}]"), ("t", f"M8[{unit}]"), ("s", "U3"), ("n", "i4,f4"), ("l", "i4", 2)]
    lp.load(db, numpy.array([row], dtype=fields), table="t")
    assert rows_of(db) == [(1_000_000, "2026-01-01 00:00:00", "x", "[1,2.5]", "[1,2]")]


def test_nothing_of_the_callers_is_kept(db):
    """A finished load holds no object, closes generators, and frees buffers."""
    import gc
    import weakref

    class Table:
        def __init__(self):
            self.table = pyarrow.table(FRAME)

        def __arrow_c_stream__(self, requested_schema=None):
            return self.table.__arrow_c_stream__(requested_schema)

    class Row(dict):
        pass

    class Tell:
        def __call__(self, progress):
            pass

    class File(io.BytesIO):
        pass

    closed = []

    def generator(rows):
        try:
            yield from rows
        finally:
            closed.append(threading.get_ident())

    allocated = pyarrow.total_allocated_bytes()
    table, row, tell, file = Table(), Row(n=1), Tell(), File(b"n\n1\n")
    lp.load(db, table, table="a", progress=tell)
    lp.load(db, generator([row]), table="b", pk="n", progress=tell)
    lp.load(db, file, table="c", progress=tell)
    with pytest.raises(lp.DataError):
        lp.load(db, generator([row, {"n": object()}]), table="d", progress=tell)
    assert closed == [threading.get_ident()] * 2
    left = [weakref.ref(it) for it in (table, row, tell, file)]
    del table, row, tell, file
    gc.collect()
    assert [ref() for ref in left] == [None] * 4
    assert pyarrow.total_allocated_bytes() <= allocated


def test_code_of_python_behind_arrow_runs_in_the_callers_thread(db):
    """A cursor of sqlite3 refuses other threads."""
    schema = pyarrow.schema({"a": pyarrow.int64()})
    with sqlite3.connect(":memory:") as source:
        cursor = source.execute("SELECT value FROM json_each('[1, 2, 3]')")
        batches = (pyarrow.record_batch([[a]], schema) for (a,) in cursor)
        lp.load(db, pyarrow.RecordBatchReader.from_batches(schema, batches), table="t")
    assert rows_of(db) == [(1,), (2,), (3,)]


@pytest.mark.timeout(60)
def test_ctrl_c_ends_a_load_whose_batches_do_not_come(db):
    program = f"""
import os, signal, sys, threading, time
import leafpress as lp, pyarrow
schema = pyarrow.schema({{"a": pyarrow.int64()}})
def batches():
    threading.Timer(0.3, os.kill, [os.getpid(), signal.SIGINT]).start()
    while True:
        time.sleep(0.01)
    yield
try:
    lp.load({str(db)!r}, pyarrow.RecordBatchReader.from_batches(schema, batches()), table="t")
except (KeyboardInterrupt, lp.Error) as error:
    print("KeyboardInterrupt" in repr(error))
"""
    done = subprocess.run([sys.executable, "-c", program], timeout=30, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("True\n", "")
