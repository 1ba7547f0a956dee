"""Takes the server away from a site for a while, as a deploy does, while visitors in Chromium go on.

    PYTHONPATH=tests python -m reliability.outage --seconds 60

A proxy in front of the site has the script and answers 502 for everything else while the server is gone. Visitors come
before, during and after the outage, each by a campaign of their own, and read three pages; the last one orders. With consent,
no page view and no order is lost or doubled, and each visitor's visit and order are the campaign's. Without consent, whoever
stays on a page that could not be sent is counted too; who leaves the landing page in the outage has the campaign all the same.
"""

import argparse
import contextlib
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import duckdb
import requests
from reliability.command_line import exit_code
from reliability.kill_rounds import SERVE
from support.listening import listening
from support.website import ARGUMENTS, CHROMIUM

import attrib_ds as at
from attrib_ds.service.http.pages import tracking_script

PAGES = ("/", "/boots", "/thanks")
#: How long what was not accepted may wait until it is sent again.
SECONDS_TO_SETTLE = 90
FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:130.0) Gecko/20100101 Firefox/130.0"
PASSED = ("Origin", "Referer", "User-Agent", "Sec-Fetch-Site", "Content-Type", "Cookie")
SERVE_BEHIND = SERVE.replace("rate_limits=None", "rate_limits=None, behind_proxy=('127.0.0.1',)")


@dataclass
class Site:
    """The shop and, below ``/stats/``, the service, both behind one address."""

    service: str | None = None
    url: str = ""
    #: Number of requests that found no server.
    refused: int = 0

    def answer(self, method, path, headers, body):
        if path == "/stats/t.js":
            return 200, {"Content-Type": "text/javascript"}, tracking_script().content
        if path == "/favicon.ico":
            return 404, {}, b""
        if not path.startswith("/stats/"):
            return 200, {"Content-Type": "text/html"}, self.page(path)
        passed = {name: headers[name] for name in PASSED if name in headers}
        # One address for each visitor, whom each page names.
        passed["X-Forwarded-For"] = f"203.0.113.{number_in(headers['Referer'])}"
        with contextlib.suppress(requests.RequestException):
            if self.service is not None:
                url = self.service + path.removeprefix("/stats")
                reply = requests.request(method, url, data=body, headers=passed, timeout=30)
                return reply.status_code, dict(reply.headers), reply.content
        self.refused += 1
        return 502, {}, b""

    def page(self, path):
        number = number_in(path)
        consent = 'data-consent="granted"' if agrees(number) else ""
        links = "".join(f'<a id="{page[1:]}" href="{page}?visitor={number}">go</a>' for page in PAGES[1:])
        content = f'<script async src="/stats/t.js" data-project="shop" {consent}></script>{links}'
        if path.startswith("/thanks"):
            order = f'["event", "order", {{}}, {{nonce: "order-{number}"}}]'
            content += f"<script>(window.attrib ||= []).push({order})</script>"
        return f"<!DOCTYPE html><title>Shop</title>{content}".encode()


def number_in(url):
    return int(url.rpartition("visitor=")[2])


def agrees(number):
    return number % 2 == 0


@contextmanager
def serving(site):
    """Serve a site."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self.respond(None)

        def do_POST(self):
            self.respond(self.rfile.read(int(self.headers["Content-Length"])))

        def respond(self, body):
            status, headers, content = site.answer(self.command, self.path, self.headers, body)
            self.send_response(status)
            for name in ("Content-Type", "Retry-After", "Set-Cookie"):
                if name in headers:
                    self.send_header(name, headers[name])
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_):
            pass

    with listening(Handler) as port:
        site.url = f"http://127.0.0.1:{port}"
        yield


@contextmanager
def served(home, site):
    """Run a server for the site in a process of its own, and stop it as a deploy does."""
    command = [sys.executable, "-c", SERVE_BEHIND, str(home)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            site.service = process.stdout.readline().split()[-1]
            yield
        finally:
            site.service = None
            process.terminate()
            process.wait(60)


class Visitor:
    """A browser of its own."""

    def __init__(self, chromium, site, number):
        self.number, self.site = number, site
        self.page = chromium.new_context().new_page()
        self.seen = 0

    def go_on(self):
        """Open the next page: the landing page, or a link on the present one."""
        page = PAGES[self.seen]
        if page == "/":
            query = f"utm_source=news&utm_medium=email&utm_campaign=c{self.number}"
            self.page.goto(f"{self.site.url}/?{query}&visitor={self.number}")
        else:
            with self.page.expect_navigation():
                self.page.click(f"#{page[1:]}")
        self.page.wait_for_load_state()
        self.seen += 1


@dataclass(frozen=True)
class Summary:
    problems: list[str]
    visitors: int
    refused: int
    #: Page views of visitors without consent who left the page in the outage.
    lost: int


def run(seconds: float) -> Summary:
    """Take the server away for some seconds; visitors come before, in and after that time."""
    from playwright.sync_api import sync_playwright

    site, visitors = Site(), []
    with tempfile.TemporaryDirectory() as temporary, ExitStack() as stack:
        home = Path(temporary)
        with at.connect("shop", path=home / "shop.duckdb") as shop:
            at.create_event_type(shop, "order", name="Order")
        stack.enter_context(serving(site))
        driver = stack.enter_context(sync_playwright())
        # Requests of pages that are left have the user agent of the browser, not that of a context.
        arguments = [*ARGUMENTS, f"--user-agent={FIREFOX}"]
        chromium = driver.chromium.launch(executable_path=CHROMIUM, args=arguments)
        stack.callback(chromium.close)

        def come():
            for _ in range(2):
                visitors.append(Visitor(chromium, site, len(visitors)))
                visitors[-1].go_on()

        with served(home, site):
            come()  # reads the next pages in the outage
            come()  # reads them afterwards
            settle(visitors)
        come()
        come()
        for visitor in (*visitors[:2], *visitors[4:6]):
            visitor.go_on()
        visitors[0].page.wait_for_timeout(1_000 * seconds)
        with served(home, site):
            for visitor in visitors:
                while visitor.seen < len(PAGES):
                    visitor.go_on()
                    visitor.page.wait_for_timeout(200)
            settle(visitors)
        return examine(home / "shop.duckdb", visitors, site.refused)


def settle(visitors):
    """Wait until nothing waits in the browsers any more."""
    deadline = time.monotonic() + SECONDS_TO_SETTLE
    waits = "Object.keys(localStorage).length"
    for visitor in visitors:
        visitor.page.wait_for_timeout(300)
        while visitor.page.evaluate(waits) and time.monotonic() < deadline:
            visitor.page.wait_for_timeout(200)


def examine(file, visitors, refused) -> Summary:
    """Hold what is stored against what the visitors did."""
    with closing(duckdb.connect(file, read_only=True)) as connection:
        stored = connection.execute(
            "SELECT regexp_extract(\"pageUrl.search\", 'visitor=([0-9]+)', 1), "
            'list("pageUrl.pathname" ORDER BY serverDate), '
            "list(DISTINCT sessionId), list(DISTINCT interactions.nodeId) "
            "FROM hits JOIN interactions ON sessionId = interactions._id GROUP BY ALL"
        ).fetchall()
        orders = connection.execute(
            "SELECT nonce, (SELECT list(nodeId) FROM interactions WHERE interactions.userId = events.userId) "
            "FROM events JOIN raw_events USING (_id)"
        ).fetchall()
    problems, lost = [], 0
    views = {int(number): rest for number, *rest in stored}
    if sorted(nonce for nonce, _ in orders) != sorted(f"order-{visitor.number}" for visitor in visitors):
        problems.append(f"orders {sorted(nonce for nonce, _ in orders)}")
    for visitor in visitors:
        name = f"visitor {visitor.number} {'with' if agrees(visitor.number) else 'without'} consent"
        pages, sessions, nodes = views.get(visitor.number, ([], [], []))
        source = f"news/email/c{visitor.number}"
        lost += len(PAGES) - len(pages)
        if (
            nodes != [source]
            or len(sessions) != 1
            or [nodes] != [of for nonce, of in orders if nonce == f"order-{visitor.number}"]
        ):
            problems.append(f"{name}: {len(sessions)} visits of {nodes}, instead of one of {source}")
        if agrees(visitor.number) and pages != list(PAGES):
            problems.append(f"{name}: views of {pages}")
    return Summary(problems, len(visitors), refused, lost)


def main() -> int:
    parser = argparse.ArgumentParser(description="Take the server away from a site for a while.")
    parser.add_argument("--seconds", type=float, default=60)
    summary = run(parser.parse_args().seconds)
    print(f"{summary.visitors} visitors, {summary.refused} requests without a server")
    print(f"{summary.lost} views without consent are lost")
    return exit_code(summary.problems)


if __name__ == "__main__":
    sys.exit(main())
