"""Transactions of greenlets (gevent, eventlet), of which many share a thread.

A call that waits for a transaction of another greenlet of its thread keeps that one from its end, so it
is refused. The native module sees to calls of the same greenlet.

Must never: keep a transaction or a greenlet alive, or cost anything where there are no greenlets.
"""

from __future__ import annotations

import sys
import weakref
from typing import Any

from ._errors import misuse
from ._leafpress import NativeTransaction, NativeWriter

# Open transactions: the address of the writer, and the greenlet that has begun it.
_begun: dict[weakref.ref[NativeTransaction], tuple[int, weakref.ref[Any]]] = {}


def note_begun(writer: NativeWriter, transaction: NativeTransaction) -> None:
    """Notes the greenlet that has begun a transaction."""
    greenlet = sys.modules.get("greenlet")
    if greenlet is not None:
        begun_by = weakref.ref(greenlet.getcurrent())
        _begun[weakref.ref(transaction, _forget)] = (id(writer), begun_by)


def note_ended(transaction: NativeTransaction) -> None:
    """Forgets a transaction that has ended."""
    if _begun:
        _forget(weakref.ref(transaction))


def _forget(transaction: weakref.ref[NativeTransaction]) -> None:
    _begun.pop(transaction, None)


def is_held(writer: NativeWriter) -> bool:
    """True if another greenlet of this thread has a transaction of the writer open."""
    if not _begun:
        return False
    current = sys.modules["greenlet"].getcurrent()
    for reference, (address, begun_by) in list(_begun.items()):
        transaction, beginner = reference(), begun_by()
        if address != id(writer) or transaction is None or not transaction.is_open():
            continue
        if beginner is not None and beginner is not current and _main(beginner) is _main(current):
            return True
    return False


def _main(greenlet: Any) -> Any:
    """The greenlet that a thread began with."""
    while greenlet.parent is not None:
        greenlet = greenlet.parent
    return greenlet


def refuse_if_held(writer: NativeWriter) -> None:
    """Refuses a call that this thread would wait for, if `is_held`."""
    if _begun and is_held(writer):
        error = misuse(
            "this call would wait for the transaction of another greenlet of this thread, for ever",
            "do not yield in a transaction (no sleep, no network), or let one greenlet at a time have the "
            "writer, by a lock of gevent or eventlet",
        )
        error.on_disk = "nothing of this call; the transaction is open"
        raise error


def threads_are_greenlets() -> bool:
    """True if gevent or eventlet has put greenlets in the place of threads."""
    gevent, eventlet = sys.modules.get("gevent.monkey"), sys.modules.get("eventlet.patcher")
    return bool(
        (gevent is not None and gevent.is_module_patched("threading"))
        or (eventlet is not None and eventlet.is_monkey_patched("thread"))
    )
