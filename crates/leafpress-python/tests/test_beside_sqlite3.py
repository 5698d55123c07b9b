"""Other copies of SQLite in the process of a Writer, on its database: none loses a row.

The process under test is this file, started again; the one that judges has the standard library's
copy alone. `sqlite3` and `apsw` are each a copy of their own, and two plain copies break each
other's locks: so each is alone beside the Writer, and both together are the control.

LEAFPRESS_NEIGHBOUR_TRANSACTIONS says how many transactions each pair of a copy and a profile gets.
"""

import os
import random
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import closing, suppress
from pathlib import Path

import pytest

# The tests of the library beside other copies write and judge the same rows.
sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "tests" / "python"))

from entries import TABLE, judge, statements

TRANSACTIONS = int(os.environ.get("LEAFPRESS_NEIGHBOUR_TRANSACTIONS", "400"))
THREADS_EACH = 8
# One transaction waits so long for locks at most; where locks are broken, for ever.
PATIENCE_S = 120
# Far beyond what the transactions need.
LIMIT_S = 60 + TRANSACTIONS / 20
CONTROL_ROUNDS_MAX = 20
COUNT = "SELECT count(*) FROM entry WHERE part = 2"


def is_busy(error):
    text = str(error).lower()
    return ("locked" in text or "busy" in text or "held by another" in text) and (
        "protocol" not in text
    )


# --- the process with several copies ---


class Standard:
    """The standard library's copy: `sqlite3`, SQLAlchemy over it, and pandas."""

    def __init__(self, path):
        import pandas
        import sqlalchemy

        self.path, self.pandas = path, pandas
        self.engine = sqlalchemy.create_engine(
            f"sqlite:///{path}", connect_args={"timeout": 0.3}, pool_size=3, max_overflow=8
        )

    def connect(self):
        return sqlite3.connect(self.path, timeout=0.3, isolation_level=None)

    def write(self, number, chance, kept):
        if chance.random() < 0.3:
            with self.engine.begin() as connection:
                for statement in statements(number):
                    connection.exec_driver_sql(statement)
            if chance.random() < 0.2:
                self.engine.dispose()
            return
        write(self.connect, number, chance, kept)

    def look(self, chance):
        """Reads, as a program does that only wants to know something."""
        if chance.random() < 0.5:
            with closing(self.connect()) as connection:
                self.pandas.read_sql_query(COUNT, connection)
        else:
            self.pandas.read_sql(COUNT, self.engine)


class Apsw:
    """The copy of `apsw`."""

    def __init__(self, path):
        import apsw

        self.path, self.apsw = path, apsw

    def connect(self):
        connection = self.apsw.Connection(str(self.path))
        connection.set_busy_timeout(300)
        return connection

    def write(self, number, chance, kept):
        write(self.connect, number, chance, kept)

    def look(self, chance):
        connection = self.connect()
        try:
            connection.execute(COUNT).fetchall()
        finally:
            connection.close()


def write(connect, number, chance, kept):
    """A transaction on a connection that may be kept for the next one."""
    connection, kept[0] = kept[0], None
    try:
        connection = connection or connect()
        connection.execute("BEGIN IMMEDIATE")
        for statement in statements(number):
            connection.execute(statement)
            if chance.random() < 0.1:
                time.sleep(chance.random() * 0.002)
        connection.execute("COMMIT")
    except BaseException:
        if connection:
            # A transaction that is still open is rolled back by that.
            connection.close()
        raise
    if chance.random() < 0.3:
        connection.close()
    else:
        kept[0] = connection


class Ours:
    """The Writer of all threads, and others that are opened and closed."""

    def __init__(self, path, profile):
        import leafpress

        self.path, self.profile, self.leafpress = path, profile, leafpress
        self.writer = self.open(PATIENCE_S)

    def open(self, busy_timeout):
        return self.leafpress.Writer(self.path, profile=self.profile, busy_timeout=busy_timeout)

    def write(self, number, chance, kept):
        way = chance.random()
        if way < 0.2:
            with self.open(0.3) as writer:
                writer.execute_batch(";".join(statements(number)))
        elif way < 0.6:
            self.writer.execute_batch(";".join(statements(number)))
        else:
            with self.writer.transaction() as tx:
                for statement in statements(number):
                    tx.execute(statement)

    def look(self, chance):
        self.writer.query(COUNT)

    def close(self):
        self.writer.close()


class Load:
    """Threads of two copies that write until there were enough transactions."""

    def __init__(self, transactions, patience_s):
        self.numbers = iter(range(1, transactions + 1))
        self.turn = threading.Lock()
        self.patience_s = patience_s
        self.broken = 0

    def next(self):
        with self.turn:
            return None if self.broken > 300 else next(self.numbers, None)

    def tell(self, line):
        # One write for the line, so that no line is torn.
        os.write(1, f"{line[:1000]}\n".replace("\n", " ").rstrip().encode() + b"\n")

    def thread(self, side, seed):
        chance, kept = random.Random(seed), [None]
        while (number := self.next()) is not None:
            if chance.random() < 0.1:
                self.guarded(number, lambda: side.look(chance), is_looking=True)
            self.guarded(number, lambda n=number: side.write(n, chance, kept))
        if kept[0]:
            kept[0].close()

    def guarded(self, number, attempt, is_looking=False):
        """Tries a step until it is not busy any more, and acknowledges a transaction."""
        began = time.monotonic()
        while True:
            try:
                attempt()
            except Exception as error:
                if is_busy(error) and is_looking:
                    return
                if is_busy(error) and time.monotonic() - began < self.patience_s:
                    continue
                with self.turn:
                    self.broken += 1
                self.tell(f"broken {number}: {type(error).__name__} {error}")
                return
            if not is_looking:
                self.tell(f"ack {number}")
            return

    def run(self, sides):
        threads = [
            threading.Thread(target=self.thread, args=[side, 100 * index + seed])
            for index, side in enumerate(sides)
            for seed in range(THREADS_EACH)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for side in sides:
            with suppress(AttributeError):
                side.close()
        self.tell("done")


def main(path, profile, neighbour, transactions):
    is_control = neighbour == "both"
    load = Load(int(transactions), 2 if is_control else PATIENCE_S)
    if is_control:
        load.run([Standard(path), Apsw(path)])
    else:
        load.run([Ours(path, profile), Standard(path) if neighbour == "sqlite3" else Apsw(path)])


# --- the process that judges ---


def load(folder, profile, neighbour, transactions):
    """The path, and what was acknowledged and what was broken in a run."""
    path = folder / f"{len(list(folder.iterdir()))}.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA journal_mode = {'WAL' if profile == 'durable' else 'DELETE'}")
        connection.executescript(TABLE)
    command = [sys.executable, __file__, str(path), profile, neighbour, str(transactions)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=LIMIT_S)
    lines = done.stdout.splitlines()
    acknowledged = [int(line[4:]) for line in lines if line.startswith("ack ")]
    assert len(acknowledged) == len(set(acknowledged))
    broken = [line for line in lines if line.startswith("broken ")]
    if done.returncode != 0 or lines[-1:] != ["done"]:
        broken.append(f"the process ended with {done.returncode}")
    return path, set(acknowledged), broken


@pytest.mark.timeout(LIMIT_S)
@pytest.mark.parametrize("profile", ["durable", "rollback"])
@pytest.mark.parametrize("neighbour", ["sqlite3", "apsw"])
def test_nothing_is_lost_beside_another_copy(tmp_path, profile, neighbour):
    began = time.monotonic()
    path, acknowledged, broken = load(tmp_path, profile, neighbour, TRANSACTIONS)
    verdict = judge(path, acknowledged)
    seconds = time.monotonic() - began
    print(f"{profile}, {neighbour}: {len(acknowledged)} in {seconds:.0f} s, {verdict}")
    assert (verdict, broken[:5]) == ((0, 0, 0, "ok"), [])
    assert len(acknowledged) == TRANSACTIONS


@pytest.mark.timeout(LIMIT_S)
def test_two_plain_copies_lose(tmp_path):
    """The control: the same load without Leafpress."""
    for _ in range(CONTROL_ROUNDS_MAX):
        path, acknowledged, broken = load(tmp_path, "durable", "both", 300)
        # A transaction that was busy for too long is no loss.
        broken = [line for line in broken if not is_busy(line)]
        verdict = judge(path, acknowledged)
        if broken or verdict != (0, 0, 0, "ok"):
            print(verdict, broken[:3])
            return
    pytest.fail("two plain copies have lost nothing")


if __name__ == "__main__":
    main(*sys.argv[1:])
