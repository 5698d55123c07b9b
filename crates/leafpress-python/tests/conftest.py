"""Fixtures of several files."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

# A shell that runs the tests in the background ignores the signal, and so would the processes that they start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def ctrl_c() -> Iterator[None]:
    """Python's handler of SIGINT, also where Spark has set one of its own."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
