"""The Writer for asyncio: a task never blocks the event loop, and all calls of a commit wake it
once.

Must never: be slow per call. `execute` is no coroutine; it returns a future.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import json
import sys
import threading
import weakref
from asyncio import AbstractEventLoop, get_running_loop
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

from ._arguments import checked_methods, path_text
from ._errors import Error, misuse
from ._insert import (
    DECLARED,
    columns_and_rows,
    large_columns,
    listed,
    needs_columns,
    refuse_large,
)
from ._leafpress import (
    Loop,
    NativeParameters,
    NativeQueue,
    NativeReader,
    NativeTransaction,
    NativeWriter,
    StopRead,
    Task,
    cluster_shown,
)
from ._options import WriterOptions
from ._result import Executed, Result
from ._sources import Path
from ._typing import Self, Unpack
from ._writer import (
    COLUMNS,
    ManyParameters,
    Parameters,
    begun_reader,
    caller,
    checked_columns,
    columns_of,
    no_pickle,
    open_native,
    query,
)

T = TypeVar("T")

_sides: weakref.WeakKeyDictionary[AbstractEventLoop, Loop] = weakref.WeakKeyDictionary()
_sides_lock = threading.Lock()

# The transactions around this task.
_around: contextvars.ContextVar[tuple[AsyncTransaction, ...]] = contextvars.ContextVar(
    "leafpress_transactions", default=()
)


def running_loop() -> AbstractEventLoop:
    """The event loop that runs in this thread.

    Raises `ProgrammingError` if none does, as in a thread of a pool, or under trio.
    """
    try:
        return get_running_loop()
    except RuntimeError:
        raise misuse(
            "an AsyncWriter is called where no event loop of asyncio runs",
            "call it in a coroutine of asyncio; in a thread, or under trio in a thread of it, use a Writer",
        ) from None


def side_of(loop: AbstractEventLoop) -> Loop:
    """The side of the event loop where its calls are woken."""
    side = _sides.get(loop)
    if side is None:
        with _sides_lock:
            side = Loop()
            loop.add_reader(side.fileno(), side.drain)
            _sides[loop] = side
    return side


if TYPE_CHECKING:

    class _Future(asyncio.Future[T], Generic[T]):
        pass
else:

    class _Future(asyncio.Future, Generic[T]):
        pass


class Call(_Future[T]):
    """A call that is on its way. If it is cancelled, it is taken back or stopped, and nothing of it is
    written; a commit that has begun comes to its end, and its answer is lost."""

    _task: Task | None = None

    def cancel(self, msg: Any = None) -> bool:
        """Cancels the future, and takes the call back or stops it."""
        is_cancelled = super().cancel(msg)
        if is_cancelled and self._task is not None:
            self._task.cancel()
        return is_cancelled


def start(begin: Callable[..., Task], *arguments: Any) -> Call[Any]:
    """Begins a call of a native object, for the event loop that runs."""
    loop = running_loop()
    call: Call[Any] = Call(loop=loop)
    call._task = begin(side_of(loop), call, *arguments)
    return call


N = TypeVar("N", NativeWriter, NativeQueue)

Begin = Callable[[N, Loop, "Call[Any]"], "Task | None"]
"""Begins a call of a native object that is open."""


class OpenedByACall(Generic[N]):
    """A native object that its first call opens, in a thread.

    The calls of one event loop are begun in their order, also those that wait for the opening.
    """

    def __init__(self, open: Callable[[], N]) -> None:
        self.native: N | None = None
        self.openings: dict[AbstractEventLoop, _Opening[N]] = {}
        """The event loops with calls that wait."""
        self._open: Callable[[], N] = open
        self._lock = threading.Lock()

    def now(self) -> N:
        """The native object; opens it in this thread if that was not done yet."""
        if self.native is None:
            with self._lock:
                if self.native is None:
                    self.native = self._open()
        return self.native

    async def opened(self) -> N:
        """The native object, after the calls that wait for it."""
        if self.native is not None and not self.openings:
            return self.native
        native: N = await self.begin(_give)
        return native

    def begin(self, begin: Begin[N]) -> Call[Any]:
        """Begins a call, after the opening and the calls that wait for it before this one."""
        loop = running_loop()
        call: Call[Any] = Call(loop=loop)
        opening = self.openings.get(loop)
        if opening is None:
            if self.native is not None:
                call._task = begin(self.native, side_of(loop), call)
                return call
            opening = self.openings[loop] = _Opening()
            # The loop alone would let go of the task.
            opening.task = loop.create_task(self._open_for(loop, opening))
        opening.waiting.append((call, begin))
        return call

    async def _open_for(self, loop: AbstractEventLoop, opening: _Opening[N]) -> None:
        try:
            native = await in_thread(self.now)
        except BaseException as error:
            del self.openings[loop]
            opening.fail_all(error)
            if not isinstance(error, Exception):
                raise
        else:
            del self.openings[loop]
            opening.begin_all(native)


class _Opening(Generic[N]):
    """Calls of one event loop that wait for the opening, in their order."""

    def __init__(self) -> None:
        self.waiting: list[tuple[Call[Any], Begin[N]]] = []
        self.task: asyncio.Task[None] | None = None

    def begin_all(self, native: N) -> None:
        side = side_of(running_loop())
        for call, begin in self.waiting:
            if call.done():
                # It was cancelled: nothing of it is to be written.
                continue
            try:
                call._task = begin(native, side, call)
            except Exception as error:
                call.set_exception(error)

    def fail_all(self, error: BaseException) -> None:
        for call, _ in self.waiting:
            if isinstance(error, Exception) and not call.done():
                call.set_exception(error)
            call.cancel()


async def in_thread(function: Callable[..., T], *arguments: Any) -> T:
    """The result of a function that waits, from a thread of the event loop's pool."""
    return await get_running_loop().run_in_executor(None, function, *arguments)


_takers: weakref.WeakKeyDictionary[AbstractEventLoop, ThreadPoolExecutor] = (
    weakref.WeakKeyDictionary()
)


def _takers_of(loop: AbstractEventLoop) -> ThreadPoolExecutor:
    """Threads for what takes a reader, and waits for one if all are taken.

    In the event loop's own pool, those that wait could have all threads, and the tasks that have the
    readers none to give them back.
    """
    takers = _takers.get(loop)
    if takers is None:
        with _sides_lock:
            takers = _takers[loop] = ThreadPoolExecutor(thread_name_prefix="leafpress-read")
    return takers


async def _taking_reader(function: Callable[..., T], *arguments: Any) -> T:
    """The result of a function that takes a reader, from a thread."""
    loop = running_loop()
    return await loop.run_in_executor(_takers_of(loop), function, *arguments)


async def _read(run: Callable[..., Awaitable[T]], read: Callable[..., T], *arguments: Any) -> T:
    """The result of a read, `run` in a thread. If this is cancelled, the read is stopped."""
    stop = StopRead()
    try:
        return await run(read, *arguments, stop)
    except asyncio.CancelledError:
        stop.now()
        raise


@checked_methods("execute", "query", "reader")
class AsyncWriter:
    """Writes small transactions of many tasks to one SQLite database.

    As `Writer`, for asyncio. It opens the database at `async with`, or at its first call. One
    AsyncWriter serves the event loops of all threads.

    ```python
    async with leafpress.AsyncWriter("app.db") as writer:
        await writer.execute("INSERT INTO event VALUES (?)", ("started",))
    ```

    `execute` and `execute_batch` return futures of asyncio: their call is on its way even before it
    is awaited, as after `Writer.submit`. The calls of one event loop are carried out in their order,
    also those that wait for the opening. A call that is cancelled is stopped, also while it waits for
    a lock, and writes nothing. Only a commit that has begun comes to its end all the same.
    """

    def __init__(self, path: Path, **options: Unpack[WriterOptions]) -> None:
        """Opens nothing yet. The options are those of `Writer`."""
        place = path_text(path)
        self.path = cluster_shown(place) or place
        self._lazy = OpenedByACall(lambda: open_native(place, options))

    async def open(self) -> Self:
        """Opens the database, and makes it if it is missing.

        Raises `OperationalError` or `DatabaseError` if it cannot be opened as the profile needs
        it, and `ProgrammingError` for an option that there is not.
        """
        await self._lazy.opened()
        return self

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __reduce__(self) -> Any:
        raise no_pickle(self)

    def __repr__(self) -> str:
        return f"<leafpress.AsyncWriter of {self.path}>"

    def execute(
        self, sql: str, parameters: Parameters = None, *, call_limit: float | None = None
    ) -> asyncio.Future[Executed]:
        """Carries out one statement as a transaction; done when it is committed. Rows that it
        returns are dropped. `call_limit` is in seconds.

        Raises as `Writer.execute`. Wrong parameters raise at once.
        """
        # Written out, as each call comes through here.
        if _around.get():
            self._not_inside()
        opened = self._lazy
        if opened.native is None or opened.openings:
            # They may be others when it is open.
            read = NativeParameters(sql, parameters)
            return opened.begin(
                lambda native, side, call: native.execute_async(side, call, sql, read, call_limit)
            )
        loop = running_loop()
        call: Call[Executed] = Call(loop=loop)
        side = _sides.get(loop) or side_of(loop)
        call._task = opened.native.execute_async(side, call, sql, parameters, call_limit)
        return call

    async def executemany(self, sql: str, rows: ManyParameters) -> Executed:
        """Carries out an INSERT, UPDATE or DELETE for each row, as one transaction; returns the
        changes of all. As `Writer.executemany`; the rows are read in the event loop's thread."""
        self._not_inside()
        done: Executed = await self._lazy.begin(
            lambda native, side, call: native.executemany_async(side, call, sql, rows)
        )
        return done

    def execute_batch(self, sql: str) -> asyncio.Future[None]:
        """Carries out any number of statements without parameters as one transaction.

        Raises as `execute`: then all of them are undone.
        """
        self._not_inside()
        return self._lazy.begin(lambda native, side, call: native.execute_batch_async(side, call, sql))

    async def insert_many(
        self, table: str, rows: Any, columns: Sequence[str] | None = None
    ) -> int:
        """Inserts many rows as one transaction; returns their number. As `Writer.insert_many`.

        The rows are read in the event loop's thread: hand in large ones in parts.
        """
        rows = listed(rows)
        if columns is None and needs_columns(rows):
            native = await self._lazy.opened()
            columns = await _taking_reader(columns_of, native, table)
        names, values = columns_and_rows(rows, columns)
        if large := large_columns(names, values):
            refuse_large(large, await self.query(DECLARED, (table,)))
        self._not_inside()
        inserted: int = await self._lazy.begin(
            lambda native, side, call: native.insert_many_async(side, call, table, names, values)
        )
        return inserted

    def transaction(self, *, call_limit: float | None = None) -> AsyncTransaction:
        """A transaction of several statements, as an asynchronous context manager.

        As `Writer.transaction`: all other calls of the writer wait for its end; a limit of the wait for
        its turn is `asyncio.timeout`. In the task that has begun it, and in tasks that it starts inside
        of the block, they raise `ProgrammingError` until the block ends.
        """
        return AsyncTransaction(self, call_limit)

    async def query(self, sql: str, parameters: Parameters = None) -> Result:
        """The rows of a query, in a thread. As `Writer.query`."""
        native = await self._lazy.opened()
        return await _read(_taking_reader, query, native, sql, parameters, "query")

    def reader(self) -> AsyncReader:
        """A read-only connection that sees one state of the database, as an asynchronous context
        manager. As `Writer.reader`."""
        return AsyncReader(self, caller())

    def interrupt(self) -> bool:
        """Stops the call that is carried out now, which raises `Cancelled`; False if none is."""
        native = self._lazy.native
        return native is not None and native.interrupt()

    def stats(self) -> dict[str, Any]:
        """Numbers of the work since the opening; the units are in the names."""
        stats: dict[str, Any] = json.loads(self._lazy.now().stats())
        return stats

    def in_force(self) -> dict[str, Any]:
        """The settings in force, as SQLite tells them, and what they promise on this disk."""
        settings: dict[str, Any] = json.loads(self._lazy.now().in_force())
        return settings

    @property
    def stopped(self) -> str | None:
        """Why it takes no calls any more; None if it does."""
        native = self._lazy.native
        return None if native is None else native.stopped()

    async def backup(self, path: Path) -> None:
        """Copies the database as it is now into a new file. As `Writer.backup`.

        If it is cancelled, the copy is stopped soon after, and no file is left."""
        self._not_inside()
        native = await self._lazy.opened()
        await _read(in_thread, native.backup, path_text(path))

    async def maintain(self, work: Literal["vacuum", "optimize", "reindex", "checkpoint"]) -> None:
        """Runs VACUUM, PRAGMA optimize, REINDEX or a checkpoint. As `Writer.maintain`.

        If it is cancelled before its turn, it does not begin; once it has begun, it goes on to its end,
        unless `interrupt` stops it."""
        self._not_inside()
        native = await self._lazy.opened()
        await _read(in_thread, native.maintain, work)

    async def close(self, timeout: float | None = None) -> None:
        """Waits until all accepted calls are committed, and closes the database. As
        `Writer.close`."""
        self._not_inside()
        if self._lazy.openings:
            # Its failure is that of the calls that wait for it.
            with suppress(Error):
                await self._lazy.opened()
        if self._lazy.native is not None:
            await in_thread(self._lazy.native.close, timeout)

    def _not_inside(self) -> None:
        """Refuses a call that would wait for the transaction around it."""
        # A task that was started inside of the block has its variables. It may be awaited there, as
        # asyncio.gather and wait_for do: then both would wait for ever.
        if any(around._writer is self and around.is_open for around in _around.get()):
            on_disk = "nothing of this call; the transaction is open"
            error = misuse(
                "this call would wait for the end of the transaction that it is made in, for ever"
                f"\non disk: {on_disk}",
                "use the transaction's own methods, make the call after it, or start the task that "
                "makes it outside of the block",
            )
            error.on_disk = on_disk
            raise error


@checked_methods("__init__", "execute")
class AsyncTransaction:
    """A transaction of an `AsyncWriter`, from the begin of its `async with` block to its end.

    A cancelled task rolls it back, unless it was waiting for the commit: that comes to its end. So
    does a step that is cancelled, as by `asyncio.wait_for`: it is stopped, and the end of the block
    raises `Cancelled`, if nothing else does.
    """

    def __init__(self, writer: AsyncWriter, call_limit: float | None) -> None:
        self._writer = writer
        self._call_limit = call_limit
        self._native: NativeTransaction | None = None

    @property
    def is_open(self) -> bool:
        """True if it has begun, and has not ended."""
        return self._native is not None and self._native.is_open()

    async def __aenter__(self) -> Self:
        self._writer._not_inside()

        def begin(native: NativeWriter, side: Loop, call: Call[Any]) -> Task:
            self._native = NativeTransaction(native, self._call_limit)
            return self._native.begin_async(side, call)

        try:
            await self._writer._lazy.begin(begin)
        except BaseException:
            if self._native is not None:
                self._native.abandon()
            raise
        _around.set((*_around.get(), self))
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        _around.set(tuple(around for around in _around.get() if around is not self))
        native = self._opened()
        if kind is None:
            await start(native.commit_async)
        else:
            native.abandon()

    def __reduce__(self) -> Any:
        raise no_pickle(self)

    def execute(self, sql: str, parameters: Parameters = None) -> Awaitable[Result]:
        """Carries out one statement, and gives its rows. As `Transaction.execute`."""
        return start(self._opened().execute_async, sql, parameters)

    async def executemany(self, sql: str, rows: ManyParameters) -> Executed:
        """Carries out an INSERT, UPDATE or DELETE for each row. As `Transaction.executemany`."""
        done: Executed = await start(self._opened().executemany_async, sql, rows)
        return done

    def execute_batch(self, sql: str) -> Awaitable[None]:
        """Carries out any number of statements without parameters."""
        return start(self._opened().execute_batch_async, sql)

    async def insert_many(
        self, table: str, rows: Any, columns: Sequence[str] | None = None
    ) -> int:
        """Inserts many rows; returns their number. As `Transaction.insert_many`."""
        rows = listed(rows)
        if columns is None and needs_columns(rows):
            found = await self.execute(COLUMNS, (table,))
            columns = checked_columns(table, [name for (name,) in found])
        names, values = columns_and_rows(rows, columns)
        if large := large_columns(names, values):
            refuse_large(large, await self.execute(DECLARED, (table,)))
        inserted: int = await start(self._opened().insert_many_async, table, names, values)
        return inserted

    def _opened(self) -> NativeTransaction:
        if self._native is None:
            raise misuse("the transaction is not open", "use it in an `async with` block")
        return self._native


class AsyncReader:
    """A read-only connection that sees one state of the database."""

    def __init__(self, writer: AsyncWriter, name: str) -> None:
        self._writer = writer
        self._name = name
        self._native: NativeReader | None = None

    async def __aenter__(self) -> Self:
        native = await self._writer._lazy.opened()
        self._native = await _taking_reader(begun_reader, native, self._name)
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._native is not None:
            await in_thread(self._native.close)

    def __reduce__(self) -> Any:
        raise no_pickle(self)

    async def execute(self, sql: str, parameters: Parameters = None) -> Result:
        """The rows of a query, in a thread of the event loop's pool. As `Reader.execute`."""
        if self._native is None:
            raise misuse("the reader is not open", "use it in an `async with` block")
        return await _read(in_thread, self._native.query, sql, parameters)


def _mark_awaitable(function: Any) -> None:
    """Says of a function that returns a future, as a coroutine function does, that it is to be awaited.
    Starlette's background tasks would run it in a thread."""
    if sys.version_info >= (3, 12):
        inspect.markcoroutinefunction(function)
    else:
        function._is_coroutine = getattr(asyncio.coroutines, "_is_coroutine", None)


for _kind in (AsyncWriter, AsyncTransaction):
    _mark_awaitable(_kind.execute)
    _mark_awaitable(_kind.execute_batch)


def _give(native: N, _: Loop, call: Call[Any]) -> None:
    call.set_result(native)
