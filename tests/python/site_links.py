"""Checks each link of the site that `make docs` has made: python3 site_links.py FOLDER.

A link inside the site must lead to a file of the site, and its anchor to an element of that page.
Links to other sites are not followed, as a check must work without a network.
"""

import html.parser
import pathlib
import sys
import urllib.parse


class Page(html.parser.HTMLParser):
    """The links of a page, and the names that links to it can have."""

    def __init__(self, path):
        super().__init__()
        self.links, self.names = [], set()
        self.feed(path.read_text())

    def handle_starttag(self, tag, attributes):
        for name, value in attributes:
            if name in ("href", "src") and value and not urllib.parse.urlsplit(value).scheme:
                self.links.append(value)
            if name == "id":
                self.names.add(value)


def broken(folder):
    """The number of links in a site, and those that lead nowhere."""
    # One page repeats all others, and one stands for any address.
    paths = [path for path in folder.rglob("*.html") if path.name not in ("print.html", "404.html", "toc.html")]
    pages = {path.resolve(): Page(path) for path in paths}
    count, wrong = 0, []
    for path, page in pages.items():
        for link in page.links:
            count += 1
            file, _, anchor = link.partition("#")
            target = (path.parent / urllib.parse.unquote(file)).resolve() if file else path
            if not target.is_file():
                wrong.append(f"{path.name}: {link}: no such file")
            elif anchor and target in pages and urllib.parse.unquote(anchor) not in pages[target].names:
                wrong.append(f"{path.name}: {link}: no such heading")
    return count, wrong


def main():
    count, wrong = broken(pathlib.Path(sys.argv[1]))
    for line in wrong:
        print(line, file=sys.stderr)
    if wrong or count < 100:
        sys.exit(f"{len(wrong)} of {count} links lead nowhere, or the pages were not found")
    print(f"all {count} links of the site lead somewhere")


if __name__ == "__main__":
    main()
