"""Dask frames into one SQLite file, or into shards: many files with a manifest."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal

from dask.base import compute
from dask.delayed import delayed

from ._engines import Built, Plan, Scattered, ShardOptions, ShardReport, sample_of
from ._engines import write as write_by
from ._errors import DataError, misuse
from ._parts import Parts
from ._sources import Path
from ._typing import Unpack
from ._values import adapt

if TYPE_CHECKING:
    import pyarrow

__all__ = ["to_sqlite", "write"]


def to_sqlite(
    frame: Any, db: Path, table: str, *, if_exists: Literal["fail", "append"] = "fail"
) -> int:
    """Writes a frame of `dask.dataframe` into one table of one file; returns the number of rows.

    Each partition is one durable transaction of a shared Writer, in whichever thread or process of
    this machine computes it. Named levels of the index become columns.

    if_exists: "fail" (an error if the table is there) or "append".

    A table that the call makes has a column of TEXT for one of objects. So numbers in such a column
    raise `DataError`: give it another type before. A category column whose categories Dask does not
    know raises `ProgrammingError` then: `.cat.as_known()` finds them.

    After an exception a table that the call has made is dropped again. In a table that was there, or
    to which another write has added rows meanwhile, the rows of the finished partitions stay. A
    partition that is computed again writes nothing twice, and counts no rows then.
    """
    frame = _with_index(frame)
    parts = Parts(db, table, if_exists)
    if not parts.has_table():
        _refuse_unknown_categories(frame._meta)
    try:
        parts.begin(frame._meta)
        write = delayed(_write, pure=False)
        counts = compute(
            *(write(parts, number, part) for number, part in enumerate(frame.to_delayed()))
        )
    except BaseException:
        parts.abandon()
        raise
    parts.end()
    return sum(counts)


def write(
    ddf: Any, out: Path, *, by: str, parts: int, **options: Unpack[ShardOptions]
) -> ShardReport:
    """Writes a frame of `dask.dataframe` into shards, as a new run.

    out: a folder that all processes reach under the same path, or a URL
        such as "s3://bucket/people", whose credentials all of them have in their environment.
    by: "hash(a,b)", "range(a)" or "rows", as docs/scale.md has them. Ranges compute the column
        twice: persist a frame that is expensive to compute.
    parts: number of parts, each pressed by one task.

    Named levels of the index become columns. A column of objects with other values than texts raises
    `DataError`. A category column whose categories Dask does not know raises `ProgrammingError`:
    `.cat.as_known()` finds them.

    Raises what the tasks raise; `OperationalError` if another run was published meanwhile: then
    this one is complete, and `leafpress shards rollback --to RUN` makes it current. After any
    other exception the current run does not change, and nothing of the new run is left. If this process
    dies, or a task still runs that puts its part into a store, `leafpress shards gc` removes the
    rest.
    """
    return write_by(_Dask(_with_index(ddf)), out, by, parts, options)


class _Dask:
    """A frame, as `_engines.Engine` has it."""

    def __init__(self, frame: Any) -> None:
        _refuse_unknown_categories(frame._meta)
        self._frame = frame
        self._schema = _schema_of(frame._meta)
        self.tasks: int | None = frame.npartitions

    def known_schema(self) -> pyarrow.Schema:
        return self._schema

    def schema(self) -> pyarrow.Schema:
        return self._schema

    def sample(self, by: str, column: str) -> list[str]:
        keys = self._frame[[column]] if column in self._frame.columns else self._frame
        task = delayed(_sample, pure=False)
        schema = _schema_of(keys._meta)
        return list(compute(*(task(by, part, schema) for part in keys.to_delayed())))

    def scatter(self, plan: Plan) -> list[Scattered]:
        task = delayed(_scatter, pure=False)
        parts = self._frame.to_delayed()
        return list(compute(*(task(plan, part, self._schema) for part in parts)))

    def build(self, plan: Plan, scattered: list[Scattered]) -> list[Built]:
        task, files = delayed(plan.build, pure=False), delayed(scattered, traverse=False)
        return list(compute(*(task(part, files) for part in range(plan.parts))))


def _with_index(frame: Any) -> Any:
    """The frame with the named levels of its index as columns."""
    is_named = any(name is not None for name in frame._meta.index.names)
    return frame.reset_index() if is_named else frame


def _schema_of(meta: Any) -> pyarrow.Schema:
    """The columns of all partitions: a partition alone does not tell them where all is NULL."""
    import pyarrow

    schema = pyarrow.Schema.from_pandas(meta, preserve_index=False)
    return pyarrow.schema([field.with_type(_type_of_all(field.type)) for field in schema])


def _type_of_all(kind: pyarrow.DataType) -> pyarrow.DataType:
    import pyarrow

    if pyarrow.types.is_null(kind):
        return pyarrow.string()
    if pyarrow.types.is_dictionary(kind):
        # An empty frame asks for one byte, and a partition may have more categories than fit.
        values = _type_of_all(kind.value_type)
        return pyarrow.dictionary(pyarrow.int32(), values, kind.ordered)
    return kind


def _refuse_unknown_categories(meta: Any) -> None:
    """Raises ProgrammingError for a category column without known categories: Dask takes them for
    texts, whatever they are."""
    import pandas
    from dask.dataframe.utils import has_known_categories

    for place, (name, dtype) in enumerate(zip(meta.columns, meta.dtypes, strict=True)):
        if isinstance(dtype, pandas.CategoricalDtype) and not has_known_categories(
            meta.iloc[:, place]
        ):
            raise misuse(
                f"Dask does not know the categories of the column {name!r}, nor their type",
                f"find them with frame[{name!r}].cat.as_known(), or give the column the type of "
                "its values with astype",
            )


def _write(parts: Parts, number: int, part: Any) -> int:
    """Writes a partition into the table, whose columns were made for a frame without rows."""
    if parts.made_table:
        for name, value in _objects_but_texts(part):
            if isinstance(adapt(value), (int, float)):
                raise _not_text(name, value, "the table has a column of TEXT for them")
    return parts.write(number, [part])


def _objects_but_texts(part: Any) -> Iterator[tuple[Any, Any]]:
    """Values of columns of objects that are neither texts nor missing, with the columns' names."""
    import pandas

    for place, dtype in enumerate(part.dtypes):
        if dtype != object:
            continue
        column = part.iloc[:, place]
        if pandas.api.types.infer_dtype(column, skipna=True) in ("string", "empty"):
            continue
        for value in column[column.notna()]:
            if not isinstance(value, str):
                yield part.columns[place], value


def _not_text(name: Any, value: Any, why: str) -> DataError:
    advice = f"give the column another type, as by frame[{name!r}].astype(…)"
    error = DataError(
        f"the column {name!r} of objects holds a value of type {type(value).__name__}, and {why}"
        f"\non disk: nothing of this partition\nto do: {advice}"
    )
    error.kind, error.on_disk, error.to_do = "bad_row", "nothing of this partition", advice
    return error


def _table(part: Any, schema: pyarrow.Schema) -> pyarrow.Table:
    import pyarrow

    for name, value in _objects_but_texts(part):
        raise _not_text(name, value, "the parts have a column of TEXT for them")
    return pyarrow.Table.from_pandas(part, schema=schema, preserve_index=False)


def _sample(by: str, part: Any, schema: pyarrow.Schema) -> str:
    return sample_of(by, _table(part, schema))


def _scatter(plan: Plan, part: Any, schema: pyarrow.Schema) -> Scattered:
    return plan.scatter(_table(part, schema))
