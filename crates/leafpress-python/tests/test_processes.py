"""A Writer in programs that fork: each call says what to do, or works; none hangs."""

import multiprocessing
import os
import re
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import closing

import pytest
from serving import Clients, request, server

import leafpress as lp

LIMIT_S = 30
TABLE = "CREATE TABLE t(a)"
INSERT = "INSERT INTO t VALUES (?)"
EACH = 50

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


@pytest.fixture
def database(tmp_path):
    path = tmp_path / "a.db"
    with lp.Writer(path) as writer:
        writer.execute_batch(TABLE)
    return path


def numbers_in(database):
    with closing(sqlite3.connect(database)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        return sorted(a for (a,) in connection.execute("SELECT a FROM t"))


CHILD = """
import asyncio, os, signal, sys, threading
import leafpress as lp

PATH = sys.argv[1]
INSERT = "INSERT INTO t VALUES (?)"
writer = lp.Writer(PATH)
later = lp.AsyncWriter(PATH)
asyncio.run(later.open())
ticket = writer.submit(INSERT, (0,))
ticket.result()
waiting = writer.submit(INSERT, (-1,))

def refused(call):
    try:
        call()
    except lp.ProgrammingError as error:
        assert error.kind == "forked" and error.to_do, error
        return
    raise SystemExit("the child's call was not refused")

def transaction():
    with writer.transaction():
        raise SystemExit("the child has a transaction of its parent")

async def in_loop():
    await later.execute(INSERT, (1,))

def child(number):
    signal.alarm(20)
    for call in (
        lambda: writer.execute(INSERT, (1,)),
        lambda: writer.submit(INSERT, (1,)),
        lambda: writer.execute_batch("DELETE FROM t"),
        lambda: writer.insert_many("t", [{"a": 1}]),
        lambda: writer.query("SELECT 1"),
        lambda: writer.backup(PATH + ".copy"),
        lambda: writer.maintain("vacuum"),
        transaction,
        waiting.result,
        lambda: asyncio.run(in_loop()),
        writer.close,
    ):
        refused(call)
    assert ticket.result().rowcount == 1
    with lp.Writer(PATH, shared=True) as own:
        own.execute(INSERT, (number,))
"""


def run(database, code):
    command = [sys.executable, "-W", "ignore", "-c", CHILD + code, str(database)]
    return subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S)


def test_a_child_is_told_and_opens_its_own(database):
    done = run(
        database,
        """
for number in range(1, 4):
    if not (pid := os.fork()):
        try:
            child(number)
        except BaseException as error:
            os.write(2, repr(error).encode())
            os._exit(1)
        # Once as a program ends, with all that Python does then.
        sys.exit(0) if number == 1 else os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
    writer.execute(INSERT, (10 + number,))
waiting.result()
""",
    )
    assert (done.stderr, done.returncode) == ("", 0)
    assert numbers_in(database) == [-1, 0, 1, 2, 3, 11, 12, 13]


def test_a_child_of_an_open_transaction_is_told(database):
    done = run(
        database,
        """
queue = lp.Queue(writer, "jobs")
with writer.reader() as reader, writer.transaction() as tx:
    tx.execute(INSERT, (1,))
    if not (pid := os.fork()):
        signal.alarm(20)
        try:
            for call in (
                lambda: tx.execute(INSERT, (66,)),
                lambda: tx.execute_batch("DELETE FROM t"),
                lambda: tx.insert_many("t", [{"a": 67}]),
                lambda: writer.execute(INSERT, (68,)),
                lambda: queue.push(1),
                lambda: reader.execute("SELECT * FROM t"),
            ):
                refused(call)
        except BaseException as error:
            os.write(2, repr(error).encode())
            os._exit(1)
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
    tx.execute(INSERT, (2,))
waiting.result()
""",
    )
    assert (done.stderr, done.returncode) == ("", 0)
    assert numbers_in(database) == [-1, 0, 1, 2]


def test_ctrl_c_ends_a_wait_in_a_child_of_a_thread(database):
    """The thread that forks is the main one of the child."""
    done = run(
        database,
        """
def fork():
    writer.execute(INSERT, (1,))
    if not (pid := os.fork()):
        signal.alarm(20)
        queue = lp.Queue(PATH, "jobs")
        threading.Timer(0.3, os.kill, [os.getpid(), signal.SIGINT]).start()
        try:
            queue.claim(wait=None)
        except KeyboardInterrupt:
            os._exit(3)
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))

waiting.result()
thread = threading.Thread(target=fork)
thread.start()
thread.join()
""",
    )
    assert (done.stdout, done.stderr, done.returncode) == ("3\n", "", 0)


def test_forks_under_load_hang_nobody(database):
    """Other threads are in the middle of calls at each fork."""
    done = run(
        database,
        """
import time
stop = threading.Event()
answered = []

def load(number):
    while not stop.is_set():
        number += 10
        with writer.transaction() as tx:
            tx.execute(INSERT, (number,))
        writer.query("SELECT max(a) FROM t")
        answered.append(number)

threads = [threading.Thread(target=load, args=[1000 + n]) for n in range(4)]
for thread in threads:
    thread.start()
for number in range(1, 9):
    if not (pid := os.fork()):
        try:
            child(number)
        except BaseException as error:
            os.write(2, repr(error).encode())
            os._exit(1)
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0, number
stop.set()
for thread in threads:
    thread.join()
waiting.result()
print(len(answered))
""",
    )
    assert (done.stderr, done.returncode) == ("", 0)
    numbers = numbers_in(database)
    assert len(numbers) == len(set(numbers)) == int(done.stdout) + 10


def insert_own(path, worker):
    """Each worker opens a writer of its own."""
    with lp.Writer(path, shared=True) as writer:
        for step in range(EACH):
            writer.execute(INSERT, (worker * 1000 + step,))


def insert_given(writer):
    """Uses the writer of the parent."""
    try:
        writer.execute(INSERT, (1,))
    except lp.ProgrammingError as error:
        os._exit(0 if error.kind == "forked" else 1)
    os._exit(2)


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_workers_of_multiprocessing(database, method):
    context = multiprocessing.get_context(method)
    with lp.Writer(database, shared=True) as writer:
        workers = [context.Process(target=insert_own, args=(database, n)) for n in range(1, 4)]
        for worker in workers:
            worker.start()
        for step in range(EACH):
            writer.execute(INSERT, (step,))
        for worker in workers:
            worker.join(LIMIT_S)
        assert [worker.exitcode for worker in workers] == [0, 0, 0]
        worker = context.Process(target=insert_given, args=(writer,))
        if method == "fork":
            worker.start()
            worker.join(LIMIT_S)
            assert worker.exitcode == 0
        else:
            with pytest.raises(lp.ProgrammingError, match="open a Writer with shared=True"):
                worker.start()
        writer.execute(INSERT, (9999,))
    expected = [worker * 1000 + step for worker in range(4) for step in range(EACH)]
    assert numbers_in(database) == [*expected, 9999]


kept = []


def submit_and_end(database, first, thread_is_on):
    """Submits calls, and ends before their answers. The writer is kept, as by a program's global name."""
    kept.append(lp.Writer(database, shared=True))

    def submit(numbers):
        for number in numbers:
            kept[-1].submit(INSERT, (number,))

    def write_later():
        time.sleep(0.3)
        submit(range(first + 2000, first + 4000))

    if thread_is_on:
        threading.Thread(target=write_later).start()
    submit(range(first, first + 2000))


@pytest.mark.parametrize("thread_is_on", [False, True])
@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_the_end_of_a_worker_commits_what_was_accepted(database, method, thread_is_on):
    """Workers of multiprocessing end by `os._exit`."""
    context = multiprocessing.get_context(method)
    # One child has a writer of its parent that was open before.
    with lp.Writer(database, shared=True):
        workers = [
            context.Process(target=submit_and_end, args=(database, first, thread_is_on))
            for first in (0, 10_000)
        ]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join(LIMIT_S)
        assert [worker.exitcode for worker in workers] == [0, 0]
    each = 2000 + 2000 * thread_is_on
    assert numbers_in(database) == [*range(each), *range(10_000, 10_000 + each)]


def test_the_end_of_the_parent_leaves_the_writer_open_for_its_own_last_calls(database):
    """`multiprocessing` ends before functions that were registered before it was loaded."""
    code = """
import atexit, sys
import leafpress as lp
writer = lp.Writer(sys.argv[1])
atexit.register(lambda: writer.execute("INSERT INTO t VALUES (1)"))
import multiprocessing.util
lp.Writer(sys.argv[1] + "2")
"""
    ran = subprocess.run([sys.executable, "-c", code, str(database)], capture_output=True, timeout=LIMIT_S)
    assert (ran.returncode, ran.stderr) == (0, b"")
    assert numbers_in(database) == [1]


GUNICORN = ("gunicorn", "--bind", "fd://FD", "--workers", "4", "--preload", "--no-control-socket")


@pytest.mark.parametrize("threads", ["1", "4"])
def test_gunicorn_with_preload(tmp_path, database, threads):
    """A writer that was opened before the fork says what to do; one opened after it works."""
    command = (*GUNICORN, "--threads", threads, "wsgi:app")
    with server(tmp_path, database, *command) as (_, port):
        clients = Clients(port, "/own/", clients=16, each=1)
        for number in range(8):
            status, text = request(port, f"/preloaded/{number}")
            assert status == 500
            assert text.startswith("forked:") and "to do: open a new one" in text
        clients.wait()
        more = Clients(port, "/own/", clients=32, each=1, first=100).wait()
    assert (more.refused, more.broken, clients.refused, clients.broken) == ([], [], [], [])
    answered = clients.answered | more.answered
    assert numbers_in(database) == sorted(answered) and len(answered) == 48


@pytest.mark.parametrize(
    "command",
    [
        (*GUNICORN, "--worker-class", "uvicorn_worker.UvicornWorker", "app:app"),
        ("uvicorn", "app:app", "--fd", "FD", "--workers", "4", "--log-level", "warning"),
    ],
    ids=["gunicorn", "uvicorn"],
)
def test_workers_of_uvicorn(tmp_path, database, command):
    with server(tmp_path, database, *command) as (process, port):
        clients = Clients(port, clients=32, each=10).wait()
        worker = kill_one_worker(process)
        more = Clients(port, clients=8, each=10, first=10**6).wait()
    assert (clients.refused, clients.broken) == ([], [])
    # The killed worker may have had a connection of a client.
    assert more.refused == [] and worker
    numbers = numbers_in(database)
    assert len(numbers) == len(set(numbers))
    assert clients.answered | more.answered <= set(numbers) and len(clients.answered) == 320


def kill_one_worker(process):
    """Kills a worker of a server, and gives its number."""
    listed = subprocess.run(
        ["ps", "-o", "pid=,args=", "--ppid", str(process.pid)], capture_output=True, text=True
    ).stdout
    workers = [line for line in listed.splitlines() if not re.search("resource_tracker", line)]
    pid = int(workers[0].split()[0])
    os.kill(pid, signal.SIGKILL)
    threading.Event().wait(0.2)
    return pid
