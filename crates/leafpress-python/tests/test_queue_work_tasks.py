"""Work on a queue by tasks of asyncio."""

from __future__ import annotations

import asyncio
import collections
import contextlib
import gc
import time
from pathlib import Path
from typing import Any

import pytest
from working import pushed, states

import leafpress as lp


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "app.db"


def test_a_loop_of_tasks(path: Path) -> None:
    pushed(path, 6, backoff_first=1000)

    async def main() -> None:
        async with lp.AsyncWriter(path) as writer:
            queue = lp.Queue(writer, "mail")
            seen = []
            async for job in queue.work(concurrency=8):
                seen.append(job.payload)
                if job.payload == 2:
                    break
            assert seen == [0, 1, 2]
            gc.collect()
            assert await queue.claim(wait=5)
        assert states(path) == {"delayed": 1, "leased": 1, "ready": 2}

    asyncio.run(main())


def test_a_loop_of_tasks_that_is_left_before_the_writer_closes(path: Path) -> None:
    pushed(path, 8, backoff_first=1000)

    async def main() -> None:
        async with lp.AsyncWriter(path) as writer:
            async for _ in lp.Queue(writer, "mail").work(concurrency=8):
                break

    asyncio.run(main())
    assert states(path) == {"delayed": 1, "ready": 7}


def test_a_block_around_a_loop_of_tasks(path: Path) -> None:
    pushed(path, 4, backoff_first=1000)

    async def main() -> None:
        async with lp.AsyncWriter(path) as writer:
            queue = lp.Queue(writer, "mail")
            with pytest.raises(KeyError):
                async with queue.work(concurrency=2) as work:
                    async for job in work:
                        async with job:
                            pass
                        if job.payload == 1:
                            raise KeyError("left")
            assert states(path) == {"ready": 2}
            assert work.report is not None and work.report.done == 2
            async for job in queue.work(until_empty=True):
                await job.nack("later", delay=500)
            assert states(path) == {"delayed": 2}

    asyncio.run(main())


@pytest.mark.parametrize("kind", ["asyncio", "uvloop"])
def test_handlers_of_tasks(path: Path, kind: str) -> None:
    pushed(path, 200, backoff_first=1000)
    running = most = 0

    async def handle(job: lp.AsyncJob) -> Any:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.001)
        running -= 1
        if job.payload == 7:
            raise ValueError("seven")
        return job.payload if job.payload == 8 else None

    async def main() -> None:
        async with lp.AsyncWriter(path) as writer:
            queue = lp.Queue(writer, "mail")
            report = await queue.work(handle, concurrency=8, until_empty=True)
            assert (report.claimed, report.done, report.retried) == (200, 199, 1)
            assert (await queue.job(8))["error"] == "ValueError: seven"

    if kind == "uvloop":
        import uvloop

        uvloop.run(main())
    else:
        asyncio.run(main())
    assert most == 8 and states(path) == {"delayed": 1}


def test_no_job_is_lost_or_done_twice_by_eight_tasks(path: Path) -> None:
    count = 5_000
    pushed(path, count)
    done: collections.Counter[int] = collections.Counter()

    async def handle(job: lp.AsyncJob) -> None:
        done[job.payload] += 1

    async def main() -> lp.WorkReport:
        async with lp.AsyncWriter(path) as writer:
            return await lp.Queue(writer, "mail").work(handle, concurrency=8, until_empty=True)

    assert asyncio.run(main()).done == count
    assert len(done) == count and set(done.values()) == {1} and states(path) == {}


def test_handlers_that_never_wait_leave_turns_to_other_tasks(path: Path) -> None:
    pushed(path, 300)

    async def main() -> int:
        turns = 0

        async def others() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        async def handle(job: lp.AsyncJob) -> None:
            time.sleep(0.001)

        async with lp.AsyncWriter(path) as writer:
            other = asyncio.create_task(others())
            await lp.Queue(writer, "mail").work(handle, jobs_max=300)
            other.cancel()
        return turns

    assert asyncio.run(main()) > 20


def test_cancelled_work_gives_its_jobs_back(path: Path) -> None:
    pushed(path, 20)

    async def handle(job: lp.AsyncJob) -> None:
        await asyncio.sleep(60)

    async def main() -> None:
        async with lp.AsyncWriter(path) as writer:
            queue = lp.Queue(writer, "mail")
            working = asyncio.create_task(queue.work(handle, concurrency=4))
            while (await queue.stats())["jobs"]["leased"] < 4:
                await asyncio.sleep(0.01)
            working.cancel()
            with pytest.raises(asyncio.CancelledError):
                await working
            assert states(path) == {"ready": 20}
            assert {job["attempts"] for job in await queue.list()} == {0}

    asyncio.run(main())


def test_a_cancelled_claim_keeps_no_job(path: Path) -> None:
    async def main() -> None:
        async with lp.AsyncWriter(path) as writer:
            queue = lp.Queue(writer, "mail")
            await queue.stats()
            for rounds in range(200):
                claiming = asyncio.create_task(queue.claim(wait=None))
                await asyncio.sleep(0)
                await queue.push(rounds)
                for _ in range(rounds % 5):
                    await asyncio.sleep(0)
                claiming.cancel()
                try:
                    [job] = await claiming
                except asyncio.CancelledError:
                    [job] = await queue.claim(wait=5)
                await job.ack()
            assert (await queue.stats())["jobs"]["leased"] == 0
        assert states(path) == {}

    asyncio.run(main())


def test_a_loop_that_is_cancelled_keeps_no_job(path: Path) -> None:
    async def main() -> None:
        async with lp.AsyncWriter(path) as writer:
            queue = lp.Queue(writer, "mail")
            # Jobs whose ack was cancelled may come again: at least once is what the queue promises.
            done, in_doubt = [], set()

            async def consume() -> None:
                async for job in queue.work():
                    done.append(job.payload)
                    try:
                        await job.ack()
                    except asyncio.CancelledError:
                        in_doubt.add(job.payload)
                        raise

            for rounds in range(50):
                consuming = asyncio.create_task(consume())
                await asyncio.sleep(0.001 * (rounds % 3))
                await queue.push(rounds)
                for _ in range(rounds % 7):
                    await asyncio.sleep(0)
                consuming.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await consuming
            del consuming
            gc.collect()
            async for job in queue.work() if len(set(done)) < 50 else ():
                done.append(job.payload)
                await job.ack()
                if len(set(done)) == 50:
                    break
            assert set(done) == set(range(50))
            assert {job for job in done if done.count(job) > 1} <= in_doubt

    asyncio.run(asyncio.wait_for(main(), 20))
