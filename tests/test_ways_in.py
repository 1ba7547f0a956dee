"""The same data give the same paths, credits and money by every way in, and the same is said of them.

What is expected is computed here, in plain Python over the rows, from the rules in the docs: a day is a day,
placeholders are nobody, currencies are compared without regard to case and never mixed, refunds lower the value
of their order, an infinite amount is never credited, no value is a value of 0, and 1001.0 is 1001.
"""

import json
import math
import warnings
from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from hashlib import md5

import ibis
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.law_examples import examples

import attrib_ds as at
from attrib_ds import errors
from attrib_ds.records.frames import TEXT

LOOKBACK = timedelta(days=30)
DAY = timedelta(days=1)
PEOPLE = ["ann@shop.example", "ben@shop.example", "cleo@shop.example"]
NOBODY = [None, "", " ", "\u3000", "(not set)", "undefined", "00000000-0000-0000-0000-000000000000"]
NODES = ["ads", "mail", "Radio"]
CURRENCIES = ["EUR", "eur", "USD", " usd", "€"]


@dataclass(frozen=True)
class Data:
    """Rows of touchpoints (user, node, date) and of orders (user, date, value, currency).

    ``refunds`` are amounts by the place of their order; ``has_numbers``: ids are floats where they can be.
    """

    visits: list[tuple]
    orders: list[tuple]
    refunds: dict[int, float] = field(default_factory=dict)
    has_numbers: bool = False

    @property
    def readable(self):
        """The orders whose value is not infinite, by their place."""
        return {place: row for place, row in enumerate(self.orders) if not math.isinf(row[2])}


def moments(*, has_days, has_clocks=True):
    """Draw dates of a week as text: days, or instants at noon or later in the day."""
    days = st.integers(1, 7).map(lambda day: f"2025-03-{day:02}")
    clocks = st.sampled_from(["00:00:00Z", "12:00:00Z", "14:30:00+02:00", "23:59:59Z"])
    instants = st.builds("{}T{}".format, days, clocks)
    return st.one_of([days] * has_days + [instants] * has_clocks)


@st.composite
def data(draw):
    """Draw visits and orders: people who meet or do not, nobody, days, instants or both, two currencies."""
    users = st.sampled_from(PEOPLE * 2 + NOBODY)
    strangers = st.sampled_from([f"not-{user}" for user in PEOPLE])
    has_days = draw(st.sampled_from([(True, False), (False, True), (True, True)]))
    when = moments(has_days=has_days[0], has_clocks=has_days[1])
    visits = draw(st.lists(st.tuples(users, st.sampled_from(NODES), when), min_size=1, max_size=8))
    # One visit has a person, without whom files have no readable row.
    visits.append((PEOPLE[0], "ads", draw(when)))
    buyers = strangers if draw(st.integers(0, 4)) == 0 else users
    value = st.integers(-2, 40).map(lambda quarters: quarters / 4)
    row = st.tuples(buyers, when, value, st.sampled_from(CURRENCIES))
    orders = draw(st.lists(row, min_size=1, max_size=6))
    if draw(st.integers(0, 4)) == 0:
        orders.append((PEOPLE[1], draw(when), draw(st.sampled_from([math.inf, -math.inf])), "EUR"))
    places = [place for place, row in enumerate(orders) if code(row[3]) == "EUR" and math.isfinite(row[2])]
    refunded = st.dictionaries(st.sampled_from(places or [0]), st.sampled_from([0.25, 2.5]), max_size=2)
    return Data(visits, orders, draw(refunded) if places else {}, draw(st.booleans()))


# -- what is expected


def moment(text, *, at_end):
    if "T" in text:
        return datetime.fromisoformat(text.replace("Z", "+00:00"))
    start = datetime.fromisoformat(f"{text}T00:00:00+00:00")
    return start + DAY - timedelta(microseconds=1) if at_end else start


def code(currency):
    return {"€": "EUR"}.get(currency, currency.strip().upper())


def expected(given):
    """Return linear credits and the number of paths by their nodes, by node and currency."""
    visits = [
        (user, moment(when, at_end=False), node) for user, node, when in given.visits if user not in NOBODY
    ]
    credits, paths = Counter(), Counter()
    for place, (user, when, value, currency) in given.readable.items():
        end = moment(when, at_end=True)
        # Touchpoints of one instant are in the order of their nodes in the credits of no rule that is linear.
        path = [node for who, at, node in visits if who == user and end - LOOKBACK < at <= end]
        paths[tuple(sorted(path)), code(currency)] += 1
        for node in path or [None]:
            share = 1 / max(len(path), 1)
            credits[node, code(currency), "conversions"] += share
            amount = 0 if math.isnan(value) else value
            credits[node, code(currency), "value"] += share * (amount - given.refunds.get(place, 0))
    return credits, paths


def said(given):
    """Return what is to be said, by a word that stands in the warning."""
    orders = given.readable.values()
    users = [{row[0] for row in rows} - set(NOBODY) for rows in (given.visits, orders)]
    return {
        "orders without a user": any(row[0] in NOBODY for row in orders),
        "no user meets": bool(users[1]) and not users[0] & users[1] and len(users[1]) > 0,
    }


# -- the ways in


def visits_of(given):
    return pd.DataFrame(given.visits, columns=["user_id", "node_id", "date"], dtype=TEXT)


def orders_of(given):
    rows = [(f"order-{number}", *row) for number, row in enumerate(given.orders)]
    frame = pd.DataFrame(rows, columns=["event_id", "user_id", "date", "value", "currency"])
    frame = frame.astype({"event_id": TEXT, "user_id": TEXT, "date": TEXT, "currency": TEXT})
    return with_numbers(frame, given, "event_id")


def refunds_of(given):
    rows = [(f"order-{place}", "2025-03-20", -amount) for place, amount in given.refunds.items()]
    frame = pd.DataFrame(rows, columns=["event_id", "date", "value"]).astype({"event_id": TEXT})
    return with_numbers(frame, given, "event_id") if rows else None


def with_numbers(frame, given, column):
    """Return a frame whose ids of a kind are floats, as a column with a missing value has them."""
    if not given.has_numbers:
        return frame
    known = [*(f"order-{place}" for place in range(99)), *PEOPLE, *(f"not-{user}" for user in PEOPLE)]
    numbers = {name: 1001.0 + place for place, name in enumerate(known)}
    return frame.assign(**{column: frame[column].map(numbers).astype("float64")})


def both_of(given):
    return [with_numbers(frame, given, "user_id") for frame in (visits_of(given), orders_of(given))]


def by_frames(given):
    return at.Paths.from_frames(*both_of(given), adjustments=refunds_of(given))


def by_files(given):
    # Names of nodes are not merged: they differ by more than their case.
    return at.read_journeys(*both_of(given)).paths(adjustments=refunds_of(given))


def instants_of(frame, column, *, at_end):
    return pd.Series([moment(text, at_end=at_end) for text in frame[column]], dtype="datetime64[us, UTC]")


def hexadecimal(user):
    return md5(user.encode(), usedforsecurity=False).hexdigest()[:24]


def loaded(shop, given):
    """Load the visits, whose users the project finds by their e-mail address; rows of nobody are rejected."""
    frame = visits_of(given)
    is_somebody = ~frame["user_id"].isin([user for user in NOBODY if user]) & frame["user_id"].notna()
    frame = frame[is_somebody].reset_index(drop=True)
    visits = pd.DataFrame({"nodeId": frame["node_id"], "startDate": instants_of(frame, "date", at_end=False)})
    visits["userId"] = [hexadecimal(user) for user in frame["user_id"]]
    visits["userData"] = [json.dumps({"email": user}) for user in frame["user_id"]]
    nodes = pd.DataFrame({"_id": NODES, "name": NODES, "type": "channel"})
    assert at.load(shop, nodes=nodes, interactions=visits).rejected.empty


def by_sending(given):
    shop = at.connect("shop", path=":memory:")
    loaded(shop, given)
    amounts = [
        {"type": "currency", "entity": "event", "storageKey": key, "optional": True} for key in AMOUNTS
    ]
    email = {"type": "email", "entity": "user", "storageKey": "email", "discriminant": True, "optional": True}
    at.create_event_type(shop, "order", name="Order", fields=[email, *amounts])
    columns = {"email": "user_id", "date": "date", "id": "event_id", "value": "value", "currency": "currency"}
    sent = at.send_conversions(shop, orders_of(given), **columns)
    processed = [place for place, status in enumerate(sent["status"]) if status == "processed"]
    assert processed == [*given.readable], sent["error"].tolist()
    refunds = pd.DataFrame({"id": sent["id"][[*given.refunds]], "storageKey": "refund"})
    refunds["value"] = [-amount for amount in given.refunds.values()]
    at.update_statistics(shop, refunds)
    return credited(shop, given)


AMOUNTS = ["turnover", "refund"]


def credited(shop, given):
    later = ["refund"] if given.refunds else []
    return at.conversion_paths(shop, event_type="order", statistic="turnover", adjustments=later)


def by_tables(given):
    engine = ibis.duckdb.connect()
    # Tables of engines have ids of text, and others are refused.
    visits, orders = both_of(replace(given, has_numbers=False))
    visits["date"] = instants_of(visits, "date", at_end=False)
    orders["date"] = instants_of(orders, "date", at_end=True)
    names = {"user_id": "userId", "node_id": "nodeId", "date": "startDate"}
    visits = visits.rename(columns=names).assign(_id=[str(number) for number in range(len(visits))])
    names = {"event_id": "_id", "user_id": "userId", "date": "eventDate", "value": "statistics.turnover"}
    names |= {"currency": "statistics.turnover.currency"}
    back = pd.Series({place: -amount for place, amount in given.refunds.items()}, orders.index, "float64")
    of_refunds = {"statistics.refund": back, "statistics.refund.currency": orders["currency"]}
    orders = orders.rename(columns=names).assign(eventType="order", **of_refunds)
    for name, frame in (("visits", visits), ("orders", orders)):
        engine.create_table(name, pa.Table.from_pandas(frame, preserve_index=False))
    return credited(at.open_tables(engine, interactions="visits", events="orders"), given)


WAYS = {"frames": by_frames, "files": by_files, "sent": by_sending, "tables": by_tables}


def found(paths):
    credits = Counter()
    rows = at.attribute(paths, "linear").astype({"node_id": object, "currency": object})
    for row in rows.where(rows.notna(), None).itertuples():
        for name in ("conversions", "value"):
            credits[row.node_id, row.currency, name] += getattr(row, name)
    of_event = paths.to_pandas().groupby(["event_id", "currency"])["node_id"]
    lists = Counter((tuple(sorted(nodes.dropna())), currency) for (_, currency), nodes in of_event)
    return credits, lists


def heard(way, given):
    """Return credits, paths and what was said of them."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        credits, paths = found(WAYS[way](given))
    return (
        credits,
        paths,
        [str(each.message) for each in caught if each.category.__module__ == errors.__name__],
    )


#: A part of the warnings of each topic, in the words of the ways in.
_WORDS = {
    "orders without a user": ("without", "stand for nobody", "stands for nobody"),
    "no user meets": ("no user of a conversion",),
}


def check(way, given):
    credits, paths = expected(given)
    if len(given.readable) < len(given.orders) and way in ("frames", "tables"):
        with pytest.raises(errors.InvalidRequest, match="1 row is not allowed: its .* is not finite"):
            heard(way, given)
        given = replace(given, orders=[*given.readable.values()])
    found_credits, found_paths, messages = heard(way, given)
    assert found_paths == paths
    assert {key: value for key, value in found_credits.items() if value} == pytest.approx(
        {key: value for key, value in credits.items() if value}
    )
    for topic, is_due in said(given).items():
        assert not is_due or any(word in message for message in messages for word in _WORDS[topic]), topic


@pytest.mark.few(2)
@pytest.mark.parametrize("way", WAYS)
@settings(max_examples=2)
@given(data())
def test_every_way_in_gives_what_the_rows_say(way, given):
    check(way, given)


def two_clocks(hours):
    """Return orders 40 minutes after the only click of their person; clicks are in a time zone ahead of UTC."""
    people = [f"person-{number}@shop.example" for number in range(20)]
    noon = datetime(2025, 3, 4, 12)
    clicked, ordered = (noon + timedelta(hours=hours), noon + timedelta(minutes=40))
    return Data(
        [(user, "ads", f"{clicked.isoformat()}Z") for user in people],
        [(user, f"{ordered.isoformat()}Z", 10.0, "EUR") for user in people],
    )


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("way", "hours", "shift"),
    [
        *((way, 2, "1.5") for way in WAYS),
        ("frames", 1, "0.5"),
        # 1.5 hours and 40 minutes: the shift that puts an order at its click.
        ("tables", 13 / 6, "1.5"),
        ("frames", 5.75, "5.5"),
        ("files", 14, "13.5"),
    ],
)
def test_two_clocks_are_named_by_every_way_in(way, hours, shift):
    said = f"clocks: 20 of 20 conversions were before every touchpoint of their user, nearly all by at most {shift} h"
    credits, _, messages = heard(way, two_clocks(hours))
    (message,) = (message for message in messages if message.startswith(said))
    dates = {"sent": ("interactions['startDate']", "events['eventDate']")}
    dates |= {"tables": dates["sent"], "files": ("touchpoints['date']", "conversions['date']")}
    touched, bought = dates.get(way, dates["files"])
    assert f"Check the time zones of {touched} and {bought}. If they differ" in message
    assert f"{touched}.dt.tz_localize('Europe/Berlin') in frames" in message
    assert credits[None, "EUR", "value"] == 200.0


def test_two_clocks_are_named_by_the_columns_of_the_files():
    visits, orders = both_of(two_clocks(2))
    visits, orders = visits.rename(columns={"date": "seen"}), orders.rename(columns={"date": "bought"})
    with pytest.warns(errors.InputWarning, match=r"touchpoints\['seen'\] and conversions\['bought'\]"):
        at.attribute(at.read_journeys(visits, orders).paths(), "linear")


def on_a_day(*orders):
    """Return a click of each person at noon, and orders an hour later: user, value, currency."""
    return Data(
        [(user, "ads", "2025-03-04T12:00:00Z") for user in PEOPLE],
        [(user, "2025-03-04T13:00:00Z", value, currency) for user, value, currency in orders],
    )


@pytest.mark.few(2)
@pytest.mark.parametrize("way", ["frames", "files", "tables"])
def test_users_who_are_written_in_another_way_are_told_once(way):
    given = on_a_day(("CUSTOMER-1", 10.0, "EUR"), ("customer-2", 20.0, "EUR"))
    visits = [(user, "ads", "2025-03-04T12:00:00Z") for user in ("customer-1", "customer-2")]
    credits, _, messages = heard(way, Data(visits, given.orders))
    said = "1 user of conversions differs from those of touchpoints by case, blanks, leading zeros or a final .0 only"
    assert [message.startswith(f"users: {said}, such as 'CUSTOMER-1' from") for message in messages] == [True]
    assert credits[None, "EUR", "value"] == 10.0


@pytest.mark.few(2)
@pytest.mark.parametrize("way", WAYS)
def test_midnights_with_a_zone_are_told_by_every_way_in(way):
    """The order of ann is ten hours before her click, that of ben a day after his."""
    visits = [(PEOPLE[0], "ads", "2025-03-04T10:00:00Z"), (PEOPLE[1], "ads", "2025-03-03T10:00:00Z")]
    orders = [(user, "2025-03-04T00:00:00Z", 10.0, "EUR") for user in PEOPLE[:2]]
    credits, _, messages = heard(way, Data(visits, orders))
    said = "conversions: all dates are midnights, so they are instants, and 1 conversion did not get"
    assert [message.startswith(said) for message in messages] == [True]
    assert [credits[node, "EUR", "value"] for node in ("ads", None)] == [10.0, 10.0]


@pytest.mark.few(2)
@pytest.mark.parametrize("way", WAYS)
def test_an_order_without_a_value_has_a_value_of_0(way):
    check(way, on_a_day((PEOPLE[0], 10.0, "EUR"), (PEOPLE[1], math.nan, "EUR"), (PEOPLE[2], 4.0, "EUR")))


def test_functions_of_a_project_take_currencies_in_any_case_and_signs():
    with at.connect("shop", path=":memory:", currency="nok") as shop:
        at.admin.set_rates(
            shop, pd.DataFrame({"currency": ["€", " usd"], "date": "2025-01-01", "rate": 10.0})
        )
        assert at.admin.list_rates(shop, currency="eur")["currency"].tolist() == ["EUR"]
        assert at.admin.get_settings(shop)["currency"] == "NOK"
        at.admin.create_integration(shop, "post", name="Post", currency="£")
        at.create_campaign(shop, "post", "leaflet", name="Leaflet")
        with pytest.raises(errors.InvalidRequest, match="currency: 'kr' is not allowed"):
            at.admin.create_integration(shop, "fair", name="Fair", currency="kr")


@pytest.mark.few(2)
@pytest.mark.parametrize("way", WAYS)
def test_a_value_without_a_currency_stays_and_is_told_once(way):
    given = on_a_day((PEOPLE[0], 10.0, "USD"), (PEOPLE[1], 20.0, None), (PEOPLE[2], 0.0, None))
    credits, _, messages = heard(way, given)
    said = [message for message in messages if "currency" in message]
    assert len(said) == 1
    assert "1 row with a value but no currency, 20.00 in all" in said[0]
    # A project has a currency of its own.
    own = "EUR" if way in ("sent", "tables") else None
    assert [credits["ads", each, "value"] for each in ("USD", own)] == [10.0, 20.0]
    # The order of 0 is in the currency of the others, or of the project.
    assert credits["ads", own, "conversions"] == (2.0 if own else 1.0)


@pytest.mark.parametrize(("way", "hours"), [("frames", 15), ("files", 0), ("frames", 0.5)])
def test_what_no_time_zone_explains_is_no_matter_of_clocks(way, hours):
    assert not [message for message in heard(way, two_clocks(hours))[2] if "clocks:" in message]


@pytest.mark.large
@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
@settings(max_examples=examples(150))
@given(data())
def test_every_way_in_gives_what_the_rows_say_in_many_cases(way, given):
    check(way, given)
