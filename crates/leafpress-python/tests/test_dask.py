"""A frame of Dask into one file, by threads and by processes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import leafpress as lp
from stock import query

pytest.importorskip("dask.dataframe", reason="Dask is not installed: its writer is not tested")
import dask
import dask.dataframe
import pandas
from leafpress.dask import to_sqlite, write

ROWS = 4_000


def frame(partitions: int = 20) -> Any:
    rows = pandas.DataFrame({"id": range(ROWS), "name": [f"person {id}" for id in range(ROWS)]})
    return dask.dataframe.from_pandas(rows, npartitions=partitions)


@pytest.mark.parametrize("scheduler", ["threads", "processes"])
def test_all_rows_are_in_one_table(scheduler: str, tmp_path: Path) -> None:
    database = tmp_path / "app.db"
    with dask.config.set(scheduler=scheduler, num_workers=4):
        assert to_sqlite(frame(), database, "people") == ROWS
        expected = [(ROWS, ROWS, ROWS * (ROWS - 1) // 2)]
        assert query(database, "SELECT count(*), count(DISTINCT id), sum(id) FROM people") == expected
        with pytest.raises(lp.OperationalError):
            to_sqlite(frame(), database, "people")
        assert query(database, "SELECT count(*) FROM people") == [(ROWS,)]
        assert to_sqlite(frame(3), database, "people", if_exists="append") == ROWS
    assert query(database, "SELECT count(*) FROM people") == [(2 * ROWS,)]
    assert query(database, "SELECT name FROM sqlite_schema") == [("people",)]


def test_a_named_index_becomes_a_column(tmp_path: Path) -> None:
    to_sqlite(frame().set_index("id"), tmp_path / "app.db", "people")
    assert query(tmp_path / "app.db", "SELECT * FROM people WHERE id = 5") == [(5, "person 5")]


def test_a_write_that_fails_leaves_no_table(tmp_path: Path) -> None:
    def fail(part: pandas.DataFrame) -> pandas.DataFrame:
        if len(part) and part["id"].iloc[0] > ROWS // 2:
            raise ValueError("a later partition")
        return part

    failing = frame().map_partitions(fail, meta=frame()._meta)
    with dask.config.set(scheduler="synchronous"), pytest.raises(ValueError, match="a later partition"):
        to_sqlite(failing, tmp_path / "app.db", "people")
    assert query(tmp_path / "app.db", "SELECT name FROM sqlite_schema") == []
    with dask.config.set(scheduler="synchronous"):
        to_sqlite(frame(), tmp_path / "app.db", "people")
        with pytest.raises(ValueError, match="a later partition"):
            to_sqlite(failing, tmp_path / "app.db", "people", if_exists="append")
    # Of the partitions each is there as a whole, or not at all.
    [(count,)] = query(tmp_path / "app.db", "SELECT count(*) FROM people")
    assert count >= ROWS and (count - ROWS) % (ROWS // 20) == 0
    assert query(tmp_path / "app.db", "SELECT name FROM sqlite_schema") == [("people",)]


@pytest.mark.parametrize("values", [[1, 2**60], [1.5, 2.0], [True, False], [1, "x"]])
def test_numbers_among_objects_never_become_texts(values: list[Any], tmp_path: Path) -> None:
    rows = pandas.DataFrame({"id": [1, 2], "a": pandas.Series(values, dtype=object)})
    with dask.config.set({"scheduler": "synchronous", "dataframe.convert-string": False}):
        given = dask.dataframe.from_pandas(rows, npartitions=1)
        with pytest.raises(lp.DataError, match=r"column 'a' of objects.*\n.*\n.*astype"):
            to_sqlite(given, tmp_path / "app.db", "t")
        assert query(tmp_path / "app.db", "SELECT name FROM sqlite_schema") == []
        with pytest.raises(lp.DataError, match="column 'a' of objects"):
            write(given, tmp_path / "shards", by="hash(id)", parts=1)
        assert not (tmp_path / "shards").exists()
        # A table that is there says what a number becomes.
        lp.load(tmp_path / "app.db", [{"id": 0, "a": None}], table="t", create="CREATE TABLE t(id INTEGER, a)")
        to_sqlite(given, tmp_path / "app.db", "t", if_exists="append")
    assert query(tmp_path / "app.db", "SELECT a FROM t WHERE id > 0 ORDER BY id") == [(value,) for value in values]


def test_bytes_among_objects_stay_bytes(tmp_path: Path) -> None:
    rows = pandas.DataFrame({"id": [1, 2], "a": pandas.Series([b"abc", None], dtype=object)})
    with dask.config.set({"scheduler": "synchronous", "dataframe.convert-string": False}):
        given = dask.dataframe.from_pandas(rows, npartitions=1)
        to_sqlite(given, tmp_path / "app.db", "t")
        assert query(tmp_path / "app.db", "SELECT a FROM t ORDER BY id") == [(b"abc",), (None,)]
        with pytest.raises(lp.DataError, match="of type bytes"):
            write(given, tmp_path / "shards", by="hash(id)", parts=1)
        texts = dask.dataframe.from_pandas(rows.assign(a=["é", None]), npartitions=1)
        write(texts, tmp_path / "shards", by="hash(id)", parts=1)
    with lp.Shards(tmp_path / "shards") as shards:
        assert shards.scan("SELECT a FROM shards ORDER BY id").fetchall() == [("é",), (None,)]


CATEGORIES = 1_000


def with_categories(values: list[Any], *, known: bool) -> Any:
    rows = pandas.DataFrame({"id": range(len(values)), "a": values})
    if known:
        return dask.dataframe.from_pandas(rows.astype({"a": "category"}), npartitions=2)
    return dask.dataframe.from_pandas(rows, npartitions=2).astype({"a": "category"})


@pytest.mark.parametrize(
    "values",
    [
        [number / 4 for number in range(CATEGORIES)],
        [True, False] * 50,
        list(range(CATEGORIES)),
        list(pandas.date_range("2026-01-01", periods=9)),
        [f"c{number}" for number in range(CATEGORIES)],
    ],
)
def test_categories_that_dask_does_not_know_are_refused(values: list[Any], tmp_path: Path) -> None:
    unknown = with_categories(values, known=False)
    with pytest.raises(lp.ProgrammingError, match=r"categories of the column 'a'.*\n.*as_known"):
        write(unknown, tmp_path / "shards", by="hash(id)", parts=2)
    with pytest.raises(lp.ProgrammingError, match=r"categories of the column 'a'.*\n.*as_known"):
        to_sqlite(unknown, tmp_path / "app.db", "t")
    assert list(tmp_path.iterdir()) == []
    plain = pandas.DataFrame({"id": range(len(values)), "a": values})
    lp.load(tmp_path / "plain.db", plain, table="t")
    expected = query(tmp_path / "plain.db", "SELECT id, a FROM t ORDER BY id")
    # What the advice says works.
    write(unknown.assign(a=unknown["a"].cat.as_known()), tmp_path / "shards", by="hash(a)", parts=2)
    with lp.Shards(tmp_path / "shards") as shards:
        assert sorted(shards.scan("SELECT id, a FROM shards").fetchall()) == expected
    # A table that is there has types of its own.
    lp.load(tmp_path / "app.db", plain.iloc[:0], table="t")
    assert to_sqlite(unknown, tmp_path / "app.db", "t", if_exists="append") == len(values)
    assert query(tmp_path / "app.db", "SELECT id, a FROM t ORDER BY id") == expected


@pytest.mark.parametrize(
    "values",
    [
        [None if number == 500 else 2**60 + number for number in range(CATEGORIES)],
        [number / 4 for number in range(CATEGORIES)],
        [f"c{number}" for number in range(CATEGORIES)],
    ],
)
def test_many_known_categories_keep_their_type(values: list[Any], tmp_path: Path) -> None:
    given = pandas.array(values, dtype="Int64") if None in values else values
    known = with_categories(given, known=True)
    write(known, tmp_path / "shards", by="range(a)" if None not in values else "hash(a)", parts=3)
    with lp.Shards(tmp_path / "shards") as shards:
        found = shards.scan("SELECT id, a FROM shards").fetchall()
        assert sorted(found) == list(enumerate(values))
        assert all(shards.get(value).fetchall() for value in values[::100])
    to_sqlite(known, tmp_path / "app.db", "t")
    assert query(tmp_path / "app.db", "SELECT a FROM t ORDER BY id") == [(value,) for value in values]
