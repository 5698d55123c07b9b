"""Consumers of a queue: loops and handlers, over the feed of the native module."""

from __future__ import annotations

import asyncio
import inspect
import json
import logging
import threading
import time
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypedDict

from ._arguments import checked_options
from ._errors import ProgrammingError, misuse
from ._greenlets import is_held, refuse_if_held, threads_are_greenlets
from ._jobs import (
    AsyncJob,
    BaseJob,
    Job,
    arrived,
    described,
    native_payload,
    seconds,
    start,
)
from ._leafpress import NativeFeed
from ._typing import Self
from ._writer import no_pickle

if TYPE_CHECKING:
    from ._jobs import ClaimFields
    from ._leafpress import NativeQueue
    from ._queue import AsyncQueue, SyncQueue

_LOG = logging.getLogger("leafpress")
_LEFT = "the loop over jobs was left before this one was done"
# Handlers that never wait would keep the event loop from its other tasks.
_TURN_SECONDS = 0.005


class WorkOptions(TypedDict, total=False):
    """Options of `SyncQueue.work` and `AsyncQueue.work`."""

    concurrency: int
    """Handlers that run at once; for a loop, the jobs that are claimed at once. 1."""
    lease: float | timedelta
    """Time for which others wait for a job after this process has vanished. It is extended for as
    long as a job runs. Else as the queue's settings say."""
    worker: str
    """Name of this consumer in lists and histories."""
    jobs_max: int
    """End after this number of jobs."""
    until_empty: bool
    """End when no job can be claimed and none of its own runs."""
    stop: Stop
    """Ends it from another thread or a signal handler."""


@dataclass(frozen=True)
class WorkReport:
    """Numbers of jobs of some work, by what became of them."""

    claimed: int
    done: int
    retried: int
    """Jobs that are to be tried again later."""
    dead: int
    released: int
    """Jobs that were given back, as if never claimed."""
    lease_lost: int
    """Jobs whose lease was lost before they were settled; others have them now."""
    elapsed_s: float


class Stop:
    """Asks `work` to take no more jobs. `now` may be called by any thread, and by a signal handler."""

    def __init__(self) -> None:
        # Each use of it is one step, which no other thread and no signal handler divides. A WeakSet
        # cannot be read while another thread adds to it, and a lock could be held already by the
        # thread that a signal interrupts.
        self._feeds: dict[weakref.ref[NativeFeed], None] = {}
        self._is_asked = False

    def __reduce__(self) -> Any:
        raise misuse(
            "a Stop belongs to its process, and cannot be pickled",
            "make one in each process, and call its `now` there, as from a signal handler",
        )

    @property
    def is_asked(self) -> bool:
        """True once `now` was called."""
        return self._is_asked

    def now(self) -> None:
        """Stops the work: no further job is claimed, running jobs finish, and waiting jobs are given back."""
        self._is_asked = True
        for reference in list(self._feeds):
            feed = reference()
            if feed is not None:
                feed.stop()

    def _watch(self, feed: NativeFeed) -> None:
        for gone in [it for it in list(self._feeds) if it() is None]:
            self._feeds.pop(gone, None)
        self._feeds[weakref.ref(feed)] = None
        if self._is_asked:
            feed.stop()


class _Options:
    """The options of some work, checked."""

    def __init__(self, options: WorkOptions) -> None:
        given = checked_options("work", WorkOptions, options)
        self.concurrency: int = given.get("concurrency", 1)
        if not 1 <= self.concurrency <= 4_096:
            raise misuse(f"concurrency is from 1 to 4096, not {self.concurrency}")
        lease = given.get("lease", None)
        self.lease = None if lease is None else seconds("lease", lease)
        self.worker: str | None = given.get("worker", None)
        self.jobs_max: int | None = given.get("jobs_max", None)
        if self.jobs_max is not None and self.jobs_max < 0:
            raise misuse(f"jobs_max={self.jobs_max}: a number of jobs is 0 at least")
        self.until_empty = bool(given.get("until_empty", False))
        self.stop: Stop | None = given.get("stop", None)
        self.started = time.monotonic()

    def feed(self, queue: NativeQueue, ahead: int) -> NativeFeed:
        """The feed of a queue that holds so many jobs ready."""
        options = (self.lease, self.worker, self.jobs_max, self.until_empty)
        feed = NativeFeed(queue, ahead, *options)
        if self.stop is not None:
            self.stop._watch(feed)
        return feed

    def report(self, counts: str) -> WorkReport:
        """The report of a feed that was closed."""
        return WorkReport(**json.loads(counts), elapsed_s=time.monotonic() - self.started)


class _Loop:
    """A loop over jobs: what `Work` and `AsyncWork` share."""

    def __init__(self, options: WorkOptions) -> None:
        self._options = _Options(options)
        self._feed: NativeFeed | None = None
        self._job: BaseJob | None = None
        self.report: WorkReport | None = None
        """The numbers, once it has ended."""

    def __reduce__(self) -> Any:
        raise no_pickle(self, "call `work` of a Queue in each process, which share the jobs")

    def _finish(self, error: BaseException | str | None) -> None:
        """Settles the job in hand: it is done if there is no error."""
        job, self._job = self._job, None
        if job is None or job.is_settled or self._feed is None:
            return
        if error is None:
            self._feed.done(job.token, None)
        elif isinstance(error, (str, Exception)):
            self._feed.retry(job.token, described(error))
        else:
            self._feed.release(job.token)

    def __del__(self) -> None:
        # The loop was left: no one waits, but all is handed in before the writer can be closed.
        job, feed = self.__dict__.get("_job"), self.__dict__.get("_feed")
        if feed is not None and self.report is None:
            token = None if job is None or job.is_settled else job.token
            feed.abandon(token, _LEFT)


class Work(_Loop):
    """Jobs of a queue, one after the other: `for job in q.work()`. See `SyncQueue.work`.

    `with q.work() as jobs:` ends it at the end of the block, and waits until all of it is on disk;
    else it ends with the loop.
    """

    def __init__(self, queue: SyncQueue, options: WorkOptions) -> None:
        super().__init__(options)
        self._queue = queue
        self._feed = self._options.feed(queue._native, self._options.concurrency - 1)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Job:
        self._finish(None)
        feed = self._feed
        if feed is None:
            raise StopIteration
        fields = feed.try_next() or _next_waited(self._queue, feed)
        if fields is None:
            self.close()
            raise StopIteration
        self._job = job = Job(self._queue, fields, feed)
        return job

    def close(self) -> None:
        """Ends it: the job in hand is tried again later, and those that were claimed ahead are
        given back. All of it is on disk when this returns."""
        self._end(_LEFT)

    def _end(self, error: BaseException | str) -> None:
        self._finish(error)
        if self._feed is not None:
            refuse_if_held(self._queue._writer._native)
            self.report = self._options.report(self._feed.close(None))
            self._feed = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._end(_LEFT if error is None else error)


class AsyncWork(_Loop):
    """Jobs of a queue, one after the other: `async for job in q.work()`. See `AsyncQueue.work`.

    `async with q.work() as jobs:` ends it at the end of the block, and waits until all of it is
    on disk; else it ends with the loop.
    """

    def __init__(self, queue: AsyncQueue, options: WorkOptions) -> None:
        super().__init__(options)
        self._queue = queue
        self._is_closed = False

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> AsyncJob:
        self._queue._writer._not_inside()
        self._finish(None)
        if self._is_closed:
            raise StopAsyncIteration
        feed = self._feed
        if feed is None:
            native = await self._queue._open()
            self._feed = feed = self._options.feed(native, self._options.concurrency - 1)
        fields = feed.try_next() or await _next(feed)
        if fields is None:
            await self.aclose()
            raise StopAsyncIteration
        self._job = job = AsyncJob(self._queue, fields, feed)
        return job

    async def aclose(self) -> None:
        """Ends it: the job in hand is tried again later, and those that were claimed ahead are
        given back. All of it is on disk when this returns."""
        await self._end(_LEFT)

    async def _end(self, error: BaseException | str) -> None:
        self._finish(error)
        self._is_closed = True
        feed, self._feed = self._feed, None
        if feed is not None:
            self.report = self._options.report(await start(feed.close))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._end(_LEFT if error is None else error)


def _next_waited(queue: SyncQueue, feed: NativeFeed) -> ClaimFields | None:
    """The next job, for which this thread waits."""
    refuse_if_held(queue._writer._native)
    fields: ClaimFields | None = feed.next(None)
    return fields


async def _next(feed: NativeFeed) -> ClaimFields | None:
    """The next job. If this is cancelled, the job is given back."""
    coming = start(feed.next)
    try:
        fields: ClaimFields | None = await coming
    except asyncio.CancelledError:
        missed = arrived(coming)
        if missed is not None:
            feed.release(missed[0])
        raise
    return fields


def _refuse_generator(result: Any) -> None:
    """Fails the attempt of a job whose handler has returned a generator: its body never ran."""
    if inspect.isgenerator(result) or inspect.isasyncgen(result):
        raise _generator_handler()


def _generator_handler() -> ProgrammingError:
    """The exception for a handler with `yield` in it, whose body no one would run."""
    return misuse(
        "the handler is a generator: a call of it runs nothing of its body",
        "give a function without `yield`",
    )


def _settle(feed: NativeFeed, job: BaseJob, result: Any) -> None:
    if job.is_settled:
        return
    try:
        kept = None if result is None else native_payload(result)
    except Exception:
        # The work is done, and another attempt would do it again.
        _LOG.exception("job %s is done, but its result cannot be kept: it is no JSON", job.id)
        kept = None
    feed.done(job.token, kept)


def _failed(feed: NativeFeed, job: BaseJob, error: Exception) -> None:
    _LOG.warning("job %s failed, attempt %s of %s", job.id, job.attempt, job.attempts_max,
                 exc_info=error)
    if not job.is_settled:
        feed.retry(job.token, described(error))


def check_handler(handler: Any) -> None:
    """Refuses what cannot be called with a job, before a job is claimed for it."""
    try:
        signature = inspect.signature(handler)
    except (TypeError, ValueError):
        # A function of C may have none.
        return
    called = getattr(type(handler), "__call__", None)
    for function in (handler, called):
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise _generator_handler()
    try:
        signature.bind(None)
    except TypeError as error:
        name = getattr(handler, "__name__", type(handler).__name__)
        raise misuse(
            f"the handler {name}{signature} cannot be called with a job: {error}",
            "give a function of one parameter",
        ) from None


def async_handler() -> ProgrammingError:
    """The exception for an `async def` that a thread is to run."""
    return misuse(
        "the handler of a queue of a Writer is an `async def`",
        "open the queue with an AsyncWriter, or run a plain function",
    )


def work_in_threads(
    queue: SyncQueue, handler: Callable[[Job], Any], options: WorkOptions
) -> WorkReport:
    """Calls the handler for each job, and returns when there are to be no more."""
    checked = _Options(options)
    if checked.concurrency > 1 and threads_are_greenlets():
        raise misuse(
            "the threads of this process are greenlets (gevent, eventlet): one that waits for a job "
            "stops the handlers of all others",
            "work in a process without them, or with a concurrency of 1",
        )
    feed = checked.feed(queue._native, 0)
    try:
        if checked.concurrency == 1:
            _handle_jobs(queue, feed, handler)
        else:
            _run_threads(checked.concurrency, feed, lambda: _handle_jobs(queue, feed, handler))
        refuse_if_held(queue._writer._native)
    except BaseException:
        if is_held(queue._writer._native):
            feed.abandon(None, _LEFT)
        else:
            feed.close(None)
        raise
    return checked.report(feed.close(None))


def _handle_jobs(queue: SyncQueue, feed: NativeFeed, handler: Callable[[Job], Any]) -> None:
    while True:
        fields = feed.try_next() or _next_waited(queue, feed)
        if fields is None:
            return
        job = Job(queue, fields, feed)
        try:
            result = handler(job)
            if inspect.isawaitable(result):
                raise async_handler()
            _refuse_generator(result)
            _settle(feed, job, result)
        except Exception as error:
            _failed(feed, job, error)
        except BaseException:
            feed.stop()
            if not job.is_settled:
                feed.release(job.token)
            raise


def _run_threads(count: int, feed: NativeFeed, run: Callable[[], None]) -> None:
    failures: list[BaseException] = []

    def guarded(end: threading.Event) -> None:
        try:
            run()
        except BaseException as error:
            feed.stop()
            failures.append(error)
        finally:
            end.set()

    # Daemons, so that a second Ctrl-C ends a process whose handlers do not.
    ends: list[threading.Event] = []
    try:
        for _ in range(count):
            end = threading.Event()
            threading.Thread(target=guarded, args=(end,), daemon=True).start()
            ends.append(end)
        _wait_for(ends)
    except BaseException:
        feed.stop()
        _wait_for(ends)
        raise
    if failures:
        raise failures[0]


def _wait_for(ends: list[threading.Event]) -> None:
    # Thread.join is no way: before Python 3.13 one that was interrupted takes the thread for ended.
    for end in ends:
        end.wait()


async def work_in_tasks(
    queue: AsyncQueue, handler: Callable[[AsyncJob], Any], options: WorkOptions
) -> WorkReport:
    """Calls the handler for each job, and returns when there are to be no more."""
    checked = _Options(options)
    feed = checked.feed(await queue._open(), 0)
    tasks = [
        asyncio.ensure_future(_handle_jobs_async(queue, feed, handler))
        for _ in range(checked.concurrency)
    ]
    try:
        await asyncio.gather(*tasks)
    except BaseException:
        feed.stop()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await start(feed.close)
        raise
    return checked.report(await start(feed.close))


async def _handle_jobs_async(
    queue: AsyncQueue, feed: NativeFeed, handler: Callable[[AsyncJob], Any]
) -> None:
    turn_ends = time.monotonic() + _TURN_SECONDS
    while True:
        fields = feed.try_next() or await _next(feed)
        if fields is None:
            return
        job = AsyncJob(queue, fields, feed)
        try:
            result = handler(job)
            if inspect.isawaitable(result):
                result = await result
            _refuse_generator(result)
            _settle(feed, job, result)
        except Exception as error:
            _failed(feed, job, error)
        except BaseException:
            if not job.is_settled:
                feed.release(job.token)
            raise
        if time.monotonic() > turn_ends:
            await asyncio.sleep(0)
            turn_ends = time.monotonic() + _TURN_SECONDS
