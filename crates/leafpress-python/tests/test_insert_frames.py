"""`insert_many` of a frame stores what `load` stores of it."""

from __future__ import annotations

import asyncio
import datetime
import pathlib
import sqlite3
import uuid
from decimal import Decimal

import geopandas
import leafpress as lp
import pandas
import polars
import pyarrow
import pytest
import shapely

SECOND = datetime.timedelta(seconds=1)
UUID = uuid.UUID("0189a0b1-c2d3-7e4f-8a5b-6c7d8e9f0a1b")
UUIDS = pyarrow.ExtensionArray.from_storage(
    pyarrow.uuid(), pyarrow.array([UUID.bytes, None], pyarrow.binary(16))
)

FRAMES = {
    "index of pandas": (
        pandas.DataFrame({"x": [1, 2]}, index=pandas.Index(["a", "b"], name="k")),
        [("a", 1), ("b", 2)],
    ),
    "levels of pandas": (
        pandas.DataFrame({"x": [1]}, index=pandas.MultiIndex.from_tuples([(7, 8)], names=["k", None])),
        [(7, 1)],
    ),
    "durations of pandas": (
        pandas.DataFrame({"x": pandas.to_timedelta([1500, None], unit="ms").as_unit("ms")}),
        [(1500,), (None,)],
    ),
    "durations of polars": (
        polars.DataFrame({"x": polars.Series([SECOND]).cast(polars.Duration("ms"))}),
        [(1000,)],
    ),
    "durations of pyarrow": (
        pyarrow.table({"x": pyarrow.array([SECOND, None], pyarrow.duration("s"))}),
        [(1,), (None,)],
    ),
    "nanoseconds of polars": (
        polars.DataFrame({"x": polars.Series([1]).cast(polars.Datetime("ns")), "y": polars.Series([1]).cast(polars.Time)}),
        [("1970-01-01 00:00:00.000000001", "00:00:00.000000001")],
    ),
    "nanoseconds of pyarrow": (
        pyarrow.table({"x": pyarrow.array([5], pyarrow.time64("ns"))}),
        [("00:00:00.000000005",)],
    ),
    "lazy": (polars.LazyFrame({"x": [1, 2]}), [(1,), (2,)]),
    "wide integers": (
        polars.DataFrame({"x": polars.Series([2**64 - 1, 1], dtype=polars.UInt64)}),
        [("18446744073709551615",), ("1",)],
    ),
    "maps": (
        pyarrow.table({"x": pyarrow.array([[("k", 1)]], pyarrow.map_(pyarrow.string(), pyarrow.int64()))}),
        [('{"k":1}',)],
    ),
    "decimals": (pyarrow.table({"x": [Decimal("1.50")]}), [("1.50",)]),
    "UUIDs": (pyarrow.table({"x": UUIDS}), [(str(UUID),), (None,)]),
    "UUIDs in a batch": (pyarrow.record_batch({"x": UUIDS}), [(str(UUID),), (None,)]),
    "geometries": (
        geopandas.GeoDataFrame({"a": [1]}, geometry=[shapely.Point(1, 2)]),
        [(1, shapely.to_wkb(shapely.Point(1, 2)))],
    ),
}


def rows_of(db: pathlib.Path, sql: str) -> list[tuple]:
    with sqlite3.connect(db) as connection:
        return connection.execute(sql).fetchall()


@pytest.mark.parametrize("name", FRAMES)
def test_a_frame_is_inserted_as_it_is_loaded(name: str, tmp_path: pathlib.Path) -> None:
    frame, expected = FRAMES[name]
    db = tmp_path / "a.db"
    lp.load(db, frame, table="t")
    assert rows_of(db, "SELECT * FROM t") == expected
    with lp.Writer(db) as writer:
        writer.execute_batch("CREATE TABLE u AS SELECT * FROM t LIMIT 0")
        assert writer.insert_many("u", frame) == len(expected)
        with writer.transaction() as tx:
            assert tx.insert_many("u", frame) == len(expected)

    async def later() -> None:
        async with lp.AsyncWriter(db) as writer:
            assert await writer.insert_many("u", frame) == len(expected)

    asyncio.run(later())
    assert rows_of(db, "SELECT * FROM u") == expected * 3


def test_some_columns_of_a_frame_are_inserted(tmp_path: pathlib.Path) -> None:
    with lp.Writer(tmp_path / "a.db") as writer:
        writer.execute_batch("CREATE TABLE t(a, b)")
        frame = polars.DataFrame({"b": [1], "z": [2], "a": [3]})
        assert writer.insert_many("t", frame, ["a", "b"]) == 1
        with pytest.raises(lp.ProgrammingError, match="no column 'c'.*\n.*b, z, a"):
            writer.insert_many("t", frame, ["c"])
    assert rows_of(tmp_path / "a.db", "SELECT a, b FROM t") == [(3, 1)]


def test_a_frame_of_pandas_is_inserted_without_pyarrow(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    with lp.Writer(tmp_path / "a.db") as writer:
        writer.execute_batch("CREATE TABLE t(k, x)")
        writer.insert_many("t", FRAMES["index of pandas"][0])
    assert rows_of(tmp_path / "a.db", "SELECT * FROM t") == [("a", 1), ("b", 2)]


@pytest.mark.parametrize("declared", ["INTEGER", "REAL", "NUMERIC", "ANY"])
def test_an_integer_beyond_64_bits_is_not_made_a_real(declared: str, tmp_path: pathlib.Path) -> None:
    frame = pyarrow.table({"k": ["a", "b"], "x": pyarrow.array([7, 2**63 + 1], pyarrow.uint64())})
    with lp.Writer(tmp_path / "a.db") as writer:
        writer.execute_batch(f"CREATE TABLE t(k, X {declared})")

        async def later() -> None:
            async with lp.AsyncWriter(tmp_path / "a.db") as other:
                await other.insert_many("t", frame)

        async def later_in_a_transaction() -> None:
            async with lp.AsyncWriter(tmp_path / "a.db") as other, other.transaction() as tx:
                await tx.insert_many("t", frame)

        def in_a_transaction() -> None:
            with writer.transaction() as tx:
                tx.insert_many("t", frame, ["x", "k"])

        calls = [
            lambda: writer.insert_many("t", frame), in_a_transaction,
            lambda: asyncio.run(later()), lambda: asyncio.run(later_in_a_transaction()),
        ]
        for call in calls:
            with pytest.raises(lp.DataError, match="row 2 has an integer in column 'x'") as caught:
                call()
            assert caught.value.line == 2
        assert writer.insert_many("t", frame, ["k"]) == 2
        # A column that keeps texts keeps all digits.
        writer.execute_batch("CREATE TABLE kept(k ANY, x ANY) STRICT")
        writer.insert_many("kept", frame)
        kept = writer.query("SELECT x FROM kept").fetchall()
        assert kept == [(7,), ("9223372036854775809",)]
    assert rows_of(tmp_path / "a.db", "SELECT x FROM t") == [(None,), (None,)]
