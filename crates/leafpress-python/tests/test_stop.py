"""`Stop`: no piece of work is missed, whenever threads and signal handlers come in between."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import leafpress as lp


class Feed:
    """A feed, as far as `Stop` needs one."""

    def __init__(self) -> None:
        self.is_stopped = False

    def stop(self) -> None:
        self.is_stopped = True


def at_each_line(call: Callable[[], Any], interrupt: Callable[[], None]) -> int:
    """Makes the call, and interrupts it before each of its lines, as another thread may.

    Returns how often.
    """
    interrupts = 0

    def trace(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal interrupts
        if event == "line":
            interrupts += 1
            interrupt()
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(before)
    return interrupts


def test_work_that_begins_during_a_stop_is_stopped_too() -> None:
    stop = lp.Stop()
    feeds = [Feed() for _ in range(3)]
    for feed in feeds:
        stop._watch(feed)

    def begin() -> None:
        feeds.append(Feed())
        stop._watch(feeds[-1])

    assert at_each_line(stop.now, begin) > 3
    assert stop.is_asked and all(feed.is_stopped for feed in feeds)


def test_a_stop_while_work_begins_stops_it() -> None:
    for line in range(20):
        stop, feed, left = lp.Stop(), Feed(), line

        def now() -> None:
            nonlocal left
            if left == 0:
                stop.now()
            left -= 1

        lines = at_each_line(lambda: stop._watch(feed), now)
        assert feed.is_stopped == (line < lines)
    assert lines < 20


def test_work_that_begins_while_other_work_begins_is_not_forgotten() -> None:
    stop = lp.Stop()
    feeds = [Feed()]

    def begin() -> None:
        feeds.append(Feed())
        stop._watch(feeds[-1])

    assert at_each_line(lambda: stop._watch(feeds[0]), begin) > 1
    stop.now()
    assert all(feed.is_stopped for feed in feeds)


def test_work_that_has_ended_is_forgotten() -> None:
    stop = lp.Stop()
    for _ in range(100):
        stop._watch(Feed())
    gc.collect()
    stop._watch(Feed())
    assert len(stop._feeds) <= 1
