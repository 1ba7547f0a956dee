"""Conversions of a project and the touchpoints before them, on the small shop of conftest.

Orders: Anna (touched shoes, letter, direct) 90 EUR, Ben (boots; his bot and office traffic never count) 40 EUR,
Carl (an offline letter 70 days before) 20 EUR. Anna's lead came after shoes and letter.
"""

import pandas as pd
import pytest
from matplotlib.figure import Figure

from attrib_ds import (
    attribute,
    conversion_paths,
    credit_series,
    errors,
    event,
    interaction,
    list_nodes,
    node,
    plots,
    roll_up,
)

PERIOD = {"since": "2025-01-01T00:00:00Z", "until": "2025-01-11T00:00:00Z"}


def credited(paths, model="linear", column="conversions"):
    rows = attribute(paths, model)
    ids = [None if pd.isna(each) else each for each in rows["node_id"]]
    return dict(zip(ids, rows[column], strict=True))


@pytest.mark.slow
def test_orders_by_node(shop):
    paths = conversion_paths(shop, event_type="order", statistic="turnover")
    assert credited(paths) == pytest.approx(
        {"shoes": 1 / 3, "letter": 1 / 3, "direct": 1 / 3, "boots": 1, None: 1}
    )
    assert credited(paths, column="value") == pytest.approx(
        {"shoes": 30, "letter": 30, "direct": 30, "boots": 40, None: 20}
    )
    credits = attribute(paths, "linear").set_index("node_id")
    assert credits.loc["shoes", "node_name"] == "Shoes"
    assert set(credits["currency"]) == {"EUR"}
    assert "spend" not in credits.columns


@pytest.mark.slow
def test_last_non_direct_knows_direct_by_name_or_channel(shop):
    paths = conversion_paths(shop, event_type="order")
    assert credited(paths, "last_non_direct")["letter"] == 1
    assert credited(paths, "last_touch")["direct"] == 1


def test_the_number_of_events_is_the_default_statistic(shop):
    credits = attribute(conversion_paths(shop, event_type="order"), "linear")
    assert credits["value"].tolist() == credits["conversions"].tolist()
    assert credits["currency"].isna().all()


@pytest.mark.slow
def test_a_longer_lookback_reaches_further(shop):
    paths = conversion_paths(shop, event_type="order", lookback="90D")
    assert credited(paths, "linear")["letter"] == pytest.approx(1 / 3 + 1)
    assert None not in credited(paths)


@pytest.mark.parametrize("lookback", ["12h", "400D", "0D"])
def test_lookbacks_outside_one_to_365_days_are_refused(shop, lookback):
    with pytest.raises(errors.InvalidRequest, match="lookback"):
        conversion_paths(shop, event_type="order", lookback=lookback)


@pytest.mark.slow
def test_only_events_with_a_state(shop):
    paths = conversion_paths(shop, event_type="order", statistic="turnover", state="confirmed")
    assert sum(credited(paths, column="value").values()) == pytest.approx(110)


@pytest.mark.slow
def test_only_events_of_a_period(shop):
    lead = conversion_paths(
        shop, event_type="lead", since="2025-01-06T11:00:00+01:00", until="2025-01-06T10:00:00"
    )
    assert credited(lead) == {"shoes": 0.5, "letter": 0.5}
    later = conversion_paths(shop, event_type="lead", since="2025-01-06T10:00:01Z")
    assert attribute(later, "linear").empty
    with pytest.raises(errors.InvalidRequest, match="until: 2025-01-05 is before since, 2025-01-06"):
        conversion_paths(shop, event_type="lead", since="2025-01-06", until="2025-01-05")


@pytest.mark.slow
def test_where_filters_touchpoints_or_events(shop):
    french = conversion_paths(shop, event_type="order", where=interaction("geo.countryCode") == "FR")
    assert credited(french) == {"shoes": 0.5, "letter": 0.5, None: 2}
    ids = event("_id").ends_with("2")
    assert credited(conversion_paths(shop, event_type="order", where=ids)) == {"boots": 1}
    with pytest.raises(errors.InvalidRequest, match="where: a predicate on node is not allowed"):
        conversion_paths(shop, event_type="order", where=node("nodeName") == "Shoes")
    with pytest.raises(errors.InvalidRequest, match="where: a predicate on str"):
        conversion_paths(shop, event_type="order", where="geo.countryCode == 'FR'")


@pytest.mark.slow
def test_nodes_filter_brings_what_is_below(shop):
    paths = conversion_paths(shop, event_type="order", nodes=node("campaignName") == "Brand")
    assert credited(paths) == {"shoes": 1, "boots": 1, None: 1}


@pytest.mark.slow
def test_level_credits_the_ancestor_and_brings_spend(shop):
    paths = conversion_paths(shop, event_type="order", statistic="turnover", level="campaign", **PERIOD)
    worth = {"brand": 70, "letter": 30, "direct": 30, None: 20}
    assert credited(paths, column="value") == pytest.approx(worth)
    credits = attribute(paths, "linear").set_index("node_id")
    # Ten of the thirty days of the first outlay, all ten of the second.
    assert credits["spend"].dropna().to_dict() == pytest.approx({"brand": 10, "letter": 10})
    assert credits.loc["brand", "cpa"] == pytest.approx(10 / (4 / 3))
    assert credits.loc["letter", "roas"] == pytest.approx(3)


@pytest.mark.slow
def test_a_period_without_conversions_or_spend_has_the_columns_of_any_other(shop):
    order = {"event_type": "order", "statistic": "turnover", "level": "campaign"}
    quiet = conversion_paths(shop, **order, since="2031-08-04", until="2031-08-11")
    whole = conversion_paths(shop, **order)
    for function in (attribute, credit_series):
        rows = function(quiet, ["linear", "last_touch"])
        assert rows.empty
        pd.testing.assert_series_equal(rows.dtypes, function(whole, ["linear", "last_touch"]).dtypes)
    weeks = credit_series(quiet, "linear", interval="week", date="touch")
    plots.series(weeks, by="roas", currency="EUR", ax=Figure().subplots())


@pytest.mark.slow
def test_rolling_up_equals_attributing_at_the_level_for_rules_that_ignore_nodes(shop):
    rules = ["first_touch", "last_touch", "linear", "linear_ramp", "time_decay", "position_based"]
    leaves = conversion_paths(shop, event_type="order", statistic="turnover")
    at_level = conversion_paths(shop, event_type="order", statistic="turnover", level="campaign")
    rolled = roll_up(attribute(leaves, rules), list_nodes(shop), "campaign")
    direct = attribute(at_level, rules).drop(columns=["spend", "cpa", "roas"])
    keys = ["model", "node_id"]
    pd.testing.assert_frame_equal(
        rolled.sort_values(keys, ignore_index=True),
        direct.sort_values(keys, ignore_index=True),
        check_exact=False,
        rtol=1e-9,
    )


def test_milestones_are_states(shop):
    paths = conversion_paths(shop, event_type="lead", milestones={"lead": "qualified"})
    # Qualified after both touches: the last one holds the milestone and the end.
    assert credited(paths, "w_shaped") == pytest.approx({"shoes": 1 / 3, "letter": 2 / 3})


@pytest.mark.slow
def test_mixed_currencies_stay_apart(shop):
    from attrib_ds import load

    load(
        shop,
        events=pd.DataFrame(
            {
                "userId": [f"{10:024x}", f"{10:024x}"],
                "eventType": ["order", "order"],
                "eventDate": ["2025-01-10T11:00:00Z", "2025-01-10T12:00:00Z"],
                "statistics.turnover.amount": [500.0, None],
                "statistics.turnover.currency": ["CHF", None],
            }
        ),
    )
    credits = attribute(conversion_paths(shop, event_type="order", statistic="turnover"), "first_touch")
    assert credits.groupby("currency")["value"].sum().to_dict() == {"CHF": 500.0, "EUR": 150.0}
    # The order without an amount counts in the project's currency, with value 0.
    assert credits.groupby("currency")["conversions"].sum().to_dict() == {"CHF": 1.0, "EUR": 4.0}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"event_type": "ordre"},
            "event_type: there are no events of the type 'ordre' .did you mean 'order'",
        ),
        ({"statistic": "turnovr"}, "statistic: 'turnovr' is not allowed.*did you mean 'turnover'"),
        ({"state": "confirmd"}, "state: 'confirmd' is not allowed.*did you mean 'confirmed'"),
        ({"milestones": {"lead": "won"}}, "state: 'won' is not allowed"),
        ({"level": "campain"}, "level: 'campain' is not allowed.*did you mean 'campaign'"),
        ({"since": "2025-02-30T00:00:00Z"}, "since"),
        ({"until": "yesterday"}, "until"),
        ({"lookback": "soon"}, "lookback"),
    ],
)
def test_bad_input_is_refused_by_name(shop, arguments, message):
    with pytest.raises(errors.InvalidRequest, match=message):
        conversion_paths(shop, **({"event_type": "order"} | arguments))


def test_a_project_without_events_says_so():
    from attrib_ds import connect

    with (
        connect("empty-shop", path=":memory:") as empty,
        pytest.raises(errors.InvalidRequest, match="event_type"),
    ):
        conversion_paths(empty, event_type="order")


def test_a_declared_type_without_events_is_named_as_such():
    import attrib_ds as at

    with at.connect("new-shop", path=":memory:") as project:
        for reference in ("order", "refund"):
            at.create_event_type(project, reference, name=reference)
        with pytest.raises(errors.InvalidRequest) as raised:
            conversion_paths(project, event_type="order")
        assert raised.value.message == (
            "event_type: there are no events of the type 'order'; the project has no events yet"
        )
        at.send_events(project, pd.DataFrame({"nonce": ["r-1"]}), event_type="refund")
        with pytest.raises(errors.InvalidRequest) as raised:
            conversion_paths(project, event_type="order")
        assert raised.value.message == (
            "event_type: there are no events of the type 'order'; types with events: refund"
        )
