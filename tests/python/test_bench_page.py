"""The page of `leafpress bench --html`, in a real Chromium, on a phone and on a desk.

Needs selenium (tests/python/requirements.txt) and the programs chromium and chromedriver
(`make test-tools`); where they are not, the tests of the browser say so and are skipped.
Run by `make test-python`, or by hand:
LEAFPRESS=target/release/leafpress python3 tests/python/test_bench_page.py
With LEAFPRESS_SCREENSHOTS=DIR the screenshots are kept there.
"""

import base64
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree
from pathlib import Path

try:
    from selenium import webdriver
    from selenium.webdriver import Keys
    from selenium.webdriver.chrome.service import Service
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.by import By
except ImportError:
    webdriver = None

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.dont_write_bytecode = True
import bench_reports  # Only now can it be found.

LEAFPRESS = os.environ.get("LEAFPRESS", "leafpress")
SCREENSHOTS = os.environ.get("LEAFPRESS_SCREENSHOTS")
CHROMIUM = next(filter(None, map(shutil.which, ["chromium", "chromium-browser", "google-chrome"])), None)
CHROMEDRIVER = shutil.which("chromedriver")
PHONE, SMALL_PHONE, DESK = (390, 844), (360, 740), (1280, 900)


def why_no_browser():
    """What is missing, or nothing."""
    if webdriver is None:
        return "selenium is not installed: pip install -r tests/python/requirements.txt"
    missing = [("chromium", CHROMIUM), ("chromedriver", CHROMEDRIVER)]
    missing = [name for name, path in missing if path is None]
    return f"{' and '.join(missing)} not found: make test-tools" if missing else None


def write_page(report, folder):
    """Draws a report; gives the page's path."""
    written = folder / "report.json"
    written.write_text(json.dumps(report))
    page = folder / "report.html"
    command = [LEAFPRESS, "bench", "--from", written, "--html", page]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode in (0, 1), done.stderr
    assert page.exists(), done.stderr
    return page


class Page(unittest.TestCase):
    """What holds of the file."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def text(self, report):
        """The page as it was written."""
        return write_page(report, self.folder).read_text()

    def test_every_report_gives_markup_without_faults(self):
        for make in [bench_reports.full, bench_reports.marked, bench_reports.hostile, bench_reports.old]:
            text = self.text(make())
            text = re.sub(r"<(style|script)>.*?</\1>", "", text, flags=re.DOTALL)
            text = re.sub(r"<(meta|br)([^<>]*)>", r"<\1\2/>", text.removeprefix("<!DOCTYPE html>"))
            root = xml.etree.ElementTree.fromstring(text)
            self.assertGreater(len(list(root.iter("svg"))), 2, make.__name__)

    def test_only_its_own_script_may_run(self):
        text = self.text(bench_reports.full())
        script = re.search(r"<script>(.*)</script>", text, re.DOTALL)[1]
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)[1]
        self.assertIn(f"script-src 'sha256-{digest}';", policy, "put this hash into html/mod.rs")

    def test_it_is_small_and_fetches_nothing(self):
        text = self.text(bench_reports.full())
        self.assertLess(len(text), 200_000)
        self.assertIn("default-src 'none'", text)
        for way in ["src=", "@import", "<link", "url(http", "fetch("]:
            self.assertNotIn(way, text)


@unittest.skipIf(why_no_browser(), why_no_browser() or "")
class Browser(unittest.TestCase):
    """What a reader sees."""

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = Path(folder.name)
        cls.pages = {}
        for make in [bench_reports.full, bench_reports.marked, bench_reports.hostile, bench_reports.old]:
            own = cls.folder / make.__name__
            own.mkdir()
            cls.pages[make.__name__] = write_page(make(), own)
        cls.screenshots = Path(SCREENSHOTS) if SCREENSHOTS else cls.folder
        cls.screenshots.mkdir(parents=True, exist_ok=True)

        options = webdriver.ChromeOptions()
        options.binary_location = CHROMIUM
        # Without a sandbox, as root in a container has none; the page is our own.
        for flag in ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                     "--hide-scrollbars", f"--user-data-dir={cls.folder / 'profile'}"]:
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        cls.driver = webdriver.Chrome(options=options, service=Service(CHROMEDRIVER))
        cls.addClassCleanup(cls.driver.quit)

    def open(self, name, size=DESK, scheme="light"):
        """Shows a page as this screen would; whatever the page complains of fails the test."""
        driver, (width, height) = self.driver, size
        is_phone = width < 600
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": is_phone}
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
        driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        for log in ["browser", "performance"]:
            driver.get_log(log)
        driver.get(self.pages[name].as_uri())
        self.addCleanup(self.check_logs, name)

    def check_logs(self, name):
        """No errors, and nothing but the file itself was read."""
        self.assertEqual(self.driver.get_log("browser"), [])
        asked = []
        for entry in self.driver.get_log("performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                asked.append(message["params"]["request"]["url"])
        own = self.pages[name].as_uri()
        self.assertEqual([url for url in asked if url.split("#")[0] != own], [])

    def script(self, text, *arguments):
        """What a script says of the page."""
        return self.driver.execute_script(text, *arguments)

    def keep(self, name):
        """A screenshot of what is in view."""
        shot = self.driver.execute_cdp_cmd("Page.captureScreenshot", {})
        (self.screenshots / f"{name}.png").write_bytes(base64.b64decode(shot["data"]))

    def bring(self, element):
        """Scrolls to it, and waits until the page has heard of it."""
        self.driver.execute_async_script(
            "arguments[0].scrollIntoView({block: 'center', behavior: 'instant'});"
            "requestAnimationFrame(() => requestAnimationFrame(arguments[1]));", element)

    def tip(self):
        """What the tip says, or nothing."""
        return self.script("const tip = document.getElementById('tip');"
                           "return tip.hidden ? null : tip.innerText.replaceAll('\\u00a0', ' ');")

    def bar(self, label):
        """The track of a row."""
        for row in self.driver.find_elements(By.CSS_SELECTOR, ".row"):
            if row.find_element(By.CSS_SELECTOR, ".label").text == label:
                return row.find_element(By.CSS_SELECTOR, ".track")
        raise AssertionError(f"no row {label}")

    def test_the_first_screen_says_what_to_do(self):
        for size in [PHONE, DESK]:
            for scheme in ["light", "dark"]:
                with self.subTest(size=size, scheme=scheme):
                    self.open("full", size, scheme)
                    self.keep(f"{size[0]}-{scheme}")
                    headline = self.driver.find_element(By.CSS_SELECTOR, ".lead .headline")
                    self.assertIn("28 times faster than SQLite's default, one thread each", headline.text)
                    lead = self.driver.find_element(By.CSS_SELECTOR, ".lead .times").text
                    self.assertRegex(lead, r"28×\nas fast as SQLite's default, one thread each\nanother run: \d")
                    for part in [headline, self.driver.find_element(By.CSS_SELECTOR, ".lead .number")]:
                        box = self.script("const b = arguments[0].getBoundingClientRect();"
                                          "return [b.top, b.bottom, b.left, b.right];", part)
                        self.assertGreaterEqual(min(box[0], box[2]), 0)
                        self.assertLessEqual(box[1], size[1])
                        self.assertLessEqual(box[3], size[0])

    def test_nothing_leaves_the_page_sideways(self):
        for name in self.pages:
            for size in [SMALL_PHONE, PHONE, (720, 900), DESK]:
                with self.subTest(name=name, size=size):
                    self.open(name, size)
                    width = self.script("return document.documentElement.scrollWidth;")
                    self.assertLessEqual(width, size[0])
                    self.script("document.querySelectorAll('details').forEach(it => it.open = true);")
                    width = self.script("return document.documentElement.scrollWidth;")
                    self.assertLessEqual(width, size[0], "with all tables open")

    def test_letters_do_not_overlap(self):
        """Of each chart: no text of a drawing lies on another one or leaves the screen."""
        overlaps = """
            const boxes = [...document.querySelectorAll('figure')].map(figure =>
              [...figure.querySelectorAll('svg text, .label, .loses')]
                .flatMap(text => [...text.getClientRects()].map(box => [text.textContent, box]))
                .filter(([, box]) => box.width > 0));
            const found = [];
            for (const texts of boxes) texts.forEach(([one, a], index) => {
              if (a.left < -1 || a.right > innerWidth + 1) found.push([one, 'off the screen']);
              for (const [other, b] of texts.slice(index + 1)) {
                const across = Math.min(a.right, b.right) - Math.max(a.left, b.left);
                const down = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
                if (across > 1 && down > 4) found.push([one, other]);
              }
            });
            return found;"""
        for size in [SMALL_PHONE, PHONE, DESK]:
            with self.subTest(size=size):
                self.open("full", size)
                self.assertEqual(self.script(overlaps), [])

    def test_a_bar_under_the_pointer_says_its_value(self):
        self.open("full")
        self.assertIsNone(self.tip())
        bar = self.bar("WAL + FULL")
        self.bring(bar)
        ActionChains(self.driver).move_to_element(bar).perform()
        self.assertIn("WAL + FULL: 89 ms", self.tip())
        self.assertIn("loses nothing", self.tip())
        self.keep("hover")
        ActionChains(self.driver).move_to_element(self.driver.find_element(By.TAG_NAME, "h2")).perform()
        self.assertIsNone(self.tip())

    def test_a_finger_does_the_same(self):
        self.open("full", PHONE)
        bar = self.bar("MEMORY + OFF")
        self.bring(bar)
        box = self.script("const b = arguments[0].getBoundingClientRect(); return [b.left, b.top];", bar)
        point = {"x": box[0] + 20, "y": box[1] + 10}
        send = self.driver.execute_cdp_cmd
        send("Input.dispatchTouchEvent", {"type": "touchStart", "touchPoints": [point]})
        send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
        tip = self.tip()
        self.assertIn("MEMORY + OFF: 71 ms", tip)
        self.assertIn("any crash can corrupt the file", tip)
        self.keep("touch")
        sides = self.script("const b = document.getElementById('tip').getBoundingClientRect();"
                            "return [b.left, b.right];")
        self.assertGreaterEqual(sides[0], 0)
        self.assertLessEqual(sides[1], PHONE[0])

    def test_the_keyboard_reaches_every_mark(self):
        self.open("full")
        self.script("document.querySelector('.experiment a, .lead a').focus();")
        seen = set()
        for _ in range(60):
            ActionChains(self.driver).send_keys(Keys.TAB).perform()
            # The page scrolls to what has the focus, and the tip must outlive that.
            self.driver.execute_async_script("requestAnimationFrame(() => requestAnimationFrame("
                                             "() => requestAnimationFrame(arguments[0])));")
            seen.add((self.tip() or "").split(":")[0])
        self.assertIn("WAL + FULL", seen)
        self.assertIn("leafpress, pressed", seen)
        # The first dot of a chart by the tab key, the next one by an arrow.
        self.assertIn("Cycle 1", seen)
        self.script("document.querySelector('.panel .plot circle').focus();")
        ActionChains(self.driver).send_keys(Keys.ARROW_RIGHT, Keys.ARROW_RIGHT).perform()
        self.assertIn("Cycle 3:", self.tip())
        ActionChains(self.driver).send_keys(Keys.ESCAPE).perform()
        self.assertIsNone(self.tip())

    def test_the_nearest_point_answers(self):
        self.open("full")
        for selector, words in [(".lines .plot", "batch "), (".panel .spike", "a checkpoint moved pages"),
                                (".course .plot", "slowest")]:
            mark = self.driver.find_element(By.CSS_SELECTOR, selector)
            self.bring(mark)
            ActionChains(self.driver).move_to_element(mark).perform()
            self.assertIn(words, self.tip() or "", selector)

    def test_marks_are_named_for_who_cannot_see_them(self):
        self.open("full")
        unnamed = self.script("return [...document.querySelectorAll('[role=img]')].filter(it =>"
                              "!it.getAttribute('aria-label') && !it.querySelector('title')).length;")
        self.assertEqual(unnamed, 0)
        self.assertGreater(self.script("return document.querySelectorAll('[role=img]').length;"), 200)

    def test_text_stands_out_from_its_ground(self):
        """WCAG AA: 4.5 to 1 for every colour that text has, in light and dark."""
        contrasts = """
            const light = colour => {
              const [r, g, b] = colour.match(/[\\d.]+/g).map(Number)
                .map(c => c / 255).map(c => c <= .03928 ? c / 12.92 : ((c + .055) / 1.055) ** 2.4);
              return .2126 * r + .7152 * g + .0722 * b;
            };
            const ground = element => {
              for (let it = element; it; it = it.parentElement) {
                const colour = getComputedStyle(it).backgroundColor;
                if (!colour.endsWith(', 0)')) return colour;
              }
            };
            const found = {};
            for (const element of document.querySelectorAll('main *')) {
              const own = [...element.childNodes].some(it => it.nodeType === 3 && it.data.trim());
              if (!own || element.tagName === 'title') continue;
              const style = getComputedStyle(element);
              const text = element.namespaceURI.endsWith('svg') ? style.fill : style.color;
              const [a, b] = [light(text), light(ground(element))];
              const ratio = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
              if (ratio < 4.5) found[element.getAttribute('class') || element.tagName] = [text, ratio];
            }
            return found;"""
        for scheme in ["light", "dark"]:
            with self.subTest(scheme=scheme):
                self.open("marked", DESK, scheme)
                self.assertEqual(self.script(contrasts), {})

    def test_hostile_names_stay_names(self):
        self.open("hostile")
        self.assertIsNone(self.script("return window.hacked ?? null;"))
        self.assertEqual(self.script("return document.querySelectorAll('script').length;"), 1)
        self.assertEqual(self.driver.find_elements(By.CSS_SELECTOR, "main img"), [])
        shown = self.driver.find_element(By.CSS_SELECTOR, ".machine").text
        self.assertIn("<script>window.hacked", shown)

    def test_what_must_not_be_hidden_is_on_the_first_screen(self):
        for size in [PHONE, DESK]:
            self.open("marked", size)
            self.keep(f"{size[0]}-marked")
            marks = self.driver.find_elements(By.CSS_SELECTOR, ".mark-loud")
            self.assertEqual(len(marks), 2)
            self.assertIn("An SD card", marks[0].text)
            self.assertIn("ctrl-C after the ladder", marks[1].text)
            self.assertLess(marks[1].rect["y"] + marks[1].rect["height"], size[1])

    def test_it_reads_without_its_script(self):
        self.driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
        enable = {"value": False}
        self.addCleanup(self.driver.execute_cdp_cmd, "Emulation.setScriptExecutionDisabled", enable)
        self.open("full")
        self.assertIn("28 times faster", self.driver.find_element(By.CSS_SELECTOR, ".lead").text)
        self.assertEqual(self.bar("WAL + FULL").find_element(By.TAG_NAME, "title")
                         .get_attribute("textContent").split("\n")[0].replace("\u00a0", " "),
                         "WAL + FULL: 89 ms")

    def test_it_prints_with_its_tables(self):
        self.open("full")
        paper = {"printBackground": True, "preferCSSPageSize": True}
        printed = base64.b64decode(self.driver.execute_cdp_cmd("Page.printToPDF", paper)["data"])
        (self.screenshots / "printed.pdf").write_bytes(printed)
        self.assertTrue(printed.startswith(b"%PDF-"))
        pages = len(re.findall(rb"/Type\s*/Page\b", printed))
        self.assertIn(pages, range(3, 13))
        media = {"media": "print", "features": []}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
        self.addCleanup(self.driver.execute_cdp_cmd, "Emulation.setEmulatedMedia", {"media": ""})
        heights = self.script("return [...document.querySelectorAll('details table')]"
                              ".map(it => it.getBoundingClientRect().height);")
        self.assertGreater(len(heights), 4)
        self.assertGreater(min(heights), 30, "every table is unfolded")


if __name__ == "__main__":
    unittest.main()
