"""That every dependency has a licence that deny.toml allows, and none is there in two versions
that deny.toml does not name. `make deny` asks the same of cargo-deny, and more."""

import json
import os
import pathlib
import re
import subprocess
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
CARGO = os.environ.get("CARGO", "cargo")


def listed(name):
    """A list of deny.toml."""
    text = re.sub(r"^#.*$", "", (ROOT / "deny.toml").read_text(), flags=re.MULTILINE)
    return set(re.findall(r'"([^"]+)"', re.search(rf"^{name} = \[(.*?)\]", text, re.MULTILINE | re.DOTALL)[1]))


def is_allowed(licence, allowed):
    """Whether one may choose licences of those that are allowed; `/` is an old word for OR."""
    words = re.findall(r"\(|\)|[^\s()/]+(?: WITH [^\s()]+)?|/", licence)
    python = {"OR": "or", "/": "or", "AND": "and", "(": "(", ")": ")"}
    return eval(" ".join(python.get(word, str(word in allowed)) for word in words))


class Dependencies(unittest.TestCase):
    def setUp(self):
        command = [CARGO, "metadata", "--locked", "--format-version", "1"]
        told = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        self.assertEqual(told.returncode, 0, told.stderr)
        self.packages = json.loads(told.stdout)["packages"]
        self.assertGreater(len(self.packages), 100)

    def test_each_has_a_licence_that_is_allowed(self):
        allowed = listed("allow")
        others = {
            package["name"]: package["license"]
            for package in self.packages
            if not is_allowed(package["license"] or "none", allowed)
        }
        self.assertEqual(others, {})

    def test_none_is_there_twice_but_those_that_are_known(self):
        versions = {}
        for package in self.packages:
            versions.setdefault(package["name"], set()).add(package["version"])
        twice = {name for name, those in versions.items() if len(those) > 1}
        self.assertEqual(twice, listed("skip"))

    def test_choices_among_licences_are_understood(self):
        allowed = {"MIT", "Zlib", "Apache-2.0 WITH LLVM-exception"}
        for licence, is_one in {
            "MIT/Apache-2.0": True,
            "(GPL-3.0 OR MIT) AND Zlib": True,
            "(GPL-3.0 OR MIT) AND BSD-3-Clause": False,
            "Apache-2.0 WITH LLVM-exception": True,
            "Apache-2.0": False,
            "none": False,
        }.items():
            self.assertEqual(is_allowed(licence, allowed), is_one, licence)
