"""The Writer from threads. The judge is Python's sqlite3."""

import collections
import copy
import dataclasses
import gc
import os
import pickle
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import duckdb
import pandas
import polars
import pyarrow
import pydantic
import pytest
from working import wait_until

import leafpress as lp

LIMIT_S = 20
TABLE = "CREATE TABLE t(a INTEGER PRIMARY KEY, b)"
ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"


def rows_in(path, sql="SELECT * FROM t ORDER BY 1"):
    """What another copy of SQLite reads."""
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(sql).fetchall()


def ended(thread):
    thread.join(LIMIT_S)
    return not thread.is_alive()


def eventually(is_so):
    end = time.monotonic() + LIMIT_S
    while not is_so() and time.monotonic() < end:
        time.sleep(0.001)
    return is_so()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "a.db"


@pytest.fixture
def writer(path):
    with lp.Writer(path) as writer:
        writer.execute_batch(TABLE)
        yield writer


def test_a_call_is_committed_when_it_returns(writer, path):
    done = writer.execute("INSERT INTO t(b) VALUES (?)", ("x",))
    assert done == (1, 1) and done.rowcount == 1 and done.lastrowid == 1
    assert rows_in(path) == [(1, "x")]
    assert writer.execute("UPDATE t SET b = ?", ["y"]).rowcount == 1
    assert rows_in(path) == [(1, "y")]


def test_values_are_stored_as_sqlite3_stores_them(writer, path):
    numbers = [None, 1, -(2**63), 2**63 - 1, 1.5, float("inf"), float("nan"), True]
    values = [*numbers, "ä\0b", b"\0\xff", bytearray(b"z")]
    for value in values:
        writer.execute("INSERT INTO t(b) VALUES (?)", (value,))
    plain = path.with_name("plain.db")
    with closing(sqlite3.connect(plain)) as connection, connection:
        connection.execute(TABLE)
        connection.executemany("INSERT INTO t(b) VALUES (?)", [(value,) for value in values])
    look = "SELECT a, b, typeof(b) FROM t ORDER BY a"
    assert rows_in(path, look) == rows_in(plain, look)
    assert writer.query("SELECT b FROM t ORDER BY a").fetchall() == rows_in(path, "SELECT b FROM t")


def test_named_parameters_are_found_as_sqlite3_finds_them(path):
    statements = [
        "SELECT :a, @b, $c, :a",
        "SELECT ':a', \"a\" FROM (SELECT 1 AS a) -- :x\n WHERE 1 = :a /* @y */",
        "SELECT `a`, [a], a$b FROM (SELECT 1 AS a, 2 AS a$b) WHERE 1 < @größe",
        "SELECT 'it''s :not', :a1",
    ]
    values = {"a": 1, "b": "x", "c": 1.5, "größe": 5, "a1": 2, "more": "unused"}
    with lp.Writer(path) as writer, closing(sqlite3.connect(path)) as connection:
        for sql in statements:
            expected = connection.execute(sql, values).fetchall()
            assert writer.query(sql, values).fetchall() == expected
            with writer.transaction() as tx:
                assert tx.execute(sql, collections.ChainMap(values)).fetchall() == expected
            writer.execute(sql, values)


@pytest.mark.parametrize(
    ("sql", "parameters", "text"),
    [
        ("SELECT :a, :b", {"a": 1}, "no value for the parameter :b"),
        ("SELECT ?", {"a": 1}, "has no name"),
        ("SELECT ?", (), "number of parameters"),
        ("SELECT ?", (1, 2), "number of parameters"),
        ("SELECT ?", "x", "sequence or a mapping, as \\(value,\\), and this is of type str"),
        ("SELECT ?", b"x", "type bytes"),
        ("SELECT ?", bytearray(b"x"), "type bytearray"),
        ("SELECT ?", memoryview(b"x"), "type memoryview"),
        ("SELECT ?", 5, "type int"),
    ],
)
def test_wrong_parameters_are_the_callers_mistake(writer, sql, parameters, text):
    for call in (writer.execute, writer.query, lambda *it: writer.submit(*it).result()):
        with pytest.raises(lp.ProgrammingError, match=text) as caught:
            call(sql, parameters)
        assert caught.value.kind == "misuse"


@pytest.mark.parametrize(
    ("sql", "parameters", "text"),
    [
        ("SELECT ?, ?", (1, 1j), "parameter 2: SQLite has no value for 1j of type complex"),
        ("SELECT ?", [2**64], "parameter 1: the integer 18446744073709551616 does not fit"),
        ("SELECT :a, :b", {"a": 1, "b": {object()}}, "parameter :b: SQLite has no value for <object"),
        ("SELECT @a", collections.ChainMap({"a": "\udce9"}), "parameter @a: the text is no UTF-8"),
    ],
)
def test_a_value_that_cannot_be_stored_is_named(writer, sql, parameters, text):
    with writer.transaction() as tx, writer.reader() as reader:
        for call in (tx.execute, writer.submit, writer.query, reader.execute):
            with pytest.raises(lp.DataError, match="^" + text) as caught:
                call(sql, parameters)
            assert (caught.value.kind, caught.value.on_disk) == ("bad_row", "nothing of this call")
            assert caught.value.line is None
    with pytest.raises(lp.DataError, match="^" + text):
        writer.execute(sql, parameters)


@pytest.mark.parametrize(
    ("rows", "text"),
    [
        ([(1, 2), (2, 1j)], 'row 2, column "b": SQLite has no value for 1j of type complex'),
        ([{"a": 1}, {"a": 2**64}], 'row 2, column "a": the integer'),
        ([(1, 2), (1, 2, 3, "\udce9")], "row 2, value 4: the text is no UTF-8"),
        ([(1, 2), "ab"], "row 2: it is of type str, and no list of values"),
        ([(1, 2), memoryview(b"ab")], "row 2: it is of type memoryview"),
        ([(1, 2), 5], "row 2: it is of type int, and no list of values"),
    ],
)
def test_a_value_that_cannot_be_stored_is_named_with_its_row(writer, path, rows, text):
    for insert in (writer.insert_many, lambda *it: writer.transaction().insert_many(*it)):
        with pytest.raises(lp.DataError, match="^" + text) as caught:
            insert("t", rows, None if isinstance(rows[0], dict) else ["a", "b"])
        assert caught.value.line == 2
    assert rows_in(path) == []


def test_a_ticket_gives_its_answer_more_than_once(writer, path):
    tickets = [writer.submit("INSERT INTO t(b) VALUES (:b)", {"b": n}) for n in range(100)]
    assert [ticket.result(LIMIT_S).lastrowid for ticket in tickets] == list(range(1, 101))
    assert tickets[5].result().lastrowid == 6 and tickets[5].done() and not tickets[5].cancel()
    assert len(rows_in(path)) == 100
    wrong = writer.submit("INSERT INTO t VALUES (1, 1)")
    for _ in range(2):
        with pytest.raises(lp.IntegrityError):
            wrong.result()


def test_threads_ask_the_same_tickets(writer):
    tickets = [writer.submit("INSERT INTO t(b) VALUES (?)", (n,)) for n in range(500)]
    answers = []

    def ask():
        answers.append([ticket.result(LIMIT_S).lastrowid for ticket in tickets])

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=ask) for _ in range(8)]
        for thread in threads:
            thread.start()
        assert all(map(ended, threads))
    finally:
        sys.setswitchinterval(interval)
    assert answers == [list(range(1, 501))] * 8


def test_a_ticket_waits_is_cancelled_and_interrupted(writer, path):
    with writer.transaction() as tx:
        first = writer.submit("INSERT INTO t(b) VALUES ('first')")
        second = writer.submit("INSERT INTO t(b) VALUES ('second')")
        assert not first.done()
        waiting = []

        def wait():
            with pytest.raises(lp.TimedOut) as caught:
                first.result(0.05)
            waiting.append(caught.value)

        thread = threading.Thread(target=wait)
        thread.start()
        assert ended(thread) and isinstance(waiting[0], TimeoutError)
        assert second.cancel()
        with pytest.raises(lp.Cancelled):
            second.result()
        tx.execute("INSERT INTO t(b) VALUES ('inside')")
    first.result(LIMIT_S)
    endless = writer.submit(ENDLESS)
    while not endless.interrupt():
        time.sleep(0.01)
    with pytest.raises(lp.Cancelled) as caught:
        endless.result(LIMIT_S)
    assert caught.value.kind == "interrupted"
    assert rows_in(path) == [(1, "inside"), (2, "first")]


def test_calls_of_many_threads_share_their_commits(writer, path):
    def insert(number):
        for step in range(50):
            writer.execute("INSERT INTO t(b) VALUES (?)", (number * 1000 + step,))

    threads = [threading.Thread(target=insert, args=[number]) for number in range(8)]
    for thread in threads:
        thread.start()
    assert all(map(ended, threads))
    values = [b for _, b in rows_in(path)]
    assert len(values) == len(set(values)) == 400
    stats = writer.stats()
    assert stats["commits"] < 401 and stats["calls_failed"] == 0
    assert eventually(lambda: writer.stats()["calls"] == 401)
    for number in range(8):
        own = [value for value in values if value // 1000 == number]
        assert own == sorted(own)


@dataclasses.dataclass
class Data:
    a: int
    b: object


Named = collections.namedtuple("Named", "a b")


class Model(pydantic.BaseModel):
    a: int
    b: str


FRAME = {"b": ["x", "y"], "a": [2, 1]}


@pytest.mark.parametrize(
    "rows",
    [
        [(1, "y"), (2, "x")],
        ([n, "yx"[n - 1]] for n in (1, 2)),
        [{"b": "x", "a": 2}, {"a": 1, "b": "y"}],
        ({"b": "yx"[n - 1], "a": n} for n in (1, 2)),
        [Data(1, "y"), Data(2, "x")],
        [Named(1, "y"), Named(2, "x")],
        [Model(a=1, b="y"), Model(a=2, b="x")],
        pandas.DataFrame(FRAME),
        polars.DataFrame(FRAME),
        pyarrow.table(FRAME),
        pyarrow.table(FRAME).to_batches()[0],
        pyarrow.table(FRAME).to_reader(),
    ],
    ids=lambda rows: type(rows).__name__,
)
def test_rows_of_every_kind_are_inserted(writer, path, rows):
    assert writer.insert_many("t", rows) == 2
    assert rows_in(path) == [(1, "y"), (2, "x")]


def test_rows_of_other_frames_come_through_arrow(writer, path):
    with duckdb.connect() as connection:
        frame = connection.sql("SELECT * FROM (VALUES ('x', 2), ('y', 1)) AS t(b, a)")
        assert writer.insert_many("t", frame) == 2
    assert rows_in(path) == [(1, "y"), (2, "x")]


def test_rows_with_columns(writer, path):
    with writer.transaction() as tx:
        assert tx.insert_many("t", [(1,)], ["b"]) == 1
        assert tx.insert_many("t", [{"b": 2, "z": 1}], ["b"]) == 1
        assert tx.insert_many("t", polars.DataFrame({"z": [1], "b": [3]}), ["b"]) == 1
        assert tx.insert_many("t", [(9, 4)]) == 1
        assert tx.insert_many("t", [(5,)], "b") == 1
        with pytest.raises(lp.Error, match="there must be 1, one for each column"):
            tx.insert_many("t", [(1, 2)], "ab")
        assert tx.insert_many("t", []) == 0
    assert rows_in(path) == [(1, 1), (2, 2), (3, 3), (9, 4), (10, 5)]


@pytest.mark.parametrize(
    ("rows", "error", "line"),
    [
        ([(1, 2), (1, 3)], lp.IntegrityError, 2),
        ([(1, 2), (2, 2**64)], lp.DataError, 2),
        ([{"a": 1, "b": 1}, {"a": 2}], lp.DataError, 2),
        ([{"a": 1}, {"a": 2, "b": 1}], lp.DataError, 2),
        ([(1,), (2,)], lp.DataError, 1),
        ([(1, 2), (1, 2, 3)], lp.DataError, 2),
        ([(1, 2), ()], lp.DataError, 2),
        ([1, 2], lp.DataError, 1),
        (5, lp.ProgrammingError, None),
        ({"a": 1, "b": 2}, lp.ProgrammingError, None),
        ("ab", lp.ProgrammingError, None),
        (b"ab", lp.ProgrammingError, None),
        (["ab", "cd"], lp.DataError, 1),
        ([(1, 2), "cd"], lp.DataError, 2),
        ([(1, 2), b"cd"], lp.DataError, 2),
        ([(1, 2), {"a": 1, "b": 2}], lp.DataError, 2),
        ([{"a": 1, "b": 2}, (1, 2)], lp.DataError, 2),
        ([Named(1, 2), (1, 2)], lp.DataError, 2),
        ([(1, 2), (2, "\ud800")], lp.DataError, 2),
    ],
)
def test_of_wrong_rows_none_is_inserted(writer, path, rows, error, line):
    with pytest.raises(error) as caught:
        writer.insert_many("t", rows)
    if line:
        assert caught.value.line == line and "nothing of this call" in caught.value.on_disk
        has_advice = "one for each column" not in str(caught.value) or "columns" in caught.value.to_do
        assert has_advice
    assert rows_in(path) == []


def test_a_missing_table_is_told_in_one_way(writer, path):
    def told(target, rows):
        with pytest.raises(lp.ProgrammingError, match="no such table: nowhere") as caught:
            target.insert_many("nowhere", rows)
        error = caught.value
        assert error.kind == "not_found" and error.to_do == "create the table first"
        return str(error), error.on_disk

    assert told(writer, [(1,)]) == told(writer, [{"a": 1}])
    with writer.transaction() as tx:
        assert told(tx, [(1,)]) == told(tx, [{"a": 1}])


def test_a_transaction_reads_what_it_wrote(writer, path):
    with writer.transaction() as tx:
        done = tx.execute("INSERT INTO t(b) VALUES ('x'), ('y') RETURNING a, b AS c")
        assert [name for name, *_ in done.description] == done.columns == ["a", "c"]
        assert done.fetchone() == (1, "x") and done.fetchall() == [(2, "y")]
        assert done.fetchone() is None and done.rowcount == 2 and done.lastrowid == 2
        empty = tx.execute("SELECT a FROM t WHERE a > 5")
        assert empty.columns == ["a"] and list(empty) == []
        assert tx.execute("DELETE FROM t WHERE a = 1").description is None
        assert tx.execute("SELECT count(*) FROM t").fetchone() == (1,)
        tx.execute_batch("INSERT INTO t(b) VALUES (1); INSERT INTO t(b) VALUES (2)")
        assert rows_in(path) == [] and writer.query("SELECT * FROM t").fetchall() == []
    assert rows_in(path) == [(2, "y"), (3, 1), (4, 2)]


def test_a_failed_statement_leaves_the_transaction_open(writer, path):
    with writer.transaction() as tx:
        tx.execute("INSERT INTO t VALUES (1, 'x')")
        with pytest.raises(lp.IntegrityError):
            tx.execute("INSERT INTO t VALUES (2, 'y'), (1, 'z')")
        with pytest.raises(lp.ProgrammingError, match="COMMIT"):
            tx.execute("COMMIT")
        tx.execute("INSERT INTO t VALUES (3, 'z')")
    assert rows_in(path) == [(1, "x"), (3, "z")]


def test_an_exception_rolls_back(writer, path):
    with pytest.raises(KeyError), writer.transaction() as tx:
        tx.execute("INSERT INTO t VALUES (1, 'x')")
        raise KeyError
    assert rows_in(path) == []
    for method in (tx.execute, tx.execute_batch):
        with pytest.raises(lp.Error):
            method("SELECT 1")
    with pytest.raises(lp.IntegrityError), writer.transaction() as tx:
        tx.execute("INSERT INTO t VALUES (1, 'x')")
        tx.execute("INSERT OR ROLLBACK INTO t VALUES (1, 'x')")
    assert rows_in(path) == []
    writer.execute("INSERT INTO t VALUES (5, 'after')")
    assert rows_in(path) == [(5, "after")]


def test_a_transaction_that_sqlite_rolled_back_is_not_committed(writer, path):
    with pytest.raises(lp.Error), writer.transaction() as tx:
        tx.execute("INSERT INTO t VALUES (1, 'x')")
        with pytest.raises(lp.IntegrityError):
            tx.execute("INSERT OR ROLLBACK INTO t VALUES (1, 'x')")
        with pytest.raises(lp.Error, match="rolled this transaction back"):
            tx.execute("INSERT INTO t VALUES (2, 'never')")
    assert rows_in(path) == []


def test_calls_that_would_wait_for_themselves_are_refused(writer, path):
    before = writer.submit("INSERT INTO t VALUES (1, 'before')")
    before.result()
    with writer.transaction() as tx:
        ticket = writer.submit("INSERT INTO t VALUES (3, 'after')")
        for call in (
            lambda: writer.execute("SELECT 1"),
            lambda: writer.execute_batch("SELECT 1"),
            lambda: writer.insert_many("t", [(9, 9)]),
            lambda: writer.transaction().__enter__(),
            lambda: writer.maintain("optimize"),
            ticket.result,
            writer.close,
        ):
            with pytest.raises(lp.ProgrammingError, match="for ever") as caught:
                call()
            assert caught.value.kind == "misuse" and "transaction" in caught.value.to_do
        tx.execute("INSERT INTO t VALUES (2, 'inside')")
    ticket.result(LIMIT_S)
    assert [a for a, _ in rows_in(path)] == [1, 2, 3]


def test_a_full_queue_is_not_waited_for_in_a_transaction(path):
    with lp.Writer(path, queue_capacity=2) as writer:
        writer.execute_batch(TABLE)
        with writer.transaction() as tx:
            tickets = [writer.submit("INSERT INTO t(b) VALUES (1)") for _ in range(2)]
            with pytest.raises(lp.QueueFull):
                writer.submit("INSERT INTO t(b) VALUES (1)")
            tx.execute("INSERT INTO t(b) VALUES (0)")
        assert [ticket.result(LIMIT_S).lastrowid for ticket in tickets] == [2, 3]


def test_a_forgotten_transaction_is_rolled_back(writer, path):
    def never_ends(keep):
        tx = writer.transaction().__enter__()
        tx.execute("INSERT INTO t(b) VALUES ('never')")
        keep.append(tx)

    for is_kept in (False, True):
        keep = []
        thread = threading.Thread(target=never_ends, args=[keep])
        thread.start()
        assert ended(thread)
        if not is_kept:
            keep.clear()
            gc.collect()
        assert writer.submit("INSERT INTO t(b) VALUES (?)", (is_kept,)).result(LIMIT_S)
    with pytest.raises(lp.Error):
        keep[0].execute("SELECT 1")
    assert rows_in(path) == [(1, 0), (2, 1)]


def test_a_transaction_has_its_time(writer, path):
    with pytest.raises(lp.Error), writer.transaction(call_limit=0.1) as tx:
        tx.execute("INSERT INTO t VALUES (1, 'never')")
        assert writer.submit("INSERT INTO t(b) VALUES ('other')").done() is False
        time.sleep(0.5)
    assert rows_in(path) == [(1, "other")]
    with pytest.raises(lp.TimedOut), writer.transaction(call_limit=0.1) as tx:
        tx.execute(ENDLESS)
    with pytest.raises(lp.TimedOut):
        writer.execute(ENDLESS, call_limit=0.1)


@pytest.mark.timeout(60)
def test_a_limit_of_the_writer_ends_a_transaction_that_idles(path):
    with lp.Writer(path, call_limit=0.1) as writer:
        writer.execute_batch(TABLE)
        with pytest.raises(lp.TimedOut), writer.transaction() as tx:
            tx.execute("INSERT INTO t VALUES (1, 'never')")
            # Its turn comes after the transaction.
            ticket = writer.submit("INSERT INTO t(b) VALUES ('other')")
            wait_until(ticket.done)
        with writer.transaction(call_limit=100) as tx:
            time.sleep(0.3)
            tx.execute("INSERT INTO t(b) VALUES ('longer')")
    assert rows_in(path) == [(1, "other"), (2, "longer")]


@pytest.mark.parametrize("is_same", [True, False])
def test_a_transaction_is_carried_out_again(writer, path, is_same):
    """Another call of the group undoes the transaction of all."""
    outcome = []

    def in_transaction():
        try:
            with writer.transaction() as tx:
                tx.execute("INSERT INTO t VALUES (1, 'x')")
                what = "count(*)" if is_same else "random()"
                tx.execute(f"SELECT {what} FROM t")
            outcome.append(None)
        except lp.Error as error:
            outcome.append(error)

    with writer.transaction() as tx:
        tx.execute("INSERT INTO t VALUES (5, 'there')")
        thread = threading.Thread(target=in_transaction)
        thread.start()
        assert eventually(lambda: writer.stats()["queue_depth"] == 1)
        broken = writer.submit("INSERT OR ROLLBACK INTO t VALUES (5, 'again')")
    with pytest.raises(lp.IntegrityError):
        broken.result(LIMIT_S)
    assert ended(thread)
    # The numbers come a moment after the answers.
    assert eventually(lambda: writer.stats()["groups_rolled_back"] >= 1)
    if is_same:
        assert outcome == [None] and rows_in(path) == [(1, "x"), (5, "there")]
    else:
        assert "run the transaction again" in str(outcome[0]) and outcome[0].is_retryable
        assert rows_in(path) == [(5, "there")]


def test_a_reader_sees_one_state(writer):
    writer.execute("INSERT INTO t VALUES (1, 'x')")
    with writer.reader() as reader:
        writer.execute("INSERT INTO t VALUES (2, 'y')")
        assert reader.execute("SELECT count(*) FROM t").fetchone() == (1,)
        assert writer.query("SELECT count(*) FROM t").fetchone() == (2,)
        assert writer.stats()["oldest_reader"]["name"].startswith("test_writer.py:")
        with pytest.raises(lp.OperationalError, match="readonly|not authorized"):
            reader.execute("DELETE FROM t")
        with pytest.raises(lp.OperationalError, match="write with execute"):
            writer.query("DELETE FROM t")
    with pytest.raises(lp.ProgrammingError, match="closed"):
        reader.execute("SELECT 1")
    assert writer.stats()["oldest_reader"] is None


def test_options_are_in_force(path):
    options = {
        "profile": "rollback", "foreign_keys": False, "page_size": 8192, "busy_timeout": 1.5,
        "queue_capacity": 10, "max_group": 5, "max_delay": 0.001, "call_limit": 60, "small": True,
        "locking": "exclusive", "atomic": "off", "shared": False, "readers": 2, "reader_wait": 0.1,
    }
    with lp.Writer(path, **options) as writer:
        writer.execute_batch(TABLE)
        in_force = writer.in_force()
        assert in_force["profile"] == "rollback" and in_force["foreign_keys"] is False
        assert in_force["page_size_bytes"] == 8192 and in_force["busy_timeout_ms"] == 1500
        assert in_force["locking"] == "exclusive" and in_force["small"] is True
        with pytest.raises(lp.ProgrammingError, match="exclusive"):
            writer.query("SELECT 1")
    with lp.Writer(path, profile="rebuildable", rebuildable_ok=True) as writer:
        assert writer.in_force()["profile"] == "rebuildable"
    with lp.Writer(path, readers=1, reader_wait=0.05, checkpoint={"wal_bytes_max": 1 << 20}) as it:
        with it.reader(), pytest.raises(lp.TimedOut, match="test_writer.py"):
            it.query("SELECT 1")


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"profile": "fast"}, "there is no profile 'fast'"),
        ({"profil": "durable"}, "no option 'profil'"),
        ({"profil": None}, "no option 'profil'"),
        ({"busy_timeout": -1}, "busy_timeout is -1"),
        ({"queue_capacity": -1}, "^queue_capacity: "),
        ({"readers": -1}, "^readers: "),
        ({"readers": 0}, "^readers is 0, and must be a number from 1"),
        ({"queue_capacity": 0}, "^queue_capacity is 0"),
        ({"max_group": 0}, "^max_group is 0"),
        ({"checkpoint": {"slice_frames": 0}}, "^slice_frames is 0"),
        ({"locking": "some"}, "shared or exclusive"),
        ({"checkpoint": {"wal": 1}}, "checkpoint has no option 'wal'"),
    ],
)
def test_wrong_options_are_refused(path, options, text):
    with pytest.raises(lp.ProgrammingError, match=text):
        lp.Writer(path, **options)
    assert not path.exists()


@pytest.mark.parametrize(
    "options",
    [{"page_size": "x"}, {"queue_capacity": "x"}, {"profile": 7}, {"readers": None, "small": "x"}],
)
def test_a_wrong_type_names_the_option(path, options):
    with pytest.raises(lp.ProgrammingError, match=f"^{list(options)[-1]} is "):
        lp.Writer(path, **options)


def test_a_limit_that_is_no_number_is_shown(writer):
    for call in (writer.execute, writer.submit):
        with pytest.raises(lp.ProgrammingError, match="^call_limit is a number, not 'x' of type str"):
            call("SELECT 1", call_limit="x")


def test_sql_with_a_nul_is_refused(writer, path):
    writer.execute("INSERT INTO t VALUES (1, 'x')")
    sql = "DELETE FROM t\0 WHERE a = 2"
    calls = [
        lambda: writer.execute(sql),
        lambda: writer.submit(sql).result(),
        lambda: writer.execute_batch(sql),
        lambda: writer.execute_batch("SELECT 1; " + sql),
        lambda: writer.query("SELECT a FROM t\0 WHERE a = 2"),
    ]
    with writer.transaction() as tx:
        for call in (lambda: tx.execute(sql), lambda: tx.execute_batch(sql)):
            with pytest.raises(lp.ProgrammingError, match="NUL"):
                call()
    with writer.reader() as reader:
        calls.append(lambda: reader.execute("SELECT a FROM t\0 WHERE a = 2"))
        for call in calls:
            with pytest.raises(lp.ProgrammingError, match="NUL"):
                call()
    assert writer.execute("DELETE FROM t WHERE b = ?", ("\0",)).rowcount == 0
    assert rows_in(path) == [(1, "x")]


def test_half_a_surrogate_pair_is_a_value_that_does_not_fit(writer):
    with pytest.raises(lp.DataError, match="no UTF-8.*surrogates"):
        writer.execute("INSERT INTO t(b) VALUES (?)", ("\ud800",))


def test_a_transaction_that_is_open_for_too_long_is_timed_out(writer, path):
    with pytest.raises(lp.TimedOut, match="0ms") as caught:
        with writer.transaction(call_limit=0.1) as tx:
            tx.execute("INSERT INTO t VALUES (1, 'x')")
            time.sleep(0.5)
            tx.execute("INSERT INTO t VALUES (2, 'x')")
    assert caught.value.kind == "timed_out" and caught.value.on_disk == "nothing of the transaction"
    assert rows_in(path) == []


def test_a_transaction_whose_turn_does_not_come_is_timed_out(writer, path):
    def attempt():
        with writer.transaction(timeout=0.1) as tx:
            tx.execute("INSERT INTO t VALUES (2, 'never')")

    began, may_end, errors = threading.Event(), threading.Event(), []

    def hold():
        with writer.transaction(timeout=60) as tx:
            tx.execute("INSERT INTO t VALUES (1, 'x')")
            began.set()
            may_end.wait()

    with ThreadPoolExecutor() as pool:
        held = pool.submit(hold)
        began.wait()
        # The main thread looks for signals while it waits; another one does not.
        for wait in (attempt, lambda: pool.submit(attempt).result()):
            with pytest.raises(lp.TimedOut, match=r"has not come after 0\.1 s") as caught:
                wait()
            errors.append(caught.value)
        may_end.set()
        held.result()
    for error in errors:
        assert error.on_disk == "nothing of the transaction, which did not begin"
        assert error.is_retryable and error.to_do in str(error)
    with pytest.raises(lp.ProgrammingError), writer.transaction(timeout=-1):
        pass
    with writer.transaction(timeout=60) as tx:
        tx.execute("INSERT INTO t VALUES (3, 'y')")
    assert rows_in(path) == [(1, "x"), (3, "y")]


def test_a_vacuum_is_maintenance(writer):
    with pytest.raises(lp.OperationalError) as caught:
        writer.execute("VACUUM")
    assert "call the writer's method `maintain`, with the work `vacuum`" in caught.value.to_do
    assert "`backup_to`" in caught.value.to_do


def test_a_closed_writer_says_so(path):
    writer = lp.Writer(path)
    writer.execute_batch(TABLE)
    ticket = writer.submit("INSERT INTO t VALUES (1, 'x')")
    writer.close()
    writer.close()
    assert ticket.result().rowcount == 1
    for call in (writer.execute, writer.submit, writer.query, writer.execute_batch):
        with pytest.raises(lp.ProgrammingError, match="closed"):
            call("SELECT 1")
    assert "closed" in writer.stopped
    assert rows_in(path) == [(1, "x")]


def test_a_close_has_its_time(path):
    writer = lp.Writer(path)
    writer.execute_batch(TABLE)
    endless = writer.submit(ENDLESS)
    began = time.monotonic()
    with pytest.raises(lp.TimedOut):
        writer.close(0.1)
    assert time.monotonic() - began < 5
    with pytest.raises(lp.Error):
        endless.result(LIMIT_S)


def test_backup_and_maintenance(writer, path, tmp_path):
    writer.insert_many("t", [(n, "x" * 100) for n in range(1000)])
    copy = tmp_path / "copy.db"
    writer.backup(copy)
    assert rows_in(copy) == rows_in(path)
    with pytest.raises(lp.OperationalError):
        writer.backup(copy)
    for work in ("vacuum", "optimize", "reindex", "checkpoint"):
        writer.maintain(work)
    with pytest.raises(lp.ProgrammingError, match="no work 'tidy': it is vacuum"):
        writer.maintain("tidy")


def test_a_path_may_be_bytes(path, tmp_path):
    place = os.fsencode(path)
    with lp.Writer(place) as writer:
        writer.execute_batch(TABLE)
        writer.backup(os.fsencode(tmp_path / "copy.db"))
        assert writer.path == str(path)
    with lp.Queue(place, "mail") as queue:
        queue.push(1)
    lp.load(place, [{"a": 1}], table="loaded")
    assert lp.verify(place)["sound"] and (tmp_path / "copy.db").exists()
    assert repr(lp.AsyncWriter(place)) == f"<leafpress.AsyncWriter of {path}>"


def test_a_writer_cannot_be_pickled(writer):
    ticket = writer.submit("SELECT 1")
    for thing in (writer, writer.transaction(), writer.reader(), ticket, lp.Stop()):
        with pytest.raises(lp.ProgrammingError, match="belongs to its process"):
            pickle.dumps(thing)


def test_a_queue_and_its_jobs_cannot_be_copied(writer):
    queue = lp.Queue(writer, "jobs")
    later = lp.Queue(lp.AsyncWriter(writer.path), "jobs")
    queue.push_many([1, 2])
    with queue.work() as work:
        job = next(work)
        for thing in (queue, later, job, work, later.work()):
            for copied in (copy.copy, copy.deepcopy, pickle.dumps):
                with pytest.raises(lp.ProgrammingError, match="belongs to its process") as caught:
                    copied(thing)
                assert caught.value.to_do
        gc.collect()
        # The end of a copy would have given it back.
        assert queue.job(job.id)["state"] == "leased"
        job.ack()


PROGRAM = f"""
import os, signal, sys, threading, time
import leafpress as lp
writer = lp.Writer(sys.argv[1])
writer.execute_batch({TABLE!r})
def ctrl_c():
    time.sleep(0.3)
    os.kill(os.getpid(), signal.SIGINT)
"""


def run(path, code, **options):
    command = [sys.executable, "-c", PROGRAM + code, str(path)]
    return subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, **options)


@pytest.mark.parametrize(
    "call",
    [
        f"writer.execute({ENDLESS!r})",
        f"writer.submit({ENDLESS!r}).result()",
        f"with writer.transaction() as tx: tx.execute({ENDLESS!r})",
        "with writer.transaction() as tx: tx.execute('INSERT INTO t VALUES (9, 9)'); time.sleep(9)",
    ],
)
def test_ctrl_c_stops_a_call(path, call):
    done = run(
        path,
        f"""
threading.Thread(target=ctrl_c).start()
began = time.monotonic()
try:
    {call}
except KeyboardInterrupt:
    print("stopped", time.monotonic() - began < 5)
writer.execute("INSERT INTO t VALUES (1, 'after')")
writer.close()
""",
    )
    assert (done.stdout, done.stderr, done.returncode) == ("stopped True\n", "", 0)
    assert rows_in(path) == [(1, "after")]


def test_ctrl_c_stops_no_call_of_another_thread(path):
    done = run(
        path,
        """
holds = threading.Event()
def other():
    with writer.transaction() as tx:
        holds.set()
        time.sleep(1)
        tx.execute("INSERT INTO t VALUES (2, 'other')")
thread = threading.Thread(target=other)
thread.start()
holds.wait()
threading.Thread(target=ctrl_c).start()
try:
    with writer.transaction() as tx:
        tx.execute("INSERT INTO t VALUES (3, 'never')")
except KeyboardInterrupt:
    print("stopped")
thread.join()
""",
    )
    assert (done.stdout, done.stderr, done.returncode) == ("stopped\n", "", 0)
    assert rows_in(path) == [(2, "other")]


@pytest.mark.parametrize(
    "end",
    [
        "",
        "tx = writer.transaction().__enter__(); tx.execute('INSERT INTO t(b) VALUES (9)')",
        "def f():\n tx = writer.transaction().__enter__(); time.sleep(60)\n"
        "threading.Thread(target=f, daemon=True).start(); time.sleep(0.2); del f",
    ],
    ids=["nothing open", "a transaction of this thread", "a transaction of a daemon"],
)
def test_the_end_of_the_program_commits_what_was_accepted(path, end, tmp_path):
    code = "tickets = [writer.submit('INSERT INTO t(b) VALUES (1)') for _ in range(1000)]\n" + end
    done = run(path, code)
    assert (done.stderr, done.returncode) == ("", 0)
    assert len(rows_in(path)) == 1000


def test_the_interpreter_is_free_while_a_call_waits(writer):
    """A thread that holds the interpreter would stop this one for the whole second."""
    endless = threading.Thread(
        target=lambda: pytest.raises(lp.TimedOut, writer.execute, ENDLESS, call_limit=1)
    )
    endless.start()
    count, end = 0, time.monotonic() + 0.5
    while time.monotonic() < end:
        time.sleep(0.001)
        count += 1
    assert count > 100 and ended(endless)


@pytest.mark.timeout(60)
def test_ctrl_c_stops_a_query_and_the_writer_goes_on(tmp_path, ctrl_c):
    with lp.Writer(tmp_path / "a.db") as writer:
        timer = threading.Timer(0.3, signal.raise_signal, [signal.SIGINT])
        timer.start()
        began = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            writer.query(ENDLESS)
        assert time.monotonic() - began < 10
        timer.join()
        assert writer.query("SELECT 1").fetchall() == [(1,)]
        writer.execute("CREATE TABLE t (x)")
        with writer.reader() as reader:
            assert reader.execute("SELECT count(*) FROM t").fetchone() == (0,)
