"""Rows of Python, by their types."""

from __future__ import annotations

import dataclasses
import operator
import reprlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from itertools import count
from os import PathLike
from typing import Any, Union

from ._sources import has_places, is_frame
from ._values import adapt, to_json

Shape = tuple[str, Sequence[str], Union[Callable[[Any], Any], None]]


def shape_of(row: Any, has_columns: bool = False) -> Shape:
    """The way to the values of a row, which holds for all rows of its type.

    Returns a kind, names and a function. "fields": the function gives a tuple of values for these
    names, or the row is such a tuple. "dict": the function gives a dict, or the row is one; names, if
    any, are those of this row alone, and one may be there twice.
    "positions": the row is a tuple or a list of values without names. "frame": it is a data frame, of
    any number of rows.

    Raises TypeError for an object that is no row.
    """
    kind = type(row)
    if kind is dict:
        return "dict", (), None
    if kind is tuple or kind is list:
        return "positions", (), None
    fields = getattr(row, "_fields", None)
    if isinstance(fields, tuple) and isinstance(row, Sequence):
        if not isinstance(row, tuple):
            return "dict", fields, lambda row: _named(row._fields, tuple(row))
        return ("positions", (), None) if has_columns else ("fields", fields, None)
    of_spark = getattr(row, "__fields__", None) if isinstance(row, tuple) else None
    if isinstance(of_spark, list):
        return "dict", of_spark, lambda row: _named(row.__fields__, row)
    if isinstance(row, (tuple, list)) and not callable(getattr(row, "keys", None)):
        return "positions", (), None
    if is_frame(row):
        return "frame", (), None
    if isinstance(row, dict):
        return "dict", (), None
    if isinstance(row, Mapping):
        return "dict", (), dict
    names = _field_names(kind)
    if names is not None:
        return ("dict", (), dict) if names == ["*"] else ("fields", names, _getter(names))
    names = getattr(getattr(row, "dtype", None), "names", None)
    if names:
        return "fields", names, _of_structure
    if hasattr(row, "keys") and hasattr(row, "__getitem__"):
        return ("dict", _keys_of(row), _by_place) if has_places(row) else ("dict", (), _by_key)
    if isinstance(row, PathLike):
        raise TypeError(f"a path is no row: give a list of paths, as list(folder.glob(…)), not {kind.__name__}")
    raise TypeError(
        f"a row of type {kind.__module__}.{kind.__qualname__}: rows are dicts, tuples, named "
        "tuples, dataclasses or models"
    )


def _keys_of(row: Any) -> list[str]:
    return [*row.keys()]


def _by_key(row: Any) -> dict[Any, Any]:
    return {key: row[key] for key in _keys_of(row)}


def _by_place(row: Any) -> dict[Any, Any]:
    """The values of a row of a database. Its `row[key]` may take two columns for one: that of sqlite3 does
    not tell `a` from `A`."""
    names, values = _keys_of(row), tuple(row)
    return _named(names, values) if len(names) == len(values) else _by_key(row)


def _named(names: Sequence[str], values: Sequence[Any]) -> dict[str, Any]:
    """The values by name. One that is there again gets a number, as a column of a cursor does."""
    made = dict(zip(names, values))
    return made if len(made) == len(names) else dict(zip(_numbered(tuple(names)), values))


@lru_cache(maxsize=64)
def _numbered(names: tuple[str, ...]) -> list[str]:
    taken = {name.lower() for name in names}
    made: dict[str, None] = {}
    for name in names:
        if name in made:
            free = (f"{name}_{number}" for number in count(2))
            name = next(name for name in free if name.lower() not in taken)
            taken.add(name.lower())
        made[name] = None
    return [*made]


def _field_names(kind: type) -> list[str] | None:
    """Names of the fields of a dataclass or a model; ["*"] if each object may have its own."""
    if dataclasses.is_dataclass(kind):
        return [field.name for field in dataclasses.fields(kind)]
    models = getattr(kind, "model_fields", None)
    if isinstance(models, Mapping):
        config = getattr(kind, "model_config", {})
        return ["*"] if config.get("extra") == "allow" else list(models)
    attributes = getattr(kind, "__attrs_attrs__", None)
    if attributes is not None:
        return [attribute.name for attribute in attributes]
    structure = getattr(kind, "__struct_fields__", None)
    return None if structure is None else list(structure)


def _getter(names: list[str]) -> Callable[[Any], Any]:
    if len(names) > 1:
        return operator.attrgetter(*names)
    return lambda row: tuple(getattr(row, name) for name in names)


def _of_structure(row: Any) -> tuple[Any, ...]:
    """The values of a structure of numpy. Its times stay numpy's: `item` makes integers of nanoseconds."""
    kinds = [row.dtype[place].kind for place in range(len(row.dtype))]
    return tuple(own if kind in "mM" else item for kind, own, item in zip(kinds, row, row.item()))


def row_as_json(row: Any, names: Sequence[str]) -> str:
    """A row as a person would look it up, whatever is wrong with it."""
    try:
        kind, own, get = shape_of(row)
        values = get(row) if get else row
        if kind == "positions":
            extra = (f"value {at}" for at in range(len(names) + 1, len(values) + 1))
            values = dict(zip([*names, *extra], values))
        elif kind == "fields":
            values = dict(zip(own, values))
        shown = {str(key): _shown(value) for key, value in values.items()}
        text = to_json(shown)
    except Exception:
        text = _repr(row)
    return text.encode(errors="backslashreplace").decode()


def _shown(value: Any) -> Any:
    """A value that JSON has, as a load of the rejects stores it."""
    try:
        plain = adapt(value)
    except Exception:
        return _whole_number(value) or _repr(value)
    return value if isinstance(value, bool) else plain


def _whole_number(value: Any) -> int | None:
    """An integer of any type that is too large for SQLite, but not for a text of its digits."""
    try:
        number = operator.index(value)
        str(number)
    except (TypeError, ValueError):
        return None
    return number


def _repr(value: Any) -> str:
    for show in (repr, reprlib.repr):
        with suppress(Exception):
            return show(value)
    return f"an object of type {type(value).__qualname__}"
