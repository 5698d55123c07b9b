"""Arguments of public functions, checked against their annotations: one rule for all of them.

What the native module checks itself is left to it: SQL, the parts of a list, and the ranges of numbers.

Must never: refuse what an annotation allows, or begin to read an iterable.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache, wraps
from itertools import chain, cycle
from os import PathLike
from types import NoneType, UnionType
from typing import (
    Any,
    Literal,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

from ._errors import misuse, unfit
from ._values import _shown

_F = TypeVar("_F", bound=Callable[..., Any])
_K = TypeVar("_K", bound=type)

# What a value must be, and how a message says it.
_Part = tuple[Callable[[Any], bool], tuple[str, ...]]


def checked(function: _F) -> _F:
    """The function, which first raises `ProgrammingError` or `DataError` for an argument that its
    annotation does not allow."""
    rules: _Rules | None = None

    def check(given: tuple[Any, ...], named: dict[str, Any]) -> None:
        nonlocal rules
        if rules is None:
            # Only now: at the definition some names in annotations are still to come.
            rules = _Rules(function)
        rules.check(given, named)

    if inspect.iscoroutinefunction(function):

        @wraps(function)
        async def call_async(*given: Any, **named: Any) -> Any:
            check(given, named)
            return await function(*given, **named)

        return cast(_F, call_async)

    @wraps(function)
    def call(*given: Any, **named: Any) -> Any:
        check(given, named)
        return function(*given, **named)

    return cast(_F, call)


def checked_methods(*but: str) -> Callable[[_K], _K]:
    """Has the public methods of a class, and its `__init__`, `checked`, all but these: what is called most
    often, or needs its caller's frame, has its arguments checked by the native module alone; and an
    `__init__` that only this package calls needs no check."""

    def check_all(kind: _K) -> _K:
        for name, method in list(vars(kind).items()):
            is_public = name == "__init__" or not name.startswith("_")
            if inspect.isfunction(method) and is_public and name not in but:
                setattr(kind, name, checked(method))
        return kind

    return check_all


def checked_options(call: str, kind: type, options: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a call that are given, where None stands for the default, as the fields of a
    TypedDict allow them.

    Raises `ProgrammingError` or `DataError` for one that it does not have, or does not allow.
    """
    rules = _rules_of(kind)
    unknown = options.keys() - rules.keys()
    if unknown:
        raise misuse(f"{call} has no option {min(unknown)!r}", f"it has {', '.join(rules)}")
    given = {name: value for name, value in options.items() if value is not None}
    for name, value in given.items():
        rules[name].check(name, value)
    return given


class _Rule:
    """What an annotation allows."""

    def __init__(self, annotation: Any) -> None:
        is_union = get_origin(annotation) in (Union, UnionType)
        parts = [_part(each) for each in (get_args(annotation) if is_union else [annotation])]
        self._tests = [test for test, _ in parts]
        words = [*dict.fromkeys(word for _, some in parts for word in some)]
        # Paths, and the texts of errors that name them, may have bytes that are no UTF-8.
        self._is_utf8 = _PATH not in words and "a BaseException" not in words
        if _PATH in words:
            words = [word for word in words if word not in ("a str", "bytes")]
        *first, last = words
        self._words = f"{', '.join(first)} or {last}" if first else last

    def check(self, name: str, value: Any) -> None:
        for test in self._tests:
            if test(value):
                break
        else:
            given = "None" if value is None else _shown(value)
            raise misuse(f"{name} is {self._words}, not {given}")
        if isinstance(value, str) and self._is_utf8:
            refuse_not_utf8(name, value)


class _Rules:
    """The rules of a function's arguments."""

    def __init__(self, function: Callable[..., Any]) -> None:
        hints = get_type_hints(function)
        self._rules: dict[str, _Rule] = {}
        self._places: list[str] = []
        # The name of `*others`.
        self._others: list[str] = []
        for name, parameter in inspect.signature(function).parameters.items():
            if parameter.kind is parameter.VAR_POSITIONAL:
                self._others.append(name)
            elif parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
                self._places.append(name)
            if name in hints and parameter.kind is not parameter.VAR_KEYWORD:
                self._rules[name] = _Rule(hints[name])

    def check(self, given: tuple[Any, ...], named: Mapping[str, Any]) -> None:
        names = chain(self._places, cycle(self._others))
        for name, value in chain(zip(names, given), named.items()):
            rule = self._rules.get(name)
            if rule is not None:
                rule.check(name, value)


@lru_cache(maxsize=None)
def _rules_of(kind: type) -> dict[str, _Rule]:
    return {name: _Rule(annotation) for name, annotation in get_type_hints(kind).items()}


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_iterable(value: Any) -> bool:
    return hasattr(value, "__iter__") or hasattr(value, "__getitem__")


def _are_texts_in_order(value: Any) -> bool:
    return not isinstance(value, (set, frozenset)) and _are_texts(value)


def _are_texts(value: Any) -> bool:
    """True for an iterable of texts, as far as it can be seen before it is read."""
    is_list = isinstance(value, (list, tuple))
    return all(isinstance(text, str) for text in value) if is_list else _is_iterable(value)


_PATH = "a path"
_PLAIN: dict[Any, _Part] = {
    NoneType: (lambda value: value is None, ("None",)),
    # That of numpy too, which is another type.
    bool: (lambda value: type(value).__name__ in ("bool", "bool_"), ("True", "False")),
    int: (lambda value: hasattr(value, "__index__"), ("an int",)),
    float: (lambda value: hasattr(value, "__float__") or hasattr(value, "__index__"), ("a number",)),
    str: (_is_text, ("a str",)),
    bytes: (lambda value: isinstance(value, bytes), ("bytes",)),
    PathLike: (lambda value: isinstance(value, PathLike), (_PATH,)),
    Mapping: (lambda value: isinstance(value, Mapping), ("a dict",)),
    Callable: (callable, ("a function",)),
}


def _part(annotation: Any) -> _Part:
    """The rule of an annotation that is no union."""
    kind = get_origin(annotation) or annotation
    if kind is Literal:
        # Words that it does not have are told where they are read.
        return _is_text, tuple(f'"{word}"' for word in get_args(annotation))
    # An array or an index of another library is no Sequence.
    if kind in (Iterable, Sequence):
        if get_args(annotation) != (str,):
            return _is_iterable, ("a list",)
        return (_are_texts_in_order if kind is Sequence else _are_texts), ("a list of str",)
    if is_typeddict(kind):
        kind = Mapping
    if kind in _PLAIN:
        return _PLAIN[kind]
    if not isinstance(kind, type) or kind in (Any, object) or getattr(kind, "_is_protocol", False):
        return lambda value: True, ("anything",)
    article = "an" if kind.__name__[0] in "AEIOUaeiou" else "a"
    return lambda value: isinstance(value, kind), (f"{article} {kind.__name__}",)


def refuse_not_utf8(name: str, text: str) -> None:
    """Refuses a text with half of a surrogate pair, which UTF-8 has no bytes for."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise unfit(f"{name} is no UTF-8: {error}") from None


def path_text(path: str | bytes | PathLike[str] | PathLike[bytes]) -> str:
    """A path as text. Raises DataError for half of a surrogate pair, which no name of a file has."""
    text = os.fsdecode(path)
    try:
        os.fsencode(text)
    except UnicodeEncodeError as error:
        raise unfit(f"path is no UTF-8: {error}") from None
    return text
