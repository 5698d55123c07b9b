"""Work on a queue: loops, handlers, and what becomes of jobs when work ends in any way."""

from __future__ import annotations

import asyncio
import collections
import contextlib
import functools
import gc
import logging
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from working import pushed, states, wait_until

import leafpress as lp


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "app.db"


# Loops of a thread.


def test_a_loop_acks_each_job_when_it_asks_for_the_next(path: Path) -> None:
    pushed(path, 5)
    with lp.Writer(path) as writer:
        queue = lp.Queue(writer, "mail")
        work = queue.work(until_empty=True, worker="w")
        seen = []
        for job in work:
            seen.append(job.payload)
            assert queue.job(job.id)["worker"] == "w"
        assert seen == list(range(5))
        assert work.report is not None
        assert (work.report.claimed, work.report.done) == (5, 5)
        assert list(work) == [], "it has ended"
        assert states(path) == {}


@pytest.mark.parametrize("in_threads", [False, True])
def test_work_for_no_job_ends_at_once(in_threads: bool, path: Path) -> None:
    pushed(path, 2)
    seen: list[Any] = []

    def work() -> None:
        with lp.Queue(path, "mail") as queue:
            if in_threads:
                queue.work(lambda job: seen.append(job.payload), jobs_max=0)
            else:
                seen.extend(queue.work(jobs_max=0))

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(20)
    assert not thread.is_alive() and seen == []
    assert states(path) == {"ready": 2}


def test_a_loop_waits_for_jobs_and_ends_after_enough(path: Path) -> None:
    with lp.Writer(path) as writer:
        queue = lp.Queue(writer, "mail")
        timer = threading.Timer(0.2, lambda: queue.push_many(range(5)))
        timer.start()
        assert [job.payload for job in queue.work(jobs_max=3, concurrency=2)] == [0, 1, 2]
        timer.join()
        assert states(path) == {"ready": 2}


@pytest.mark.parametrize("concurrency", [1, 4])
def test_a_loop_that_is_left_gives_back_what_was_not_begun(path: Path, concurrency: int) -> None:
    pushed(path, 8)
    with lp.Writer(path) as writer:
        queue = lp.Queue(writer, "mail", backoff_first=1000)
        for job in queue.work(concurrency=concurrency):
            if job.payload == 2:
                break
    assert states(path) == {"delayed": 1, "ready": 5}
    with lp.Queue(path, "mail") as queue:
        assert queue.job(job.id)["error"] == "the loop over jobs was left before this one was done"
        assert queue.list("ready")[0]["attempts"] == 0, "a job that was given back had no attempt"


def test_a_job_that_is_acked_before_the_break_stays_done(path: Path) -> None:
    pushed(path, 3)
    with lp.Writer(path) as writer:
        for job in lp.Queue(writer, "mail").work():
            job.ack()
            break
    assert states(path) == {"ready": 2}


def test_a_body_that_raises_has_its_job_tried_again(path: Path) -> None:
    pushed(path, 2)
    with lp.Writer(path) as writer:
        queue = lp.Queue(writer, "mail", backoff_first=1000)
        with pytest.raises(ZeroDivisionError):
            for _ in queue.work():
                _ = 1 // 0
        gc.collect()
        wait_until(lambda: states(path) == {"delayed": 1, "ready": 1})
        with pytest.raises(ZeroDivisionError):
            for job in queue.work():
                with job:
                    _ = 1 // 0
        assert queue.job(2)["error"].startswith("ZeroDivisionError: ")
        with pytest.raises(KeyError), queue.work() as work:
            queue.push("x")
            for job in work:
                raise KeyError("k")
        assert queue.job(3)["error"] == "KeyError: 'k'"
        assert work.report is not None and work.report.retried == 1


def test_a_with_block_around_a_loop_has_all_on_disk_at_its_end(path: Path) -> None:
    pushed(path, 5)
    with lp.Writer(path) as writer:
        queue = lp.Queue(writer, "mail", backoff_first=1000)
        with queue.work(concurrency=5) as work:
            for job in work:
                if job.payload == 1:
                    break
        assert states(path) == {"delayed": 1, "ready": 3}
        assert work.report == lp.WorkReport(
            claimed=5, done=1, retried=1, dead=0, released=3, lease_lost=0,
            elapsed_s=work.report.elapsed_s,
        )


def test_a_lease_is_extended_while_a_body_runs(path: Path) -> None:
    pushed(path, 3)
    with lp.Writer(path) as writer:
        queue = lp.Queue(writer, "mail")
        seen = []
        for job in queue.work(lease=2, concurrency=3, until_empty=True):
            time.sleep(2.5)
            assert not job.lease_is_lost and queue.claim() == []
            seen.append(job.attempt)
        assert seen == [1, 1, 1]


def test_a_lease_is_extended_while_python_is_busy(path: Path) -> None:
    """Regular expressions keep the interpreter; the native thread does not need it."""
    import re

    pushed(path, 1)
    with lp.Writer(path) as writer:
        queue = lp.Queue(writer, "mail")
        for job in queue.work(lease=0.4, until_empty=True):
            began = time.monotonic()
            length = 18
            while time.monotonic() - began < 1.0:
                re.match(r"(a|aa)+$", "a" * length + "b")
                length += 1
            assert not job.lease_is_lost
    assert states(path) == {}


@pytest.mark.parametrize("result", [None, "kept"])
def test_a_busy_database_is_asked_with_pauses(path: Path, result: str | None) -> None:
    """Jobs that are done wait for the lock of another program, which costs next to no processor."""
    pushed(path, 1)
    with lp.Writer(path, busy_timeout=0) as writer:
        queue = lp.Queue(writer, "mail")
        with queue.work(lease=60) as work, contextlib.closing(sqlite3.connect(path)) as other:
            job = next(work)
            other.execute("BEGIN IMMEDIATE")
            work._feed.done(job.token, result)
            began = time.process_time()
            time.sleep(1)
            used = time.process_time() - began
            other.rollback()
            wait_until(lambda: states(path) == {})
    assert used < 0.3


def test_a_lost_lease_is_counted_and_told(path: Path) -> None:
    pushed(path, 1)
    with lp.Writer(path) as writer:
        queue = lp.Queue(writer, "mail")
        work = queue.work(lease=0.3, until_empty=True)
        for job in work:
            queue.remove(job.id)
            wait_until(lambda: job.lease_is_lost)
        assert work.report is not None
        assert (work.report.claimed, work.report.done, work.report.lease_lost) == (1, 0, 1)


def test_a_job_that_is_acked_beside_an_extension_is_counted(path: Path) -> None:
    pushed(path, 1)
    with lp.Writer(path) as writer:
        queue = lp.Queue(writer, "mail")
        work = queue.work(lease=0.3, until_empty=True)
        for job in work:
            # The extension is between the commit of the ack and its answer.
            queue._native.ack(None, job.token, None)
            wait_until(lambda: job.lease_is_lost)
            job._settle("done")
        assert work.report is not None
        assert (work.report.claimed, work.report.done, work.report.lease_lost) == (1, 1, 0)


def test_a_queue_that_is_dropped_ends_work_with_an_error(path: Path) -> None:
    pushed(path, 3)
    with lp.Writer(path) as writer:
        queue = lp.Queue(writer, "mail")
        with pytest.raises(lp.Error, match="queue"):
            for job in queue.work():
                if job.payload == 1:
                    queue.drop()
        with pytest.raises(lp.Error, match="queue"):
            queue.work(lambda job: None)


def test_a_writer_that_closes_ends_work_and_gives_back_what_was_not_begun(path: Path) -> None:
    pushed(path, 6)
    writer = lp.Writer(path)
    work = lp.Queue(writer, "mail").work(concurrency=6)
    job = next(work)
    writer.close()
    assert states(path) == {"leased": 1, "ready": 5}
    with pytest.raises(lp.Error, match="closed"):
        job.ack()
    with pytest.raises(lp.ProgrammingError, match="before a job of this work was settled") as told:
        next(work)
    assert told.value.on_disk == "the job is not settled: it comes again when its lease ends"
    assert list(work) == [], "no more jobs"

    waiting = lp.Writer(path)
    queue = lp.Queue(waiting, "other")
    closing = threading.Timer(0.3, waiting.close)
    closing.start()
    assert list(queue.work()) == []
    closing.join()


# Handlers in threads.


@pytest.mark.parametrize("concurrency", [1, 4])
def test_handlers_ack_on_return_and_retry_on_exception(
    path: Path, concurrency: int, caplog: pytest.LogCaptureFixture
) -> None:
    pushed(path, 20, keep_done=60, backoff_first=1000)
    threads = set()

    def handle(job: lp.Job) -> Any:
        threads.add(threading.get_ident())
        if job.payload == 3:
            raise ValueError("three")
        if job.payload == 4:
            return {"four": 4}
        if job.payload == 5:
            job.fail("five")
        elif job.payload == 6:
            job.nack(delay=500)
        elif job.payload == 7:
            return object()
        return None

    with lp.Writer(path) as writer, caplog.at_level(logging.WARNING, "leafpress"):
        queue = lp.Queue(writer, "mail")
        report = queue.work(handle, concurrency=concurrency, until_empty=True)
        assert (report.claimed, report.done, report.retried, report.dead) == (20, 17, 2, 1)
        assert (report.released, report.lease_lost) == (0, 0) and report.elapsed_s > 0
        assert queue.job(4)["error"] == "ValueError: three"
        assert queue.job(5)["result"] == {"four": 4}
        assert (queue.job(8)["state"], queue.job(8)["result"]) == ("done", None), "no JSON"
    assert states(path) == {"done": 17, "delayed": 2, "dead": 1}
    assert [record.levelname for record in caplog.records] in (
        ["WARNING", "ERROR"],
        ["ERROR", "WARNING"],
    )
    assert "job 8 is done, but its result cannot be kept" in caplog.text
    assert (threads == {threading.get_ident()}) is (concurrency == 1)


def test_half_a_surrogate_pair_in_an_exception_ends_no_work(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Processes of pytest cannot send a record of it to one another.
    monkeypatch.setattr(logging.getLogger("leafpress"), "disabled", True)
    pushed(path, 3, backoff_first=1000)

    def handle(job: lp.Job) -> None:
        if job.payload == 0:
            raise ValueError("no x\udce9.csv")

    with lp.Queue(path, "mail") as queue:
        report = queue.work(handle, until_empty=True)
        assert (report.done, report.retried) == (2, 1)
        assert queue.job(1)["error"] == r"ValueError: no x\udce9.csv"


class Unspeakable(Exception):
    """An exception of a library whose text cannot be made."""

    def __str__(self) -> str:
        raise KeyError("template")


@pytest.mark.parametrize("has_handler", [True, False])
def test_an_exception_without_a_text_ends_no_work(
    has_handler: bool, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Processes of pytest cannot send a record of it to one another.
    monkeypatch.setattr(logging.getLogger("leafpress"), "disabled", True)
    pushed(path, 3, backoff_first=1000)

    def handle(job: lp.Job) -> None:
        if job.payload == 0:
            raise Unspeakable

    with lp.Queue(path, "mail") as queue:
        if has_handler:
            report = queue.work(handle, until_empty=True)
            assert (report.done, report.retried) == (2, 1)
        else:
            with pytest.raises(Unspeakable), queue.work(until_empty=True) as work:
                for job in work:
                    handle(job)
        assert queue.job(1)["error"] == "Unspeakable: (its text cannot be made: KeyError)"


def test_a_result_that_is_no_utf8_fails_no_job(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Processes of pytest cannot send a record of it to one another.
    monkeypatch.setattr(logging.getLogger("leafpress"), "disabled", True)
    pushed(path, 2, keep_done=1000)
    with lp.Queue(path, "mail") as queue:
        report = queue.work(lambda job: "x\udce9.csv" if job.payload == 0 else "y", until_empty=True)
        assert (report.done, report.retried) == (2, 0)
        assert [queue.job(id)["result"] for id in (1, 2)] == [None, "y"]


def test_a_long_job_keeps_no_others_from_other_consumers(path: Path) -> None:
    pushed(path, 500)
    with lp.Queue(path, "mail") as queue, lp.Queue(path, "mail") as other:
        queue.push_many(["long"] + ["after"] * 200)
        runs, goes_on = threading.Event(), threading.Event()
        reports = []

        def handle(job: lp.Job) -> None:
            if job.payload == "long":
                runs.set()
                assert goes_on.wait(20)

        def work() -> None:
            reports.append(queue.work(handle, until_empty=True))

        worker = threading.Thread(target=work)
        worker.start()
        assert runs.wait(20)
        wait_until(lambda: bool(other.stats()["jobs"]["leased"] == 1))
        assert other.work(lambda _: None, until_empty=True).done == 200
        goes_on.set()
        worker.join(20)
        [report] = reports
        assert (report.claimed, report.done, report.released) == (501, 501, 0)


@pytest.mark.parametrize("concurrency", [2, 6, 16])
def test_jobs_that_a_handler_pushes_run_beside_a_long_one(path: Path, concurrency: int) -> None:
    with lp.Queue(path, "mail") as queue:
        queue.push_many(["long", "parent"])
        children, are_done = [], threading.Event()

        def handle(job: lp.Job) -> None:
            if job.payload == "long":
                assert are_done.wait(20)
            elif job.payload == "parent":
                queue.push_many(["child"] * 4)
            else:
                children.append(job.id)
                if len(children) == 4:
                    are_done.set()

        report = queue.work(handle, concurrency=concurrency, until_empty=True)
        assert (report.claimed, report.done) == (6, 6)


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    ("reason", "end"),
    [("interrupt", {"until_empty": True}), ("interrupt", {"jobs_max": 4}), ("limit", {"until_empty": True})],
)
def test_a_call_of_the_work_that_is_stopped_is_made_again(
    reason: str, end: dict[str, Any], path: Path
) -> None:
    pushed(path, 4)
    with contextlib.closing(sqlite3.connect(path)) as database:
        # So an ack takes long.
        database.executescript("""
            CREATE TABLE many(a);
            INSERT INTO many WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2000)
                SELECT i FROM n;
            CREATE TRIGGER slow AFTER DELETE ON leafpress_job BEGIN
                SELECT count(*) FROM many AS a, many AS b WHERE a.a + b.a = 0;
            END;
        """)
    stops, is_over = 0, threading.Event()

    def stop() -> None:
        nonlocal stops
        while stops < 5 and not is_over.wait(0.001):
            stops += writer.interrupt()

    seen = []
    with lp.Writer(path, call_limit=0.05 if reason == "limit" else None) as writer:
        change = threading.Thread(target=stop)
        if reason == "limit":
            change = threading.Timer(1, writer.execute, ["DELETE FROM many"], {"call_limit": 20})
        queue = lp.Queue(writer, "mail", must_exist=True)
        change.start()
        try:
            report = queue.work(lambda job: seen.append(job.payload), lease=60, **end)
        finally:
            is_over.set()
            change.join()
    assert sorted(seen) == [0, 1, 2, 3] and (report.claimed, report.done) == (4, 4)
    assert reason == "limit" or stops > 0
    assert states(path) == {}


@pytest.mark.timeout(60)
def test_a_close_of_a_writer_with_work_keeps_its_time(path: Path) -> None:
    pushed(path, 8)
    writer = lp.Writer(path, busy_timeout=600)
    queue = lp.Queue(writer, "mail")
    works = [iter(queue.work(concurrency=4)) for _ in range(2)]
    for work in works:
        next(work)
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        began = time.monotonic()
        with pytest.raises(lp.TimedOut, match="longer than the 2s"):
            writer.close(2)
        # The calls that are stopped have another second.
        assert time.monotonic() - began < 5


def test_retries_run_until_a_job_is_dead(path: Path) -> None:
    pushed(path, 1, backoff_first=0.01, backoff_max=0.01, attempts_max=3)
    attempts = []

    def handle(job: lp.Job) -> None:
        attempts.append(job.attempt)
        raise RuntimeError("always")

    with lp.Queue(path, "mail") as queue:
        report = queue.work(handle, jobs_max=3)
    assert attempts == [1, 2, 3] and (report.retried, report.dead) == (2, 1)
    assert states(path) == {"dead": 1}


def test_a_stop_ends_work_from_another_thread(path: Path) -> None:
    pushed(path, 10)
    stop = lp.Stop()

    def handle(job: lp.Job) -> None:
        if job.payload == 2:
            stop.now()

    with lp.Queue(path, "mail") as queue:
        report = queue.work(handle, stop=stop)
        assert report.done >= 3 and stop.is_asked
        assert states(path) == {"ready": 10 - report.done}
        assert queue.work(handle, stop=stop).claimed == 0, "asked before"
        later = lp.Stop()
        threading.Timer(0.2, later.now).start()
        for job in queue.work(stop=later):
            pass
        assert states(path) == {}


@pytest.mark.skipif(sys.platform == "win32", reason="SIGTERM ends a process there")
def test_a_worker_ends_well_at_sigterm_with_a_stop(path: Path) -> None:
    pushed(path, 3)
    code = """
import signal, sys
import leafpress as lp
stop = lp.Stop()
signal.signal(signal.SIGTERM, lambda *_: stop.now())
def handle(job):
    print("begun", flush=True)
    sys.stdin.readline()
with lp.Queue(sys.argv[1], "mail") as queue:
    report = queue.work(handle, stop=stop)
print("done", report.done)
"""
    process = subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE,
                               stdin=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "begun\n"
    process.send_signal(signal.SIGTERM)
    rest, _ = process.communicate("\n", 20)
    assert rest == "done 1\n" and process.returncode == 0, rest
    with lp.Queue(path, "mail") as queue:
        assert states(path) == {"ready": 2}
        assert [job["attempts"] for job in queue.list()] == [0, 0]


def test_a_base_exception_ends_work_and_gives_its_job_back(path: Path) -> None:
    pushed(path, 10)

    def handle(job: lp.Job) -> None:
        if job.payload == 2:
            raise SystemExit(3)

    for concurrency in (1, 3):
        with lp.Queue(path, "mail") as queue, pytest.raises(SystemExit):
            queue.work(handle, concurrency=concurrency)
        with lp.Queue(path, "mail") as queue:
            assert queue.job(3)["state"] == "ready" and queue.job(3)["attempts"] == 0
            assert "leased" not in states(path)


def test_no_job_is_lost_or_done_twice_by_eight_threads(path: Path) -> None:
    count = 5_000
    pushed(path, count)
    done: collections.Counter[int] = collections.Counter()
    lock = threading.Lock()

    def handle(job: lp.Job) -> None:
        with lock:
            done[job.payload] += 1

    with lp.Queue(path, "mail") as queue:
        report = queue.work(handle, concurrency=8, until_empty=True)
        assert queue.stats()["totals"]["acked"] == count
    assert report.done == count and len(done) == count and set(done.values()) == {1}
    assert states(path) == {}


# Work that is refused.


def test_work_inside_of_a_transaction_is_refused(path: Path) -> None:
    pushed(path, 2)
    with lp.Writer(path) as writer:
        queue = lp.Queue(writer, "mail")
        work = queue.work(until_empty=True)
        with writer.transaction():
            calls = [lambda: next(work), work.close, queue.work, lambda: queue.work(print)]
            for call in calls:
                with pytest.raises(lp.ProgrammingError, match="for ever"):
                    call()
        assert len([*work]) == 2

    async def main() -> None:
        async with lp.AsyncWriter(path) as writer:
            queue = lp.Queue(writer, "mail")
            work = queue.work(until_empty=True)
            async with writer.transaction():
                for wait in (work.__anext__(), queue.work(print)):
                    with pytest.raises(lp.ProgrammingError, match="for ever"):
                        await wait
            assert [job async for job in work] == []

    asyncio.run(main())


@pytest.mark.parametrize("of", [lp.Writer, lp.AsyncWriter])
def test_a_handler_is_looked_at_before_a_job_is_claimed(of: Any, path: Path) -> None:
    pushed(path, 1)

    async def of_tasks(job: Any) -> None: ...

    def generator(job: Any) -> Any:
        yield job

    async def async_generator(job: Any) -> Any:
        yield job

    class Object:
        def __call__(self, job: Any) -> Any:
            yield job

    wrong = ["handle", lambda: None, lambda job, more: None, lambda *, job: None]
    wrong += [generator, async_generator, functools.partial(generator), Object()]
    wrong += [of_tasks] if of is lp.Writer else []
    queue = lp.Queue(of(path), "mail")
    for handler in wrong:
        with pytest.raises(lp.ProgrammingError, match="handler"):
            queue.work(handler)
    if isinstance(queue, lp.SyncQueue):
        assert queue.work([].append, until_empty=True).done == 1
        queue._writer.close()


def test_a_generator_that_a_handler_returns_is_no_done_job(path: Path) -> None:
    """Its body never runs."""

    def generator(job: Any) -> Any:
        yield job

    async def async_generator(job: Any) -> Any:
        yield job

    pushed(path, 1)
    with lp.Queue(path, "mail", attempts_max=1) as queue:
        assert queue.work(lambda job: generator(job), until_empty=True).dead == 1
        [job] = queue.list("dead")
        assert "generator" in queue.history(job["id"])[0]["error"]
        queue.push_many([1, 2])

    async def main() -> None:
        async with lp.AsyncWriter(path) as writer:
            queue = lp.Queue(writer, "mail")
            for handler in (lambda job: generator(job), lambda job: async_generator(job)):
                assert (await queue.work(handler, jobs_max=1)).dead == 1

    asyncio.run(main())
