"""`executemany`: one statement for each row. The judge is Python's sqlite3."""

import asyncio
import collections
import contextlib
import sqlite3
import threading
import time

import pytest

import leafpress as lp

LIMIT_S = 20
TABLE = "CREATE TABLE t(a INTEGER PRIMARY KEY, b CHECK (b IS NOT 'bad'))"
INSERT = "INSERT INTO t(b) VALUES (?)"


class OnTransaction:
    """`executemany` of a transaction, which ends with it."""

    def __init__(self, writer):
        self._writer = writer

    def executemany(self, sql, rows):
        with self._writer.transaction() as tx:
            return tx.executemany(sql, rows)


class OfTasks:
    """`executemany` of an AsyncWriter, or of its transaction."""

    def __init__(self, path, in_transaction):
        self._path = path
        self._in_transaction = in_transaction

    def executemany(self, sql, rows):
        async def run():
            async with lp.AsyncWriter(self._path) as writer:
                if not self._in_transaction:
                    return await writer.executemany(sql, rows)
                async with writer.transaction() as tx:
                    return await tx.executemany(sql, rows)

        return asyncio.run(run())


KINDS = ["Writer", "Transaction", "AsyncWriter", "AsyncTransaction"]


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "a.db"
    with contextlib.closing(sqlite3.connect(path)) as made:
        made.execute(TABLE)
    return path


@pytest.fixture
def writer(path):
    with lp.Writer(path) as writer:
        yield writer


@pytest.fixture(params=KINDS)
def each(request, path):
    if request.param.startswith("Async"):
        yield OfTasks(path, request.param == "AsyncTransaction")
        return
    with lp.Writer(path) as writer:
        yield writer if request.param == "Writer" else OnTransaction(writer)


def rows_in(path):
    with contextlib.closing(sqlite3.connect(path)) as connection:
        return connection.execute("SELECT * FROM t ORDER BY 1").fetchall()


def by_sqlite3(calls):
    """The rows and the counts that sqlite3 has after the same calls."""
    with contextlib.closing(sqlite3.connect(":memory:")) as connection:
        connection.execute(TABLE)
        # It takes no other mappings than dicts.
        rows_of = [[dict(row) if isinstance(row, collections.ChainMap) else row for row in rows] for _, rows in calls]
        counts = [connection.executemany(sql, rows).rowcount for (sql, _), rows in zip(calls, rows_of)]
        return connection.execute("SELECT * FROM t ORDER BY 1").fetchall(), counts


CALLS = [
    (INSERT, [("x",), ["y"], (None,)]),
    ("INSERT INTO t VALUES (:a, :b)", [{"a": 7, "b": 1.5, "more": 0}, collections.ChainMap({"a": 8, "b": b"z"})]),
    ("INSERT OR IGNORE INTO t VALUES (?, ?)", [(7, "again"), (9, "new")]),
    ("UPDATE t SET b = ?2 WHERE a >= ?1", [(7, "u"), (100, "none"), (1, "all")]),
    ("-- a comment\n WITH n AS (SELECT :a AS x) INSERT INTO t SELECT x, x FROM n", [{"a": 20}]),
    ("REPLACE INTO t VALUES (?, ?)", [(20, "r"), (21, "s")]),
    ("DELETE FROM t WHERE a = ?", [(1,), (2,), (2,)]),
    (INSERT, []),
]


def test_the_rows_and_counts_are_those_of_sqlite3(each, path):
    # sqlite3 counts nothing for a statement that begins with WITH or a comment.
    wanted, counts = by_sqlite3(CALLS)
    done = [each.executemany(sql, iter(rows)) for sql, rows in CALLS]
    assert rows_in(path) == wanted
    for (sql, _), mine, theirs in zip(CALLS, done, counts):
        assert isinstance(mine, lp.Executed)
        assert mine.rowcount == (1 if "WITH" in sql else theirs), sql
    assert done[1].lastrowid == 8


def test_rows_of_returning_are_dropped(each, path):
    done = each.executemany(f"{INSERT} RETURNING a", [(1,), (2,)])
    assert done == (2, 2) and rows_in(path) == [(1, 1), (2, 2)]


def test_a_row_that_is_refused_is_named_and_no_row_is_carried_out(each, path):
    with pytest.raises(lp.IntegrityError, match="CHECK") as caught:
        each.executemany(INSERT, [("good",), ("good",), ("bad",), ("good",)])
    assert caught.value.line == 3 and "\n  row 3 of the call\n" in str(caught.value)
    assert caught.value.on_disk == "nothing of this call" and rows_in(path) == []
    for wrong in ((1, 2), ()):
        with pytest.raises(lp.ProgrammingError, match="row 2") as caught:
            each.executemany(INSERT, [("good",), wrong])
        assert caught.value.line == 2 and caught.value.on_disk == "nothing of this call"
    with pytest.raises(lp.OperationalError, match="no such column"):
        each.executemany("UPDATE t SET nowhere = ?", [])
    assert rows_in(path) == []


@pytest.mark.parametrize(
    ("rows", "kind", "text"),
    [
        ([(1,), (2**64,)], lp.DataError, "row 2, parameter 1: the integer"),
        ([(1,), {"c": 1}], lp.ProgrammingError, "row 2: the parameter"),
        ([(1,), "x"], lp.ProgrammingError, "row 2: parameters are a sequence"),
        ([(1,), None], lp.ProgrammingError, "row 2: parameters are a sequence"),
        ("x", lp.ProgrammingError, "row 1: parameters are a sequence"),
        ({"b": 1}, lp.ProgrammingError, "row 1: parameters are a sequence"),
        (7, lp.ProgrammingError, "rows is a list, not 7"),
        (None, lp.ProgrammingError, "rows is a list, not None"),
    ],
)
def test_a_row_of_a_wrong_kind_is_named(each, path, rows, kind, text):
    with pytest.raises(kind, match="^" + text):
        each.executemany(INSERT, rows)
    assert rows_in(path) == []


@pytest.mark.parametrize(
    "sql",
    ["SELECT ?", "WITH n AS (SELECT ?) SELECT * FROM n", "CREATE TABLE u(x)", "PRAGMA user_version = 5",
     "EXPLAIN INSERT INTO t(b) VALUES (?)", "COMMIT", f"{INSERT}; {INSERT}", "-- nothing", ""],
)
@pytest.mark.parametrize("rows", [[(1,)], []])
def test_what_is_no_insert_update_or_delete_is_refused(each, path, sql, rows):
    with pytest.raises(lp.ProgrammingError) as caught:
        each.executemany(sql, rows)
    assert caught.value.kind in ("misuse", "refused")
    assert rows_in(path) == []


def test_the_length_that_rows_tell_is_not_asked_for(each, path):
    class Rows:
        def __len__(self):
            return 2**62

        def __iter__(self):
            return iter([(1, "x")])

    class Raises(Rows):
        def __len__(self):
            raise KeyboardInterrupt

    assert each.executemany("INSERT INTO t(a, b) VALUES (?, ?)", Rows()).rowcount == 1
    assert each.executemany("UPDATE t SET a = ?, b = ?", Raises()).rowcount == 1


def test_an_iterable_that_raises_leaves_the_transaction_as_it_was(writer, path):
    def broken():
        yield ("never",)
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        writer.executemany(INSERT, broken())
    with writer.transaction() as tx:
        tx.execute(INSERT, ("before",))
        with pytest.raises(KeyError, match="mine"):
            tx.executemany(INSERT, broken())
        tx.execute(INSERT, ("after",))
    with pytest.raises(KeyError, match="mine"), writer.transaction() as tx:
        tx.execute(INSERT, ("undone",))
        tx.executemany(INSERT, broken())
    assert rows_in(path) == [(1, "before"), (2, "after")]


def test_a_step_that_fails_is_undone_and_the_transaction_goes_on(writer, path):
    with writer.transaction() as tx:
        tx.executemany(INSERT, (("one",) for _ in range(2)))
        # OR FAIL would leave the rows before the bad one.
        with pytest.raises(lp.IntegrityError):
            tx.executemany("INSERT OR FAIL INTO t(b) VALUES (?), (?)", [("x", "y"), ("z", "bad")])
        assert tx.execute("SELECT count(*) FROM t").fetchone() == (2,)
        tx.executemany("UPDATE t SET b = b || ?", [("!",), ("?",)])
    assert rows_in(path) == [(1, "one!?"), (2, "one!?")]
    with pytest.raises(lp.IntegrityError) as caught, writer.transaction() as tx:
        tx.executemany("INSERT OR ROLLBACK INTO t(b) VALUES (?)", [("x",), ("bad",)])
    assert "nothing of the transaction" in caught.value.on_disk
    assert rows_in(path) == [(1, "one!?"), (2, "one!?")]


def test_a_transaction_with_many_rows_is_carried_out_again(writer, path):
    """Another call of the group undoes the transaction of all."""
    outcome = []

    def in_transaction():
        with writer.transaction() as tx:
            tx.executemany(INSERT, [("x",), ("y",)])
        outcome.append(writer.executemany(INSERT, [("z",)]).rowcount)

    with writer.transaction() as tx:
        tx.execute("INSERT INTO t VALUES (5, 'there')")
        thread = threading.Thread(target=in_transaction)
        thread.start()
        end = time.monotonic() + LIMIT_S
        while writer.stats()["queue_depth"] < 1 and time.monotonic() < end:
            time.sleep(0.001)
        broken = writer.submit("INSERT OR ROLLBACK INTO t VALUES (5, 'again')")
    with pytest.raises(lp.IntegrityError):
        broken.result(LIMIT_S)
    thread.join(LIMIT_S)
    assert outcome == [1] and [b for _, b in rows_in(path)] == ["there", "x", "y", "z"]


def test_a_call_of_many_rows_is_stopped(path):
    counts = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n {}) SELECT count(*) FROM n"
    endless = f"{INSERT} RETURNING ({counts.format('')})"
    # Too short for SQLite to ask whether it is to end: the call asks between two rows.
    short = f"{INSERT} RETURNING ({counts.format('LIMIT 200')})"
    with lp.Writer(path, call_limit=0.1) as writer:
        for call in (writer.executemany, OnTransaction(writer).executemany):
            with pytest.raises(lp.TimedOut):
                call(endless, [("never",)])
            with pytest.raises(lp.TimedOut):
                call(short, (("never",) for _ in range(50_000)))
    assert rows_in(path) == []


def test_it_is_refused_inside_of_a_transaction_of_the_same_thread(writer, path):
    with writer.transaction() as tx:
        with pytest.raises(lp.ProgrammingError, match="for ever"):
            writer.executemany(INSERT, [(1,)])
        tx.executemany(INSERT, [(2,)])
    assert rows_in(path) == [(1, 2)]
