"""Frames of pandas: `load` and `insert_many` store the same values, those of the rows."""

from __future__ import annotations

import math
import pathlib
import sqlite3
import uuid
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal

import geopandas
import leafpress as lp
import numpy
import pandas
import pyarrow
import pytest
import shapely
from leafpress._values import adapt

ZONE = timezone(timedelta(hours=2))


def objects(*values: object) -> pandas.Series:
    return pandas.Series(list(values), dtype=object)


def loaded(db: pathlib.Path, table: str = "t") -> list[tuple]:
    with sqlite3.connect(db) as connection:
        return connection.execute(f'SELECT * FROM "{table}"').fetchall()


OBJECTS = {
    "text": objects("a", None, math.nan),
    "bytes": objects(b"\xff", None),
    "booleans": objects(True, None, numpy.bool_(False)),
    "integers": objects(2**60 + 1, None, numpy.int8(-1), 1000),
    "reals": objects(numpy.float32(0.1), 0.1, None),
    "nothing": objects(None, None),
    "dates": objects(date(2026, 1, 1), None),
    "date and datetime": objects(date(2026, 1, 1), datetime(2026, 1, 1, 5)),
    "nested dates": objects([date(2026, 1, 1), datetime(2026, 1, 1, 5)]),
    "with and without a zone": objects(datetime(2026, 1, 1), datetime(2026, 1, 1, tzinfo=ZONE)),
    "time with a zone": objects(time(5, 30, tzinfo=ZONE), time(5, 30)),
    "nanoseconds": objects(pandas.Timestamp(1), datetime(2026, 1, 1)),
    "nanoseconds first": objects(pandas.Timestamp("2026-01-01 00:00:00.000000001"), None),
    "dicts": objects({"a": 1}, {"b": 2}),
    "lists": objects([1, "a"], [2]),
    "decimals of one scale": objects(Decimal("1.10"), Decimal("2.50"), None),
    "UUIDs": objects(uuid.UUID(int=1), None),
    "durations": objects(timedelta(seconds=1), None),
    "equal durations": objects(
        timedelta(seconds=1), *(pandas.Timedelta(1, "s").as_unit(unit) for unit in ("s", "ns")), pandas.NaT
    ),
}


@pytest.mark.parametrize("name", OBJECTS)
def test_a_column_of_objects_is_stored_as_its_rows(name: str, tmp_path: pathlib.Path) -> None:
    frame = pandas.DataFrame({"n": range(len(OBJECTS[name])), "x": OBJECTS[name]})
    expected = [(n, adapt(value)) for n, value in enumerate(OBJECTS[name])]
    expected = [(n, None if value != value else value) for n, value in expected]
    lp.load(tmp_path / "a.db", frame, table="t")
    assert repr(loaded(tmp_path / "a.db")) == repr(expected)
    with lp.Writer(tmp_path / "a.db") as writer:
        writer.execute_batch("CREATE TABLE u(n, x)")
        writer.insert_many("u", frame)
    assert repr(loaded(tmp_path / "a.db", "u")) == repr(expected)


MIXED = {
    "decimals": (objects(Decimal("1"), Decimal("2.50")), ["1", "2.50"]),
    "text and bytes": (objects("x", b"\xff"), ["x", b"\xff"]),
    "integers and reals": (objects(2**60 + 1, "a"), [str(2**60 + 1), "a"]),
    "categories": (
        pandas.Series(pandas.Categorical(objects(date(2026, 1, 1), datetime(2026, 1, 1, 5)))),
        ["2026-01-01", "2026-01-01 05:00:00"],
    ),
}


@pytest.mark.parametrize("name", MIXED)
def test_objects_of_several_types_are_loaded_as_rows(name: str, tmp_path: pathlib.Path) -> None:
    column, expected = MIXED[name]
    lp.load(tmp_path / "a.db", pandas.DataFrame({"x": column}), table="t")
    lp.load(tmp_path / "a.db", [{"x": value} for value in column], table="rows")
    assert loaded(tmp_path / "a.db") == loaded(tmp_path / "a.db", "rows")
    assert loaded(tmp_path / "a.db") == [(value,) for value in expected]


def of_arrow(durations: pandas.TimedeltaIndex) -> pandas.Series:
    return pandas.Series(durations).astype(pandas.ArrowDtype(pyarrow.duration(durations.unit)))


@pytest.mark.parametrize("beside", [objects(1, 2), objects("x", b"\xff")], ids=["arrow", "rows"])
@pytest.mark.parametrize("make", [pandas.Series, pandas.Categorical, of_arrow])
def test_a_column_of_durations_counts_in_its_unit(make: type, beside: object, tmp_path: pathlib.Path) -> None:
    durations = pandas.to_timedelta([1, None], unit="s")
    for unit, count in (("ms", 1_000), ("ns", 10**9)):
        frame = pandas.DataFrame({"d": make(durations.as_unit(unit)), "x": beside})
        lp.load(tmp_path / f"{unit}.db", frame, table="t")
        assert [row[0] for row in loaded(tmp_path / f"{unit}.db")] == [count, None]


@pytest.mark.parametrize(
    "column",
    [
        pandas.period_range("2026-01", periods=2, freq="M"),
        pandas.interval_range(0, 2, closed="left"),
        pandas.Categorical(pandas.interval_range(0, 2)),
    ],
    ids=["periods", "intervals", "bins"],
)
def test_periods_and_intervals_are_refused(column: object, tmp_path: pathlib.Path) -> None:
    frame = pandas.DataFrame({"p": column})
    with pytest.raises(lp.DataError, match=r"column 'p' holds (periods|intervals)(.|\n)*astype"):
        lp.load(tmp_path / "a.db", frame, table="t")
    lp.load(tmp_path / "a.db", frame.astype(str), table="t")
    assert len(loaded(tmp_path / "a.db")) == 2


def test_objects_beside_a_geometry(tmp_path: pathlib.Path) -> None:
    point = shapely.Point(1, 2)
    for table, values, expected in (
        ("plain", (date(2026, 1, 1), datetime(2026, 1, 1, 5)), ["2026-01-01", "2026-01-01 05:00:00"]),
        ("mixed", ("x", b"\xff"), ["x", b"\xff"]),
    ):
        frame = geopandas.GeoDataFrame({"x": objects(*values)}, geometry=[point, None])
        lp.load(tmp_path / "a.db", frame, table=table)
        assert loaded(tmp_path / "a.db", table) == [
            (expected[0], shapely.to_wkb(point)),
            (expected[1], None),
        ]


def test_an_index_with_the_name_of_a_column(tmp_path: pathlib.Path) -> None:
    frame = pandas.DataFrame({"a": [1]}, index=pandas.Index(["k"], name="a"))
    with pytest.raises(lp.ProgrammingError, match="both named 'a'"):
        lp.load(tmp_path / "a.db", frame, table="t")


OF_ARROW = {
    "nanoseconds": pyarrow.array([1, None], pyarrow.time64("ns")),
    "durations in a list": pyarrow.array([[1_000], None], pyarrow.list_(pyarrow.duration("ms"))),
    "a map": pyarrow.array([[("a", 1)], None], pyarrow.map_(pyarrow.string(), pyarrow.int64())),
    "months": pyarrow.array([(1, 2, 3), None], pyarrow.month_day_nano_interval()),
    "before the year 1": pyarrow.array([-(10**11), None], pyarrow.timestamp("s")),
    "a day before the year 1": pyarrow.array([-(10**6), None], pyarrow.date32()),
    "integers beyond 64 bits": pyarrow.array([2**64 - 1, None], pyarrow.uint64()),
}


@pytest.mark.parametrize("name", OF_ARROW)
def test_a_mixed_column_changes_no_value_of_another_one(name: str, tmp_path: pathlib.Path) -> None:
    column = pandas.Series(OF_ARROW[name], dtype=pandas.ArrowDtype(OF_ARROW[name].type))
    frame = pandas.DataFrame({"x": objects("x", b"\xff"), "y": column, "z": [1, 2]})
    lp.load(tmp_path / "a.db", frame[["y", "z"]], table="alone")
    lp.load(tmp_path / "a.db", frame, table="t")
    alone = loaded(tmp_path / "a.db", "alone")
    assert loaded(tmp_path / "a.db") == [(x, *rest) for x, rest in zip(("x", b"\xff"), alone)]
    with lp.Writer(tmp_path / "a.db") as writer:
        writer.execute_batch("CREATE TABLE v(x, y, z)")
        writer.insert_many("v", frame)
    assert loaded(tmp_path / "a.db", "v") == loaded(tmp_path / "a.db")


def test_a_mixed_column_is_no_way_around_the_bounds_of_a_column_of_integers(tmp_path: pathlib.Path) -> None:
    frame = pandas.DataFrame({"x": objects("x", b"y"), "y": numpy.array([1, 2**64 - 1], "uint64")})
    with lp.Writer(tmp_path / "a.db") as writer:
        writer.execute_batch("CREATE TABLE t(x, y INTEGER)")
        with pytest.raises(lp.DataError) as caught:
            writer.insert_many("t", frame)
    assert caught.value.line == 2 and loaded(tmp_path / "a.db") == []


class Price(float):
    pass


class Name(str):
    pass


class Token(bytes):
    pass


@pytest.mark.parametrize("is_adapted", [True, False])
@pytest.mark.parametrize("value", [Price(1), Name("a"), Token(b"a")])
def test_an_adapter_of_a_subclass_is_asked(value: object, is_adapted: bool, tmp_path: pathlib.Path) -> None:
    """Without one, the value is that of the plain type."""
    kind = (type(value), sqlite3.PrepareProtocol)
    if is_adapted:
        sqlite3.register_adapter(type(value), lambda _: "adapted")
    try:
        lp.load(tmp_path / "a.db", pandas.DataFrame({"x": objects(value, None)}), table="t")
        lp.load(tmp_path / "a.db", [{"x": value}, {"x": None}], table="u")
        with lp.Writer(tmp_path / "a.db") as writer:
            writer.execute("INSERT INTO u VALUES (?)", (value,))
            writer.execute("DELETE FROM u WHERE rowid = 1")
            writer.execute("UPDATE u SET rowid = 1 WHERE rowid = 3")
    finally:
        sqlite3.adapters.pop(kind, None)
    expected = [("adapted" if is_adapted else value,), (None,)]
    assert loaded(tmp_path / "a.db") == loaded(tmp_path / "a.db", "u") == expected


def test_two_levels_of_an_index_with_one_name(tmp_path: pathlib.Path) -> None:
    frame = pandas.DataFrame({"a": [1]}, index=pandas.MultiIndex.from_tuples([(1, 2)], names=["k", "k"]))
    with pytest.raises(lp.ProgrammingError, match="two levels of the index are both named 'k'"):
        lp.load(tmp_path / "a.db", frame, table="t")


def test_a_frame_of_geopandas_that_arrow_refuses_goes_as_rows(tmp_path: pathlib.Path) -> None:
    point = shapely.Point(1, 2, 3)
    frame = geopandas.GeoDataFrame({"x": objects(2**70, 1)}, geometry=[point, None])
    with pytest.raises(lp.DataError, match="64 bits"):
        lp.load(tmp_path / "a.db", frame, table="t")
    frame = geopandas.GeoDataFrame({"x": objects("x", b"x")}, geometry=[point, None])
    lp.load(tmp_path / "a.db", frame, table="t")
    lp.load(tmp_path / "a.db", frame[["geometry"]], table="plain")
    assert [geometry for _, geometry in loaded(tmp_path / "a.db")] == [x for (x,) in loaded(tmp_path / "a.db", "plain")]
