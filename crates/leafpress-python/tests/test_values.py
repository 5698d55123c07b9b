"""Objects of Python as values of SQLite."""

from __future__ import annotations

import array
import dataclasses
import enum
import json
import math
import sqlite3
import subprocess
import sys
import uuid
from collections import OrderedDict, deque, namedtuple
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal

import attrs
import numpy
import pandas
import pydantic
import pytest

import leafpress as lp
from leafpress._values import adapt, to_json

BERLIN = timezone(timedelta(hours=1))


class Colour(enum.Enum):
    RED = "red"
    AT = date(2026, 11, 21)


class Level(enum.IntEnum):
    HIGH = 3


class Text(str):
    def __str__(self) -> str:
        return "another"


class Number(int):
    pass


class Share(float):
    pass


@dataclasses.dataclass
class Point:
    x: int
    at: datetime


@attrs.define
class Place:
    name: str


class Order(pydantic.BaseModel):
    id: int
    price: Decimal


class Root(pydantic.RootModel[int]):
    pass


class Conforming:
    def __conform__(self, protocol: object) -> str | None:
        return "conformed" if protocol is sqlite3.PrepareProtocol else None


class Conformable(Conforming):
    def __conform__(self, protocol: object) -> datetime:  # type: ignore[override]
        return datetime(2026, 1, 2)


Pair = namedtuple("Pair", "a b")

VALUES = [
    # Times, as Arrow's of the same unit.
    (datetime(2026, 11, 21, 5, 30), "2026-11-21 05:30:00"),
    (datetime(2026, 11, 21, 5, 30, 0, 250_000), "2026-11-21 05:30:00.250"),
    (datetime(1, 1, 1, 0, 0, 0, 1), "0001-01-01 00:00:00.000001"),
    (datetime(2026, 11, 21, 5, 30, tzinfo=BERLIN), "2026-11-21 04:30:00+00:00"),
    (datetime(2026, 11, 21, 5, 30, 0, 500, timezone.utc), "2026-11-21 05:30:00.000500+00:00"),
    (date(2026, 11, 21), "2026-11-21"),
    (time(5, 30), "05:30:00"),
    (time(5, 30, 0, 250_000), "05:30:00.250"),
    (time(5, 30, tzinfo=BERLIN), "05:30:00+01:00"),
    (time(5, 30, 0, 1, BERLIN), "05:30:00.000001+01:00"),
    (timedelta(days=-1, microseconds=1), -86_399_999_999),
    (pandas.Timestamp("2026-11-21 05:30:00.000000001"), "2026-11-21 05:30:00.000000001"),
    (pandas.Timestamp("2026-11-21 05:30", tz="Europe/Berlin"), "2026-11-21 04:30:00+00:00"),
    # Durations that are equal, in several units.
    (pandas.Timedelta(3, unit="s").as_unit("s"), 3_000_000),
    (pandas.Timedelta(3, unit="s").as_unit("ns"), 3_000_000),
    (pandas.Timedelta(-3, unit="us").as_unit("ns"), -3),
    (pandas.Timedelta(10**12, unit="s").as_unit("s"), 10**18),
    (numpy.datetime64("2026-11-21"), "2026-11-21"),
    (numpy.datetime64("2026-11"), "2026-11-01"),
    (numpy.datetime64("2026-11-21T05:30"), "2026-11-21 05:30:00"),
    (numpy.datetime64("2026-11-21T05:30:00.250", "ns"), "2026-11-21 05:30:00.250"),
    (numpy.datetime64("2026-11-21T05:30:00", "us"), "2026-11-21 05:30:00"),
    (numpy.datetime64(2_932_897, "D"), "+10000-01-01"),
    (numpy.timedelta64(5, "ms"), 5_000),
    (numpy.timedelta64(2, "m"), 120_000_000),
    (numpy.timedelta64(-5_000, "ns"), -5),
    # Numbers.
    (True, 1),
    (Decimal("12.50"), "12.50"),
    (Decimal("-0.00"), "0.00"),
    (Decimal("1E+3"), 1_000),
    (Decimal("7"), 7),
    (Decimal(2**63), "9223372036854775808"),
    (Decimal("1E-7"), "0.0000001"),
    (Decimal("-Infinity"), -math.inf),
    (Number(5), 5),
    (Share(0.5), 0.5),
    (2**63 - 1, 2**63 - 1),
    (-(2**63), -(2**63)),
    (numpy.int8(-3), -3),
    (numpy.uint64(7), 7),
    (numpy.float32(0.5), 0.5),
    (numpy.float64(0.1), 0.1),
    (numpy.bool_(True), 1),
    (numpy.array(5), 5),
    # Text and bytes.
    (Text("own"), "own"),
    (numpy.str_("x"), "x"),
    (numpy.bytes_(b"x"), b"x"),
    (uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
    (bytearray(b"ab"), b"ab"),
    (memoryview(b"abcd")[::2], b"ac"),
    (array.array("b", [1, 2]), b"\x01\x02"),
    # What stands for another value.
    (None, None),
    (pandas.NA, None),
    (pandas.NaT, None),
    (numpy.datetime64("NaT"), None),
    (numpy.ma.masked, None),
    ({"a": numpy.ma.masked}, '{"a":null}'),
    (numpy.timedelta64("NaT"), None),
    (Decimal("NaN"), None),
    (Decimal("sNaN"), None),
    (Colour.RED, "red"),
    (Colour.AT, "2026-11-21"),
    (Level.HIGH, 3),
    (Conforming(), "conformed"),
    (Conformable(), "2026-01-02 00:00:00"),
    (Root(5), 5),
    # Nested values.
    ({"a": [1, None, True, 0.5, "x\n"]}, '{"a":[1,null,true,0.5,"x\\n"]}'),
    ({1: "a", None: "b", (1, 2): "c"}, '{"1":"a","null":"b","[1,2]":"c"}'),
    ({date(2026, 1, 1): b"\x00\xff"}, '{"2026-01-01":"00ff"}'),
    ([Decimal("1.10"), Decimal(2**70)], "[1.10,1180591620717411303424]"),
    ([math.nan, math.inf, -math.inf, Decimal("NaN"), pandas.NA], "[null,9e999,-9e999,null,null]"),
    ([numpy.bool_(False), numpy.float32(0.5), numpy.int64(1)], "[false,0.5,1]"),
    ([], "[]"),
    ({}, "{}"),
    ([[], {}], "[[],{}]"),
    ((1, "a"), '[1,"a"]'),
    (Pair(1, 2), "[1,2]"),
    ({3, 1, 2}, "[1,2,3]"),
    (deque([1]), "[1]"),
    (OrderedDict(b=1, a=2), '{"b":1,"a":2}'),
    (numpy.array([[1, 2], [3, 4]]), "[[1,2],[3,4]]"),
    (Point(1, datetime(2026, 1, 1)), '{"x":1,"at":"2026-01-01 00:00:00"}'),
    ([Point(1, datetime(2026, 1, 1))], '[{"x":1,"at":"2026-01-01 00:00:00"}]'),
    (Place("é"), '{"name":"é"}'),
    (Order(id=1, price="2.50"), '{"id":1,"price":2.50}'),
    ([Colour.RED, Level.HIGH, Root(7)], '["red",3,7]'),
]


@pytest.mark.parametrize(("value", "stored"), VALUES, ids=lambda part: repr(part).partition(" at 0x")[0][:40])
def test_an_object_is_stored_as(value: object, stored: object) -> None:
    adapted = adapt(value)
    assert adapted == stored
    assert type(adapted) is type(stored), "SQLite's own types only, no subclass"
    row = sqlite3.connect(":memory:").execute("SELECT ?", (adapted,)).fetchone()
    assert row == (stored,)


def test_an_object_that_holds_nothing_is_null() -> None:
    held = enum.Enum("held", {"NONE": None, "NA": pandas.NA, "NAT": pandas.NaT})
    for value in (held.NONE, held.NA, held.NAT, numpy.array(None), numpy.array(pandas.NA)):
        assert adapt(value) is None and adapt([value]) == "[null]"


def test_a_decimal_of_thousands_of_digits_is_a_text() -> None:
    for digits in ("1" * 4_301, "-" + "9" * 9_000):
        assert adapt(Decimal(digits)) == digits and adapt([Decimal(digits)]) == f"[{digits}]"


def test_a_longdouble_that_is_a_double_is_a_real() -> None:
    for value in (0.1, math.inf):
        assert adapt(numpy.longdouble(value)) == value
    assert math.isnan(adapt(numpy.longdouble("nan")))


def test_nan_stays_a_float_which_sqlite_stores_as_null() -> None:
    adapted = adapt(numpy.float64("nan"))
    assert isinstance(adapted, float) and math.isnan(adapted)


def test_json_is_what_pythons_own_reader_and_sqlite_read() -> None:
    value = {"text": 'quote " \\ \x01 é \U0001f600', "list": [1, 2.5, -0.0, 1e300, None, True]}
    written = to_json(value)
    assert json.loads(written) == value
    assert sqlite3.connect(":memory:").execute("SELECT json_valid(?)", (written,)).fetchone()[0]


def test_dates_of_sqlite_read_what_is_written() -> None:
    ask = sqlite3.connect(":memory:")
    moment = datetime(2026, 3, 29, 2, 30, 1, 250_000, BERLIN)
    read = ask.execute("SELECT julianday(?)", (adapt(moment),)).fetchone()[0]
    assert (read - 2_440_587.5) * 86_400 == pytest.approx(moment.timestamp(), abs=0.001)


def test_an_adapter_of_sqlite3_comes_first() -> None:
    class Money:
        pass

    with pytest.raises(lp.DataError):
        adapt(Money())
    sqlite3.register_adapter(Money, lambda _: Decimal("1.5"))
    try:
        assert adapt(Money()) == "1.5"
    finally:
        del sqlite3.adapters[Money, sqlite3.PrepareProtocol]


OWN = [
    (time(3, 4, 5, tzinfo=timezone(timedelta(hours=2))), "03:04:05+02:00"),
    (Decimal("2"), 2),
    (Decimal("NaN"), None),
    (Decimal("2.50"), "2.50"),
    (datetime(2026, 1, 2), "2026-01-02 00:00:00"),
    (timedelta(seconds=1), 1_000_000),
    (uuid.UUID(int=7), "00000000-0000-0000-0000-000000000007"),
    ({"a": [1]}, '{"a":[1]}'),
    ((1, 2), "[1,2]"),
]


@pytest.mark.parametrize(("value", "stored"), OWN, ids=lambda part: str(type(part)))
def test_an_adapter_of_another_library_changes_no_type_of_python(value: object, stored: object) -> None:
    kind = (type(value), sqlite3.PrepareProtocol)
    before = sqlite3.adapters.get(kind)
    sqlite3.register_adapter(type(value), lambda _: "changed")
    try:
        assert adapt(value) == stored
        assert json.loads(adapt([value]))[0] != "changed"
    finally:
        if before is None:
            del sqlite3.adapters[kind]
        else:
            sqlite3.adapters[kind] = before


HOLDS_ITSELF: list[object] = []
HOLDS_ITSELF.append(HOLDS_ITSELF)


class BadRepr:
    def __repr__(self) -> str:
        raise RuntimeError("no repr")


REFUSED = [
    (2**63, "9223372036854775808 does not fit"),
    (-(2**63) - 1, "64 bits"),
    (10**5000, "bits"),
    ([10**5000], "bits"),
    (numpy.uint64(2**64 - 1), "18446744073709551615 does not fit"),
    (object(), "of type object"),
    ([1, object()], "of type object"),
    (1j, "1j of type complex"),
    (BadRepr(), "of type BadRepr"),
    (Point, "of type type"),
    (iter([1]), "list_iterator"),
    (numpy.timedelta64(1, "Y"), "timedelta64"),
    (HOLDS_ITSELF, "holds itself"),
    (Decimal("1E+999999"), "digits"),
    (Decimal("1E-999999"), "digits"),
    (datetime(1, 1, 1, tzinfo=BERLIN), "UTC"),
    (timedelta.max, "64 bits"),
    (numpy.longdouble(1) / 3, "more digits"),
    (pandas.Timedelta(1_001, unit="ns"), "below a microsecond: give its nanoseconds"),
    (numpy.timedelta64(1, "ns"), "below a microsecond"),
    ([pandas.Timedelta(1, unit="ns")], "below a microsecond"),
]


@pytest.mark.parametrize(("value", "words"), REFUSED, ids=lambda part: str(type(part)))
def test_an_object_without_a_value_is_refused(value: object, words: str) -> None:
    with pytest.raises(lp.DataError, match=words) as caught:
        adapt(value)
    assert caught.value.kind == "bad_row"
    assert isinstance(caught.value, sqlite3.DataError)


def test_no_library_is_imported_for_it() -> None:
    code = (
        "import sys, leafpress._values as v; v.adapt([1, {'a': 2}]); "
        "print(sorted(set(sys.modules) & {'numpy', 'pandas', 'pydantic', 'attrs'}))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"


def test_a_text_that_is_not_utf_8_is_told(tmp_path):
    bad = "SELECT 1, CAST(x'ff41' AS TEXT) AS name"
    with lp.Writer(tmp_path / "a.db") as writer:
        writer.execute_batch(f"CREATE TABLE t AS {bad}")

        def in_a_transaction():
            with writer.transaction() as tx:
                tx.execute("SELECT * FROM t")

        def by_a_reader():
            with writer.reader() as reader:
                reader.execute(bad)

        for read in (lambda: writer.query("SELECT * FROM t"), in_a_transaction, by_a_reader):
            with pytest.raises(lp.DataError, match="\"name\" of the result is not UTF-8") as caught:
                read()
            assert "CAST(column AS BLOB)" in caught.value.to_do
        assert writer.query("SELECT CAST(name AS BLOB) FROM t").fetchall() == [(b"\xffA",)]
        with writer.transaction() as tx:
            with pytest.raises(lp.DataError):
                tx.execute("SELECT name FROM t")
            tx.execute("DELETE FROM t")
        assert writer.query("SELECT * FROM t").fetchall() == []
