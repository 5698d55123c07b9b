"""`insert_many` of rows with names, of frames in parts, and of integers beyond 64 bits; and `load` of such
parts."""

from __future__ import annotations

import collections
import dataclasses
import pathlib
import sqlite3
from collections.abc import Callable, Iterable
from contextlib import closing
from decimal import Decimal
from typing import Any

import attrs
import leafpress as lp
import numpy
import pandas
import polars
import pyarrow
import pyarrow.dataset
import pydantic
import pytest


@dataclasses.dataclass
class Data:
    b: object
    a: object


@attrs.define
class Attrs:
    b: object
    a: object


class Model(pydantic.BaseModel):
    b: object
    a: object


Named = collections.namedtuple("Named", "b a")


class Spark(tuple):
    """As a Row of Spark."""

    __fields__ = ["b", "a"]


def with_keys() -> Iterable[sqlite3.Row]:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.row_factory = sqlite3.Row
        return connection.execute("SELECT 'x' AS b, 1 AS a").fetchall()


ROWS: dict[str, Callable[[], Any]] = {
    "dicts": lambda: [{"b": "x", "a": 1}],
    "dataclasses": lambda: [Data("x", 1)],
    "attrs": lambda: [Attrs("x", 1)],
    "models": lambda: [Model(b="x", a=1)],
    "named tuples": lambda: [Named("x", 1)],
    "rows of Spark": lambda: [Spark(("x", 1))],
    "rows of sqlite3": with_keys,
    "series": lambda: [row for _, row in pandas.DataFrame({"b": ["x"], "a": [1]}).iterrows()],
    "structures of numpy": lambda: numpy.array([("x", 1)], dtype=[("b", "U1"), ("a", "i4")]),
    "a cursor": lambda: sqlite3.connect(":memory:").execute("SELECT 'x' AS b, 1 AS a"),
}


@pytest.fixture
def db(tmp_path: pathlib.Path) -> pathlib.Path:
    return tmp_path / "a.db"


def rows_of(db: pathlib.Path, table: str = "t") -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(db)) as connection:
        return connection.execute(f"SELECT * FROM {table} ORDER BY rowid").fetchall()


@pytest.mark.parametrize("kind", ROWS)
def test_rows_with_names_go_by_name(kind: str, db: pathlib.Path) -> None:
    with lp.Writer(db) as writer:
        writer.execute("CREATE TABLE t(a, b, z)")
        for columns in (None, ["a", "b"], ["b", "a"]):
            assert writer.insert_many("t", ROWS[kind](), columns) == 1
            with writer.transaction() as tx:
                assert tx.insert_many("t", ROWS[kind](), columns) == 1
        assert writer.insert_many("t", ROWS[kind](), ["a"]) == 1
        with pytest.raises(lp.Error, match="z"):
            writer.insert_many("t", ROWS[kind](), ["a", "z"])
    assert rows_of(db) == [(1, "x", None)] * 6 + [(1, None, None)]


@pytest.mark.parametrize("kind", [kind for kind in ROWS if kind != "a cursor"])
def test_rows_with_names_are_not_mixed_with_others(kind: str, db: pathlib.Path) -> None:
    with lp.Writer(db) as writer:
        writer.execute("CREATE TABLE t(a, b)")
        for rows in ([*ROWS[kind](), ("x", 1)], [("x", 1), *ROWS[kind]()]):
            with pytest.raises(lp.DataError) as caught:
                writer.insert_many("t", rows, ["b", "a"])
            assert caught.value.line == 2
        # By name they are of one kind.
        assert writer.insert_many("t", [*ROWS[kind](), {"a": 2, "b": "y"}]) == 2
    assert rows_of(db) == [(1, "x"), (2, "y")]


def test_a_further_name_is_not_lost(db: pathlib.Path) -> None:
    with lp.Writer(db) as writer:
        writer.execute("CREATE TABLE t(a, b)")
        with pytest.raises(lp.DataError, match="row 2 has the key 'b'"):
            writer.insert_many("t", [{"a": 1}, Data("x", 2)])


def test_a_frame_among_rows_is_no_row(db: pathlib.Path) -> None:
    frame = polars.DataFrame({"a": [2], "b": ["y"]})
    with lp.Writer(db) as writer:
        writer.execute("CREATE TABLE t(a, b)")
        for row in ({"a": 1, "b": "x"}, Data("x", 1), (1, "x")):
            with pytest.raises(lp.DataError, match="row 2 is of type DataFrame"):
                writer.insert_many("t", [row, frame])
    assert rows_of(db) == []


PARTS = [{"a": [1, 2], "b": ["x", "y"]}, {"a": [3], "b": ["z"]}]
EXPECTED = [(1, "x"), (2, "y"), (3, "z")]


def reordered() -> list[Any]:
    return [pandas.DataFrame(PARTS[0]), polars.DataFrame(PARTS[1]).select("b", "a")]



FRAMES: dict[str, Callable[[], Any]] = {
    "a list": lambda: [pandas.DataFrame(part) for part in PARTS],
    "an iterator": lambda: (polars.DataFrame(part) for part in PARTS),
    "batches": lambda: pyarrow.table({"a": [1, 2, 3], "b": ["x", "y", "z"]}).to_batches(max_chunksize=2),
    "a scanner": lambda: pyarrow.dataset.dataset(pyarrow.table(PARTS[0])).scanner(),
    "several libraries": reordered,
    "objects": lambda: [pandas.DataFrame(part).astype(object) for part in PARTS],
}


@pytest.mark.parametrize("kind", FRAMES)
def test_frames_in_parts_are_loaded_and_inserted(kind: str, db: pathlib.Path) -> None:
    expected = EXPECTED[:2] if kind == "a scanner" else EXPECTED
    lp.load(db, FRAMES[kind](), table="t")
    lp.load(db, FRAMES[kind](), table="t", if_exists="append")
    with lp.Writer(db) as writer:
        assert writer.insert_many("t", FRAMES[kind]()) == len(expected)
        assert writer.insert_many("t", FRAMES[kind](), ["b", "a"]) == len(expected)
    assert rows_of(db) == expected * 4


def test_the_chunks_of_a_file_are_parts(db: pathlib.Path, tmp_path: pathlib.Path) -> None:
    # The second chunk has other types, and the third a row of objects.
    (tmp_path / "t.csv").write_text("a,b\n1,x\n2,y\n3,\n,z\nw,v\n")
    lp.load(db, pandas.read_csv(tmp_path / "t.csv", chunksize=2), table="t")
    with lp.Writer(db) as writer:
        writer.execute("CREATE TABLE v(a, b)")
        writer.insert_many("v", pandas.read_csv(tmp_path / "t.csv", chunksize=2))
    assert rows_of(db, "v") == [(1, "x"), (2, "y"), (3.0, None), (None, "z"), ("w", "v")]
    assert [b for _, b in rows_of(db)] == ["x", "y", None, "z", "v"]


def test_a_part_without_rows_has_its_columns(db: pathlib.Path, tmp_path: pathlib.Path) -> None:
    (tmp_path / "t.csv").write_text("a,b\n")
    lp.load(db, [{"a": 1, "b": 2}], table="t")
    lp.load(db, pandas.read_csv(tmp_path / "t.csv", chunksize=9), table="t", if_exists="append")
    lp.load(db, iter([pyarrow.table({"c": pyarrow.array([], pyarrow.int64())})]), table="u")
    lp.load(db, iter([pyarrow.table({"c": [1]}).slice(1), pyarrow.table({"d": [2]})]), table="v")
    assert rows_of(db) == [(1, 2)] and rows_of(db, "u") == [] and rows_of(db, "v") == [(None, 2)]


def test_large_parts_are_loaded_in_batches(db: pathlib.Path) -> None:
    parts = [numpy.arange(part * 10_000, (part + 1) * 10_000) for part in range(3)]
    lp.load(db, (polars.DataFrame({"n": part}) for part in parts), table="t")
    assert [n for (n,) in rows_of(db)] == [*range(30_000)]


def test_a_bad_row_of_a_part_is_shown_with_the_names_of_its_part(
    db: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    # No type of Arrow fits the second part.
    parts = [
        pandas.DataFrame({"a": [1], "b": ["x"]}),
        pandas.DataFrame({"b": ["y", "z"], "a": [2, 1j]}, dtype=object),
    ]
    rejects = tmp_path / "rejects.ndjson"
    lp.load(db, parts, table="t", on_error="skip", rejects=rejects)
    assert rows_of(db) == [(1, "x"), (2, "y")]
    assert '"b":"z","a":"1j"' in rejects.read_text().replace('\\"', '"')


def test_parts_that_do_not_fit_are_refused(db: pathlib.Path) -> None:
    frame, more = polars.DataFrame({"a": [1]}), polars.DataFrame({"a": [1], "b": [2]})
    with lp.Writer(db) as writer:
        writer.execute("CREATE TABLE t(a, b)")
        for rows, says in (
            ([frame, more], "has the column 'b'"),
            ([more, frame], "no column 'b'"),
            ([frame, {"a": 1}], "part 2 is of type dict"),
        ):
            with pytest.raises(lp.ProgrammingError, match=says):
                writer.insert_many("t", rows)
    assert rows_of(db) == []
    with pytest.raises(lp.ProgrammingError, match="is none of `columns`"):
        lp.load(db, [more], table="u", columns=["a"])
    # As rows with keys, a part may lack a column.
    lp.load(db, [frame, more, {"b": 3}], table="u")
    assert rows_of(db, "u") == [(1, None), (1, 2), (None, 3)]


LARGE = 2**70
INTEGERS: dict[str, Callable[[], Any]] = {
    "integers": lambda: [(1,), (LARGE,)],
    "decimals": lambda: [(1,), (Decimal(LARGE),)],
    "decimals with keys": lambda: [{"a": 1}, {"a": Decimal(LARGE)}],
    "objects of numpy": lambda: numpy.array([[1], [LARGE]], dtype=object),
    "decimals in numpy": lambda: numpy.array([[1], [Decimal(LARGE)]], dtype=object),
    "unsigned of numpy": lambda: numpy.array([[1], [2**64 - 1]], dtype="uint64"),
    "objects of pandas": lambda: pandas.DataFrame({"a": [1, LARGE]}, dtype=object),
    "decimals of pandas": lambda: pandas.DataFrame({"a": [Decimal(2**69), Decimal(LARGE)]}),
    "unsigned of pandas": lambda: pandas.DataFrame({"a": [1, 2**64 - 1]}, dtype="uint64"),
    "int128 of polars": lambda: polars.DataFrame({"a": polars.Series([1, LARGE], dtype=polars.Int128)}),
    "decimals of Arrow": lambda: pyarrow.table({"a": pyarrow.array([1, LARGE], pyarrow.decimal128(38, 0))}),
    "decimals of 256 bits": lambda: pyarrow.table({"a": pyarrow.array([1, LARGE], pyarrow.decimal256(40, 0))}),
    "dictionary": lambda: pyarrow.table({
        "a": pyarrow.array([1, 2**64 - 1], pyarrow.uint64()).dictionary_encode(),
    }),
    "the second part": lambda: [polars.DataFrame({"a": [1]}), pandas.DataFrame({"a": [2**64 - 1]}, dtype="uint64")],
}


@pytest.mark.parametrize("kind", INTEGERS)
def test_an_integer_beyond_64_bits_is_refused_by_a_column_of_numbers(kind: str, db: pathlib.Path) -> None:
    with lp.Writer(db) as writer:
        writer.execute("CREATE TABLE t(a INTEGER)")
        with pytest.raises(lp.DataError, match="64 bits") as caught:
            writer.insert_many("t", INTEGERS[kind]())
        assert caught.value.line == (1 if kind == "decimals of pandas" else 2)
    assert rows_of(db) == []


REPEATED = "SELECT 1 AS a, 2 AS A, 3 AS b, 4 AS b, 5 AS b_2"


class Keyed:
    """A row with places and keys that is no Sequence, as a Record of asyncpg."""

    def __init__(self, row: sqlite3.Row) -> None:
        self.names, self.values = row.keys(), tuple(row)

    def keys(self) -> list[str]:
        return self.names

    def __iter__(self) -> Any:
        return iter(self.values)

    def __getitem__(self, key: Any) -> Any:
        return self.values[key if isinstance(key, int) else self.names.index(key)]


def repeated(kind: str) -> Any:
    connection = sqlite3.connect(":memory:")
    if kind == "a cursor":
        return connection.execute(REPEATED)
    connection.row_factory = sqlite3.Row
    cursor = connection.execute(REPEATED)
    if kind == "a cursor with a factory":
        return cursor
    rows: list[Any] = cursor.fetchall()
    return [Keyed(row) for row in rows] if kind == "other rows" else rows


@pytest.mark.parametrize("kind", ["a cursor", "a cursor with a factory", "rows of sqlite3", "other rows"])
def test_columns_of_one_name_keep_their_values(kind: str, db: pathlib.Path) -> None:
    lp.load(db, repeated(kind), table="t")
    assert rows_of(db) == [(1, 2, 3, 4, 5)]
    with closing(sqlite3.connect(db)) as connection:
        names = [name for _, name, *_ in connection.execute("PRAGMA table_info(t)")]
    assert names == ["a", "A_2", "b", "b_3", "b_2"]
    with lp.Writer(db) as writer:
        for columns in (None, ["a", "b"]):
            with pytest.raises(lp.ProgrammingError, match="named twice|several columns 'b'"):
                writer.insert_many("t", repeated(kind), columns=columns)
        writer.execute_batch("CREATE TABLE two(a, b)")
        connection = sqlite3.connect(":memory:")
        connection.row_factory = sqlite3.Row
        for sql in ("SELECT 1 AS a, 2 AS A", "SELECT 1 AS a, 2 AS b, 9 AS b"):
            with pytest.raises(lp.ProgrammingError, match="named twice"):
                writer.insert_many("two", connection.execute(sql).fetchall())
    assert rows_of(db) == [(1, 2, 3, 4, 5)] and rows_of(db, "two") == []


def test_columns_of_one_name_of_sqlalchemy_and_spark_keep_their_values(db: pathlib.Path) -> None:
    class Repeated(tuple[int, ...]):
        __fields__ = ["a", "b", "b"]

    lp.load(db, [Repeated((1, 2, 3))], table="t")
    assert rows_of(db) == [(1, 2, 3)]
    sqlalchemy = pytest.importorskip("sqlalchemy")
    with sqlalchemy.create_engine("sqlite://").connect() as connection:
        for name, rows in (("r", connection.execute(sqlalchemy.text(REPEATED))),
                           ("l", connection.execute(sqlalchemy.text(REPEATED)).all())):
            lp.load(db, rows, table=name)
            assert rows_of(db, name) == [(1, 2, 3, 4, 5)]


def test_rows_of_one_type_have_their_own_names(db: pathlib.Path) -> None:
    connection = sqlite3.connect(":memory:")
    connection.row_factory = sqlite3.Row
    rows = [*connection.execute("SELECT 1 AS a, 2 AS b"), *connection.execute("SELECT 3 AS b, 4 AS a")]
    lp.load(db, rows, table="t")
    with lp.Writer(db) as writer:
        writer.insert_many("t", rows)
    assert rows_of(db) == [(1, 2), (4, 3)] * 2
