"""Servers that answer once a row is durable: under load, and killed in the middle of it."""

import json
import os
import random
import sqlite3
import time
from contextlib import closing

import pytest
from serving import Clients, end, request, server

import leafpress as lp

KILLS = int(os.environ.get("LEAFPRESS_SERVER_KILLS", "3"))
# So often a server that answers too early may be lucky.
CONTROL_ROUNDS_MAX = 10
UVICORN = ("uvicorn", "app:app", "--fd", "FD", "--log-level", "warning")


@pytest.fixture
def database(tmp_path):
    path = tmp_path / "a.db"
    with lp.Writer(path) as writer:
        writer.execute_batch("CREATE TABLE t(a)")
    return path


def judge(database):
    """The numbers in the database; it must be sound, and no number there twice."""
    with closing(sqlite3.connect(database)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        numbers = [a for (a,) in connection.execute("SELECT a FROM t")]
    assert len(numbers) == len(set(numbers))
    return set(numbers)


def test_a_server_under_load_answers_all(tmp_path, database):
    with server(tmp_path, database, *UVICORN) as (_, port):
        clients = Clients(port, clients=16, each=40).wait()
        stats = json.loads(request(port, "/stats", "GET")[1])
    assert (clients.refused, clients.broken) == ([], [])
    assert judge(database) == clients.answered and len(clients.answered) == 640
    print(f"{stats['calls']} rows in {stats['commits']} commits")
    assert stats["commits"] < stats["calls"]


def kill_under_load(tmp_path, database, seed, first, prefix="/", delay=0.0):
    """The numbers that were answered by a server that is killed."""
    chance = random.Random(seed)
    with server(tmp_path, database, *UVICORN, delay=delay) as (process, port):
        request(port, "/stats", "GET")
        clients = Clients(port, prefix, clients=8, first=first)
        wanted, limit = chance.randint(1, 400), time.monotonic() + 20
        while len(clients.answered) < wanted and time.monotonic() < limit:
            time.sleep(0.001)
        end(process)
        clients.wait()
    assert clients.refused == [] and clients.answered
    return clients.answered


def test_a_killed_server_has_lost_no_answered_row(tmp_path, database):
    answered = set()
    for kill in range(KILLS):
        answered |= kill_under_load(tmp_path, database, kill, kill * 1_000_000)
        lost = answered - judge(database)
        assert not lost, f"kill {kill}: {len(lost)} of {len(answered)} answered rows lost"
    print(f"{KILLS} kills: 0 of {len(answered)} answered rows lost")


def test_a_server_that_answers_before_the_commit_loses(tmp_path, database):
    """The control: the test above can fail."""
    for kill in range(CONTROL_ROUNDS_MAX):
        answered = kill_under_load(
            tmp_path, database, kill, kill * 1_000_000, prefix="/hasty/", delay=0.1
        )
        if answered - judge(database):
            return
    pytest.fail("a server that answers before the commit has lost nothing")
