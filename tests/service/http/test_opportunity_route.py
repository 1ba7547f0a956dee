"""The route of opportunities: it answers as the lists are drawn, and logs each opportunity once."""

import http.client
import itertools
import json
from contextlib import closing
from datetime import timedelta

import duckdb
import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom
from support.http_caller import Caller, token_of

import attrib_ds as at
from attrib_ds import instants
from attrib_ds.service.accounts.accounts import create_key
from attrib_ds.service.http.server import Rate, ServerOptions, running

FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:130.0) Gecko/20100101 Firefox/130.0"


def uuid(number):
    return f"00000000-0000-4000-8000-{number:012}"


def opportunity(number=1, **members):
    usual = {"projectId": "shop", "holdout": "banner", "trackerId": "t-1", "opportunityId": uuid(number)}
    return {**usual, **members}


def asking(url):
    call = Caller(url)

    def ask(body, method="POST", **headers):
        return call(method, "/show", json.dumps(body), **{"User_Agent": FIREFOX, **headers})

    return ask


def serving(home, rate_limits=None):
    return running(home, options=ServerOptions(rate_limits=rate_limits))


@pytest.fixture
def home(tmp_path):
    at.connect("shop", path=tmp_path / "shop.duckdb").close()
    with closing(duckdb.connect(tmp_path / "shop.duckdb")) as connection:
        # The same draw in each run.
        connection.execute("INSERT INTO settings VALUES ('holdoutKey', '\"0123456789abcdef\"')")
    with at.connect("shop", path=tmp_path / "shop.duckdb") as shop:
        at.experiments.create_holdout(shop, "banner", node_id="spring", share=0.5)
    return tmp_path


@pytest.mark.large
@pytest.mark.slow
def test_page_list_and_log_agree(home, monkeypatch):
    # The log is in the order of milliseconds.
    began, milliseconds = instants.now(), itertools.count()
    monkeypatch.setattr(instants, "now", lambda: began + timedelta(milliseconds=next(milliseconds)))
    trackers = [f"t-{number}" for number in range(40)]
    with serving(home) as url:
        ask = asking(url)
        shown = []
        for number, tracker in enumerate(trackers):
            shown.append(ask(opportunity(number, trackerId=tracker)).json()["show"])
        # The same opportunity again, as after a broken connection; and another one of the same visitor.
        assert ask(opportunity(0, trackerId="t-0")).json() == {"show": shown[0]}
        assert ask(opportunity(40, trackerId="t-0")).json() == {"show": shown[0]}
    with at.connect("shop", path=home / "shop.duckdb") as shop:
        drawn = at.experiments.assign(shop, trackers, holdout="banner", column="tracker_id")
        log = at.experiments.list_opportunities(shop, holdout="banner")
    assert set(shown) == {True, False}
    assert (~drawn["withheld"]).tolist() == shown
    assert len(log) == 41
    assert log["withheld"].tolist() == [not each for each in [*shown, shown[0]]]
    assert log["user_id"].nunique() == 40
    assert log["user_id"].iloc[0] == log["user_id"].iloc[40]
    assert set(log["node_id"]) == {"spring"}
    assert log["date"].is_monotonic_increasing


def test_who_does_not_take_part_sees_the_placement_and_is_not_logged(home):
    with at.connect("shop", path=home / "shop.duckdb") as shop:
        at.experiments.create_holdout(shop, "past", node_id="spring", share=0.9, until="2020-01-01")
        trackers = [f"t-{number}" for number in range(20)]
        drawn = at.experiments.assign(shop, trackers, holdout="banner", column="tracker_id")
        withheld = drawn.loc[drawn["withheld"], "tracker_id"].iloc[0]
    with serving(home) as url:
        ask = asking(url)
        asked = opportunity(trackerId=withheld)
        assert ask(asked, Sec_GPC="1").json() == {"show": True}
        assert ask(asked, User_Agent="Googlebot/2.1").json() == {"show": True}
        assert all(
            ask(opportunity(trackerId=f"t-{number}", holdout="past")).json()["show"] for number in range(9)
        )
        # An id in memory ends with the page, so it recognises nobody.
        in_memory = opportunity(2, trackerId=withheld, isPersistent=False)
        assert ask(in_memory, Sec_GPC="1").json() == {"show": False}
    with at.connect("shop", path=home / "shop.duckdb") as shop:
        assert at.experiments.list_opportunities(shop, holdout="banner")["withheld"].tolist() == [True]
        assert at.experiments.list_opportunities(shop, holdout="past").empty


@pytest.mark.large
@pytest.mark.slow
def test_filtered_traffic_and_prefetches_see_the_placement_and_are_not_logged(home):
    filters = ["userAgent:Monitor", "hostname:test.shop.example", "referrer:spam.example"]
    trackers = [f"t-{number}" for number in range(20)]
    with at.connect("shop", path=home / "shop.duckdb") as shop:
        at.admin.update_settings(shop, traffic_filters=filters)
        drawn = at.experiments.assign(shop, trackers, holdout="banner", column="tracker_id")
    withheld = drawn.loc[drawn["withheld"], "tracker_id"].iloc[0]
    site = {"Origin": "https://shop.example"}
    with serving(home) as url:
        ask = asking(url)
        asked = opportunity(trackerId=withheld)
        captured = [
            ask(asked, **site, User_Agent="Mozilla/5.0 (X11; Linux x86_64) monitor/2.1"),
            ask(asked, Origin="https://www.test.shop.example:8443"),
            # As a browser without CORS sends it.
            ask(asked, Referer="https://test.shop.example/boots"),
            ask({**asked, "referrer": "https://www.Spam.example/win?a=1"}, **site),
            ask(asked, **site, Sec_Purpose="prefetch;prerender"),
        ]
        assert [reply.json() for reply in captured] == [{"show": True}] * 5
        others = [
            ask({**asked, "referrer": "https://search.example/?q=spam.example"}, **site),
            ask(asked, Origin="https://contest.shop.example"),
            ask({**asked, "opportunityId": uuid(2)}, Origin="null"),
        ]
        assert [reply.json() for reply in others] == [{"show": False}] * 3
    with at.connect("shop", path=home / "shop.duckdb") as shop:
        assert at.experiments.list_opportunities(shop, holdout="banner")["withheld"].tolist() == [True] * 2


@pytest.mark.large
@pytest.mark.slow
def test_filtered_addresses_see_the_placement_and_are_not_logged(home):
    with at.connect("shop", path=home / "shop.duckdb") as shop:
        at.admin.update_settings(shop, traffic_filters=["address:127.0.0.1"])
    with serving(home) as url:
        ask = asking(url)
        assert all(ask(opportunity(number, trackerId=f"t-{number}")).json()["show"] for number in range(20))
    with at.connect("shop", path=home / "shop.duckdb") as shop:
        assert at.experiments.list_opportunities(shop, holdout="banner").empty


@pytest.mark.large
@pytest.mark.slow
def test_what_is_refused_stores_nothing(home):
    key = "k" * 16
    with at.connect("shop", path=home / "shop.duckdb") as shop:
        at.admin.update_settings(shop, ingest_keys=[key], allowed_origins=["https://shop.example"])
    with serving(home) as url:
        ask = asking(url)
        origin = {"Origin": "https://shop.example"}
        assert ask(opportunity(), **origin).status == 401
        assert ask(opportunity(ingestKey=key), Origin="https://other.example").status == 403
        unknown = ask(opportunity(ingestKey=key, holdout="gone"), **origin)
        assert (unknown.status, unknown.json()["message"]) == (404, "there is no holdout 'gone'")
        assert ask(opportunity(ingestKey=key, trackerId="a b"), **origin).status == 400
        assert ask(opportunity(ingestKey=key, opportunityId=None), **origin).status == 400
        assert ask(opportunity(ingestKey=key, holdout="b" * 5_000), **origin).status == 413
        assert ask(opportunity(projectId="other-shop"), **origin).status == 404
        assert ask([opportunity()], **origin).status == 400
        assert ask(opportunity(), "HEAD").status == 405
        assert ask(opportunity(), "OPTIONS").headers["Allow"] == "OPTIONS, POST"
    with at.connect("shop", path=home / "shop.duckdb") as shop:
        assert at.experiments.list_opportunities(shop, holdout="banner").empty


@pytest.mark.large
@pytest.mark.slow
def test_questions_count_as_hits_against_the_rate_limits(home):
    for limits in (
        {"hits-by-address": Rate(2, 36_000)},
        {"hits": Rate(2, 36_000)},
    ):
        with serving(home, limits) as url:
            ask = asking(url)
            hit = {"projectId": "shop", "pageUrl": "https://shop.example/", "trackerId": "t-1"}
            assert Caller(url)("POST", "/c", json.dumps(hit)).status == 202
            refused = [ask(opportunity(number)) for number in (1, 2)][1]
            assert refused.status == 429
            assert int(refused.headers["Retry-After"]) > 0
    with at.connect("shop", path=home / "shop.duckdb") as shop:
        # The same opportunity was let through twice.
        assert len(at.experiments.list_opportunities(shop, holdout="banner")) == 1


@pytest.mark.large
@pytest.mark.slow
def test_a_holdout_may_end_while_pages_ask(home):
    create_key(home, home / "key.json")
    with serving(home) as url:
        ask = asking(url)
        assert ask(opportunity(1)).status == 200
        with at.connect("shop", url=url, key=home / "key.json") as shop:
            at.experiments.delete_holdout(shop, "banner")
            assert ask(opportunity(2)).status == 404
            at.experiments.create_holdout(shop, "banner", node_id="spring", share=0.5)
        assert ask(opportunity(3)).status == 200
    with at.connect("shop", path=home / "shop.duckdb") as shop:
        log = at.experiments.list_opportunities(shop, holdout="banner")
    assert len(log) == 2
    assert log["withheld"].nunique() == 1


@pytest.mark.large
@pytest.mark.slow
def test_a_mirror_has_the_opportunities(home):
    create_key(home, home / "key.json")
    with serving(home) as url:
        ask = asking(url)
        for number in range(6):
            assert ask(opportunity(number, trackerId=f"t-{number % 4}")).status == 200
        with (
            at.connect("shop", url=url, key=home / "key.json") as shop,
            at.sync(shop, home / "mirror.duckdb") as mirror,
        ):
            mirrored = at.experiments.list_opportunities(mirror, holdout="banner")
    with at.connect("shop", path=home / "shop.duckdb") as shop:
        log = at.experiments.list_opportunities(shop, holdout="banner")
    assert len(log) == 6
    pd.testing.assert_frame_equal(mirrored, log)


@pytest.mark.large
@pytest.mark.slow
def test_any_id_and_node_are_logged_as_they_are(home):
    node = "Frühling: 50 % / 'Boots' " + "x" * 400
    trackers = ["é", "a\\b", "';DROP_TABLE_events", "x" * 128, "t:1"]
    with at.connect("shop", path=home / "shop.duckdb") as shop:
        at.experiments.create_holdout(shop, "0_-", node_id=node, share=0.5)
    with serving(home) as url:
        ask = asking(url)
        shown = [
            ask(opportunity(number, trackerId=id, holdout="0_-")).json()["show"]
            for number, id in enumerate(trackers)
        ]
    with at.connect("shop", path=home / "shop.duckdb") as shop:
        drawn = at.experiments.assign(shop, trackers, holdout="0_-", column="tracker_id")
        log = at.experiments.list_opportunities(shop, holdout="0_-")
    assert (~drawn["withheld"]).tolist() == (~log["withheld"]).tolist() == shown
    assert set(log["node_id"]) == {node}


@pytest.mark.large
@pytest.mark.slow
@pytest.mark.parametrize("lift", [0, 0.4], ids=["a-a", "a-b"])
def test_the_effect_of_a_placement_is_that_of_the_simulation(home, lift):
    """Each visitor has an outcome with and one without the placement; their sum is the effect."""
    visitors = 500
    draws = np.random.default_rng(7).random(visitors)
    orders_without, orders_with = draws < 0.2, draws < 0.2 + lift
    with at.connect("shop", path=home / "shop.duckdb") as shop:
        at.create_event_type(shop, "order", name="Order")
        at.admin.create_integration(shop, "my-site", name="My site")
        campaign = at.create_campaign(shop, "my-site", "banner", name="Banner")
        at.experiments.create_holdout(shop, "on-site", node_id=campaign, share=0.3)
    with serving(home) as url:
        ask, call = asking(url), Caller(url)
        for number in range(visitors):
            tracker = f"t-{number}"
            answer = ask(opportunity(number, trackerId=tracker, holdout="on-site")).json()
            if (orders_with if answer["show"] else orders_without)[number]:
                order = {"projectId": "shop", "eventType": "order", "trackerId": tracker, "data": {}}
                order["nonce"] = f"o-{number}"
                assert call("POST", "/api/v1/events", json.dumps(order)).status == 200
    with at.connect("shop", path=home / "shop.duckdb") as shop:
        log = at.experiments.list_opportunities(shop, holdout="on-site")
        paths = at.conversion_paths(shop, event_type="order")
        effects = at.experiments.holdout_effects(paths, log)
    (row,) = effects.table().join(effects.groups()[["users", "withheld"]]).to_dict("records")
    assert (row["node_name"], row["users"]) == ("Banner", visitors)
    low, high = binom.ppf([1e-4, 1 - 1e-4], visitors, 0.3)
    assert low <= row["withheld"] <= high
    truth = orders_with.sum() - orders_without.sum()
    assert row["low"] < truth < row["high"]
    assert (row["low"] > 0) == (lift > 0)


@pytest.mark.parametrize("path", ["/events", "/events/sync", "/events/batch", "/events/validate"])
@pytest.mark.large
@pytest.mark.slow
def test_clients_without_a_token_cannot_write_the_log(home, path):
    data = {"holdout": "banner", "node": "autumn", "withheld": False}
    forged = {"projectId": "shop", "eventType": "holdout-opportunity", "trackerId": "t-1", "data": data}
    ordinary = {**forged, "eventType": "order", "nonce": "n-0"}
    key = create_key(home, home / "key.json", projects=["shop"])
    with serving(home) as url:
        # The second one finds the settings in memory, and takes no thread.
        for number in range(2):
            event = {**forged, "nonce": f"n-{number + 1}", "eventDate": "2020-01-01T00:00:00Z"}
            body = [ordinary, event] if path == "/events/batch" else event
            reply = Caller(url)("POST", f"/api/v1{path}", body)
            assert reply.status == 403
            assert reply.json()["message"] == (
                "the event type 'holdout-opportunity' is reserved: the service logs opportunities itself; "
                "sending them needs a token"
            )
        accepted = Caller(url, token_of(url, key))("POST", f"/api/v1{path}", body)
        assert accepted.status == 200
    with at.connect("shop", path=home / "shop.duckdb") as shop:
        nodes = at.experiments.list_opportunities(shop, holdout="banner")["node_id"].tolist()
    assert nodes == ([] if path == "/events/validate" else ["autumn"])


@pytest.mark.large
@pytest.mark.slow
def test_an_id_that_was_used_before_does_not_keep_another_opportunity_out_of_the_log(home):
    with at.connect("shop", path=home / "shop.duckdb") as shop:
        at.experiments.create_holdout(shop, "popup", node_id="spring", share=0.5)
    longest = "t" * 128
    with serving(home) as url:
        ask = asking(url)
        for tracker in ("t-1", "t-2", longest):
            for holdout in ("banner", "popup"):
                # Twice, as after a broken connection.
                for _ in range(2):
                    asked = opportunity(1, trackerId=tracker, holdout=holdout)
                    assert ask(asked).status == 200
    with at.connect("shop", path=home / "shop.duckdb") as shop:
        for holdout in ("banner", "popup"):
            log = at.experiments.list_opportunities(shop, holdout=holdout)
            assert (len(log), log["user_id"].nunique()) == (3, 3)
            drawn = at.experiments.assign(shop, ["t-1", "t-2", longest], holdout=holdout)
            assert log["withheld"].tolist() == drawn["withheld"].tolist()


@pytest.mark.large
@pytest.mark.slow
def test_an_experiment_over_http_finds_the_effect_that_the_placement_has(home):
    """Views, questions and orders go over HTTP, and are read over HTTP: the interval has what the placement caused."""
    visitors = 600
    with at.connect("shop", path=home / "shop.duckdb") as shop:
        at.create_event_type(shop, "order", name="Order")
        at.admin.create_integration(shop, "my-site", name="My site")
        banner = at.create_campaign(shop, "my-site", "banner", name="Banner")
        at.experiments.create_holdout(shop, "known", node_id=banner, share=0.5)
    # Who orders without the banner, and who does with it.
    chance = np.random.default_rng(1).random(visitors)
    without, having = chance < 0.15, chance < 0.40
    create_key(home, home / "key.json", projects=["shop"])
    with serving(home) as url:
        with closing(http.client.HTTPConnection(url.removeprefix("http://"), timeout=30)) as connection:

            def post(path, **body):
                content = json.dumps({"projectId": "shop"} | body)
                connection.request("POST", path, content, {"User-Agent": FIREFOX})
                response = connection.getresponse()
                assert response.status in (200, 202), response.read()
                return response.read()

            for number in range(visitors):
                visitor = {"trackerId": f"t-{number}"}
                page = {"pageUrl": "https://shop.example/", "hitId": uuid(number), "isPersistent": True}
                post("/c", **page, **visitor)
                question = opportunity(number, holdout="known", isPersistent=True, **visitor)
                is_shown = json.loads(post("/show", **question))["show"]
                if (having if is_shown else without)[number]:
                    post("/api/v1/events", eventType="order", nonce=f"n-{number}", data={}, **visitor)
        with (
            at.connect("shop", url=url, key=home / "key.json") as shop,
            at.sync(shop, ":memory:") as mirror,
        ):
            log = at.experiments.list_opportunities(mirror, holdout="known")
            paths = at.conversion_paths(mirror, event_type="order")
            effects = at.experiments.holdout_effects(paths, log)
    (row,) = effects.table().join(effects.groups()[["users", "withheld"]]).to_dict("records")
    assert (row["users"], row["node_id"]) == (visitors, banner)
    # That of the banner on everybody, of whom each was asked about with one outcome only.
    caused = (having & ~without).sum()
    assert 0 < row["low"] < caused < row["high"] < 1.5 * caused
