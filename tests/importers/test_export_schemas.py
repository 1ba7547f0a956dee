"""Exports with all columns of their published schemas, and without each of them.

Whatever is missing, the importers find what a plain reading of the schema's documentation finds.
"""

from __future__ import annotations

import random
from datetime import datetime

import pytest
from support import reference_exports
from support.export_rows import NEW_YEAR, SOURCES, ga4_row, ga4_rows, snowplow_rows
from support.export_schemas import GA4, MATOMO_ACTION, MATOMO_VISIT, SNOWPLOW, arrow, leaves, without

import attrib_ds as at

# Many of the exports here are a single visit.
pytestmark = pytest.mark.filterwarnings(
    "ignore::attrib_ds.errors.InputWarning", "ignore::attrib_ds.errors.RejectedRows"
)


def found_by(journeys):
    """Return the sessions and conversions of journeys as a reading, with hashed users."""
    sessions = [
        reference_exports.Session(
            row["startDate"].to_pydatetime().replace(tzinfo=None),
            row["endDate"].to_pydatetime().replace(tzinfo=None),
            row["nodeId"],
            row["userId"],
            bool(row["isBot"]),
            int(row["hitCount"]),
            row,
        )
        for row in plain(journeys.interactions)
    ]
    conversions = [
        reference_exports.Conversion(
            row["eventType"],
            row["eventDate"].to_pydatetime().replace(tzinfo=None),
            row["userId"],
            row["event.sourceId"],
            row["statistics.revenue.amount"],
            row["statistics.revenue.currency"],
        )
        for row in plain(journeys.events)
    ]
    return reference_exports.Reading(sessions, conversions)


def plain(frame):
    return frame.astype(object).where(frame.notna(), None).to_dict("records")


def assert_same(journeys, expected):
    """Compare journeys with what the reference reads; users are the same if they have the same records."""
    found = found_by(journeys)
    expected_sessions = sorted(expected.sessions, key=lambda each: each.started)
    assert len({each.started for each in expected_sessions}) == len(expected_sessions)
    names = {}

    def check_user(hashed, user):
        assert names.setdefault(user, hashed) == hashed, f"{user} has two ids"

    for session, wanted in zip(found.sessions, expected_sessions, strict=True):
        for name in ("started", "ended", "node", "is_bot", "hits"):
            assert getattr(session, name) == getattr(wanted, name), (name, wanted)
        assert {name: session.details[name] for name in wanted.details} == wanted.details
        check_user(session.user, wanted.user)
    for conversion, wanted in zip(found.conversions, expected.conversions, strict=True):
        for name in ("kind", "occurred", "amount", "currency"):
            assert getattr(conversion, name) == getattr(wanted, name), (name, wanted)
        if wanted.source_id is not None:
            assert conversion.source_id == wanted.source_id
        check_user(conversion.user, wanted.user)
    assert len(set(names.values())) == len(names), "two users have one id"


# GA4 ------------------------------------------------------------------------------------------------------


def check_ga4(rows, schema, traffic="session", *, stitch=True):
    names = {"purchase", "lead"}
    read = at.read_ga4(
        arrow(rows, schema), conversions=sorted(names), traffic=traffic, stitch=stitch, currency="GBP"
    )
    expected = reference_exports.ga4(rows, conversions=names, traffic=traffic, stitch=stitch, currency="GBP")
    assert_same(read, expected)
    return expected


@pytest.mark.few(4)
@pytest.mark.parametrize("traffic", ["session", "last_click"])
@pytest.mark.parametrize("seed", range(3))
def test_ga4_with_all_columns(seed, traffic):
    expected = check_ga4(ga4_rows(seed), GA4, traffic, stitch=seed != 2)
    # The generated days contain what the columns are about.
    assert len({session.node for session in expected.sessions}) > 5
    assert {conversion.currency for conversion in expected.conversions} >= {"EUR", "GBP", "USD"}


def test_ga4_with_the_required_columns_only():
    required = {
        name: GA4[name] for name in ("event_timestamp", "event_name", "event_params", "user_pseudo_id")
    }
    rows = [{name: row[name] for name in required} for row in ga4_rows(4)]
    check_ga4(rows, required)


LANDINGS = ("", "?utm_source=flyer&utm_medium=print", "?gclid=Own", "?utm_campaign=may&gclid=Own")


def test_ga4_with_parameters_of_the_landing_page():
    draw = random.Random(3)
    rows = ga4_rows(3)
    for param in (param for row in rows for param in row["event_params"] if param["key"] == "page_location"):
        # Events that are told twice share their parameters.
        param["value"] = {"string_value": f"https://shop.example/{draw.choice(LANDINGS)}"}
    nodes = {session.node for session in check_ga4(rows, GA4).sessions}
    assert nodes >= {"flyer/print", "google/cpc", "google/cpc/may"}


OPTIONAL = [path for path in leaves(GA4) if path[-1] not in ("event_timestamp", "event_name", "event_params")]


@pytest.mark.large
@pytest.mark.slow
@pytest.mark.parametrize("path", OPTIONAL, ids=".".join)
def test_ga4_without_each_column(path):
    rows = [without(row, path) for row in ga4_rows(5)]
    # The session's source in the reports is read in this way only.
    traffic = "last_click" if path[0] == "session_traffic_source_last_click" else "session"
    check_ga4(rows, without(GA4, path), traffic)


# Snowplow -------------------------------------------------------------------------------------------------


def check_snowplow(rows, schema, *, stitch=True):
    names = {"transaction", "struct"}
    read = at.read_snowplow(arrow(rows, schema), conversions=sorted(names), stitch=stitch, currency="GBP")
    expected = reference_exports.snowplow(rows, conversions=names, stitch=stitch, currency="GBP")
    assert_same(read, expected)
    return expected


@pytest.mark.parametrize("seed", range(3))
def test_snowplow_with_all_columns(seed):
    expected = check_snowplow(snowplow_rows(seed), SNOWPLOW, stitch=seed != 2)
    assert {session.is_bot for session in expected.sessions} == {True, False}
    assert len({session.node for session in expected.sessions}) > 5
    assert {conversion.currency for conversion in expected.conversions} >= {"GBP", None}


def test_snowplow_with_parameters_of_the_landing_page():
    draw = random.Random(1)
    rows = [row | {"page_url": f"https://shop.example/{draw.choice(LANDINGS)}"} for row in snowplow_rows(1)]
    nodes = {session.node for session in check_snowplow(rows, SNOWPLOW).sessions}
    assert nodes >= {"flyer/print", "google/cpc", "google/cpc/may"}


@pytest.mark.large
@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in SNOWPLOW if name != "event_id"])
def test_snowplow_without_each_column(name):
    rows = [without(row, (name,)) for row in snowplow_rows(5)]
    check_snowplow(rows, without(SNOWPLOW, (name,)))


# Matomo ---------------------------------------------------------------------------------------------------


def matomo_visits(seed):
    """Return visits of two sites as responses tell them; some are told twice, the second time with more."""
    draw = random.Random(seed)
    visits = []
    for number in range(25):
        start = NEW_YEAR + number * 5_000 + draw.randrange(999)
        actions = [matomo_action(draw, start + 60 * at_, at_) for at_ in range(draw.randint(0, 6))]
        kind = draw.choice(["direct", "search", "social", "website", "campaign", "campaign"])
        name = {
            "search": "Google",
            "social": "Facebook",
            "website": "forum.example",
            "campaign": "spring",
        }.get(kind)
        visitor = draw.randrange(8)
        visit = dict.fromkeys(MATOMO_VISIT) | {
            "idSite": draw.choice([1, 2]),
            "idVisit": number // 2 + 1 if number % 5 == 0 else 100 + number,
            "visitorId": f"{visitor + 1:016x}",
            "userId": draw.choice([None, None, f"user-{visitor % 3}"]),
            "actionDetails": actions,
            "siteCurrency": draw.choice(["EUR", "EUR", None]),
            "serverTimestamp": start + 400,
            "firstActionTimestamp": start,
            "lastActionTimestamp": start + 60 * len(actions),
            "visitDuration": draw.choice([60 * len(actions), str(60 * len(actions))]),
            "referrerType": kind,
            "referrerName": name,
            "referrerKeyword": draw.choice([None, "boots"]),
            "referrerUrl": None if kind == "direct" else "https://example.com/",
            "browserName": "Firefox",
            "operatingSystemName": "Linux",
            "deviceType": draw.choice(["Desktop", "Smartphone", None]),
            "countryCode": draw.choice(["no", "xx", None]),
            "region": "Oslo",
            "city": draw.choice(["Oslo", ""]),
        }
        if kind == "campaign" and draw.random() < 0.6:
            source, medium, campaign = draw.choice(SOURCES[:6])
            visit |= {"campaignSource": source, "campaignMedium": medium, "campaignName": campaign}
            visit |= {
                "campaignContent": draw.choice([None, "banner"]),
                "campaignKeyword": draw.choice([None, "word"]),
            }
        visits.append(visit)
        if draw.random() < 0.2 and actions:
            shorter = {"actionDetails": actions[:-1], "lastActionTimestamp": start + 60 * len(actions) - 60}
            visits.insert(draw.randrange(len(visits)), visit | shorter)
    return visits


def matomo_action(draw, moment, position):
    kind = draw.choice(
        ["action", "action", "ecommerceOrder", "goal", "goal", "event", "ecommerceAbandonedCart"]
    )
    action = {"type": kind, "timestamp": draw.choice([moment, str(moment)])}
    action |= {
        "url": f"https://shop.example/{position}",
        "pageId": draw.choice([str(moment), None]),
        "idpageview": f"p{position % 3}",
    }
    if kind == "goal":
        action |= {"goalId": draw.choice([4, 5]), "goalName": "Lead", "goalPageId": draw.choice([None, "9"])}
        action["revenue"] = draw.choice([0, "0", 5, "7.5"])
    elif kind != "action":
        action |= {
            "orderId": draw.choice([None, f"T{draw.randrange(9)}"]),
            "revenue": draw.choice([0, 30, "99.90"]),
        }
    return action


def check_matomo(visits, *, stitch=True):
    expected = reference_exports.matomo(visits, stitch=stitch, currency="GBP")
    assert_same(at.read_matomo(visits, stitch=stitch, currency="GBP"), expected)
    return expected


@pytest.mark.parametrize("seed", range(3))
def test_matomo_with_all_members(seed):
    expected = check_matomo(matomo_visits(seed), stitch=seed != 2)
    assert {conversion.currency for conversion in expected.conversions} == {"EUR", "GBP", None}
    assert {conversion.kind for conversion in expected.conversions} == {"goal_4", "goal_5", "order"}
    assert len({session.node for session in expected.sessions}) > 5


@pytest.mark.few(1)
@pytest.mark.slow
# The case that runs for every change comes first: without it, the start of a visit is computed.
@pytest.mark.parametrize(
    "name", sorted(set(MATOMO_VISIT) - {"idVisit"}, key=lambda name: (name != "firstActionTimestamp", name))
)
def test_matomo_without_each_member_of_a_visit(name):
    check_matomo([without(visit, (name,)) for visit in matomo_visits(5)])


@pytest.mark.large
@pytest.mark.slow
@pytest.mark.parametrize("name", MATOMO_ACTION)
def test_matomo_without_each_member_of_an_action(name):
    visits = matomo_visits(6)
    for visit in visits:
        visit["actionDetails"] = [without(action, (name,)) for action in visit["actionDetails"]]
    check_matomo(visits)


# Users ----------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_device_with_two_accounts_in_one_session_belongs_to_neither():
    """Dora and Emil sign in within the first session; nobody does in the second."""
    rows = []
    for number, account in enumerate(["dora", "emil", None]):
        session = NEW_YEAR + 9_000 * (number == 2)
        row = ga4_row(random.Random(0), "1.1", account, session, 1, (session + number) * 10**6)
        params = [{"key": "ga_session_id", "value": {"int_value": session}}]
        rows.append(row | {"event_name": "page_view", "user_id": account, "event_params": params})
    expected = check_ga4(rows, GA4)
    assert [session.user for session in expected.sessions] == [("account", "emil"), ("device", "1.1")]
    events = [
        {
            "event_id": str(number),
            "event_name": "page_view",
            "domain_userid": "d",
            "domain_sessionid": f"s{number // 2}",
            "user_id": account,
            "collector_tstamp": datetime(2025, 1, 1, number),
        }
        for number, account in enumerate(["dora", "emil", None])
    ]
    expected = check_snowplow(events, SNOWPLOW)
    assert [session.user for session in expected.sessions] == [("account", "emil"), ("device", "d")]
