"""Conversions of a project and the touchpoints before them, on the small shop of conftest.

Orders: Anna (touched shoes, letter, direct) 90 EUR, Ben (boots; his bot and office traffic never count) 40 EUR,
Carl (an offline letter 70 days before) 20 EUR. Anna's lead came after shoes and letter.
"""

import ibis
import pandas as pd
import pyarrow as pa
import pytest
from matplotlib.figure import Figure

import attrib_ds as at
from attrib_ds import (
    attribute,
    connect,
    conversion_paths,
    credit_series,
    errors,
    event,
    interaction,
    list_nodes,
    list_user_events,
    load,
    node,
    open_tables,
    plots,
    roll_up,
    send_conversions,
    update_statistics,
    user,
)
from attrib_ds.api.admin import create_audience, set_rates

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


def test_conversions_are_filtered_by_their_amounts(shop):
    where = (event("statistics.turnover") > 30) & (event("statistics.turnover") <= 90)
    paths = conversion_paths(shop, event_type="order", statistic="turnover", where=where)
    assert credited(paths, column="value") == pytest.approx(
        {"shoes": 30, "letter": 30, "direct": 30, "boots": 40}
    )
    with pytest.raises(errors.InvalidRequest, match="where: 'turnovre' is not allowed .*'turnover'"):
        conversion_paths(shop, event_type="order", where=event("statistics.turnovre") > 30)


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
@pytest.mark.filterwarnings("ignore:lookback:attrib_ds.errors.InputWarning")
def test_only_events_with_a_state(shop):
    paths = turnover(shop, state="confirmed")
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
    with pytest.warns(errors.InputWarning, match="unattributed: 2 of 3 conversions"):
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
    with pytest.warns(errors.InputWarning, match=r"unattributed: 1 of 3 conversions: nodes=node\("):
        assert credited(paths) == {"shoes": 1, "boots": 1, None: 1}
    with pytest.raises(errors.InvalidRequest, match="nodes: a predicate on interaction is not allowed"):
        conversion_paths(shop, event_type="order", nodes=interaction("geo.city") == "Paris")


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


@pytest.mark.large
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


def test_a_type_that_is_not_declared_is_named_with_those_that_have_events():
    with at.connect("new-shop", path=":memory:") as project:
        for types in ("the project has no events yet", "types with events: refund"):
            with pytest.raises(errors.InvalidRequest) as raised:
                conversion_paths(project, event_type="order")
            assert raised.value.message == f"event_type: there are no events of the type 'order'; {types}"
            if types.startswith("the"):
                at.create_event_type(project, "refund", name="Refund")
                at.send_events(project, pd.DataFrame({"nonce": ["r-1"]}), event_type="refund")


ORDER = {"event_type": "order", "statistic": "turnover"}
ANNA, BEN, CARL = (f"{number:024x}" for number in (10, 11, 12))
FIRST_ORDER = "00000000-0000-7000-8000-000000000001"


def valued_credited(paths, column="conversions", model="linear"):
    rows = attribute(paths, model)
    ids = [None if pd.isna(each) else each for each in rows["node_id"]]
    return dict(zip(ids, rows[column], strict=True))


@pytest.mark.slow
def test_offline_interactions_may_count_longer(shop):
    # Carl's letter came 70 days before his order; all else is online.
    longer = conversion_paths(shop, event_type="order", lookback={"session": "2D", "offline": "90D"})
    assert valued_credited(longer) == {"direct": 1.0, "letter": 1.0, None: 1.0}
    shorter = conversion_paths(shop, event_type="order", lookback={"default": "30D", "offline": "7D"})
    assert valued_credited(shorter) == valued_credited(conversion_paths(shop, event_type="order"))


@pytest.mark.slow
def test_the_lookback_of_a_node_is_that_of_what_is_below_it(shop):
    paths = conversion_paths(shop, event_type="order", lookback="1D", node_lookbacks={"ads": "30D"})
    assert valued_credited(paths) == {"shoes": 1.0, "boots": 1.0, None: 1.0}
    # The nearest one counts, and credit may go to an ancestor all the same.
    nearest = {"ads": "30D", "shoes": "1D"}
    paths = conversion_paths(
        shop, event_type="order", lookback="2D", node_lookbacks=nearest, level="campaign"
    )
    counts = {node: count for node, count in valued_credited(paths).items() if count}
    assert counts == {"direct": 1.0, "brand": 1.0, None: 1.0}


@pytest.mark.slow
def test_sessions_may_go_before_offline_interactions(shop):
    called = pd.DataFrame(
        {
            "_id": [f"{8:024x}"],
            "userId": [BEN],
            "nodeId": ["letter"],
            "startDate": ["2025-01-09T10:00:00Z"],
            "type": ["offline"],
        }
    )
    assert load(shop, interactions=called).rejected.empty
    assert valued_credited(conversion_paths(shop, event_type="order"))["letter"] == pytest.approx(
        1 / 3 + 1 / 2
    )
    paths = conversion_paths(
        shop, event_type="order", precedence=("session", "offline"), lookback={"default": "90D"}
    )
    # Ben's call gives way to his visit; Carl has nothing but a letter.
    assert valued_credited(paths)["letter"] == pytest.approx(1 / 3 + 1)


@pytest.mark.large
@pytest.mark.slow
def test_events_of_any_type_or_of_the_same_one_reset(shop):
    # Anna's lead on the 6th came before her order.
    assert valued_credited(conversion_paths(shop, event_type="order", reset="same"))[
        "shoes"
    ] == pytest.approx(1 / 3)
    after_lead = conversion_paths(shop, event_type="order", reset="any")
    assert valued_credited(after_lead) == {"direct": 1.0, "boots": 1.0, None: 1.0}
    again = pd.DataFrame({"userId": [ANNA], "eventType": ["order"], "eventDate": ["2025-01-12T10:00:00Z"]})
    load(shop, events=again)
    # The order of the 10th is before the period, and has taken its path all the same.
    late = {"event_type": "order", "since": "2025-01-11T00:00:00Z"}
    assert valued_credited(conversion_paths(shop, **late))["shoes"] == pytest.approx(1 / 3)
    assert valued_credited(conversion_paths(shop, **late, reset="same")) == {None: 1.0}


@pytest.mark.large
@pytest.mark.slow
def test_windows_and_periods_may_end_at_the_state(shop):
    lead = {"event_type": "lead", "state": "qualified"}
    paths = conversion_paths(shop, **lead, anchor="state", lookback="5D")
    # Qualified on the 7th at 10: the visit of the 1st is too old then, and was not on the 6th.
    assert valued_credited(paths) == {"letter": 1.0}
    assert valued_credited(conversion_paths(shop, **lead, lookback="6D")) == {"shoes": 0.5, "letter": 0.5}
    assert valued_credited(conversion_paths(shop, **lead, until="2025-01-06T23:00:00Z")) != {}
    assert valued_credited(conversion_paths(shop, **lead, until="2025-01-06T23:00:00Z", anchor="state")) == {}
    series = credit_series(paths, "linear", date="event")
    assert series["day"].tolist() == ["2025-01-06"]
    assert credit_series(paths, "linear", date="state")["day"].tolist() == ["2025-01-07"]


@pytest.mark.slow
def test_what_updates_change_is_a_later_amount(shop):
    returned = {"id": [FIRST_ORDER] * 2, "storageKey": "turnover", "value": [60.0, 0.0]}
    dates = ["2025-02-01T00:00:00Z", "2025-03-01T00:00:00Z"]
    assert (
        update_statistics(shop, pd.DataFrame(returned | {"date": dates}))["status"].tolist()
        == ["updated"] * 2
    )
    paths = conversion_paths(shop, **ORDER)
    assert valued_credited(paths, "value") == {
        "shoes": 0.0,
        "letter": 0.0,
        "direct": 0.0,
        "boots": 40.0,
        None: 20.0,
    }
    assert valued_credited(paths.with_original_values(), "value")["shoes"] == 30.0
    assert valued_credited(paths.with_later_values(), "value")["shoes"] == -30.0
    series = credit_series(paths, "linear", interval="month", date="state")
    of_shoes = series[series["node_id"] == "shoes"]
    assert of_shoes[["month", "conversions", "value"]].to_numpy().tolist() == [
        ["2025-01", pytest.approx(1 / 3), 30.0],
        ["2025-02", 0.0, -10.0],
        ["2025-03", 0.0, -20.0],
    ]


@pytest.mark.large
@pytest.mark.slow
def test_further_statistics_are_later_amounts(shop):
    order = pd.DataFrame(
        {
            "userId": [BEN],
            "eventType": ["order"],
            "eventDate": ["2025-01-11T10:00:00Z"],
            "statistics.turnover.amount": [50.0],
            "statistics.turnover.currency": ["EUR"],
            "statistics.refund.amount": [0.0],
            "statistics.refund.currency": ["EUR"],
        }
    )
    assert load(shop, events=order).rejected.empty
    since = {"since": "2025-01-11T00:00:00Z"}
    assert valued_credited(conversion_paths(shop, **ORDER, **since), "value") == {"boots": 50.0}
    returned = {"storageKey": "refund", "value": -20.0, "date": "2025-02-01T10:00:00Z"}
    orders = list_user_events(shop, BEN)
    ids = orders.loc[orders["eventDate"] >= "2025-01-11", "_id"]
    update_statistics(shop, pd.DataFrame({"id": ids}).assign(**returned))
    paths = conversion_paths(shop, **ORDER, **since, adjustments=["refund"])
    assert valued_credited(paths, "value") == {"boots": 30.0}
    assert credit_series(paths, "linear", date="state")["day"].tolist() == ["2025-01-11", "2025-02-01"]


@pytest.fixture
def abroad(shop):
    """The shop with an order of 100 Norwegian crowns, and a campaign paid in them."""
    order = pd.DataFrame(
        {
            "userId": [BEN],
            "eventType": ["order"],
            "eventDate": ["2025-01-11T10:00:00Z"],
            "statistics.turnover.amount": [100.0],
            "statistics.turnover.currency": ["NOK"],
        }
    )
    spend = pd.DataFrame(
        {
            "campaignId": ["brand"],
            "amount.amount": [400.0],
            "amount.currency": ["NOK"],
            "startDate": ["2025-01-09T00:00:00Z"],
            "endDate": ["2025-01-13T00:00:00Z"],
        }
    )
    assert load(shop, events=order, spend=spend).rejected.empty
    return shop


@pytest.mark.large
@pytest.mark.slow
def test_values_and_spend_are_converted_by_the_rates_of_the_project(abroad):
    with pytest.raises(errors.InvalidRequest, match="there is no rate of NOK to EUR on 2025-01-11"):
        conversion_paths(abroad, **ORDER, in_currency="EUR")
    set_rates(
        abroad, pd.DataFrame({"currency": "NOK", "date": ["2025-01-01", "2025-01-11"], "rate": [0.08, 0.1]})
    )
    paths = conversion_paths(abroad, **ORDER, in_currency="EUR", level="campaign")
    credits = attribute(paths, "linear").set_index("node_id")
    assert set(credits["currency"]) == {"EUR"}
    # 70 EUR as before, and 100 crowns at 0.1.
    assert credits.loc["brand", "value"] == pytest.approx(80.0)
    # 30 EUR; two days of 100 crowns at 0.08, and two at 0.1.
    assert credits.loc["brand", "spend"] == pytest.approx(30 + 16 + 20)
    assert paths.settings["in_currency"] == "EUR"
    apart = attribute(conversion_paths(abroad, **ORDER, level="campaign"), "linear")
    assert apart.groupby("currency")["spend"].sum().to_dict() == pytest.approx({"EUR": 40.0, "NOK": 400.0})


@pytest.mark.large
@pytest.mark.slow
def test_rates_of_ones_own_go_before_those_of_the_project(abroad):
    set_rates(abroad, pd.DataFrame({"currency": "NOK", "date": ["2025-01-01"], "rate": [0.08]}))
    own = pd.DataFrame({"currency": ["NOK", "EUR"], "date": "2024-01-01", "rate": [0.1, 1.2]})
    paths = conversion_paths(abroad, **ORDER, in_currency="USD", rates=own)
    assert valued_credited(paths, "value")["boots"] == pytest.approx(40 * 1.2 + 10)
    with pytest.raises(errors.InvalidRequest, match="there is no rate of EUR to USD on 2025-01-10"):
        conversion_paths(abroad, **ORDER, in_currency="USD")
    with pytest.raises(errors.InvalidRequest, match="spend need"):
        conversion_paths(
            abroad,
            **ORDER,
            until="2025-01-10T12:00:00Z",
            level="campaign",
            in_currency="EUR",
            rates=own.iloc[1:],
        )


@pytest.mark.slow
def test_the_number_of_events_is_no_money(shop):
    with pytest.raises(errors.InvalidRequest, match="an amount of conversions on 2025-01-10 has no currency"):
        conversion_paths(shop, event_type="order", in_currency="EUR")


@pytest.mark.slow
def test_spend_stands_beside_credit_in_the_days_of_the_project():
    orders = pd.DataFrame({"userId": [ANNA], "eventType": ["order"], "eventDate": ["2025-01-31T23:30:00Z"]})
    visits = pd.DataFrame(
        {
            "_id": [f"{1:024x}"],
            "userId": [ANNA],
            "nodeId": ["brand"],
            "startDate": ["2025-01-31T22:30:00Z"],
            "type": ["session"],
        }
    )
    nodes = pd.DataFrame({"_id": ["brand"], "type": ["campaign"], "name": ["Brand"]})
    spend = pd.DataFrame(
        {
            "campaignId": ["brand"],
            "amount.amount": [48.0],
            "amount.currency": ["EUR"],
            "startDate": ["2025-01-31T00:00:00Z"],
            "endDate": ["2025-02-02T00:00:00Z"],
        }
    )
    with connect("paris-shop", path=":memory:", timezone="Europe/Paris") as paris:
        assert load(paris, nodes=nodes, interactions=visits, events=orders, spend=spend).rejected.empty
        paths = conversion_paths(paris, event_type="order", level="campaign")
        monthly = credit_series(paths, "linear", interval="month")
        # 23 hours of the 31st in Paris are before its midnight; the order is of the 1st of February there.
        assert monthly[["month", "conversions", "spend"]].to_numpy().tolist() == [
            ["2025-01", 0.0, pytest.approx(23.0)],
            ["2025-02", 1.0, pytest.approx(25.0)],
        ]
        by_touch = credit_series(paths, "linear", interval="month", date="touch")
        assert by_touch["conversions"].tolist() == [1.0, 0.0]
        in_utc = credit_series(paths, "linear", interval="month", timezone="UTC")
        assert in_utc[["month", "conversions"]].to_numpy().tolist() == [["2025-01", 1.0], ["2025-02", 0.0]]
        assert attribute(paths, "linear")["spend"].tolist() == pytest.approx([48.0])


@pytest.mark.slow
def test_results_say_how_they_were_made(shop):
    paths = conversion_paths(
        shop,
        **ORDER,
        state="confirmed",
        level="campaign",
        since="2025-01-01T00:00:00Z",
        anchor="event",
        reset="same",
    )
    assert attribute(paths, "linear").attrs == {
        "models": {"linear": "Linear()"},
        "lookback": "30D",
        "anchor": "event",
        "reset": "same",
        "event_type": "order",
        "statistic": "turnover",
        "state": "confirmed",
        "level": "campaign",
        "since": "2025-01-01T00:00:00Z",
    }


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"lookback": {"session": "30D"}}, "lookback: touchpoints of the type offline have no lookback"),
        ({"lookback": {"sesion": "30D", "default": "1D"}}, "'sesion' is not allowed.*did you mean 'session'"),
        (
            {"lookback": {"session": "400D", "offline": "1D"}},
            "lookback: '400D' is not allowed; allowed: 1 to 365",
        ),
        ({"node_lookbacks": {"brnd": "30D"}}, "node_lookbacks: 'brnd' is not allowed.*did you mean 'brand'"),
        ({"node_lookbacks": {"brand": "1h"}}, "node_lookbacks: '1h' is not allowed; allowed: 1 to 365 days"),
        ({"precedence": ("session", "call")}, "precedence: 'call' is not allowed; allowed: offline, session"),
        ({"anchor": "state"}, "anchor: 'state' requires a column with dates of the state"),
        ({"reset": "lead"}, "reset: 'lead' is not allowed"),
        ({"adjustments": "refund"}, "adjustments: 'refund' is not allowed; allowed: a list"),
        ({"adjustments": ["refnd"]}, "adjustments: 'refnd' is not allowed"),
        ({"rates": pd.DataFrame()}, "rates: in_currency is required with rates"),
    ],
)
def test_bad_input_of_values_is_refused_by_name(shop, arguments, message):
    with pytest.raises(errors.InvalidRequest, match=message):
        conversion_paths(shop, **({"event_type": "order"} | arguments))


def values(paths):
    rows = attribute(paths, "linear")
    ids = [None if pd.isna(each) else each for each in rows["node_id"]]
    return dict(zip(ids, rows["value"], strict=True))


def turnover(project, **question):
    # A chosen lookback: the usual one warns of the order whose touchpoints are older.
    question = {"lookback": "29D"} | question
    return conversion_paths(project, event_type="order", statistic="turnover", **question)


@pytest.mark.large
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:lookback:attrib_ds.errors.InputWarning")
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


@pytest.mark.large
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


def test_an_audience_without_members_answers_with_nothing_in_the_right_columns(shop, tmp_path):
    condition = user("eventCount") > 1_000
    nobody = create_audience(shop, "Nobody", condition=condition)
    members = {"type": "audience", "operator": "in", "value": [nobody["_id"]]}
    assert values(turnover(shop, audience=members)) == {}
    columns = ["fields.email", "eventCount", "lastInteractionDate"]
    found = at.search_users(shop, columns=columns, where=condition)
    assert found.empty
    pd.testing.assert_series_equal(found.dtypes, at.search_users(shop, columns=columns).dtypes)
    written = at.export_users(shop, tmp_path / "users.csv", columns=columns, audience=nobody["_id"])
    assert pd.read_csv(written).columns.tolist() == columns
    assert pd.read_csv(written).empty


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


def segment_credited(project, **question):
    return attribute(conversion_paths(project, event_type="order", **question), "linear")["node_id"].tolist()


@pytest.mark.slow
def test_users_of_ones_own_tables_are_selected_in_their_engine(lent):
    tables = {"interactions": "visits", "events": "orders", "users": "people"}
    shop = open_tables(lent, **tables, columns={"users": {"_id": "number"}})
    assert segment_credited(shop, where=user("fields.city") == "Oslo") == ["search"]
    assert segment_credited(shop, audience=user("eventCount") < 3) == ["email"]
    assert segment_credited(shop, where=user("fields.city") == "Oslo", audience=user("eventCount") < 3) == []
    assert sorted(segment_credited(shop)) == ["email", "search"]
    with pytest.raises(errors.InvalidRequest, match=r"fields.town.*\(the columns of the table\)"):
        segment_credited(shop, where=user("fields.town") == "Oslo")
    with pytest.raises(errors.NotSupported, match="audience: over tables, only user"):
        segment_credited(shop, audience={"type": "audience", "operator": "in", "value": ["a"]})
    with pytest.raises(errors.InvalidRequest, match="audience: a predicate on event is not allowed"):
        segment_credited(shop, audience=event("eventType") == "order")


def test_tables_without_users_say_what_is_missing(lent):
    shop = open_tables(lent, interactions="visits", events="orders")
    with pytest.raises(errors.NotSupported, match="where: the project has no table of users; pass users= to"):
        segment_credited(shop, where=user("fields.city") == "Oslo")
    with pytest.raises(errors.NotSupported, match="audience: the project has no table of users"):
        segment_credited(shop, audience=user("fields.city") == "Oslo")
    with pytest.raises(errors.InvalidRequest, match=r"users: the columns _id \(text\) are missing"):
        open_tables(lent, interactions="visits", events="orders", users="people")


def test_what_is_declared_and_has_no_data_has_no_conversions(shop):
    """A type without events, and a state and a statistic that no event has reached yet."""
    worth = {"entity": "event", "storageKey": "worth", "type": "currency"}
    won = {"entity": "event", "storageKey": "won", "type": "state"}
    at.create_event_type(shop, "quote", name="Quote", fields=[worth, won])
    usual = at.attribute(at.conversion_paths(shop, event_type="order", level="channel"), "linear")
    for asked in (
        {"event_type": "quote"},
        {"event_type": "quote", "state": "won"},
        {"event_type": "quote", "milestones": {"won": "won"}},
        {"event_type": "quote", "statistic": "worth", "adjustments": ["event-count"]},
        {"event_type": "order", "since": "2001-01-01", "until": "2001-12-31"},
        {"event_type": "order", "audience": user("eventCount") > 1_000},
    ):
        paths = at.conversion_paths(shop, level="channel", **asked)
        assert paths.conversions.count().to_pyarrow().as_py() == 0, asked
        credits = at.attribute(paths, "linear")
        assert credits["conversions"].sum() == 0, asked
        pd.testing.assert_series_equal(credits.dtypes, usual.dtypes)
    both = at.conversion_paths(shop, event_type=["order", "quote"], statistic="worth")
    assert both.conversions.count().to_pyarrow().as_py() > 0
    with pytest.raises(errors.InvalidRequest, match="state: 'wan' is not allowed .did you mean 'won'"):
        at.conversion_paths(shop, event_type="quote", state="wan")
    with pytest.raises(
        errors.InvalidRequest, match=r"there are no events of the type 'qoute' \(did you mean 'quote'"
    ):
        at.conversion_paths(shop, event_type="qoute")
