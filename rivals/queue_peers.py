#!/usr/bin/env python3
"""One run of one queue from PyPI: so many clients, each doing whole cycles (push one
job, claim one, acknowledge it) until the time is up.

Started by bench_queue.py in a process of its own, prints one JSON object. Each queue
is used as its documentation says and in its default mode; where it can be made faster
without doing less, it is, and the comment says how.

Must never: count a cycle whose job was not claimed and acknowledged, or leave a queue
that is not empty without saying so.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sqlite3
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

# Seconds that a connection waits for another one's lock. The defaults (5 and 10) end a
# run of many clients with "database is locked".
LOCK_TIMEOUT_S = 60

# Finished jobs stay in two of the queues until they are removed, and both read over
# them when they look for the next one. Their own method removes them after so many.
FINISHED_MAX = 500


class Peer:
    """A queue in one process: what its clients call."""

    def __init__(self, folder: Path):
        self.folder = folder

    def client(self) -> tuple[Callable[[int], None], Callable[[], int], Callable[[], None]]:
        """Push, claim and acknowledge for one client; made before the time runs. The
        claim gives the job's number, and the acknowledgement is of the job claimed last."""
        raise NotImplementedError

    def connection(self) -> sqlite3.Connection:
        """A connection of those that write, to ask for its settings."""
        raise NotImplementedError

    def waiting(self) -> int:
        """Jobs that are waiting or claimed."""
        raise NotImplementedError


class Litequeue(Peer):
    """A LiteQueue for each thread: one connection for several of them cannot hold two
    transactions, and `pop` begins one."""

    # Its default, NORMAL, loses the last moments with the power.
    syncs = False

    def __init__(self, folder: Path):
        super().__init__(folder)
        self.queues = []

    def client(self):
        from litequeue import LiteQueue

        queue = LiteQueue(self.folder / "queue.db", timeout=LOCK_TIMEOUT_S)
        if self.syncs:
            queue.conn.execute("PRAGMA synchronous = FULL")
        self.queues.append(queue)
        claimed = None
        finished = 0

        def push(number: int) -> None:
            queue.put(str(number))

        def claim() -> int:
            nonlocal claimed
            claimed = queue.pop()
            return int(claimed.data)

        def acknowledge() -> None:
            nonlocal finished
            queue.done(claimed.message_id)
            finished += 1
            if finished % FINISHED_MAX == 0:
                queue.prune()

        return push, claim, acknowledge

    def connection(self):
        return self.queues[0].conn

    def waiting(self):
        return self.queues[0].qsize()


class LitequeueFull(Litequeue):
    """The same, as durable as the others: not its default, and not in its documentation."""

    syncs = True


class HueyTasks(Peer):
    """Calls of a task, and what huey's consumer does with them: dequeue, execute. It has
    no acknowledgement: a task is deleted when it is claimed."""

    def __init__(self, folder: Path):
        super().__init__(folder)
        from huey import SqliteHuey

        self.huey = SqliteHuey(filename=str(folder / "queue.db"), timeout=LOCK_TIMEOUT_S)
        self.done = threading.local()

        @self.huey.task()
        def job(number):
            self.done.number = number

        self.job = job

    def client(self):
        def claim() -> int:
            self.huey.execute(self.huey.dequeue())
            return self.done.number

        return self.job, claim, lambda: None

    def connection(self):
        return self.huey.storage.conn

    def waiting(self):
        return len(self.huey)


class HueyStorage(HueyTasks):
    """The storage below huey's tasks, without their pickles and looks for revocations:
    a push and a claim that deletes."""

    def client(self):
        storage = self.huey.storage

        def push(number: int) -> None:
            storage.enqueue(str(number).encode())

        def claim() -> int:
            return int(bytes(storage.dequeue()))

        return push, claim, lambda: None


class PersistQueue(Peer):
    """SQLiteAckQueue with `multithreading`, one for all threads. It keeps claims in the
    process's memory, so several processes are not for it."""

    def __init__(self, folder: Path):
        super().__init__(folder)
        from persistqueue import SQLiteAckQueue

        path = str(folder / "queue")
        self.queue = SQLiteAckQueue(path, multithreading=True, timeout=LOCK_TIMEOUT_S)

    def client(self):
        queue = self.queue
        claimed = None
        finished = 0

        def claim() -> int:
            nonlocal claimed
            # With its id, by which it is found without a search.
            claimed = queue.get(block=False, raw=True)
            return claimed["data"]

        def acknowledge() -> None:
            nonlocal finished
            queue.ack(claimed)
            finished += 1
            if finished % FINISHED_MAX == 0:
                queue.clear_acked_data(max_delete=100 * FINISHED_MAX, keep_latest=0)

        return queue.put, claim, acknowledge

    def connection(self):
        return self.queue._putter

    def waiting(self):
        return self.queue.size + self.queue.unack_count()


PEERS = {
    "litequeue": Litequeue,
    "litequeue-full": LitequeueFull,
    "huey-tasks": HueyTasks,
    "huey-storage": HueyStorage,
    "persist-queue": PersistQueue,
}


def settings(connection: sqlite3.Connection) -> dict:
    """What the queue's own connection says of how it writes."""
    journal_mode = connection.execute("PRAGMA journal_mode").fetchone()[0]
    synchronous = connection.execute("PRAGMA synchronous").fetchone()[0]
    return {"journal_mode": journal_mode, "synchronous": synchronous}


def cycles_of(client: tuple, first_number: int, seconds: float, ready, outcome: dict) -> None:
    """One client: whole cycles until the time is up.

    Every client pushes before it claims, so there is a job for each claim.
    """
    push, claim, acknowledge = client
    pushed = claimed = cycles = 0
    took_s = []
    ready.wait()
    start = time.monotonic()
    now, end = start, start + seconds
    while now < end:
        number = first_number + cycles
        push(number)
        claimed += claim()
        acknowledge()
        pushed += number
        cycles += 1
        before, now = now, time.monotonic()
        took_s.append(now - before)
    outcome.update(start=start, end=now, pushed=pushed, claimed=claimed, cycles=cycles)
    outcome["took_s"] = took_s


def run_process(options: argparse.Namespace, index: int, ready, answers) -> None:
    """The clients of one process; answers what they did, or what went wrong."""
    try:
        peer = PEERS[options.peer](options.folder)
        share = range(index, options.clients, options.processes)
        clients = [peer.client() for _ in share]
        outcomes = [{} for _ in share]
        threads = []
        for client, outcome, number in zip(clients, outcomes, share, strict=True):
            # A billion cycles of one client are not to be expected.
            arguments = (client, number * 10**9, options.seconds, ready, outcome)
            threads.append(threading.Thread(target=cycles_of, args=arguments, daemon=True))
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if not all(outcomes):
            raise RuntimeError("a client failed; see above")
        answers.put({"outcomes": outcomes, **settings(peer.connection())})
    except Exception as error:
        ready.abort()
        answers.put({"error": f"{type(error).__name__}: {error}"})


def first_queue(options: argparse.Namespace) -> None:
    """Makes the file, so that the clients do not meet in making it."""
    peer = PEERS[options.peer](options.folder)
    peer.client()
    peer.connection().close()


def run(options: argparse.Namespace) -> dict:
    """All clients, over all processes."""
    context = multiprocessing.get_context("spawn")
    maker = context.Process(target=first_queue, args=(options,))
    maker.start()
    maker.join()
    ready = context.Barrier(options.clients)
    answers = context.Queue()
    processes = [
        context.Process(target=run_process, args=(options, index, ready, answers))
        for index in range(options.processes)
    ]
    for process in processes:
        process.start()
    answered = [answers.get() for _ in processes]
    for process in processes:
        process.join()
    errors = [answer["error"] for answer in answered if "error" in answer]
    if errors:
        raise RuntimeError("; ".join(errors))
    outcomes = [outcome for answer in answered for outcome in answer["outcomes"]]
    return summed_up(options, outcomes, answered[0])


def summed_up(options: argparse.Namespace, outcomes: list[dict], answer: dict) -> dict:
    """What the clients did together; fails if a job was lost, or came twice."""

    def total(name: str) -> int:
        return sum(outcome[name] for outcome in outcomes)

    left = PEERS[options.peer](options.folder)
    left.client()
    if total("pushed") != total("claimed") or left.waiting() != 0:
        raise RuntimeError(f"{total('pushed')} pushed, {total('claimed')} claimed, {left.waiting()} left")
    start = min(outcome["start"] for outcome in outcomes)
    end = max(outcome["end"] for outcome in outcomes)
    took_s = sorted(took for outcome in outcomes for took in outcome["took_s"])
    return {
        "cycles": total("cycles"),
        "wall_s": end - start,
        "p50_us": took_s[len(took_s) // 2] * 1e6,
        "p99_us": took_s[len(took_s) * 99 // 100] * 1e6,
        "max_us": took_s[-1] * 1e6,
        "journal_mode": answer["journal_mode"],
        "synchronous": answer["synchronous"],
    }


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("peer", choices=PEERS)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=3.0)
    options = parser.parse_args()
    try:
        print(json.dumps(run(options)))
    except RuntimeError as error:
        print(f"queue_peers: {options.peer}: {error}", file=sys.stderr)
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main())
