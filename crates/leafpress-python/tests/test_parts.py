"""One write of many parts, as Dask and Ray have it: tasks that come too late, and a beginning that fails."""

from __future__ import annotations

import copy
import sqlite3
from pathlib import Path
from typing import Any

import pytest

import leafpress as lp
from leafpress._parts import Parts
from stock import query

pandas = pytest.importorskip("pandas", reason="pandas is not installed: parts are not tested")


@pytest.mark.parametrize("another_runs", [True, False])
@pytest.mark.parametrize("fails", [True, False])
def test_a_task_that_outlives_its_write_writes_nothing(another_runs: bool, fails: bool, tmp_path: Path) -> None:
    database, rows = tmp_path / "app.db", pandas.DataFrame({"a": [1, 2, 3]})
    lp.load(database, rows.iloc[:0], table="t")
    parts = Parts(database, "t", "append")
    parts.begin(rows.iloc[:0])
    assert (parts.write(0, [rows]), parts.write(0, [rows])) == (3, 0)
    other = Parts(database, "u", "fail")
    if another_runs:
        other.begin(rows.iloc[:0])
    if fails:
        parts.abandon()
    else:
        parts.end()
    for part in (0, 1):
        with pytest.raises(lp.OperationalError, match="the write into 't' has ended") as caught:
            parts.write(part, [rows])
        assert caught.value.on_disk == "nothing of this part"
    assert query(database, "SELECT count(*) FROM t") == [(3,)]
    if another_runs:
        assert other.write(0, [rows]) == 3
        other.end()
    assert query(database, "SELECT name FROM sqlite_schema WHERE name LIKE '%part%'") == []


def test_a_beginning_that_fails_leaves_no_table(tmp_path: Path) -> None:
    database, rows = tmp_path / "app.db", pandas.DataFrame({"a": [1, 2, 3]})
    connection = sqlite3.connect(database)
    # So the table is made, and the ledger is not.
    connection.execute("CREATE VIEW _leafpress_part AS SELECT 1 AS id, 2 AS part")
    connection.close()
    parts = Parts(database, "t", "fail")
    with pytest.raises(lp.OperationalError, match="view"):
        parts.begin(rows.iloc[:0])
    parts.abandon()
    assert query(database, "SELECT name FROM sqlite_schema") == [("_leafpress_part",)]


@pytest.mark.parametrize("if_exists", ["fail", "append"])
def test_the_first_part_with_columns_makes_the_table(if_exists: Any, tmp_path: Path) -> None:
    database, rows = tmp_path / "app.db", pandas.DataFrame({"a": [1, 2], "b": ["x", None]})
    parts = Parts(database, "t", if_exists)
    parts.begin(None)
    assert parts.write(0, []) == 0
    assert query(database, "SELECT name FROM sqlite_schema") == [("_leafpress_part",)]
    # A task has a copy.
    assert copy.copy(parts).write(1, [rows]) == 2
    assert parts.write(2, [rows]) == 2
    assert query(database, "SELECT sql FROM sqlite_schema WHERE name = 't'") != []
    parts.abandon()
    assert query(database, "SELECT name FROM sqlite_schema") == []
    lp.load(database, rows, table="t")
    parts = Parts(database, "t", if_exists)
    if if_exists == "fail":
        with pytest.raises(lp.OperationalError, match="there is a table t already"):
            parts.begin(None)
    else:
        parts.begin(None)
        parts.write(0, [rows])
    parts.abandon()
    rows_now = 2 if if_exists == "fail" else 4
    assert query(database, "SELECT count(*) FROM t") == [(rows_now,)]


def test_a_table_that_appears_before_the_first_part_is_not_taken_for_ones_own(tmp_path: Path) -> None:
    database, rows = tmp_path / "app.db", pandas.DataFrame({"a": [1, 2]})
    adding, making = Parts(database, "t", "append"), Parts(database, "t", "fail")
    adding.begin(None)
    making.begin(None)
    lp.load(database, rows, table="t")
    with pytest.raises(lp.OperationalError, match="already exists"):
        making.write(0, [rows])
    assert adding.write(0, [rows]) == 2
    making.abandon()
    adding.abandon()
    assert query(database, "SELECT count(*) FROM t") == [(4,)]


@pytest.mark.parametrize("if_exists", ["fail", "append"])
@pytest.mark.parametrize("columns_are_known", [True, False])
def test_a_failure_drops_no_rows_of_another_write(if_exists: Any, columns_are_known: bool, tmp_path: Path) -> None:
    database, rows = tmp_path / "app.db", pandas.DataFrame({"a": [1, 2]})
    making, adding = Parts(database, "t", if_exists), Parts(database, "t", "append")
    making.begin(rows.iloc[:0] if columns_are_known else None)
    making.write(0, [rows])
    adding.begin(rows.iloc[:0])
    adding.write(0, [rows])
    adding.end()
    making.abandon()
    assert query(database, "SELECT count(*) FROM t") == [(4,)]
    assert query(database, "SELECT name FROM sqlite_schema") == [("t",)]
    # One that has added none, as one that has failed too, holds nothing back.
    making, adding = Parts(database, "u", if_exists), Parts(database, "u", "append")
    making.begin(rows.iloc[:0])
    making.write(0, [rows])
    adding.begin(rows.iloc[:0])
    adding.abandon()
    making.abandon()
    assert query(database, "SELECT name FROM sqlite_schema") == [("t",)]
