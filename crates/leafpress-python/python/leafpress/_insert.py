"""Rows of any kind as a table's name, columns and sequences of values."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from ._errors import DataError, misuse


def listed(rows: Any) -> Any:
    """The rows so that the first one can be looked at: an iterator becomes a list."""
    return rows if isinstance(rows, Sequence) or _is_frame(rows) else list(rows)


def _is_frame(rows: Any) -> bool:
    kinds = ("__arrow_c_stream__", "itertuples", "to_batches", "read_next_batch", "to_pylist")
    return any(hasattr(rows, kind) for kind in kinds)


def needs_columns(rows: Any) -> bool:
    """Whether the columns of `listed` rows have to be those of the table."""
    if not isinstance(rows, Sequence):
        return False
    return not rows or (not isinstance(rows[0], Mapping) and _fields(rows[0]) is None)


def columns_and_rows(
    rows: Any, columns: Sequence[str] | None
) -> tuple[list[str], Iterable[Sequence[Any]]]:
    """The columns, and the values of each row.

    `rows` are `listed`: a data frame, or mappings, dataclasses, named tuples, models of pydantic,
    or sequences, which need `columns`.
    """
    frame = _frame(rows)
    if frame is not None:
        names, values = frame
        if columns is None or list(columns) == names:
            return names, values
        return list(columns), _picked(values, [_place(names, name) for name in columns])
    if needs_columns(rows):
        return list(columns or ()), rows
    if isinstance(rows[0], Mapping):
        return _of_mappings(rows, columns, list(rows[0]))
    chosen = list(columns or _fields(rows[0]) or ())
    return chosen, ([getattr(row, name) for name in chosen] for row in rows)


def _frame(rows: Any) -> tuple[list[str], Iterable[Sequence[Any]]] | None:
    """Columns and rows of a data frame; None if it is none."""
    if hasattr(rows, "iter_rows") and hasattr(rows, "columns"):  # polars
        return list(rows.columns), rows.iter_rows()
    if hasattr(rows, "itertuples") and hasattr(rows, "columns"):  # pandas
        names = [str(name) for name in rows.columns]
        return names, rows.itertuples(index=False, name=None)
    if hasattr(rows, "to_batches") and hasattr(rows, "schema"):  # a table of pyarrow
        return list(rows.schema.names), _of_batches(rows.to_batches())
    if hasattr(rows, "read_next_batch"):  # a reader of record batches
        return list(rows.schema.names), _of_batches(rows)
    if hasattr(rows, "to_pylist") and hasattr(rows, "schema"):  # a record batch
        return list(rows.schema.names), _of_batches([rows])
    if hasattr(rows, "__arrow_c_stream__"):  # DuckDB, DataFusion, Ibis, …
        reader = _pyarrow().RecordBatchReader.from_stream(rows)
        return list(reader.schema.names), _of_batches(reader)
    return None


def _pyarrow() -> Any:
    try:
        import pyarrow
    except ImportError:
        raise misuse(
            "a frame of this kind is read by pyarrow, which is not installed",
            "install pyarrow, or use leafpress.load, which does not need it",
        ) from None
    return pyarrow


def _of_batches(batches: Iterable[Any]) -> Iterator[Sequence[Any]]:
    for batch in batches:
        yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)


def _picked(rows: Iterable[Sequence[Any]], places: list[int]) -> Iterator[list[Any]]:
    return ([row[place] for place in places] for row in rows)


def _place(names: list[str], name: str) -> int:
    if name not in names:
        raise misuse(f"the frame has no column '{name}'", f"choose among {', '.join(names)}")
    return names.index(name)


def _of_mappings(
    rows: Iterable[Any], columns: Sequence[str] | None, keys: list[str]
) -> tuple[list[str], Iterator[list[Any]]]:
    chosen = list(columns or keys)

    def values() -> Iterator[list[Any]]:
        for number, row in enumerate(rows, 1):
            try:
                found = [row[name] for name in chosen]
            except KeyError as missing:
                raise _odd_key(number, f"has no key {missing}") from None
            if columns is None and len(row) != len(chosen):
                extra = next(key for key in row if key not in chosen)
                raise _odd_key(number, f"has the key '{extra}', which the first row has not")
            yield found

    return chosen, values()


def _odd_key(number: int, text: str) -> DataError:
    advice = "give each row the same keys, with None where there is no value, or give `columns`"
    error = DataError(f"row {number} {text}\non disk: nothing of this call\nto do: {advice}")
    error.kind, error.line = "bad_row", number
    error.on_disk, error.to_do = "nothing of this call", advice
    return error


def _fields(row: Any) -> list[str] | None:
    """Names of the fields of a row that is an object; None if it is a sequence."""
    if dataclasses.is_dataclass(row):
        return [field.name for field in dataclasses.fields(row)]
    fields = getattr(row, "_fields", None)
    if fields is None:
        fields = getattr(type(row), "model_fields", None)
    return None if fields is None else list(fields)
