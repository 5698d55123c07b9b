"""Values that SQLite has no type for, as values that it has."""

from __future__ import annotations

from typing import Any

from ._errors import unfit


def adapt(value: Any) -> None | int | float | str | bytes:
    """A value of SQLite for an object of another type.

    Raises DataError for an object of a type that has no such value.
    """
    raise unfit(f"SQLite has no value for {value!r} of type {type(value).__qualname__}")
