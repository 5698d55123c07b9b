"""Values and rows that SQLite has no type for, as those that it has.

| Python | SQLite |
|---|---|
| None, NaN, pandas' NA and NaT | NULL |
| bool, int, numpy's integers | INTEGER; more than 64 bits are an error |
| float, numpy's floats | REAL |
| str, UUID, paths | TEXT |
| bytes, bytearray, memoryview | BLOB |
| date, time, datetime | TEXT in ISO 8601, a datetime with a zone as its instant in UTC |
| timedelta | INTEGER: microseconds; numpy's and pandas' in their own unit |
| Decimal | INTEGER if it has no fraction and fits 64 bits, else TEXT with all its digits |
| Enum | its value |
| dict, list, tuple, dataclasses and models within a row | TEXT: their JSON |

The same values in Arrow arrays are stored alike.
"""

from __future__ import annotations

import dataclasses
import enum
import json
import math
import operator
import os
import re
import uuid
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any, Union

from ._errors import unfit

Plain = Union[None, int, float, str, bytes]

_MICROSECOND = timedelta(microseconds=1)
_FRACTION = re.compile(r"\.(\d+)")


def adapt(value: Any) -> Plain:
    """A value of SQLite for an object of another type.

    Raises DataError for an object of a type that has no such value.
    """
    convert = _BY_TYPE.get(type(value))
    if convert is None:
        convert = _BY_TYPE[type(value)] if _learn(value) else _refuse
    adapted: Plain = convert(value)
    return adapted


def _refuse(value: Any) -> Plain:
    kind = type(value)
    raise unfit(f"a value of type {kind.__module__}.{kind.__qualname__} cannot be stored")


def _datetime(value: datetime) -> str:
    if value.tzinfo is not None:
        value = value.astimezone(timezone.utc)
    return _short(value.isoformat(" "))


def _time(value: time) -> str:
    return _short(value.isoformat())


def _short(text: str) -> str:
    """ISO text with its fraction in as few groups of three digits as it needs."""
    return _FRACTION.sub(_short_fraction, text) if "." in text else text


def _short_fraction(found: re.Match[str]) -> str:
    digits = found[1]
    while digits.endswith("000"):
        digits = digits[:-3]
    return digits and f".{digits}"


def _timestamp(value: Any) -> str:
    """Text of pandas' Timestamp, which has nanoseconds."""
    if value.tzinfo is not None:
        value = value.tz_convert("UTC")
    return _short(value.isoformat(sep=" ", timespec="nanoseconds"))


def _decimal(value: Decimal) -> Plain:
    if value.is_nan():
        return None
    exponent = value.as_tuple().exponent
    if isinstance(exponent, int) and exponent >= 0:
        whole = int(value)
        return whole if -(2**63) <= whole < 2**63 else str(whole)
    return format(value, "f")


def _datetime64(value: Any) -> Plain:
    """Text of numpy's datetime64, whose unit may be a day or parts of a second."""
    text = str(value)
    if text == "NaT":
        return None
    if "T" not in text:
        return str(value.astype("datetime64[D]"))
    if len(text) < len("2026-11-21T05:30:00"):
        text = str(value.astype("datetime64[s]"))
    return _short(text.replace("T", " "))


def _timedelta64(value: Any) -> Plain:
    return None if str(value) == "NaT" else int(value.astype("int64"))


def _scalar(value: Any) -> Plain:
    """The plain value of numpy's scalars and of pyarrow's."""
    plain = value.item() if hasattr(value, "item") else value.as_py()
    if type(plain) is type(value):
        return float(plain) if hasattr(plain, "__float__") else _refuse(value)
    return plain if isinstance(plain, (bool, int, float, str, bytes)) else adapt(plain)


def json_of(value: Any) -> str:
    """The JSON of a nested value, without blanks between its parts."""
    return "".join(_json_parts(value))


def _json_parts(value: Any) -> Any:
    if isinstance(value, Mapping):
        yield "{"
        for index, (key, part) in enumerate(value.items()):
            yield f"{',' if index else ''}{_json_text(str(key))}:"
            yield from _json_parts(part)
        yield "}"
    elif isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
        yield "["
        for index, part in enumerate(value):
            if index:
                yield ","
            yield from _json_parts(part)
        yield "]"
    elif isinstance(value, (bool, type(None))):
        yield {True: "true", False: "false", None: "null"}[value]
    elif isinstance(value, Decimal) and value.is_finite():
        yield format(value, "f")
    else:
        yield _json_plain(value)


def _json_plain(value: Any) -> str:
    plain = value if isinstance(value, (int, float, str, bytes)) else adapt(value)
    if isinstance(plain, enum.Enum):
        return json_of(plain.value)
    if isinstance(plain, str):
        # Nested values that are JSON already, such as those of an array.
        return plain if _is_nested(value) else _json_text(plain)
    if isinstance(plain, bytes):
        return _json_text(plain.hex())
    if isinstance(plain, float) and not math.isfinite(plain):
        return "null" if math.isnan(plain) else "9e999" if plain > 0 else "-9e999"
    if isinstance(plain, float):
        return float.__repr__(plain)
    return "null" if plain is None else int.__repr__(plain)


def _json_text(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _is_nested(value: Any) -> bool:
    return _BY_TYPE.get(type(value)) in (json_of, _json_of_fields, _json_of_array)


def _json_of_array(value: Any) -> str:
    return json_of(value.tolist())


def _json_of_fields(value: Any) -> str:
    _, names, get = shape_of(value)
    if not names:
        return json_of(get(value) if get else dict(value))
    return json_of(dict(zip(names, get(value) if get else value)))


_BY_TYPE: dict[type, Callable[[Any], Any]] = {
    type(None): lambda value: value,
    bool: int,
    int: int,
    float: float,
    str: str,
    bytes: bytes,
    bytearray: bytes,
    memoryview: bytes,
    datetime: _datetime,
    date: date.isoformat,
    time: _time,
    timedelta: lambda value: value // _MICROSECOND,
    Decimal: _decimal,
    uuid.UUID: str,
    dict: json_of,
    list: json_of,
    tuple: json_of,
}


def _learn(value: Any) -> bool:
    """Finds the way for the type of a value; False if there is none."""
    convert = _of_library(value) or _of_kin(value)
    if convert is None:
        return False
    _BY_TYPE[type(value)] = convert
    return True


def _of_library(value: Any) -> Callable[[Any], Any] | None:
    """The way for a type of numpy, pandas or pyarrow, none of which is imported for that."""
    kind = type(value)
    library = kind.__module__.partition(".")[0]
    if library == "pandas":
        if kind.__name__ in ("NaTType", "NAType"):
            return lambda value: None
        if kind.__name__ == "Timestamp":
            return _timestamp
        if kind.__name__ == "Timedelta":
            return lambda value: int(value.to_timedelta64().astype("int64"))
    if library == "numpy":
        if kind.__name__ == "datetime64":
            return _datetime64
        if kind.__name__ == "timedelta64":
            return _timedelta64
        if kind.__name__ == "ndarray":
            return _json_of_array
        if kind.__name__ not in ("complex64", "complex128", "clongdouble"):
            return _scalar
    if library == "pyarrow" and hasattr(kind, "as_py"):
        return _scalar
    return None


def _of_kin(value: Any) -> Callable[[Any], Any] | None:
    """The way for a type that inherits from one that is known."""
    if isinstance(value, enum.Enum):
        return lambda value: adapt(value.value)
    for known in (datetime, date, time, timedelta, Decimal, uuid.UUID):
        if isinstance(value, known):
            return _BY_TYPE[known]
    for plain in (int, float, str, bytes):
        if isinstance(value, plain):
            return plain
    if isinstance(value, (bytearray, memoryview)):
        return bytes
    if isinstance(value, os.PathLike):
        return os.fspath
    if isinstance(value, (Mapping, list)) or (
        isinstance(value, tuple) and not hasattr(value, "_fields")
    ):
        return json_of
    try:
        shape_of(value)
    except TypeError:
        return None
    return _json_of_fields


Shape = tuple[str, Sequence[str], Union[Callable[[Any], Any], None]]


def shape_of(row: Any, has_columns: bool = False) -> Shape:
    """The way to the values of a row, which holds for all rows of its type.

    Returns a kind, names and a function. "fields": the function gives a tuple of values for these
    names, or the row is such a tuple. "dict": the function gives a dict, or the row is one.
    "positions": the row is a tuple or a list of values without names.

    Raises TypeError for an object that is no row.
    """
    kind = type(row)
    fields = getattr(row, "_fields", None)
    if isinstance(fields, tuple) and isinstance(row, Sequence):
        if not isinstance(row, tuple):
            return "fields", fields, tuple
        return ("positions", (), None) if has_columns else ("fields", fields, None)
    if isinstance(row, (tuple, list)):
        return "positions", (), None
    if isinstance(row, dict):
        return "dict", (), None
    if isinstance(row, Mapping):
        return "dict", (), dict
    names = _field_names(kind)
    if names is not None:
        return ("dict", (), dict) if names == ["*"] else ("fields", names, _getter(names))
    names = getattr(getattr(row, "dtype", None), "names", None)
    if names:
        return "fields", names, operator.methodcaller("item")
    if hasattr(row, "keys") and hasattr(row, "__getitem__"):
        return "dict", (), lambda row: {key: row[key] for key in row.keys()}
    raise TypeError(
        f"a row of type {kind.__module__}.{kind.__qualname__}: rows are dicts, tuples, named "
        "tuples, dataclasses or models"
    )


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
        return json.dumps(shown, ensure_ascii=False, separators=(",", ":"))
    except Exception:
        return repr(row)


def _shown(value: Any) -> Any:
    if value is None or isinstance(value, (bool, int, str)):
        return value
    try:
        plain = adapt(value)
    except Exception:
        return repr(value)
    if isinstance(plain, bytes):
        return plain.hex()
    return repr(plain) if isinstance(plain, float) and not math.isfinite(plain) else plain
