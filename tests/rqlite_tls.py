"""HTTPS with a certificate authority of one's own: one real node of rqlite, first with a certificate of its own
only, then one that asks clients for theirs. A load, its rows, and the doctor; and what must be refused.

`make test-rqlite` runs it: RQLITED names the server, LEAFPRESS the command with its feature rqlite; openssl makes
the certificates. Without them it says "skipped" and why.
"""

import json
import os
import pathlib
import shutil
import ssl
import subprocess
import tempfile
import time
import urllib.request

from rqlite_cluster import found_rqlited, free_ports
from rqlite_load import load


def openssl(folder, *words):
    subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True)


def certificates(folder):
    """An authority, and a certificate of the node and of a client by it."""
    for name in ("ca", "other"):
        openssl(folder, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", f"{name}.key", "-out", f"{name}.pem",
                "-subj", f"/CN=authority {name}", "-days", "2", "-addext", "basicConstraints=critical,CA:TRUE")
    for name, usage in (("node", "subjectAltName=IP:127.0.0.1\nextendedKeyUsage=serverAuth"), ("client", "extendedKeyUsage=clientAuth")):
        openssl(folder, "req", "-newkey", "rsa:2048", "-nodes", "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", f"/CN={name}")
        (folder / f"{name}.ext").write_text(f"basicConstraints=CA:FALSE\n{usage}\n")
        openssl(folder, "x509", "-req", "-in", f"{name}.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial",
                "-out", f"{name}.pem", "-days", "2", "-extfile", f"{name}.ext")


class Node:
    def __init__(self, rqlited, folder, name, *flags):
        http, raft = free_ports(2)
        self.place, self.folder = f"127.0.0.1:{http}", folder
        log = open(folder / f"{name}.log", "ab")
        self.process = subprocess.Popen(
            [rqlited, "-node-id", name, "-http-addr", self.place, "-raft-addr", f"127.0.0.1:{raft}", "-http-cert",
             folder / "node.pem", "-http-key", folder / "node.key", *flags, folder / name], stdout=log, stderr=log)
        self.context = ssl.create_default_context(cafile=folder / "ca.pem")
        self.context.load_cert_chain(folder / "client.pem", folder / "client.key")
        end = time.monotonic() + 30
        while not self.get("/readyz"):
            assert time.monotonic() < end, "the node is not ready"
            time.sleep(0.1)

    def get(self, path, body=None):
        try:
            request = urllib.request.Request(f"https://{self.place}{path}", body, {"Content-Type": "application/json"})
            with urllib.request.urlopen(request, timeout=5, context=self.context) as answer:
                return answer.read()
        except OSError:
            return None

    def rows(self, table):
        return json.loads(self.get("/db/query", json.dumps([[f"SELECT count(*) FROM {table}"]]).encode()))["results"][0]["values"][0][0]

    def close(self):
        self.process.kill()
        self.process.wait()


def main():
    rqlited = found_rqlited()
    if not shutil.which("openssl"):
        print("skipped: there is no openssl")
        return
    with tempfile.TemporaryDirectory(prefix="rqlite-") as folder:
        folder = pathlib.Path(folder)
        certificates(folder)
        (folder / "t.csv").write_text("a\n1\n2\n")
        ca, other = f"ca={folder}/ca.pem", f"ca={folder}/other.pem"
        own = f"cert={folder}/client.pem&key={folder}/client.key"
        for name, flags, right in (
            ("open", [], ca),
            ("asks", ["-http-ca-cert", folder / "ca.pem", "-http-verify-client"], f"{ca}&{own}"),
        ):
            node = Node(rqlited, folder, name, *flags)
            try:
                refused = [f"rqlites://{node.place}", f"rqlites://{node.place}?{other}", f"rqlite://{node.place}"]
                refused += [f"rqlites://{node.place}?{ca}"] if flags else []
                for url in refused:
                    done = load(url, folder / "t.csv")
                    assert done.returncode == 3, (url, done)
                for table in ("first", "second"):
                    done = load(f"rqlites://{node.place}?{right}", folder / "t.csv", "--table", table)
                    assert done.returncode == 0, done
                    assert node.rows(table) == 2
                doctor = [os.environ["LEAFPRESS"], "doctor", f"rqlites://{node.place}?{right}", "--json"]
                report = json.loads(subprocess.run(doctor, capture_output=True, check=True).stdout)
                assert report["healthy"] and len(report["cluster"]["nodes"]) == 1, report
            finally:
                node.close()
        print("nodes with certificates of a private authority are reached, and others are not")


if __name__ == "__main__":
    main()
