"""The collection route: what it stores, what it refuses, and that a refusal stores nothing."""

import json
from contextlib import closing
from datetime import timedelta
from unittest.mock import ANY
from urllib.parse import urlencode

import duckdb
import pytest
from starlette.datastructures import Headers
from support.address_databases import IN_PARIS, OF_ORANGE, damage, write_asn, write_geo
from support.http_caller import Caller
from support.queued_records import queued

import attrib_ds as at
from attrib_ds import instants
from attrib_ds.errors import Unavailable
from attrib_ds.service.collection.hits import HitIntake
from attrib_ds.service.http import projects
from attrib_ds.service.http.errors import HttpError
from attrib_ds.service.http.server import Rate, ServerOptions, running
from attrib_ds.service.store.settings import ProjectSettings

FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:130.0) Gecko/20100101 Firefox/130.0"
PAGE = "https://shop.example/boots?utm_source=google&utm_medium=cpc&utm_campaign=spring"
PIXEL = b"GIF89a\x01\x00\x01\x00"


def uuid(number):
    return f"00000000-0000-4000-8000-{number:012}"


def hit(number=1, **members):
    return {"projectId": "shop", "hitId": uuid(number), "trackerId": "t-1", "pageUrl": PAGE, **members}


@pytest.fixture
def home(tmp_path):
    at.connect("shop", path=tmp_path / "shop.duckdb").close()
    return tmp_path


def posting(url):
    def post(body, method="POST", path="/c", **headers):
        content = body if isinstance(body, str | bytes) or body is None else json.dumps(body)
        return Caller(url)(method, path, content, **{"User_Agent": FIREFOX, **headers})

    return post


def change_settings(home, **settings):
    with at.connect("shop", path=home / "shop.duckdb") as shop:
        at.admin.update_settings(shop, **settings)


def rows(home, query, *, project="shop"):
    """Rows of a project once its server has stopped, which has put all hits into sessions."""
    with closing(duckdb.connect(home / f"{project}.duckdb", read_only=True)) as connection:
        return connection.execute(query).fetchall()


HITS = 'SELECT id, trackerId, isBot, userAgent, "pageUrl.pathname" FROM hits ORDER BY serverDate, id'


def fail(intake):
    """Move nothing, and let nobody wait for it."""
    intake.failure = Unavailable("hits are not moved")


def serving(home, **options):
    return running(home, options=ServerOptions(**{"rate_limits": None, **options}))


def test_a_hit_becomes_a_session_with_the_node_of_its_campaign(home):
    with serving(home) as url:
        post = posting(url)
        reply = post(hit(), Content_Type="text/plain;charset=UTF-8", Origin="https://shop.example")
        assert (reply.status, reply.content) == (202, b"")
        assert reply.headers["Access-Control-Allow-Origin"] == "*"
        assert reply.headers["Cache-Control"] == "no-store"
        # The same hit again, as after a broken connection.
        assert post(hit()).status == 202
        assert post(hit(2, pageUrl="https://shop.example/till", referrer=PAGE)).status == 202
    assert rows(home, HITS) == [
        (uuid(1), "t-1", False, FIREFOX, "/boots"),
        (uuid(2), "t-1", False, FIREFOX, "/till"),
    ]
    assert rows(home, "SELECT firstHitId, hitCount, nodeId FROM interactions") == [
        (uuid(1), 2, "google/cpc/spring")
    ]
    assert queued(home / "shop.duckdb", "hits") == []


def test_one_request_takes_several_hits_of_one_project(home):
    with serving(home, rate_limits={"hits-by-address": Rate(6, 3600)}) as url:
        post = posting(url)
        assert post([hit(1), hit(2, pageUrl="https://shop.example/till"), hit(1)]).status == 202
        refused = [
            (["hit"], 400),
            ([hit(3), {"projectId": "shop", "pageUrl": "no url"}], 400),
            ([hit(3), hit(4, projectId="other")], 400),
            ([hit(3)] * 51, 400),
            ([[]], 400),
        ]
        for body, status in refused[:2]:
            assert post(body).status == status
        # Three hits and two requests are taken from six; nothing of a refused request is stored.
        assert post([hit(3), hit(4)]).status == 429
    with serving(home) as url:
        post = posting(url)
        for body, status in refused[2:]:
            assert post(body).status == status, body[:1]
        assert post([]).status == 400
    assert [row[0] for row in rows(home, HITS)] == [uuid(1), uuid(2)]


@pytest.mark.large
@pytest.mark.slow
def test_a_repeated_hit_of_an_earlier_session_is_left_out(home):
    for _ in range(2):
        with serving(home) as url:
            assert posting(url)(hit()).status == 202
    assert rows(home, "SELECT id FROM hits") == [(uuid(1),)]
    assert rows(home, "SELECT hitCount FROM interactions") == [(1,)]


@pytest.mark.large
@pytest.mark.slow
def test_the_pixel_counts_a_page_without_a_script(home):
    query = urlencode({"projectId": "shop", "timezoneOffset": "-60"})
    with serving(home) as url:
        post = posting(url)
        for _ in range(2):
            reply = post(None, "GET", f"/c?{query}", Referer="https://shop.example/till")
            assert (reply.status, reply.headers["Content-Type"]) == (200, "image/gif")
            assert reply.headers["Cache-Control"] == "no-store"
            assert reply.content.startswith(PIXEL)
        # A request for the headers alone counts nothing.
        assert post(None, "HEAD", f"/c?{query}", Referer="https://shop.example/till").status == 200
    stored = rows(home, 'SELECT id, trackerId, timezoneOffset, "pageUrl.pathname" FROM hits')
    assert len({id for id, *_ in stored}) == 2
    assert {row[2:] for row in stored} == {(-60.0, "/till")}
    assert rows(home, "SELECT hitCount FROM interactions") == [(2,)]


@pytest.mark.large
@pytest.mark.slow
def test_g189_the_clock_of_the_browser_may_be_wrong(home):
    with serving(home) as url:
        post = posting(url)
        before = instants.now()
        # Viewed twenty minutes before it was sent, by a clock that stands in 1985.
        viewed = {"date": "1985-01-01T00:00:00Z", "sentAt": "1985-01-01T00:20:00Z"}
        assert post(hit(1, **viewed)).status == 202
        assert post(hit(2, date=viewed["sentAt"], sentAt=viewed["date"])).status == 202
        assert post(hit(3, date=viewed["date"])).status == 202
        after = instants.now()
    dates = dict(rows(home, "SELECT id, serverDate FROM hits"))
    before, after = instants.naive(before), instants.naive(after)
    assert before <= dates[uuid(1)] + timedelta(minutes=20) <= after
    assert before <= dates[uuid(2)] <= after
    assert before <= dates[uuid(3)] <= after


@pytest.mark.large
@pytest.mark.slow
def test_bots_are_kept_and_marked(home):
    with serving(home) as url:
        post = posting(url)
        assert post(hit(1, trackerId="a"), User_Agent="Googlebot/2.1").status == 202
        assert post(hit(2, trackerId="b"), User_Agent="").status == 202
        assert post(hit(3, trackerId="c"), Sec_Purpose="prefetch;prerender").status == 202
        assert post(hit(4, trackerId="d")).status == 202
        assert post(hit(5, trackerId="e", isAutomated=True)).status == 202
    found = dict(rows(home, "SELECT trackerId, isBot FROM hits"))
    assert found == {"a": True, "b": True, "c": True, "d": False, "e": True}


@pytest.mark.large
@pytest.mark.slow
def test_a_traffic_filter_by_address_captures_hits(home):
    change_settings(home, traffic_filters=["address:203.0.113.0/24"])
    with serving(home, behind_proxy=("127.0.0.1",)) as url:
        post = posting(url)
        assert post(hit(1, trackerId="a"), X_Forwarded_For="203.0.113.7").status == 202
        assert post(hit(2, trackerId="b"), X_Forwarded_For="198.51.100.7").status == 202
    found = dict(rows(home, "SELECT firstHitId, trafficFilterId FROM interactions"))
    assert found == {uuid(1): "address:203.0.113.0/24", uuid(2): None}


@pytest.mark.large
@pytest.mark.slow
def test_only_an_address_that_a_filter_captures_is_kept_until_the_filter_is_applied(home, monkeypatch):
    change_settings(home, traffic_filters=["address:203.0.113.0/24", "hostname:test.shop.example"])
    # Accepted hits stay in the queue.
    monkeypatch.setattr(HitIntake, "_work", fail)
    with serving(home, behind_proxy=("127.0.0.1",)) as url:
        post = posting(url)
        assert post(hit(1)).status == 202
        assert post(hit(2), X_Forwarded_For="198.51.100.7").status == 202
        assert post(hit(3), X_Forwarded_For="203.0.113.7").status == 202
    found = {record["id"]: record["address"] for record in queued(home / "shop.duckdb", "hits")}
    assert found == {uuid(1): None, uuid(2): None, uuid(3): "203.0.113.7"}


@pytest.mark.large
@pytest.mark.slow
def test_g199_the_place_of_the_client_is_stored_instead_of_its_address(home, tmp_path, monkeypatch):
    geo, asn = write_geo(tmp_path / "geo.mmdb"), write_asn(tmp_path / "asn.mmdb")
    # Hits are looked up at receipt, so the place survives a restart of the server without the databases.
    monkeypatch.setattr(HitIntake, "_work", fail)
    with serving(home, behind_proxy=("127.0.0.1",), geo=geo, asn=asn) as url:
        for number, address in enumerate(("203.0.113.7", "2001:db8:1::1", "192.0.2.1"), start=1):
            assert posting(url)(hit(number, trackerId=f"t-{number}"), X_Forwarded_For=address).status == 202
    assert {record["address"] for record in queued(home / "shop.duckdb", "hits")} == {None}
    monkeypatch.undo()
    at.connect("shop", path=home / "shop.duckdb").close()
    columns = ", ".join(f'"{name}"' for name in IN_PARIS | OF_ORANGE)
    paris = (*IN_PARIS.values(), *OF_ORANGE.values())
    expected = [(uuid(1), *paris), (uuid(2), *paris), (uuid(3), *[None] * len(paris))]
    assert rows(home, f"SELECT id, {columns} FROM hits ORDER BY id") == expected
    assert rows(home, f"SELECT firstHitId, {columns} FROM interactions ORDER BY 1") == expected


@pytest.mark.large
@pytest.mark.slow
def test_a_hit_counts_although_the_database_of_places_is_damaged(home, tmp_path, caplog):
    geo = write_geo(tmp_path / "geo.mmdb")

    with serving(home, geo=geo, behind_proxy=("127.0.0.1",)) as url:
        damage(geo)
        assert posting(url)(hit(), X_Forwarded_For="203.0.113.7").status == 202
    assert rows(home, 'SELECT hitCount, "geo.city" FROM interactions') == [(1, None)]
    assert "geo: the database is damaged" in caplog.text


@pytest.mark.large
@pytest.mark.slow
def test_g200_a_lasting_id_is_not_stored_against_the_signal_of_the_browser(tmp_path):
    cases = {
        "by-default": ({}, "Sec_GPC", False),
        "gpc-ignored": ({"respect_gpc": False}, "Sec_GPC", True),
        "dnt-by-default": ({}, "DNT", True),
        "dnt-respected": ({"respect_dnt": True}, "DNT", False),
    }
    for project, (settings, *_) in cases.items():
        with at.connect(project, path=tmp_path / f"{project}.duckdb") as opened:
            at.admin.update_settings(opened, **settings)
    with serving(tmp_path) as url:
        post = posting(url)
        for project, (_, header, _) in cases.items():
            assert post(hit(1, projectId=project), **{header: "1"}).status == 202
            of_page = hit(2, projectId=project, trackerId="of-this-page", isPersistent=False)
            assert post(of_page, **{header: "1"}).status == 202
    for project, (_, _, is_kept) in cases.items():
        assert dict(rows(tmp_path, "SELECT id, trackerId FROM hits", project=project)) == {
            uuid(1): "t-1" if is_kept else f"hit.{uuid(1)}",
            uuid(2): ANY if is_kept else "page.of-this-page",
        }


REFUSED = {
    "no JSON": b"{",
    "an array of arrays": [[hit()]],
    "text": '"hit"',
    "no body": b"",
    "no project": {"pageUrl": PAGE},
    "no page": {"projectId": "shop"},
    "no URL": hit(pageUrl="boots"),
    "a URL with a space": hit(pageUrl="https://shop.example/a b"),
    "an object as URL": hit(pageUrl={"href": PAGE}),
    "a hit id that is no UUID": hit(hitId="1"),
    "a number as hit id": hit(hitId=1),
    "a long tracker id": hit(trackerId="a" * 129),
    "an empty tracker id": hit(trackerId=""),
    "a lone surrogate": json.dumps(hit()).replace("t-1", "\\ud800").encode(),
    "NUL": hit(referrer="https://\0"),
    "an infinite offset": json.dumps(hit(timezoneOffset=0)).replace(": 0}", ": 1e400}").encode(),
    "a huge offset": json.dumps(hit(timezoneOffset=0)).replace(": 0}", f": 1{'0' * 400}}}").encode(),
    "NaN": json.dumps(hit(timezoneOffset=0)).replace(": 0}", ": NaN}").encode(),
    "a boolean as offset": hit(timezoneOffset=True),
    "a day that is none": hit(date="2025-02-30T00:00:00Z"),
    "a number as date": hit(date=20250101),
    "a late hit": hit(date="2025-01-01T00:00:00Z", sentAt="2025-01-08T00:00:01Z"),
    "text as flag": hit(isPersistent="false"),
    "a short key": hit(ingestKey="k"),
    "deep nesting": b'{"projectId":' * 1_000,
}


@pytest.mark.large
@pytest.mark.slow
def test_g200_the_order_of_a_browser_with_the_signal_stays_with_its_visit(home):
    with at.connect("shop", path=home / "shop.duckdb") as shop:
        at.create_event_type(shop, "order", name="Order")
    order = {"projectId": "shop", "eventType": "order", "nonce": "n-1", "trackerId": "t-1", "data": {}}
    with serving(home) as url:
        post = posting(url)
        # As the script sends both: its id is in memory and ends with the page.
        assert post(hit(isPersistent=False), Sec_GPC="1").status == 202
        assert post(order, path="/api/v1/events", Sec_GPC="1").status == 200
    ((user,),) = rows(home, "SELECT userId FROM interactions")
    assert rows(home, "SELECT userId FROM events") == [(user,)]


@pytest.mark.slow
def test_an_invalid_hit_is_refused_with_its_reason_and_stores_nothing(home):
    with serving(home) as url:
        post = posting(url)
        for case, body in REFUSED.items():
            reply = post(body)
            assert reply.status == 400, (case, reply.content)
            assert reply.json()["message"], case
        assert post(hit(pageUrl="boots")).json()["message"] == (
            "/pageUrl: 'boots' is not allowed; expected a URL, such as 'https://shop.example/'"
        )
        reply = post(None, "GET", "/c?projectId=shop&pageUrl=https://shop.example/&timezoneOffset=x")
        assert (reply.status, reply.json()["details"][0]["field"]) == (400, "timezoneOffset")
        assert post(b"{" + b" " * 20_000).status == 413
        assert post(hit(projectId="gone")).status == 404
        assert post(hit(), "PUT").status == 405
        assert post(None, "OPTIONS").headers["Allow"] == "GET, HEAD, OPTIONS, POST"
    assert rows(home, "SELECT count(*) FROM hits") == [(0,)]
    assert queued(home / "shop.duckdb", "hits") == []


@pytest.mark.parametrize(
    ("headers", "ingest_key", "status"),
    [
        ({"origin": "https://shop.example"}, "k", None),
        ({"origin": "https://shop.example", "x-ingest-key": "k"}, None, None),
        ({"origin": "https://shop.example"}, None, 401),
        ({"origin": "https://shop.example"}, "x", 401),
        ({"origin": "https://shop.example.evil"}, "k", 403),
        ({}, "k", 403),
        # An image has no origin, but a referrer.
        ({"referer": "https://shop.example/till"}, "k", None),
        ({"referer": "https://other.example/"}, "k", 403),
    ],
)
def test_keys_and_origins_of_pages(headers, ingest_key, status):
    def check(settings):
        try:
            projects.check_page(Headers(headers), settings, ingest_key=ingest_key)
        except HttpError as error:
            return error.status
        return None

    shop = ("https://shop.example",)
    assert check(ProjectSettings(ingest_keys=("other", "k"), allowed_origins=shop)) == status
    assert check(ProjectSettings(allowed_origins=shop)) == (403 if status == 403 else None)
    assert check(ProjectSettings(ingest_keys=("k",))) == (401 if status == 401 else None)
    assert check(ProjectSettings()) is None


@pytest.mark.large
@pytest.mark.slow
def test_keys_and_origins_of_the_project_hold_for_hits(home):
    key = "k" * 16
    change_settings(home, ingest_keys=[key], allowed_origins=["https://shop.example"])
    with serving(home) as url:
        post = posting(url)
        assert post(hit(1), Origin="https://shop.example").status == 401
        assert post(hit(3, ingestKey=key), Origin="https://shop.example.evil").status == 403
        assert post(hit(4, ingestKey=key)).status == 403
        assert post(hit(5, ingestKey=key), Origin="https://shop.example").status == 202
        assert post(hit(6), Origin="https://shop.example", X_Ingest_Key=key).status == 202
        pixel = f"/c?projectId=shop&ingestKey={key}&hitId={uuid(7)}"
        assert post(None, "GET", pixel, Referer="https://shop.example/till").status == 200
    assert {id for (id,) in rows(home, "SELECT id FROM hits")} == {uuid(5), uuid(6), uuid(7)}


@pytest.mark.large
@pytest.mark.slow
def test_a_token_that_events_need_is_not_asked_of_pages(home):
    change_settings(home, require_token_for_events=True)
    with serving(home) as url:
        assert posting(url)(hit()).status == 202


@pytest.mark.large
@pytest.mark.slow
def test_hits_have_rate_limits_of_their_own(home):
    limits = {"hits-by-address": Rate(2, 36_000)}
    with serving(home, rate_limits=limits) as url:
        post = posting(url)
        assert [post(hit(number)).status for number in (1, 2, 3)] == [202, 202, 429]
        assert int(post(hit(4)).headers["Retry-After"]) > 1
    limits = {"hits": Rate(1, 36_000)}
    with serving(home, rate_limits=limits) as url:
        post = posting(url)
        assert [post(hit(number)).status for number in (5, 6)] == [202, 429]
    assert {id for (id,) in rows(home, "SELECT id FROM hits")} == {uuid(1), uuid(2), uuid(5)}


@pytest.mark.few(2)
@pytest.mark.parametrize("hours", [0, -2, 2])
def test_g264_hits_and_events_of_a_page_have_one_clock(home, hours):
    """The event is under way for less time than the page view, on a browser whose clock is right or wrong."""
    with at.connect("shop", path=home / "shop.duckdb") as shop:
        at.create_event_type(shop, "order", name="Order")
    now = instants.now() + timedelta(hours=hours)

    def text(seconds):
        return instants.format(instants.truncate(now + timedelta(seconds=seconds)))

    with running(home, options=ServerOptions(rate_limits=None)) as url:
        post = posting(url)
        # As if it had taken twenty seconds to arrive.
        reply = post(hit(date=text(-20), sentAt=text(-20)))
        offset = json.loads(reply.content)["clockOffset"]
        assert reply.status == 202
        assert 20_000 <= offset + hours * 3_600_000 < 80_000
        order = {"projectId": "shop", "eventType": "order", "nonce": "n-1", "trackerId": "t-1", "data": {}}
        order |= {"eventDate": text(-20), "sentAt": text(-1), "clockOffset": offset}
        assert post(order, path="/api/v1/events").status == 200
        # The page is loaded again: the same event, which counts once.
        assert post(order | {"eventDate": text(0)}, path="/api/v1/events/sync").status == 200
        unlike = order | {"nonce": "n-2", "clockOffset": 7_200_000 * 5}
        assert post(unlike, path="/api/v1/events").status == 200
    ((viewed, received),) = rows(home, "SELECT serverDate, ingestedAt FROM hits")
    (first, second) = rows(
        home, "SELECT events.eventDate FROM events JOIN raw_events USING (_id) ORDER BY nonce"
    )
    assert timedelta() <= first[0] - viewed <= timedelta(milliseconds=1)
    assert abs(received - viewed) < timedelta(seconds=60)
    # A difference that cannot be is not believed: the service's own time counts, less the wait in the browser.
    assert abs(second[0] - received) < timedelta(seconds=60)


def test_g264_an_event_of_a_page_that_ended_before_the_answer_is_after_its_view(home):
    with at.connect("shop", path=home / "shop.duckdb") as shop:
        at.create_event_type(shop, "order", name="Order")
    now = instants.format(instants.now())
    order = {"projectId": "shop", "eventType": "order", "nonce": "n-1", "trackerId": "t-1", "data": {}}
    with running(home, options=ServerOptions(rate_limits=None)) as url:
        post = posting(url)
        # The event arrives before the page view, which was sent before it.
        assert post(order | {"eventDate": now, "sentAt": now}, path="/api/v1/events/sync").status == 200
        assert post(hit(date=now, sentAt=now)).status == 202
    ((viewed,),) = rows(home, "SELECT serverDate FROM hits")
    ((ordered, created),) = rows(home, "SELECT eventDate, createdAt FROM events")
    assert ordered > viewed
    assert ordered - created <= timedelta(seconds=2)


def test_a_source_is_found_beyond_what_is_kept_of_an_address(home):
    far = f"https://shop.example/?x={'y' * 3_000}&utm_source=news&utm_medium=email"
    with running(home) as url:
        assert posting(url)(hit(pageUrl=far)).status == 202
        assert (
            posting(url)(hit(2, trackerId="t-2", pageUrl=far.replace("y" * 3_000, "y" * 5_000))).status == 202
        )
    assert rows(home, 'SELECT nodeId, truncated, len("pageUrl.search") FROM hits ORDER BY id') == [
        ("news/email", True, 2_048 - len("https://shop.example/")),
        ("direct", True, 2_048 - len("https://shop.example/")),
    ]


@pytest.mark.parametrize(("version", "node"), [(7, "google/cpc/spring"), (4, "direct")])
def test_a_landing_page_that_goes_on_at_once_gives_the_visit_its_campaign(home, version, node):
    """With consent too; the tracking script makes ids of version 7."""
    id = f"00000000-0000-{version}000-8000-000000000001"
    with running(home) as url:
        assert posting(url)(hit(hitId=id, pageUrl="https://shop.example/home", referrer=PAGE)).status == 202
    assert rows(home, "SELECT nodeId FROM interactions") == [(node,)]
