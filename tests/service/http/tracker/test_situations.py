"""What a visitor does in a browser, and the sessions and users that come of it: one browser goes through a table.

Each situation has a user agent and an address of its own. Whose rule the expected result is stands beside it: GA4,
Matomo and Plausible as they document theirs, WebKit and the Public Suffix List, or a decision of this project.
"""

from contextlib import ExitStack, closing, contextmanager
from http.server import BaseHTTPRequestHandler
from itertools import zip_longest
from typing import NamedTuple

import duckdb
import pytest
import requests
from support.listening import listening
from support.website import ARGUMENTS, CHROMIUM

import attrib_ds as at
from attrib_ds.service.http.server import ServerOptions, running

playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")

pytestmark = [
    pytest.mark.browser,
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed"),
]

#: Of the script: consent, further domains.
YES = 'data-consent="granted"'
LINK = 'data-link="shop.example till.example"'
CAMPAIGN = "/?utm_source=google&utm_medium=cpc&utm_campaign=spring"
SPRING = "google/cpc/spring"
NEWS = "/?utm_source=news&utm_medium=email"
#: Consent on the pages of the shop only.
SHOP_ONLY = "if (!/till/.test(location.host)) attrib = [['consent', true]]"
DENIED = (
    "dataLayer = []; function gtag() { dataLayer.push(arguments) }"
    "gtag('consent', 'default', {analytics_storage: 'denied'});"
)
COOKIE = "document.cookie.includes('attrib-shop=')"
FORGET = "document.cookie = 'attrib-shop=; Max-Age=0; Path=/; Domain=shop.example'"


class Situation(NamedTuple):
    """What happens, and what comes of it; ``order`` is the source of the visitor whose order it is."""

    name: str
    rule: str
    options: str
    steps: list
    sessions: list
    users: int = 1
    order: str | None = None
    head: str = ""
    signals: bool = False
    scripts: bool = True
    source: str = "/stats/t.js"


def visits(*hosts):
    return [("go", host) for host in hosts]


SITUATIONS = [
    # Visits with and without consent.
    Situation("three pages without consent", "Plausible, Matomo: one visit", "",
        [("go", f"www.shop.example{CAMPAIGN}"), ("click", "boots"), ("click", "cart"), ("order",)],
        [(SPRING, 3)], order=SPRING),
    Situation("three pages with consent", "GA4: one session", YES,
        [("go", f"www.shop.example{CAMPAIGN}"), ("click", "boots"), ("click", "cart"), ("order",)],
        [(SPRING, 3)], order=SPRING),
    Situation("consent on the second page", "Matomo: the visit goes on", "",
        [("go", f"www.shop.example{CAMPAIGN}"), ("click", "boots"), ("js", "attrib.consent(true)"),
         ("click", "cart"), ("order",)], [(SPRING, 3)], order=SPRING),
    Situation("consent on the last page", "Matomo: the visit goes on", "",
        [("go", f"www.shop.example{CAMPAIGN}"), ("click", "boots"), ("click", "cart"), ("order",),
         ("js", "attrib.consent(true)")], [(SPRING, 3)], order=SPRING),
    Situation("consent mode", "GA4: an update grants", "",
        [("go", f"www.shop.example{CAMPAIGN}"),
         ("js", "gtag('consent', 'update', {analytics_storage: 'granted'})"), ("is", COOKIE, True)],
        [(SPRING, 1)], head=DENIED),
    Situation("denied by default", "GA4: no cookie", "",
        [("go", f"www.shop.example{CAMPAIGN}"), ("click", "boots"), ("is", COOKIE, False)],
        [(SPRING, 2)], head=DENIED),
    Situation("withdrawn consent", "G-239: the day's visitor is somebody else", "",
        [("go", f"www.shop.example{CAMPAIGN}"), ("js", "attrib.consent(true)"), ("is", COOKIE, True),
         ("js", "attrib.consent(false)"), ("is", COOKIE, False), ("click", "boots"), ("is", COOKIE, False)],
        [(SPRING, 1), ("direct", 1)], 2),
    Situation("consent withdrawn at once", "nothing is kept", "",
        [("go", f"www.shop.example{CAMPAIGN}"), ("js", "attrib.consent(true); attrib.consent(false)"),
         ("is", COOKIE, False),
         ("is", "localStorage.length", 0)], [(SPRING, 1)]),
    Situation("consent again at once", "the last word counts", "",
        [("go", f"www.shop.example{CAMPAIGN}"),
         ("js", "for (const each of [true, false, true]) attrib.consent(each)"), ("is", COOKIE, True)],
        [(SPRING, 1)]),
    Situation("global privacy control", "G-200: each page is a visitor", "",
        [("go", f"www.shop.example{CAMPAIGN}"), ("click", "boots"), ("is", COOKIE, False)],
        [(SPRING, 1), ("direct", 1)], 2, signals=True),
    Situation("global privacy control with consent", "G-200: nothing is kept", YES,
        [("go", f"www.shop.example{CAMPAIGN}"), ("click", "boots"), ("is", COOKIE, False)],
        [(SPRING, 1), ("direct", 1)], 2, signals=True),
    Situation("no JavaScript", "Matomo: the pixel counts", "",
        [("go", f"www.shop.example{CAMPAIGN}"), ("click", "boots")], [(SPRING, 2)], scripts=False),
    Situation("consent at the checkout", "Matomo: the visit goes on", "",
        [("go", f"www.shop.example/boots{CAMPAIGN[1:]}"), ("click", "cart"), ("click", "till"), ("order",),
         ("js", "attrib.consent(true)")], [(SPRING, 3)], order=SPRING),
    # Hosts of one domain.
    Situation("www and bare", "GA4: the widest cookie", YES,
        [("go", f"www.shop.example{CAMPAIGN}"), ("click", "bare"), ("order",)], [(SPRING, 2)], order=SPRING),
    Situation("blog and help without consent", "G-240: siblings are internal", "",
        [("go", f"blog.shop.example{CAMPAIGN}"), ("click", "help")], [(SPRING, 2)]),
    Situation("a second-level suffix", "Public Suffix List: co.uk", YES,
        [("go", f"www.shop.co.uk{CAMPAIGN}"), ("go", "m.shop.co.uk/"), ("domain", ".shop.co.uk")],
        [(SPRING, 2)]),
    Situation("sites of one host", "Public Suffix List: github.io", YES,
        [("go", f"shop.github.io{CAMPAIGN}"), ("leave", "location.assign(at('other.github.io'))"),
         ("domain", ".other.github.io")], [(SPRING, 1), ("referral/shop.github.io", 1)], 2),
    Situation("the widest domain", "GA4, Matomo, Segment: by trying", YES,
        [*visits("a.b.shop.example/"), ("domain", ".shop.example"),
         ("is", "document.cookie.includes('test')", False)], [("direct", 1)]),
    Situation("the host alone", "data-domain", f'{YES} data-domain=""',
        [*visits("www.shop.example/"), ("domain", "www.shop.example"), ("js", "attrib.consent(false)"),
         ("is", COOKIE, False)], [("direct", 1)]),
    Situation("a narrower domain", "data-domain", f'{YES} data-domain="b.shop.example"',
        [*visits("a.b.shop.example/"), ("domain", ".b.shop.example")], [("direct", 1)]),
    Situation("an address", "RFC 6265: no domain of addresses", YES,
        [*visits("127.0.0.1/"), ("domain", "127.0.0.1")], [("direct", 1)]),
    # Further domains.
    Situation("a link to the checkout", "GA4, Matomo, Snowplow: linker", f"{YES} {LINK}",
        [("go", f"www.shop.example{CAMPAIGN}"), ("click", "till"), ("order",),
         ("is", "location.search + location.hash", "?cart=1%20x&to=#top")], [(SPRING, 2)], order=SPRING),
    Situation("without the linker", "GA4: two users, no referral", YES,
        [("go", f"www.shop.example{CAMPAIGN}"), ("click", "till"), ("order",)],
        [(SPRING, 1), ("direct", 1)], 2, order="direct"),
    Situation("a link without consent", "G-239: the visitor of the day", LINK,
        [("go", f"www.shop.example{CAMPAIGN}"), ("click", "till"), ("order",), ("never", "_attrib")],
        [(SPRING, 2)], order=SPRING),
    Situation("consent here only", "G-241: no id without consent", LINK,
        [("go", f"www.shop.example{CAMPAIGN}"), ("click", "till"), ("is", COOKIE, False)],
        [(SPRING, 1), ("direct", 1)], 2, head=SHOP_ONLY),
    Situation("consent there later", "G-241: within two minutes", LINK,
        [("go", f"www.shop.example{CAMPAIGN}"), ("click", "till"), ("js", "attrib.consent(true)"), ("order",)],
        [(SPRING, 2)], order=SPRING, head=SHOP_ONLY),
    Situation("a link with global privacy control", "G-200: no id", f"{YES} {LINK}",
        [("go", f"www.shop.example{CAMPAIGN}"), ("click", "till")], [(SPRING, 1), ("direct", 1)], 2, signals=True),
    Situation("a form", "GA4: decorate forms", f"{YES} {LINK}",
        [("go", f"www.shop.example{CAMPAIGN}"), ("click", "get"), ("order",)], [(SPRING, 2)], order=SPRING),
    Situation("a form that posts", "GA4: decorate forms", f"{YES} {LINK}",
        [("go", f"www.shop.example{CAMPAIGN}"), ("click", "post"), ("order",)], [(SPRING, 2)], order=SPRING),
    Situation("a button of its own address", "HTML: formaction", f"{YES} {LINK}",
        [("go", f"www.shop.example{CAMPAIGN}"), ("click", "own"), ("order",)], [(SPRING, 2)], order=SPRING),
    Situation("a link by keyboard", "GA4: linker", f"{YES} {LINK}",
        [("go", f"www.shop.example{CAMPAIGN}"), ("press", "till")], [(SPRING, 2)]),
    Situation("a link in another tab", "GA4: linker", f"{YES} {LINK}",
        [("go", f"www.shop.example{CAMPAIGN}"), ("popup", "blank")], [(SPRING, 2)]),
    Situation("a link that hides its referrer", "G-241: carries nothing", f"{YES} {LINK}",
        [("go", f"www.shop.example{CAMPAIGN}"), ("click", "hidden")], [(SPRING, 1), ("direct", 1)], 2),
    Situation("there and back", "GA4: one user", f"{YES} {LINK}",
        [("go", f"www.shop.example{CAMPAIGN}"), ("click", "till"), ("click", "www")], [(SPRING, 3)]),
    Situation("an earlier cookie there", "GA4: the link prevails", f"{YES} {LINK}",
        [*visits("till.example/"), ("go", f"www.shop.example{CAMPAIGN}"), ("click", "till")],
        [("direct", 1), (SPRING, 2)], 2),
    Situation("a link that was copied", "G-241: once", f"{YES} {LINK}",
        [("go", f"www.shop.example{CAMPAIGN}"), ("click", "till"), ("paste",)], [(SPRING, 2), ("direct", 1)], 2),
    Situation("a link that was copied unused", "G-241: not from a message", f"{YES} {LINK}",
        [("go", f"www.shop.example{CAMPAIGN}"), ("steal",), ("paste",)], [(SPRING, 1), ("direct", 1)], 2),
    Situation("a link of a stranger", "G-241: no id is handed over", f"{YES} {LINK}",
        [("go", f"www.shop.example{CAMPAIGN}"), ("steal",), ("paste", "http://evil.example/")],
        [(SPRING, 1), ("referral/evil.example", 1)], 2),
    Situation("the link afterwards", "G-241: once", f"{YES} {LINK}",
        [("go", f"www.shop.example{CAMPAIGN}"), ("popup", "blank"),
         ("is", "document.querySelector('#blank').href.includes('_attrib')", False)], [(SPRING, 2)]),
    Situation("a link of the same domain", "GA4: the cookie is enough", f"{YES} {LINK}",
        [("go", f"www.shop.example{CAMPAIGN}"), ("click", "bare"), ("never", "_attrib")], [(SPRING, 2)]),
    Situation("a link elsewhere", "GA4: listed domains only", f"{YES} {LINK}",
        [("go", f"www.shop.example{CAMPAIGN}"), ("click", "partner"), ("never", "_attrib")],
        [(SPRING, 1), ("direct", 1)], 2),
    # Who sets the cookie.
    # An id that was deleted is not set again: the browser is a new visitor.
    Situation("part of the site", "WebKit: set by the server", YES,
        [*visits("www.shop.example/"), ("js", FORGET), ("is", COOKIE, False),
         ("js", "history.pushState({}, '', '/a')"), ("is", COOKIE, False)], [("direct", 1), ("direct", 1)], 2),
    Situation("a name of its own", "WebKit: set by the script", YES,
        [*visits("www.shop.example/"), ("js", FORGET), ("js", "history.pushState({}, '', '/a')")],
        [("direct", 1), ("direct", 1)], 2, source="//stats.shop.example:PORT/t.js"),
    Situation("part of the site without consent", "nothing is kept", "",
        [*visits("www.shop.example/"), ("js", "history.pushState({}, '', '/a')"), ("is", COOKIE, False)],
        [("direct", 2)]),
    # Page views and sources.
    Situation("back", "GA4: a page view", YES,
        [("go", f"www.shop.example{CAMPAIGN}"), ("click", "boots"), ("back",)], [(SPRING, 3)]),
    Situation("two tabs", "GA4: one session", YES,
        [("go", f"www.shop.example{CAMPAIGN}"), ("tab", "www.shop.example/boots")], [(SPRING, 2)]),
    Situation("the script twice", "a page view counts once", YES,
        [("go", f"www.shop.example{CAMPAIGN}"),
         ("js", "document.head.append(Object.assign(document.createElement('script'), "
                "{src: '/stats/t.js', async: true}))")], [(SPRING, 1)]),
    Situation("a search engine", "GA4: organic", YES,
        [("go", "www.shop.example/", "https://www.google.com/")], [("organic-search/google", 1)]),
    Situation("a campaign, then a search", "Matomo: referrers end no visit", YES,
        [("go", f"www.shop.example{CAMPAIGN}"), ("go", "www.shop.example/a", "https://www.google.com/")],
        [(SPRING, 2)]),
    Situation("another campaign", "Matomo: a new visit", YES,
        [("go", f"www.shop.example{CAMPAIGN}"), ("go", f"www.shop.example{NEWS}")],
        [(SPRING, 1), ("news/email", 1)]),
    Situation("a newsletter through Facebook", "G-240: the link says it", YES,
        [("go", f"www.shop.example{NEWS}&fbclid=1", "https://l.facebook.com/")], [("news/email", 1)]),
    Situation("a payment", "GA4: list of unwanted referrals", YES,
        [("go", f"www.shop.example{CAMPAIGN}"), ("go", "www.shop.example/thanks", "https://checkout.stripe.com/")],
        [(SPRING, 2)]),
    Situation("parameters in the fragment", "Matomo: campaign in the fragment", YES,
        [("go", "www.shop.example/#utm_source=news&utm_medium=email")], [("news/email", 1)]),
]  # fmt: skip


def html(port, situation):
    def address(host, path="/"):
        return f"http://{host}:{port}{path}"

    source = situation.source.replace("PORT", str(port))
    links = {
        "boots": ("/boots", ""),
        "cart": ("/cart", ""),
        "bare": (address("shop.example"), ""),
        "www": (address("www.shop.example"), ""),
        "help": (address("help.shop.example"), ""),
        "till": (address("till.example", "/pay?cart=1%20x&to=#top"), ""),
        "blank": (address("till.example"), 'target="_blank"'),
        "hidden": (address("till.example"), 'rel="noreferrer"'),
        "partner": (address("partner.example"), ""),
    }
    anchors = "".join(
        f'<p><a id="{name}" href="{url}" {more}>{name}</a>' for name, (url, more) in links.items()
    )
    till = address("till.example")
    forms = "".join(
        f'<form method="{method}" action="{till}"><input name="cart"><button id="{method}">go</button></form>'
        for method in ("get", "post")
    )
    own = f'<form action="/"><button id="own" formmethod="post" formaction="{till}">go</button></form>'
    at_host = f"const at = (host) => 'http://' + host + ':{port}/';"
    return (
        f"<!DOCTYPE html><title>Shop</title><script>{at_host} {situation.head}</script>"
        f'<script async src="{source}" data-project="shop" {situation.options}></script>'
        '<noscript><img alt="" src="/stats/c?projectId=shop" referrerpolicy="no-referrer-when-downgrade"></noscript>'
        f"{anchors}{forms}{own}"
    ).encode()


class World:
    """Every website, with the service below ``/stats/`` and at ``stats.``, as a proxy has it."""

    def __init__(self, service):
        self.service = service
        self.addresses = {}
        self.port = 0

    def number(self, headers):
        return int(headers.get("User-Agent", "").rpartition("/")[2])

    def answer(self, method, path, headers, body):
        number = self.number(headers)
        host = headers["Host"]
        if "_attrib=" in path:
            self.addresses.setdefault(number, []).append(f"http://{host}{path}")
        if path.startswith("/stats/") or host.startswith("stats."):
            kept = ("Origin", "Referer", "User-Agent", "Sec-GPC", "Sec-Fetch-Site", "Content-Type", "Cookie")
            passed = {name: headers[name] for name in kept if name in headers}
            passed["X-Forwarded-For"] = f"203.0.113.{number}"
            reply = requests.request(
                method, self.service + path.removeprefix("/stats"), data=body, headers=passed, timeout=30
            )
            return reply.status_code, dict(reply.headers), reply.content
        if path == "/favicon.ico":
            return 404, {}, b""
        return 200, {"Content-Type": "text/html"}, html(self.port, SITUATIONS[number])

    @contextmanager
    def serving(self):
        world = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                self.respond("GET", None)

            def do_POST(self):
                self.respond("POST", self.rfile.read(int(self.headers["Content-Length"])))

            def do_OPTIONS(self):
                self.respond("OPTIONS", None)

            def respond(self, method, body):
                status, headers, content = world.answer(method, self.path, self.headers, body)
                self.send_response(status)
                for name, value in headers.items():
                    if name.lower() not in (
                        "content-length",
                        "content-encoding",
                        "transfer-encoding",
                        "connection",
                    ):
                        self.send_header(name, value)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_):
                pass

        with listening(Handler) as self.port:
            yield


#: Lets a page tell whether it has heard all answers and has no timer of less than five seconds left.
QUIET = """(() => {
  const { setTimeout: start, clearTimeout: stop, fetch: send } = window;
  const timers = new Set();
  let asked = 0;
  const counted = (promise) => { asked += 1; return promise.finally(() => { asked -= 1; }); };
  window.setTimeout = (work, time, ...values) => {
    if (time >= 5000) return start(work, time, ...values);
    const id = start(() => { timers.delete(id); work(...values); }, time);
    timers.add(id);
    return id;
  };
  window.clearTimeout = (id) => { timers.delete(id); stop(id); };
  window.fetch = (...values) => counted(send(...values)).then((response) => {
    for (const read of ["text", "json"]) {
      const original = response[read].bind(response);
      response[read] = () => counted(original());
    }
    return response;
  });
  window.isQuiet = () => document.readyState === "complete" && !asked && !timers.size;
})()"""
#: Browsers that do their steps in turn, so that what they send is waited for together.
AT_ONCE = 12
FAILED = ("steps", "failed", "done")


class Visitor:
    """Does the steps of a situation."""

    def __init__(self, world, chromium, number, stack):
        self.world, self.chromium, self.number, self.stack = world, chromium, number, stack
        self.situation = SITUATIONS[number]
        self.seen = []
        self.context = self._browser()
        self.page = self.context.new_page()

    def do(self, verb, *values):
        """Do a step; after one that fails, no further one."""

        def work():
            getattr(self, f"_{verb}")(*values)
            self.page.wait_for_load_state()

        self._attempt(verb, work)

    def settle(self):
        """Wait until the pages have sent what they send."""

        def work():
            for page in self.page.context.pages:
                page.wait_for_function("isQuiet()", polling=20)

        if self.situation.scripts:
            self._attempt("settle", work)

    def _attempt(self, name, work):
        if self.seen[-1:] != [FAILED]:
            try:
                work()
            except playwright.Error as error:
                self.seen += [(name, str(error), "done"), FAILED]

    def _browser(self):
        signals = self.situation.signals
        context = self.chromium.new_context(
            user_agent=f"Mozilla/5.0 (X11; Linux x86_64; rv:130.0) Gecko/20100101 Firefox/130.0 Case/{self.number}",
            java_script_enabled=self.situation.scripts,
            extra_http_headers={"Sec-GPC": "1"} if signals else {},
        )
        context.set_default_timeout(60_000)
        context.add_init_script(QUIET)
        if signals:
            context.add_init_script("Object.defineProperty(navigator, 'globalPrivacyControl', {value: true})")
        self.stack.callback(context.close)
        return context

    def _address(self, text):
        host, _, path = text.partition("/")
        return f"http://{host}:{self.world.port}/{path}"

    def _go(self, text, referrer=None):
        self.page.goto(self._address(text), referer=referrer)

    def _do(self, gesture, name):
        getattr(self.page, gesture)(f"#{name}")
        self.settle()

    def _click(self, name):
        self._do("hover", name)
        with self.page.expect_navigation():
            self.page.click(f"#{name}")

    def _press(self, name):
        self._do("focus", name)
        with self.page.expect_navigation():
            self.page.keyboard.press("Enter")

    def _popup(self, name):
        self._do("hover", name)
        with self.context.expect_page() as opened:
            self.page.click(f"#{name}")
        opened.value.wait_for_url("http://**")

    def _tab(self, text):
        self.context.new_page().goto(self._address(text))

    def _back(self):
        self.page.go_back()

    def _js(self, code):
        self.page.evaluate(code)

    def _leave(self, code):
        with self.page.expect_navigation():
            self.page.evaluate(code)

    def _order(self):
        self.page.evaluate(f"attrib.event('order', {{}}, {{nonce: 'n-{self.number}'}})")

    def _is(self, code, expected):
        self.seen.append((code, self.page.evaluate(code), expected))

    def _domain(self, expected):
        found = [cookie["domain"] for cookie in self.context.cookies(self.page.url)]
        self.seen.append(("domain of the cookie", found, [expected]))

    def _never(self, text):
        self.seen.append((text, self.world.addresses.get(self.number, []), []))

    def _steal(self):
        asked = "{method: 'POST', body: JSON.stringify({projectId: 'shop', trackerId: attrib.trackerId()})}"
        link = self.page.evaluate(f"fetch('/stats/link', {asked}).then((reply) => reply.json())")["link"]
        self.world.addresses[self.number] = [f"{self._address('till.example/')}?_attrib={link}"]

    def _paste(self, referrer=None):
        self.page = self._browser().new_page()
        self.page.goto(self.world.addresses[self.number][-1], referer=referrer)


@pytest.fixture(scope="module")
def results(tmp_path_factory, request):
    """Sessions, number of users, source of the order's visitor, and what the pages showed, by situation."""
    home = tmp_path_factory.mktemp("situations")
    with at.connect("shop", path=home / "shop.duckdb") as shop:
        at.create_event_type(shop, "order", name="Order")
        at.admin.update_settings(shop, domains=["shop.example", "till.example"])
    options = ServerOptions(rate_limits=None, behind_proxy=("127.0.0.1",))
    seen = {}
    with ExitStack() as stack:
        world = World(stack.enter_context(running(home, options=options)))
        stack.enter_context(world.serving())
        driver = stack.enter_context(playwright.sync_playwright())
        hosts = ["www.shop.example", "shop.example", "stats.shop.example", "till.example"]
        safe = ",".join(f"http://{host}:{world.port}" for host in hosts)
        arguments = [
            *ARGUMENTS,
            "--host-resolver-rules=MAP * 127.0.0.1",
            f"--unsafely-treat-insecure-origin-as-secure={safe}",
        ]
        chromium = driver.chromium.launch(executable_path=CHROMIUM, args=arguments)
        stack.callback(chromium.close)
        chosen = [
            item.callspec.params["number"] for item in request.session.items if item.path == request.path
        ]
        for start in range(0, len(chosen), AT_ONCE):
            with ExitStack() as contexts:
                visitors = [
                    Visitor(world, chromium, number, contexts) for number in chosen[start : start + AT_ONCE]
                ]
                for steps in zip_longest(*(visitor.situation.steps for visitor in visitors)):
                    turns = [(visitor, step) for visitor, step in zip(visitors, steps, strict=True) if step]
                    for visitor, step in turns:
                        visitor.do(*step)
                    for visitor, _ in turns:
                        visitor.settle()
                seen |= {visitor.number: visitor.seen for visitor in visitors}
    mark = "regexp_extract(userAgent, 'Case/([0-9]+)', 1)"
    with closing(duckdb.connect(home / "shop.duckdb", read_only=True)) as connection:
        sessions = connection.execute(
            f"SELECT {mark}, nodeId, hitCount, userId FROM interactions JOIN (SELECT id, userAgent FROM hits) AS hit "
            "ON hit.id = firstHitId ORDER BY startDate, firstHitId"
        ).fetchall()
        orders = dict(
            connection.execute(
                "SELECT nonce, (SELECT first(nodeId ORDER BY startDate) FROM interactions AS visit "
                "WHERE visit.userId = events.userId) FROM events JOIN raw_events USING (_id)"
            ).fetchall()
        )
    return {
        number: (
            [row[1:3] for row in sessions if row[0] == str(number)],
            len({row[3] for row in sessions if row[0] == str(number)}),
            orders.get(f"n-{number}"),
            [case for case in checks if case[1] != case[2]],
        )
        for number, checks in seen.items()
    }


@pytest.mark.large
@pytest.mark.parametrize("number", range(len(SITUATIONS)), ids=[each.name for each in SITUATIONS])
def test_situation(results, number):
    situation = SITUATIONS[number]
    expected = situation.sessions, situation.users, situation.order, []
    assert results[number] == expected, situation.rule
