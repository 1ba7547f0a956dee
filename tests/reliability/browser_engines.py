"""What sites meet in Chromium, Firefox and WebKit, measured by the tracking script and read from the project.

Run it by hand before a release, ``python tests/reliability/browser_engines.py [ENGINE …]``; a small run is a test.
"""

import json
import re
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import closing, contextmanager, suppress
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import duckdb
import requests

sys.path.insert(0, str(Path(__file__).parents[1]))

from support.browsers import PROGRAMS, browser, missing
from support.listening import listening

import attrib_ds as at
from attrib_ds.service.http.server import ServerOptions, running

SPRING = "/?utm_source=google&utm_medium=cpc&utm_campaign=spring"
NODE = "google/cpc/spring"
_YES = 'data-consent="granted"'
_LONGEST = 120
_PASSED = ("Origin", "Referer", "User-Agent", "Sec-Fetch-Site", "Content-Type", "Cookie")
_TAG = '<script async src="/stats/t.js" data-project="shop" {}></script>'
#: Pages by their path: what is in them beside the script, and the script's attributes.
PAGES = {
    "order": (
        "<script>attrib = [['event', 'order', {}, {nonce: location.search.slice(-36)}]]</script>",
        _YES,
    ),
    "refused": (
        "<script>Object.defineProperty(document, 'cookie', {get: () => '', set() {}})</script>",
        _YES,
    ),
    "replacing": ("<script>location.replace('/yes')</script>", _YES),
    "yes": ("", _YES),
    "frames": ("<iframe src='/yes?1'></iframe><iframe src='/yes?2'></iframe>", None),
    "module": ("<script type=module src='/stats/t.js' data-project=shop></script>", None),
    "away": ("", None),
    "plain": ("", ""),
}


class World:
    """A site with the service below ``/stats/``; ``sent`` has what its pages send, by the situation."""

    def __init__(self, service):
        self.service = service
        self.sent = []
        self.lock = threading.RLock()

    def answer(self, method, path, headers, body):
        if path.startswith("/stats/"):
            passed = {name: headers[name] for name in _PASSED if name in headers}
            url = self.service + path.removeprefix("/stats")
            reply = requests.request(method, url, data=body, headers=passed, timeout=60)
            if body:
                with self.lock:
                    self.sent.append(
                        (path.removeprefix("/stats"), json.loads(body), reply.headers.get("Set-Cookie"))
                    )
            return reply.status_code, dict(reply.headers), reply.content
        name = re.split("[/?]", path)[1]
        content, options = PAGES.get(name, PAGES["plain"])
        tag = "" if options is None else _TAG.format(options)
        # The page's own script is before the tracker, as early calls are.
        page = f"<!DOCTYPE html><title>Shop</title>{content}{tag}<a id=next href=/next>next</a>"
        return 200, {"Content-Type": "text/html"}, page.encode()

    @contextmanager
    def serving(self):
        world = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                self.respond("GET", None)

            def do_POST(self):
                self.respond("POST", self.rfile.read(int(self.headers["Content-Length"])))

            def respond(self, method, body):
                status, headers, content = world.answer(method, self.path, self.headers, body)
                self.send_response(status)
                for name, value in headers.items():
                    if name.lower() in ("content-type", "set-cookie", "retry-after", "cache-control"):
                        self.send_header(name, value)
                self.send_header("Content-Length", str(len(content)))
                # A page that has gone reads no answer.
                with suppress(ConnectionError):
                    self.end_headers()
                    self.wfile.write(content)

            def log_message(self, *_):
                pass

        with listening(Handler) as port:
            yield f"http://127.0.0.1:{port}"

    def wait(self, is_there):
        """Wait for what pages send; whether it came."""
        deadline = time.monotonic() + _LONGEST
        while time.monotonic() < deadline:
            with self.lock:
                if is_there(self.sent):
                    return True
            time.sleep(0.05)
        return False

    def nonces(self, prefix):
        with self.lock:
            return {body["nonce"] for _, body, _ in self.sent if body.get("nonce", "").startswith(prefix)}


def _hits(sent):
    return [body for path, body, _ in sent if path == "/c"]


class Run:
    """One engine goes through the situations; each returns what it found and what is right."""

    def __init__(self, world, site, one, *, scale):
        self.world, self.site, self.one, self.scale = world, site, one, scale

    def open(self, path, shows=None):
        """Open a page and wait until its view has arrived, or that of the page which it goes on to.

        The page before may send its own view again when it is left, if it has not heard the answer.
        """
        url = self.site + (shows or path)
        with self.world.lock:
            before = {body["hitId"] for body in _hits(self.world.sent)}

        def is_new(body):
            return body["pageUrl"] == url and body["hitId"] not in before

        self.one.go(self.site + path)
        assert self.world.wait(lambda sent: any(map(is_new, _hits(sent)))), f"no page view of {path}"

    def forget(self):
        self.one.go(self.site + "/away")
        self.one.js("(document.cookie = 'attrib-shop=; Max-Age=0; Path=/', localStorage.clear())")

    def many_events(self):
        """Events of 2 kB and of 220 bytes from one open page."""
        self.open("/plain")
        large, small = 6 * self.scale, 40 * self.scale
        for prefix, count, size in (("large", large, 2_000), ("small", small, 100)):
            event = f"attrib.event('order', {{text: 'x'.repeat({size})}}, {{nonce: '{prefix}-' + n}})"
            self.one.js(f"[...Array({count}).keys()].map((n) => {event}).length")
        names = {f"large-{n}" for n in range(large)} | {f"small-{n}" for n in range(small)}
        self.world.wait(lambda sent: {body.get("nonce") for _, body, _ in sent} >= names)
        return self.world.nonces("large-") | self.world.nonces("small-"), names

    def closing(self):
        """Events of a tab that is closed at once, one of them sent when it hears so; the next page sends the rest.

        Firefox stops the function that runs while its tab is closed: the page notes whether its own one has ended.
        """
        first = self.one.tab
        self.one.new_tab()
        self.open("/yes?closing")
        self.one.js(
            "(window.order = (n) => attrib.event('order', {}, {nonce: 'closing-' + n}),"
            " addEventListener('pagehide', () => { order(19); localStorage.ended = 1; }),"
            " [...Array(19).keys()].map(order).length)"
        )
        self.one.close_tab()
        self.one.turn_to(first)
        self.open("/yes?next")
        names = {f"closing-{n}" for n in range(19 + self.one.js("'ended' in localStorage"))}
        self.world.wait(lambda sent: {body.get("nonce") for _, body, _ in sent} >= names)
        return self.world.nonces("closing-") & names, names

    def withdraw(self):
        """Withdraw consent; return a function that selects what pages have sent since, by the browser's clock."""
        moment = self.one.js("(attrib.consent(false), new Date().toISOString())")
        return lambda sent: [each for each in sent if each[1].get("sentAt", "") > moment]

    def withdrawn(self):
        """Consent withdrawn in one tab: none sends the old id, nor is the cookie set again."""
        wrong = 0
        for _ in range(self.scale):
            self.forget()
            self.open("/yes")
            first, old = self.one.tab, self.one.js("attrib.trackerId()")
            second = self.one.new_tab()
            self.open("/plain")
            late = self.withdraw()
            self.one.turn_to(first)
            self.one.js("history.pushState({}, '', '/yes?again')")
            self.one.js("attrib.event('order', {})")
            is_sent = self.world.wait(
                lambda sent, late=late: {"/c", "/api/v1/events"} <= {each[0] for each in late(sent)}
            )
            with self.world.lock:
                sent = late(self.world.sent)
            wrong += sum(body.get("trackerId") == old or cookie is not None for _, body, cookie in sent)
            wrong += not is_sent or "attrib-shop=" in self.one.js("document.cookie")
            self.one.turn_to(second)
            self.one.close_tab()
            self.one.turn_to(first)
        return wrong, 0

    def shown_again(self):
        """Consent withdrawn on the second page; *back* shows the first one again."""
        self.forget()
        self.open("/yes")
        old = self.one.js("attrib.trackerId()")
        self.open("/plain")
        late = self.withdraw()
        self.one.back()
        page = self.site + "/yes"
        is_shown = self.world.wait(lambda sent: any(body["pageUrl"] == page for body in _hits(late(sent))))
        with self.world.lock:
            return sum(body.get("trackerId") == old for _, body, _ in late(self.world.sent)) + (
                not is_shown
            ), 0

    def one_instant(self):
        """Two pages that a new visitor opens at one instant have one id."""
        found = Counter()
        for _ in range(self.scale):
            self.forget()
            with self.world.lock:
                mark = len(self.world.sent)
            self.one.go(self.site + "/frames")

            def trackers(sent, mark=mark):
                # The page before may still send.
                return {
                    body["pageUrl"]: body["trackerId"]
                    for body in _hits(sent[mark:])
                    if "/yes?" in body["pageUrl"]
                }

            self.world.wait(lambda sent, of=trackers: len(of(sent)) >= 2)
            with self.world.lock:
                found[len(set(trackers(self.world.sent).values()))] += 1
        return found, Counter({1: self.scale})

    def routes(self):
        """A router that uses the Navigation API, one that uses the history, and a view without an address."""
        self.open("/plain?routes")
        with self.world.lock:
            mark = len(self.world.sent)
        go = "history.pushState({}, '', '/a')"
        if self.one.js("!!window.navigation"):
            self.one.js("navigation.addEventListener('navigate', (event) => event.intercept()) || 1")
            go = "navigation.navigate('/a').finished.then(() => 1)"
        self.one.js(go)
        self.one.js(go.replace("/a", "/b"))
        self.one.js("attrib.push(['view', '/b/step-2'])")
        right = Counter(["/a", "/b", "/b/step-2"])

        def views(sent):
            # A page that is left sends again what it has not heard of, and requests overtake each other.
            urls = {body["hitId"]: body["pageUrl"].removeprefix(self.site) for body in _hits(sent[mark:])}
            return Counter(url for url in urls.values() if not url.startswith(("/plain", "/yes")))

        self.world.wait(lambda sent: views(sent) >= right)
        with self.world.lock:
            return views(self.world.sent), right

    def module(self):
        """The script as a module."""
        with self.world.lock:
            mark = len(self.world.sent)
        self.one.go(self.site + "/module")

        def views(sent):
            return {body["hitId"] for body in _hits(sent[mark:]) if body["pageUrl"].endswith("/module")}

        self.world.wait(lambda sent: views(sent))
        with self.world.lock:
            return len(views(self.world.sent)), 1

    def orders(self):
        """Orders of landing pages that are left before they have loaded, or at once after."""
        for number in range(5 * self.scale):
            self.forget()
            self.one.go(f"{self.site}/order{SPRING[1:]}&n={number:036}")
        count = 5 * self.scale
        self.world.wait(lambda _: len(self.world.nonces("0000")) >= count)
        return len(self.world.nonces("0000")), count

    def sources(self):
        """A landing page that goes on at once, and a browser that refuses cookies."""
        self.forget()
        self.open(f"/replacing{SPRING[1:]}", shows="/yes")
        self.one.js("attrib.event('order', {}, {nonce: 'replaced'})")
        self.open(f"/refused{SPRING[1:]}")
        self.open("/refused?second")
        self.one.js("attrib.event('order', {}, {nonce: 'refused'})")
        self.world.wait(lambda sent: {body.get("nonce") for _, body, _ in sent} >= {"replaced", "refused"})
        return self.world.nonces("re"), {"replaced", "refused"}


@contextmanager
def measured(file):
    """Serve a site, and the service of a new project in a file; yields the world and the address of the site."""
    with at.connect("shop", path=file) as shop:
        at.create_event_type(shop, "order", name="Order")
    with running(file.parent, options=ServerOptions(rate_limits=None)) as service:
        world = World(service)
        with world.serving() as site:
            yield world, site


#: An order that the visit which led to it does not precede.
EARLY = """
SELECT count(*) FROM events JOIN raw_events USING (_id) WHERE nonce LIKE '0000%' AND NOT EXISTS (
    FROM interactions AS visit
    WHERE visit.userId = events.userId AND nodeId = ? AND startDate <= events.eventDate
)
"""
#: The first source of the visitor of an order.
SOURCES = """
SELECT nonce, (
    SELECT first(nodeId ORDER BY startDate) FROM interactions AS visit WHERE visit.userId = events.userId
) FROM events JOIN raw_events USING (_id) WHERE nonce NOT LIKE '0000%' AND nonce NOT SIMILAR TO '.*-.*'
"""
#: Events that count more than once.
TWICE = "SELECT nonce FROM events JOIN raw_events USING (_id) GROUP BY nonce HAVING count(*) > 1"


def rows(file, query, *values):
    with closing(duckdb.connect(file, read_only=True)) as connection:
        return connection.execute(query, values).fetchall()


def run(engine, *, scale=10):
    """Return what is wrong, by situation."""
    problems = {}
    names = ("orders", "sources", "many_events", "closing", "withdrawn", "shown_again", "one_instant")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "shop.duckdb"
        with (
            measured(file) as (world, site),
            browser(engine, preferences=WITHOUT_BEACONS.get(engine)) as one,
        ):
            for name in (*names, "routes", "module"):
                found, right = getattr(Run(world, site, one, scale=scale), name)()
                if found != right:
                    problems[name] = found, right
            one.go("about:blank")
        early, ordered = rows(file, EARLY, NODE)[0][0], dict(rows(file, SOURCES))
        twice = rows(file, TWICE)
    if early:
        problems["orders before their visit"] = early
    if twice:
        problems["events that count twice"] = twice
    if ordered != {"replaced": NODE, "refused": NODE}:
        problems["sources of orders"] = ordered
    return problems


WITHOUT_BEACONS = {"firefox": {"beacon.enabled": False}}
#: Preferences of a browser that keeps nothing; WebKit's driver has none.
REFUSING = {
    "chromium": {"profile.default_content_setting_values.cookies": 2},
    "firefox": {"network.cookie.cookieBehavior": 2},
}


def refuse_cookies(engine):
    """Let a visitor agree whose browser keeps nothing; return users, sessions and the source of the order."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "shop.duckdb"
        with measured(file) as (world, site), browser(engine, preferences=REFUSING[engine]) as one:
            visitor = Run(world, site, one, scale=1)
            for path in (f"/yes{SPRING[1:]}", "/yes?second", "/yes?third"):
                visitor.open(path)
            assert one.js("document.cookie") == "", "the browser keeps cookies"
            one.js("attrib.event('order', {}, {nonce: 'refused'})")
            assert world.wait(lambda _: world.nonces("refused"))
            one.go("about:blank")
        users = rows(file, "SELECT count(*) FROM users")[0][0]
        sessions = rows(file, "SELECT nodeId, hitCount FROM interactions")
        return users, sessions, dict(rows(file, SOURCES))


if __name__ == "__main__":
    for engine in sys.argv[1:] or PROGRAMS:
        print(engine, missing(engine) or run(engine) or "all right", flush=True)
