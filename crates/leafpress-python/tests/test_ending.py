"""Ends of programs of which other threads are inside calls."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import sys, threading, time
import leafpress as lp
path = sys.argv[1]
writer = lp.Writer(path)
writer.execute_batch("CREATE TABLE t(a)")
rows = [{{"a": number}} for number in range(200_000)]
is_within = threading.Event()
def call():
    is_within.set()
    while True:
        try:
            {call}
        except Exception:
            pass
for _ in range({threads}):
    threading.Thread(target=call, daemon=True).start()
is_within.wait()
time.sleep(0.1)
"""
CALLS = {
    "rows by name": 'writer.insert_many("t", rows)',
    "rows without names": 'writer.insert_many("t", [(b"x", 1)] * 200_000, columns=["a"])',
    "a statement for each row": 'writer.executemany("INSERT INTO t VALUES (?)", ((row["a"],) for row in rows))',
    "statements": 'writer.execute("INSERT INTO t VALUES (1)")',
    "tickets": 'writer.submit("INSERT INTO t VALUES (1)").result()',
    "queries": 'writer.query("SELECT 1")',
    "a load": 'lp.load(path, rows[:50], table="u", if_exists="append")',
    "a load that fails": 'lp.load("/there/is/no/folder.db", rows[:50], table="u")',
    "a load of a slow iterator": 'lp.load(path, (time.sleep(0.01) or row for row in rows), table="v")',
}


def run(program: str, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", program, str(folder / "a.db")]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("what", CALLS)
def test_a_program_ends_while_threads_are_inside_calls(what: str, tmp_path: Path) -> None:
    program = PROGRAM.format(call=CALLS[what], threads=3)
    for number in range(4):
        folder = tmp_path / str(number)
        folder.mkdir()
        done = run(program, folder)
        assert (done.returncode, done.stderr) == (0, "")


AFTER = """
import atexit, sys, threading
stops = threading.Event()
def stop():
    stops.set()
    worker.join()
    print("joined")
# It is called after that of the package, which is imported later.
atexit.register(stop)
import leafpress as lp
writer = lp.Writer(sys.argv[1])
def work():
    while not stops.is_set():
        try:
            writer.execute("SELECT 1")
        except lp.Error:
            pass
worker = threading.Thread(target=work, daemon=True)
worker.start()
"""


@pytest.mark.timeout(100)
def test_a_later_function_of_atexit_may_wait_for_a_thread(tmp_path: Path) -> None:
    done = run(AFTER, tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "joined\n", "")
