"""Calls that are cancelled or stopped by Ctrl-C, and transactions that several threads use."""

from __future__ import annotations

import asyncio
import contextvars
import operator
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from itertools import repeat
from pathlib import Path
from typing import Any

import pytest

import leafpress as lp

LIMIT_S = 30
NUMBERS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)"
ENDLESS_INSERT = f"{NUMBERS} INSERT INTO t SELECT i FROM n"
ENDLESS_QUERY = f"{NUMBERS} SELECT count(*) FROM n"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with lp.Writer(tmp_path / "a.db") as writer:
        writer.execute("CREATE TABLE t(x)")
    return tmp_path / "a.db"


def values_in(path: Path) -> list[Any]:
    with closing(sqlite3.connect(path)) as connection:
        return [x for (x,) in connection.execute("SELECT x FROM t ORDER BY rowid")]


@pytest.mark.timeout(60)
def test_a_step_that_is_cancelled_rolls_its_transaction_back(path: Path) -> None:
    async def main() -> None:
        async with lp.AsyncWriter(path) as writer:
            for is_queued in (False, True):
                with pytest.raises(lp.Cancelled) as caught:
                    async with writer.transaction() as tx:
                        await tx.execute("INSERT INTO t VALUES ('before')")
                        first = tx.execute(ENDLESS_INSERT)
                        late = tx.execute("INSERT INTO t VALUES ('late')") if is_queued else first
                        with pytest.raises(asyncio.TimeoutError):
                            await asyncio.wait_for(late, 0.2)
                        with pytest.raises(lp.Cancelled, match="step was cancelled"):
                            tx.execute("INSERT INTO t VALUES ('after')")
                        await asyncio.gather(first, return_exceptions=True)
                assert "nothing of the transaction" in str(caught.value.on_disk)
                await asyncio.wait_for(writer.execute("INSERT INTO t VALUES ('next')"), LIMIT_S)

    asyncio.run(main())
    assert values_in(path) == ["next", "next"]


@pytest.mark.timeout(60)
def test_a_query_that_is_cancelled_is_stopped(path: Path) -> None:
    async def main() -> None:
        async with lp.AsyncWriter(path, readers=1) as writer:
            async with writer.reader() as reader:
                with pytest.raises(asyncio.TimeoutError):
                    await asyncio.wait_for(reader.execute(ENDLESS_QUERY), 0.2)
                assert (await reader.execute("SELECT 1")).fetchall() == [(1,)]
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(writer.query(ENDLESS_QUERY), 0.2)
            assert (await writer.query("SELECT 2")).fetchall() == [(2,)]

    # At its end asyncio waits for the threads.
    asyncio.run(main())


def in_request(pool: ThreadPoolExecutor, call: Any, *arguments: Any) -> Any:
    """Has a thread make a call with a context of its own, as servers do for each request."""
    return pool.submit(contextvars.copy_context().run, call, *arguments)


def test_a_transaction_is_used_by_several_threads_one_after_the_other(path: Path) -> None:
    with lp.Writer(path) as writer:
        begins, uses, ends = (ThreadPoolExecutor(1) for _ in range(3))
        with begins, uses, ends:
            block = writer.transaction()
            tx = in_request(begins, block.__enter__).result(LIMIT_S)
            # The thread has another request now, which waits for the transaction's end.
            other = in_request(begins, writer.execute, "INSERT INTO t VALUES ('other')")
            in_request(uses, tx.execute, "INSERT INTO t VALUES ('used')").result(LIMIT_S)
            in_request(ends, block.__exit__, None, None, None).result(LIMIT_S)
            other.result(LIMIT_S)
    assert values_in(path) == ["used", "other"]


def test_a_transaction_outlives_the_thread_that_began_it_if_another_uses_it(path: Path) -> None:
    with lp.Writer(path) as writer:
        begun, uses = ThreadPoolExecutor(1), ThreadPoolExecutor(1)
        block = writer.transaction()
        tx = in_request(begun, block.__enter__).result(LIMIT_S)
        in_request(uses, tx.execute, "INSERT INTO t VALUES (1)").result(LIMIT_S)
        begun.shutdown()
        in_request(uses, tx.execute, "INSERT INTO t VALUES (2)").result(LIMIT_S)
        in_request(uses, block.__exit__, None, None, None).result(LIMIT_S)
        uses.shutdown()
    assert values_in(path) == [1, 2]


def test_a_thread_that_helps_in_a_transaction_does_not_end_it(path: Path) -> None:
    with lp.Writer(path) as writer, writer.transaction() as tx:
        helper = threading.Thread(target=tx.execute, args=("INSERT INTO t VALUES (1)",))
        helper.start()
        helper.join(LIMIT_S)
        tx.execute("INSERT INTO t VALUES (2)")
    assert values_in(path) == [1, 2]


# Another thread, which has a transaction until `over`.
HOLD = """
def hold():
    with writer.transaction() as tx:
        tx.execute("INSERT INTO t VALUES (1)")
        held.set()
        over.wait()
holder = threading.Thread(target=hold)
holder.start()
held.wait()
"""
WAITS = {
    "opening": """
other = sqlite3.connect(path, isolation_level=None)
other.execute("PRAGMA locking_mode = EXCLUSIVE")
other.execute("BEGIN EXCLUSIVE")
wait = lambda: lp.Writer(path, busy_timeout=600)
""",
    "checkpoint": """
writer = lp.Writer(path, busy_timeout=600)
other = sqlite3.connect(path, isolation_level=None)
other.execute("BEGIN")
other.execute("SELECT * FROM t").fetchall()
writer.execute("INSERT INTO t VALUES (1)")
wait = lambda: writer.maintain("checkpoint")
""",
    "maintenance that waits for its turn": f"""
writer = lp.Writer(path)
{HOLD}
wait = lambda: writer.maintain("vacuum")
""",
    "a push": f"""
writer = lp.Writer(path)
queue = lp.Queue(writer, "mail")
{HOLD}
wait = lambda: queue.push(1)
""",
    "a claim": f"""
writer = lp.Writer(path)
queue = lp.Queue(writer, "mail")
{HOLD}
wait = queue.claim
""",
    "a backup": f"""
writer = lp.Writer(path)
{HOLD}
wait = lambda: writer.backup(path + ".copy")
""",
    "the opening of a queue": f"""
writer = lp.Writer(path)
{HOLD}
wait = lambda: lp.Queue(writer, "mail")
""",
    "close": f"writer = lp.Writer(path)\n{HOLD}wait = writer.close\n",
}
ROW = "INSERT INTO t VALUES ('never')"
WAITS |= {
    f"room for {call}": f"""
writer = lp.Writer(path, queue_capacity=1)
{HOLD}
writer.submit("DELETE FROM t WHERE x = 9")
wait = lambda: writer.{call}
"""
    for call in (
        f'submit("{ROW}")',
        f'execute("{ROW}")',
        f'execute_batch("{ROW}")',
        'insert_many("t", [("never",)], ["x"])',
    )
}
# The main thread carries these out itself.
LOCK = """
other = sqlite3.connect(path, isolation_level=None)
other.execute("BEGIN IMMEDIATE")
"""
CARRIED_OUT = {
    "a statement": f"""
writer = lp.Writer(path)
wait = lambda: writer.execute({ENDLESS_INSERT!r})
""",
    "a lock": f"""
writer = lp.Writer(path, busy_timeout=600)
{LOCK}
wait = lambda: writer.execute("{ROW}")
""",
    "a push at a lock": f"""
writer = lp.Writer(path, busy_timeout=600)
queue = lp.Queue(writer, "mail")
{LOCK}
wait = lambda: queue.push(1)
""",
}
PROGRAM = """
import os, signal, sqlite3, sys, threading
import leafpress as lp
path = sys.argv[1]
held, over = threading.Event(), threading.Event()
{setup}
try:
    # The signal may also come before the wait begins.
    threading.Timer(0.3, os.kill, [os.getpid(), signal.SIGINT]).start()
    wait()
except KeyboardInterrupt:
    print("stopped", flush=True)
over.set()
if "holder" in globals():
    holder.join()
if "other" in globals():
    other.close()
"""


@pytest.mark.timeout(120)
@pytest.mark.parametrize("what", [*WAITS, *CARRIED_OUT])
def test_ctrl_c_ends_a_wait(what: str, path: Path) -> None:
    program = PROGRAM.format(setup=(WAITS | CARRIED_OUT)[what])
    done = subprocess.run([sys.executable, "-c", program, str(path)], timeout=60,
                          capture_output=True, text=True)
    assert (done.stdout, done.stderr, done.returncode) == ("stopped\n", "", 0)
    assert values_in(path) == ([] if what == "opening" or what in CARRIED_OUT else [1])
    assert not Path(f"{path}.copy").exists()


@pytest.mark.timeout(60)
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_a_signal_ends_a_call_after_a_handler_was_set(name: str, path: Path) -> None:
    program = f"""
import os, signal, sys, threading
import leafpress as lp
writer = lp.Writer(sys.argv[1])
writer.execute("INSERT INTO t VALUES (1)")
signal.signal(signal.SIGTERM, lambda *_: sys.exit("SIGTERM"))
threading.Timer(0.3, os.kill, [os.getpid(), signal.{name}]).start()
try:
    writer.execute({ENDLESS_INSERT!r})
except (KeyboardInterrupt, SystemExit) as error:
    print(error.args)
"""
    done = subprocess.run([sys.executable, "-c", program, str(path)], timeout=50,
                          capture_output=True, text=True)
    arguments = ("SIGTERM",) if name == "SIGTERM" else ()
    assert (done.stdout, done.stderr, done.returncode) == (f"{arguments}\n", "", 0)
    assert values_in(path) == [1]


@pytest.mark.timeout(60)
def test_no_finalizer_runs_in_the_middle_of_a_call(path: Path) -> None:
    """Since 3.12 Python collects garbage where it is asked for signals."""
    program = """
import gc, itertools, sys
import leafpress as lp
class Garbage:
    def __del__(self):
        try:
            writer.execute("INSERT INTO t VALUES ('finalizer')")
        except lp.Error as error:
            print(error)
writer = lp.Writer(sys.argv[1])
# The first row takes long enough for some looks at signals.
sql = '''WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 4000000 * (? = 0))
    INSERT INTO t SELECT max(i) > 0 FROM n'''
# No code of Python runs while these are made, so garbage is collected later.
rows, kept = itertools.tee(zip(range(2000)))
gc.collect()
garbage = Garbage()
garbage.itself = garbage
del garbage
writer.executemany(sql, rows)
gc.collect()
"""
    done = subprocess.run([sys.executable, "-c", program, str(path)], timeout=50,
                          capture_output=True, text=True)
    assert (done.stdout, done.stderr, done.returncode) == ("", "", 0)
    assert sorted(set(values_in(path)), key=str) == [1, "finalizer"]


@pytest.mark.timeout(60)
def test_a_signal_handler_may_wait_for_a_call_of_another_thread(path: Path) -> None:
    """So it does not run in the middle of a call that the main thread carries out."""
    program = """
import os, signal, sqlite3, sys, threading
import leafpress as lp
writer = lp.Writer(sys.argv[1], busy_timeout=600)
other = sqlite3.connect(sys.argv[1], isolation_level=None, check_same_thread=False)
def insert():
    writer.execute("INSERT INTO t VALUES (2)")
def handler(*_):
    thread = threading.Thread(target=insert)
    thread.start()
    other.execute("COMMIT")
    thread.join()
writer.execute("INSERT INTO t VALUES (0)")
signal.signal(signal.SIGUSR1, handler)
other.execute("BEGIN IMMEDIATE")
threading.Timer(0.3, os.kill, [os.getpid(), signal.SIGUSR1]).start()
print(writer.execute("INSERT INTO t VALUES (1)").rowcount)
"""
    done = subprocess.run([sys.executable, "-c", program, str(path)], timeout=50,
                          capture_output=True, text=True)
    assert (done.stdout, done.stderr, done.returncode) == ("1\n", "", 0)
    assert sorted(values_in(path)) == [0, 1, 2]


@pytest.mark.timeout(120)
def test_ctrl_c_at_the_end_of_the_program_stops_the_call_that_runs(path: Path) -> None:
    program = f"""
import atexit, os, signal, sys, threading, time
import leafpress as lp
path, ends = sys.argv[1], threading.Event()
def send():
    ends.wait()
    time.sleep(0.5)
    os.kill(os.getpid(), signal.SIGINT)
def insert():
    try:
        writer.execute({ENDLESS_INSERT!r})
    except lp.Cancelled:
        pass
writer = lp.Writer(path)
for work in (send, insert):
    threading.Thread(target=work, daemon=True).start()
while os.path.getsize(path + "-wal") < 1 << 20:
    time.sleep(0.01)
writer.submit("INSERT INTO t VALUES ('accepted')")
# Before the writers are closed.
atexit.register(ends.set)
"""
    done = subprocess.run([sys.executable, "-c", program, str(path)], timeout=60,
                          capture_output=True, text=True)
    assert (done.stderr, done.returncode) == ("", 0)
    assert not Path(f"{path}-wal").exists()
    assert values_in(path) == ["accepted"]


@pytest.mark.timeout(60)
@pytest.mark.parametrize("kind", ["threads", "asyncio"])
def test_a_begin_that_is_given_up_waits_for_no_lock(kind: str, path: Path) -> None:
    async def main() -> None:
        writer = lp.AsyncWriter(path, busy_timeout=600)
        await writer.query("SELECT 1")
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(writer.transaction().__aenter__(), 0.3)
        await writer.close()

    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        # The close waits for all calls.
        if kind == "asyncio":
            asyncio.run(main())
        else:
            with lp.Writer(path, busy_timeout=600) as writer:
                with pytest.raises(lp.TimedOut), writer.transaction(timeout=0.3):
                    pass
    assert values_in(path) == []


class Looked:
    """Has Ctrl-C come once an iterator gives its items; `left` says how many it had still to give."""

    def __init__(self) -> None:
        self.iterator: Any = iter(())
        self.seen = threading.Thread(target=self._look, daemon=True)

    def _look(self) -> None:
        whole = self.left()
        while self.left() == whole:
            time.sleep(0.001)
        signal.raise_signal(signal.SIGINT)

    def left(self) -> int:
        return operator.length_hint(self.iterator)

    def watched(self, iterator: Any) -> Any:
        self.iterator = iterator
        self.seen.start()
        return iterator


class Tuples(Sequence[Any]):
    """Rows that no code of Python makes."""

    def __init__(self, count: int, looked: Looked) -> None:
        self.count = count
        self.looked = looked
        self.asked = 0

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, at: Any) -> Any:
        return (1,)

    def __iter__(self) -> Any:
        self.asked += 1
        rows = repeat((1,), self.count)
        # Twice the package looks at their types.
        return self.looked.watched(rows) if self.asked == 3 else rows


@pytest.mark.timeout(120)
@pytest.mark.usefixtures("ctrl_c")
def test_rows_that_become_values_let_other_threads_go_on(path: Path) -> None:
    looked = Looked()
    with lp.Writer(path) as writer:
        with pytest.raises(KeyboardInterrupt):
            writer.insert_many("t", Tuples(500_000, looked), columns=["x"])
        assert looked.left() > 0
    assert values_in(path) == []


@pytest.mark.timeout(120)
@pytest.mark.usefixtures("ctrl_c")
def test_ctrl_c_ends_the_reading_of_a_frame(path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    batch = pyarrow.record_batch({"x": list(range(1_000))})
    looked = Looked()
    given = pyarrow.RecordBatchReader.from_batches(batch.schema, looked.watched(repeat(batch, 1_000)))
    with lp.Writer(path) as writer:
        with pytest.raises(KeyboardInterrupt):
            writer.insert_many("t", given)
        assert looked.left() > 0
    assert values_in(path) == []


@pytest.mark.timeout(120)
@pytest.mark.skipif(sys.version_info < (3, 11), reason="exceptions have no notes")
@pytest.mark.usefixtures("ctrl_c")
def test_ctrl_c_after_a_commit_says_that_the_load_stays(tmp_path: Path) -> None:
    source = tmp_path / "t.csv"
    source.write_text("x\n" + "1\n" * 1_000)
    notes = []
    for number in range(20):
        database = tmp_path / f"{number}.db"

        def look(database: Path = database) -> None:
            while not database.exists():
                pass
            signal.raise_signal(signal.SIGINT)

        sends = threading.Thread(target=look, daemon=True)
        with pytest.raises(KeyboardInterrupt) as caught:
            sends.start()
            lp.load(database, source)
            sends.join()
        if any(entry.name == "load" for entry in caught.traceback):
            notes.append(any("stays" in note for note in getattr(caught.value, "__notes__", ())))
        assert len(values_in(database)) == 1_000
    # While the call returns it has none.
    assert notes and sum(notes) >= len(notes) / 2


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no named pipes")
def test_a_named_pipe_is_loaded(tmp_path: Path) -> None:
    pipe = tmp_path / "t.csv"
    os.mkfifo(pipe)
    writes = threading.Thread(target=pipe.write_text, args=("x\n1\n2\n",), daemon=True)
    writes.start()
    assert lp.load(tmp_path / "a.db", pipe).table == "t"
    writes.join(LIMIT_S)
    assert values_in(tmp_path / "a.db") == [1, 2]


@pytest.mark.timeout(120)
@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no named pipes")
@pytest.mark.parametrize("is_written", [False, True])
def test_ctrl_c_ends_a_load_of_a_named_pipe(is_written: bool, tmp_path: Path) -> None:
    pipe = tmp_path / "t.csv"
    os.mkfifo(pipe)
    opens = "end = os.open(pipe, os.O_RDWR); os.write(end, b'x\\n1\\n')" if is_written else ""
    setup = f"pipe = {str(pipe)!r}\n{opens}\nwait = lambda: lp.load(path, pipe)"
    program = PROGRAM.format(setup=setup)
    done = subprocess.run([sys.executable, "-c", program, str(tmp_path / "a.db")], timeout=60,
                          capture_output=True, text=True)
    assert (done.stdout, done.stderr, done.returncode) == ("stopped\n", "", 0)
    assert not (tmp_path / "a.db").exists()


@pytest.mark.timeout(60)
def test_a_transaction_that_is_begun_again_does_not_wait_for_itself(path: Path) -> None:
    with lp.Writer(path) as writer, ThreadPoolExecutor(1) as pool:
        # Without the check, the call comes when the time of the transaction is up.
        tx = writer.transaction(call_limit=2)
        pool.submit(tx.__enter__).result()
        tx.execute("INSERT INTO t VALUES (1)")
        pool.submit(tx.__exit__, None, None, None).result()
        with pytest.raises(lp.ProgrammingError, match="would wait"), tx:
            writer.execute("INSERT INTO t VALUES (2)")
    assert values_in(path) == [1]


@pytest.mark.timeout(60)
def test_ctrl_c_ends_a_wait_for_a_reader(path: Path, ctrl_c: None) -> None:
    with lp.Writer(path, readers=1, reader_wait=40) as writer:
        with writer.reader():
            threading.Timer(0.3, os.kill, [os.getpid(), signal.SIGINT]).start()
            began = time.monotonic()
            with pytest.raises(KeyboardInterrupt):
                writer.query("SELECT 1")
            assert time.monotonic() - began < 30
        assert writer.query("SELECT 1").fetchall() == [(1,)]
