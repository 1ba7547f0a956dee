"""The tracking script in a real browser, on a site of another origin."""

import contextlib
import json
import re
import threading
import time
from contextlib import closing
from pathlib import Path
from uuid import UUID

import duckdb
import pytest
from support.waiting import eventually
from support.website import ARGUMENTS, CHROMIUM, site

import attrib_ds as at
from attrib_ds.service.http.server import ServerOptions, running

playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")

TIMEOUT = 120
CAMPAIGN = "?utm_source=google&utm_medium=cpc&utm_campaign=spring"
DENIED = """
window.dataLayer = window.dataLayer || [];
function gtag() { dataLayer.push(arguments); }
gtag("consent", "default", {analytics_storage: "denied"});
"""
#: What a consent banner does on each page of a visitor who has agreed before.
AGREED = DENIED.replace('"denied"}', '"denied", wait_for_update: 2000}') + (
    'setTimeout(() => gtag("consent", "update", {analytics_storage: "granted"}), 50);'
)

#: The same, by a banner that is slower than the script.
AGREED_LATER = (
    DENIED.replace('"denied"}', '"denied", wait_for_update: 2000}')
    + """
const timer = setInterval(() => {
  if (!("trackerId" in attrib)) return;
  clearInterval(timer);
  gtag("consent", "update", {analytics_storage: "granted"});
}, 20);
"""
)

pytestmark = [
    pytest.mark.browser,
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed"),
]


def html(script, head="", options=""):
    tag = f'<script async src="{script}" data-project="shop" {options}></script>'
    return f"<!DOCTYPE html><title>Shop</title><script>{head}</script>{tag}<h1>Shop</h1>".encode()


@pytest.fixture(scope="module")
def chromium():
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture
def page(chromium):
    context = chromium.new_context()
    context.set_default_timeout(TIMEOUT * 1_000)
    page = context.new_page()
    page.problems = []
    page.on("pageerror", lambda error: page.problems.append(str(error)))
    yield page
    assert page.problems == []
    context.close()


def settle(page, recorder):
    """Wait for what a page has still to send: view one more, and forget that."""
    page.evaluate("history.pushState({}, '', '/last')")
    eventually(lambda: any(hit["pageUrl"].endswith("/last") for hit in recorder.hits))
    recorder.sent = [each for each in recorder.sent if not each[1].get("pageUrl", "").endswith("/last")]


class Recorder:
    """A website that serves the script itself and records what the script sends."""

    def __init__(self, script, heads=(), options=""):
        self.script, self.heads, self.options = script, dict(heads), options
        self.sent = []
        self.statuses = []
        self.missing = set()

    def __call__(self, path, body):
        if path == "/t.js":
            return 200, {"Content-Type": "text/javascript"}, self.script
        if body is not None:
            self.sent.append((path, json.loads(body)))
            status = self.statuses.pop(0) if self.statuses else 202
            return status, {"Access-Control-Allow-Origin": "*", "Retry-After": "1"}, b""
        if path == "/favicon.ico":
            return 404, {}, b""
        head = self.heads.get(path.partition("?")[0], "")
        status = 404 if path in self.missing else 200
        return status, {"Content-Type": "text/html"}, html("/t.js", head, self.options)

    @property
    def tries(self):
        """Hits with their repetitions."""
        return [body for path, body in self.sent if path == "/c"]

    @property
    def hits(self):
        """Hits, each once: a page that is left before it hears the answer sends its hit again."""
        return [*{(hit["hitId"], hit["isPersistent"]): hit for hit in self.tries}.values()]


@pytest.fixture(scope="module")
def script():
    from attrib_ds.service.http.pages import tracking_script

    return tracking_script().content


def test_from_a_campaign_link_to_the_interaction_of_an_event(page, tmp_path):
    file = tmp_path / "shop.duckdb"
    with at.connect("shop", path=file) as shop:
        at.create_event_type(shop, "order", name="Order")
    with running(tmp_path, options=ServerOptions(rate_limits=None)) as url:
        heads = {"/": DENIED, "/till": AGREED}

        def answer(path, _):
            content = html(f"{url}/t.js", heads.get(path.partition("?")[0], ""))
            return 200, {"Content-Type": "text/html"}, content

        with site(answer) as shop_url:
            with page.expect_response(f"{url}/c") as accepted:
                page.goto(f"{shop_url}/{CAMPAIGN}")
            assert accepted.value.status == 202
            assert page.evaluate("document.cookie + localStorage.length + sessionStorage.length") == "00"
            with page.expect_response(f"{url}/c"):
                page.evaluate("history.pushState({}, '', '/boots')")
            tracker_id = page.evaluate("attrib.trackerId()")
            # The page view again, under the id that lasts.
            with page.expect_response(f"{url}/c"):
                page.evaluate("gtag('consent', 'update', {analytics_storage: 'granted'})")
            assert page.evaluate("document.cookie") == f"attrib-shop={tracker_id}"
            with page.expect_response(f"{url}/c"):
                page.evaluate("location.assign('/till')")
            assert page.evaluate("attrib.trackerId()") == tracker_id
            with page.expect_response(f"{url}/api/v1/events") as accepted:
                nonce = page.evaluate("attrib.event('order', {total: 10})")
            assert accepted.value.status == 200
    with closing(duckdb.connect(file, read_only=True)) as connection:
        sessions = connection.execute("SELECT nodeId, hitCount, isBot, userId FROM interactions").fetchall()
        pages = connection.execute(
            'SELECT "pageUrl.pathname", referrer FROM hits ORDER BY serverDate'
        ).fetchall()
        events = connection.execute(
            "SELECT userId FROM events JOIN raw_events USING (_id) WHERE nonce = ?", [nonce]
        ).fetchall()
    # Headless Chromium is a bot by its user agent.
    ((node, count, is_bot, user),) = sessions
    assert (node, count, is_bot) == ("google/cpc/spring", 3, True)
    assert pages == [("/", None), ("/boots", f"{shop_url}/{CAMPAIGN}"), ("/till", f"{shop_url}/boots")]
    assert events == [(user,)]


def test_a_browser_that_is_driven_by_a_program_says_so(page, script):
    recorder = Recorder(script, {"/driven": "Object.defineProperty(navigator, 'webdriver', {value: true})"})
    with site(recorder) as url:
        for path in ("/", "/driven"):
            page.goto(f"{url}{path}")
            eventually(lambda path=path: any(hit["pageUrl"] == f"{url}{path}" for hit in recorder.hits))
    assert [hit.get("isAutomated") for hit in recorder.hits] == [None, True]


def test_navigation_inside_a_page_is_counted_once(page, script):
    # Browsers have it on pages with TLS only.
    page.add_init_script("delete Crypto.prototype.randomUUID")
    recorder = Recorder(script)
    with site(recorder) as url:
        page.goto(f"{url}/{CAMPAIGN}")
        eventually(lambda: len(recorder.hits) == 1)
        page.evaluate(
            """
            history.replaceState({}, "", "/");
            history.pushState({}, "", "/");
            location.hash = "#top";
            history.pushState({}, "", "/boots");
            history.pushState({}, "", "/boots#size");
            history.replaceState({}, "", "/boots/red");
            """
        )
        page.go_back()
        eventually(lambda: len(recorder.hits) == 4)
        settle(page, recorder)
    # Requests of one page may overtake each other; the referrers tell their order.
    assert {(hit["pageUrl"], hit["referrer"]) for hit in recorder.hits} == {
        (f"{url}/{CAMPAIGN}", ""),
        (f"{url}/boots", f"{url}/"),
        (f"{url}/boots/red", f"{url}/boots"),
        (f"{url}/boots", f"{url}/boots/red"),
    }
    ids = {UUID(hit["hitId"]) for hit in recorder.hits}
    assert len(ids) == 4
    # Of version 7, which begin with the time in milliseconds.
    assert {id.version for id in ids} == {7}
    assert all(abs((id.int >> 80) / 1_000 - time.time()) < 600 for id in ids)
    (tracker,) = {hit["trackerId"] for hit in recorder.hits}
    assert UUID(tracker).version == 4
    assert {hit["isPersistent"] for hit in recorder.hits} == {False}


def test_the_url_that_was_opened_counts_if_a_page_changes_it_before_the_script_is_loaded(page, script):
    heads = {"/": "history.replaceState({}, '', '/');", "/old": "history.pushState({}, '', '/new');"}
    # WebKit also keeps a password there.
    opened = "[{name: performance.getEntries()[0].name.replace('//', '//anna:secret@')}]"
    page.add_init_script(f"performance.getEntriesByType = () => {opened}")
    recorder = Recorder(script, heads)
    with site(recorder) as url:
        page.goto(f"{url}/{CAMPAIGN}")
        eventually(lambda: len(recorder.hits) == 1)
        page.goto(f"{url}/old{CAMPAIGN}")
        eventually(lambda: len(recorder.hits) == 3)
        settle(page, recorder)
    # Two requests of one page may overtake each other.
    assert sorted(hit["pageUrl"] for hit in recorder.hits) == sorted(
        [f"{url}/{CAMPAIGN}", f"{url}/old{CAMPAIGN}", f"{url}/new"]
    )


def test_a_page_in_a_sandbox_is_counted_without_cookies(page, script):
    recorder = Recorder(script, options='data-consent="granted"')
    with site(recorder) as url:
        page.goto(url)
        page.evaluate('document.body.innerHTML = \'<iframe sandbox="allow-scripts" src="/framed"></iframe>\'')
        eventually(lambda: len(recorder.hits) == 2)
    assert recorder.hits[1]["pageUrl"] == f"{url}/framed"


def test_a_visitor_who_comes_back_has_the_campaign_when_consent_comes_later(page, script):
    recorder = Recorder(script, {"/": DENIED, "/first": "attrib = [['consent', true]]"})
    with site(recorder) as url:
        page.goto(f"{url}/first")
        eventually(lambda: len(recorder.hits) == 1)
        known = page.evaluate("attrib.trackerId()")
        eventually(lambda: page.evaluate("localStorage.length") == 0)
        page.goto(f"{url}/{CAMPAIGN}")
        eventually(lambda: len(recorder.hits) == 2)
        assert page.evaluate("attrib.trackerId()") != known
        page.evaluate("gtag('consent', 'update', {analytics_storage: 'granted'})")
        eventually(lambda: len(recorder.hits) == 3)
    before, after = recorder.hits[1:]
    assert (after["trackerId"], after["isPersistent"]) == (known, True)
    assert before["isPersistent"] is False
    assert after["pageUrl"] == before["pageUrl"] == f"{url}/{CAMPAIGN}"
    assert after["date"] == before["date"]
    # The id proves to the service that it is the same browser.
    assert after["hitId"] == before["hitId"]


def test_page_views_wait_for_the_consent_banner_a_while(page, script):
    tidied = AGREED + "setTimeout(() => history.replaceState({}, '', '/'), 20);"
    recorder = Recorder(script, {"/": tidied, "/first": "attrib = [['consent', true]]"})
    with site(recorder) as url:
        page.goto(f"{url}/first")
        eventually(lambda: len(recorder.hits) == 1)
        page.goto(f"{url}/{CAMPAIGN}")
        eventually(lambda: page.evaluate("location.search") == "")
        settle(page, recorder)
    assert [hit["pageUrl"] for hit in recorder.hits] == [f"{url}/first", f"{url}/{CAMPAIGN}"]
    assert len({hit["trackerId"] for hit in recorder.hits}) == 1
    assert [hit["isPersistent"] for hit in recorder.hits] == [True, True]


def test_a_banner_that_does_not_answer_holds_page_views_back_for_its_time_only(page, script):
    recorder = Recorder(script, {"/": DENIED.replace('"denied"}', '"denied", wait_for_update: 300}')})
    with site(recorder) as url:
        page.goto(url)
        eventually(lambda: len(recorder.hits) == 1)
        page.goto("about:blank")
    assert recorder.hits[0]["isPersistent"] is False


@pytest.mark.parametrize(
    ("defaults", "is_stored"),
    [
        ('[{analytics_storage: "granted"}]', True),
        ('[{analytics_storage: "granted", region: ["US"]}]', False),
        ('[{analytics_storage: "denied", region: ["FR"]}, {analytics_storage: "granted"}]', False),
        ('[{analytics_storage: "granted"}, {analytics_storage: "denied", region: ["FR"]}]', False),
        ('[{ad_storage: "granted"}]', False),
    ],
)
def test_defaults_of_consent_mode(page, script, defaults, is_stored):
    head = f"dataLayer = []; function gtag() {{ dataLayer.push(arguments) }} {defaults}"
    recorder = Recorder(script, {"/": f"{head}.forEach((each) => gtag('consent', 'default', each));"})
    with site(recorder) as url:
        page.goto(url)
        eventually(lambda: len(recorder.hits) == 1)
        assert page.evaluate("document.cookie") == (
            f"attrib-shop={recorder.hits[0]['trackerId']}" if is_stored else ""
        )
    assert recorder.hits[0]["isPersistent"] is is_stored


def test_consent_is_looked_up_where_other_pages_keep_it(page, script):
    recorder, known = Recorder(script), str(UUID(int=1))
    with site(recorder) as url:
        page.goto(url)
        eventually(lambda: len(recorder.hits) == 1)
        # A page of another host of the site has no other way to tell.
        page.evaluate(f"document.cookie = 'attrib-shop={known}'")
        page.evaluate("history.pushState({}, '', '/second')")
        eventually(lambda: len(recorder.hits) == 3)
        # For a moment, pages that are just setting the cookie find that it was withdrawn.
        assert page.evaluate("(attrib.consent(false), document.cookie)") == "attrib-shop~="
        assert page.evaluate("attrib.trackerId()") != known
        # As an answer does that nobody waits for.
        page.evaluate(f"document.cookie = 'attrib-shop={known}'")
        page.wait_for_function("!document.cookie")
    assert {(hit["pageUrl"], hit["trackerId"]) for hit in recorder.hits if hit["isPersistent"]} == {
        (f"{url}/", known),
        (f"{url}/second", known),
    }


def test_a_late_answer_does_not_bring_a_withdrawn_cookie_back(page, script):
    recorder = Recorder(script)
    withdrawn = threading.Event()

    def answer(path, body):
        reply = recorder(path, body)
        if path != "/c":
            return reply
        assert withdrawn.wait(TIMEOUT)
        return 202, {"Set-Cookie": f"attrib-shop={json.loads(body)['trackerId']}; Path=/; Max-Age=600"}, b""

    with site(answer) as url:
        page.goto(url)
        page.wait_for_function("window.attrib?.trackerId")
        old = page.evaluate("(attrib.consent(true), attrib.trackerId())")
        eventually(lambda: any(hit["isPersistent"] for hit in recorder.hits))
        page.evaluate("attrib.consent(false); document.cookie = 'attrib-shop~=; Max-Age=0'")
        page.evaluate(CHANGES)
        withdrawn.set()
        page.wait_for_function("changes.length == 2")
        assert page.evaluate("changes") == [old, ""]


def test_a_late_answer_does_not_replace_the_cookie_of_a_new_consent(page, script):
    recorder = Recorder(script)
    agreed = threading.Event()

    def answer(path, body):
        reply = recorder(path, body)
        if path != "/c" or not json.loads(body)["isPersistent"] or agreed.is_set():
            return reply
        assert agreed.wait(TIMEOUT)
        return 202, {"Set-Cookie": f"attrib-shop={json.loads(body)['trackerId']}; Path=/; Max-Age=600"}, b""

    with site(answer) as url:
        page.goto(url)
        page.wait_for_function("window.attrib?.trackerId")
        old = page.evaluate("(attrib.consent(true), attrib.trackerId())")
        eventually(lambda: any(hit["isPersistent"] for hit in recorder.hits))
        new = page.evaluate("(attrib.consent(false), attrib.consent(true), attrib.trackerId())")
        page.evaluate(CHANGES)
        agreed.set()
        page.wait_for_function(f"changes.slice(-2).join() == '{old},{new}'")
    assert old != new


#: Records the values of the project's cookie; a removed one has none.
CHANGES = """
changes = [];
cookieStore.onchange = ({changed, deleted}) => {
  const all = [...changed, ...deleted].filter(({name}) => name == "attrib-shop");
  changes.push(...all.map(({value}) => value || ""));
};
1
"""


def test_pages_of_the_moment_after_a_withdrawal_do_not_take_the_old_id(page, script):
    recorder, old, new = Recorder(script), str(UUID(int=1)), str(UUID(int=2))
    with site(recorder) as url:
        # As an answer does that nobody waits for.
        page.goto(f"{url}/")
        page.evaluate(f"document.cookie = 'attrib-shop~='; document.cookie = 'attrib-shop={old}'")
        page.goto(f"{url}/denied")
        eventually(lambda: recorder.hits[-1]["pageUrl"] == f"{url}/denied")
        page.wait_for_function("document.cookie == 'attrib-shop~='")
        # Consent that was given again.
        page.evaluate(f"document.cookie = 'attrib-shop~={new}'; document.cookie = 'attrib-shop={old}'")
        page.goto(f"{url}/granted")
        page.wait_for_function(f"document.cookie == 'attrib-shop~={new}; attrib-shop={new}'")
        assert page.evaluate("attrib.trackerId()") == new
    assert old not in {hit["trackerId"] for hit in recorder.hits}


def test_an_id_that_another_tab_withdraws_while_a_page_takes_it_is_not_used(page, script):
    recorder = Recorder(script, options='data-consent="granted"')
    old = "0" * 8 + "-0000-4000-8000-" + "0" * 12
    # The other tab withdraws consent when this page writes the cookie.
    page.add_init_script(
        f"let kept = 'attrib-shop~={old}';"
        "Object.defineProperty(document, 'cookie', {get: () => kept, set() { kept = 'attrib-shop~='; }})"
    )
    with site(recorder) as url:
        page.goto(url)
        eventually(lambda: recorder.hits)
        assert page.evaluate("attrib.trackerId()") != old
    assert [(hit["trackerId"] == old, hit["isPersistent"]) for hit in recorder.hits] == [(False, False)]


def test_two_projects_on_one_page_are_a_warning(page, script):
    page.add_init_script("warned = []; console.warn = (...texts) => warned.push(texts.join(' '))")
    add = """(project) => new Promise((done) => {
        const script = Object.assign(document.createElement("script"), {src: "/t.js", onload: () => done()});
        script.dataset.project = project;
        document.head.append(script);
    })"""
    with site(Recorder(script)) as url:
        for project, warned in (("shop", []), ("other", ["attrib: only one data-project counts"])):
            page.goto(url)
            page.wait_for_function("window.attrib")
            page.evaluate(add, project)
            assert page.evaluate("warned") == warned


def test_a_page_that_hears_of_consent_does_not_tell_it_again(page, script):
    with site(Recorder(script)) as url:
        page.goto(url)
        page.wait_for_function("window.attrib?.trackerId")
        page.evaluate(
            "other = new BroadcastChannel('attrib-shop'); other.onmessage = () => { isTold = true }; 1"
        )
        # The page that gave consent may have withdrawn it since.
        page.evaluate("other.postMessage(true)")
        page.wait_for_function("document.cookie")
        page.evaluate("other.postMessage(false)")
        page.wait_for_function("!document.cookie")
        assert page.evaluate("typeof isTold") == "undefined"
        # Nor does late news of consent outweigh that it was withdrawn since.
        page.evaluate(
            "third = new BroadcastChannel('attrib-shop'); heard = 0; third.onmessage = () => { heard++ };"
            "document.cookie = 'attrib-shop~='; other.postMessage(true); other.postMessage(false)"
        )
        page.wait_for_function("heard == 2")
        assert page.evaluate("document.cookie") == "attrib-shop~="
        # A page that slept hears of a withdrawal after consent was given again.
        again = f"attrib-shop={UUID(int=1)}"
        page.evaluate(
            f"document.cookie = 'attrib-shop~=; Max-Age=0'; document.cookie = '{again}'; other.postMessage(false)"
        )
        page.wait_for_function("heard == 3")
        assert page.evaluate("document.cookie") == again


def test_g200_global_privacy_control_keeps_anything_from_being_stored(page, script):
    recorder = Recorder(script, options='data-consent="granted"')
    page.add_init_script("Object.defineProperty(navigator, 'globalPrivacyControl', {value: true})")
    with site(recorder) as url:
        page.goto(url)
        page.evaluate("attrib.consent(true)")
        eventually(lambda: len(recorder.hits) == 1)
        assert page.evaluate("document.cookie + localStorage.length + sessionStorage.length") == "00"
    assert recorder.hits[0]["isPersistent"] is False


#: As Firefox does when a tab is closed: what the page does first at its end stops halfway.
STOPPED = """
const send = fetch;
fetch = (url, options) => {
  if (!options.keepalive) return send(url, options);
  fetch = send;
  throw new Error("stopped");
};
"""


@pytest.mark.parametrize("head", ["", STOPPED], ids=["whole", "stopped"])
def test_a_page_that_is_left_sends_what_waits(page, script, head):
    recorder = Recorder(script, {"/": head})
    recorder.statuses = [503]
    with site(recorder) as url:
        with page.expect_response("**/c"):
            page.goto(url)
        page.evaluate("addEventListener('pagehide', () => attrib.event('order', {}, {nonce: 'n-1'}))")
        page.goto("about:blank")
        eventually(lambda: len(recorder.sent) >= 3)
    assert len(recorder.hits) == 1
    assert [body["nonce"] for path, body in recorder.sent if path != "/c"] == ["n-1"]


ORDER = "attrib.event('order', {total: 10}, {nonce: 'n-1'})"


def test_with_consent_an_outage_loses_neither_the_landing_page_nor_an_event(page, script):
    recorder = Recorder(script, options='data-consent="granted"')
    with site(recorder) as url:
        recorder.statuses = [503] * 20
        page.goto(f"{url}/{CAMPAIGN}")
        page.evaluate(ORDER)
        eventually(lambda: len(recorder.sent) >= 2)
        page.goto(f"{url}/next")
        eventually(lambda: len(recorder.statuses) <= 16)
        recorder.statuses, before = [], len(recorder.sent)
        page.goto(f"{url}/last")
        # Each of them comes with what the last page sends, at the latest.
        eventually(
            lambda: (
                len({json.dumps(body.get("hitId") or body["nonce"]) for _, body in recorder.sent[before:]})
                == 4
            )
        )
        eventually(lambda: page.evaluate("Object.keys(localStorage).length") == 0)
    again = recorder.sent[before:]
    landing = next(body for path, body in recorder.sent if path == "/c")
    sent_again = next(body for path, body in again if body.get("hitId") == landing["hitId"])
    assert sent_again["pageUrl"] == f"{url}/{CAMPAIGN}"
    assert (sent_again["date"], sent_again["trackerId"]) == (landing["date"], landing["trackerId"])
    assert sent_again["sentAt"] > landing["sentAt"]
    # The nonce keeps an event from counting twice.
    events = {(body["nonce"], body["data"]["total"]) for path, body in again if path == "/api/v1/events"}
    assert events == {("n-1", 10)}


def test_what_waits_is_in_the_browser_only_with_consent_and_a_day_at_most(page, script):
    recorder = Recorder(script)
    with site(recorder) as url:
        recorder.statuses = [503] * 20
        with page.expect_response("**/c") as answer:
            page.goto(url)
        answer.value.finished()
        assert page.evaluate("localStorage.length") == 0
        page.evaluate("attrib.consent(true)")
        # The page view, and again with the id that lasts.
        page.wait_for_function("localStorage.length == 2")
        kept = page.evaluate("Object.entries(localStorage)")
        assert [name.partition(":")[0] for name, _ in kept] == ["attrib-shop"] * 2
        page.evaluate("attrib.consent(false)")
        assert page.evaluate("localStorage.length") == 0
        name, content = kept[0]
        old = json.loads(content) | {"made": json.loads(content)["made"] - 25 * 3_600_000}
        old["content"]["hitId"] = "00000000-0000-4000-8000-000000000001"
        page.evaluate("([name, text]) => localStorage.setItem(name, text)", [name, json.dumps(old)])
        recorder.statuses = []
        page.goto("about:blank")
        page.goto(url)
        page.evaluate("attrib.consent(true)")
        eventually(lambda: page.evaluate("localStorage.length") == 0)
    assert old["content"]["hitId"] not in {hit["hitId"] for hit in recorder.hits}


BODY = """
<a id="out" href="https://other.example/x">out</a> <a id="in" href="/in">in</a> <a id="mail" href="mailto:a@b.c">mail</a>
<a id="file" href="/price%20list.PDF?x=1">file</a> <a id="saved" download href="/in">saved</a>
<form id="contact" action="/in"><button id="send">send</button></form><div style="height: 5000px"></div>
"""


def scroll(page, place):
    """Scroll, until the page has heard of it."""
    page.evaluate(
        "place => new Promise((done) => (addEventListener('scroll', done, {once: true}), scrollTo(0, place)))",
        place,
    )


GUIDE = (Path(__file__).parents[4] / "docs/how-to/measure-a-site.md").read_text(encoding="utf-8")


def test_what_the_script_counts_fits_the_declarations_of_the_guide(page, script, tmp_path):
    recorder = Recorder(script, options='data-count="links downloads forms scroll missing"')
    # An address that was typed has no referrer, a form need not have a name, and addresses may be long.
    long = "x" * 3_000
    recorder.missing = {f"/gone?{long}"}
    with site(recorder) as url:
        page.goto(f"{url}/gone?{long}")
        body = BODY.replace("other.example/x", f"other.example/{long}") + "<form id=''></form>"
        page.evaluate("html => document.body.insertAdjacentHTML('beforeend', html)", body)
        page.evaluate("addEventListener('click', (event) => event.preventDefault())")
        page.evaluate("addEventListener('submit', (event) => event.preventDefault())")
        for name in ("out", "file", "saved"):
            page.click(f"#{name}")
        page.evaluate("[...document.forms].forEach((form) => form.requestSubmit())")
        scroll(page, 90_000)
        kinds = {"outbound-link", "file-download", "form-submit", "scroll-depth", "page-not-found"}
        # A link, two downloads, two forms, four depths, a missing page, and the page view.
        eventually(lambda: len(recorder.sent) == 11)
    sent = [body for path, body in recorder.sent if path == "/api/v1/events"]
    assert {body["eventType"] for body in sent} == kinds
    connection = re.search(r'at\.connect\("my-shop", url=.*?\)', GUIDE)[0]
    counted = next(
        block for block in re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL) if "scroll-depth" in block
    )
    with at.connect("my-shop", path=tmp_path / "shop.duckdb") as shop:
        exec(
            counted.replace(connection, "contextlib.nullcontext(shop)"),
            {"shop": shop, "contextlib": contextlib},
        )
        for body in sent:
            shop.send(
                "create_event_sync", event_type=body["eventType"], nonce=body["nonce"], data=body["data"],
                event_date=body["eventDate"], tracker_id=body["trackerId"],
            )  # fmt: skip
        assert at.list_trashed_events(shop).empty
        assert set(at.search_events(shop)["eventType"]) == kinds


@pytest.mark.parametrize(
    "options", ['data-count="links downloads forms scroll"', "", 'data-count="downloads"']
)
def test_what_is_counted_beside_page_views_is_what_the_page_asks_for(page, script, options):
    recorder = Recorder(script, options=options)
    with site(recorder) as url:
        page.goto(url)
        page.evaluate("html => document.body.insertAdjacentHTML('beforeend', html)", BODY)
        page.evaluate("addEventListener('click', (event) => event.preventDefault())")
        page.evaluate("addEventListener('submit', (event) => event.preventDefault())")
        for name in ("out", "in", "mail", "file", "saved"):
            page.click(f"#{name}")
        page.evaluate("document.getElementById('contact').requestSubmit()")
        for place in (2_000, 90_000):
            scroll(page, place)
        files = [
            ("file-download", {"url": f"{url}/price%20list.PDF?x=1"}),
            ("file-download", {"url": f"{url}/in"}),
        ]
        expected = {
            "": [],
            'data-count="downloads"': files,
            'data-count="links downloads forms scroll"': [
                ("outbound-link", {"url": "https://other.example/x"}),
                *files,
                ("form-submit", {"form": "contact", "url": f"{url}/"}),
                *(("scroll-depth", {"percent": percent, "url": f"{url}/"}) for percent in (25, 50, 75, 100)),
            ],
        }
        # With the page view.
        eventually(lambda: len(recorder.sent) > len(expected[options]))
        settle(page, recorder)
    events = [(body["eventType"], body["data"]) for path, body in recorder.sent if path == "/api/v1/events"]
    # Requests of one moment arrive in any order.
    assert sorted(events, key=str) == sorted(expected[options], key=str)


def test_routes_in_the_fragment_are_page_views_and_missing_pages_events(page, script):
    recorder = Recorder(script, options='data-count="hash missing"')
    recorder.missing = {"/gone"}
    with site(recorder) as url:
        page.goto(f"{url}/gone")
        eventually(lambda: len(recorder.sent) == 2)
        heard = "new Promise((done) => addEventListener('hashchange', () => done(), {once: true}))"
        for route in ("#/a", "#/b"):
            page.evaluate(f"route => {{ const heard = {heard}; location.hash = route; return heard }}", route)
        page.evaluate("() => { location.hash = '#/b' }")
        eventually(lambda: len(recorder.hits) == 3)
    # Requests of one moment arrive in any order.
    pages = sorted(hit["pageUrl"] for hit in recorder.hits)
    assert pages == [f"{url}/gone", f"{url}/gone#/a", f"{url}/gone#/b"]
    (missing,) = [body for path, body in recorder.sent if path == "/api/v1/events"]
    assert (missing["eventType"], missing["data"]) == (
        "page-not-found",
        {"url": f"{url}/gone"},
    )


def test_calls_before_the_script_is_there_are_made_later(page, script):
    recorder = Recorder(
        script, {"/": "attrib = [['event', 'order', {total: 10, title: 'cut \\ud83d'}, {nonce: 'n-1'}]]"}
    )
    with site(recorder) as url:
        page.goto(url)
        eventually(lambda: len(recorder.sent) == 2)
    (event,) = [body for path, body in recorder.sent if path == "/api/v1/events"]
    assert event.pop("eventDate") <= event.pop("sentAt")
    assert event == {
        "projectId": "shop",
        "eventType": "order",
        "trackerId": recorder.hits[0]["trackerId"],
        "nonce": "n-1",
        "data": {"total": 10, "title": "cut \ufffd"},
    }


@pytest.mark.parametrize("head", ["", AGREED_LATER], ids=["cookie", "banner"])
def test_early_calls_of_a_visitor_who_comes_back_have_the_stored_id(page, script, head):
    calls = "attrib = [['show', 'banner', (isShown) => { shown = isShown }], ['event', 'order']];"
    recorder = Recorder(script, {"/": head + calls, "/first": "attrib = [['consent', true]]"})
    with site(recorder) as url:
        page.goto(f"{url}/first")
        eventually(lambda: len(recorder.hits) == 1)
        known = page.evaluate("attrib.trackerId()")
        recorder.sent.clear()
        page.goto(url)
        eventually(lambda: len(recorder.sent) >= 3)
        page.wait_for_function("window.shown")
    assert {path: body["trackerId"] for path, body in recorder.sent} == dict.fromkeys(
        ["/c", "/show", "/api/v1/events"], known
    )
    (asked,) = [body for path, body in recorder.sent if path == "/show"]
    assert asked["isPersistent"] is True


def test_calls_wait_until_a_page_is_shown_that_was_rendered_before(page, script):
    recorder = Recorder(script, {"/": "attrib = [['show', 'banner']]"})
    page.add_init_script(
        "let isHidden = true; Object.defineProperty(document, 'prerendering', {get: () => isHidden});"
        "activate = () => { isHidden = false; document.dispatchEvent(new Event('prerenderingchange')) }"
    )
    with site(recorder) as url:
        page.goto(url)
        page.wait_for_function("attrib.trackerId")
        page.evaluate("attrib.event('order')")
        # What the page had sent before would be there.
        page.evaluate("fetch('/barrier').then(() => 1)")
        assert recorder.sent == []
        page.evaluate("activate()")
        eventually(lambda: len(recorder.sent) == 3)
    assert len({body["trackerId"] for _, body in recorder.sent}) == 1


@pytest.mark.parametrize(
    "call",
    ["null", "undefined", "1", "[]", "['event', 'order', {total: 10n}]", "['event', 'order', {}, null]"],
)
def test_a_call_that_cannot_be_made_leaves_the_page_and_other_calls_alone(page, script, call):
    recorder = Recorder(script)
    with site(recorder) as url:
        page.goto(url)
        page.wait_for_function("window.attrib")
        page.evaluate(f"attrib.push({call}, ['event', 'order', {{}}, {{nonce: 'n-1'}}])")
        eventually(lambda: len(recorder.sent) == 2)
    assert [body["nonce"] for path, body in recorder.sent if path == "/api/v1/events"] == ["n-1"]


def test_an_event_that_cannot_be_sent_has_no_nonce(page, script):
    recorder = Recorder(script)
    with site(recorder) as url:
        page.goto(url)
        page.wait_for_function("window.attrib")
        assert page.evaluate("attrib.event('order', {total: 10n})") is None
        assert page.evaluate("const ring = {}; ring.ring = ring; attrib.event('order', ring)") is None
        assert page.evaluate("attrib.event('order', {}, null)") is None
        assert page.evaluate("attrib.event('order', {}, {nonce: 'n-1'})") == "n-1"


def test_a_service_that_is_gone_does_not_disturb_the_page(page, script):
    recorder = Recorder(script)
    with site(recorder) as url:
        page.goto(url)
        page.route("**/c", lambda route: route.abort())
        page.route("**/api/**", lambda route: route.abort())
        page.evaluate("history.pushState({}, '', '/boots')")
        page.evaluate("const ring = {}; ring.ring = ring; attrib.event('order', ring)")
        page.evaluate("attrib.event('order'); attrib.consent(true); attrib.push(['nothing'])")
        assert page.evaluate("Object.keys(window).filter((name) => name.startsWith('attrib'))") == ["attrib"]


@pytest.mark.large
@pytest.mark.parametrize(
    ("orders", "has_effect"), [("number % 2", False), ("isShown", True)], ids=["a-a", "a-b"]
)
def test_a_run_in_the_browser_has_an_effect_only_if_the_placement_does(
    chromium, tmp_path, orders, has_effect
):
    """Every second visitor orders, whatever the page shows, or those who see it; the answers are those of the list."""
    visitors = 60
    file = tmp_path / "shop.duckdb"
    with at.connect("shop", path=file) as shop:
        at.create_event_type(shop, "order", name="Order")
        at.admin.create_integration(shop, "my-site", name="My site")
        campaign = at.create_campaign(shop, "my-site", "banner", name="Banner")
    with closing(duckdb.connect(file)) as connection:
        # The same draw in each run, as are the ids of the visitors.
        connection.execute("INSERT INTO settings VALUES ('holdoutKey', '\"0123456789abcdef\"')")
    with at.connect("shop", path=file) as shop:
        at.experiments.create_holdout(shop, "banner", node_id=campaign, share=0.5)
    # Headless Chromium is a bot by its user agent.
    context = chromium.new_context(user_agent="Mozilla/5.0 (X11; Linux x86_64; rv:130.0) Firefox/130.0")
    page = context.new_page()
    statuses = []
    page.on(
        "response", lambda response: response.url.endswith("/events") and statuses.append(response.status)
    )
    page.add_init_script(
        "let last = 0; crypto.randomUUID = () => "
        "`00000000-0000-4000-8000-${String(++last).padStart(12, '0')}`"
    )
    with running(tmp_path, options=ServerOptions(rate_limits=None)) as url:
        content = html(f"{url}/t.js")
        with site(lambda *_: (200, {"Content-Type": "text/html"}, content)) as shop_url:
            page.goto(shop_url)
            page.wait_for_function("window.attrib")
            answers = page.evaluate(
                """async (visitors) => {
                  const answers = [];
                  for (let number = 0; number < visitors; number++) {
                    attrib.consent(true);
                    const isShown = await attrib.show("banner");
                    answers.push([attrib.trackerId(), isShown]);
                    if (ORDERS) attrib.event("order");
                    attrib.consent(false);
                  }
                  const early = await new Promise((resolve) => attrib.push(["show", "gone", resolve]));
                  return [answers, early];
                }""".replace("ORDERS", orders),
                visitors,
            )
            shown, is_unknown_shown = dict(answers[0]), answers[1]
            ordered = sum(shown.values()) if has_effect else visitors // 2
            deadline = time.monotonic() + TIMEOUT
            while len(statuses) < ordered:
                assert time.monotonic() < deadline, statuses
                page.wait_for_timeout(50)
            # A page that is closed sends again what it has not heard of.
            answered = list(statuses)
    context.close()
    assert is_unknown_shown is True
    assert answered == [200] * ordered
    with at.connect("shop", path=file) as shop:
        drawn = at.experiments.assign(shop, shown, holdout="banner", column="tracker_id")
        log = at.experiments.list_opportunities(shop, holdout="banner")
        paths = at.conversion_paths(shop, event_type="order")
        effects = at.experiments.holdout_effects(paths, log)
    assert dict(zip(drawn["tracker_id"], ~drawn["withheld"], strict=True)) == shown
    (row,) = effects.table().join(effects.groups()[["users", "withheld"]]).to_dict("records")
    assert (row["users"], row["withheld"]) == (visitors, drawn["withheld"].sum())
    assert (row["low"] > 0) is has_effect
    assert row["high"] > 0


def test_without_an_answer_the_placement_is_shown(page, script):
    recorder = Recorder(script)
    with site(recorder) as url:
        page.goto(url, referer="https://search.example/")
        # The site answers like a service that is too old: with nothing.
        assert page.evaluate("attrib.show('banner')") is True
        page.route("**/show", lambda route: route.abort())
        assert page.evaluate("attrib.show('banner')") is True
        page.unroute("**/show")
        page.route("**/show", lambda route: None)
        started = time.monotonic()
        assert page.evaluate("attrib.show('banner')") is True
        assert time.monotonic() - started > 0.9
        page.unroute_all(behavior="ignoreErrors")
    (asked,) = [body for path, body in recorder.sent if path == "/show"]
    assert asked.pop("opportunityId")
    assert asked == {
        "projectId": "shop",
        "holdout": "banner",
        "trackerId": recorder.hits[0]["trackerId"],
        "isPersistent": False,
        "referrer": "https://search.example/",
    }
