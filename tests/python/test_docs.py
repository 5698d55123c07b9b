"""That the documents agree with one another and with the command.

Every ratio in README.md is one of docs/benchmarks.md; every link from one document to another
leads somewhere; and the console examples of README.md and of the first minute with a queue
are run, and print what is shown.

An example that cannot be run says so in a comment before it: `<!-- not run: why -->`.
"""

import os
import pathlib
import pty
import re
import select
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
sys.dont_write_bytecode = True

from site_links import broken

ROOT = pathlib.Path(__file__).resolve().parents[2]
DOCUMENTS = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), ROOT / "rivals" / "README.md"]
LEAFPRESS = os.environ.get("LEAFPRESS", "leafpress")
# Each example has so long; it is a limit for what hangs.
SECONDS_MAX = 120
NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")


def rows(path):
    """The cells of each row of each table."""
    for line in path.read_text().splitlines():
        if line.startswith("|"):
            yield [cell.strip() for cell in line.strip("|").split("|")]


def ratios(cell):
    """The names of ratios in a cell: what stands in backticks and has an underscore or a digit.

    `name_…` stands for all that begin so, `_name` for all that end so."""
    names = re.findall(r"`([a-z_][a-z0-9_]+…?)`", cell)
    return [name for name in names if re.search(r"[_0-9]|^alone$", name)]


def is_meant(name, other):
    """Whether a name of README.md means a ratio of docs/benchmarks.md."""
    if other.endswith("…"):
        return name.startswith(other[:-1])
    if name.startswith("_"):
        return other.endswith(name)
    return other == name or other.startswith(name + "_")


def numbers(text):
    return [float(number.replace(",", "")) for number in NUMBER.findall(text)]


def agree(one, other):
    """Whether a number is another one, rounded."""
    return abs(one - other) <= max(0.06 * abs(other), 0.006)


def anchors(path):
    """The names under which the headings of a document can be reached."""
    headings = re.findall(r"^#+ (.*)$", path.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


class Example:
    """A console block: its command lines, each with what is shown below it."""

    def __init__(self, document, text, reason):
        self.document, self.reason = document, reason
        self.commands = []
        for line in text.splitlines():
            if line.startswith("$ "):
                self.commands.append((line[2:], []))
            elif self.commands:
                self.commands[-1][1].append(line)


def examples(path, heading=None):
    """The console blocks of a document, or of what stands under one of its headings."""
    text = path.read_text()
    if heading is not None:
        text = text.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    block = re.compile(r"(?:<!-- not run: (.*?) -->\n)?```console\n(.*?)\n```", re.DOTALL)
    return [Example(path.name, text, reason) for reason, text in block.findall(text)]


def command_lines(path):
    """The words behind `leafpress` of each command line in a document, up to a comment, a pipe or
    a program that is run for each job."""
    text = path.read_text()
    lines = re.findall(r"^(?:\$ |.*\| |sudo )?leafpress ([a-z].*)$", text, re.MULTILINE)
    lines += re.findall(r"`(?:sudo )?leafpress ([a-z][^`]*)`", re.sub(r"```.*?```", "", text, flags=re.DOTALL))
    for line in lines:
        line = re.split(r"\s#\s|\s\|\s|\s--exec\b|\s--shell\b", line)[0]
        words = re.sub(r"'[^']*'|\"[^\"]*\"", "text", line).split()
        yield [word.strip("[](),;…") for word in words]


def run(command, folder):
    """What a command line prints, then what it says on stderr, and its status."""
    path = f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["sh", "-c", command],
        cwd=folder,
        env={**os.environ, "PATH": path, "LEAFPRESS_CACHE": str(folder / "cache")},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=SECONDS_MAX,
    )
    printed, said = done.stdout.decode(), done.stderr.decode()
    begin = "\n" if printed and said and not printed.endswith("\n") else ""
    return printed + begin + said, done.returncode


MEASURED = re.compile(r"\d[\d.,]* ?(?:[kMG] )?(?:rows/s|(?:ns|µs|ms|s|kB|MB|GB|KiB|MiB)(?:/s)?)(?!\w)")


def normal(text):
    """Lines without their blanks, and what was measured as `#`."""
    lines = [" ".join(line.split()) for line in text.splitlines()]
    return MEASURED.sub("#", "\n".join(line for line in lines if line))


def pattern(shown):
    """What is shown, as a pattern in which `...` stands for anything."""
    return re.compile(re.escape(normal("\n".join(shown))).replace(r"\.\.\.", ".*"), re.DOTALL)


class Examples(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        shutil.copytree(ROOT / "examples", self.folder / "examples")
        (self.folder / "bin").mkdir()
        program = shutil.which(LEAFPRESS)
        self.assertIsNotNone(program, f"{LEAFPRESS} is not there; LEAFPRESS names the command")
        (self.folder / "bin" / "leafpress").symlink_to(pathlib.Path(program).resolve())

    def check(self, all_of_them):
        """Runs the examples, one after the other; how many command lines there were."""
        count = 0
        for example in all_of_them:
            if example.reason:
                print(f"{example.document}: not run, {example.reason}: {example.commands[0][0]}")
                continue
            for command, shown in example.commands:
                command = command.replace("cargo run --release -- ", "leafpress ")
                program = command.split()[0]
                if program != "leafpress" and shutil.which(program) is None:
                    print(f"{example.document}: skipped, {program} is not installed: {command}")
                    continue
                said, status = run(command, self.folder)
                about = f"{example.document}: {command}\n{said}"
                self.assertEqual(status, 0, about)
                self.assertRegex(normal(said), pattern(shown), about)
                count += 1
        return count

    def test_those_of_the_readme_run_and_print_what_is_shown(self):
        self.assertGreater(self.check(examples(ROOT / "README.md")), 7, "they were not found")

    def test_those_of_the_queue_run_and_print_what_is_shown(self):
        queue = ROOT / "docs" / "queue.md"
        self.assertGreater(self.check(examples(queue, "A first job in a minute")), 4)

    def test_every_flag_of_a_command_line_in_a_document_is_one_of_the_command(self):
        helps = {}
        checked = 0
        for document in DOCUMENTS:
            for words in command_lines(document):
                depth = 1
                if words[0] in ("queue", "shards"):
                    depth = 3 if words[1:2] == ["schedule"] else 2
                command = [word for word in words[:depth] if re.fullmatch("[a-z]+", word)]
                command = tuple(command)
                if command not in helps:
                    said, status = run(f"leafpress {' '.join(command)} --help", self.folder)
                    helps[command] = said if status == 0 else None
                known = helps[command]
                about = f"{document.name}: leafpress {' '.join(words)}"
                self.assertIsNotNone(known, about)
                for flag in [word.split("=")[0] for word in words if re.match(r"--[a-z]", word)]:
                    self.assertRegex(known, rf"{flag}(?![\w-])", about)
                    checked += 1
        self.assertGreater(checked, 30, "the command lines were not found")

    def test_a_summary_begins_a_line_on_a_terminal(self):
        """Where a program ends no line, as `cat` of docs/queue.md, and where it does."""
        run("leafpress queue push jobs.db mail '{\"to\": \"ann\"}'", self.folder)
        shown = on_a_terminal(["leafpress", *"queue work jobs.db mail --until-empty --exec cat".split()], self.folder)
        self.assertRegex(shown, r'\{"to": "ann"\}\r\n1 job in [\d.]+ \w+: 1 done\r\n$')
        shown = on_a_terminal(["leafpress", *"queue work jobs.db mail --until-empty --exec cat".split()], self.folder)
        self.assertRegex(shown, r"^no jobs in ", "nothing was written before it")

    def test_what_is_shown_and_not_printed_is_found(self):
        said = normal("loaded 464 rows into table cities\n\n  read  464 rows  26.7 kB\n  time  1.4 ms")
        self.assertRegex(said, pattern(["loaded 464 rows into table cities", "  ...", "time 2.4 s"]))
        self.assertNotRegex(said, pattern(["loaded 9 rows into table cities"]))
        self.assertNotRegex(said, pattern(["loaded 464 rows into table city"]))
        self.assertNotRegex(said, pattern(["time 2.4 s", "read 464 rows"]))


def on_a_terminal(words, folder):
    """What a terminal shows of a command."""
    terminal, its_end = pty.openpty()
    env = {**os.environ, "PATH": f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}", "TERM": "xterm", "NO_COLOR": "1"}
    process = subprocess.Popen(words, cwd=folder, stdin=its_end, stdout=its_end, stderr=its_end, env=env)
    os.close(its_end)
    shown = b""
    try:
        while select.select([terminal], [], [], SECONDS_MAX)[0]:
            piece = os.read(terminal, 4096)
            if not piece:
                break
            shown += piece
    except OSError:
        pass  # Linux says so where the other end is closed.
    finally:
        os.close(terminal)
        process.wait(SECONDS_MAX)
    return shown.decode()


class Documents(unittest.TestCase):
    def test_every_ratio_of_the_readme_is_in_the_benchmarks(self):
        measured = {}
        for cells in rows(ROOT / "docs" / "benchmarks.md"):
            # Of the rows that begin with a ratio, and of those that name one in words.
            for name in ratios(cells[0]):
                measured.setdefault(name, []).extend(numbers(" ".join(cells[1:])))
        checked = 0
        for cells in rows(ROOT / "README.md"):
            names = ratios(cells[0])
            if not names:
                continue
            figures = numbers(cells[-1])
            known = [
                figure
                for other, of_it in measured.items()
                if any(is_meant(name, other) for name in names)
                for figure in of_it
            ]
            for figure in figures:
                self.assertTrue(
                    any(agree(figure, it) for it in known),
                    f"README says {figure} for {names}, docs/benchmarks.md {known}",
                )
                checked += 1
        self.assertGreater(checked, 5, "the table was not found")

    def test_every_document_is_a_page_of_the_site(self):
        summary = (ROOT / "docs" / "book" / "SUMMARY.md").read_text()
        pages = set(re.findall(r"\]\(([^)]+)\)", summary))
        documents = {str(document.relative_to(ROOT)) for document in DOCUMENTS}
        self.assertEqual(pages, documents)

    def test_links_between_documents_lead_somewhere(self):
        checked = 0
        for document in DOCUMENTS:
            text = re.sub(r"```.*?```", "", document.read_text(), flags=re.DOTALL)
            for target in re.findall(r"\]\(([^)\s]+)\)", text):
                if re.match(r"[a-z]+:", target):
                    continue
                file, _, anchor = target.partition("#")
                path = (document.parent / file) if file else document
                self.assertTrue(path.exists(), f"{document.name}: {target}")
                if anchor and path.suffix == ".md":
                    self.assertIn(anchor, anchors(path), f"{document.name}: {target}")
                checked += 1
        self.assertGreater(checked, 50, "the links were not found")

    def test_a_link_of_the_site_that_leads_nowhere_is_found(self):
        with tempfile.TemporaryDirectory() as folder:
            site = pathlib.Path(folder)
            (site / "docs").mkdir()
            (site / "index.html").write_text(
                '<h2 id="here"></h2><a href="#here"></a><a href="https://example.org/none"></a>'
                '<a href="docs/one.html#there"></a><a href="docs/one.html#here"></a><a href="two.html"></a>'
            )
            (site / "docs" / "one.html").write_text('<h2 id="there"></h2><a href="../index.html#here"></a>')
            self.assertEqual(
                broken(site),
                (5, ["index.html: docs/one.html#here: no such heading", "index.html: two.html: no such file"]),
            )


if __name__ == "__main__":
    unittest.main()
