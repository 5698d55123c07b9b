"""A frame of Dask into one file, by threads and by processes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import leafpress as lp
from stock import query

pytest.importorskip("dask.dataframe", reason="Dask is not installed: its writer is not tested")
import dask  # noqa: E402
import dask.dataframe  # noqa: E402
import pandas  # noqa: E402
from leafpress.dask import to_sqlite  # noqa: E402

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
