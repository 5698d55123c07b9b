"""Queues: durable jobs in the tables of a database, without a server."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from types import TracebackType
from typing import Any, Literal, TypedDict, overload

from ._arguments import checked_methods, checked_options, refuse_not_utf8
from ._async import AsyncTransaction, AsyncWriter, Call, OpenedByACall, in_thread
from ._errors import Error, misuse
from ._greenlets import refuse_if_held
from ._jobs import (
    AsyncJob,
    BaseJob,
    Job,
    JobOptions,
    Pushed,
    arrived,
    described,
    moment_of,
    native_job,
    native_jobs,
    native_payload,
    seconds,
    start,
)
from ._leafpress import NativeQueue
from ._sources import Path
from ._typing import Self, Unpack
from ._work import (
    AsyncWork,
    Work,
    WorkOptions,
    WorkReport,
    async_handler,
    check_handler,
    work_in_tasks,
    work_in_threads,
)
from ._writer import Transaction, Writer, no_pickle

# A method is called `list`, so annotations cannot say it.
_Record = dict[str, Any]
_Records = list[_Record]
_State = Literal["ready", "leased", "delayed", "blocked", "done", "dead"]
_Answers = list["Error | None"]
_Pushes = list[Pushed]
_Jobs = list[Job]
_AsyncJobs = list[AsyncJob]

_TIMES = frozenset({"lease", "backoff_first", "backoff_max", "keep_done", "keep_dead"})
_RATES = frozenset({"rate", "group_rate"})


class QueueSettings(TypedDict, total=False):
    """Settings of a queue, kept in the database. Times are seconds or a timedelta."""

    lease: float | timedelta
    """Length of a lease, if the claim does not say so (30)."""
    attempts_max: int
    """Attempts before a job is dead, if the job does not say so (5)."""
    backoff_first: float | timedelta
    """Time before the second attempt (1). Without backoff_max, a longest time that is less becomes this one."""
    backoff_factor: float
    """Factor by which it grows before each further attempt; 1 at least (2)."""
    backoff_max: float | timedelta
    """Longest time before an attempt (3,600)."""
    backoff_jitter: float
    """Share by which it is shortened or lengthened at random, from 0 to 1 (0.2)."""
    keep_done: float | timedelta
    """Time for which done jobs are kept with their results (0)."""
    keep_dead: float | timedelta | None
    """Time for which dead jobs are kept; None: until they are purged (None)."""
    concurrency: int | None
    """Jobs that may be claimed at once, by all consumers together; None: any number (None)."""
    group_concurrency: int
    """Jobs of a group that may be claimed at once (1)."""
    rate: Sequence[int | float | timedelta] | None
    """Largest number of jobs that are claimed in a time, as (100, 60); None: any number (None)."""
    group_rate: Sequence[int | float | timedelta] | None
    """The same for each group (None)."""


class Queue:
    """A queue of a database. `Queue(writer, name)` is a `SyncQueue` for a `Writer`, and an
    `AsyncQueue`, whose methods are awaited, for an `AsyncWriter`. For annotations take `SyncQueue` or
    `AsyncQueue`, which have the methods.

    Arguments:
        writer: A `Writer` or an `AsyncWriter`; or the path of a database, for a Writer of its own
            that `close` closes.
        name: The queue, which is made if it is missing.
        must_exist: Fail if it is missing.
        settings: Changes of its settings, as for `configure`: those of `QueueSettings`.

    A job is delivered until it is acked, at least once. A claim is a lease: if its consumer
    vanishes, the job comes again when the lease ends. Any number of threads, tasks and processes
    share a queue.

    An error of a method leaves the queue as it was, unless it is `OutcomeUnknown`.
    """

    @overload
    def __new__(
        cls,
        writer: AsyncWriter,
        name: str = ...,
        *,
        must_exist: bool = ...,
        **settings: Unpack[QueueSettings],
    ) -> AsyncQueue: ...
    @overload
    def __new__(
        cls,
        writer: Writer | Path,
        name: str = ...,
        *,
        must_exist: bool = ...,
        **settings: Unpack[QueueSettings],
    ) -> SyncQueue: ...
    def __new__(
        cls,
        writer: Any,
        name: str = "default",
        *,
        must_exist: bool = False,
        **settings: Unpack[QueueSettings],
    ) -> Queue:
        kind = AsyncQueue if isinstance(writer, AsyncWriter) else SyncQueue
        return object.__new__(kind if cls is Queue else cls)

    name: str
    """Its name."""

    def __reduce__(self) -> Any:
        raise no_pickle(self)

    def __repr__(self) -> str:
        return f"<queue {self.name!r}>"


@checked_methods()
class SyncQueue(Queue):
    """A queue whose methods wait until what they do is on disk."""

    def __init__(
        self,
        writer: Writer | Path,
        name: str = "default",
        *,
        must_exist: bool = False,
        **settings: Unpack[QueueSettings],
    ) -> None:
        self.name = name
        is_given = isinstance(writer, Writer)
        self._writer = writer if isinstance(writer, Writer) else Writer(writer)
        self._own = None if is_given else self._writer
        try:
            refuse_if_held(self._writer._native)
            self._native = NativeQueue(
                self._writer._native, name, must_exist, _native_settings(settings)
            )
        except BaseException:
            self.close()
            raise

    @property
    def _waited(self) -> NativeQueue:
        """The native queue, for a call that this thread waits for."""
        refuse_if_held(self._writer._native)
        return self._native

    def push(
        self, payload: Any, *, in_: Transaction | None = None, **options: Unpack[JobOptions]
    ) -> Pushed:
        """Pushes a job. It is on disk when this returns; with `in_`, an open transaction of the
        same Writer, it exists exactly if that is committed.

        The payload is stored as bytes if it is bytes, and else as JSON, which `job.payload` reads.
        What JSON lacks comes back as something else: bytes in it as text of hexadecimal digits,
        Decimal as float, dates and times as text, durations as microseconds, tuples and sets as
        lists, NaN as None, keys as text. The options are those of `JobOptions`.

        Raises DataError for a payload that cannot be JSON.
        """
        job = native_job(payload, options)
        if in_ is not None:
            return Pushed(*in_._native.push(None, self._native, job))
        return Pushed(*self._waited.push(None, job))

    def push_many(self, payloads: Iterable[Any], **options: Unpack[JobOptions]) -> _Pushes:
        """Pushes all of these jobs, in order, or none of them. A `NewJob` has options of its own
        beside these."""
        jobs = native_jobs(_listed(payloads), options)
        return [Pushed(*pushed) for pushed in self._waited.push_many(None, jobs)]

    def claim(
        self,
        count: int = 1,
        *,
        lease: float | timedelta | None = None,
        wait: float | timedelta | None = 0.0,
        worker: str | None = None,
    ) -> _Jobs:
        """Claims jobs: at most `count`, and none only if there is none.

        Arguments:
            lease: Time until others may have the jobs; else as the queue's settings say.
            wait: Longest time to wait for a job; None waits until there is one.
            worker: Name of this consumer in lists and histories.
        """
        _check_count("count", count)
        fields = self._waited.claim(None, count, _time("lease", lease), _time("wait", wait), worker)
        return [Job(self, each) for each in fields]

    def ack(self, job: Job | str, result: Any = None) -> None:
        """The job (or the one of this token) is done, and never delivered again. A result is kept
        as long as the setting `keep_done` says. A result that is not bytes is stored as JSON; this is
        checked also if `keep_done` is 0.

        Raises LeaseLost if the claim does not hold any more.
        """
        result = None if result is None else native_payload(result)
        self._waited.ack(None, _token(job), result)
        _settle(job, "done")

    def ack_many(self, jobs: Iterable[Job | str]) -> _Answers:
        """Acks many jobs in one transaction. Each has its own answer, in order: None, or why its
        claim does not hold any more."""
        all_jobs = [*jobs]
        answers = self._waited.ack_many(None, [_token(job) for job in all_jobs])
        return _acked(all_jobs, answers)

    def nack(
        self,
        job: Job | str,
        error: str | BaseException | None = None,
        delay: float | timedelta | None = None,
    ) -> datetime | None:
        """The job did not succeed, and is tried again after `delay`, else after the queue's
        backoff. Returns the time of that; None if the job is dead, as that was its last attempt
        or it has expired.

        Raises LeaseLost if the claim does not hold any more.
        """
        text = None if error is None else described(error)
        due_ms = self._waited.nack(None, _token(job), text, _time("delay", delay))
        _settle(job, "dead" if due_ms is None else "retried")
        return None if due_ms is None else moment_of(due_ms)

    def fail(self, job: Job | str, reason: str | BaseException) -> None:
        """The job can never be done: it is dead.

        Raises LeaseLost if the claim does not hold any more.
        """
        self._waited.fail(None, _token(job), described(reason))
        _settle(job, "dead")

    def release(self, job: Job | str) -> None:
        """Gives the job back, to be claimed again at once; that was no attempt.

        Raises LeaseLost if the claim does not hold any more.
        """
        self._waited.release(None, _token(job))
        _settle(job, "released")

    def extend(self, job: Job | str, lease: float | timedelta) -> datetime:
        """Lets the lease end this long after now; returns the time of its end.

        Raises LeaseLost if the claim does not hold any more.
        """
        until = self._waited.extend(None, _token(job), seconds("lease", lease))
        return _extended(job, until)

    def pause(self) -> None:
        """Gives no jobs to any consumer, in all processes, until `resume`."""
        self._waited.pause(None)

    def resume(self) -> None:
        """Gives jobs again."""
        self._waited.resume(None)

    def retry(self, id: int) -> bool:
        """Has a dead job tried again, with all its attempts. False if it is not there or not
        dead."""
        return bool(self._waited.retry(None, id))

    def retry_dead(self, limit: int | None = None) -> int:
        """Has dead jobs tried again, the oldest first; returns their number."""
        _check_count("limit", limit)
        return int(self._waited.retry_dead(None, limit))

    def remove(self, id: int) -> bool:
        """Removes a job in any state. False if there is none."""
        return bool(self._waited.remove(None, id))

    def purge(
        self,
        *states: _State,
        older_than: float | timedelta | None = None,
        limit: int | None = None,
    ) -> int:
        """Removes jobs of these states ("done" and "dead" if none is named) that have been so for
        longer than `older_than`; returns their number."""
        age = _time("older_than", older_than)
        _check_count("limit", limit)
        return int(self._waited.purge(None, _some(states), age, limit))

    def drop(self) -> int:
        """Removes the queue with all its jobs, schedules and statistics; returns the number of
        jobs."""
        return int(self._waited.drop_queue(None))

    def settings(self) -> _Record:
        """Its settings, as `configure` takes them, with times in seconds. `leafpress queue settings --json`
        has the same names and values."""
        return _record(self._waited.settings(None))

    def configure(self, **settings: Unpack[QueueSettings]) -> _Record:
        """Changes settings, for all processes; returns all of them, as `settings`. The settings are
        those of `QueueSettings`."""
        return _record(self._waited.configure(None, _native_settings(settings)))

    def schedule(
        self,
        name: str,
        cron: str,
        payload: Any = b"",
        *,
        timezone: str = "UTC",
        missed: Literal["once", "skip", "all"] = "once",
        **options: Unpack[JobOptions],
    ) -> None:
        """Pushes a job again and again, at the times of a cron expression of five fields, or of
        six with seconds in front. A schedule of the same name is replaced.

        Arguments:
            missed: What becomes of times that passed while nothing claimed: "once", "skip", "all".
        """
        job = native_job(payload, options)
        self._waited.schedule(None, (name, cron, timezone, missed), job)

    def unschedule(self, name: str) -> bool:
        """Forgets a schedule; its jobs stay. False if there is none."""
        return bool(self._waited.unschedule(None, name))

    def schedules(self) -> _Records:
        """The schedules, by name, as `leafpress queue schedule list --json` shows them."""
        return _records(self._waited.schedules(None))

    def job(self, id: int) -> _Record | None:
        """All that is known of a job, as `leafpress queue show --json` says it; None if there is
        none."""
        found: _Record | None = _json(self._native.job(id))
        return None if found is None else _job(found)

    def history(self, id: int) -> _Records:
        """The attempts of a job, in order."""
        return _records(self._native.history(id))

    def list(
        self,
        *states: _State,
        group: str | None = None,
        after: int | None = None,
        newest: bool = False,
        limit: int = 50,
        payloads: bool = False,
    ) -> _Records:
        """A page of jobs, in the order of their pushes; those after the job `after`."""
        order = (after, newest)
        _check_count("limit", limit)
        found = self._native.list(_some(states), group, order, limit, payloads)
        return [_job(job) for job in _json(found)]

    def stats(self) -> _Record:
        """Numbers of jobs, ages, rates and times, as `leafpress queue stats --json` shows them."""
        return _record(self._native.stats())

    def prometheus(self) -> str:
        """The numbers of `stats` as text for Prometheus."""
        return self._native.prometheus()

    @overload
    def work(self, handler: None = None, /, **options: Unpack[WorkOptions]) -> Work: ...
    @overload
    def work(
        self, handler: Callable[[Job], Any], /, **options: Unpack[WorkOptions]
    ) -> WorkReport: ...
    def work(
        self, handler: Callable[[Job], Any] | None = None, /, **options: Unpack[WorkOptions]
    ) -> Work | WorkReport:
        """Works jobs off; while there is none, it waits. Leases are extended meanwhile.

        `q.work(handler)` calls the handler for each job, in as many threads as `concurrency` says
        (in the calling thread if that is 1), and returns the numbers when it ends. The job is
        acked when the handler returns, with what it returns as the result if that is not None; a
        result that is no JSON is logged as an error, and not kept, and none is kept without the
        setting `keep_done`. The job is tried again later if
        the handler raises an Exception; another BaseException gives the job back and ends the
        work.

        `for job in q.work():` acks a job when the next one is asked for. If the loop is left
        before, by break or by an error, that job is tried again later (ack it before the break
        if it is done), and jobs that were claimed ahead, as many as `concurrency` says, are given
        back. `with job:` around the body says an error to the history of the job.

        In both, a job may be settled by its own methods instead: `job.nack(delay=60)`. Ctrl-C
        gives back what was claimed and not begun. The options are those of `WorkOptions`.
        """
        if handler is None:
            return Work(self, options)
        check_handler(handler)
        if inspect.iscoroutinefunction(handler):
            raise async_handler()
        return work_in_threads(self, handler, options)

    def close(self) -> None:
        """Closes the Writer, if the queue has opened it."""
        if self._own is not None:
            self._own.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


@checked_methods()
class AsyncQueue(Queue):
    """A queue of an `AsyncWriter`: the methods of `SyncQueue`, awaited. It is opened by `async with`,
    or by the first of them.

    A call that is cancelled before it has begun is not carried out, and a claim that is cancelled
    keeps no job.
    """

    def __init__(
        self,
        writer: AsyncWriter,
        name: str = "default",
        *,
        must_exist: bool = False,
        **settings: Unpack[QueueSettings],
    ) -> None:
        self.name = name
        self._writer = writer
        native_settings = _native_settings(settings)
        self._lazy = OpenedByACall(
            lambda: NativeQueue(writer._lazy.now(), name, must_exist, native_settings)
        )

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(self, *_: object) -> None:
        """Closes nothing: the AsyncWriter is its owner's."""

    async def _open(self) -> NativeQueue:
        self._writer._not_inside()
        return await self._lazy.opened()

    def _call(self, method: str, *arguments: Any) -> Call[Any]:
        self._writer._not_inside()
        return self._lazy.begin(
            lambda native, side, call: getattr(native, method)((side, call), *arguments)
        )

    async def _read(self, method: str, *arguments: Any) -> Any:
        native = await self._open()
        return _json(await in_thread(getattr(native, method), *arguments))

    async def push(
        self, payload: Any, *, in_: AsyncTransaction | None = None, **options: Unpack[JobOptions]
    ) -> Pushed:
        """As `SyncQueue.push`. The queue must be open (by any call before) for a push in a
        transaction, which would wait for itself."""
        job = native_job(payload, options)
        if in_ is None:
            return Pushed(*await self._call("push", job))
        native = self._lazy.native
        if native is None:
            raise misuse(
                "the queue is not open, and cannot be opened in the middle of a transaction",
                "await q.open() before the transaction",
            )
        return Pushed(*await start(in_._opened().push, native, job))

    async def open(self) -> Self:
        """Opens the queue, which the first call does otherwise."""
        await self._open()
        return self

    async def push_many(self, payloads: Iterable[Any], **options: Unpack[JobOptions]) -> _Pushes:
        """As `SyncQueue.push_many`."""
        jobs = native_jobs(_listed(payloads), options)
        return [Pushed(*pushed) for pushed in await self._call("push_many", jobs)]

    async def claim(
        self,
        count: int = 1,
        *,
        lease: float | timedelta | None = None,
        wait: float | timedelta | None = 0.0,
        worker: str | None = None,
    ) -> _AsyncJobs:
        """As `SyncQueue.claim`."""
        _check_count("count", count)
        claiming = self._call("claim", count, _time("lease", lease), _time("wait", wait), worker)
        try:
            fields = await claiming
        except asyncio.CancelledError:
            for each in arrived(claiming) or ():
                self._lazy.now().give_back(each[0])
            raise
        return [AsyncJob(self, each) for each in fields]

    async def ack(self, job: AsyncJob | str, result: Any = None) -> None:
        """As `SyncQueue.ack`."""
        result = None if result is None else native_payload(result)
        await self._call("ack", _token(job), result)
        _settle(job, "done")

    async def ack_many(self, jobs: Iterable[AsyncJob | str]) -> _Answers:
        """As `SyncQueue.ack_many`."""
        all_jobs = [*jobs]
        answers = await self._call("ack_many", [_token(job) for job in all_jobs])
        return _acked(all_jobs, answers)

    async def nack(
        self,
        job: AsyncJob | str,
        error: str | BaseException | None = None,
        delay: float | timedelta | None = None,
    ) -> datetime | None:
        """As `SyncQueue.nack`."""
        text = None if error is None else described(error)
        due_ms = await self._call("nack", _token(job), text, _time("delay", delay))
        _settle(job, "dead" if due_ms is None else "retried")
        return None if due_ms is None else moment_of(due_ms)

    async def fail(self, job: AsyncJob | str, reason: str | BaseException) -> None:
        """As `SyncQueue.fail`."""
        await self._call("fail", _token(job), described(reason))
        _settle(job, "dead")

    async def release(self, job: AsyncJob | str) -> None:
        """As `SyncQueue.release`."""
        await self._call("release", _token(job))
        _settle(job, "released")

    async def extend(self, job: AsyncJob | str, lease: float | timedelta) -> datetime:
        """As `SyncQueue.extend`."""
        until = await self._call("extend", _token(job), seconds("lease", lease))
        return _extended(job, until)

    async def pause(self) -> None:
        """As `SyncQueue.pause`."""
        await self._call("pause")

    async def resume(self) -> None:
        """As `SyncQueue.resume`."""
        await self._call("resume")

    async def retry(self, id: int) -> bool:
        """As `SyncQueue.retry`."""
        is_retried: bool = await self._call("retry", id)
        return is_retried

    async def retry_dead(self, limit: int | None = None) -> int:
        """As `SyncQueue.retry_dead`."""
        _check_count("limit", limit)
        jobs: int = await self._call("retry_dead", limit)
        return jobs

    async def remove(self, id: int) -> bool:
        """As `SyncQueue.remove`."""
        is_removed: bool = await self._call("remove", id)
        return is_removed

    async def purge(
        self,
        *states: _State,
        older_than: float | timedelta | None = None,
        limit: int | None = None,
    ) -> int:
        """As `SyncQueue.purge`."""
        age = _time("older_than", older_than)
        _check_count("limit", limit)
        jobs: int = await self._call("purge", _some(states), age, limit)
        return jobs

    async def drop(self) -> int:
        """As `SyncQueue.drop`."""
        jobs: int = await self._call("drop_queue")
        return jobs

    async def settings(self) -> _Record:
        """As `SyncQueue.settings`."""
        return _record(await self._call("settings"))

    async def configure(self, **settings: Unpack[QueueSettings]) -> _Record:
        """As `SyncQueue.configure`."""
        return _record(await self._call("configure", _native_settings(settings)))

    async def schedule(
        self,
        name: str,
        cron: str,
        payload: Any = b"",
        *,
        timezone: str = "UTC",
        missed: Literal["once", "skip", "all"] = "once",
        **options: Unpack[JobOptions],
    ) -> None:
        """As `SyncQueue.schedule`."""
        job = native_job(payload, options)
        await self._call("schedule", (name, cron, timezone, missed), job)

    async def unschedule(self, name: str) -> bool:
        """As `SyncQueue.unschedule`."""
        was_there: bool = await self._call("unschedule", name)
        return was_there

    async def schedules(self) -> _Records:
        """As `SyncQueue.schedules`."""
        return _records(await self._call("schedules"))

    async def job(self, id: int) -> _Record | None:
        """As `SyncQueue.job`."""
        found: _Record | None = await self._read("job", id)
        return None if found is None else _job(found)

    async def history(self, id: int) -> _Records:
        """As `SyncQueue.history`."""
        attempts: _Records = await self._read("history", id)
        return attempts

    async def list(
        self,
        *states: _State,
        group: str | None = None,
        after: int | None = None,
        newest: bool = False,
        limit: int = 50,
        payloads: bool = False,
    ) -> _Records:
        """As `SyncQueue.list`."""
        order = (after, newest)
        _check_count("limit", limit)
        found = await self._read("list", _some(states), group, order, limit, payloads)
        return [_job(job) for job in found]

    async def stats(self) -> _Record:
        """As `SyncQueue.stats`."""
        stats: _Record = await self._read("stats")
        return stats

    async def prometheus(self) -> str:
        """As `SyncQueue.prometheus`."""
        native = await self._open()
        return await in_thread(native.prometheus)

    @overload
    def work(self, handler: None = None, /, **options: Unpack[WorkOptions]) -> AsyncWork: ...
    @overload
    def work(
        self, handler: Callable[[AsyncJob], Any], /, **options: Unpack[WorkOptions]
    ) -> Coroutine[Any, Any, WorkReport]: ...
    def work(
        self, handler: Callable[[AsyncJob], Any] | None = None, /, **options: Unpack[WorkOptions]
    ) -> AsyncWork | Coroutine[Any, Any, WorkReport]:
        """As `SyncQueue.work`: `await q.work(handler)` runs the handler, an `async def`, in as
        many tasks as `concurrency` says; `async for job in q.work():` gives one job after the
        other.

        A handler that is cancelled gives its job back.
        """
        if handler is None:
            return AsyncWork(self, options)
        check_handler(handler)
        return work_in_tasks(self, handler, options)


def _listed(payloads: Iterable[Any]) -> Iterable[Any]:
    """Refuses what is one payload: each of its keys or characters would become a job."""
    if isinstance(payloads, (Mapping, str, bytes, bytearray, memoryview)):
        kind = type(payloads).__name__
        raise misuse(f"an object of type {kind} is one payload", "give a list, or call push")
    return payloads


def _json(text: str) -> Any:
    return json.loads(text)


def _record(text: str) -> _Record:
    record: _Record = json.loads(text)
    return record


def _records(text: str) -> _Records:
    records: _Records = json.loads(text)
    return records


def _job(job: _Record) -> _Record:
    """A job of the native module, with its payload and its result as they were given."""
    for name in ("payload", "result"):
        match job[name]:
            case {"bytes": bytes_}:
                job[name] = bytes(bytes_)
            case {"json": text}:
                job[name] = json.loads(text)
    if job["metadata"] is not None:
        job["metadata"] = json.loads(job["metadata"])
    return job


def _some(states: tuple[str, ...]) -> list[str] | None:
    return list(states) or None


def _time(name: str, time: float | timedelta | None) -> float | None:
    return None if time is None else seconds(name, time)


def _check_count(name: str, count: int | None) -> None:
    if count is not None and count < 0:
        raise misuse(f"{name}={count}: a number of jobs is 0 at least")


def _native_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    checked_options("a queue", QueueSettings, settings)
    native = {}
    for name, value in settings.items():
        if value is not None and name in _TIMES:
            value = seconds(name, value)
        elif value is not None and name in _RATES:
            if not isinstance(value, (tuple, list)) or len(value) != 2:
                raise misuse(f"{name} is a pair of a number of jobs and a time, as (100, 60), not {value!r}")
            jobs, per = value
            value = (jobs, seconds(name, per))
        native[name] = value
    return native


def _token(job: BaseJob | str) -> str:
    if isinstance(job, BaseJob):
        return job.token
    if not isinstance(job, str):
        raise misuse(f"a job is a Job or its token, and no object of type {type(job).__name__}")
    refuse_not_utf8("the token", job)
    return job


def _settle(job: BaseJob | str, became: str) -> None:
    if not isinstance(job, str):
        job._settle(became)


def _acked(jobs: Sequence[BaseJob | str], answers: _Answers) -> _Answers:
    for job, answer in zip(jobs, answers):
        if answer is None:
            _settle(job, "done")
    return answers


def _extended(job: BaseJob | str, until_ms: int) -> datetime:
    if not isinstance(job, str):
        job._lease_until_ms = until_ms
    return moment_of(until_ms)

