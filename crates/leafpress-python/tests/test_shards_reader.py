"""Reads of shards that the command has made."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import pytest

import leafpress as lp
from leafpress._command import run_json

ROWS = 2_000


def make(folder: Path, by: str, *words: str, rows: int = ROWS) -> Path:
    """A folder of shards with four parts."""
    lines = [f"{id},person {id},{id / 7},{'' if id % 3 else id}" for id in range(rows)]
    (folder / "people.csv").write_text("\n".join(["id,name,height,note", *lines]) + "\n")
    options = ["--by", by, "--parts", "4", "--empty-null", *words, "--json"]
    run_json(["shard", folder / "people.csv", "--out", folder / "people", *options])
    return folder / "people"


def test_a_key_is_read_from_its_part(tmp_path: Path) -> None:
    with lp.Shards(make(tmp_path, "hash(id)", "--pk", "id")) as shards:
        assert shards.rows == ROWS and shards.manifest["routing"]["columns"] == ["id"]
        for id in (0, 1, 77, ROWS - 1):
            found = shards.get(id)
            assert found.columns == ["id", "name", "height", "note"]
            note = None if id % 3 else id
            assert found.fetchall() == [(id, f"person {id}", pytest.approx(id / 7), note)]
            # Equal values have one part.
            assert shards.part_of(id) == shards.part_of(float(id)) == shards.part_of((id,))
            assert shards.get([id]).fetchall() == shards.get(id).fetchall()
            sql = "SELECT name FROM people WHERE id = :id"
            assert shards.query(sql, {"id": id}, key=id).fetchone() == (f"person {id}",)
        assert shards.get(ROWS).fetchall() == []
        counts = shards.scan("SELECT count(*) FROM people WHERE id >= ?", (10,)).fetchall()
        assert len(counts) == 4 and sum(count for (count,) in counts) == ROWS - 10


def test_ranges_and_several_columns_have_keys(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    with lp.Shards(make(tmp_path / "a", "range(name)")) as shards:
        assert shards.get("person 5").fetchone()[0] == 5  # type: ignore[index]
    (tmp_path / "b").mkdir()
    with lp.Shards(make(tmp_path / "b", "hash(id,name)")) as shards:
        assert len(shards.get((5, "person 5")).fetchall()) == 1
        with pytest.raises(lp.ProgrammingError, match="id, name"):
            shards.get(5)
        with pytest.raises(lp.ProgrammingError, match="dict is no key"):
            shards.get({"id": 5, "name": "person 5"})


def test_rows_that_were_split_by_count_have_no_key(tmp_path: Path) -> None:
    with lp.Shards(make(tmp_path, "rows")) as shards:
        with pytest.raises(lp.ProgrammingError, match="scan"):
            shards.get(5)
        ids = [id for (id,) in shards.scan("SELECT id FROM people")]
        assert ids == list(range(ROWS))


def test_wrong_reads_are_told(tmp_path: Path) -> None:
    with pytest.raises(lp.ProgrammingError, match="_CURRENT"):
        lp.Shards(tmp_path)
    shards = lp.Shards(make(tmp_path, "hash(id)"))
    with pytest.raises(lp.ProgrammingError, match="cache_size"):
        lp.Shards(tmp_path / "people", cache=tmp_path / "cache", cache_size=-5)
    with pytest.raises(lp.Error, match="nothing"):
        shards.scan("SELECT nothing FROM people")
    with pytest.raises(lp.Error):
        shards.scan("DELETE FROM people")
    with pytest.raises(lp.DataError):
        shards.get(object())
    shards.close()
    with pytest.raises(lp.ProgrammingError, match="closed"):
        shards.get(1)


def test_runs_are_listed_rolled_back_and_collected(tmp_path: Path) -> None:
    folder = make(tmp_path, "hash(id)")
    first = lp.Shards(folder)
    make(tmp_path, "hash(id)", rows=10)
    second = lp.Shards(folder)
    assert (first.rows, second.rows) == (ROWS, 10)
    # A reader goes on with its run.
    assert first.get(ROWS - 1).fetchone() is not None
    assert [run["current"] for run in second.list()] == [False, True]
    second.rollback()
    assert lp.Shards(folder).run == first.run
    assert first.verify()["sound"]
    lost = folder / "runs" / first.run / "parts" / "00000-lost.db"
    lost.write_bytes(b"")
    assert first.gc()["files"] == []
    assert first.gc(older_than="0s", dry_run=True)["files"] and lost.exists()
    assert first.gc(older_than="0s")["files"] and not lost.exists()


def test_threads_read_at_once(tmp_path: Path) -> None:
    shards = lp.Shards(make(tmp_path, "hash(id)"))
    wrong: list[int] = []

    def read(first: int) -> None:
        for id in range(first, ROWS, 8):
            if shards.get(id).fetchall()[0][0] != id:
                wrong.append(id)

    threads = [threading.Thread(target=read, args=(first,)) for first in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


@pytest.mark.timeout(60)
def test_a_signal_stops_a_scan(tmp_path: Path, ctrl_c: None) -> None:
    shards = lp.Shards(make(tmp_path, "hash(id)"))
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        # Long, but with an end: nothing else would end a scan that takes no signal.
        shards.scan(SLOW.replace("30000000", "200000000"))
    assert time.monotonic() - began < 10
    assert len(shards.scan("SELECT 1 FROM people LIMIT 1").fetchall()) == 4


@pytest.mark.timeout(60)
def test_a_signal_stops_no_read_of_another_thread(tmp_path: Path, ctrl_c: None) -> None:
    shards, is_over = lp.Shards(make(tmp_path, "hash(id)")), threading.Event()
    raised: list[BaseException] = []

    def read() -> None:
        while not is_over.is_set():
            try:
                shards.part_of(1)
            except BaseException as error:
                raised.append(error)

    reading = threading.Thread(target=read)
    reading.start()
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
    try:
        with pytest.raises(KeyboardInterrupt):
            shards.scan("SELECT sum(a.id + b.id + c.id) FROM people a, people b, people c WHERE a.id < 400")
    finally:
        is_over.set()
        reading.join()
    assert raised == []


def test_a_key_is_compared_as_sql_compares_it(tmp_path: Path) -> None:
    for place, by in enumerate(("hash(id)", "range(id)")):
        (tmp_path / str(place)).mkdir()
        with lp.Shards(make(tmp_path / str(place), by, rows=50)) as shards:
            for id in range(50):
                keys = (id, str(id), f" {id}", float(id), Decimal(id), Decimal(f"{id}.0"))
                assert [len(shards.get(key).fetchall()) for key in keys] == [1] * len(keys)
            assert [len(shards.get(key).fetchall()) for key in (b"5", "x", 5.5, None)] == [0] * 4
    (tmp_path / "text").mkdir()
    with lp.Shards(make(tmp_path / "text", "hash(id)", "--type", "id=TEXT", rows=50)) as shards:
        assert [len(shards.get(id).fetchall()) for id in range(50)] == [1] * 50
    (tmp_path / "null").mkdir()
    with lp.Shards(make(tmp_path / "null", "hash(note)", rows=50)) as shards:
        assert len(shards.get(float("nan")).fetchall()) == len(shards.get(None).fetchall()) == 33


# Some seconds: nothing ends it sooner, and it takes the processor from the tests behind it.
SLOW = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < 30000000) SELECT count(*) FROM c"


def read_slowly(shards: lp.Shards, key: int = 1) -> threading.Thread:
    """A thread that has the part of a key for long."""
    reading = threading.Thread(target=lambda: shards.query(SLOW, key=key), daemon=True)
    reading.start()
    time.sleep(0.3)
    return reading


@pytest.mark.timeout(60)
@pytest.mark.parametrize("read", [lambda shards, key: shards.get(key), lambda shards, _: shards.scan("SELECT 1")])
def test_a_signal_stops_a_wait_for_another_thread(
    read: Callable[[lp.Shards, int], lp.Result], tmp_path: Path, ctrl_c: None
) -> None:
    shards = lp.Shards(make(tmp_path, "hash(id)"))
    # A scan begins with the first part.
    key = next(id for id in range(ROWS) if shards.part_of(id) == 0)
    reading = read_slowly(shards, key)
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        read(shards, key)
    assert reading.is_alive()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork: its children are not tested")
@pytest.mark.timeout(60)
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_child_of_fork_is_told_to_open_its_own(tmp_path: Path) -> None:
    folder = make(tmp_path, "hash(id)")
    shards = lp.Shards(folder)
    read_slowly(shards)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            calls = [lambda: shards.get(1), lambda: shards.scan("SELECT 1"), lambda: shards.part_of(1), shards.close]
            kinds = []
            for call in calls:
                try:
                    call()
                except lp.ProgrammingError as error:
                    kinds.append(error.kind)
            del shards, calls, call
            if kinds == ["forked"] * 4 and len(lp.Shards(folder).get(1).fetchall()) == 1:
                status = 0
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
