"""Frames of pandas, made ready for Arrow.

A column of objects may hold anything, and pyarrow brings its values to one type: a datetime beside
a date loses its time, text beside bytes becomes bytes. So such a column goes to Arrow only if its
values are of one plain type. Others are made plain here, as those of rows are, and what is of several
types then goes as rows, beside the values that Arrow has for the other columns.

Must never: let a frame be stored as other values than its rows would be.
"""

from __future__ import annotations

import importlib
from datetime import date
from typing import Any

from ._errors import DataError, misuse
from ._values import adapt, is_large

# What pandas calls a column of objects whose values Arrow keeps. None, NaN and NA are left out.
_PLAIN = frozenset({"string", "bytes", "boolean", "integer", "floating", "empty"})


_EXACT = (str, bytes, bool, int, float, date)


def with_named_index(frame: Any) -> Any:
    """The frame with the named levels of its index as its first columns."""
    names = frame.index.names
    if all(name is None for name in names):
        return frame
    taken: set[Any] = set()
    for name in names:
        if name is not None and (name in frame.columns or name in taken):
            both = "two levels of the index" if name in taken else "an index and a column of the frame"
            raise misuse(
                f"{both} are both named {name!r}",
                "rename one of them, or leave out the index: frame.reset_index(drop=True)",
            )
        taken.add(name)
    unnamed = [level for level, name in enumerate(names) if name is None]
    frame = frame.reset_index(level=unnamed, drop=True) if unnamed else frame
    return frame.reset_index()


def notes_on_index(frame: Any) -> tuple[str, ...]:
    """A note if a level of the index has no name, and is left out. One of integers, as of a frame with
    some of another's rows, is taken for numbers of rows."""
    names, levels = frame.index.names, getattr(frame.index, "levels", [frame.index])
    if all(name is not None or level.dtype.kind in "iu" for name, level in zip(names, levels)):
        return ()
    return ("the index of the frame has no name, and is left out; reset_index() makes a column of it",)


def plain_columns(frame: Any) -> tuple[Any, list[int]]:
    """The frame with objects made plain where all of a column become one type, and the places of the
    other columns of objects.

    Raises DataError for periods and intervals.
    """
    pandas = importlib.import_module("pandas")
    plain: dict[int, Any] = {}
    mixed = []
    for place, (name, dtype) in enumerate(zip(frame.columns, frame.dtypes, strict=True)):
        _refuse(name, dtype, pandas)
        values = dtype.categories if isinstance(dtype, pandas.CategoricalDtype) else None
        if values is not None:
            _refuse(name, values.dtype, pandas)
        if (dtype if values is None else values.dtype) != object:
            continue
        column = frame.iloc[:, place].astype(object)
        if _is_plain(column if values is None else values, pandas):
            continue
        made = _made_plain(column, pandas)
        if made is None:
            mixed.append(place)
        else:
            plain[place] = made
    return _with_columns(frame, plain), mixed


def counted_durations(frame: Any) -> Any:
    """The frame with durations as integers of their column's unit, as in Arrow: each of them alone
    would be microseconds."""
    pandas = importlib.import_module("pandas")
    counted: dict[int, Any] = {}
    for place, dtype in enumerate(frame.dtypes):
        dtype = dtype.categories.dtype if isinstance(dtype, pandas.CategoricalDtype) else dtype
        if getattr(dtype, "kind", "") == "m":
            column = frame.iloc[:, place].astype(getattr(dtype, "numpy_dtype", dtype))
            numbers = column.to_numpy().astype("int64").tolist()
            values = [None if no else number for number, no in zip(numbers, column.isna(), strict=True)]
            counted[place] = pandas.Series(values, index=column.index, dtype=object)
    return _with_columns(frame, counted)


def _with_columns(frame: Any, columns: dict[int, Any]) -> Any:
    if not columns:
        return frame
    frame = frame.copy(deep=False)
    for place, column in columns.items():
        frame.isetitem(place, column)
    return frame


def _is_plain(values: Any, pandas: Any) -> bool:
    kind = pandas.api.types.infer_dtype(values, skipna=True)
    return (kind in _PLAIN or kind == "date") and not any(map(_is_of_others, {*map(type, values)}))


def _is_of_others(kind: type) -> bool:
    """True for a subclass of a plain type, which may have an adapter: each datetime is a date, for
    pandas too. Those of numpy are the numbers and texts of their plain types."""
    return issubclass(kind, _EXACT) and kind not in _EXACT and kind.__module__ != "numpy"


def _made_plain(column: Any, pandas: Any) -> Any:
    """The column with the values of SQLite; None if they are of several types, if there is none for one
    of them, or if one is an integer beyond 64 bits: the way by rows then names its row."""
    try:
        values = [adapt(value) for value in column]
    except DataError:
        return None
    if any(is_large(value, made) for value, made in zip(column, values, strict=True)):
        return None
    made = pandas.Series(values, index=column.index, dtype=object)
    return made if _is_plain(made, pandas) else None


def _refuse(name: Any, dtype: Any, pandas: Any) -> None:
    """Refuses types of which Arrow would keep a number without its meaning."""
    if isinstance(dtype, pandas.PeriodDtype):
        kind, advice = "periods", f"frame[{name!r}].astype(str), or frame[{name!r}].dt.to_timestamp()"
    elif isinstance(dtype, pandas.IntervalDtype):
        kind, advice = "intervals", f"frame[{name!r}].astype(str), or a column for each of the ends"
    else:
        return
    advice = f"convert it: {advice}"
    error = DataError(f"column {name!r} holds {kind}, which SQLite has no value for\nto do: {advice}")
    error.kind, error.to_do = "bad_row", advice
    raise error
