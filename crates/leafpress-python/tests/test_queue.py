"""Verbs of the queue, for threads and for tasks; the oracle is the table, read by sqlite3."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import pickle
import sqlite3
import threading
import time
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import leafpress as lp


class Driver:
    """Calls the methods of either kind of queue in the same words."""

    def __init__(self, path: Path, is_async: bool) -> None:
        self.path = path
        self.loop = asyncio.new_event_loop() if is_async else None
        self.writer: Any = lp.AsyncWriter(path) if is_async else lp.Writer(path)
        self.queue = self.of("mail")

    def of(self, name: str, **settings: Any) -> Any:
        return Verbs(self, lp.Queue(self.writer, name, **settings))

    def run(self, value: Any) -> Any:
        if self.loop is not None and inspect.isawaitable(value):

            async def wait() -> Any:
                return await value

            return self.loop.run_until_complete(wait())
        return value

    def close(self) -> None:
        if self.loop is None:
            self.writer.close()
        else:
            self.loop.run_until_complete(self.writer.close())
            self.loop.close()


class Verbs:
    def __init__(self, driver: Driver, target: Any) -> None:
        self.driver = driver
        self.target = target

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.target, name)
        if not callable(found):
            return found

        def call(*arguments: Any, **options: Any) -> Any:
            value = self.in_loop(found, *arguments, **options)
            if isinstance(value, list):
                return [Verbs(self.driver, it) if is_job(it) else it for it in value]
            return value

        return call

    def in_loop(self, method: Any, *arguments: Any, **options: Any) -> Any:
        plain = [it.target if isinstance(it, Verbs) else it for it in arguments]
        plain = [[x.target if isinstance(x, Verbs) else x for x in it] if isinstance(it, list)
                 else it for it in plain]
        return self.driver.run(method(*plain, **options))


def is_job(value: Any) -> bool:
    return isinstance(value, (lp.Job, lp.AsyncJob))


@pytest.fixture(params=["threads", "tasks"])
def driver(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Driver]:
    made = Driver(tmp_path / "app.db", request.param == "tasks")
    yield made
    made.close()


@pytest.fixture
def queue(driver: Driver) -> Any:
    return driver.queue


def states(path: Path) -> dict[str, int]:
    """Numbers of jobs by their states, as the view of the database shows them."""
    with contextlib.closing(sqlite3.connect(path)) as database:
        sql = "SELECT state, count(*) FROM leafpress_jobs GROUP BY state"
        return dict(database.execute(sql).fetchall())


def claim_one(queue: Any, **options: Any) -> Any:
    [job] = queue.claim(**options)
    return job


PAYLOADS = [
    {"to": "ann", "n": [1, 2.5, None, True]},
    "text é",
    b"\x00\xff",
    b"",
    bytearray(b"ab"),
    7,
    None,
    [],
    datetime(2026, 1, 2, 3, 4, 5),
    Decimal("1.50"),
]
BACK = {8: "2026-01-02 03:04:05", 9: 1.5, 4: b"ab"}


def test_a_payload_comes_back_as_it_was(queue: Any) -> None:
    pushed = queue.push_many(PAYLOADS)
    assert [each.is_new for each in pushed] == [True] * len(PAYLOADS)
    jobs = queue.claim(len(PAYLOADS))
    assert [job.id for job in jobs] == [each.id for each in pushed]
    for index, job in enumerate(jobs):
        wanted = BACK.get(index, PAYLOADS[index])
        assert job.payload == wanted and type(job.payload) is type(wanted)
        assert isinstance(job.raw, bytes)
    assert jobs[0].json() == PAYLOADS[0]
    assert queue.push(b'{"a":1}').is_new and claim_one(queue).json() == {"a": 1}


def test_the_two_kinds_of_queue(tmp_path: Path) -> None:
    with lp.Writer(tmp_path / "a.db") as writer:
        assert type(lp.Queue(writer, "a")) is lp.SyncQueue
        assert isinstance(lp.Queue(writer, "a"), lp.Queue)
    assert type(lp.Queue(lp.AsyncWriter(tmp_path / "a.db"), "a")) is lp.AsyncQueue


def test_a_queue_of_a_path_has_a_writer_of_its_own(tmp_path: Path) -> None:
    with lp.Queue(tmp_path / "a.db", "mail") as queue:
        queue.push(1)
        assert claim_one(queue).payload == 1
    with pytest.raises(lp.Error, match="closed"):
        queue.push(2)
    with lp.Queue(str(tmp_path / "a.db"), "mail", must_exist=True) as queue:
        assert queue.stats()["jobs"]["leased"] == 1


def test_ack_nack_fail_release_extend(driver: Driver, queue: Any) -> None:
    queue.push_many(range(4))
    done, again, dead, back = queue.claim(4, lease=30, worker="w1")
    assert again.attempt == 1 and again.attempts_max == 5
    until = done.extend(timedelta(seconds=100))
    assert timedelta(seconds=90) < until - datetime.now(timezone.utc) < timedelta(seconds=101)
    assert done.lease_until == until and not done.lease_is_lost
    assert done.ack() is None and done.is_settled
    due = again.nack(ValueError("bad"), delay=1000)
    assert timedelta(seconds=900) < due - datetime.now(timezone.utc) < timedelta(seconds=1001)
    dead.fail("never")
    back.release()
    assert states(driver.path) == {"delayed": 1, "dead": 1, "ready": 1}
    assert queue.job(again.id)["error"] == "ValueError: bad"
    assert [a["outcome"] for a in queue.history(dead.id)] == ["failed"]
    assert [a["outcome"] for a in queue.history(back.id)] == ["released"]
    assert claim_one(queue).attempt == 1, "a release is no attempt"


def test_the_last_attempt_makes_a_job_dead(queue: Any) -> None:
    queue.push("x", attempts_max=1)
    assert claim_one(queue).nack("no") is None
    assert [job["state"] for job in queue.list("dead")] == ["dead"]
    assert queue.retry_dead() == 1 and queue.retry(1) is False
    job = claim_one(queue)
    assert job.attempt == 1
    job.fail("again")
    assert queue.retry(job.id) is True


def test_results_are_kept_with_done_jobs(driver: Driver) -> None:
    queue = driver.of("kept", keep_done=timedelta(hours=1))
    queue.push_many(["a", "b", "c"])
    first, second, third = queue.claim(3)
    first.ack({"sum": 3})
    queue.ack(second.token, b"raw")
    assert queue.ack_many([third]) == [None] and third.is_settled
    assert [queue.job(job.id)["result"] for job in (first, second, third)] == [
        {"sum": 3}, b"raw", None,
    ]
    assert queue.purge("done", limit=2) == 2
    assert queue.remove(third.id) is True and queue.remove(third.id) is False
    assert queue.job(third.id) is None


def test_a_wrong_push_says_what_is_wrong(queue: Any) -> None:
    for options in ({"priority": "x"}, {"group": 5}, {"attempts_max": "x"}):
        with pytest.raises(lp.ProgrammingError, match=f"^{next(iter(options))} is "):
            queue.push("job", **options)
    assert queue.stats()["jobs"]["ready"] == 0


def test_half_a_surrogate_pair_is_no_payload(queue: Any) -> None:
    with pytest.raises(lp.DataError, match="surrogates"):
        queue.push("\ud800")
    assert queue.stats()["jobs"]["ready"] == 0


def test_half_a_surrogate_pair_in_an_error_is_escaped(queue: Any) -> None:
    queue.push_many([1, 2])
    first, second = queue.claim(2)
    first.nack(ValueError("no x\udce9.csv"), 60)
    second.fail("no x\udce9.csv")
    errors = {job["id"]: job["error"] for job in queue.list()}
    assert errors == {1: r"ValueError: no x\udce9.csv", 2: r"no x\udce9.csv"}


def test_options_of_a_push(queue: Any) -> None:
    soon = datetime.now(timezone.utc) + timedelta(hours=1)
    queue.push_many(
        [
            "plain",
            lp.NewJob("first", priority=5, correlation_id="c", metadata={"a": [1]}),
            lp.NewJob("late", delay=timedelta(minutes=5)),
            lp.NewJob("due", due=soon),
            lp.NewJob("unix", due=soon.timestamp()),
            lp.NewJob("gone", expires_in=0.001),
            lp.NewJob("kept", delay=60, expires_in=61),
        ],
        attempts_max=9,
    )
    time.sleep(0.002)
    jobs = queue.claim(10)
    assert [job.payload for job in jobs] == ["first", "plain"]
    assert jobs[0].metadata == {"a": [1]} and jobs[0].correlation_id == "c"
    assert jobs[1].metadata is None and jobs[0].priority == 5
    assert {job.attempts_max for job in jobs} == {9}
    listed = {job["payload"]: job for job in queue.list(payloads=True)}
    assert listed["due"]["due_at_ms"] == pytest.approx(soon.timestamp() * 1000, abs=1)
    assert listed["unix"]["due_at_ms"] == pytest.approx(soon.timestamp() * 1000, abs=1)
    assert listed["gone"]["error"] == "expired"


def test_a_unique_key_is_held(queue: Any) -> None:
    assert queue.push(1, unique="k") == (1, True)
    assert (queue.job(1)["unique"], queue.job(1)["unique_for"]) == ("k", "running")
    assert queue.push(2, unique="k") == (1, False)
    job = claim_one(queue)
    assert queue.push(3, unique="k").is_new is False, "while it runs"
    job.ack()
    assert queue.push(4, unique="k").is_new
    assert queue.push(5, unique="w", unique_for="waiting").is_new
    queue.claim(2)
    assert queue.push(6, unique="w", unique_for="waiting").is_new
    assert queue.push(7, unique="t", unique_for=3600).is_new
    claim_one(queue)
    claim_one(queue).ack()
    assert queue.push(8, unique="t", unique_for=timedelta(hours=1)).is_new is False


def test_jobs_of_a_group_run_in_order(queue: Any) -> None:
    queue.push_many([1, 2, 3], group="g")
    first = claim_one(queue, count=10)
    assert first.group == "g" and queue.claim() == []
    assert queue.stats()["jobs"]["blocked"] == 2
    first.nack(delay=0)
    assert claim_one(queue).payload == 1, "in order, also after a failure"


def test_a_claim_waits_and_times_out(driver: Driver, queue: Any) -> None:
    began = time.monotonic()
    assert queue.claim(wait=0.2) == []
    assert time.monotonic() - began > 0.19

    def push_later() -> None:
        time.sleep(0.2)
        with lp.Queue(driver.path, "mail") as other:
            other.push("late")

    pushing = threading.Thread(target=push_later)
    pushing.start()
    assert claim_one(queue, wait=None).payload == "late"
    pushing.join()


def test_a_lost_lease_is_told(queue: Any) -> None:
    queue.push("x")
    job = claim_one(queue, lease=0.05)
    time.sleep(0.1)
    assert job.lease_is_lost
    again = claim_one(queue)
    assert again.attempt == 2
    for settle in (job.ack, job.nack, job.release, lambda: job.fail("x"), lambda: job.extend(5)):
        with pytest.raises(lp.LeaseLost, match="claimed again") as caught:
            settle()
        assert caught.value.kind == "lease_lost" and isinstance(
            caught.value, sqlite3.OperationalError
        )
        assert caught.value.why == "claimed_again"
    [good, bad] = queue.ack_many([again, job])
    assert good is None and isinstance(bad, lp.LeaseLost) and not job.is_settled
    assert bad.why == "settled" and pickle.loads(pickle.dumps(bad)).why == bad.why
    with pytest.raises(lp.LeaseLost) as caught:
        queue.ack("999.1")
    assert (caught.value.kind, caught.value.why) == ("no_such_claim", None)


def test_a_lost_lease_tells_why(queue: Any) -> None:
    def why(job: Any) -> str | None:
        with pytest.raises(lp.LeaseLost) as caught:
            job.ack()
        return caught.value.why

    queue.push_many(range(3))
    settled, given_back, expired = queue.claim(2) + queue.claim(lease=0.05)
    queue.ack(settled.token)
    queue.nack(given_back.token, delay=60)
    time.sleep(0.1)
    assert [why(job) for job in (settled, given_back, expired)] == ["settled", "given_back", "expired"]


def test_pause_resume_settings_and_limits(queue: Any) -> None:
    queue.push_many(range(6))
    queue.pause()
    assert queue.claim() == [] and queue.stats()["is_paused"]
    queue.resume()
    settings = queue.configure(
        lease=timedelta(minutes=2), concurrency=2, keep_dead=5, attempts_max=3, rate=(100, 1),
        backoff_first=0.5, backoff_factor=1.5, backoff_max=60, backoff_jitter=0,
    )
    assert settings == queue.settings()
    assert settings == {
        "lease": 120.0, "attempts_max": 3, "backoff_first": 0.5, "backoff_factor": 1.5, "backoff_max": 60.0,
        "backoff_jitter": 0.0, "keep_done": 0.0, "keep_dead": 5.0, "concurrency": 2, "group_concurrency": 1,
        "rate": [100, 1.0], "group_rate": None,
    }
    assert set(settings) == set(lp.QueueSettings.__annotations__)
    assert queue.configure(**settings) == settings
    assert queue.configure(backoff_first=7200)["backoff_max"] == 7200, "the first alone is enough"
    with pytest.raises(lp.ProgrammingError, match="longest"):
        queue.configure(backoff_max=60)
    assert len(queue.claim(10)) == 2, "as many as may be in flight"
    assert queue.configure(concurrency=None, keep_dead=None, rate=None)["concurrency"] is None
    assert len(queue.claim(10)) == 4


def test_lists_come_in_pages(queue: Any) -> None:
    queue.push_many(range(10))
    page = queue.list(limit=4)
    assert [job["id"] for job in page] == [1, 2, 3, 4] and page[0]["payload"] is None
    page = queue.list("ready", "dead", after=4, limit=2, payloads=True)
    assert [job["payload"] for job in page] == [4, 5]
    assert [job["id"] for job in queue.list(newest=True, limit=2)] == [10, 9]
    assert queue.list("done") == [] and queue.list(group="none") == []
    queue.push_many(range(50))
    assert len(queue.list()) == 50, "as many as the command lists"


def test_schedules_push_jobs(queue: Any) -> None:
    queue.schedule("tick", "* * * * * *", {"n": 1}, priority=3, missed="all")
    [kept] = queue.schedules()
    assert kept["name"] == "tick" and kept["missed"] == "all" and kept["timezone"] == "UTC"
    job = claim_one(queue, wait=10)
    assert job.payload == {"n": 1} and job.priority == 3
    assert job.metadata["leafpress_schedule"]["name"] == "tick"
    assert queue.unschedule("tick") is True and queue.unschedule("tick") is False
    queue.schedule("night", "30 2 * * MON-FRI", timezone="Europe/Berlin")
    assert queue.schedules()[0]["timezone"] == "Europe/Berlin"


def test_prometheus_and_drop(driver: Driver, queue: Any) -> None:
    queue.push_many([1, 2])
    assert 'queue="mail"' in queue.prometheus()
    assert queue.drop() == 2
    with pytest.raises(lp.Error, match="queue"):
        queue.push(3)


MISTAKES = [
    (lambda q: q.push({1: object()}), lp.DataError, "of type object"),
    (lambda q: q.push(1, dealy=5), lp.ProgrammingError, "no option 'dealy'"),
    (lambda q: q.push(1, dealy=None), lp.ProgrammingError, "no option 'dealy'"),
    (lambda q: q.push(1, due_ms=5), lp.ProgrammingError, "no option 'due_ms'"),
    (lambda q: q.push(1, expires=60), lp.ProgrammingError, "2000(.|\n)*as expires_in"),
    (lambda q: q.push(1, due=datetime(1999, 1, 1)), lp.ProgrammingError, "2000(.|\n)*as delay"),
    (lambda q: q.push(1, expires_in=0), lp.ProgrammingError, "never be claimed"),
    (lambda q: q.push(1, due=10**17), lp.ProgrammingError, r"^due is more than 2\*\*63"),
    (lambda q: q.push(1, expires=10**400), lp.ProgrammingError, r"^expires is more than 2\*\*63"),
    (lambda q: q.push(1, delay=10**400), lp.ProgrammingError, "^delay is more than"),
    (lambda q: q.push(1, delay=60, expires_in=60), lp.ProgrammingError, "before it is due"),
    (lambda q: q.push(1, delay=60, expires=time.time() + 9), lp.ProgrammingError, "before it is due"),
    (lambda q: q.push(1, due=time.time() + 60, expires_in=9), lp.ProgrammingError, "before it is due"),
    (lambda q: q.push(1, due=4e9, expires=4e9), lp.ProgrammingError, "before it is due"),
    (lambda q: q.push(1, delay=-1), lp.ProgrammingError, "delay is a number of seconds"),
    (lambda q: q.push(1, delay="5"), lp.ProgrammingError, "a timedelta, not '5'"),
    (lambda q: q.push(1, due="now"), lp.ProgrammingError, "due is a datetime or a number, not 'now'"),
    (lambda q: q.push(1, due=float("nan")), lp.ProgrammingError, "datetime or Unix time"),
    (lambda q: q.push(1, unique="a", unique_for="ever"), lp.ProgrammingError, '"running" or a'),
    (lambda q: q.push_many([1, object()]), lp.DataError, "job 2: SQLite has no value for .* of type object"),
    (lambda q: q.claim(lease=0), lp.ProgrammingError, "lease of at least"),
    (lambda q: q.claim(wait=float("nan")), lp.ProgrammingError, "wait is a number"),
    (lambda q: q.ack("seventeen"), lp.ProgrammingError, "no token"),
    (lambda q: q.list("redy"), lp.ProgrammingError, "redy"),
    (lambda q: q.configure(leese=1), lp.ProgrammingError, "no option 'leese'(.|\n)*lease"),
    (lambda q: q.configure(rate="100/1m"), lp.ProgrammingError, "rate is a pair"),
    (lambda q: q.configure(concurrency=0), lp.ProgrammingError, "pause it instead"),
    (lambda q: q.schedule("a", "every day"), lp.ProgrammingError, "schedule"),
    (lambda q: q.schedule("a", "@daily", timezone="Mars"), lp.ProgrammingError, "Mars"),
    (lambda q: q.schedule("a", "@daily", delay=5), lp.ProgrammingError, "delay"),
    (lambda q: q.work(lambda job: None, concurrency=0), lp.ProgrammingError, "concurrency"),
    (lambda q: q.work(lambda job: None, threads=2), lp.ProgrammingError, "no option 'threads'"),
    (lambda q: q.push(1, unique="\udce9"), lp.DataError, "unique is no UTF-8"),
    (lambda q: q.push(1, group="\udce9"), lp.DataError, "group is no UTF-8"),
    (lambda q: q.claim(worker="\udce9"), lp.DataError, "worker is no UTF-8"),
    (lambda q: q.work(lambda job: None, worker="\udce9"), lp.DataError, "worker is no UTF-8"),
    (lambda q: q.driver.of("\udce9"), lp.DataError, "name is no UTF-8"),
]


@pytest.mark.parametrize("number", range(len(MISTAKES)))
def test_a_mistake_is_named_and_changes_nothing(driver: Driver, queue: Any, number: int) -> None:
    call, kind, words = MISTAKES[number]
    queue.push("there")
    before = states(driver.path)
    with pytest.raises(kind, match=words) as caught:
        call(queue)
    assert caught.value.kind in ("misuse", "bad_row", "not_found")
    assert states(driver.path) == before
    assert claim_one(queue).payload == "there"


def test_a_queue_that_must_exist(driver: Driver) -> None:
    with pytest.raises(lp.ProgrammingError, match="no queue 'other'") as caught:
        driver.of("other", must_exist=True).push(1)
    assert caught.value.on_disk == "nothing was changed"


def test_a_closed_writer_says_so(tmp_path: Path) -> None:
    writer = lp.Writer(tmp_path / "a.db")
    queue = lp.Queue(writer, "mail")
    writer.close()
    for call in (lambda: queue.push(1), queue.claim, queue.stats, lambda: queue.claim(wait=None)):
        with pytest.raises(lp.Error, match="closed"):
            call()


def test_a_call_inside_of_the_writers_own_transaction_is_refused(tmp_path: Path) -> None:
    with lp.Writer(tmp_path / "a.db") as writer:
        queue = lp.Queue(writer, "mail")
        with writer.transaction(), pytest.raises(lp.ProgrammingError, match="wait"):
            queue.push(1)
        assert queue.push(2).id == 1

    async def main() -> None:
        async with lp.AsyncWriter(tmp_path / "b.db") as writer:
            queue = lp.Queue(writer, "mail")
            await queue.push(1)
            async with writer.transaction():
                with pytest.raises(lp.ProgrammingError, match="wait"):
                    await queue.push(2)

    asyncio.run(main())


def test_a_push_in_a_transaction_is_committed_with_it(tmp_path: Path) -> None:
    with lp.Writer(tmp_path / "a.db") as writer:
        writer.execute("CREATE TABLE customer(name)")
        queue = lp.Queue(writer, "mail")
        with writer.transaction() as tx:
            tx.execute("INSERT INTO customer VALUES (?)", ("ann",))
            assert queue.push({"to": "ann"}, in_=tx, unique="ann") == (1, True)
            assert queue.push({"to": "ann"}, in_=tx, unique="ann") == (1, False)
        with pytest.raises(KeyError), writer.transaction() as tx:
            tx.execute("INSERT INTO customer VALUES (?)", ("bob",))
            queue.push({"to": "bob"}, in_=tx)
            raise KeyError
        assert [job.payload for job in queue.claim(5)] == [{"to": "ann"}]
        with lp.Writer(tmp_path / "b.db") as other, other.transaction() as tx:
            with pytest.raises(lp.ProgrammingError, match="writer"):
                queue.push(1, in_=tx)

    async def main() -> None:
        async with lp.AsyncWriter(tmp_path / "c.db") as writer:
            queue = lp.Queue(writer, "mail")
            async with writer.transaction() as tx:
                with pytest.raises(lp.ProgrammingError, match="open"):
                    await queue.push(0, in_=tx)
            await queue.open()
            async with writer.transaction() as tx:
                assert (await queue.push(1, in_=tx)).is_new
            with pytest.raises(KeyError):
                async with writer.transaction() as tx:
                    await queue.push(2, in_=tx)
                    raise KeyError
            assert [job.payload for job in await queue.claim(5)] == [1]

    asyncio.run(main())


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"delay": 5, "due": 100.0}, "delay and due"),
        ({"expires_in": 5, "expires": 4e9}, "expires_in and expires"),
        ({"unique_for": "waiting"}, "unique_for"),
        ({"attempts_max": 0}, "attempts_max"),
        ({"attempts_max": -1}, "attempts_max"),
        ({"priority": 2**40}, "priority"),
    ],
)
def test_options_that_contradict_are_refused(options: Any, said: str, tmp_path: Path) -> None:
    with contextlib.closing(lp.Queue(tmp_path / "app.db")) as queue:
        with pytest.raises(lp.ProgrammingError, match=said):
            queue.push(1, **options)
        with pytest.raises(lp.ProgrammingError, match=said):
            queue.push_many([lp.NewJob(1, **options)])
        # None is an option that was not given.
        queue.push(1, delay=5, due=None, unique=None, unique_for="waiting")
        assert len(queue.list()) == 1


def test_negative_numbers_of_jobs_are_refused(tmp_path: Path) -> None:
    with contextlib.closing(lp.Queue(tmp_path / "app.db")) as queue:
        calls = [
            lambda: queue.claim(-1),
            lambda: queue.list(limit=-1),
            lambda: queue.purge(limit=-1),
            lambda: queue.retry_dead(-1),
            lambda: queue.work(print, jobs_max=-1),
        ]
        for call in calls:
            with pytest.raises(lp.ProgrammingError, match="-1"):
                call()
        with pytest.raises(lp.ProgrammingError, match="concurrency"):
            queue.configure(concurrency=-1)


def test_one_payload_is_no_list_of_payloads(driver: Driver, queue: Any) -> None:
    for payload in ({"to": "ann"}, "text", b"bytes", lp.NewJob(1)):
        with pytest.raises(lp.ProgrammingError, match="one payload|payloads is a list, not .* NewJob"):
            queue.push_many(payload)
    assert queue.push_many({"to": "ann"}.items()) and len(queue.list()) == 1


def test_first_pushes_keep_their_order(tmp_path: Path) -> None:
    async def main() -> list[Any]:
        async with lp.AsyncWriter(tmp_path / "a.db") as writer, lp.Queue(writer, "mail") as queue:
            assert queue.name == "mail"
        async with lp.AsyncWriter(tmp_path / "a.db") as writer:
            queue = lp.Queue(writer, "mail")
            # The queue is opened by the first of these.
            pushes = [queue.push(number, group="g") for number in range(50)]
            await asyncio.gather(*pushes, queue.push_many(range(50, 55), group="g"))
            return [job["payload"] for job in await queue.list(payloads=True, limit=100)]

    assert asyncio.run(main()) == [*range(55)]


def test_an_opening_that_fails_is_told_to_each_call(tmp_path: Path) -> None:
    async def main() -> None:
        async with lp.AsyncWriter(tmp_path / "a.db") as writer:
            queue = lp.Queue(writer, "mail", must_exist=True)
            calls = [queue.push(1), queue.claim(), queue.stats()]
            found = await asyncio.gather(*calls, return_exceptions=True)
            assert [type(error) for error in found] == [lp.ProgrammingError] * 3
            await lp.Queue(writer, "mail").open()
            assert (await queue.push(1)).id == 1

    asyncio.run(main())


@pytest.mark.skipif(not hasattr(time, "tzset"), reason="this system sets no time zone of a process")
def test_a_moment_without_an_equal_in_utc_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TZ", "UTC+8")
    time.tzset()
    try:
        with lp.Queue(tmp_path / "a.db", "mail") as queue:
            with pytest.raises(lp.ProgrammingError, match="no equal in UTC"):
                queue.push(1, due=datetime.max)
    finally:
        monkeypatch.undo()
        time.tzset()
