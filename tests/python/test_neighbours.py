"""Python's sqlite3 and Leafpress in one process: two copies of SQLite on one database.

Needs Python 3 and nothing else. Run by `make test-python`, or by hand:
LEAFPRESS=target/release/leafpress LEAFPRESS_CAPI=target/debug/examples/libleafpress_capi.so
python3 tests/python/test_neighbours.py

The process under test is this file, started again; it loads the library that
LEAFPRESS_CAPI names. The process that judges never does, so it has one SQLite.
LEAFPRESS_NEIGHBOUR_TRANSACTIONS says how many transactions each profile gets,
LEAFPRESS_NEIGHBOUR_KILLS how often it is killed.
"""

import ctypes
import fcntl
import itertools
import os
import random
import shutil
import sqlite3
import struct
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from contextlib import closing
from pathlib import Path

from entries import TABLE, judge, statements

LEAFPRESS = os.environ.get("LEAFPRESS", "leafpress")
CAPI = os.environ.get("LEAFPRESS_CAPI")
TRANSACTIONS = int(os.environ.get("LEAFPRESS_NEIGHBOUR_TRANSACTIONS", 1_000))
KILLS = int(os.environ.get("LEAFPRESS_NEIGHBOUR_KILLS", 4))
THREADS_EACH = 8
# One transaction waits so long for locks at most; where locks are broken, for ever.
PATIENCE_S = 120
# Far beyond what 100,000 transactions need.
CHILD_LIFE_MAX_S = 3 * 3600
# So often two plain copies may be lucky.
CONTROL_ROUNDS_MAX = 20


# --- the process with two copies ---


class Ours:
    """The library's functions; -1 is an error, -2 says that others hold locks."""

    def __init__(self):
        self.library = ctypes.CDLL(CAPI)
        pointer, text, number = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int64
        for name, answer, arguments in (
            ("lp_error", text, []),
            ("lp_open", pointer, [text, text, ctypes.c_uint64]),
            ("lp_execute", number, [pointer, text]),
            ("lp_plain", number, [text, text]),
            ("lp_hold", pointer, [pointer, text]),
            ("lp_release", number, [pointer]),
            ("lp_verify", number, [text]),
            ("lp_dry_run", number, [text]),
            ("lp_close", ctypes.c_int, [pointer]),
        ):
            function = getattr(self.library, name)
            function.restype, function.argtypes = answer, arguments

    def __getattr__(self, name):
        return getattr(self.library, name)

    def error(self):
        return self.library.lp_error().decode()


def tell(line):
    """One write for the line, so that no line is torn."""
    os.write(1, f"{line[:1000]}\n".encode())


class Load:
    """Threads of both copies that insert rows until there were enough transactions."""

    def __init__(self, path, profile, first, transactions, is_plain):
        self.path, self.profile, self.is_plain = path, profile, is_plain
        self.numbers = iter(range(first, first + transactions))
        self.turn = threading.Lock()
        self.ours = Ours()
        self.patience_s = 2 if is_plain else PATIENCE_S
        self.broken = 0

    def next(self):
        with self.turn:
            return None if self.broken > 300 else next(self.numbers, None)

    def break_with(self, what):
        with self.turn:
            self.broken += 1
        tell(f"broken {what}".replace("\n", " "))

    def repeat(self, number, attempt):
        """Tries a transaction until it is acknowledged, as long as it is busy."""
        began = time.monotonic()
        while True:
            busy, error = attempt()
            if error:
                self.break_with(f"{number}: {error}")
                return
            if not busy:
                tell(f"ack {number}")
                return
            if time.monotonic() - began > self.patience_s:
                self.break_with(f"{number} was busy for {self.patience_s} s")
                return

    def run(self):
        writer = None
        if not self.is_plain:
            writer = self.open(PATIENCE_S * 1000)
            if not writer:
                raise SystemExit(self.ours.error())
        threads = [threading.Thread(target=self.pythons, args=[n]) for n in range(THREADS_EACH)]
        threads += [
            threading.Thread(target=self.leafpress, args=[n, writer]) for n in range(THREADS_EACH)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if writer and self.ours.lp_close(writer) != 0:
            self.break_with(self.ours.error())
        tell("done")

    # sqlite3's threads

    def pythons(self, seed):
        chance = random.Random(seed)
        kept = [None]
        while (number := self.next()) is not None:
            if kept[0] and chance.random() < 0.3:
                kept[0].close()
                kept[0] = None
            if chance.random() < 0.1:
                self.pass_by(chance)
            self.repeat(number, lambda: self.by_sqlite3(number, kept, chance))
        if kept[0]:
            kept[0].close()

    def connect(self):
        return sqlite3.connect(self.path, timeout=0.3, isolation_level=None)

    def pass_by(self, chance):
        """Connects and closes, as a program does that only wants to know something."""
        try:
            with closing(self.connect()) as connection:
                if chance.random() < 0.7:
                    connection.execute("SELECT count(*) FROM entry WHERE part = 2").fetchone()
        except sqlite3.Error as error:
            if not is_busy(error):
                self.break_with(error)

    def by_sqlite3(self, number, kept, chance):
        connection, kept[0] = kept[0], None
        try:
            connection = connection or self.connect()
            connection.execute("BEGIN IMMEDIATE")
            for statement in statements(number):
                connection.execute(statement)
                if chance.random() < 0.1:
                    time.sleep(chance.random() * 0.002)
            connection.execute("COMMIT")
            kept[0] = connection
            return False, None
        except sqlite3.Error as error:
            if connection:
                # A transaction that is still open is rolled back by that.
                connection.close()
            return is_busy(error), None if is_busy(error) else error

    # Leafpress' threads

    def open(self, busy_ms):
        return self.ours.lp_open(self.path.encode(), self.profile.encode(), busy_ms)

    def leafpress(self, seed, writer):
        chance = random.Random(100 + seed)
        while (number := self.next()) is not None:
            sql = ";".join(statements(number)).encode()
            if not writer:
                self.repeat(number, lambda: self.by_plain(sql))
            elif chance.random() < 0.8:
                self.repeat(number, lambda: self.answer(self.ours.lp_execute(writer, sql)))
            else:
                self.repeat(number, lambda: self.by_own_writer(sql))
            if writer and chance.random() < 0.03:
                # A writer meanwhile is an answer of theirs too; what counts is what is lost.
                self.ours.lp_verify(self.path.encode())
                self.ours.lp_dry_run(self.path.encode())

    def answer(self, code):
        return code == -2, self.ours.error() if code == -1 else None

    def by_plain(self, sql):
        whole = b"BEGIN IMMEDIATE;" + sql + b";COMMIT"
        return self.answer(self.ours.lp_plain(self.path.encode(), whole))

    def by_own_writer(self, sql):
        writer = self.open(300)
        if not writer:
            error = self.ours.error()
            return ("locked" in error, None if "locked" in error else error)
        answer = self.answer(self.ours.lp_execute(writer, sql))
        if self.ours.lp_close(writer) != 0:
            return False, self.ours.error()
        return answer


def is_busy(error):
    return "locked" in str(error) and "protocol" not in str(error)


def neighbours_calls(ours, path):
    """What a Python program may do beside a Writer of its own process."""

    def connected(uri, sql=None, is_uri=False):
        with closing(sqlite3.connect(uri, timeout=0.1, uri=is_uri)) as connection:
            if sql:
                connection.execute(sql).fetchone()

    def read(name):
        if os.path.exists(name):
            with open(name, "rb") as file:
                file.read()

    look = "SELECT count(*) FROM sqlite_master"
    return {
        "open().read()": lambda: read(path),
        "open().read() of -wal": lambda: read(f"{path}-wal"),
        "open().read() of -shm": lambda: read(f"{path}-shm"),
        "shutil.copy": lambda: shutil.copy(path, f"{path}.copy"),
        "sqlite3, opened and closed": lambda: connected(path),
        "sqlite3, a query": lambda: connected(path, look),
        "sqlite3, immutable=1": lambda: connected(f"file:{path}?immutable=1", look, True),
        "sqlite3, mode=ro": lambda: connected(f"file:{path}?mode=ro", look, True),
        "sqlite3, BEGIN IMMEDIATE": lambda: connected(path, "BEGIN IMMEDIATE"),
        "verify": lambda: ours.lp_verify(path.encode()),
        "dry run of a load": lambda: ours.lp_dry_run(path.encode()),
        "nothing, while commands run": lambda: None,
    }


def hold(folder, profile):
    """A Writer in a transaction, during which one thing after the other is done."""
    ours = Ours()
    for number in itertools.count():
        path = os.path.join(folder, str(number), "a.db")
        calls = list(neighbours_calls(ours, path).items())
        if number == len(calls):
            return
        name, call = calls[number]
        os.mkdir(os.path.dirname(path))
        writer = ours.lp_open(path.encode(), profile.encode(), 1000)
        first = b"CREATE TABLE t(x); INSERT INTO t VALUES ('first')"
        if ours.lp_execute(writer, first) != 0:
            raise SystemExit(ours.error())
        held = ours.lp_hold(writer, b"INSERT INTO t VALUES ('held')")
        tell(f"held {path}\t{name}")
        sys.stdin.readline()
        try:
            call()
        except sqlite3.Error:
            # That it is locked is what it should hear.
            pass
        tell("called")
        sys.stdin.readline()
        codes = ours.lp_release(held), ours.lp_execute(writer, b"INSERT INTO t VALUES ('last')")
        tell(f"closed {codes} {ours.lp_close(writer)} {ours.error() if any(codes) else ''}")
        sys.stdin.readline()


# --- the process that judges ---


def start(*arguments):
    command = [sys.executable, __file__, *map(str, arguments)]
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    # One that hangs shall not hang the tests.
    limit = threading.Timer(CHILD_LIFE_MAX_S, child.kill)
    limit.daemon = True
    limit.start()
    return child


def is_locked(path, first, count=1):
    """Whether another process holds a lock on these bytes."""
    layout = "hhqqi4x"
    if not os.path.exists(path):
        return False
    asked = struct.pack(layout, fcntl.F_WRLCK, os.SEEK_SET, first, count, 0)
    with open(path, "r+b") as file:
        found = fcntl.fcntl(file, fcntl.F_GETLK, asked)
    return struct.unpack(layout, found)[0] != fcntl.F_UNLCK


class Neighbours(unittest.TestCase):
    def setUp(self):
        self.assertTrue(CAPI, "LEAFPRESS_CAPI must name the library; `make test-python` does")
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def make_database(self, profile):
        path = self.folder / f"{profile}-{len(os.listdir(self.folder))}" / "a.db"
        path.parent.mkdir()
        with closing(sqlite3.connect(path)) as connection:
            mode = "DELETE" if profile == "rollback" else "WAL"
            connection.execute(f"PRAGMA journal_mode = {mode}")
            connection.executescript(TABLE)
        return path

    def load(self, profile, transactions, is_plain=False):
        """What was acknowledged and what was broken in a whole run, and the path."""
        path = self.make_database(profile)
        with start("--load", path, profile, 1, transactions, int(is_plain)) as child:
            lines = child.stdout.read().splitlines()
        acknowledged = {int(line[4:]) for line in lines if line.startswith("ack ")}
        broken = [line[7:] for line in lines if line.startswith("broken ")]
        if child.returncode != 0 or lines[-1:] != ["done"]:
            broken.append(f"the process ended with {child.returncode}")
        return path, acknowledged, broken

    def test_nothing_is_lost_beside_sqlite3(self):
        for profile in ("durable", "rollback"):
            path, acknowledged, broken = self.load(profile, TRANSACTIONS)
            verdict = judge(path, acknowledged)
            print(f"{profile}: {len(acknowledged)} acknowledged, {verdict}, {len(broken)} broken")
            with self.subTest(profile):
                self.assertEqual((verdict, broken[:5]), ((0, 0, 0, "ok"), []))
                self.assertEqual(len(acknowledged), TRANSACTIONS)

    def test_two_plain_copies_lose(self):
        """The control: the same load without Leafpress."""
        for profile in ("durable", "rollback"):
            for _ in range(CONTROL_ROUNDS_MAX):
                path, acknowledged, _ = self.load(profile, 500, is_plain=True)
                if judge(path, acknowledged) != (0, 0, 0, "ok"):
                    break
            else:
                self.fail(f"{profile}: two plain copies lost nothing")

    def test_a_killed_process_has_lost_nothing(self):
        for profile in ("durable", "rollback"):
            path, acknowledged = self.make_database(profile), set()
            for kill in range(KILLS):
                chance = random.Random(kill)
                child = start("--load", path, profile, 1 + kill * 1_000_000, 1_000_000, 0)
                lines = [child.stdout.readline() for _ in range(chance.randint(1, 60))]
                time.sleep(chance.choice([0, 0.0001, 0.005, 0.02]))
                child.kill()
                lines += child.communicate()[0].splitlines()
                broken = [line for line in lines if not line.startswith("ack ")]
                acknowledged |= {int(line[4:]) for line in lines if line.startswith("ack ")}
                verdict = judge(path, acknowledged)
                with self.subTest(profile=profile, kill=kill):
                    self.assertEqual((verdict, broken[:5]), ((0, 0, 0, "ok"), []))

    def test_a_held_transaction_stays_closed(self):
        for profile in ("durable", "relaxed", "rollback", "rebuildable"):
            folder = self.folder / profile
            folder.mkdir()
            with start("--hold", folder, profile) as child:
                # Else a failure here would leave it waiting, and this process for it.
                self.addCleanup(child.kill)
                while line := child.stdout.readline().strip():
                    path, name = line.removeprefix("held ").split("\t")
                    problems = self.one_call(child, path, name, profile)
                    with self.subTest(profile=profile, call=name):
                        self.assertEqual(problems, [])

    def one_call(self, child, path, name, profile):
        """What is wrong after a call in the middle of a transaction."""
        problems = []

        def go():
            child.stdin.write("go\n")
            child.stdin.flush()
            return child.stdout.readline().strip()

        problems += [f"{lock} was never held" for lock in self.missing(path, profile)]
        if go() != "called":
            child.kill()
            return ["the process ended"]
        if name == "nothing, while commands run":
            problems += self.commands(path, profile)
        problems += [f"{lock} is not held any more" for lock in self.missing(path, profile)]
        try:
            with closing(sqlite3.connect(path, timeout=0, isolation_level=None)) as connection:
                connection.execute("INSERT INTO t VALUES ('outside')")
            problems.append("another process wrote in the middle of the transaction")
        except sqlite3.Error as error:
            if not is_busy(error):
                problems.append(f"another process was told: {error}")
        closed = go()
        if closed != "closed (0, 0) 0":
            problems.append(closed)
        try:
            with closing(sqlite3.connect(path)) as connection:
                rows = [x for (x,) in connection.execute("SELECT x FROM t ORDER BY rowid")]
        except sqlite3.Error as error:
            rows = error
        if rows != ["first", "held", "last"]:
            problems.append(f"rows {rows}")
        child.stdin.write("go\n")
        child.stdin.flush()
        return problems

    def missing(self, path, profile):
        """Locks that the Writer should hold, and this process does not meet."""
        if profile in ("durable", "relaxed"):
            expected = {
                "SHARED on the database": (path, 0x40000002, 510),
                "the sign of use on the -shm": (f"{path}-shm", 128),
                "the write lock on the -shm": (f"{path}-shm", 120),
            }
        else:
            expected = {"RESERVED on the database": (path, 0x40000001)}
        return [name for name, bytes_ in expected.items() if not is_locked(*bytes_)]

    def commands(self, path, profile):
        """Runs our commands on the database; those that write must be refused."""
        folder = os.path.dirname(path)
        rows = os.path.join(folder, "rows.csv")
        Path(rows).write_text("x\n1\n")
        looks = (
            ["verify", path],
            ["load", os.path.join(folder, "other.db"), path],
            ["load", "--dry-run", os.path.join(folder, "dry.db"), path],
            ["storage", "--seconds", "0.02", path],
            ["advise", path],
            ["io", path, "-c", "INSERT INTO t VALUES ('never')"],
        )
        writes = (
            ["load", path, rows, "--table", "t", "--append", "--busy-timeout", "100"],
            ["index", path, "t", "x", "--busy-timeout", "100"],
            ["queue", "push", path, "jobs", "{}"],
        )
        problems = []
        for command in looks + writes:
            done = subprocess.run([LEAFPRESS, *command], capture_output=True, text=True)
            if done.returncode == 2:
                problems.append(f"{command}: {done.stderr}")
            if command in writes and done.returncode == 0:
                problems.append(f"{command} got into the transaction")
        return problems


if __name__ == "__main__":
    if sys.argv[1:2] == ["--load"]:
        path, profile, first, transactions, is_plain = sys.argv[2:]
        Load(path, profile, int(first), int(transactions), is_plain == "1").run()
    elif sys.argv[1:2] == ["--hold"]:
        hold(*sys.argv[2:])
    else:
        unittest.main()
