"""Every type of Arrow and of polars: a frame holds the values that `sqlite3` inserts.

Each example has the objects of a column and the values that are stored. The stored values are also
inserted by `sqlite3` into a table with the same declaration, so that its affinities are judged too.
"""

from __future__ import annotations

import datetime
import decimal
import math
import sqlite3
import uuid

import leafpress as lp
import polars
import pyarrow as pa
import pytest

UTC = datetime.timezone.utc
DAY = datetime.date(2026, 11, 21)
AT = datetime.datetime(2026, 11, 21, 5, 30, 0, 250_000)
BEFORE = datetime.datetime(1969, 12, 31, 23, 59, 59, 999_999)
D = decimal.Decimal

# Type, objects, stored values.
NUMBERS = [
    (pa.bool_(), [True, False, None], [1, 0, None]),
    (pa.int8(), [-128, 127], [-128, 127]),
    (pa.int16(), [-(2**15), 2**15 - 1], [-(2**15), 2**15 - 1]),
    (pa.int32(), [-(2**31), 2**31 - 1], [-(2**31), 2**31 - 1]),
    (pa.int64(), [-(2**63), 2**63 - 1, None], [-(2**63), 2**63 - 1, None]),
    (pa.uint8(), [0, 255], [0, 255]),
    (pa.uint16(), [0, 2**16 - 1], [0, 2**16 - 1]),
    (pa.uint32(), [0, 2**32 - 1], [0, 2**32 - 1]),
    (pa.uint64(), [0, 2**63 - 1], [0, 2**63 - 1]),
    (pa.float16(), [0.5, math.inf, math.nan], [0.5, math.inf, None]),
    (pa.float32(), [0.5, -1.0, 2.0**100], [0.5, -1.0, 2.0**100]),
    (pa.float64(), [0.1, -0.0, 3.0, -math.inf, math.nan], [0.1, 0.0, 3.0, -math.inf, None]),
    (pa.decimal32(5, 2), [D("1.10"), D("-3.00")], ["1.10", "-3.00"]),
    (pa.decimal64(18, 0), [D(7), D(-8)], [7, -8]),
    (pa.decimal128(10, 3), [D("1.000"), D("-0.125"), None], ["1.000", "-0.125", None]),
    (pa.decimal128(38, 0), [D(5), D(10**18)], [5, 10**18]),
    (pa.decimal256(70, 1), [D("9" * 40 + ".5")], ["9" * 40 + ".5"]),
    (pa.null(), [None, None], [None, None]),
]
TEXTS = [
    (pa.string(), ["é\x00\n", "", None], ["é\x00\n", "", None]),
    (pa.large_string(), ["a", "b" * 20_000], ["a", "b" * 20_000]),
    (pa.string_view(), ["short", "longer than twelve bytes", None], None),
    (pa.binary(), [b"\x00\xff", b"", None], [b"\x00\xff", b"", None]),
    (pa.large_binary(), [b"x" * 10_000], None),
    (pa.binary_view(), [b"short", b"longer than twelve bytes"], None),
    (pa.binary(2), [b"ab", None], None),
    (pa.dictionary(pa.int8(), pa.string()), ["a", "b", "a", None], None),
    (pa.dictionary(pa.uint16(), pa.int64()), [10, 20, 10], None),
    (pa.run_end_encoded(pa.int32(), pa.string()), ["a", "a", None, "b"], None),
    (pa.uuid(), [uuid.UUID(int=5), None], [str(uuid.UUID(int=5)), None]),
    (pa.json_(), ['{"a":1}'], None),
]
TIMES = [
    (pa.date32(), [DAY, datetime.date(1, 1, 1)], ["2026-11-21", "0001-01-01"]),
    (pa.date64(), [datetime.date(2026, 11, 21)], ["2026-11-21"]),
    (pa.time32("s"), [datetime.time(5, 30)], ["05:30:00"]),
    (pa.time32("ms"), [datetime.time(5, 30, 0, 250_000)], ["05:30:00.250"]),
    (pa.time64("us"), [datetime.time(23, 59, 59, 1)], ["23:59:59.000001"]),
    (pa.time64("ns"), [datetime.time(0, 0)], ["00:00:00"]),
    (pa.timestamp("s"), [AT.replace(microsecond=0)], ["2026-11-21 05:30:00"]),
    (pa.timestamp("ms"), [AT, None], ["2026-11-21 05:30:00.250", None]),
    (pa.timestamp("us"), [AT, BEFORE], ["2026-11-21 05:30:00.250", "1969-12-31 23:59:59.999999"]),
    (pa.timestamp("ns"), [AT], ["2026-11-21 05:30:00.250"]),
    (pa.timestamp("us", "Europe/Berlin"), [AT.replace(tzinfo=UTC)],
     ["2026-11-21 05:30:00.250+00:00"]),
    (pa.duration("us"), [datetime.timedelta(seconds=1.5)], [1_500_000]),
]
NESTED = [
    (pa.list_(pa.int64()), [[1, None], [], None], ["[1,null]", "[]", None]),
    (pa.large_list(pa.string()), [['a"b', "é"]], ['["a\\"b","é"]']),
    (pa.list_(pa.float64(), 2), [[0.5, 1.0]], ["[0.5,1.0]"]),
    (pa.list_view(pa.int8()), [[1], [2, 3]], ["[1]", "[2,3]"]),
    (pa.struct([("a", pa.int8()), ("b", pa.date32())]),
     [{"a": 1, "b": datetime.date(2026, 1, 2)}, None], ['{"a":1,"b":"2026-01-02"}', None]),
    (pa.struct([("d", pa.decimal128(5, 2)), ("x", pa.binary()), ("t", pa.bool_())]),
     [{"d": D("1.10"), "x": b"\x00\xff", "t": True}], ['{"d":1.10,"x":"00ff","t":true}']),
    (pa.list_(pa.struct([("n", pa.float64())])), [[{"n": math.nan}, {"n": math.inf}]],
     ['[{"n":null},{"n":9e999}]']),
]
# What Arrow stores in a unit of its own, or as text, where objects of Python have another type.
FRAMES_ONLY = [
    (pa.uint64(), [1, 2**64 - 1, None], ["1", str(2**64 - 1), None]),
    (pa.decimal128(38, 0), [D(10**30), D(1)], [str(10**30), "1"]),
    (pa.decimal128(5, -2), [D(12300), D(-100)], ["12300", "-100"]),
    (pa.duration("s"), [datetime.timedelta(minutes=1)], [60]),
    (pa.duration("ms"), [datetime.timedelta(minutes=1)], [60_000]),
    (pa.duration("ns"), [datetime.timedelta(seconds=1)], [10**9]),
    (pa.month_day_nano_interval(), [pa.MonthDayNano([14, 3, 500_000_000])], ["P1Y2M3DT0.500S"]),
    (pa.map_(pa.string(), pa.int64()), [[("a", 1), ("b", None)]], ['{"a":1,"b":null}']),
]


def typed_rows(db, table: str) -> list[tuple]:
    with sqlite3.connect(db) as connection:
        return connection.execute(f"SELECT c, typeof(c) FROM {table} ORDER BY rowid").fetchall()


def inserted(create_sql: str, stored: list) -> list[tuple]:
    """The values as `sqlite3` stores them in a table that is declared alike."""
    connection = sqlite3.connect(":memory:")
    connection.execute(create_sql)
    table = create_sql.split('"')[1] if '"' in create_sql.split("(")[0] else "t"
    connection.executemany(f"INSERT INTO {table} VALUES (?)", [(value,) for value in stored])
    return connection.execute(f"SELECT c, typeof(c) FROM {table} ORDER BY rowid").fetchall()


def check(tmp_path, source, stored: list, declared: str | None = None) -> None:
    db = tmp_path / f"{uuid.uuid4()}.db"
    report = lp.load(db, source, table="t")
    assert typed_rows(db, "t") == inserted(report.create_sql, stored)
    if declared is not None:
        assert report.columns[0].declared_type == declared


def ids(example: tuple) -> str:
    return str(example[0])


@pytest.mark.parametrize("example", NUMBERS + TEXTS + TIMES + NESTED, ids=ids)
def test_arrow_and_rows_store_the_same(tmp_path, example):
    arrow_type, objects, stored = example
    stored = objects if stored is None else stored
    check(tmp_path, pa.table({"c": make(objects, arrow_type)}), stored)
    check(tmp_path, [{"c": value} for value in objects], stored)


@pytest.mark.parametrize("example", FRAMES_ONLY, ids=ids)
def test_types_that_only_arrow_has(tmp_path, example):
    arrow_type, objects, stored = example
    check(tmp_path, pa.table({"c": make(objects, arrow_type)}), stored)


def make(objects: list, arrow_type: pa.DataType) -> pa.Array:
    if isinstance(arrow_type, pa.RunEndEncodedType):
        runs = pa.array(range(1, len(objects) + 1), arrow_type.run_end_type)
        return pa.RunEndEncodedArray.from_arrays(runs, pa.array(objects, arrow_type.value_type))
    return pa.array(objects, arrow_type)


def test_every_type_of_arrow_has_an_example():
    examples = NUMBERS + TEXTS + TIMES + NESTED + FRAMES_ONLY
    has = {arrow_type.id for arrow_type, _, _ in examples}
    # Extension types are what they are made of, but for UUIDs; unions are below.
    union = {pa.lib.Type_SPARSE_UNION, pa.lib.Type_DENSE_UNION}
    known = {value for name, value in vars(pa.lib).items() if name.startswith("Type_")}
    intervals = {pa.lib.Type_INTERVAL_MONTHS, pa.lib.Type_INTERVAL_DAY_TIME}
    views = {getattr(pa.lib, "Type_LARGE_LIST_VIEW", -1)}
    assert known - has - union - intervals - views == set()


def test_unions(tmp_path):
    numbers, texts = pa.array([1, 0]), pa.array(["", "x"])
    kinds = pa.array([0, 1], pa.int8())
    union = pa.UnionArray.from_sparse(kinds, [numbers, texts])
    check(tmp_path, pa.table({"c": union}), ["1", '"x"'])


@pytest.mark.parametrize("nested", [False, True])
def test_bytes_that_only_another_program_reads_are_refused(tmp_path, nested):
    opaque = pa.opaque(pa.binary(), "bignum", "DuckDB")
    column = pa.array([b"\x80\x00\x01\x02"], pa.binary()).cast(opaque)
    if nested:
        column = pa.StructArray.from_arrays([column], ["part"])
    frame = pa.table({"n": column})
    with lp.Writer(tmp_path / "b.db") as writer:
        writer.execute_batch("CREATE TABLE t(n)")
        for call in (
            lambda: lp.load(tmp_path / "a.db", frame, table="t"),
            lambda: writer.insert_many("t", frame),
        ):
            with pytest.raises(lp.ProgrammingError, match='column "n".* bignum') as caught:
                call()
            assert "cast it" in str(caught.value)
        texts = pa.array(["1.50"]).cast(pa.opaque(pa.string(), "numeric", "PostgreSQL"))
        assert writer.insert_many("t", pa.table({"n": texts})) == 1
        assert writer.query("SELECT n FROM t").fetchall() == [("1.50",)]
    assert not (tmp_path / "a.db").exists()


def test_large_list_views(tmp_path):
    array = pa.array([[1], None, [2, 3]], pa.large_list_view(pa.int64()))
    check(tmp_path, pa.table({"c": array}), ["[1]", None, "[2,3]"])


def test_slices_of_arrays(tmp_path):
    """The parts of arrays, which begin within a byte of bits, are read from their places."""
    for arrow_type, objects, stored in NUMBERS + TEXTS + TIMES + NESTED:
        stored = objects if stored is None else stored
        table = pa.table({"c": make(objects * 3, arrow_type)}).slice(1, len(objects) + 1)
        check(tmp_path, table, (stored * 3)[1 : len(objects) + 2])


POLARS = [
    (polars.Boolean, [True, None, False], [1, None, 0]),
    (polars.Int8, [-128, 127], None),
    (polars.Int16, [-1, 2**15 - 1], None),
    (polars.Int32, [-1, 2**31 - 1], None),
    (polars.Int64, [-(2**63), None], None),
    (polars.UInt8, [255], None),
    (polars.UInt16, [2**16 - 1], None),
    (polars.UInt32, [2**32 - 1], None),
    (polars.UInt64, [2**64 - 1, 1], [str(2**64 - 1), "1"]),
    (polars.Float32, [0.5, math.nan], [0.5, None]),
    (polars.Float64, [0.1, math.inf], [0.1, math.inf]),
    (polars.Decimal(10, 2), [D("1.10")], ["1.10"]),
    (polars.String, ["a", "longer than twelve bytes", None], None),
    (polars.Binary, [b"\x00", None], None),
    (polars.Date, [datetime.date(2026, 11, 21)], ["2026-11-21"]),
    (polars.Time, [datetime.time(5, 30, 0, 1)], ["05:30:00.000001"]),
    (polars.Datetime("ms"), [AT], ["2026-11-21 05:30:00.250"]),
    (polars.Datetime("us"), [AT], ["2026-11-21 05:30:00.250"]),
    (polars.Datetime("ns"), [AT], ["2026-11-21 05:30:00.250"]),
    (polars.Datetime("us", "UTC"), [AT.replace(tzinfo=UTC)], ["2026-11-21 05:30:00.250+00:00"]),
    (polars.Duration("ms"), [datetime.timedelta(seconds=1)], [1000]),
    (polars.Categorical, ["a", "b", "a", None], None),
    (polars.Enum(["x", "y"]), ["y", "x", None], None),
    (polars.List(polars.Int64), [[1, None], None], ["[1,null]", None]),
    (polars.Array(polars.Int64, 2), [[1, 2]], ["[1,2]"]),
    (polars.Struct({"a": polars.Int64, "b": polars.String}), [{"a": 1, "b": "x"}],
     ['{"a":1,"b":"x"}']),
    (polars.List(polars.Null), [[None], []], ["[null]", "[]"]),
    (polars.Struct({"n": polars.Null}), [{"n": None}], ['{"n":null}']),
    (polars.Null, [None], None),
    (polars.Float16, [0.5, None], None),
    (polars.Int128, [5, -(2**63)], None),
    (polars.Int128, [5, 10**37], ["5", str(10**37)]),
    (polars.UInt128, [5], None),
    (polars.Map(polars.String, polars.Int64), [{"a": 1}], ['{"a":1}']),
]


@pytest.mark.parametrize("example", POLARS, ids=ids)
def test_polars(tmp_path, example):
    kind, objects, stored = example
    frame = polars.DataFrame({"c": polars.Series(objects, dtype=kind)})
    check(tmp_path, frame, objects if stored is None else stored)


def test_integers_of_polars_beyond_arrow_are_refused(tmp_path):
    frame = polars.DataFrame({"big": polars.Series([10**38 + 5], dtype=polars.Int128)})
    with pytest.raises(lp.DataError, match="'big'.*failed") as caught:
        lp.load(tmp_path / "a.db", frame, table="t")
    assert "make texts" in caught.value.to_do and caught.value.kind == "bad_row"


def test_every_type_of_polars_has_an_example():
    has = {kind if isinstance(kind, type) else type(kind) for kind, _, _ in POLARS}
    known = {
        kind
        for kind in vars(polars.datatypes).values()
        if isinstance(kind, type)
        and issubclass(kind, polars.DataType)
        and not kind.__subclasses__()
    }
    # An object has no type of Arrow; the rest are not types of columns that are written.
    missing = {kind.__name__ for kind in known - has}
    assert missing <= {"Object", "Unknown", "Extension"}


def test_a_polars_object_column_is_refused(tmp_path):
    frame = polars.DataFrame({"c": polars.Series([object()], dtype=polars.Object)})
    with pytest.raises(lp.ProgrammingError, match="column 'c' holds objects of Python"):
        lp.load(tmp_path / "a.db", frame, table="t")
    assert list(tmp_path.iterdir()) == []
