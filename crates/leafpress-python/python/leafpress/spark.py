"""Frames of Spark as shards: many SQLite files with a manifest."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any

import pyarrow

from ._engines import Built, Plan, Scattered, ShardOptions, ShardReport, sample_of
from ._engines import write as write_by
from ._sources import Path
from ._typing import Unpack

__all__ = ["write"]


def write(
    df: Any, out: Path, *, by: str, parts: int, **options: Unpack[ShardOptions]
) -> ShardReport:
    """Writes a frame of Spark (3.5 or later) into shards, as a new run.

    out: a folder that the driver and all workers reach under the same path, or a URL
        such as "s3://bucket/people", whose credentials all of them have in their environment.
    by: "hash(a,b)", "range(a)" or "rows", as docs/scale.md has them. Ranges read the column twice.
    parts: number of parts, each pressed by one task.

    The workers need the package `leafpress`, and no jar.

    Raises what the tasks raise, as Spark has it; `OperationalError` if another run was published
    meanwhile: then this one is complete, and `leafpress shards rollback --to RUN` makes it
    current. After any other exception the current run does not change, and nothing of the new run
    is left. If the driver dies, or a task still runs that puts its part into a store, `leafpress
    shards gc` removes the rest.
    """
    return write_by(_Spark(df), out, by, parts, options)


class _Spark:
    """A frame, as `_engines.Engine` has it. Its functions go to the workers."""

    def __init__(self, df: Any) -> None:
        self._df = df
        self.tasks: int | None = None

    def known_schema(self) -> pyarrow.Schema:
        return self.schema()

    def schema(self) -> pyarrow.Schema:
        from pyspark.sql.pandas.types import to_arrow_schema

        return to_arrow_schema(self._df.schema)

    def sample(self, by: str, column: str) -> list[str]:
        quoted = "`" + column.replace("`", "``") + "`"
        keys = self._df.select(quoted) if column in self._df.columns else self._df
        names = keys.columns

        def task(batches: Iterable[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
            rows = _reader(batches, names)
            if rows is not None:
                yield pyarrow.RecordBatch.from_pydict({"sample": [sample_of(by, rows)]})

        return [row[0] for row in _plainly_named(keys).mapInArrow(task, "sample string").collect()]

    def scatter(self, plan: Plan) -> list[Scattered]:
        names = self._df.columns

        def task(batches: Iterable[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
            rows = _reader(batches, names)
            if rows is not None:
                done = plan.scatter(rows)
                fields = {"path": [done.path], "rows": [done.rows], "columns": [done.columns]}
                yield pyarrow.RecordBatch.from_pydict(fields)

        df = _plainly_named(self._df)
        found = df.mapInArrow(task, "path string, rows array<long>, columns string").collect()
        return [Scattered(row[0], list(row[1]), row[2]) for row in found]

    def build(self, plan: Plan, scattered: list[Scattered]) -> list[Built]:
        def task(batches: Iterable[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
            for batch in batches:
                for part in batch.column(0).to_pylist():
                    built = plan.build(part, scattered)
                    values = [built.record, built.schema, built.seconds]
                    yield pyarrow.RecordBatch.from_arrays(
                        [pyarrow.array([value]) for value in values],
                        names=["record", "schema", "seconds"],
                    )

        numbers = self._df.sparkSession.range(0, plan.parts, 1, plan.parts)
        found = numbers.mapInArrow(task, "record string, schema string, seconds double").collect()
        return [Built(*row) for row in found]


def _plainly_named(df: Any) -> Any:
    """The frame with other names: `mapInArrow` reads a dot or a backtick in a name as syntax."""
    return df.toDF(*(f"c{place}" for place in range(len(df.columns))))


def _reader(
    batches: Iterable[pyarrow.RecordBatch], names: list[str]
) -> pyarrow.RecordBatchReader | None:
    """The batches of a task, with the names of the frame; None if it has none."""
    batches = iter(batches)
    first = next(batches, None)
    if first is None:
        return None
    fields = [field.with_name(name) for field, name in zip(first.schema, names, strict=True)]
    schema = pyarrow.schema(fields)

    def all_batches() -> Iterator[pyarrow.RecordBatch]:
        for batch in chain([first], batches):
            yield pyarrow.RecordBatch.from_arrays(batch.columns, schema=schema)

    return pyarrow.RecordBatchReader.from_batches(schema, all_batches())
