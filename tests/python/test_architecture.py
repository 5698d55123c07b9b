"""That ARCHITECTURE.md says what the code says.

Its tables of modules are the first sentences of the files, its table of layers is the uses of
the library's folders among one another, and no circle of files is larger than is allowed.

`LEAFPRESS_WRITE=1 python3 tests/python/test_architecture.py` writes the tables anew: look at
the difference before it is committed, an arrow more is a decision.
"""

import os
import pathlib
import re
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))

from modules import Crate, circles

ROOT = pathlib.Path(__file__).resolve().parents[2]
ARCHITECTURE = ROOT / "ARCHITECTURE.md"
TABLE = re.compile(r"<!-- (modules|layers) of (\S+) -->\n(.*?)<!-- end -->", re.DOTALL)
# The most files that may lead to one another, where more than one may.
CIRCLE_FILES_MAX = {"leafpress": 3, "leafpress-vfs": 2, "leafpress-neighbour": 3}
# Folders that lead back to themselves by way of what is beside them.
FOLDER_CIRCLES = {
    "leafpress": {"input": [["block", "csv"]], "queue": [["due", "push", "schedule"], ["session", "stats"]]},
}
# Each family of rungs knows the trait of all, and `rung/kind.rs` lists the families.
NOT_LAYERED = {"leafpress-bench"}
CRATES = sorted(path.parent.parent for path in (ROOT / "crates").glob("*/src/*.rs") if path.name in ("lib.rs", "main.rs"))


def first_sentence(path):
    """What a file's documentation begins with."""
    begin = []
    for line in path.read_text().splitlines():
        words = line.removeprefix("//!").strip()
        if not line.startswith("//!") or (begin and not words):
            break
        begin.append(words)
    sentence = re.split(r"(?<=[a-z)`\]\d]\.)\s", " ".join(begin))[0]
    sentence = re.sub(r"\[`([^`]+)`\](\([^)]*\))?", r"`\1`", sentence)
    return sentence.rstrip(".").replace("|", "\\|")


def modules_table(source, known):
    """A row for each file or folder of a folder, in the order that is known, new ones at the end."""
    files = {}
    for path in sorted(source.iterdir()):
        folder = path / "mod.rs"
        if folder.exists() and path.name not in ("tests", "testing"):
            files[f"{path.name}/"] = folder
        elif path.suffix == ".rs" and path.name not in ("lib.rs", "main.rs", "mod.rs", "tests.rs"):
            files[path.name] = path
    order = [name for name in re.findall(r"^\| `([^`]+)` \|", known, re.MULTILINE) if name in files]
    names = order + [name for name in files if name not in order]
    lines = [f"| `{name}` | {first_sentence(files[name])} |" for name in names]
    return "\n".join(["| module | is |", "|---|---|", *lines, ""])


def rooms(arrows, inside=()):
    """Each folder or file of a folder, and those beside it that it uses."""
    found, depth = {}, len(inside)
    for module, others in arrows.items():
        if module[:depth] == inside and len(module) > depth:
            beside = {other[depth] for other in others if other[:depth] == inside and len(other) > depth}
            found.setdefault(module[depth], set()).update(beside - {module[depth]})
    return found


def layers_table(source, known):
    """A row for each folder or file of a crate that uses others, in the order that is known."""
    found = rooms(Crate(source).uses())
    order = [name for name in re.findall(r"^\| `([^`]+)` \|", known, re.MULTILINE) if name in found]
    order += sorted(name for name in found if name not in order)
    lines = []
    for name in filter(found.get, order):
        used = ", ".join(f"`{other}`" for other in sorted(found[name]))
        lines.append(f"| `{name}` | {used} |")
    return "\n".join(["| folder or file | uses |", "|---|---|", *lines, ""])


def written(found):
    make = modules_table if found[1] == "modules" else layers_table
    return f"<!-- {found[1]} of {found[2]} -->\n{make(ROOT / found[2], found[3])}<!-- end -->"


class Architecture(unittest.TestCase):
    maxDiff = None

    def test_its_tables_are_those_of_the_code(self):
        text = ARCHITECTURE.read_text()
        self.assertGreaterEqual(len(TABLE.findall(text)), 5, "the tables were not found")
        say = f"{__doc__.splitlines()[-3]} {__doc__.splitlines()[-2]}"
        self.assertEqual(TABLE.sub(written, text), text, say)

    def test_no_circle_of_files_is_larger_than_allowed(self):
        for crate in CRATES:
            most = CIRCLE_FILES_MAX.get(crate.name, 1)
            found = circles(Crate(crate / "src").uses())
            too_large = [["/".join(module) or "root" for module in group] for group in found if len(group) > most]
            self.assertEqual(too_large, [], crate.name)

    def test_no_folder_leads_back_to_itself(self):
        """By way of what is beside it. Circles of files alone are limited above."""
        for crate in CRATES:
            if crate.name in NOT_LAYERED:
                continue
            arrows = Crate(crate / "src").uses()
            found = {}
            for inside in sorted({module[:at] for module in arrows for at in range(len(module))}):
                for group in circles(rooms(arrows, inside)):
                    if any((*inside, name) == module[: len(inside) + 1] != module for name in group for module in arrows):
                        found.setdefault("/".join(inside), []).append(group)
            self.assertEqual(found, FOLDER_CIRCLES.get(crate.name, {}), crate.name)
        self.assertGreater(len(rooms(Crate(ROOT / "crates" / "leafpress" / "src").uses(), ("load",))), 12)

    def test_one_folder_has_unsafe_code(self):
        """In all that is published; `deny` is the workspace's, and an `allow` would lift it."""
        for crate in CRATES:
            if "publish = false" in (crate / "Cargo.toml").read_text():
                continue
            allowed = [path for path in crate.rglob("*.rs") if "allow(unsafe_code)" in path.read_text()]
            names = [str(path.relative_to(crate)) for path in allowed]
            if crate.name == "leafpress-vfs":
                self.assertEqual(names, ["src/c_api/mod.rs"])
                continue
            self.assertEqual(names, [], crate.name)
            root = next(path for path in (crate / "src/lib.rs", crate / "src/main.rs") if path.exists())
            self.assertIn("#![forbid(unsafe_code)]", root.read_text(), crate.name)

    def test_uses_and_circles_are_found(self):
        arrows = Crate(ROOT / "crates" / "leafpress" / "src").uses()
        self.assertIn(("sort", "limits"), arrows[("sort", "pool")])
        self.assertGreater(sum(map(len, arrows.values())), 500)
        queue = ("commands", "queue")
        command = Crate(ROOT / "crates" / "leafpress-cli" / "src").uses()
        self.assertIn((*queue, "settle"), command[queue], "a path that begins with a module inside")
        two = {"a": {"b"}, "b": {"c", "a"}, "c": {"d"}, "d": set()}
        self.assertEqual(circles(two), [["a", "b"]])
        self.assertEqual(circles({**two, "d": {"a"}}), [["a", "b", "c", "d"]])


if __name__ == "__main__":
    if os.environ.get("LEAFPRESS_WRITE"):
        ARCHITECTURE.write_text(TABLE.sub(written, ARCHITECTURE.read_text()))
    unittest.main()
