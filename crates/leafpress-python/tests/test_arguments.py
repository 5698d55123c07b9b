"""Arguments that are wrong, of all public functions: each error is ours, and names the argument and what it takes."""

from __future__ import annotations

import asyncio
import inspect
import os
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import leafpress as lp
from leafpress import _arguments

HALF = "caf\udce9"
WRONG: dict[str, Any] = {"None": None, "object": object(), "half": HALF, "number": 1.5}
ROWS = [{"id": 1, "a": "x"}]
COMMANDS = (lp.verify, lp.doctor, lp.storage, lp.advise, lp.index, lp.bench)
CLASSES = (
    lp.Writer, lp.Ticket, lp.Transaction, lp.AsyncWriter, lp.AsyncTransaction, lp.SyncQueue, lp.AsyncQueue, lp.Shards,
)
# Of these the native module checks the SQL and the parameters.
CALLED_MOST = {"execute", "submit", "query", "reader"}


def refused(name: str, call: Callable[[], Any]) -> str:
    """The text of the error of a call, which names an argument."""
    with pytest.raises((lp.ProgrammingError, lp.DataError)) as caught:
        call()
    assert caught.value.kind in ("misuse", "bad_row") and name in str(caught.value)
    return str(caught.value)


def is_checked(function: Any) -> bool:
    return bool(function.__code__.co_filename == _arguments.__file__)


def test_the_arguments_of_all_public_functions_are_checked() -> None:
    assert all(map(is_checked, (lp.load, *COMMANDS)))
    for kind in CLASSES:
        for name, method in inspect.getmembers(kind, inspect.isfunction):
            if not name.startswith("_") and len(inspect.signature(method).parameters) > 1 and name in vars(kind):
                assert is_checked(method) is (name not in CALLED_MOST or kind is lp.Shards), (kind, name)
    assert inspect.iscoroutinefunction(lp.AsyncQueue.push)


@pytest.mark.parametrize("name", [*lp.LoadOptions.__annotations__, "db", "dry_run"])
def test_options_of_a_load(tmp_path: Path, name: str) -> None:
    annotation = inspect.signature(lp.load).parameters[name].annotation
    takes_none = "None" in annotation or annotation == "Names"
    paths, numbers = ("db", "rejects", "tmpdir"), ("busy_timeout",)
    for kind, value in WRONG.items():
        if (kind == "None" and takes_none) or (kind == "half" and name in paths) or (kind == "number" and name in numbers):
            continue
        options = {"db": tmp_path / "a.db", "table": "t", "on_error": "skip", name: value}
        text = refused(name, lambda: lp.load(source=b"id,a\n1,x\n", **options))
        assert text.startswith((f"{name} is ", f"{name}="))
    assert list(tmp_path.iterdir()) == []


def test_no_path_has_half_a_surrogate_pair(tmp_path: Path) -> None:
    path = tmp_path / "a\ud800.db"
    for call in (
        lambda: lp.load(path, [{"a": 1}], table="t"),
        lambda: lp.Writer(path),
        lambda: lp.AsyncWriter(path),
        lambda: lp.Queue(path),
        lambda: lp.Shards(path),
        lambda: lp.verify(path),
        lambda: lp.index(path, "t", "a"),
    ):
        refused("path is no UTF-8", call)
    with lp.Writer(tmp_path / "a.db") as writer:
        refused("path is no UTF-8", lambda: writer.backup(path))
    for command in (lp.verify, lp.doctor, lp.storage):
        refused("has a NUL character", lambda: command("a\0b.db"))
    # A name of any bytes is one.
    name = os.fsencode(tmp_path) + b"/\xff.db"
    with lp.Writer(name) as writer:
        writer.execute("CREATE TABLE t(a)")
    assert os.path.exists(name) and lp.verify(name)["sound"]


def test_no_text_has_half_a_surrogate_pair(tmp_path: Path) -> None:
    db, source = tmp_path / "a.db", b"id,a\n1,x\n"
    for name in ("pk", "index", "unique", "columns", "select", "drop", "not_null", "null"):
        for names in ([HALF], iter([HALF])):
            refused(f"{name} is no UTF-8", lambda: lp.load(db, source, table="t", **{name: names}))
        refused(f"{name}", lambda: lp.load(db, source, table="t", **{name: iter([5])}))
    for name in ("types", "rename"):
        refused(f"{name} is no UTF-8", lambda: lp.load(db, source, table="t", **{name: {"a": HALF}}))
    assert not db.exists()
    with lp.Writer(db) as writer:
        writer.execute("CREATE TABLE t(a)")
        with writer.transaction() as tx, writer.reader() as reader:
            for each in (writer, tx):
                refused("table is no UTF-8", lambda: each.insert_many(HALF, [(1,)]))
                refused("columns is no UTF-8", lambda: tx.insert_many("t", [{HALF: 1}]))
                refused("columns: 'int'", lambda: tx.insert_many("t", [{5: 1}]))
            for call in (tx.execute, tx.execute_batch, reader.execute, writer.query, writer.submit):
                refused("sql is no UTF-8", lambda: call(HALF))
                refused("sql", lambda: call(None))
        assert writer.query("SELECT * FROM t").fetchall() == []
        queue = lp.Queue(writer, "mail")
        for name in ("name", "cron", "timezone", "missed"):
            call = {"name": "night", "cron": "@daily", name: HALF}
            refused(f"{name} is no UTF-8", lambda: queue.schedule(**call))
        refused("name is no UTF-8", lambda: queue.unschedule(HALF))
        refused("group is no UTF-8", lambda: queue.list(group=HALF))
        refused("states is no UTF-8", lambda: queue.list(HALF))
        refused("the token is no UTF-8", lambda: queue.ack_many([HALF]))
    refused("table is no UTF-8", lambda: lp.index(db, HALF, "a"))


@pytest.mark.parametrize("name", lp.WriterOptions.__annotations__)
def test_options_of_a_writer(tmp_path: Path, name: str) -> None:
    numbers = ("busy_timeout", "max_delay", "call_limit", "reader_wait")
    for kind, value in WRONG.items():
        if kind == "None":
            lp.Writer(tmp_path / "a.db", **{name: value}).close()
        elif kind != "number" or name not in numbers:
            refused(f"{name} is ", lambda: lp.Writer(tmp_path / "b.db", **{name: value}))
    assert not (tmp_path / "b.db").exists()


def test_limits_of_the_log(tmp_path: Path) -> None:
    for name in lp.CheckpointLimits.__annotations__:
        refused(f"{name} is ", lambda: lp.Writer(tmp_path / "a.db", checkpoint={name: "x"}))
    lp.Writer(tmp_path / "a.db", checkpoint={"slice_frames": None}).close()


def test_options_of_a_queue(tmp_path: Path) -> None:
    with lp.Queue(tmp_path / "a.db", "mail") as queue:
        for name in lp.JobOptions.__annotations__:
            refused(name, lambda: queue.push(1, **{"unique": "a", name: object()}))
            queue.push(1, **{name: None})
        for name in lp.WorkOptions.__annotations__:
            refused(name, lambda: queue.work(print, **{name: object()}))
            queue.push(1)
            assert queue.work(lambda job: None, **{"until_empty": True, "jobs_max": 1, name: None}).done
        settings = queue.settings()
        for name in ("lease", "attempts_max", "backoff_factor", "keep_done", "group_concurrency"):
            refused(name, lambda: queue.configure(**{name: None}))
            refused(name, lambda: queue.configure(**{name: "x"}))
        assert queue.settings() == settings
        for call in (queue.ack, queue.nack, queue.release, queue.extend, queue.fail):
            more = {"extend": [5], "fail": ["x"]}.get(call.__name__, [])
            assert refused("job", lambda: call(None, *more)) == "job is a Job or a str, not None"
        for call in (queue.retry, queue.remove, queue.job, queue.history):
            refused("id is an int", lambda: call("x"))
        refused("count is an int", lambda: queue.claim("x"))
        refused("a job is a Job", lambda: queue.ack_many([5]))
        refused("in_ is a Transaction", lambda: queue.push(1, in_="x"))
    for name in (None, 5):
        refused("name is a str", lambda: lp.Queue(tmp_path / "a.db", name))
    refused("writer is a Writer or a path", lambda: lp.Queue(None, "mail"))


def test_a_task_is_told_too(tmp_path: Path) -> None:
    async def main() -> None:
        async with lp.AsyncWriter(tmp_path / "a.db") as writer:
            with pytest.raises(lp.ProgrammingError, match="^table is a str, not None"):
                await writer.insert_many(None, [(1,)])  # type: ignore[arg-type]
            with pytest.raises(lp.ProgrammingError, match="^id is an int, not 'x' of type str"):
                await lp.Queue(writer, "mail").retry("x")  # type: ignore[arg-type]

    asyncio.run(main())


def test_an_error_of_the_callers_code_stays_as_it_is(tmp_path: Path) -> None:
    class Index:
        def __index__(self) -> int:
            raise ValueError("own")

    with pytest.raises(ValueError, match="own") as caught:
        lp.load(tmp_path / "a.db", ROWS, table="t", threads=Index())  # type: ignore[arg-type]
    assert not isinstance(caught.value, sqlite3.Error)


def test_what_was_taken_still_is(tmp_path: Path) -> None:
    numpy = pytest.importorskip("numpy")
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"id": [1], "a": ["x"]})
    db = tmp_path / "a.db"
    lp.load(db, [(1, "x")], table="t", columns=frame.columns, pk=(it for it in ["id"]), threads=numpy.int64(1),
            strict=numpy.bool_(False), busy_timeout=numpy.float32(1), types=dict(id=int))
    lp.load(db, ROWS, table="t", if_exists="append", on_conflict="ignore", busy_timeout=None)
    with lp.Writer(db, profile="Durable", busy_timeout=2) as writer:  # type: ignore[arg-type]
        assert writer.insert_many("t", [(2, "y")], frame.columns) == 1
        queue = lp.Queue(writer, "mail")
        queue.push(1)
        [job] = queue.claim()
        job.nack(HALF)
        assert queue.job(job.id)["error"] == r"caf\udce9"


def test_a_set_is_no_row_and_no_list_of_columns(tmp_path: Path) -> None:
    with lp.Writer(tmp_path / "a.db") as writer:
        writer.execute_batch("CREATE TABLE t(a, b)")
        for row in ({1, 2}, frozenset({1, 2})):
            with pytest.raises(lp.DataError, match="row 1: it is of type (frozen)?set, and no list"):
                writer.insert_many("t", [row])
        with pytest.raises(lp.ProgrammingError, match="^columns is a list of str"):
            writer.insert_many("t", [(1, 2)], {"a", "b"})  # type: ignore[arg-type]
        assert writer.insert_many("t", [(1, 2)], dict.fromkeys(["b", "a"]).keys()) == 1  # type: ignore[arg-type]
        assert writer.query("SELECT a, b FROM t").fetchall() == [(2, 1)]
