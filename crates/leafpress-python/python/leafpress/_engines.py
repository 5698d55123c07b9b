"""Shards written by the tasks of an engine: Spark, Ray or Dask.

    tasks: scatter their rows into a file each -> tasks: build a part each -> driver: publish

All processes reach the folder under one path, or the object store under one URL. Each attempt of a
task has a file of its own, so tasks may be tried again, and carried out twice: the driver takes the
file of one attempt.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypedDict, Union

from . import _leafpress
from ._arguments import checked, checked_options, path_text
from ._errors import DatabaseError, Error, misuse
from ._load import Layout, Names, OnConflict, _names, _size
from ._sources import Path

if TYPE_CHECKING:
    import pyarrow

_LOG = logging.getLogger("leafpress")
_MEMORY_OF_TASK = 256 << 20
_SECONDS_BETWEEN_LOOKS = 0.5
_SECONDS_BETWEEN_SIGNS = 600.0


@dataclass(frozen=True)
class ShardProgress:
    """Progress of a write, about twice a second."""

    stage: str
    """Name of the stage: "sampling", "scattering", "pressing"."""
    done: int
    """Number of tasks that are done in this stage; 0 while keys are sampled."""
    total: int | None
    """Number of tasks of this stage, if known."""


@dataclass(frozen=True)
class PartReport:
    """One part."""

    part: int
    """Number of the part, from 0."""
    path: str
    """Path of its file, from the folder of the shards."""
    rows: int
    """Number of rows."""
    bytes: int
    """Size of the file."""
    attempt: str
    """Name of the attempt that made the file."""
    seconds: float
    """Seconds that the attempt took."""


@dataclass(frozen=True)
class ShardReport:
    """Report of a run, which is current."""

    folder: str
    """Folder of the shards, or their URL."""
    run: str
    """Name of the run."""
    table: str
    """Name of the table."""
    by: str
    """The rule by which rows were split."""
    rows: int
    """Number of rows in all parts."""
    bytes: int
    """Bytes of all parts."""
    parts: tuple[PartReport, ...]
    """The parts, in order."""
    elapsed: float
    """Seconds from the call to the publication."""


Tell = Callable[[ShardProgress], object]


class ShardOptions(TypedDict, total=False):
    """Keywords of all engines' `write`; in brackets what holds without each."""

    table: str | None
    """Name of the table (that of the folder)."""
    pk: Names
    """Columns of the primary key. It is checked within each part."""
    index: Names
    """Indexes, each as "name NOCASE, born DESC"."""
    unique: Names
    """Unique indexes. They are checked within each part."""
    not_null: Names
    """Columns that refuse NULL."""
    strict: bool
    """A STRICT table (False)."""
    without_rowid: bool
    """A table without rowids (False)."""
    on_conflict: OnConflict
    """Rows of one part that share a key: "abort", "ignore" or "replace" ("abort"). Several parts must be
    split by columns of `pk` for the last two."""
    analyze: bool
    """Statistics for SQLite's planner (False)."""
    page_size: int | None
    """Bytes in a page (4,096)."""
    layout: Layout
    """"remote": pages in the order for readers of ranges over a network ("local")."""
    seed: int
    """Seed of the hash (0)."""
    threads: int
    """Threads of each task that presses a part (1)."""
    memory: int | str
    """Memory for sorting in each of these tasks, in bytes or as "512M" (256 MB)."""
    scratch: Path | None
    """Folder or URL for the rows on their way from task to task, which all workers reach (that of
    the shards)."""
    progress: Union[bool, Tell, None]
    """Called with a `ShardProgress` on a thread of its own; True shows a line on stderr (None). What
    it raises is logged, and ends the telling: the write goes on."""


@dataclass(frozen=True)
class Scattered:
    """File of one task."""

    path: str
    rows: list[int]
    """Number of rows of each part."""
    columns: str
    """Digest of what the file tells of the columns."""


@dataclass(frozen=True)
class Built:
    """A part that was pressed: its record and the schema, as JSON."""

    record: str
    schema: str
    seconds: float


@dataclass(frozen=True)
class Plan:
    """Facts that all tasks of a write know. Tasks get copies of them."""

    folder: str
    scratch: str
    run: str
    routing: str
    parts: int
    options: dict[str, Any]

    def scatter(self, source: pyarrow.RecordBatchReader | pyarrow.Table) -> Scattered:
        """Writes the rows of one task into a file, by part."""
        name = f"scattered-{uuid.uuid4().hex}"
        path, rows, columns = _leafpress.shards_scatter(
            self.scratch, self.run, name, self.routing, self.parts, plain(source)
        )
        return Scattered(path, rows, hashlib.sha256(columns.encode()).hexdigest())

    def build(self, part: int, scattered: Sequence[Scattered]) -> Built:
        """Presses one part out of the rows of all tasks."""
        began = time.monotonic()
        record, schema = _leafpress.shards_build(
            self.folder,
            self.scratch,
            self.run,
            part,
            uuid.uuid4().hex,
            self.routing,
            list(self._spans(part, scattered)),
            self.options,
        )
        return Built(record, schema, time.monotonic() - began)

    def _spans(self, part: int, scattered: Sequence[Scattered]) -> Iterable[_Span]:
        """Rows of a part in the files that have some, and files that tell other types of columns."""
        spans = list(zip(scattered, self._all_spans(part, scattered)))
        told = {file.columns for file, span in spans if span.take}
        for file, span in spans:
            if span.take or file.columns not in told:
                told.add(file.columns)
                yield span

    def _all_spans(self, part: int, scattered: Sequence[Scattered]) -> Iterable[_Span]:
        """Rows of a part in each file, which may have none."""
        if json.loads(self.routing)["by"] != "rows":
            for file in scattered:
                yield _Span(file.path, part, 0, file.rows[part])
            return
        total = sum(file.rows[0] for file in scattered)
        first, last = (total * number // self.parts for number in (part, part + 1))
        for file in scattered:
            rows = file.rows[0]
            skip, end = max(first, 0), min(last, rows)
            yield _Span(file.path, 0, min(skip, rows), max(end - skip, 0))
            first, last = first - rows, last - rows


@dataclass(frozen=True)
class _Span:
    path: str
    part: int
    skip: int
    take: int


class Engine(Protocol):
    """An engine with the rows that are to be written."""

    tasks: int | None
    """Number of tasks that give rows, if known."""

    def known_schema(self) -> pyarrow.Schema | None:
        """The columns, if they are known without a task."""

    def schema(self) -> pyarrow.Schema | None:
        """The columns, for a write whose tasks have no batch at all."""

    def sample(self, by: str, column: str) -> list[str]:
        """Samples of the keys, which are in this column, by `sample_of`."""
        ...

    def scatter(self, plan: Plan) -> list[Scattered]:
        """Scatters all rows, in their order."""
        ...

    def build(self, plan: Plan, scattered: list[Scattered]) -> list[Built]:
        """Builds all parts, in any order."""
        ...


@checked
def write(
    engine: Engine,
    out: Path,
    by: str,
    parts: int,
    options: ShardOptions,
) -> ShardReport:
    """Writes all rows of an engine, as a new run of shards."""
    began = time.monotonic()
    given = checked_options("write", ShardOptions, options)
    folder, scratch = _place(out), None
    if "scratch" in given:
        scratch = _place(given["scratch"])
    if parts < 1:
        raise misuse(f"parts={parts}: there is at least one")
    seed, progress = given.get("seed", 0), given.get("progress")
    of_parts = _part_options(folder, given)
    if seed < 0:
        raise misuse(f"seed={seed}: it is 0 at least")
    # What is wrong is told before anything is made.
    rule = json.loads(_leafpress.shards_routing(by, seed, parts, [])[0])
    if seed and rule["by"] != "hash":
        raise misuse(f"{by} has no hash that a seed could change", "leave out seed")
    if parts > 1 and of_parts["pk"] and of_parts["on_conflict"] != "abort":
        _check_split_by_key(by, rule, of_parts["pk"])
    _check_options(folder, by, of_parts, engine.known_schema())
    run = _leafpress.NativeRun(folder, scratch)
    try:
        living = _Repeating(lambda: _keep_alive(run), _SECONDS_BETWEEN_SIGNS)
        with living, _Telling(run, progress) as telling:
            samples: list[str] = []
            if rule["by"] == "range":
                telling.begin("sampling", None)
                samples = engine.sample(by, rule["column"])
            routing, made = _leafpress.shards_routing(by, seed, parts, samples)
            plan = Plan(folder, scratch or folder, run.name, routing, made, of_parts)
            telling.begin("scattering", engine.tasks)
            scattered = engine.scatter(plan) or [_no_rows(plan, engine.schema())]
            telling.begin("pressing", made)
            built = engine.build(plan, scattered)
        run.publish(routing, [part.schema for part in built], [part.record for part in built])
    except BaseException as error:
        try:
            if isinstance(error, Exception):
                run.check_folder()
        finally:
            run.abandon()
        raise
    try:
        run.remove_scattered()
    except Error as error:
        # The run is current, whatever happens to files that no task needs any more.
        _LOG.warning("run %s is published, and its scattered rows in %s were not all removed: %s",
                     run.name, plan.scratch, error)
    return _report(plan, by, built, began)


def sample_of(by: str, source: Any) -> str:
    """A sample of the keys of a task, which `Engine.sample` returns."""
    return _leafpress.shards_sample(by, plain(source))


def plain(source: Any) -> Any:
    """The rows without dictionaries, which a file of several batches cannot change."""
    import pyarrow

    types = [field.type for field in source.schema]
    if not any(pyarrow.types.is_dictionary(kind) for kind in types):
        return source
    fields = [
        field.with_type(field.type.value_type) if pyarrow.types.is_dictionary(field.type) else field
        for field in source.schema
    ]
    schema = pyarrow.schema(fields)
    if isinstance(source, pyarrow.Table):
        return source.cast(schema)
    batches = (pyarrow.Table.from_batches([batch]).cast(schema) for batch in source)
    return pyarrow.RecordBatchReader.from_batches(
        schema, (batch for table in batches for batch in table.to_batches())
    )


def _place(out: Path) -> str:
    path = path_text(out)
    # Tasks may have another working directory.
    return path.rstrip("/") if _is_url(path) else os.path.abspath(path)


def _is_url(path: str) -> bool:
    return "://" in path


def _part_options(folder: str, options: dict[str, Any]) -> dict[str, Any]:
    return {
        "table": options.get("table") or os.path.basename(folder),
        "pk": _names(options.get("pk", ())),
        "index": _names(options.get("index", ())),
        "unique": _names(options.get("unique", ())),
        "not_null": _names(options.get("not_null", ())),
        "strict": options.get("strict", False),
        "without_rowid": options.get("without_rowid", False),
        "analyze": options.get("analyze", False),
        "on_conflict": options.get("on_conflict", "abort"),
        "page_size": options.get("page_size"),
        "layout": options.get("layout"),
        "threads": options.get("threads", 1),
        "memory": _size("memory", options.get("memory", _MEMORY_OF_TASK)),
    }


def _check_split_by_key(by: str, rule: dict[str, Any], keys: list[str]) -> None:
    """Parts are pressed one by one, so each would keep a row of a key that is in several of them."""
    split_by = rule.get("columns") or ([rule["column"]] if "column" in rule else [])
    if not split_by or {name.lower() for name in split_by} - {name.lower() for name in keys}:
        raise misuse(
            f"on_conflict keeps one row for each key within a part, and by={by!r} puts rows that "
            "share a key into several",
            f"split by the key: {', '.join(keys)}",
        )


def _check_options(
    folder: str, by: str, options: dict[str, Any], schema: pyarrow.Schema | None
) -> None:
    """Refuses what the tasks that press parts would refuse, as far as the columns are known."""
    import pyarrow

    if schema is None:
        names = dict.fromkeys([*options["pk"], *options["not_null"], "_"])
        columns = pyarrow.schema([(name, pyarrow.int64()) for name in names])
        has_other_key = options["unique"] and not options["pk"]
        on_conflict = "abort" if has_other_key else options["on_conflict"]
        options = {**options, "index": [], "unique": [], "on_conflict": on_conflict}
    else:
        columns = schema
        sample_of(by, columns.empty_table())
    with tempfile.TemporaryDirectory(prefix="leafpress-shards-") as place:
        none = plain(columns.empty_table())
        _leafpress.shards_check(folder, os.path.join(place, "part.db"), none, options)


def _no_rows(plan: Plan, schema: pyarrow.Schema | None) -> Scattered:
    """The file of a write without any task."""
    if schema is None:
        raise misuse("there are no rows, and no columns are known")
    return plan.scatter(schema.empty_table())


def _report(plan: Plan, by: str, built: list[Built], began: float) -> ShardReport:
    parts = []
    for one in built:
        record = json.loads(one.record)
        named = {name: record[name] for name in ("part", "path", "rows", "bytes", "attempt")}
        parts.append(PartReport(**named, seconds=one.seconds))
    parts.sort(key=lambda part: part.part)
    return ShardReport(
        folder=plan.folder,
        run=plan.run,
        table=plan.options["table"],
        by=by,
        rows=sum(part.rows for part in parts),
        bytes=sum(part.bytes for part in parts),
        parts=tuple(parts),
        elapsed=time.monotonic() - began,
    )


def _keep_alive(run: _leafpress.NativeRun) -> None:
    try:
        run.keep_alive()
    except Error as error:
        # The next sign may be left, and `gc` looks at the files of the tasks too.
        _LOG.warning("run %s could not leave a sign of life: %s", run.name, error)


class _Repeating:
    """Calls a function now and then, on a thread of its own."""

    def __init__(self, function: Callable[[], None], seconds: float) -> None:
        self._function = function
        self._seconds = seconds
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="leafpress-shards", daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._is_over.wait(self._seconds):
            self._function()


class _Telling:
    """Tells the progress of tasks, which shows in the files that they have finished."""

    def __init__(self, run: _leafpress.NativeRun, progress: bool | Tell | None) -> None:
        self._run_of = run
        self._is_line = progress is True
        self._tell = progress if callable(progress) else _show if progress else None
        self._stage: tuple[str, int | None] | None = None
        self._repeating = _Repeating(self._look, _SECONDS_BETWEEN_LOOKS)

    def begin(self, stage: str, total: int | None) -> None:
        self._stage = (stage, total)

    def __enter__(self) -> _Telling:
        if self._tell is not None:
            self._repeating.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        if self._tell is not None:
            self._repeating.__exit__()
            self._look()
        if self._is_line:
            sys.stderr.write("\n")

    def _look(self) -> None:
        if self._stage is None or self._tell is None:
            return
        stage, total = self._stage
        done = self._done(stage)
        try:
            self._tell(ShardProgress(stage, done, total))
        except Exception:
            # The tasks have done nothing wrong, and what they raise is not to be hidden.
            _LOG.warning("the progress of shards is not told any more", exc_info=True)
            self._tell = None

    def _done(self, stage: str) -> int:
        try:
            parts, scattered = self._run_of.progress()
        except DatabaseError:
            # A store that does not answer: the tasks say so.
            return 0
        return parts if stage == "pressing" else scattered


def _show(progress: ShardProgress) -> None:
    of = "" if progress.total is None else f" of {progress.total}"
    sys.stderr.write(f"\r{progress.stage}: {progress.done}{of} tasks\x1b[K")
    sys.stderr.flush()
