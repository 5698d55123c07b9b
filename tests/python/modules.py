"""The modules of a crate, and which of them uses which.

Read from the text of the files: their `mod`, `use` and paths that begin with `crate`, `self`,
`super` or a module inside of the file's own. A name that a module only hands on (`pub use`) counts as use of the file that has it.
Tests are left out: files that are declared under `#[cfg(test)]`, and items under it.
"""

import pathlib
import re

# Comments (the first two), and texts: what is in them is no code.
NO_CODE = re.compile(
    r"""//[^\n]*|/\*.*?\*/|b?r(?P<hash>\#*)".*?"(?P=hash)|b?"(?:\\.|[^"\\])*"|b?'(?:\\.[^']*|[^'\\])'""",
    re.DOTALL,
)
USE = re.compile(r"(?P<handed_on>pub(?:\([^)]*\))?\s+)?use\s+(?P<tree>[^;]+);")
PATH = re.compile(r"\b(?:crate|self|super)(?:\s*::\s*\w+)+")
PATH_OF_CHILD = re.compile(r"(?<![\w:])(\w+)(?:\s*::\s*\w+)+")
MODULE = re.compile(r"(?P<attributes>(?:#\[[^\]]*\]\s*)*)(?:pub(?:\([^)]*\))?\s+)?mod\s+(?P<name>\w+)\s*;")
INNER_MODULE = re.compile(r"\bmod\s+\w+\s*\{")
TEST_ITEM = re.compile(r"#\[cfg\((?:test|all\(test\b[^\]]*|doctest|fuzzing)\)?\)?\]")


def without_texts(source):
    return NO_CODE.sub(lambda found: " " if found[0].startswith("/") else '""', source)


def with_inner_modules(code):
    """Code in whose inline modules (`mod name { … }`) `super` is `self`, as both are of this file."""
    for found in INNER_MODULE.finditer(code):
        end = end_of_item(code, found.start())
        inner = code[found.end() : end]
        # Of the same length, so that what was found stays where it is.
        code = code[: found.end()] + re.sub(r"(?<!::)\bsuper\b", " self", inner) + code[end:]
    return code


def without_tests(code):
    """Code without the items under `#[cfg(test)]`; modules of files stay, to be seen as tests."""
    kept, at = [], 0
    for found in TEST_ITEM.finditer(code):
        if found.start() < at:
            continue
        kept.append(code[at : found.start()])
        at = end_of_item(code, found.end())
    return "".join(kept) + code[at:]


def end_of_item(code, at):
    depth = 0
    while at < len(code):
        if code[at] == "{":
            depth += 1
        elif code[at] == "}":
            depth -= 1
            if depth == 0:
                return at + 1
        elif code[at] == ";" and depth == 0:
            return at + 1
        at += 1
    return at


def paths_of_tree(tree, before=()):
    """The paths of a `use`: `a::{b, c as d}` is (a, b) named b, and (a, c) named d."""
    tree = tree.strip()
    brace = tree.find("{")
    if brace >= 0:
        before = (*before, *(part for part in re.split(r"\s*::\s*", tree[:brace]) if part))
        inner, depth, start = tree[brace + 1 : tree.rfind("}")], 0, 0
        for at, letter in enumerate(inner + ","):
            depth += (letter == "{") - (letter == "}")
            if letter == "," and depth == 0:
                if inner[start:at].strip():
                    yield from paths_of_tree(inner[start:at], before)
                start = at + 1
        return
    path, _, name = tree.partition(" as ")
    path = (*before, *(part for part in re.split(r"\s*::\s*", path.strip()) if part))
    if path[-1] == "self" and len(path) > 1:
        path = path[:-1]
    yield path, name.strip() or path[-1]


class Crate:
    """A crate's files by their module paths, such as `("load", "flow")`."""

    def __init__(self, source):
        self.source = pathlib.Path(source)
        root = self.source / "lib.rs"
        self.files, self.code = {}, {}
        self.read((), root if root.exists() else self.source / "main.rs")
        self.handed_on = {module: self.names_handed_on(module) for module in self.files}

    def read(self, module, path):
        code = without_texts(path.read_text())
        tests = {
            found["name"] for found in MODULE.finditer(code) if TEST_ITEM.search(found["attributes"])
        }
        self.files[module] = path
        self.code[module] = with_inner_modules(without_tests(code))
        folder = path.parent if path.name in ("lib.rs", "main.rs", "mod.rs") else path.with_suffix("")
        for found in MODULE.finditer(self.code[module]):
            name = found["name"]
            if name in tests:
                continue
            for child in (folder / f"{name}.rs", folder / name / "mod.rs"):
                if child.exists():
                    self.read((*module, name), child)

    def absolute(self, module, path):
        """A path from the crate's root; `None` if it leads to another crate."""
        at, rest = None, list(path)
        while rest and rest[0] in ("crate", "self", "super"):
            word = rest.pop(0)
            at = () if word == "crate" else (module if at is None else at)
            if word == "super":
                at = at[:-1]
        if at is None:
            if (*module, path[0]) not in self.files:
                return None
            at = module
        return (*at, *rest)

    def names_handed_on(self, module):
        names = {}
        for found in USE.finditer(self.code[module]):
            for path, name in paths_of_tree(found["tree"]):
                names.setdefault(name, []).append(path)
        return names

    def owner(self, path, tries=8):
        """The module whose file has what a path names."""
        at = len(path)
        while path[:at] not in self.files:
            at -= 1
        module, rest = path[:at], path[at:]
        if not rest or tries == 0:
            return module
        for name in (rest[0], "*"):
            for other in self.handed_on[module].get(name, []):
                target = self.absolute(module, other)
                if target is None or target == path:
                    continue
                target = (*target[:-1], rest[0]) if name == "*" else target
                if name != "*" or f" {rest[0]}" in self.code.get(self.owner(target, 0), ""):
                    return self.owner((*target, *rest[1:]), tries - 1)
        return module

    def uses(self):
        """For each module the modules whose items it names, itself not among them."""
        arrows = {}
        for module, code in self.code.items():
            paths, without_use, at = [], [], 0
            for found in USE.finditer(code):
                without_use.append(code[at : found.start()])
                at = found.end()
                # What is only handed on is used by those who take it from here.
                if not found["handed_on"]:
                    paths += [path for path, _ in paths_of_tree(found["tree"])]
            without_use.append(code[at:])
            # `pub(in crate::queue)` says who may use an item, and uses nothing.
            rest = re.sub(r"pub\(in [^)]*\)", "", "".join(without_use))
            found_paths = [*PATH.finditer(rest), *PATH_OF_CHILD.finditer(rest)]
            # `absolute` drops those that begin with neither these words nor a child.
            paths += [tuple(re.split(r"\s*::\s*", found[0])) for found in found_paths]
            targets = (self.absolute(module, path) for path in paths)
            owners = {self.owner(target) for target in targets if target is not None}
            arrows[module] = owners - {module}
        return arrows


def circles(arrows):
    """The groups of two modules or more that all lead to one another, the largest first."""
    order, seen = [], set()

    def visit(start, arrows, found):
        stack = [(start, iter(arrows.get(start, ())))]
        seen.add(start)
        while stack:
            node, rest = stack[-1]
            following = next((other for other in rest if other not in seen), None)
            if following is None:
                stack.pop()
                found.append(node)
            else:
                seen.add(following)
                stack.append((following, iter(arrows.get(following, ()))))

    for node in arrows:
        if node not in seen:
            visit(node, arrows, order)
    back = {}
    for node, others in arrows.items():
        for other in others:
            back.setdefault(other, set()).add(node)
    seen.clear()
    groups = []
    for node in reversed(order):
        if node not in seen:
            group = []
            visit(node, back, group)
            if len(group) > 1:
                groups.append(sorted(group))
    return sorted(groups, key=len, reverse=True)
