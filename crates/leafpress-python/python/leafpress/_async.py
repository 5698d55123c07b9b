"""The Writer for asyncio: a task never blocks the event loop, and all calls of a commit wake it
once.

Must never: be slow per call. `execute` is no coroutine; it returns a future.
"""

from __future__ import annotations

import asyncio
import contextvars
import json
import os
import threading
import weakref
from asyncio import AbstractEventLoop, get_running_loop
from collections.abc import Awaitable, Callable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

from ._errors import misuse
from ._insert import columns_and_rows, listed, needs_columns
from ._leafpress import Loop, NativeTransaction, NativeWriter, Task
from ._result import Executed, Result
from ._writer import (
    COLUMNS,
    Parameters,
    checked_columns,
    columns_of,
    no_pickle,
    open_native,
    query,
)

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

    from ._options import WriterOptions

T = TypeVar("T")

_sides: weakref.WeakKeyDictionary[AbstractEventLoop, Loop] = weakref.WeakKeyDictionary()
_sides_lock = threading.Lock()

# The transactions around this task.
_around: contextvars.ContextVar[tuple[AsyncTransaction, ...]] = contextvars.ContextVar(
    "leafpress_transactions", default=()
)


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
    """A call that is on its way. If it is cancelled before a thread has begun with it, nothing of
    it is written; otherwise it is committed, and its answer is lost."""

    _task: Task | None = None

    def cancel(self, msg: Any = None) -> bool:
        """Cancels the future, and takes the call back if that can be."""
        is_cancelled = super().cancel(msg)
        if is_cancelled and self._task is not None:
            self._task.cancel()
        return is_cancelled


def start(begin: Callable[..., Task], *arguments: Any) -> Call[Any]:
    """Begins a call of a native object, for the event loop that runs."""
    loop = get_running_loop()
    call: Call[Any] = Call(loop=loop)
    call._task = begin(side_of(loop), call, *arguments)
    return call


async def in_thread(function: Callable[..., T], *arguments: Any) -> T:
    """The result of a function that waits, from a thread of the event loop's pool."""
    return await get_running_loop().run_in_executor(None, function, *arguments)


class AsyncWriter:
    """Writes small transactions of many tasks to one SQLite database.

    As `Writer`, for asyncio. It opens the database at `async with`, or at its first call. One
    AsyncWriter serves the event loops of all threads.

    ```python
    async with leafpress.AsyncWriter("app.db") as writer:
        await writer.execute("INSERT INTO event VALUES (?)", ("started",))
    ```

    `execute` and `execute_batch` return futures of asyncio: their call is on its way even before it
    is awaited. A call that is cancelled before a thread has begun with it writes nothing. After
    that it is committed all the same.
    """

    def __init__(self, path: str | os.PathLike[str], **options: Unpack[WriterOptions]) -> None:
        """Opens nothing yet. The options are those of `Writer`."""
        self.path = os.fspath(path)
        self._options = options
        self._opening = threading.Lock()
        self._writer: NativeWriter | None = None

    async def open(self) -> Self:
        """Opens the database, and makes it if it is missing.

        Raises `OperationalError` or `DatabaseError` if it cannot be opened as the profile needs
        it, and `ProgrammingError` for an option that there is not.
        """
        await self._opened()
        return self

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __reduce__(self) -> Any:
        raise no_pickle(self)

    def __repr__(self) -> str:
        return f"<leafpress.AsyncWriter of {self.path}>"

    @property
    def _native(self) -> NativeWriter:
        """The native writer; opens the database in this thread if that was not done yet."""
        if self._writer is None:
            with self._opening:
                if self._writer is None:
                    self._writer = open_native(self.path, self._options)
        return self._writer

    async def _opened(self) -> NativeWriter:
        if self._writer is None:
            return await in_thread(lambda: self._native)
        return self._writer

    def execute(
        self, sql: str, parameters: Parameters = None, *, call_limit: float | None = None
    ) -> asyncio.Future[Executed]:
        """Carries out one statement as a transaction; done when it is committed. `call_limit` is
        in seconds.

        Raises as `Writer.execute`. Wrong parameters raise at once.
        """
        # Written out, as each call comes through here.
        if _around.get():
            self._not_inside()
        if self._writer is None:
            return self._later("execute_async", sql, parameters, call_limit)
        loop = get_running_loop()
        call: Call[Executed] = Call(loop=loop)
        side = _sides.get(loop) or side_of(loop)
        call._task = self._writer.execute_async(side, call, sql, parameters, call_limit)
        return call

    def execute_batch(self, sql: str) -> asyncio.Future[None]:
        """Carries out any number of statements without parameters as one transaction.

        Raises as `execute`: then all of them are undone.
        """
        return self._start("execute_batch_async", sql)

    async def insert_many(
        self, table: str, rows: Any, columns: Sequence[str] | None = None
    ) -> int:
        """Inserts many rows as one transaction; returns their number. As `Writer.insert_many`.

        The rows are read in the event loop's thread: hand in large ones in parts.
        """
        native = await self._opened()
        rows = listed(rows)
        if columns is None and needs_columns(rows):
            columns = await in_thread(columns_of, native, table)
        names, values = columns_and_rows(rows, columns)
        inserted: int = await self._start("insert_many_async", table, names, values)
        return inserted

    def transaction(self, *, call_limit: float | None = None) -> AsyncTransaction:
        """A transaction of several statements, as an asynchronous context manager.

        As `Writer.transaction`: all other calls of the writer wait for its end.
        """
        return AsyncTransaction(self, call_limit)

    async def query(self, sql: str, parameters: Parameters = None) -> Result:
        """The rows of a query, in a thread of the event loop's pool. As `Writer.query`."""
        native = await self._opened()
        return await in_thread(query, native, sql, parameters, "query")

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
        return None if self._writer is None else self._writer.stopped()

    async def backup(self, path: str | os.PathLike[str]) -> None:
        """Copies the database as it is now into a new file. As `Writer.backup`."""
        self._not_inside()
        native = await self._opened()
        await in_thread(native.backup, os.fspath(path))

    async def maintain(self, work: Literal["vacuum", "optimize", "reindex", "checkpoint"]) -> None:
        """Tends to the database as a whole. As `Writer.maintain`."""
        self._not_inside()
        native = await self._opened()
        await in_thread(native.maintain, work)

    async def close(self, timeout: float | None = None) -> None:
        """Waits until all accepted calls are committed, and closes the database. As
        `Writer.close`."""
        self._not_inside()
        if self._writer is not None:
            await in_thread(self._writer.close, timeout)

    def _start(self, method: str, *arguments: Any) -> asyncio.Future[Any]:
        self._not_inside()
        if self._writer is None:
            return self._later(method, *arguments)
        return start(getattr(self._writer, method), *arguments)

    def _later(self, method: str, *arguments: Any) -> asyncio.Future[Any]:
        """A call that opens the database first."""

        async def open_and_call() -> Any:
            native = await self._opened()
            return await start(getattr(native, method), *arguments)

        return get_running_loop().create_task(open_and_call())

    def _not_inside(self) -> None:
        """Refuses a call that would wait for the transaction around it."""
        if any(around._writer is self and around.is_open for around in _around.get()):
            error = misuse(
                "this call would wait for the end of the transaction that it is made in, for ever",
                "use the transaction's own methods, or make the call after it",
            )
            error.on_disk = "nothing of this call; the transaction is open"
            raise error


class AsyncTransaction:
    """A transaction of an `AsyncWriter`, from the begin of its `async with` block to its end.

    A cancelled task rolls it back, unless it was waiting for the commit: that comes to its end.
    """

    def __init__(self, writer: AsyncWriter, call_limit: float | None) -> None:
        self._writer = writer
        self._call_limit = call_limit
        self._native: NativeTransaction | None = None

    @property
    def is_open(self) -> bool:
        """Whether it has begun, and has not ended."""
        return self._native is not None and self._native.is_open()

    async def __aenter__(self) -> Self:
        self._writer._not_inside()
        native = await self._writer._opened()
        self._native = native.transaction(self._call_limit)
        try:
            await start(self._native.begin_async)
        except BaseException:
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
        inserted: int = await start(self._opened().insert_many_async, table, names, values)
        return inserted

    def _opened(self) -> NativeTransaction:
        if self._native is None:
            raise misuse("the transaction is not open", "use it in an `async with` block")
        return self._native

