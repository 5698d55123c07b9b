"""Rows of any kind as a table's name, columns and sequences of values."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from ._errors import DataError, misuse
from ._leafpress import FrameRows
from ._sources import Input, frame_of

Rows: TypeAlias = "Iterable[Sequence[Any]] | FrameRows"


def listed(rows: Any) -> Any:
    """The rows so that the first one can be looked at: a frame as an `Input`, an iterator as a list.

    Raises `ProgrammingError` for an object that is one row, or none.
    """
    frame = frame_of(rows)
    if frame is not None:
        return frame
    if isinstance(rows, (Mapping, str, bytes, bytearray, memoryview)):
        kind = type(rows).__name__
        raise misuse(f"an object of type {kind} is no list of rows", "give a list, also of one row")
    return rows if isinstance(rows, Sequence) else list(rows)


def needs_columns(rows: Any) -> bool:
    """Whether the columns of `listed` rows have to be those of the table."""
    if isinstance(rows, Input):
        return False
    return not rows or (not isinstance(rows[0], Mapping) and _fields(rows[0]) is None)


def columns_and_rows(rows: Any, columns: Sequence[str] | None) -> tuple[list[str], Rows]:
    """The columns, and the values of each row.

    `rows` are `listed`: a data frame, or mappings, dataclasses, named tuples, models of pydantic,
    or sequences, which need `columns`. The values of a frame are those that `load` would store.
    """
    if isinstance(rows, Input):
        return _of_frame(rows, columns)
    if needs_columns(rows):
        return list(columns or ()), rows
    if isinstance(rows[0], Mapping):
        return _of_mappings(rows, columns, list(rows[0]))
    chosen = list(columns or _fields(rows[0]) or ())
    return chosen, _of_objects(rows, chosen)


def _of_frame(frame: Input, columns: Sequence[str] | None) -> tuple[list[str], Rows]:
    if frame.columns is not None:
        names, values = frame.columns, frame.given
        if columns is None or list(columns) == names:
            return names, values
        return list(columns), _picked(values, [_place(names, name) for name in columns])
    taken = FrameRows(frame.given)
    names = taken.names
    if columns is not None and list(columns) != names:
        taken.pick([_place(names, name) for name in columns])
        names = list(columns)
    return names, taken


DECLARED = """\
SELECT it.name, it.type, list.strict
FROM pragma_table_info(?1) AS it JOIN pragma_table_list(?1) AS list"""


def large_columns(names: Sequence[str], rows: Rows) -> dict[str, int]:
    """The columns of a frame with an integer beyond 64 bits, which is there as a text, and the row
    of the first one. For `refuse_large`, which needs what the table declares."""
    found = rows.large if isinstance(rows, FrameRows) else {}
    return {name: row for name, row in found.items() if name in names}


def refuse_large(large: Mapping[str, int], declared: Iterable[Sequence[Any]]) -> None:
    """Refuses such an integer for a column that would make a real of it. `declared` are the rows of
    `DECLARED`."""
    are_numbers = {
        name.lower() for name, kind, is_strict in declared if _is_of_numbers(kind, is_strict)
    }
    for name, row in large.items():
        if name.lower() in are_numbers:
            text = f"has an integer in column {name!r} that does not fit in the 64 bits of SQLite"
            raise _odd_row(row, text, "cast the column of the frame to texts, and declare it TEXT")


def _is_of_numbers(declared: str, is_strict: bool) -> bool:
    """True if a column makes numbers of texts, by SQLite's rules of affinity."""
    kind = declared.upper()
    if "INT" in kind:
        return True
    is_of_texts = any(word in kind for word in ("CHAR", "CLOB", "TEXT", "BLOB"))
    return not (is_of_texts or kind == "" or (is_strict and kind == "ANY"))


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
                raise _odd_row(number, f"has no key {missing}", _SAME_KEYS) from None
            except (TypeError, IndexError):
                if isinstance(row, Mapping):
                    raise
                raise _odd_row(number, _other_kind(row, "the keys"), _SAME_KIND) from None
            if columns is None and len(row) != len(chosen):
                extra = next(key for key in row if key not in chosen)
                text = f"has the key '{extra}', which the first row has not"
                raise _odd_row(number, text, _SAME_KEYS)
            yield found

    return chosen, values()


def _of_objects(rows: Iterable[Any], names: list[str]) -> Iterator[list[Any]]:
    for number, row in enumerate(rows, 1):
        try:
            yield [getattr(row, name) for name in names]
        except AttributeError:
            if type(row) not in (tuple, list) and not isinstance(row, Mapping):
                raise
            raise _odd_row(number, _other_kind(row, "the fields"), _SAME_KIND) from None


_SAME_KEYS = "give each row the same keys, with None where there is no value, or give `columns`"
_SAME_KIND = "give rows of one kind"


def _other_kind(row: Any, wanted: str) -> str:
    return f"is of type {type(row).__name__}, and has not {wanted} of the first row"


def _odd_row(number: int, text: str, advice: str) -> DataError:
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
