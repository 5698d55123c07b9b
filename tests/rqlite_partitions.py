"""Cuts the network of a real cluster of rqlite under load, and checks that each acknowledged call is there
once, and that no call takes longer than a limit. First under callers of a Writer, then under the producers
and consumers of a queue, whose rows all nodes must then have alike.

Each node and the callers have a network namespace of their own, joined by a bridge in another one. A
cut is for one direction between two of them, and is silent: packets go to an address that no card has.
`make test-rqlite` runs it: RQLITED names the server, EXAMPLE and QUEUE the examples rqlite_callers and
rqlite_queue. It needs root and `ip`; without them it says "skipped" and why.
"""

import argparse
import json
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.parse

from rqlite_cluster import NODES, WORST_CALL_MAX_S, found_rqlited
from rqlite_queue import nodes_are_alike

CALLERS = NODES
NOWHERE = "02:00:00:00:00:ff"


def ip(*words, check=True):
    return subprocess.run(["ip", *words], check=check, capture_output=True, text=True)


class Network:
    """Namespaces of nodes 0 to 2 and of the callers, which have number 3."""

    def __init__(self):
        self.hub = f"lp{os.getpid()}-hub"
        self.spaces = [f"lp{os.getpid()}-{number}" for number in range(NODES + 1)]

    def address(self, number):
        return f"10.77.0.{11 + number}"

    def mac(self, number):
        return f"02:00:00:00:00:{11 + number:02x}"

    def make(self):
        for space in [self.hub, *self.spaces]:
            ip("netns", "add", space)
            ip("-n", space, "link", "set", "lo", "up")
        ip("-n", self.hub, "link", "add", "bridge", "type", "bridge")
        ip("-n", self.hub, "link", "set", "bridge", "up")
        for number, space in enumerate(self.spaces):
            ip("-n", self.hub, "link", "add", f"v{number}", "type", "veth", "peer", "name", "eth0", "netns", space)
            ip("-n", self.hub, "link", "set", f"v{number}", "master", "bridge", "up")
            ip("-n", space, "link", "set", "eth0", "address", self.mac(number), "up")
            ip("-n", space, "address", "add", f"{self.address(number)}/24", "dev", "eth0")
        self.heal()

    def cut(self, source, to):
        """Packets from one to the other are lost from now on."""
        self._neighbour(source, to, NOWHERE)

    def cut_both(self, one, other):
        self.cut(one, other)
        self.cut(other, one)

    def heal(self):
        for source in range(NODES + 1):
            for to in range(NODES + 1):
                if source != to:
                    self._neighbour(source, to, self.mac(to))

    def _neighbour(self, source, to, mac):
        ip("-n", self.spaces[source], "neigh", "replace", self.address(to), "lladdr", mac, "nud", "permanent", "dev", "eth0")

    def command(self, number, *words):
        return ["ip", "netns", "exec", self.spaces[number], *map(str, words)]

    def close(self):
        for space in [self.hub, *self.spaces]:
            ip("netns", "del", space, check=False)


class CutCluster:
    """Three nodes in their namespaces."""

    def __init__(self, network, rqlited, folder):
        self.network, self.processes = network, []
        join = ",".join(f"{network.address(node)}:4002" for node in range(NODES))
        for node in range(NODES):
            log = open(folder / f"n{node}.log", "ab")
            self.processes.append(subprocess.Popen(network.command(
                node, rqlited, "-node-id", f"n{node}", "-http-addr", f"{network.address(node)}:4001", "-raft-addr",
                f"{network.address(node)}:4002", "-bootstrap-expect", NODES, "-join", join, folder / f"n{node}"),
                stdout=log, stderr=log))
        end = time.monotonic() + 60
        while not all(self.get(node, "/readyz") for node in range(NODES)):
            if time.monotonic() > end:
                sys.exit("the nodes are not ready")
            time.sleep(0.2)

    def get(self, node, path):
        """The answer of a node, asked from its own namespace, whatever is cut."""
        url = f"http://{self.network.address(node)}:4001{path}"
        ask = "import sys, urllib.request as u; sys.stdout.write(u.urlopen(sys.argv[1], timeout=3).read().decode())"
        done = subprocess.run(self.network.command(node, sys.executable, "-c", ask, url), capture_output=True, text=True)
        return done.stdout if done.returncode == 0 else None

    def rows(self, node, sql):
        answer = self.get(node, f"/db/query?level=none&q={urllib.parse.quote(sql)}")
        return json.loads(answer)["results"][0].get("values", [])

    def leader(self):
        """The node that leads in the highest term."""
        found = []
        for node in range(NODES):
            raft = json.loads(self.get(node, "/status") or "{}").get("store", {}).get("raft", {})
            if raft.get("state") == "Leader":
                found.append((raft["term"], node))
        return max(found)[1] if found else None

    def url(self):
        return "rqlite://" + ",".join(f"{self.network.address(node)}:4001" for node in range(NODES))

    def close(self):
        for process in self.processes:
            process.kill()
            process.wait()


def cuts(network, leader):
    """Each kind of cut around a leader, by its name."""
    others = [node for node in range(NODES) if node != leader]

    def all_of(*steps):
        return lambda: [step() for step in steps]

    return {
        "leader | nodes": all_of(*[lambda it=it: network.cut_both(leader, it) for it in others]),
        "leader -> nodes": all_of(*[lambda it=it: network.cut(leader, it) for it in others]),
        "nodes -> leader": all_of(*[lambda it=it: network.cut(it, leader) for it in others]),
        "leader | callers": lambda: network.cut_both(leader, CALLERS),
        "leader -> callers": lambda: network.cut(leader, CALLERS),
        "callers -> leader": lambda: network.cut(CALLERS, leader),
        "leader | all": all_of(*[lambda it=it: network.cut_both(leader, it) for it in [*others, CALLERS]]),
    }


def cut_under(network, cluster, flags, count, words_for):
    """Cuts the network `count` times under a load, whose words `words_for` gives by its seconds; its output, its
    status, and the number of cuts."""
    words = words_for(int(count * (flags.seconds + 4) + 3))
    load = subprocess.Popen(network.command(CALLERS, *words), stdout=subprocess.PIPE, text=True)
    dice = random.Random(flags.seed)
    kinds = []
    while len(kinds) < count:
        names = list(cuts(network, 0))
        dice.shuffle(names)
        kinds += names
    done = []
    for kind in kinds[:count]:
        leader = cluster.leader()
        if leader is None or load.poll() is not None:
            time.sleep(1)
            continue
        cuts(network, leader)[kind]()
        time.sleep(flags.seconds)
        network.heal()
        done.append(kind)
        time.sleep(2)
    output, _ = load.communicate()
    print(f"{len(done)} cuts: {', '.join(done)}\n{output}", end="", flush=True)
    return output, load.returncode, len(done)


def check(found, what, longest, cuts_wanted):
    """Ends the process if the example has found a fault, or if a call took too long."""
    output, status, done = found
    if status != 0:
        sys.exit(f"{what}: the example has found faults")
    if done < cuts_wanted // 2:
        sys.exit(f"only {done} of {cuts_wanted} cuts were made")
    worst = float(re.search(longest + r" ([0-9.]+) s", output)[1])
    if worst > WORST_CALL_MAX_S:
        sys.exit(f"{what}: a call took {worst} s")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cuts", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=4, help="how long each cut lasts")
    parser.add_argument("--seed", type=int, default=1)
    flags = parser.parse_args()
    rqlited = found_rqlited()
    if os.name != "posix" or os.geteuid() != 0 or not shutil.which("ip"):
        print("skipped: partitions need root and ip, for namespaces of the network")
        return
    network = Network()
    with tempfile.TemporaryDirectory(prefix="rqlite-") as folder:
        cluster = None
        try:
            network.make()
            cluster = CutCluster(network, rqlited, pathlib.Path(folder))
            callers, queue = os.environ["EXAMPLE"], os.environ["QUEUE"]
            url = cluster.url()
            found = cut_under(network, cluster, flags, flags.cuts, lambda it: [callers, url, 64, it, "audit"])
            check(found, "Writer", "worst call", flags.cuts)
            found = cut_under(network, cluster, flags, flags.cuts, lambda it: [queue, "audit", url, it])
            check(found, "Queue", "the longest call:", flags.cuts)
            nodes_are_alike(cluster.rows)
            # Without the rows of groups, the same cuts must be found out.
            output, status, _ = cut_under(network, cluster, flags, 7, lambda it: [callers, url, 64, it, "control"])
            if status == 0 or re.search(r"twice (\d+)", output)[1] == "0":
                sys.exit("the cuts test nothing: without the rows of groups no call was applied twice")
            print("the control was applied twice, as it must be")
        finally:
            if cluster:
                cluster.close()
            network.close()


if __name__ == "__main__":
    main()
