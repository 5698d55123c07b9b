"""Jobs of a queue: as they are pushed, and as they are claimed."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta, timezone
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypedDict

from ._async import Call
from ._async import start as start_call
from ._arguments import checked_options, refuse_not_utf8
from ._errors import Error, misuse
from ._typing import Self, Unpack
from ._values import to_json
from ._writer import no_pickle

if TYPE_CHECKING:
    from ._leafpress import NativeFeed
    from ._queue import AsyncQueue, SyncQueue

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_MILLISECOND = timedelta(milliseconds=1)
# The year 2000.
_MOMENT_MIN_MS = 946_684_800_000
_MOMENT_MAX_MS = 2**63 - 1

# A claim as the native module gives it.
ClaimFields = tuple[
    str, int, "str | bytes", int, int, int, "str | None", "str | None", "str | None", int, int
]


class JobOptions(TypedDict, total=False):
    """Options of a push. Times are seconds or a timedelta; moments a datetime or Unix seconds."""

    priority: int
    """Jobs of a higher priority are claimed first; 0 if not given."""
    delay: float | timedelta
    """Time from the push until the job may run."""
    due: datetime | float
    """Time from which on the job may run; a datetime without a zone is local time."""
    group: str
    """Jobs of one group run one after the other, in the order of their pushes."""
    unique: str
    """While another job of the queue has this key, nothing is pushed."""
    unique_for: Literal["running", "waiting"] | float | timedelta
    """How long the key is held: "running" (until the job is done, dead or removed; so if not
    given), "waiting" (until its first claim), or a time from the push on."""
    attempts_max: int
    """Attempts before the job is dead; else as the queue's settings say."""
    expires_in: float | timedelta
    """Time after which the job, if it still waits, is dead; more than 0, and after `delay` or `due`."""
    expires: datetime | float
    """Moment at which the job, if it still waits, is dead."""
    correlation_id: str
    """Name of the work that the job belongs to."""
    metadata: Mapping[str, Any]
    """Anything else about the job, kept as JSON."""


class NativeOptions(NamedTuple):
    """The options as the native module reads them."""

    priority: int = 0
    delay: float | None = None
    due_ms: int | None = None
    group: str | None = None
    unique: str | None = None
    unique_for: str | float = "running"
    attempts_max: int | None = None
    expires_in: float | None = None
    expires_ms: int | None = None
    correlation_id: str | None = None
    metadata: str | None = None


class NewJob:
    """A job to be pushed by `push_many`, with options of its own."""

    __slots__ = ("options", "payload")

    def __init__(self, payload: Any, **options: Unpack[JobOptions]) -> None:
        self.payload = payload
        self.options = options


class Pushed(NamedTuple):
    """Result of a push."""

    id: int
    """The job: the new one, or the one that holds the unique key."""
    is_new: bool
    """True if the push made a new job."""


def native_payload(payload: Any) -> str | bytes:
    """A payload for the native module: bytes as they are, all else as JSON."""
    if isinstance(payload, (bytes, bytearray, memoryview)):
        return bytes(payload)
    text = to_json(payload)
    refuse_not_utf8("the text", text)
    return text


def native_job(
    payload: Any, options: JobOptions
) -> tuple[str | bytes, NativeOptions | None]:
    """A job for the native module."""
    if isinstance(payload, NewJob):
        options = {**options, **payload.options}
        payload = payload.payload
    return native_payload(payload), _native_options(options) if options else None


def native_jobs(
    payloads: Iterable[Any], options: JobOptions
) -> list[tuple[str | bytes, NativeOptions | None]]:
    """Jobs for the native module. An error names the job by its place."""
    jobs = []
    for payload in payloads:
        try:
            jobs.append(native_job(payload, options))
        except Error as error:
            error.args = (f"job {len(jobs) + 1}: {error}",)
            raise
    return jobs


def _native_options(options: JobOptions) -> NativeOptions:
    given = checked_options("a push", JobOptions, options)
    _check(options, given)
    for name in ("delay", "expires_in"):
        if name in given:
            given[name] = seconds(name, given[name])
    for name in ("due", "expires"):
        if name in given:
            given[f"{name}_ms"] = milliseconds(name, given.pop(name))
    unique_for = given.get("unique_for", "")
    if not isinstance(unique_for, str):
        given["unique_for"] = seconds("unique_for", unique_for)
    if "metadata" in given:
        given["metadata"] = to_json(given["metadata"])
    return NativeOptions(**given)


def _check(options: JobOptions, given: Mapping[str, Any]) -> None:
    """Refuses options that contradict one another, or would do nothing."""
    for one, other in (("delay", "due"), ("expires_in", "expires")):
        if one in given and other in given:
            raise misuse(f"{one} and {other} say the same thing in two ways", "give one of them")
    # A key of None is no key by intent.
    if "unique_for" in given and "unique" not in options:
        raise misuse("unique_for is how long a unique key is held", "give the key: unique=…")
    if given.get("attempts_max", 1) < 1:
        raise misuse(f"attempts_max={given['attempts_max']}: a job has at least one attempt")


def seconds(name: str, time: float | timedelta) -> float:
    """A time in seconds."""
    if isinstance(time, timedelta):
        return time.total_seconds()
    if isinstance(time, (int, float)) and not isinstance(time, bool):
        try:
            return float(time)
        except OverflowError:
            raise misuse(f"{name} is more than a float can hold") from None
    raise misuse(f"{name} is a number of seconds or a timedelta, not {time!r}")


def milliseconds(name: str, moment: datetime | float) -> int:
    """A moment in milliseconds since 1970.

    Raises ProgrammingError for one before the year 2000: it is a time from now, given by mistake.
    """
    ms = None
    if isinstance(moment, datetime):
        try:
            aware = moment if moment.tzinfo is not None else moment.astimezone()
        except (OverflowError, ValueError):
            raise misuse(f"{name}={moment!r} has no equal in UTC", "give a datetime with a zone") from None
        ms = (aware - _EPOCH) // _MILLISECOND
    elif isinstance(moment, (int, float)) and not isinstance(moment, bool):
        with contextlib.suppress(OverflowError, ValueError):
            ms = int(moment * 1_000)
    if ms is None:
        raise misuse(f"{name} is a datetime or Unix time in seconds, not {moment!r}")
    if ms < _MOMENT_MIN_MS:
        from_now = "delay" if name == "due" else "expires_in"
        raise misuse(f"{name}={moment!r} is before the year 2000", f"give a time from now as {from_now}")
    if ms > _MOMENT_MAX_MS:
        raise misuse(f"{name} is more than 2**63 milliseconds after 1970")
    return ms


def moment_of(ms: int) -> datetime:
    """The moment that is so many milliseconds after 1970; the last one that Python knows if it
    is later."""
    try:
        return _EPOCH + timedelta(milliseconds=ms)
    except OverflowError:
        return datetime.max.replace(tzinfo=timezone.utc)


class BaseJob:
    """A claimed job: what `Job` and `AsyncJob` share."""

    __slots__ = (
        "_feed", "_lease_until_ms", "_metadata", "_payload", "_pushed_at_ms", "attempt",
        "attempts_max", "correlation_id", "group", "id", "is_settled", "priority", "token",
    )

    token: str
    """Token of the claim, such as "17.1"; the command takes it too."""
    id: int
    """Number of the job."""
    attempt: int
    """Number of this attempt, from 1."""
    attempts_max: int
    """Largest number of attempts."""
    priority: int
    group: str | None
    correlation_id: str | None
    is_settled: bool
    """True once the job was acked, nacked, failed or released by its own methods."""

    def __init__(self, fields: ClaimFields, feed: NativeFeed | None) -> None:
        self._feed = feed
        self.is_settled = False
        (
            self.token, self.id, self._payload, self.attempt, self.attempts_max, self.priority,
            self.group, self.correlation_id, self._metadata, self._pushed_at_ms,
            self._lease_until_ms,
        ) = fields

    @property
    def payload(self) -> Any:
        """The payload that was pushed: bytes, or the value that its JSON says."""
        return self._payload if isinstance(self._payload, bytes) else json.loads(self._payload)

    @property
    def raw(self) -> bytes:
        """The payload as it is stored; JSON as UTF-8."""
        payload = self._payload
        return payload if isinstance(payload, bytes) else payload.encode()

    def json(self) -> Any:
        """The payload read as JSON, also one that was pushed as bytes."""
        return json.loads(self._payload)

    @property
    def metadata(self) -> Any:
        """The metadata, None without."""
        return None if self._metadata is None else json.loads(self._metadata)

    @property
    def pushed_at(self) -> datetime:
        """Time of the push, in UTC."""
        return moment_of(self._pushed_at_ms)

    @property
    def lease_until(self) -> datetime:
        """End of the lease that the claim was given, in UTC. `SyncQueue.work` extends it."""
        return moment_of(self._lease_until_ms)

    @property
    def lease_is_lost(self) -> bool:
        """True if another consumer may have the job by now: what this one says changes nothing."""
        if self.is_settled:
            return False
        if self._feed is not None:
            return not self._feed.holds(self.token)
        return datetime.now(timezone.utc) >= self.lease_until

    def __reduce__(self) -> Any:
        raise no_pickle(self, "send its token, with which a Queue of another process settles it, or its payload")

    def __repr__(self) -> str:
        return f"<job {self.id} of attempt {self.attempt}/{self.attempts_max}>"

    def _settle(self, became: str) -> None:
        """Has the feed keep the lease no more: the job is settled by its own method."""
        if self._feed is not None:
            self._feed.forget(self.token, became)
        self.is_settled = True


class Job(BaseJob):
    """A claimed job. As a context manager it is acked at the end, and tried again later if the
    body raises."""

    __slots__ = ("_queue",)

    def __init__(
        self, queue: SyncQueue, fields: ClaimFields, feed: NativeFeed | None = None
    ) -> None:
        super().__init__(fields, feed)
        self._queue = queue

    def ack(self, result: Any = None) -> None:
        """As `SyncQueue.ack`."""
        self._queue.ack(self, result)

    def nack(
        self, error: str | BaseException | None = None, delay: float | timedelta | None = None
    ) -> datetime | None:
        """As `SyncQueue.nack`."""
        return self._queue.nack(self, error, delay)

    def fail(self, reason: str | BaseException) -> None:
        """As `SyncQueue.fail`."""
        self._queue.fail(self, reason)

    def release(self) -> None:
        """As `SyncQueue.release`."""
        self._queue.release(self)

    def extend(self, lease: float | timedelta) -> datetime:
        """As `SyncQueue.extend`."""
        return self._queue.extend(self, lease)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.is_settled:
            return
        if error is None:
            self.ack()
        elif isinstance(error, Exception):
            self.nack(error)
        else:
            self.release()


class AsyncJob(BaseJob):
    """A claimed job, whose methods are awaited. `async with job:` acks it at the end, and has it
    tried again later if the body raises."""

    __slots__ = ("_queue",)

    def __init__(
        self, queue: AsyncQueue, fields: ClaimFields, feed: NativeFeed | None = None
    ) -> None:
        super().__init__(fields, feed)
        self._queue = queue

    async def ack(self, result: Any = None) -> None:
        """As `AsyncQueue.ack`."""
        await self._queue.ack(self, result)

    async def nack(
        self, error: str | BaseException | None = None, delay: float | timedelta | None = None
    ) -> datetime | None:
        """As `AsyncQueue.nack`."""
        return await self._queue.nack(self, error, delay)

    async def fail(self, reason: str | BaseException) -> None:
        """As `AsyncQueue.fail`."""
        await self._queue.fail(self, reason)

    async def release(self) -> None:
        """As `AsyncQueue.release`."""
        await self._queue.release(self)

    async def extend(self, lease: float | timedelta) -> datetime:
        """As `AsyncQueue.extend`."""
        return await self._queue.extend(self, lease)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.is_settled:
            return
        if error is None:
            await self.ack()
        elif isinstance(error, Exception):
            await self.nack(error)
        else:
            await self.release()


def start(begin: Callable[..., Any], *arguments: Any) -> Call[Any]:
    """Begins a call of a native queue or feed, for the event loop that runs."""
    return start_call(lambda side, call: begin((side, call), *arguments))


def arrived(call: Call[Any]) -> Any:
    """Jobs that a call has brought although the task that waited for it was cancelled."""
    if call.done() and not call.cancelled() and call.exception() is None:
        return call.result()
    return None


def described(error: str | BaseException) -> str:
    """The text of an error, as the history of a job shows it."""
    if isinstance(error, str):
        said = error
    else:
        text, name = _text(error), type(error).__qualname__
        said = f"{name}: {text}" if text else name
    # Names of files may have halves of surrogate pairs, which UTF-8 has no bytes for.
    return said.encode(errors="backslashreplace").decode()


def _text(error: BaseException) -> str:
    """The text of an exception, whatever the code of its class does."""
    try:
        return str(error)
    except Exception as failure:
        # Raised here, it would end the worker, and the next one that gets the job.
        return f"(its text cannot be made: {type(failure).__qualname__})"
