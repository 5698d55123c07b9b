"""Ray Data into one SQLite file, or into shards: many files with a manifest."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Literal, Union

import pyarrow
import ray
from ray.data import Datasink
from ray.data.block import Block, BlockAccessor
from ray.data.datasource import WriteResult

from ._parts import Parts
from ._engines import Built, Plan, Scattered, ShardOptions, ShardReport, sample_of
from ._engines import write as write_by
from ._sources import Path
from ._typing import Unpack

__all__ = ["LeafpressDatasink", "write"]

_SECONDS_TO_STOP = 10


class LeafpressDatasink(Datasink[int]):
    """Writes a dataset into one table of one file, by many tasks of one machine:
    `dataset.write_datasink(LeafpressDatasink("app.db", "people"))`.

    Each write task is one durable transaction of a shared Writer, so that the tasks share commits
    and do not lock each other out. A task that Ray tries again writes nothing twice.

    if_exists: "fail" (an error if the table is there) or "append".

    Blocks without columns, as Ray has them where a filter left no row, are passed over. If there are
    no others, no table is made.

    After a failed write a table that it has made is dropped again. In a table that was there, or to
    which another write has added rows meanwhile, the rows of the finished tasks stay. If the driver
    dies, both stay, and so does the small table `_leafpress_part`, which may be dropped.
    """

    def __init__(
        self, db: Path, table: str, *, if_exists: Literal["fail", "append"] = "fail"
    ) -> None:
        """Names the place. Raises `ProgrammingError` for another `if_exists`."""
        self._parts = Parts(db, table, if_exists)

    def on_write_start(self, schema: Any = None) -> None:
        """Makes the table. If Ray tells no columns yet, the first task with some makes it."""
        try:
            self._parts.begin(_empty_frame(schema))
        except BaseException:
            self._parts.abandon()
            raise

    def write(self, blocks: Iterable[Block], ctx: Any) -> int:
        """Writes the blocks of one task; the number of their rows."""
        return self._parts.write(ctx.task_idx, _with_columns(blocks))

    def on_write_complete(self, write_result: WriteResult[int]) -> None:
        """Removes what told which tasks are done."""
        self._parts.end()

    def on_write_failed(self, error: Exception) -> None:
        """Drops the table if this write has made it and all rows are its own."""
        self._parts.abandon()

    @property
    def supports_distributed_writes(self) -> bool:
        """False: the file is on the driver's machine."""
        return False


def _empty_frame(schema: Any) -> Any:
    """A frame without rows, of the schema of a block; None if it tells no columns."""
    if schema is None or not schema.names:
        return None
    if hasattr(schema, "empty_table"):
        return schema.empty_table()
    import pandas

    columns = zip(schema.names, schema.types, strict=True)
    return pandas.DataFrame({name: pandas.Series(dtype=kind) for name, kind in columns})


def _with_columns(blocks: Iterable[Block]) -> Iterator[Block]:
    """The blocks that have columns: Ray makes some without any where a function gave no row."""
    for block in blocks:
        access: Any = BlockAccessor.for_block(block)
        if access.num_rows() or access.column_names():
            yield block


def write(
    ds: Any, out: Path, *, by: str, parts: int, **options: Unpack[ShardOptions]
) -> ShardReport:
    """Writes a dataset of Ray into shards, as a new run.

    out: a folder that all nodes reach under the same path, or a URL
        such as "s3://bucket/people", whose credentials all of them have in their environment.
    by: "hash(a,b)", "range(a)" or "rows", as docs/scale.md has them. Ranges compute the column
        twice: materialize a dataset that is expensive to compute.
    parts: number of parts, each pressed by one task.

    Blocks without columns, as Ray has them where a filter left no row, are passed over. A dataset of
    which Ray knows no columns raises `ProgrammingError`.

    Raises what the tasks raise, as Ray has it; `OperationalError` if another run was published
    meanwhile: then this one is complete, and `leafpress shards rollback --to RUN` makes it
    current. After any other exception the current run does not change, and nothing of the new run
    is left. If the driver dies, or a task still runs that puts its part into a store, `leafpress
    shards gc` removes the rest.
    """
    return write_by(_Ray(ds), out, by, parts, options)


class _Ray:
    """A dataset, as `_engines.Engine` has it."""

    def __init__(self, dataset: Any) -> None:
        self._dataset = dataset
        self.tasks: int | None = None

    def known_schema(self) -> pyarrow.Schema | None:
        return self._schema(False)

    def schema(self) -> pyarrow.Schema | None:
        return self._schema(True)

    def _schema(self, is_worth_work: bool) -> pyarrow.Schema | None:
        schema = self._dataset.schema(fetch_if_missing=is_worth_work)
        found = None if schema is None else schema.base_schema
        return found if isinstance(found, pyarrow.Schema) else None

    def sample(self, by: str, column: str) -> list[str]:
        def task(table: pyarrow.Table) -> dict[str, list[str]]:
            has_columns = table.num_rows or table.column_names
            return {"sample": [sample_of(by, table)] if has_columns else []}

        keys = self._dataset
        if column in (keys.columns() or ()):
            keys = keys.select_columns([column])
        samples = keys.map_batches(task, batch_size=None, batch_format="pyarrow")
        return [row["sample"] for row in samples.take_all()]

    def scatter(self, plan: Plan) -> list[Scattered]:
        sink = _ScatterSink(plan)
        self._dataset.write_datasink(sink)
        return sink.scattered

    def build(self, plan: Plan, scattered: list[Scattered]) -> list[Built]:
        task, files = ray.remote(_build), ray.put(scattered)
        waiting = [task.remote(plan, part, files) for part in range(plan.parts)]
        try:
            return list(ray.get(waiting))
        except BaseException:
            # A task that ends later could put its part into a store. Not cancelled: Ray aborts the
            # driver if a task ends at that moment ("Tried to complete task that was not pending").
            ray.wait(waiting, num_returns=len(waiting), timeout=_SECONDS_TO_STOP)
            raise


def _build(plan: Plan, part: int, scattered: list[Scattered]) -> Built:
    return plan.build(part, scattered)


class _ScatterSink(Datasink[tuple[int, Union[Scattered, None]]]):
    """Scatters the rows of each write task into a file."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self.scattered: list[Scattered] = []

    def write(self, blocks: Iterable[Block], ctx: Any) -> tuple[int, Scattered | None]:
        """Writes the file of one task; its number, by which files are in the order of the rows.
        A task without columns has no file."""
        tables = [BlockAccessor.for_block(block).to_arrow() for block in _with_columns(blocks)]
        if not tables:
            return ctx.task_idx, None
        table = pyarrow.concat_tables(tables, promote_options="default")
        return ctx.task_idx, self._plan.scatter(table)

    def on_write_complete(
        self, write_result: WriteResult[tuple[int, Union[Scattered, None]]]
    ) -> None:
        """Takes the files of the tasks that have counted."""
        found = sorted(write_result.write_returns, key=lambda task: task[0])
        self.scattered = [file for _, file in found if file is not None]
