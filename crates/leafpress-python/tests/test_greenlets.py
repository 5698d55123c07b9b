"""Greenlets, as of gevent and eventlet: many share a thread, and a transaction of one stops no other for ever."""

from __future__ import annotations

import gc
import pathlib
import sqlite3
import sys
import threading
import types
from collections.abc import Callable
from contextlib import closing
from typing import Any

import leafpress as lp
import pytest

greenlet: Any = pytest.importorskip("greenlet")


@pytest.fixture
def path(tmp_path: pathlib.Path) -> pathlib.Path:
    path = tmp_path / "a.db"
    with lp.Writer(path) as writer:
        writer.execute_batch("CREATE TABLE t(a)")
    return path


def rows_in(path: pathlib.Path) -> list[int]:
    with closing(sqlite3.connect(path)) as connection:
        return [a for (a,) in connection.execute("SELECT a FROM t ORDER BY a")]


def begun(writer: lp.Writer) -> Any:
    """A greenlet that has a transaction open, and waits in it."""

    def run() -> None:
        with writer.transaction() as tx:
            tx.execute("INSERT INTO t VALUES (1)")
            greenlet.getcurrent().parent.switch()
            tx.execute("INSERT INTO t VALUES (2)")

    made = greenlet.greenlet(run)
    made.switch()
    return made


@pytest.mark.timeout(60)
def test_a_call_that_waits_for_another_greenlet_of_its_thread_is_refused(path: pathlib.Path) -> None:
    writer = lp.Writer(path)
    queue = lp.Queue(writer, "q")
    queue.push(1)
    work = queue.work(until_empty=True)
    other = begun(writer)
    ticket = writer.submit("INSERT INTO t VALUES (3)")
    calls: list[Callable[[], Any]] = [
        lambda: writer.execute("INSERT INTO t VALUES (9)"),
        lambda: writer.execute_batch("INSERT INTO t VALUES (9)"),
        lambda: writer.insert_many("t", [(9,)]),
        lambda: writer.transaction().__enter__(),
        lambda: writer.maintain("optimize"),
        lambda: writer.backup(path.with_suffix(".copy")),
        ticket.result,
        writer.close,
        lambda: queue.push(9),
        queue.claim,
        lambda: queue.ack("1.1"),
        lambda: lp.Queue(writer, "other"),
        lambda: next(work),
        work.close,
        lambda: queue.work(print),
    ]
    for call in calls:
        with pytest.raises(lp.ProgrammingError, match="another greenlet of this thread") as caught:
            call()
        assert (caught.value.kind, caught.value.is_retryable) == ("misuse", False)
        assert "lock of gevent" in str(caught.value.to_do)
    assert writer.query("SELECT count(*) FROM t").fetchall() == [(0,)]
    assert len(queue.list("ready")) == 1
    other.switch()
    ticket.result()
    work.close()
    writer.execute("INSERT INTO t VALUES (4)")
    writer.close()
    assert rows_in(path) == [1, 2, 3, 4]


@pytest.mark.timeout(60)
def test_a_call_without_room_is_refused_beside_a_transaction_of_its_thread(path: pathlib.Path) -> None:
    with lp.Writer(path, queue_capacity=1) as writer:
        other = begun(writer)
        ticket = writer.submit("INSERT INTO t VALUES (3)")
        with pytest.raises(lp.QueueFull):
            writer.submit("INSERT INTO t VALUES (9)")
        other.switch()
        ticket.result()
    assert rows_in(path) == [1, 2, 3]


def test_other_writers_and_threads_are_not_refused(path: pathlib.Path, tmp_path: pathlib.Path) -> None:
    with lp.Writer(path) as writer, lp.Writer(tmp_path / "b.db") as another:
        other = begun(writer)
        another.execute("CREATE TABLE t(a)")
        thread = threading.Thread(target=lambda: writer.execute("INSERT INTO t VALUES (5)"))
        thread.start()
        other.switch()
        thread.join(20)
        assert not thread.is_alive()
    assert rows_in(path) == [1, 2, 5]


def test_a_greenlet_that_is_forgotten_has_its_transaction_rolled_back(path: pathlib.Path) -> None:
    with lp.Writer(path) as writer:
        other = begun(writer)
        del other
        gc.collect()
        writer.execute("INSERT INTO t VALUES (7)")
        # Nor does one that was left open without its block.
        left = writer.transaction().__enter__()
        del left
        gc.collect()
        greenlet.greenlet(lambda: writer.execute("INSERT INTO t VALUES (8)")).switch()
    assert rows_in(path) == [7, 8]


def test_work_of_many_threads_is_refused_where_threads_are_greenlets(
    path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the question whether `threading` is patched is the test's own: gevent itself would patch
    the process of all tests."""
    for module, question, name in [
        ("gevent.monkey", "is_module_patched", "threading"),
        ("eventlet.patcher", "is_monkey_patched", "thread"),
    ]:
        with monkeypatch.context() as patched, lp.Writer(path) as writer:
            patcher = types.ModuleType(module)
            setattr(patcher, question, lambda asked, name=name: asked == name)
            patched.setitem(sys.modules, module, patcher)
            queue = lp.Queue(writer, "q")
            queue.push(1)
            with pytest.raises(lp.ProgrammingError, match="are greenlets") as caught:
                queue.work(lambda job: None, concurrency=2, until_empty=True)
            assert caught.value.to_do is not None
            assert queue.work(lambda job: None, until_empty=True).done == 1
