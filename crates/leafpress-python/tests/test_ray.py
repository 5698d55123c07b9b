"""A dataset of Ray into one file, by real tasks in processes of Ray."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import leafpress as lp
from stock import query

ray = pytest.importorskip("ray", reason="Ray is not installed: its Datasink is not tested")
pytest.importorskip("pyarrow")
from leafpress.ray import LeafpressDatasink, write

ROWS = 5_000
TASKS = 20


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[None]:
    ray.init(
        num_cpus=4,
        include_dashboard=False,
        log_to_driver=False,
        runtime_env={"env_vars": {"PYTHONPATH": os.environ.get("PYTHONPATH", "")}},
    )
    ray.data.DataContext.get_current().enable_progress_bars = False
    yield
    ray.shutdown()


def dataset() -> Any:
    def with_text(row: dict[str, Any]) -> dict[str, Any]:
        return {"id": row["id"], "name": f"person {row['id']}"}

    return ray.data.range(ROWS, override_num_blocks=TASKS).map(with_text)


def test_all_rows_of_a_dataset_are_in_one_table(tmp_path: Path) -> None:
    database = tmp_path / "app.db"
    dataset().write_datasink(LeafpressDatasink(database, "people"))
    assert query(database, "SELECT count(*), count(DISTINCT id), sum(id) FROM people") == [
        (ROWS, ROWS, ROWS * (ROWS - 1) // 2)
    ]
    assert query(database, "SELECT name, typeof(id) FROM people WHERE id = 7") == [("person 7", "integer")]
    assert query(database, "SELECT name FROM sqlite_schema ORDER BY 1") == [("people",)]
    assert query(database, "PRAGMA integrity_check") == [("ok",)]

    with pytest.raises(Exception, match="people"):
        dataset().write_datasink(LeafpressDatasink(database, "people"))
    assert query(database, "SELECT count(*) FROM people") == [(ROWS,)]
    dataset().write_datasink(LeafpressDatasink(database, "people", if_exists="append"))
    assert query(database, "SELECT count(*) FROM people") == [(2 * ROWS,)]


def test_a_task_that_dies_after_its_commit_writes_nothing_twice(tmp_path: Path) -> None:
    """A process of Ray is killed after its transaction; Ray tries the task again."""
    database, died = tmp_path / "app.db", tmp_path / "died"

    class Dying(LeafpressDatasink):
        def write(self, blocks: Any, ctx: Any) -> int:
            count = super().write(blocks, ctx)
            if ctx.task_idx == 3 and not died.exists():
                died.touch()
                os._exit(1)
            return count

    dataset().write_datasink(Dying(database, "people"))
    assert died.exists()
    assert query(database, "SELECT count(*), count(DISTINCT id) FROM people") == [(ROWS, ROWS)]
    assert query(database, "SELECT name FROM sqlite_schema") == [("people",)]


def test_a_write_that_fails_leaves_no_table(tmp_path: Path) -> None:
    database = tmp_path / "app.db"

    class Failing(LeafpressDatasink):
        def write(self, blocks: Any, ctx: Any) -> int:
            if ctx.task_idx == 3:
                raise ValueError("the third task")
            return super().write(blocks, ctx)

    with pytest.raises(Exception, match="the third task"):
        dataset().write_datasink(Failing(database, "people"), concurrency=1)
    assert query(database, "SELECT name FROM sqlite_schema") == []


def test_another_if_exists_is_refused(tmp_path: Path) -> None:
    with pytest.raises(lp.ProgrammingError, match="append"):
        LeafpressDatasink(tmp_path / "app.db", "people", if_exists="replace")


def without_many(first: int, last: int) -> Any:
    """Rows of a range. Blocks of which the function gives none have no columns."""
    rows = ray.data.range(100, override_num_blocks=5)
    return rows.flat_map(lambda row: [row] if first <= row["id"] < last else [])


@pytest.mark.parametrize("span", [(0, 30), (70, 100), (45, 46)])
def test_blocks_without_columns_are_passed_over(span: tuple[int, int], tmp_path: Path) -> None:
    database, expected = tmp_path / "app.db", [(id,) for id in range(*span)]
    without_many(*span).write_datasink(LeafpressDatasink(database, "t"))
    assert query(database, "SELECT * FROM t ORDER BY id") == expected
    with pytest.raises(Exception, match="there is a table t already"):
        without_many(*span).write_datasink(LeafpressDatasink(database, "t"))
    without_many(*span).write_datasink(LeafpressDatasink(database, "t", if_exists="append"))
    assert query(database, "SELECT * FROM t ORDER BY id") == sorted(2 * expected)
    assert query(database, "SELECT name FROM sqlite_schema") == [("t",)]
    for by in ("hash(id)", "range(id)", "rows"):
        assert write(without_many(*span), tmp_path / by, by=by, parts=3, table="t").rows == len(expected)
        with lp.Shards(tmp_path / by) as shards:
            assert sorted(shards.scan("SELECT * FROM t").fetchall()) == expected


def test_blocks_without_columns_alone_make_no_table(tmp_path: Path) -> None:
    without_many(0, 0).write_datasink(LeafpressDatasink(tmp_path / "app.db", "t"))
    assert query(tmp_path / "app.db", "SELECT name FROM sqlite_schema") == []
    with pytest.raises(lp.ProgrammingError, match="no columns are known"):
        write(without_many(0, 0), tmp_path / "out", by="range(id)", parts=2)
    assert not (tmp_path / "out").exists()
    # Ray knows the columns where rows are only left out.
    none = ray.data.range(100, override_num_blocks=5).filter(lambda row: False)
    assert write(none, tmp_path / "out", by="range(id)", parts=2).rows == 0


def test_a_failure_drops_a_table_that_a_task_has_made(tmp_path: Path) -> None:
    class Failing(LeafpressDatasink):
        def write(self, blocks: Any, ctx: Any) -> int:
            if super().write(blocks, ctx):
                raise ValueError("after the rows")
            return 0

    with pytest.raises(Exception, match="after the rows"):
        without_many(45, 100).write_datasink(Failing(tmp_path / "app.db", "t"), concurrency=1)
    assert query(tmp_path / "app.db", "SELECT name FROM sqlite_schema") == []
