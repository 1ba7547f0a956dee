"""The same page views are the same visits, with the same nodes and reasons, by every way in."""

from __future__ import annotations

import json
import random
from datetime import UTC, datetime, timedelta
from urllib.parse import urlsplit

import ibis
import pandas as pd
import pyarrow as pa
import pytest
from support.http_caller import Caller
from support.service_records import uuid

import attrib_ds as at
from attrib_ds.attribution.engines.engine import portable
from attrib_ds.attribution.paths.table_inputs import ExternalTables
from attrib_ds.queries import raw_hits as in_engines
from attrib_ds.service.http.server import ServerOptions, running

SHOP = "https://shop.example"
AGENT = "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/130.0 Safari/537.36"
QUERIES = (
    *[""] * 9, "?utm_source=a&utm_medium=b", "?UTM_SOURCE=Q", "?utm_source=news&utm_medium=email&utm_campaign=May%20Sale",
    "?mtm_campaign=may", "?utm_source=chatgpt.com", "?utm_source=(not+set)", "?gclid=x1", "?msclkid=x1&utm_campaign=c",
    "?fbclid=abcdefgh12345", "?gad_campaignid=7", "?_kx=abc", "?irclickid=abc", "?hsa_net=facebook&hsa_cam=1",
    "?srsltid=abc", "?wickedid=abc", "?ref=a&via=b&aff=c&clickid=d", "?utm_source=x&amp;utm_medium=y",
    "?utm_source=c&utm_medium=d%2Fe&utm_content=ad&utm_term=word", "?utm_source=&gclid=x1", "?gclid=&utm_medium=cpc",
    "?utm%5Fsource=enc", "?utm_source=B%C3%BCcher+%26+mehr", "?utm_source=%F0%9F%91%A2", "?utm_source=%ff", "?q=%zz&utm_source=z",
    "?utm_campaign=only", "?utm_source=google&utm_medium=organic", "?utm_source=(direct)&utm_medium=(none)", "?utm_source",
    "?utm_source=one&utm_source=two", "?UTM_SOURCE=GOOGLE&UTM_MEDIUM=CPC", "?wbraid=Cl_1&gbraid=x", "?fbclid=abcdefgh12345&utm_source=ig",
    "?a=1;utm_source=semi", f"?utm_source={'s' * 300}", "?pk_campaign=old&pk_kwd=shoes", "?next=https://x.example/?utm_source=inner",
    "#utm_source=frag&utm_medium=x", "#/shoes?utm_source=hash", "?dclid=1&utm_source=dv", "?ttclid=x", "?utm_source=perplexity",
)  # fmt: skip
REFERRERS = (
    *[""] * 3, *[f"{SHOP}/boots"] * 4, "https://blog.shop.example/", "https://www.google.com/", "https://www.google.co.uk/",
    "https://docs.google.com/d", "https://google.example.de/", "https://l.facebook.com/l.php?u=1", "https://mail.google.com/",
    "https://chatgpt.com/", "https://www.etsy.com/", "https://news.example/today", "https://checkout.stripe.com/c",
    "https://acs.bank.example/", "https://buy.stripe.com/x", "https://www.mercadopago.com.ar/", "https://acs.org/",
    "android-app://com.google.android.gm/", "https://WWW.Google.COM./search", "https://www.bing.com:443/", "http://192.0.2.7/x",
    "http://localhost:3000/", "http://[2001:db8::1]/", "https://user:pw@news.example/", "https://m\u00fcnchen.example/", "https://SHOP.example/",
    "http://www.shop.example/boots", "https://shop.example.evil.example/", "https://t.co/abc", "https://com.google.android.googlequicksearchbox/",
    "android-app://com.google.android.googlequicksearchbox/https/www.google.com", "https://www.google.com/url?q=https://shop.example",
    "https://shop-example.translate.goog/", "https://tpc.googlesyndication.com/", "https://googleads.g.doubleclick.net/",
)  # fmt: skip
GAPS = (0.25, 1, 5, 29, 30, 31, 90)
AT_ONCE = 7


def drawn(seed, *, views):
    """Page views of three visitors, in an odd order of arrival."""
    chosen = random.Random(seed)
    rows = []
    for number, visitor in enumerate("abc"):
        # No two views of different visitors are at the same instant.
        at_time = datetime(2025, 9, 1, 8, 0, number, tzinfo=UTC)
        for _ in range(views // 3):
            at_time += timedelta(minutes=chosen.choice(GAPS))
            path = chosen.choice(("/", "/boots", "/c/shoes"))
            rows.append(
                {
                    "visitor": visitor,
                    "date": at_time,
                    "url": f"{SHOP}{path}{chosen.choice(QUERIES)}",
                    "referrer": chosen.choice(REFERRERS),
                }
            )
    chosen.shuffle(rows)
    return pd.DataFrame(rows)


def table(interactions):
    """Start, node and reason of each visit."""
    rows = interactions[["startDate", "nodeId", "referrerType"]]
    return sorted(
        (start.to_pydatetime(), node, reason) for start, node, reason in rows.itertuples(index=False)
    )


def raw_hits(views):
    names = {"visitor": "trackerId", "url": "pageUrl"}
    return views.rename(columns=names).assign(userAgent=AGENT)


def loaded(views, _folder):
    with at.connect("shop", path=":memory:") as shop:
        at.load(shop, hits=raw_hits(views))
        return table(at.search_interactions(shop))


def posted(views, folder):
    """What pages send to ``POST /c``, several at once."""
    at.connect("shop", path=folder / "shop.duckdb").close()
    sent_at = datetime.now(UTC).replace(microsecond=0)
    later = sent_at - views["date"].max()
    hits = [
        {
            "projectId": "shop", "hitId": uuid(number), "trackerId": view["visitor"], "pageUrl": view["url"],
            "referrer": view["referrer"], "date": (view["date"] + later).isoformat(),
            "sentAt": sent_at.isoformat(), "clockOffset": 0,
        }
        for number, view in enumerate(views.to_dict("records"))
    ]  # fmt: skip
    with running(folder, options=ServerOptions(rate_limits=None)) as url:
        for start in range(0, len(hits), AT_ONCE):
            body = json.dumps(hits[start : start + AT_ONCE])
            assert Caller(url)("POST", "/c", body, User_Agent=AGENT).status == 202
    with at.connect("shop", path=folder / "shop.duckdb") as shop:
        found = at.search_interactions(shop)
    return table(found.assign(startDate=found["startDate"] - later))


def _in_utc(frame):
    return frame.assign(startDate=frame["startDate"].dt.tz_localize("UTC"))


def opened(views, _folder):
    """What ``open_hits`` makes in an engine."""
    engine = ibis.duckdb.connect()
    naive = raw_hits(views).assign(date=views["date"].dt.tz_localize(None))
    hits = engine.create_table("hits", pa.Table.from_pandas(naive, preserve_index=False))
    read = ExternalTables(portable(engine), {}).read("hits", hits)
    sessions = in_engines.collect(read, in_engines.Settings("shop")).sessions
    return table(_in_utc(sessions.select("startDate", "nodeId", "referrerType").to_pyarrow().to_pandas()))


ORDERS = pd.DataFrame({"order_id": [1], "date": ["2025-09-20"], "visitor": ["a"]})


def as_csv(views, folder):
    views.to_csv(folder / "views.csv", index=False)
    return table(
        at.read_journeys(
            folder / "views.csv", ORDERS, reading=at.Reading(columns={"user": "visitor"})
        ).interactions
    )


def pages_of_a_platform(views, _folder):
    names = {
        "visitor": "anonymous_id",
        "date": "timestamp",
        "url": "context_page_url",
        "referrer": "context_page_referrer",
    }
    pages = views.rename(columns=names).assign(
        **dict.fromkeys(("context_campaign_source", "context_campaign_medium", "context_campaign_name"))
    )
    return table(at.read_journeys(pages, ORDERS.rename(columns={"visitor": "anonymous_id"})).interactions)


def log(views, folder):
    lines = [
        f"203.0.{ord(view['visitor'])}.5 - - [{view['date']:%d/%b/%Y:%H:%M:%S} +0000] "
        f'"GET {view["url"].removeprefix(SHOP)} HTTP/1.1" 200 12 "{view["referrer"] or "-"}" "{AGENT}"\n'
        for view in views.to_dict("records")
    ]
    (folder / "access.log").write_text("".join(lines))
    return folder / "access.log"


def loaded_log(views, folder):
    with at.connect("shop", path=":memory:") as shop:
        at.load(shop, hits=at.hits.AccessLog(log(views, folder), site=SHOP))
        return table(at.search_interactions(shop))


def read_log(views, folder):
    # The pages of a log have no host, so that the log alone cannot tell subdomains.
    return table(at.read_journeys(log(views, folder), conversion_page="/boots").interactions)


def ga4_rows(views, starts):
    """Rows of events whose sessions are the visits."""
    events = []
    for view in views.sort_values("date").to_dict("records"):
        start = max(
            start for visitor, start in starts if visitor == view["visitor"] and start <= view["date"]
        )
        texts = {"page_location": view["url"], "page_referrer": view["referrer"]}
        params = [{"key": k, "value": {"string_value": v}} for k, v in texts.items() if v]
        params.append({"key": "ga_session_id", "value": {"int_value": int(start.timestamp())}})
        micros = int(view["date"].timestamp()) * 1_000_000
        events.append(
            {
                "event_timestamp": micros,
                "event_name": "page_view",
                "user_pseudo_id": view["visitor"],
                "event_params": params,
            }
        )
    return pd.DataFrame(events)


def read_ga4(views, _folder):
    with at.connect("shop", path=":memory:") as shop:
        at.load(shop, hits=raw_hits(views))
        found = at.search_interactions(shop)
    who = dict(zip(views["date"], views["visitor"], strict=True))
    starts = [(who[start], start) for start in found["startDate"]]
    return table(at.read_ga4(ga4_rows(views, starts)).interactions)


WAYS = (posted, opened, as_csv, pages_of_a_platform, loaded_log, read_log, read_ga4)


@pytest.mark.few(3)
@pytest.mark.filterwarnings("ignore::attrib_ds.errors.InputWarning")
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
@pytest.mark.parametrize(
    ("seed", "views"),
    [
        (1, 15),
        pytest.param(2, 90, marks=pytest.mark.slow),
        *(pytest.param(seed, 90, marks=[pytest.mark.large, pytest.mark.slow]) for seed in range(3, 12)),
    ],
)
def test_visits_nodes_and_reasons_are_the_same(way, seed, views, tmp_path):
    chosen = drawn(seed, views=views)
    if way is read_log:
        chosen = chosen[chosen["referrer"] != "https://blog.shop.example/"]
    if way in (loaded_log, read_log):
        # Servers never see what is behind the number sign.
        chosen = chosen[[not urlsplit(url).fragment for url in chosen["url"]]]
    expected = loaded(chosen, tmp_path)
    assert way(chosen, tmp_path) == expected
