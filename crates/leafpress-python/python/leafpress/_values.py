"""Objects that SQLite has no type for, as values that it has.

Rows of Python objects and data frames agree: the same moment, number or nested value is stored as
the same value, whichever way it comes.

| object | value |
|---|---|
| bool | integer, 1 or 0 |
| datetime, pandas Timestamp, numpy datetime64 | text `2026-11-21 05:30:00.250`; with a time zone the instant in UTC, with `+00:00` |
| date | text `2026-11-21` |
| time | text `05:30:00.250` |
| timedelta, pandas Timedelta, numpy timedelta64 | integer, microseconds |
| Decimal | with a fraction text, every digit; else an integer, or text if it is beyond 64 bits |
| UUID | text |
| Enum | its value |
| bytearray, memoryview and all that has a buffer | bytes |
| dict, list, tuple, set, array, dataclass, attrs, pydantic | text, JSON |
| pandas NA and NaT, masked values of numpy, Decimal("NaN") | NULL |

In JSON, bytes are hexadecimal digits, a Decimal is a number with all its digits, NaN is null and
an infinity 9e999.
"""

from __future__ import annotations

import dataclasses
import math
import reprlib
import sqlite3
import sys
from collections import deque
from collections.abc import Callable, Mapping, Set
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum
from json.encoder import encode_basestring
from typing import Any
from uuid import UUID

from ._errors import unfit

_INTEGER_MIN, _INTEGER_MAX = -(2**63), 2**63 - 1
_INTEGER_DIGITS_MAX = len(str(_INTEGER_MIN))
# A Decimal of a few bytes can stand for a gigabyte of zeros.
_DECIMAL_DIGITS_MAX = 10_000


def adapt(value: Any) -> None | int | float | str | bytes:
    """The value of SQLite for an object of any type.

    For types that are not Python's own, an adapter that is registered by `sqlite3.register_adapter`, or a
    method `__conform__`, comes first. Other libraries register adapters for Python's own, such as pandas for
    time and Django for Decimal, which change the value.

    Raises DataError for an integer beyond 64 bits and for an object of a type that has no such
    value; the message names both.
    """
    write = _OWN.get(type(value))
    if write is not None:
        return write(value)
    if value is None or _is_missing(value):
        return None
    conformed = sqlite3.adapt(value, sqlite3.PrepareProtocol, value)
    if conformed is not value:
        return adapt(conformed)
    value = _unwrapped(value)
    if value is None or _is_missing(value):
        return None
    for known, write in _KINDS:
        if isinstance(value, known):
            written: None | int | float | str | bytes = write(value)
            return written
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, numpy.generic):
        return _numpy_scalar(value, numpy)
    if _structure(value) is not None:
        return to_json(value)
    try:
        return memoryview(value).tobytes()
    except TypeError:
        raise unfit(f"SQLite has no value for {_shown(value)}") from None


def is_large(value: Any, adapted: Any) -> bool:
    """True for a number of more than 64 bits, which `adapt` has made a text of digits."""
    if isinstance(value, str) or not isinstance(adapted, str):
        return False
    digits = adapted.removeprefix("-").lstrip("0")
    if not (digits.isascii() and digits.isdecimal()):
        return False
    if len(digits) > _INTEGER_DIGITS_MAX:
        return True
    return int(digits) > (-_INTEGER_MIN if adapted.startswith("-") else _INTEGER_MAX)


def to_json(value: Any) -> str:
    """An object as JSON, its parts as in this file's table.

    Raises DataError for an object that has a part of an unknown type, or that is nested too deep.
    """
    parts: list[str] = []
    try:
        _write_json(value, parts)
    except RecursionError:
        raise unfit(
            f"an object of type {type(value).__qualname__} is nested too deep for JSON, "
            "or holds itself"
        ) from None
    return "".join(parts)


def _is_missing(value: Any) -> bool:
    pandas, masks = sys.modules.get("pandas"), sys.modules.get("numpy.ma")
    return (
        pandas is not None
        and (value is getattr(pandas, "NaT", _UNSEEN) or value is getattr(pandas, "NA", _UNSEEN))
    ) or (masks is not None and value is getattr(masks, "masked", _UNSEEN))


_UNSEEN = object()


def _unwrapped(value: Any) -> Any:
    """The object in an Enum, a pydantic model, or an array without dimensions."""
    if isinstance(value, Enum):
        return _unwrapped(value.value)
    if hasattr(type(value), "model_fields") and hasattr(value, "model_dump"):
        return value.model_dump()
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        if isinstance(value, numpy.ndarray) and value.ndim == 0:
            return value[()]
        if isinstance(value, numpy.bool_):
            return bool(value)
    return value


def _integer(value: int) -> int:
    exact = int.__int__(value)
    if not _INTEGER_MIN <= exact <= _INTEGER_MAX:
        shown = str(exact) if exact.bit_length() <= 256 else f"of {exact.bit_length()} bits"
        raise unfit(f"the integer {shown} does not fit in the 64 bits of SQLite")
    return exact


def _moment(value: datetime) -> str:
    zone = ""
    if value.utcoffset() is not None:
        try:
            value = value.astimezone(timezone.utc)
        except (OverflowError, ValueError):
            raise unfit(f"the time {_shown(value)} has no equal in UTC") from None
        zone = "+00:00"
    year = f"{value.year:04}" if 0 <= value.year <= 9999 else f"{value.year:+05}"
    nanoseconds = value.microsecond * 1_000 + getattr(value, "nanosecond", 0)
    return (
        f"{year}-{value.month:02}-{value.day:02} {_clock(value)}"
        f"{_fraction(f'{nanoseconds:09}')}{zone}"
    )


def _time(value: time) -> str:
    offset = value.isoformat()[len(value.replace(tzinfo=None).isoformat()) :]
    return _clock(value) + _fraction(f"{value.microsecond:06}") + offset


def _clock(value: datetime | time) -> str:
    return f"{value.hour:02}:{value.minute:02}:{value.second:02}"


def _fraction(digits: str) -> str:
    """A fraction of a second in as few groups of three digits as it needs."""
    while digits.endswith("000"):
        digits = digits[:-3]
    return f".{digits}" if digits else ""


def _duration(value: timedelta) -> int:
    seconds = value.days * 86_400 + value.seconds
    # Only a Timedelta of pandas has nanoseconds.
    nanoseconds = value.microseconds * 1_000 + getattr(value, "nanoseconds", 0)
    return _microseconds(seconds * 1_000_000_000 + nanoseconds, value)


def _microseconds(nanoseconds: int, value: Any) -> int:
    microseconds, rest = divmod(nanoseconds, 1_000)
    if rest:
        raise unfit(
            f"the duration {_shown(value)} has a part below a microsecond: "
            "give its nanoseconds as an integer, which are the `value` of a Timedelta"
        )
    return _integer(microseconds)


_NANOSECONDS = {
    "ns": 1, "us": 1_000, "ms": 1_000_000, "s": 1_000_000_000, "m": 60_000_000_000,
    "h": 3_600_000_000_000, "D": 86_400_000_000_000, "W": 604_800_000_000_000,
}


def _decimal(value: Decimal) -> None | int | float | str:
    if value.is_nan():
        return None
    if value.is_infinite():
        return float(value)
    digits = _digits(value)
    if "." in digits:
        return digits
    # Python refuses to read more than 4,300 digits.
    if len(digits) > _INTEGER_DIGITS_MAX:
        return digits
    integer = int(digits)
    return integer if _INTEGER_MIN <= integer <= _INTEGER_MAX else digits


def _digits(value: Decimal) -> str:
    exponent = value.as_tuple().exponent
    if isinstance(exponent, int) and abs(exponent) > _DECIMAL_DIGITS_MAX:
        raise unfit(f"{_shown(value)} has more than {_DECIMAL_DIGITS_MAX} digits")
    return format(value if value else value.copy_abs(), "f")


def _numpy_scalar(value: Any, numpy: Any) -> None | int | float | str:
    if isinstance(value, numpy.integer) and not isinstance(value, numpy.timedelta64):
        return _integer(int(value))
    if isinstance(value, numpy.floating):
        real = float(value)
        # A longdouble has more digits; NaN is equal to nothing.
        if value == value and type(value)(real) != value:
            raise unfit(f"{_shown(value)} has more digits than the reals of SQLite")
        return real
    if isinstance(value, (numpy.datetime64, numpy.timedelta64)):
        if numpy.isnat(value):
            return None
        unit, step = numpy.datetime_data(value.dtype)
        if isinstance(value, numpy.datetime64):
            return _numpy_moment(value, unit)
        if unit in _NANOSECONDS:
            return _microseconds(int(value.astype("int64")) * step * _NANOSECONDS[unit], value)
    raise unfit(f"SQLite has no value for {_shown(value)}")


def _numpy_moment(value: Any, unit: str) -> str:
    if unit in ("Y", "M", "W", "D"):
        day, clock = str(value.astype("datetime64[D]")), ""
    else:
        text = str(value.astype("datetime64[s]") if unit in ("h", "m") else value)
        day, _, clock = text.partition("T")
        clock, _, fraction = clock.partition(".")
        # Units of numpy have 3, 6, 9, … digits.
        clock = f" {clock}{_fraction(fraction)}"
    sign = "+" if day[0] != "-" and len(day.split("-")[0]) > 4 else ""
    return f"{sign}{day}{clock}"


def _structure(value: Any) -> Mapping[Any, Any] | list[Any] | None:
    """The parts of a nested object; None if it is not nested."""
    if isinstance(value, Mapping):
        return value
    if isinstance(value, (list, tuple, deque)):
        return list(value)
    if isinstance(value, Set):
        # A set has no order, and equal sets are to be stored as equal texts.
        return [_Json(text) for text in sorted(to_json(part) for part in value)]
    if isinstance(value, type):
        return None
    if dataclasses.is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    attributes = getattr(type(value), "__attrs_attrs__", None)
    if attributes is not None:
        return {attribute.name: getattr(value, attribute.name) for attribute in attributes}
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, numpy.ndarray) and value.ndim:
        return list(value)
    return None


@dataclasses.dataclass(frozen=True)
class _Json:
    """A text that is JSON already."""

    text: str


def _write_json(value: Any, parts: list[str]) -> None:
    value = _unwrapped(value)
    if isinstance(value, _Json):
        parts.append(value.text)
        return
    if value is None or isinstance(value, (str, bool, int, float, Decimal)):
        parts.append(_json_scalar(value))
        return
    structure = _structure(value)
    if structure is None:
        parts.append(_json_scalar(adapt(value)))
    elif isinstance(structure, Mapping):
        before = "{"
        for key, part in structure.items():
            parts.append(before)
            parts.append(_json_key(key))
            _write_json(part, parts)
            before = ","
        parts.append("{}" if before == "{" else "}")
    else:
        before = "["
        for part in structure:
            parts.append(before)
            _write_json(part, parts)
            before = ","
        parts.append("[]" if before == "[" else "]")


def _json_key(key: Any) -> str:
    """Keys of JSON are text: any other becomes the text of its JSON."""
    text = encode_basestring(key) if type(key) is str else to_json(key)
    return f"{text}:" if text.startswith('"') else f"{encode_basestring(text)}:"


def _json_scalar(value: None | bool | int | float | str | bytes | Decimal) -> str:
    if value is None:
        return "null"
    if isinstance(value, str):
        return encode_basestring(value)
    if isinstance(value, bytes):
        return f'"{value.hex()}"'
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        try:
            return int.__repr__(value)
        except ValueError as error:
            raise unfit(f"an integer of {value.bit_length()} bits: {error}") from None
    if isinstance(value, Decimal):
        number = _decimal(value)
        return number if isinstance(number, str) else _json_scalar(number)
    if math.isnan(value):
        return "null"
    if math.isinf(value):
        return "9e999" if value > 0 else "-9e999"
    return float.__repr__(value)


def _shown(value: Any) -> str:
    """An object and its type, for a message."""
    try:
        shown = reprlib.repr(value)
    except Exception:  # A repr of the caller's must not hide what is wrong.
        shown = "an object"
    return f"{shown} of type {type(value).__qualname__}"


# In this order: an Enum of integers is no integer, and each datetime is a date.
_KINDS: tuple[tuple[Any, Callable[[Any], int | float | str | bytes | None]], ...] = (
    (str, str.__str__),
    (int, _integer),
    (float, float.__float__),
    (datetime, _moment),
    (date, date.isoformat),
    (time, _time),
    (timedelta, _duration),
    (Decimal, _decimal),
    (UUID, str),
    ((bytes, bytearray), lambda value: memoryview(value).tobytes()),
    (memoryview, memoryview.tobytes),
)

# Of these types exactly: subclasses are others' types.
_OWN: dict[type, Callable[[Any], int | float | str | bytes | None]] = {
    datetime: _moment,
    date: date.isoformat,
    time: _time,
    timedelta: _duration,
    Decimal: _decimal,
    UUID: str,
    memoryview: memoryview.tobytes,
    **dict.fromkeys((dict, list, tuple, set, frozenset), to_json),
}
