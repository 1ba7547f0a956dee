"""The live page: what it reads, what it shows, and what becomes of errors."""

import re
import shutil
from contextlib import ExitStack, closing
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pandas as pd
import pyarrow as pa
import pytest
from support.http_caller import Caller
from support.waiting import eventually
from support.widget_tree import shown

import attrib_ds as at
from attrib_ds.contract import Answer
from attrib_ds.errors import InvalidRequest, Unavailable
from attrib_ds.forms import day_view
from attrib_ds.forms.live_page import Live, Ticker
from attrib_ds.project import Project
from attrib_ds.service.accounts.accounts import create_key
from attrib_ds.service.http.server import ServerOptions, running

FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:130.0) Gecko/20100101 Firefox/130.0"
SPRING = "https://shop.example/boots?utm_source=newsletter&utm_medium=email&utm_campaign=spring"
CLICK = "https://shop.example/?gclid=1"
PAGE = "https://shop.example/"
#: In Paris, 30 March 2025 had 23 hours: from 2025-03-29T23:00Z to 2025-03-30T22:00Z, without hour 2.
HITS = [
    ("before", "2025-03-29T22:59:59Z", PAGE, FIREFOX),
    ("first", "2025-03-29T23:00:00Z", SPRING, FIREFOX),
    ("first", "2025-03-29T23:10:00Z", PAGE, FIREFOX),
    ("second", "2025-03-30T07:15:00Z", SPRING, FIREFOX),
    ("third", "2025-03-30T07:30:00Z", CLICK, FIREFOX),
    ("bot", "2025-03-30T08:00:00Z", PAGE, "Googlebot/2.1"),
    ("last", "2025-03-30T21:59:59Z", PAGE, FIREFOX),
    ("after", "2025-03-30T22:00:00Z", PAGE, FIREFOX),
]
ORDERS = [("2025-03-29T10:00:00Z", 7), ("2025-03-30T08:00:00Z", 30), ("2025-03-30T20:00:00Z", 12.5)]
EVENING = datetime(2025, 3, 30, 21, 59, 59, tzinfo=UTC)
ITEMS = {"type": "number", "entity": "event", "storageKey": "items", "ingestionKey": "items"}
TURNOVER = {"type": "currency", "entity": "event", "storageKey": "turnover"}


def hits_of(rows):
    hits = pd.DataFrame(rows, columns=["trackerId", "date", "pageUrl", "userAgent"])
    return hits.assign(date=pd.to_datetime(hits["date"]))


def fill(project):
    at.load(project, hits=hits_of(HITS))
    at.create_event_type(project, "order", name="Order <1>", fields=[TURNOVER])
    at.create_event_type(project, "lead", name="Lead", fields=[ITEMS])
    orders = pd.DataFrame(ORDERS, columns=["eventDate", "statistics.turnover.amount"])
    orders = orders.assign(
        **{"eventType": "order", "userId": "0" * 24, "statistics.turnover.currency": "EUR"}
    )
    lead = {
        "eventType": "lead",
        "userId": "0" * 24,
        "eventDate": "2025-04-03T10:00:00Z",
        "statistics.items": 3,
    }
    for events in (orders, pd.DataFrame([lead])):
        assert len(at.load(project, events=events).rejected) == 0


@pytest.fixture(scope="module")
def projects(tmp_path_factory):
    here, there = tmp_path_factory.mktemp("here"), tmp_path_factory.mktemp("there")
    with ExitStack() as stack:
        with at.connect("paris", path=there / "paris.duckdb", timezone="Europe/Paris") as project:
            fill(project)
        at.connect("empty", path=there / "empty.duckdb").close()
        shutil.copy(there / "paris.duckdb", here)
        create_key(there, there / "key.json", projects=None)
        reading = ("interactions:read", "events:read", "event-types:read")
        create_key(there, there / "reading.json", projects=None, scopes=reading)
        url = stack.enter_context(running(there, options=ServerOptions(rate_limits=None)))
        yield {
            "url": url,
            "embedded": stack.enter_context(at.connect("paris", path=here / "paris.duckdb")),
            "remote": stack.enter_context(at.connect("paris", url=url, key=there / "key.json")),
            "reading": stack.enter_context(at.connect("paris", url=url, key=there / "reading.json")),
            "empty": stack.enter_context(at.connect("empty", url=url, key=there / "key.json")),
        }


@pytest.fixture(params=["embedded", "remote"])
def paris(request, projects):
    return projects[request.param]


def at_time(instant):
    return lambda: instant


def text_of(page):
    """What a reader sees, without the code."""
    html = re.sub(r"<style>.*?</style>|<pre.*?</pre>", "", shown(page), flags=re.DOTALL)
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", html))


class Proxy:
    """A transport that records what is sent, and fails while told to."""

    def __init__(self, project):
        self.project, self.sent, self.problem = project, [], None

    def send(self, operation, request):
        self.sent.append(operation.name)
        if self.problem is not None:
            raise self.problem
        return self.project.transport.send(operation, request)

    def __getattr__(self, name):
        return getattr(self.project.transport, name)


def through(proxy):
    return Project(proxy.project.project_id, proxy)


@pytest.mark.large
@pytest.mark.slow
def test_a_day_is_that_of_the_projects_time_zone(paris):
    numbers = Live(paris, now=at_time(EVENING)).run()
    visits = numbers["visits"]
    by_hour = visits.groupby("interval")["sessionCount"].sum()
    assert by_hour.to_dict() == {"0": 1, "9": 2, "23": 1}
    by_node = visits.groupby("group")["sessionCount"].sum()
    assert by_node.to_dict() == {"newsletter/email/spring": 2, "google/cpc": 1, "direct": 1}
    assert visits["hitCount"].sum() == 5
    conversions = numbers["conversions"].set_index("identifier")
    assert conversions["values.event-count"].to_dict() == {"lead": 0, "order": 2}
    assert conversions["values.turnover"].to_dict() == {"lead": 0, "order": 42.5}
    newest = numbers["newest"]
    assert newest["firstPageUrl.pathname"].tolist() == ["/", "/", "/boots", "/boots"]
    assert newest["startDate"].is_monotonic_decreasing


@pytest.mark.slow
def test_the_page_shows_the_numbers_of_the_day(paris):
    page = Live(paris, now=at_time(EVENING))
    page.run()
    text = text_of(page)
    assert "Today Sunday 30 March 2025, Europe/Paris" in text
    assert "Visits 4 Hits 5 Conversions 2 Not counted: 1 visit by bots" in text
    assert "Source Visits newsletter / email › spring 2 Direct 1 google / cpc 1" in text
    assert "Order &lt;1&gt; 2 42.50 EUR" in text
    assert "Lead" not in text
    assert "23:59:59 Direct / 1 09:30:00 google / cpc / 1 09:15:00" in text
    html = shown(page)
    assert 'aria-label="Visits by hour: 1 at 0, 2 at 9, 1 at 23"' in html
    assert re.findall(r'attrib-partial" title="(\d+)', html) == ["23"]


@pytest.mark.slow
def test_the_next_day_begins_at_midnight_of_the_time_zone(paris):
    instants = [EVENING, EVENING + timedelta(seconds=1)]
    page = Live(paris, now=lambda: instants[0])
    page.run()
    del instants[0]
    assert page.run()["visits"]["sessionCount"].tolist() == [1]
    assert "Monday 31 March 2025" in text_of(page)
    assert "Conversions None yet." in text_of(page)


@pytest.mark.slow
def test_without_visits_the_page_says_since_when_and_what_to_do(paris):
    page = Live(paris, now=at_time(EVENING + timedelta(days=2)))
    assert [len(frame) for frame in page.run().values()] == [0, 2, 0]
    text = text_of(page)
    assert "No visits yet today. The last one began on 31 March 2025 at 00:00." in text
    assert "Visits by hour" not in text


@pytest.mark.slow
def test_a_statistic_that_is_no_money_has_its_name(paris):
    page = Live(paris, now=at_time(EVENING + timedelta(days=4)))
    page.run()
    assert "Event type Events Value Lead 1 items 3" in text_of(page)


@pytest.mark.slow
def test_the_line_of_html_is_that_of_the_server(projects):
    page = at.forms.live(projects["empty"])
    page.run()
    assert "No visits have arrived yet. A visit appears here" in text_of(page)
    line = f'<script async src="{projects["url"]}/t.js" data-project="empty"></script>'
    assert line in shown(page).replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", '"')
    assert "attrib-ds serve" not in shown(page)


@pytest.mark.slow
def test_a_project_of_this_process_has_to_be_served_first(projects):
    page = Live(projects["embedded"], now=at_time(EVENING + timedelta(days=2)))
    page.run()
    assert "attrib-ds serve --url" in shown(page)
    assert "attrib-ds keys create paris --out key.json" in shown(page)


@pytest.mark.large
@pytest.mark.slow
def test_a_hit_that_the_server_collects_appears(tmp_path):
    at.connect("shop", path=tmp_path / "shop.duckdb").close()
    create_key(tmp_path, tmp_path / "key.json", projects=None)
    hit = {"projectId": "shop", "trackerId": "t", "pageUrl": CLICK}
    with (
        running(tmp_path, options=ServerOptions(rate_limits=None)) as url,
        at.connect("shop", url=url, key=tmp_path / "key.json") as shop,
    ):
        page = at.forms.live(shop)
        assert len(page.run()["visits"]) == 0
        assert Caller(url)("POST", "/c", hit, User_Agent=FIREFOX).status == 202
        # Half a second later it is in a session.
        eventually(lambda: len(page.run()["visits"]))
        assert page.results["visits"]["group"].tolist() == ["google/cpc"]
        assert "attrib-new" in shown(page)


def test_an_error_is_shown_with_the_numbers_from_before_and_goes_when_reading_works(projects):
    proxy = Proxy(projects["embedded"])
    page = Live(through(proxy), now=at_time(EVENING))
    page.run()
    proxy.problem = Unavailable("the service is away")
    with pytest.raises(Unavailable):
        page.run()
    assert page.error is proxy.problem
    text = text_of(page)
    assert "the service is away The page tries again by itself." in text
    assert "The numbers below are from 23:59:59." in text
    assert "Visits 4 " in text
    proxy.problem = None
    page.run()
    assert page.error is None
    assert "tries again" not in text_of(page)


def test_an_error_of_the_first_read_is_shown(projects):
    proxy = Proxy(projects["embedded"])
    proxy.problem = Unavailable("the service is away")
    page = Live(through(proxy), now=at_time(EVENING))
    with pytest.raises(Unavailable):
        page.run()
    assert 'role="alert"' in shown(page)
    assert "the service is away The page tries again by itself. " in text_of(page)


@pytest.mark.slow
def test_numbers_that_cannot_be_shown_are_an_error_too(projects):
    class Odd(Proxy):
        """A service whose visits have no start."""

        def send(self, operation, request):
            answer = super().send(operation, request)
            if operation.name != "search_interactions":
                return answer
            table = answer.read()
            place = table.column_names.index("startDate")
            field = table.schema.field(place)
            table = table.set_column(place, field, pa.nulls(len(table), field.type))
            return Answer.of(table, total=answer.total, offset=0, limit=8)

    page = Live(through(Odd(projects["embedded"])), now=at_time(EVENING))
    with pytest.raises(ValueError, match="NaT"):
        page.run()
    assert "NaT" in text_of(page)


@pytest.mark.slow
def test_a_read_is_a_few_calls_however_many_visits_there_are(projects):
    proxy = Proxy(projects["remote"])
    page = Live(through(proxy), now=at_time(EVENING))
    page.run()
    proxy.sent.clear()
    page.run()
    # The tree of nodes and the settings are read once.
    assert sorted(proxy.sent) == [
        "event_insights",
        "interaction_insights",
        "list_event_types",
        "search_interactions",
        "search_interactions",
    ]


@pytest.mark.slow
def test_a_key_that_may_only_read_takes_the_time_zone_of_the_call(projects):
    page = Live(projects["reading"], now=at_time(EVENING))
    page.run()
    assert "Sunday 30 March 2025, UTC" in text_of(page)
    # The currency is unknown too.
    assert "Order &lt;1&gt; 2 42.50 Source" in text_of(page).replace(" Newest visits Began", "")
    page = Live(projects["reading"], timezone="Europe/Paris", now=at_time(EVENING))
    assert page.run()["visits"]["sessionCount"].sum() == 4


def test_what_visitors_send_is_shown_as_text():
    evil = "<img src=x onerror=alert(1)>"
    label = (evil, evil)
    visit = {"_id": "a", "startDate": pd.Timestamp(EVENING), "nodeId": "n", "hitCount": 1}
    visits = pd.DataFrame([{**visit, "firstPageUrl.pathname": f"/{evil}"}])
    shown_visits = day_view.newest(visits, {"n": label}, zone=ZoneInfo("UTC"), seen=None)
    shown_sources = day_view.sources({"n": 1}, {"n": label})
    assert "<img" not in shown_visits + shown_sources
    assert (shown_visits + shown_sources).count("&lt;img") == 5


def test_eight_sources_are_listed_and_the_others_summed():
    by_node = {f"s{node}": 10 - node for node in range(10)}
    labels = {node: (node,) for node in by_node}
    rows = re.findall(r"<tr>(.*?)</tr>", day_view.sources(by_node, labels))[1:]
    texts = [re.sub(r"<[^>]+>", " ", row).split() for row in rows]
    assert texts[:8] == [[f"s{node}", str(10 - node)] for node in range(8)]
    assert texts[8:] == [["2", "other", "sources", "3"]]


@pytest.mark.slow
def test_an_offline_interaction_has_neither_page_nor_hits():
    interactions = pd.DataFrame({"userId": ["0" * 24], "nodeId": ["store"], "startDate": [EVENING], "type": ["offline"]})  # fmt: skip
    nodes = pd.DataFrame({"_id": ["store"], "name": ["Store"], "type": ["channel"]})
    with at.connect("shop", path=":memory:") as shop:
        loaded = at.load(shop, interactions=interactions, nodes=nodes)
        assert len(loaded.rejected) == 0
        page = Live(shop, now=at_time(EVENING))
        page.run()
    assert "21:59:59 Store" in text_of(page)


@pytest.mark.large
@pytest.mark.slow
def test_only_visits_that_arrive_are_highlighted():
    with at.connect("shop", path=":memory:") as shop:
        at.load(shop, hits=hits_of([("a", EVENING.isoformat(), PAGE, FIREFOX)]))
        page = Live(shop, now=at_time(EVENING))
        page.run()
        assert "attrib-new" not in text_and_tags(page)
        at.load(shop, hits=hits_of([("b", EVENING.isoformat(), CLICK, FIREFOX)]))
        page.run()
        assert text_and_tags(page).count("attrib-new") == 1
        page.run()
        assert "attrib-new" not in text_and_tags(page)


def text_and_tags(page):
    return re.sub(r"<style>.*?</style>", "", shown(page), flags=re.DOTALL)


@pytest.mark.slow
def test_the_code_returns_the_numbers_of_the_page(projects):
    page = Live(projects["embedded"], now=at_time(EVENING))
    code = page.code
    results = page.run()
    assert page.code == code
    # The project is open already.
    names = {"at": at, "project": projects["embedded"]}
    exec(re.sub(r"^project = .*$", "", code, flags=re.MULTILINE), names)
    for name, frame in results.items():
        pd.testing.assert_frame_equal(names[name], frame)


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ({"timezone": "Mars"}, "^timezone: 'Mars' is not allowed"),
        ({"seconds": 0.5}, "^seconds: 0.5 is not allowed; expected a number of at least 1$"),
        ({"seconds": float("nan")}, "^seconds: nan is not allowed"),
    ],
)
def test_arguments_are_checked_at_once(projects, argument, message):
    with pytest.raises(InvalidRequest, match=message):
        at.forms.live(projects["embedded"], **argument)


@pytest.mark.large
@pytest.mark.slow
def test_a_server_that_comes_back_is_read_again(tmp_path):
    at.connect("shop", path=tmp_path / "shop.duckdb").close()
    create_key(tmp_path, tmp_path / "key.json", projects=None)
    with running(tmp_path) as url:
        shop = at.connect("shop", url=url, key=tmp_path / "key.json")
        page = at.forms.live(shop)
        page.run()
    with closing(shop):
        with pytest.raises(Unavailable):
            page.run()
        assert 'role="alert"' in shown(page)
        with running(tmp_path, port=int(url.rpartition(":")[2])):
            page.run()
        assert 'role="alert"' not in shown(page)
    assert page.error is None


def test_the_page_knows_the_seconds_and_the_time_of_the_last_update():
    """What the script of the widget reads is sent to it, now and when it changes."""
    ticker = Ticker(2.5, lambda: None)
    assert {name: ticker.get_state()[name] for name in ("seconds", "updated")} == {
        "seconds": 2.5,
        "updated": "",
    }
