"""Conversions of a segment of users, on the small shop of conftest.

Anna has an order of 90 EUR (touched shoes, letter, direct) and a lead, Ben an order of 40 EUR (boots), Carl one of
20 EUR without a touchpoint in the window.
"""

import ibis
import pandas as pd
import pyarrow as pa
import pytest

from attrib_ds import (
    attribute,
    conversion_paths,
    errors,
    event,
    interaction,
    load,
    open_tables,
    send_conversions,
    user,
)
from attrib_ds.api.admin import create_audience


def values(paths):
    rows = attribute(paths, "linear")
    ids = [None if pd.isna(each) else each for each in rows["node_id"]]
    return dict(zip(ids, rows["value"], strict=True))


def turnover(project, **question):
    return conversion_paths(project, event_type="order", statistic="turnover", **question)


@pytest.mark.slow
def test_only_conversions_of_users_who_match_are_credited(shop):
    buyers_with_leads = user("eventTypesCount.lead") >= 1
    expected = pytest.approx({"shoes": 30, "letter": 30, "direct": 30})
    assert values(turnover(shop, where=buyers_with_leads)) == expected
    assert values(turnover(shop, audience=buyers_with_leads)) == expected
    assert values(turnover(shop, where=~buyers_with_leads)) == {"boots": 40, None: 20}


@pytest.mark.slow
def test_an_audience_is_a_condition_or_one_of_the_project(shop):
    audience = create_audience(shop, "Leads", condition=user("eventTypesCount.lead") >= 1)
    by_id = {"type": "audience", "operator": "in", "value": [audience["_id"]]}
    assert values(turnover(shop, audience=by_id)).keys() == {"shoes", "letter", "direct"}


@pytest.mark.slow
def test_users_and_events_are_filtered_together(shop):
    has_lead = user("eventTypesCount.lead") >= 1
    assert values(turnover(shop, where=event("_id").ends_with("2"), audience=has_lead)) == {}
    german = interaction("geo.countryCode") == "DE"
    assert values(turnover(shop, where=german, audience=has_lead)) == {"direct": 90}
    assert values(turnover(shop, where=user("eventCount") == 1, audience=has_lead)) == {}


@pytest.mark.slow
def test_users_without_a_conversion_are_those_of_the_segment(shop):
    # Paths that lead to no conversion are evidence too, for models such as Markov.
    visitor = f"{13:024x}"
    visit = {"_id": f"{8:024x}", "userId": visitor, "nodeId": "letter", "startDate": "2025-01-03T10:00:00Z"}
    load(shop, interactions=pd.DataFrame([visit | {"type": "session"}]))
    everyone = turnover(shop)
    buyers = turnover(shop, where=user("eventCount") >= 1)
    known = {f"{number:024x}" for number in (10, 11, 12)}
    assert set(everyone.touchpoints.user_id.to_pyarrow().to_pylist()) == {*known, visitor}
    assert set(buyers.touchpoints.user_id.to_pyarrow().to_pylist()) == known


@pytest.mark.slow
def test_users_are_selected_by_what_is_sent_of_them(shop):
    deals = pd.DataFrame({"id": [1], "mail": ["anna@example.com"], "closed": ["2025-02-01"]})
    send_conversions(shop, deals, email="mail", date="closed", id="id", event_type="deal")
    paths = conversion_paths(shop, event_type="deal", where=user("fields.email") == "ANNA@example.com")
    assert attribute(paths, "linear")["conversions"].sum() == 1


@pytest.mark.parametrize(
    ("question", "error", "message"),
    [
        ({"where": user("fields.emial") == "x"}, errors.InvalidRequest, "'fields.emial' is not allowed"),
        ({"audience": event("eventType") == "x"}, errors.InvalidRequest, "audience: filters events"),
        (
            {"audience": {"type": "audience", "operator": "in", "value": ["f" * 24]}},
            errors.NotFound,
            "audience",
        ),
    ],
)
def test_what_selects_no_users_is_refused(shop, question, error, message):
    with pytest.raises(error, match=message):
        turnover(shop, **question)


DAYS = pa.array([1, 2, 3, 4], pa.timestamp("s"))
VISITS = {"_id": ["1", "2"], "userId": [7, 8], "nodeId": ["search", "email"], "startDate": DAYS[:2]}
ORDERS = {"_id": ["a", "b"], "userId": [7, 8], "eventType": ["order", "order"], "eventDate": DAYS[2:]}
PEOPLE = {"number": [7, 8, 9], "fields.city": ["Oslo", "Bergen", "Oslo"], "eventCount": [3, 1, 0]}


@pytest.fixture
def lent():
    engine = ibis.duckdb.connect()
    for name, columns in (("visits", VISITS), ("orders", ORDERS), ("people", PEOPLE)):
        engine.create_table(name, pa.table(columns))
    return engine


def credited(project, **question):
    return attribute(conversion_paths(project, event_type="order", **question), "linear")["node_id"].tolist()


@pytest.mark.slow
def test_users_of_ones_own_tables_are_selected_in_their_engine(lent):
    tables = {"interactions": "visits", "events": "orders", "users": "people"}
    shop = open_tables(lent, **tables, columns={"users": {"_id": "number"}})
    assert credited(shop, where=user("fields.city") == "Oslo") == ["search"]
    assert credited(shop, audience=user("eventCount") < 3) == ["email"]
    assert credited(shop, where=user("fields.city") == "Oslo", audience=user("eventCount") < 3) == []
    assert sorted(credited(shop)) == ["email", "search"]
    with pytest.raises(errors.InvalidRequest, match=r"fields.town.*\(the columns of the table\)"):
        credited(shop, where=user("fields.town") == "Oslo")
    with pytest.raises(errors.NotSupported, match="audience: over tables, only user"):
        credited(shop, audience={"type": "audience", "operator": "in", "value": ["a"]})
    with pytest.raises(errors.InvalidRequest, match="audience: a predicate on event is not allowed"):
        credited(shop, audience=event("eventType") == "order")


def test_tables_without_users_say_what_is_missing(lent):
    shop = open_tables(lent, interactions="visits", events="orders")
    with pytest.raises(errors.NotSupported, match="where: the project has no table of users; pass users= to"):
        credited(shop, where=user("fields.city") == "Oslo")
    with pytest.raises(errors.NotSupported, match="audience: the project has no table of users"):
        credited(shop, audience=user("fields.city") == "Oslo")
    with pytest.raises(errors.InvalidRequest, match=r"users: the columns _id \(text\) are missing"):
        open_tables(lent, interactions="visits", events="orders", users="people")
