"""That the documents agree: every ratio in README.md is one of docs/benchmarks.md, and
every link from one document to another leads somewhere."""

import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
DOCUMENTS = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]
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
        self.assertGreater(checked, 20, "the tables were not found")

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


if __name__ == "__main__":
    unittest.main()
