"""The Writer: small transactions of many threads, which share their commits."""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import sys
import threading
import weakref
from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any, Literal

from ._arguments import checked_methods, checked_options, path_text
from ._errors import Error, make, misuse
from ._greenlets import is_held, note_begun, note_ended, refuse_if_held
from ._insert import (
    DECLARED,
    columns_and_rows,
    large_columns,
    listed,
    needs_columns,
    refuse_large,
)
from ._leafpress import (
    NativeReader,
    NativeTicket,
    NativeTransaction,
    NativeWriter,
    StopRead,
    cluster_shown,
    end_of_program,
)
from ._options import CheckpointLimits, WriterOptions
from ._result import Executed, Result
from ._sources import Path
from ._typing import Self, Unpack

Parameters = Sequence[Any] | Mapping[str, Any] | None
"""Values for `?` in order, or for `:name`, `@name` and `$name` by name without the sign. A mapping
may have more keys."""

ManyParameters = Iterable[Sequence[Any] | Mapping[str, Any]]
"""Rows of values, each as `Parameters`."""

_open_writers: weakref.WeakSet[NativeWriter] = weakref.WeakSet()


def open_native(path: Path, options: Mapping[str, Any]) -> NativeWriter:
    """A native writer, which is closed at the end of the program at the latest."""
    given = checked_options("a Writer", WriterOptions, options)
    if "checkpoint" in given:
        given["checkpoint"] = checked_options("checkpoint", CheckpointLimits, given["checkpoint"])
    native = NativeWriter(path_text(path), given)
    _open_writers.add(native)
    _close_with_child()
    return native


# The process that has it, and what `multiprocessing` calls at the end of a child.
_end_of_child: tuple[int, Any] | None = None


def _close_with_child() -> None:
    """Has the writers of a child of `multiprocessing`, or of billiard, closed at its end: it ends by
    `os._exit`, which leaves out `atexit`."""
    global _end_of_child
    # It has the registry of billiard too, and is there in each child.
    util: Any = sys.modules.get("multiprocessing.util")
    if util is None:
        return
    # A child drops what its parent has registered.
    if _end_of_child is None or _end_of_child[0] != os.getpid() or not _end_of_child[1].still_active():
        _end_of_child = (os.getpid(), util.Finalize(None, _end_child, exitpriority=10))


def _end_child() -> None:
    current = sys.modules["multiprocessing.process"].current_process()
    if type(current).__name__ == "_MainProcess":
        # It ends by `atexit`, later: other functions there may still write.
        return
    this = threading.current_thread()
    if all(thread is this or thread.daemon for thread in threading.enumerate()):
        _close_all()
        return
    # The process waits for those threads after this, and they may go on with their calls. It waits for
    # this one too.
    threading.Thread(target=_commit_after_threads, name="leafpress-end").start()


def _commit_after_threads() -> None:
    own = (threading.current_thread(), threading.main_thread())
    while others := [each for each in threading.enumerate() if not each.daemon and each not in own]:
        for thread in others:
            thread.join()
    for native in list(_open_writers):
        with contextlib.suppress(Error):
            # What was submitted before it is committed then.
            native.execute("SELECT 1", None)


@atexit.register
def _close_all() -> None:
    try:
        for native in list(_open_writers):
            # An error has no caller left. In a child of fork each is the parent's.
            with contextlib.suppress(Error):
                native.close_at_exit()
    finally:
        # Threads that are inside calls would be unwound through the native module.
        end_of_program()


@checked_methods("execute", "submit", "query", "reader")
class Writer:
    """Writes small transactions of many threads to one SQLite database.

    A call returns when it is as durable as the profile promises; the calls of all threads that
    wait share one commit. Use one Writer for all threads of a process, and `shared=True` in each
    process if several write.

    ```python
    with leafpress.Writer("app.db") as writer:
        writer.execute_batch("CREATE TABLE IF NOT EXISTS event(what TEXT)")
        writer.execute("INSERT INTO event VALUES (?)", ("started",))
    ```

    A writer belongs to the process that opened it. In a child of `fork` each call raises
    `ProgrammingError` of the kind "forked", and nothing happens: open a writer there.

    Ctrl-C stops a call that runs or waits for its turn, and raises `KeyboardInterrupt`. Nothing of
    the call is in the database then, unless its commit had begun: that comes to its end. Where the
    difference matters, look. While the writer waits for the lock of another program, Ctrl-C may
    raise only when that wait ends: with the lock, or after `busy_timeout`. A backup or maintenance is
    stopped too. A close goes on after Ctrl-C, so that all accepted calls are committed.

    `execute`, `submit` and `transaction` take a `call_limit` of their own; for other calls that write, that of
    the Writer holds.

    A transaction may be used by several threads, one after the other. While a greenlet has one open, calls of
    the writer by other greenlets of its thread are refused, as they would wait for it for ever.
    """

    def __init__(self, path: Path, **options: Unpack[WriterOptions]) -> None:
        """Opens the database, and makes it if it is missing. For `rqlite://host:4001,host:4001` it
        is a cluster, and `queue_capacity` the only option.

        The options are those of `WriterOptions`, which says what each does: profile,
        rebuildable_ok, shared, foreign_keys, page_size, atomic, locking, small, busy_timeout,
        queue_capacity, max_group, max_delay, call_limit, readers, reader_wait, checkpoint.

        Raises `OperationalError` or `DatabaseError` if it cannot be opened as the profile needs
        it, and `ProgrammingError` for an option that there is not, or a value that it does not take.
        """
        place = path_text(path)
        self.path = cluster_shown(place) or place
        self._native = open_native(place, options)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> Any:
        raise no_pickle(self)

    def __repr__(self) -> str:
        return f"<leafpress.Writer of {self.path}>"

    def execute(
        self, sql: str, parameters: Parameters = None, *, call_limit: float | None = None
    ) -> Executed:
        """Carries out one statement as a transaction, and returns when it is committed.

        Rows that it returns are dropped: use `query` for SELECT, and `transaction` for RETURNING.
        `call_limit` is in seconds.

        Raises `IntegrityError` if it breaks a rule, `OperationalError` if SQLite refuses it,
        `TimedOut`, and `ProgrammingError` for wrong parameters and inside of a transaction of
        this thread. Nothing of it is in the database then; only after `OutcomeUnknown` that has
        to be looked up.
        """
        refuse_if_held(self._native)
        return self._native.execute(sql, parameters, call_limit)

    def executemany(self, sql: str, rows: ManyParameters) -> Executed:
        """Carries out an INSERT, UPDATE or DELETE for each row, as one transaction; returns the
        changes of all, and the last `lastrowid`.

        Each row is a sequence, or a mapping as for `execute`; `insert_many` takes frames and other
        objects. The rows are read first, and are in memory until the commit. Rows that the statement
        returns are dropped.

        Raises as `execute`, with the number of the row from 1 as `line`, and what `rows` raises.
        Nothing of the call is in the database then.
        """
        refuse_if_held(self._native)
        return self._native.executemany(sql, rows)

    def submit(
        self, sql: str, parameters: Parameters = None, *, call_limit: float | None = None
    ) -> Ticket:
        """Submits a statement as `execute` does, and does not wait for the commit. It waits for
        room if the queue is full.

        Raises `ProgrammingError` for wrong parameters, or if the writer is closed; `QueueFull` in
        a transaction of this thread, or beside that of another greenlet of it, where there would
        never be room.
        """
        ticket = self._native.submit(sql, parameters, call_limit, is_held(self._native))
        return Ticket(ticket, self._native)

    def execute_batch(self, sql: str) -> None:
        """Carries out any number of statements without parameters as one transaction.

        Raises as `execute`: then all of them are undone.
        """
        refuse_if_held(self._native)
        self._native.execute_batch(sql)

    def insert_many(self, table: str, rows: Any, columns: Sequence[str] | None = None) -> int:
        """Inserts many rows as one transaction; returns their number.

        `rows` is a data frame of any kind that `load` takes, of which the values are those that
        `load` would store, an iterable of such frames, or an iterable of rows. Rows with names
        (mappings, dataclasses, named tuples, models, rows and cursors of databases) go by name, with
        the names of the first one or `columns`; sequences are in the order of `columns`, or of the
        table's columns. All rows are in memory until the commit: `leafpress.load` is for millions.

        Raises as `execute`, and `DataError` for a value that SQLite cannot hold, such as an integer
        beyond 64 bits for a column of numbers, with the number of its row from 1 as `line`. No row
        is inserted then.
        """
        rows = listed(rows)
        if columns is None and needs_columns(rows):
            columns = columns_of(self._native, table)
        names, values = columns_and_rows(rows, columns)
        if large := large_columns(names, values):
            refuse_large(large, query(self._native, DECLARED, (table,), "insert_many"))
        refuse_if_held(self._native)
        return self._native.insert_many(table, names, values)

    def transaction(
        self, *, call_limit: float | None = None, timeout: float | None = None
    ) -> Transaction:
        """A transaction of several statements, with reads among them, as a context manager.

        It begins when its turn comes, and is committed at the end of the block; an exception
        rolls it back. **All other calls of the writer wait for its end.** Its statements and their
        values are in memory until the commit, as they may have to be carried out again. `call_limit` seconds
        after its begin it is rolled back. If its turn has not come after `timeout` seconds, it
        raises `TimedOut` and does not begin.

        Raises as `execute`, at the begin and at the end.
        """
        return Transaction(NativeTransaction(self._native, call_limit), self._native, timeout)

    def query(self, sql: str, parameters: Parameters = None) -> Result:
        """The rows of a query, by a read-only connection: of committed data, beside the calls.

        All rows are read into memory before it returns. Ctrl-C stops it.

        Raises `OperationalError` if SQLite refuses it or it would write, and `TimedOut` if no
        connection comes back in time.
        """
        return query(self._native, sql, parameters, caller())

    def reader(self) -> Reader:
        """A read-only connection that sees one state of the database, as a context manager.

        The write-ahead log grows until it is closed. Raises as `query`.
        """
        return Reader(self._native, caller())

    def stats(self) -> dict[str, Any]:
        """Numbers of the work since the opening; the units are in the names."""
        stats: dict[str, Any] = json.loads(self._native.stats())
        return stats

    def in_force(self) -> dict[str, Any]:
        """The settings in force, as SQLite tells them, and what they promise on this disk."""
        settings: dict[str, Any] = json.loads(self._native.in_force())
        return settings

    @property
    def stopped(self) -> str | None:
        """Why it takes no calls any more; None if it does."""
        return self._native.stopped()

    def interrupt(self) -> bool:
        """Stops the call that is carried out now, which raises `Cancelled`; False if none is."""
        return self._native.interrupt()

    def backup(self, path: Path) -> None:
        """Copies the database as it is now into a new file, while calls go on.

        Raises `OperationalError` if the file is there or cannot be written. No file is left then.
        """
        refuse_if_held(self._native)
        self._native.backup(path_text(path))

    def maintain(self, work: Literal["vacuum", "optimize", "reindex", "checkpoint"]) -> None:
        """Runs VACUUM, PRAGMA optimize, REINDEX or a checkpoint between two commits. Calls wait meanwhile.

        Raises `OperationalError` if another connection is in the way for too long. The database
        holds what it held.
        """
        refuse_if_held(self._native)
        self._native.maintain(work)

    def close(self, timeout: float | None = None) -> None:
        """Takes no further call, waits until all accepted ones are committed, and closes the
        database. After `timeout` seconds the call that runs is stopped, and those that wait are
        refused.

        Raises `OperationalError` if the writer had stopped because of a failure. What was
        answered with success is safe all the same.
        """
        refuse_if_held(self._native)
        self._native.close(timeout)
        _open_writers.discard(self._native)


@checked_methods("__init__")
class Ticket:
    """A call that was submitted. If it is dropped, the call is committed all the same."""

    __slots__ = ("_native", "_writer")

    def __init__(self, native: NativeTicket, writer: NativeWriter) -> None:
        self._native = native
        self._writer = writer

    def __reduce__(self) -> Any:
        raise no_pickle(self)

    def result(self, timeout: float | None = None) -> Executed:
        """Waits until the call is committed, at most for `timeout` seconds.

        Raises the error of the call; nothing of it is in the database then. Raises `TimedOut` if
        there is no answer yet: the call goes on, and the ticket can be asked again.
        """
        if not self._native.done():
            refuse_if_held(self._writer)
        if not self._native.wait(timeout):
            to_do = "ask again, or call `interrupt`"
            text = f"the call has no answer after {timeout} s, and goes on\nto do: {to_do}"
            raise make(text, "timed_out", to_do=to_do)
        return self._native.result()

    def done(self) -> bool:
        """True if the answer is there."""
        return self._native.done()

    def cancel(self) -> bool:
        """Takes the call back, if no thread has begun with it: nothing of it is written then, and
        `result` raises `Cancelled`. False if it is too late."""
        return self._native.cancel()

    def interrupt(self) -> bool:
        """Takes the call back, or stops it if it runs. False if it has its answer. A commit that
        has begun is never stopped: `result` tells."""
        return self._native.interrupt()


@checked_methods("__init__", "execute")
class Transaction:
    """A transaction of a `Writer`, from the begin of its `with` block to its end."""

    __slots__ = ("__weakref__", "_native", "_timeout", "_writer")

    def __init__(
        self, native: NativeTransaction, writer: NativeWriter, timeout: float | None
    ) -> None:
        self._native = native
        self._writer = writer
        self._timeout = timeout

    def __enter__(self) -> Self:
        refuse_if_held(self._writer)
        if not self._native.begin(self._timeout):
            text = f"the turn of the transaction has not come after {self._timeout} s"
            on_disk = "nothing of the transaction, which did not begin"
            to_do = "try again, or make the other transactions shorter"
            text = f"{text}\non disk: {on_disk}\nto do: {to_do}"
            raise make(text, "timed_out", is_retryable=True, on_disk=on_disk, to_do=to_do)
        note_begun(self._writer, self._native)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        note_ended(self._native)
        if kind is None:
            self._native.commit()
        else:
            self._native.rollback()

    def __reduce__(self) -> Any:
        raise no_pickle(self)

    def execute(self, sql: str, parameters: Parameters = None) -> Result:
        """Carries out one statement, and gives its rows, all of which are in memory then.

        Raises as `Writer.execute`. The transaction goes on, unless SQLite has rolled it back;
        let the exception out of the block to undo all of it.
        """
        return self._native.execute(sql, parameters)

    def executemany(self, sql: str, rows: ManyParameters) -> Executed:
        """Carries out an INSERT, UPDATE or DELETE for each row, as `Writer.executemany`, as one step.

        Raises as that; nothing of the step is in the transaction then, which goes on.
        """
        return self._native.executemany(sql, rows)

    def execute_batch(self, sql: str) -> None:
        """Carries out any number of statements without parameters.

        Raises as `execute`; the statements before the one that failed have had their effect.
        """
        self._native.execute_batch(sql)

    def insert_many(self, table: str, rows: Any, columns: Sequence[str] | None = None) -> int:
        """Inserts many rows, as `Writer.insert_many`; returns their number.

        Raises as that; none of the rows is inserted then, and the transaction goes on.
        """
        rows = listed(rows)
        if columns is None and needs_columns(rows):
            found = self._native.execute(COLUMNS, (table,))
            columns = checked_columns(table, [name for (name,) in found])
        names, values = columns_and_rows(rows, columns)
        if large := large_columns(names, values):
            refuse_large(large, self._native.execute(DECLARED, (table,)))
        return self._native.insert_many(table, names, values)


class Reader:
    """A read-only connection that sees one state of the database."""

    __slots__ = ("_name", "_native", "_writer")

    def __init__(self, writer: NativeWriter, name: str) -> None:
        self._writer = writer
        self._name = name
        self._native: NativeReader | None = None

    def __enter__(self) -> Self:
        self._native = begun_reader(self._writer, self._name)
        return self

    def __exit__(self, *_: object) -> None:
        if self._native is not None:
            self._native.close()

    def __reduce__(self) -> Any:
        raise no_pickle(self)

    def execute(self, sql: str, parameters: Parameters = None) -> Result:
        """The rows of a query, all of which are read into memory before it returns, also for `fetchone`.
        Read a large table in parts, as by `WHERE id > ? ORDER BY id LIMIT 10000` with the last id of
        the part before: the reader sees one state in all of them.

        Raises `OperationalError` if SQLite refuses it.
        """
        if self._native is None:
            raise misuse("the reader is not open", "use it in a `with` block")
        return self._native.query(sql, parameters)


def begun_reader(writer: NativeWriter, name: str) -> NativeReader:
    """A reader that sees the state of now until it is closed."""
    reader = writer.reader(name)
    try:
        # A deferred transaction sees what was committed when it first reads.
        reader.query("BEGIN", None)
        reader.query("SELECT 1 FROM sqlite_schema LIMIT 1", None)
    except BaseException:
        reader.close()
        raise
    return reader


COLUMNS = "SELECT name FROM pragma_table_info(?)"


def columns_of(native: NativeWriter, table: str) -> list[str]:
    """The columns of a table that a row may have values for."""
    rows = query(native, COLUMNS, (table,), "insert_many").fetchall()
    on_disk = "nothing of this call; other callers' are not touched"
    return checked_columns(table, [name for (name,) in rows], on_disk)


def checked_columns(table: str, names: list[str], on_disk: str | None = None) -> list[str]:
    """The columns; raises what the library says of a missing table if there are none."""
    if not names:
        to_do = "create the table first"
        state = "" if on_disk is None else f"\non disk: {on_disk}"
        text = f"no such table: {table}{state}\nto do: {to_do}"
        raise make(text, "not_found", on_disk=on_disk, to_do=to_do)
    return names


def query(
    native: NativeWriter, sql: str, parameters: Parameters, name: str, stop: StopRead | None = None
) -> Result:
    """The rows of a query, by a reader of that name."""
    reader = native.reader(name)
    try:
        return reader.query(sql, parameters, stop)
    finally:
        reader.close()


def no_pickle(
    thing: object, to_do: str = "send the path, and open a Writer with shared=True in each process"
) -> Error:
    """The exception for an object that was to be copied, or sent to another process."""
    return misuse(f"a {type(thing).__name__} belongs to its process, and cannot be pickled", to_do)


def caller() -> str:
    """The place in the program that has called a method of this module."""
    frame = sys._getframe(2)
    return f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}"
