"""Work on a queue by several processes, and what becomes of jobs when one is killed or stopped."""

from __future__ import annotations

import collections
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from working import pushed, states, wait_until

import leafpress as lp


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "app.db"


CONSUMER = """
import sys, time
import leafpress as lp
with lp.Writer(sys.argv[1], shared=True) as writer:
    for job in lp.Queue(writer, "mail").work(concurrency=4, lease=float(sys.argv[3])):
        print(job.payload, flush=True)
        time.sleep(float(sys.argv[2]))
"""


def consumer(path: Path, sleep_s: float, lease_s: float = 30.0) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", CONSUMER, str(path), str(sleep_s), str(lease_s)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_two_processes_work_on_one_queue(path: Path) -> None:
    code = CONSUMER.replace("concurrency=4", "concurrency=4, until_empty=True")
    pushed(path, 300)
    processes = [
        subprocess.Popen([sys.executable, "-c", code, str(path), "0.001", "30"],
                         stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    done = [process.communicate(timeout=60)[0].split() for process in processes]
    assert [process.returncode for process in processes] == [0, 0]
    assert sorted(int(each) for one in done for each in one) == list(range(300))
    assert states(path) == {}


def test_a_job_of_a_killed_process_comes_again(path: Path) -> None:
    pushed(path, 5)
    process = consumer(path, 60, 1.0)
    assert process.stdout is not None
    first = int(process.stdout.readline())
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=20)
    with lp.Queue(path, "mail") as queue:
        attempts = {job.payload: job.attempt for job in queue.work(jobs_max=5)}
        assert sorted(attempts) == list(range(5)) and attempts[first] == 2


HANDLERS = """
import os, sys
import leafpress as lp
def handle(job):
    os.write(1, b"%d\\n" % job.payload)
with lp.Writer(sys.argv[1], shared=True) as writer:
    lp.Queue(writer, "mail").work(handle, concurrency=8, lease=1.0)
"""


def test_no_job_is_lost_when_workers_are_killed(path: Path) -> None:
    kills = int(os.environ.get("LEAFPRESS_QUEUE_KILLS", "3"))
    count = 1_500 * kills
    pushed(path, count, attempts_max=1_000)
    seen: collections.Counter[int] = collections.Counter()
    for _ in range(kills):
        process = subprocess.Popen([sys.executable, "-c", HANDLERS, str(path)],
                                   stdout=subprocess.PIPE)
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(200)]
        process.send_signal(signal.SIGKILL)
        rest = process.stdout.read()
        process.wait(20)
        whole = rest[: rest.rfind(b"\n") + 1]
        seen.update(int(line) for line in [*lines, *whole.splitlines()])
    left = sum(states(path).values())
    assert 0 < left < count
    with lp.Queue(path, "mail") as queue:
        queue.work(lambda job: seen.update([job.payload]), concurrency=8, jobs_max=left)
    assert len(seen) == count, "each was done"
    assert states(path) == {}


@pytest.mark.parametrize("where", ["body", "wait"])
def test_ctrl_c_gives_back_what_was_claimed_ahead(path: Path, where: str) -> None:
    pushed(path, 5 if where == "body" else 1, backoff_first=1000)
    process = consumer(path, 60 if where == "body" else 0)
    assert process.stdout is not None
    assert process.stdout.readline() == "0\n"
    if where == "wait":
        wait_until(lambda: states(path) == {})
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=20)
    assert "KeyboardInterrupt" in errors and process.returncode != 0
    assert states(path) == ({"delayed": 1, "ready": 4} if where == "body" else {})


@pytest.mark.parametrize("last", [1, 4])
def test_ctrl_c_ends_handlers(last: int, path: Path) -> None:
    pushed(path, 20)
    code = f"""
import os, sys, threading, time
import leafpress as lp
def handle(job):
    os.write(1, b"begun\\n")
    is_last = threading.current_thread().name.startswith("Thread-{last} ")
    time.sleep(1.5 if is_last else 0.5)
with lp.Writer(sys.argv[1]) as writer:
    try:
        lp.Queue(writer, "mail").work(handle, concurrency=4)
    except KeyboardInterrupt:
        print("interrupted", flush=True)
"""
    process = subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE,
                               text=True)
    assert process.stdout is not None
    for _ in range(4):
        assert process.stdout.readline() == "begun\n"
    process.send_signal(signal.SIGINT)
    rest = process.stdout.read()
    process.wait(20)
    assert rest.endswith("interrupted\n") and process.returncode == 0, rest
    done = 4 + rest.count("begun")
    assert states(path) == {"ready": 20 - done}, "those that had begun are done"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system does not fork")
def test_work_of_a_parent_is_refused_in_a_child_of_a_fork(path: Path) -> None:
    code = """
import os, sys
import leafpress as lp
with lp.Writer(sys.argv[1]) as writer:
    work = lp.Queue(writer, "mail").work(concurrency=4)
    job = next(work)
    child = os.fork()
    if child == 0:
        for call in (lambda: next(work), job.ack, work.close):
            try:
                call()
                os._exit(1)
            except lp.Error as error:
                if error.kind != "forked":
                    print(error, flush=True)
                    os._exit(2)
        del work, job
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    job.ack()
    work.close()
"""
    pushed(path, 6)
    ran = subprocess.run([sys.executable, "-W", "ignore", "-c", code, str(path)], timeout=30,
                         capture_output=True, text=True)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")
    assert states(path) == {"ready": 5}
