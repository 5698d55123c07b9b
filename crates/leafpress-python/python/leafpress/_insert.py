"""Rows of any kind as columns and rows of the native module, for `insert_many`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Any, NamedTuple

from ._errors import DataError, misuse
from ._leafpress import NativeRows
from ._rows import Shape, shape_of
from ._sources import Input, frame_of, is_frame, names_of_cursor, refuse_no_rows


class _Frames(NamedTuple):
    """A frame in parts."""

    parts: Iterable[Any]


def listed(rows: Any) -> Any:
    """The rows so that the first one can be looked at: a frame as an `Input`, frames as `_Frames`, an
    iterator as a list.

    Raises `ProgrammingError` for an object that is one row, or none.
    """
    frame = frame_of(rows)
    if frame is not None:
        return frame
    if isinstance(rows, (Mapping, str, bytes, bytearray, memoryview)):
        kind = type(rows).__name__
        raise misuse(f"an object of type {kind} is no list of rows", "give a list, also of one row")
    refuse_no_rows(rows, "give a data frame or an iterable of rows")
    iterator = iter(rows)
    first = [*islice(iterator, 1)]
    if first and is_frame(first[0]):
        return _Frames(chain(first, iterator))
    names = names_of_cursor(rows)
    rows = rows if isinstance(rows, Sequence) else [*first, *iterator]
    return Input("rows", "<rows>", rows, names) if names and not _have_names(rows) else rows


def needs_columns(rows: Any) -> bool:
    """True if the columns of `listed` rows have to be those of the table."""
    return not isinstance(rows, (Input, _Frames)) and not _have_names(rows)


def columns_and_rows(rows: Any, columns: Sequence[str] | None) -> tuple[list[str], NativeRows]:
    """The columns, and the values of each row.

    `rows` are `listed`: a data frame, frames, rows with names, or sequences, which need `columns`. The
    values of a frame are those that `load` would store. A `str` is one column, as in `load`.
    """
    if columns is not None:
        columns = [columns] if isinstance(columns, str) else [*columns]
    taken = NativeRows()
    if isinstance(rows, Input):
        return _add_frame(taken, rows, columns), taken
    if isinstance(rows, _Frames):
        return _add_frames(taken, rows.parts, columns), taken
    if _have_names(rows):
        names = _names_of(rows[0])
        chosen = columns or names
        if columns is not None:
            _refuse_twice("the first row", names, chosen)
        taken.add(_by_name(rows, chosen, has_all=columns is None), chosen)
    else:
        _refuse_names(rows)
        chosen = columns or []
        taken.add(rows, chosen)
    return chosen, taken


def _add_frame(
    taken: NativeRows, frame: Input, columns: Sequence[str] | None, has_all: bool = False
) -> list[str]:
    """Adds the rows of a frame; returns the names of their columns. With `has_all` the frame may have no
    further ones."""
    chosen = None if columns is None else list(columns)

    def places_of(names: list[str]) -> list[int]:
        nonlocal chosen
        if chosen is None or chosen == names:
            # Two of them may have the same name.
            chosen = names
            return [*range(len(names))]
        more = [name for name in names if name not in chosen]
        if has_all and more:
            text = f"a part of the frame has the column {more[0]!r}, which the first part has not"
            raise misuse(text, "give all parts the same columns, or choose some with `columns`")
        _refuse_twice("the frame", names, chosen)
        return [_place(names, name) for name in chosen]

    if frame.columns is None:
        taken.add_frame(frame.given, places_of)
    else:
        places = places_of(frame.columns)
        taken.add(([row[place] for place in places] for row in frame.given), chosen or [])
    return chosen or []


def _add_frames(
    taken: NativeRows, parts: Iterable[Any], columns: Sequence[str] | None
) -> list[str]:
    """Adds the rows of all parts, by the names of their columns; returns those of the first part."""
    chosen = columns
    for number, part in enumerate(parts, 1):
        frame = frame_of(part) if is_frame(part) else None
        if frame is None:
            kind = type(part).__name__
            raise misuse(f"part {number} is of type {kind}, and no data frame as the first", _SAME_KIND)
        chosen = _add_frame(taken, frame, chosen, has_all=columns is None)
    return list(chosen or ())


def _refuse_twice(what: str, names: Sequence[str], chosen: Sequence[str]) -> None:
    """Refuses to choose among columns of one name."""
    for name in chosen:
        if names.count(name) > 1:
            raise misuse(f"{what} has several columns {name!r}", "give each column a name of its own")


def _place(names: list[str], name: str) -> int:
    if name not in names:
        raise misuse(f"the frame has no column '{name}'", f"choose among {', '.join(names)}")
    return names.index(name)


DECLARED = """\
SELECT it.name, it.type, list.strict
FROM pragma_table_info(?1) AS it JOIN pragma_table_list(?1) AS list"""


def large_columns(names: Sequence[str], rows: NativeRows) -> dict[str, int]:
    """The columns with an integer beyond 64 bits, which is there as a text, and the row of the first
    one. For `refuse_large`, which needs what the table declares."""
    return {names[place]: row for place, row in rows.large.items() if place < len(names)}


def refuse_large(large: Mapping[str, int], declared: Iterable[Sequence[Any]]) -> None:
    """Refuses such an integer for a column that would make a real of it. `declared` are the rows of
    `DECLARED`."""
    are_numbers = {
        name.lower() for name, kind, is_strict in declared if _is_of_numbers(kind, is_strict)
    }
    for name, row in large.items():
        if name.lower() in are_numbers:
            text = f"has an integer in column {name!r} that does not fit in the 64 bits of SQLite"
            raise _odd_row(row, text, "make texts of the column, and declare it TEXT")


def _is_of_numbers(declared: str, is_strict: bool) -> bool:
    """True if a column makes numbers of texts, by SQLite's rules of affinity."""
    kind = declared.upper()
    if "INT" in kind:
        return True
    is_of_texts = any(word in kind for word in ("CHAR", "CLOB", "TEXT", "BLOB"))
    return not (is_of_texts or kind == "" or (is_strict and kind == "ANY"))


def _shape(row: Any) -> Shape:
    """The way to the values of a row; one without names is read by the native module."""
    try:
        return shape_of(row)
    except TypeError:
        return "positions", (), None


def _have_names(rows: Sequence[Any]) -> bool:
    return len(rows) > 0 and _shape(rows[0])[0] != "positions"


def _names_of(row: Any) -> list[str]:
    _, names, get = _shape(row)
    return list(names or (get(row) if get else row))


def _by_name(rows: Iterable[Any], chosen: list[str], has_all: bool) -> Iterator[Sequence[Any]]:
    """The values of rows with names. With `has_all` no row may have a further one."""
    takers: dict[type, Callable[[Any], Sequence[Any]]] = {}
    for number, row in enumerate(rows, 1):
        try:
            take = takers.get(type(row))
            if take is None:
                take = takers[type(row)] = _taker(row, chosen, has_all)
            yield take(row)
        except _Odd as odd:
            raise _odd_row(number, *odd.args) from None


class _Odd(Exception):
    """The fault of a row, and advice."""


def _taker(row: Any, chosen: list[str], has_all: bool) -> Callable[[Any], Sequence[Any]]:
    """The function that gives the chosen values of each row of this row's type."""
    kind, names, get = _shape(row)
    if kind in ("positions", "frame"):
        raise _Odd(f"is of type {type(row).__name__}, and has no names as the first row", _SAME_KIND)
    if kind == "dict":
        return lambda row: _of_mapping(get(row) if get else row, chosen, has_all)
    if has_all:
        _refuse_extra(names, chosen)
    fields = get or (lambda row: row)
    if not set(chosen) <= set(names):
        return lambda row: _of_attributes(row, dict(zip(names, fields(row))), chosen)
    places = [names.index(name) for name in chosen]
    if places == [*range(len(names))]:
        return fields
    return lambda row: [values[place] for values in (fields(row),) for place in places]


def _of_mapping(row: Mapping[str, Any], chosen: list[str], has_all: bool) -> list[Any]:
    try:
        found = [row[name] for name in chosen]
    except KeyError as missing:
        raise _Odd(f"has no key {missing}", _SAME_KEYS) from None
    if has_all and len(row) != len(chosen):
        _refuse_extra(row, chosen)
    return found


def _of_attributes(row: Any, fields: Mapping[str, Any], chosen: list[str]) -> list[Any]:
    """The values of an object with more attributes than fields, such as properties."""
    for name in chosen:
        if name not in fields and not hasattr(row, name):
            raise _Odd(f"of type {type(row).__name__} has no field {name!r}", _SAME_KEYS)
    return [fields[name] if name in fields else getattr(row, name) for name in chosen]


def _refuse_extra(names: Iterable[str], chosen: list[str]) -> None:
    for name in names:
        if name not in chosen:
            raise _Odd(f"has the key '{name}', which the first row has not", _SAME_KEYS)


def _refuse_names(rows: Sequence[Any]) -> None:
    """Refuses a row with names among rows without: its values would go in by their places."""
    kinds: dict[type, int] = {}
    if len(set(map(type, rows))) <= 1:
        return
    for number, row in enumerate(rows, 1):
        kinds.setdefault(type(row), number)
    for number in kinds.values():
        if _have_names([rows[number - 1]]):
            kind = type(rows[number - 1]).__name__
            raise _odd_row(number, f"is of type {kind}, and has names, unlike the first row", _SAME_KIND)


_SAME_KEYS = "give each row the same keys, with None where there is no value, or give `columns`"
_SAME_KIND = "give rows of one kind"


def _odd_row(number: int, text: str, advice: str) -> DataError:
    error = DataError(f"row {number} {text}\non disk: nothing of this call\nto do: {advice}")
    error.kind, error.line = "bad_row", number
    error.on_disk, error.to_do = "nothing of this call", advice
    return error
