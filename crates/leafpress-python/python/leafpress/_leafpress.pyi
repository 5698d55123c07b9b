"""The native module."""

from asyncio import Future
from collections.abc import Callable, Iterable, Sequence
from typing import Any, final

from ._jobs import ClaimFields, NativeOptions
from ._result import Executed, Result

__version__: str

def end_of_program() -> None: ...
def main(arguments: list[str], again: list[str], as_keywords: bool) -> int: ...
def load(
    database: str,
    kind: str,
    name: str,
    source: Any,
    options: dict[str, Any],
    dry_run: bool,
    progress: Callable[..., object] | None,
) -> str:
    """Loads an input, or only looks at it. Returns the report as JSON."""

def is_other_than_csv(name: str) -> bool:
    """Returns true if a file of this name is an input by its name, and no CSV."""

def cluster_shown(database: str) -> str | None:
    """The URL of a cluster without its credentials; None for the path of a database."""

@final
class NativeRows:
    """Rows in memory, until `insert_many` takes them."""

    def __new__(cls) -> NativeRows: ...
    def add(self, rows: Iterable[Iterable[Any]], columns: Sequence[str]) -> None:
        """Adds the rows of an iterable of sequences, for these columns."""
    def add_frame(self, frame: Any, places_of: Callable[[list[str]], Sequence[int]]) -> None:
        """Adds the rows of a frame. `places_of` gives the places of the wanted columns for the names of
        its columns."""
    @property
    def large(self) -> dict[int, int]:
        """Places of columns with an integer beyond 64 bits, each with the number of its row from 1."""

@final
class Loop:
    """Side of an event loop where its tasks are woken. The loop calls `drain` when `fileno` can be
    read."""

    def __new__(cls) -> Loop: ...
    def fileno(self) -> int:
        """The descriptor that can be read when tasks are woken."""
    def drains(self) -> int:
        """Number of wake-ups so far."""
    def drain(self) -> None:
        """Polls all tasks that were woken, and gives the answers to their futures."""

@final
class Task:
    """A future of Rust that an event loop carries out."""

    def cancel(self) -> None:
        """Drops the future: its call is taken back if it has not begun, and that of a Writer is
        stopped."""

@final
class NativeWriter:
    """A writer, until it is closed."""

    def __new__(cls, path: str, options: dict[str, Any] | None = None) -> NativeWriter: ...
    def execute(self, sql: str, parameters: Any, call_limit: float | None = None) -> Executed: ...
    def executemany(self, sql: str, given: Iterable[Any]) -> Executed: ...
    def submit(
        self, sql: str, parameters: Any, call_limit: float | None = None, if_room: bool = False
    ) -> NativeTicket: ...
    def execute_batch(self, sql: str) -> None: ...
    def insert_many(
        self, table: str, columns: Sequence[str], given: NativeRows
    ) -> int: ...
    def execute_async(
        self,
        to: Loop,
        answered: Future[Executed],
        sql: str,
        parameters: Any,
        call_limit: float | None = None,
    ) -> Task: ...
    def executemany_async(
        self, to: Loop, answered: Future[Executed], sql: str, given: Iterable[Any]
    ) -> Task: ...
    def execute_batch_async(self, to: Loop, answered: Future[None], sql: str) -> Task: ...
    def insert_many_async(
        self,
        to: Loop,
        answered: Future[int],
        table: str,
        columns: Sequence[str],
        given: NativeRows,
    ) -> Task: ...
    def reader(self, name: str) -> NativeReader: ...
    def in_force(self) -> str: ...
    def stats(self) -> str: ...
    def stopped(self) -> str | None: ...
    def interrupt(self) -> bool: ...
    def backup(self, path: str, stop: StopRead | None = None) -> None: ...
    def maintain(self, work: str, stop: StopRead | None = None) -> None: ...
    def close_at_exit(self) -> None: ...
    def close(self, timeout: float | None = None) -> None: ...

@final
class NativeTicket:
    """A ticket, and the answer once it was fetched."""

    def wait(self, timeout: float | None = None) -> bool: ...
    def result(self) -> Executed: ...
    def done(self) -> bool: ...
    def cancel(self) -> bool: ...
    def interrupt(self) -> bool: ...

@final
class NativeTransaction:
    """A transaction of a writer."""

    def __new__(
        cls, writer: NativeWriter, call_limit: float | None = None
    ) -> NativeTransaction: ...
    def begin(self, timeout: float | None) -> bool: ...
    def execute(self, sql: str, parameters: Any) -> Result: ...
    def executemany(self, sql: str, given: Iterable[Any]) -> Executed: ...
    def execute_batch(self, sql: str) -> None: ...
    def insert_many(
        self, table: str, columns: Sequence[str], given: NativeRows
    ) -> int: ...
    def push(self, to: _To, queue: NativeQueue, job: _NewJob) -> Any: ...
    def commit(self) -> None: ...
    def rollback(self) -> None: ...
    def begin_async(self, to: Loop, answered: Future[None]) -> Task: ...
    def execute_async(
        self, to: Loop, answered: Future[Result], sql: str, parameters: Any
    ) -> Task: ...
    def executemany_async(
        self, to: Loop, answered: Future[Executed], sql: str, given: Iterable[Any]
    ) -> Task: ...
    def execute_batch_async(self, to: Loop, answered: Future[None], sql: str) -> Task: ...
    def insert_many_async(
        self,
        to: Loop,
        answered: Future[int],
        table: str,
        columns: Sequence[str],
        given: NativeRows,
    ) -> Task: ...
    def commit_async(self, to: Loop, answered: Future[None]) -> Task: ...
    def abandon(self) -> None: ...
    def is_open(self) -> bool: ...

@final
class NativeReader:
    """A reader that is out, until it is given back."""

    def query(self, sql: str, parameters: Any, stop: StopRead | None = None) -> Result: ...
    def close(self) -> None: ...

@final
class NativeParameters:
    """Parameters of a statement that were read before its call."""

    def __new__(cls, sql: str, parameters: Any) -> NativeParameters: ...

def arrow_columns(frame: Any) -> list[list[Any]]:
    """The columns of a frame that exports Arrow, as lists of the values that a load would store. An
    integer beyond 64 bits is a Decimal."""

@final
class StopRead:
    """Stops a read, from another thread."""

    def __new__(cls) -> StopRead: ...
    def now(self) -> None:
        """Stops the read, also one that has not begun."""

# Where an answer goes: None if this thread waits for it.
_To = tuple[Loop, Future[Any]] | None
_NewJob = tuple[str | bytes, NativeOptions | None]

@final
class NativeQueue:
    """A queue of a writer's database. With an event loop and a future as `to`, each call returns
    its `Task`."""

    def __new__(
        cls, writer: NativeWriter, name: str, must_exist: bool, settings: dict[str, Any]
    ) -> NativeQueue: ...
    def push(self, to: _To, job: _NewJob) -> Any: ...
    def push_many(self, to: _To, jobs: Sequence[_NewJob]) -> Any: ...
    def claim(
        self,
        to: _To,
        count: int,
        lease: float | None,
        wait: float | None,
        worker: str | None,
    ) -> Any: ...
    def ack(self, to: _To, token: str, result: str | bytes | None) -> Any: ...
    def ack_many(self, to: _To, tokens: Sequence[str]) -> Any: ...
    def nack(self, to: _To, token: str, error: str | None, delay: float | None) -> Any: ...
    def fail(self, to: _To, token: str, reason: str) -> Any: ...
    def release(self, to: _To, token: str) -> Any: ...
    def extend(self, to: _To, token: str, lease: float) -> Any: ...
    def pause(self, to: _To) -> Any: ...
    def resume(self, to: _To) -> Any: ...
    def retry(self, to: _To, id: int) -> Any: ...
    def retry_dead(self, to: _To, limit: int | None) -> Any: ...
    def remove(self, to: _To, id: int) -> Any: ...
    def purge(
        self,
        to: _To,
        states: Sequence[str] | None,
        older_than: float | None,
        limit: int | None,
    ) -> Any: ...
    def drop_queue(self, to: _To) -> Any: ...
    def settings(self, to: _To) -> Any: ...
    def configure(self, to: _To, settings: dict[str, Any]) -> Any: ...
    def schedule(self, to: _To, when: tuple[str, str, str, str], job: _NewJob) -> Any: ...
    def unschedule(self, to: _To, name: str) -> Any: ...
    def schedules(self, to: _To) -> Any: ...
    def give_back(self, token: str) -> None:
        """Gives a job back that no caller has got, and does not wait."""
    def job(self, id: int) -> str: ...
    def history(self, id: int) -> str: ...
    def list(
        self,
        states: Sequence[str] | None,
        group: str | None,
        order: tuple[int | None, bool],
        limit: int,
        with_payload: bool,
    ) -> str: ...
    def stats(self) -> str: ...
    def prometheus(self) -> str: ...

@final
class NativeFeed:
    """Jobs of a queue for consumers."""

    def __new__(
        cls,
        queue: NativeQueue,
        ahead: int,
        lease: float | None,
        worker: str | None,
        jobs_max: int | None,
        until_empty: bool,
    ) -> NativeFeed: ...
    def try_next(self) -> ClaimFields | None:
        """A job that is ready, or None at once."""
    def next(self, to: _To) -> Any:
        """The next job; None at the end."""
    def done(self, token: str, result: str | bytes | None) -> None:
        """The job is done."""
    def retry(self, token: str, error: str) -> None:
        """The attempt failed."""
    def release(self, token: str) -> None:
        """Nothing was done."""
    def forget(self, token: str, became: str) -> None:
        """Keeps the lease of this job no more: its consumer settles it."""
    def holds(self, token: str) -> bool:
        """Returns true if the lease of this job is kept."""
    def stop(self) -> None:
        """Takes no more jobs, and gives those back that no consumer has."""
    def abandon(self, token: str | None, error: str) -> None:
        """Ends without a wait. All is handed in to the writer when this returns, so that it comes
        before the writer's close. The job of this token was not done, because of `error`."""
    def close(self, to: _To) -> Any:
        """Ends once all that consumers have said is in the database; answers with the counts."""

@final
class NativeRun:
    """A run of shards that is not published yet: the driver's side."""

    def __new__(cls, folder: str, scratch: str | None) -> NativeRun: ...
    @property
    def name(self) -> str:
        """Name of the run."""
    def publish(self, routing: str, schemas: list[str], records: list[str]) -> None:
        """Publishes the parts. Records, schemas and routing are JSON, as `shards_build` and
        `shards_routing` give them."""
    def check_folder(self) -> None:
        """Raises `Error` if the folder of the run, or that of the rows on their way, was removed."""
    def keep_alive(self) -> None:
        """Leaves a sign of life, for `gc`."""
    def progress(self) -> tuple[int, int]:
        """Number of parts that have a file, and of files of scattered rows."""
    def remove_scattered(self) -> None:
        """Removes the scattered rows."""
    def abandon(self) -> None:
        """Removes all of the run, unless it is published."""

def shards_sample(by: str, source: Any) -> str:
    """A sample of the keys of exported rows, as JSON."""

def shards_routing(by: str, seed: int, parts: int, samples: list[str]) -> tuple[str, int]:
    """The rule by which rows are split, as JSON, and the number of parts. Ranges need samples."""

def shards_scatter(
    scratch: str, run: str, name: str, routing: str, parts: int, source: Any
) -> tuple[str, list[int], str]:
    """Writes exported rows into a new file of a run, by part; its path, the number of rows of
    each, and a text of what it tells of the columns."""

def shards_check(folder: str, place: str, source: Any, options: dict[str, Any]) -> None:
    """Looks at the options of the parts: what a load of exported rows, which are none, would
    refuse. Nothing is made at `place`."""

def shards_build(
    folder: str,
    scratch: str,
    run: str,
    part: int,
    attempt: str,
    routing: str,
    spans: list[Any],
    options: dict[str, Any],
) -> tuple[str, str]:
    """Presses a part out of scattered rows; its record and the schema, as JSON."""

@final
class NativeShards:
    """A reader of the run that was current, until it is closed."""

    def __new__(
        cls, folder: str, cache: tuple[str, int] | None, ranges: bool
    ) -> NativeShards: ...
    def manifest(self) -> str:
        """The manifest of the run, as JSON."""
    def part_of(self, key: Sequence[Any]) -> int:
        """The part that has the rows of a key."""
    def get(self, key: Sequence[Any]) -> Result:
        """The rows of a key, as a `Result`."""
    def query(self, sql: str, parameters: Any, key: Sequence[Any]) -> Result:
        """The rows of a query on the part of a key, as a `Result`."""
    def scan(self, sql: str, parameters: Any) -> Result:
        """The rows of a query on all parts, in the order of the parts, as a `Result`."""
    def close(self) -> None:
        """Closes the connections."""
