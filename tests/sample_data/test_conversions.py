"""The shipped events."""

import pandas as pd

STATES = {"order": ["confirmed", "refunded"], "lead": ["qualified", "converted"]}


def _attributed(events: pd.DataFrame, visits: pd.DataFrame) -> pd.DataFrame:
    """Return the touchpoints in the 30 days before each event, in order."""
    pairs = events.merge(visits, on="userId", suffixes=("", "_visit"))
    age = pairs["eventDate"] - pairs["startDate"]
    inside = pairs[(age >= pd.Timedelta(0)) & (age < pd.Timedelta(days=30))]
    return inside.sort_values(["_id", "startDate", "_id_visit"])


def test_ids_are_well_formed_and_unique(events: pd.DataFrame) -> None:
    assert events["_id"].is_unique
    uuid_7 = r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"
    assert events["_id"].str.fullmatch(uuid_7).all()
    assert events["userId"].str.fullmatch(r"[0-9a-f]{24}").all()


def test_orders_and_leads_are_sorted_by_date(events: pd.DataFrame) -> None:
    counts = events["eventType"].value_counts()
    assert set(counts.index) == {"order", "lead"}
    assert 1_250 < counts["order"] < 1_550
    assert 400 < counts["lead"] < 600
    assert events["eventDate"].is_monotonic_increasing
    assert events["eventDate"].max() < pd.Timestamp("2025-07-01", tz="UTC")


def test_most_events_belong_to_visitors(events: pd.DataFrame, interactions: pd.DataFrame) -> None:
    has_visits = events["userId"].isin(interactions["userId"])
    assert 0.95 < has_visits.mean() < 1
    people = interactions[interactions["isBot"] | interactions["trafficFilterId"].notna()]
    assert not events["userId"].isin(people["userId"]).any()


def test_some_people_order_several_times(events: pd.DataFrame) -> None:
    orders = events[events["eventType"] == "order"].groupby("userId").size()
    assert (orders > 1).sum() > 50


def test_order_numbers_grow_with_the_date(events: pd.DataFrame) -> None:
    is_order = events["eventType"] == "order"
    numbers = events.loc[is_order, "event.orderNumber"]
    assert numbers.is_unique
    assert numbers.is_monotonic_increasing
    assert events.loc[~is_order, "event.orderNumber"].isna().all()


def test_an_email_belongs_to_one_person(events: pd.DataFrame) -> None:
    emails = events["user.email"].dropna()
    assert emails.str.fullmatch(r"[a-z]+\.[a-z]+[0-9]+@example\.org").all()
    assert events.groupby("user.email")["userId"].nunique().max() == 1
    assert events.loc[events["eventType"] == "lead", "user.email"].notna().all()


def test_states_follow_their_event(events: pd.DataFrame) -> None:
    for event_type, keys in STATES.items():
        own = events["eventType"] == event_type
        for key in keys:
            value, date = events[f"states.{key}"], events[f"states.{key}.date"]
            assert (value.isna() == date.isna()).all()
            assert set(value.dropna()) <= {0, 1}
            assert value[~own].isna().all()
            assert value[own].isna().any()
            assert (date.dropna() >= events.loc[date.notna(), "eventDate"]).all()
            assert date.max() < pd.Timestamp("2025-07-01", tz="UTC")


def test_second_states_come_after_the_first(events: pd.DataFrame) -> None:
    for first, second in STATES.values():
        reached = events[events[f"states.{second}"] == 1]
        assert len(reached) > 30
        assert (reached[f"states.{first}"] == 1).all()
        assert (reached[f"states.{second}.date"] > reached[f"states.{first}.date"]).all()


def test_orders_have_amounts_in_cents_and_leads_none(events: pd.DataFrame) -> None:
    is_order = events["eventType"] == "order"
    statistics = ["statistics.turnover.amount", "statistics.turnover.currency", "statistics.items"]
    assert events.loc[is_order, statistics].notna().all(axis=None)
    assert events.loc[~is_order, statistics].isna().all(axis=None)
    amounts = events.loc[is_order, "statistics.turnover.amount"]
    assert (amounts == amounts.round(2)).all()
    assert amounts.min() > 0
    assert events.loc[is_order, "statistics.items"].min() == 1


def test_most_orders_are_in_euros_and_some_in_francs(events: pd.DataFrame) -> None:
    shares = events["statistics.turnover.currency"].value_counts(normalize=True)
    assert set(shares.index) == {"EUR", "CHF"}
    assert 0.02 < shares["CHF"] < 0.06


def test_some_orders_have_no_visit_in_the_month_before(events: pd.DataFrame, visits: pd.DataFrame) -> None:
    orders = events[events["eventType"] == "order"]
    attributed = orders["_id"].isin(_attributed(orders, visits)["_id"])
    assert 0.03 < (~attributed).mean() < 0.15


def test_models_give_different_credits(events: pd.DataFrame, visits: pd.DataFrame) -> None:
    orders = events[events["eventType"] == "order"]
    touches = _attributed(orders, visits).groupby("_id")
    first = touches["channel"].first().value_counts()
    last = touches["channel"].last().value_counts()
    for opener in ("Display", "Paid Social"):
        assert first[opener] > 2 * last[opener]
    for closer in ("Paid Search", "Direct"):
        assert last[closer] > 1.4 * first[closer]
    assert (first < 0.5 * first.sum()).all()


def test_the_probability_of_an_order_increases_with_visits(
    events: pd.DataFrame, visits: pd.DataFrame
) -> None:
    buyers = set(events.loc[events["eventType"] == "order", "userId"])
    lengths = visits.groupby("userId").size()
    bought = pd.Series(lengths.index.isin(buyers), index=lengths.index)
    assert bought[lengths >= 5].mean() > 2 * bought[lengths == 1].mean()
