"""Conversions of a project: windows, states, refunds, currencies, spend and periods, on the shop of conftest."""

import pandas as pd
import pytest

from attrib_ds import (
    attribute,
    connect,
    conversion_paths,
    credit_series,
    errors,
    list_user_events,
    load,
    update_statistics,
)
from attrib_ds.api.admin import set_rates

ORDER = {"event_type": "order", "statistic": "turnover"}
ANNA, BEN, CARL = (f"{number:024x}" for number in (10, 11, 12))
FIRST_ORDER = "00000000-0000-7000-8000-000000000001"


def credited(paths, column="conversions", model="linear"):
    rows = attribute(paths, model)
    ids = [None if pd.isna(each) else each for each in rows["node_id"]]
    return dict(zip(ids, rows[column], strict=True))


@pytest.mark.slow
def test_offline_interactions_may_count_longer(shop):
    # Carl's letter came 70 days before his order; all else is online.
    longer = conversion_paths(shop, event_type="order", lookback={"session": "2D", "offline": "90D"})
    assert credited(longer) == {"direct": 1.0, "letter": 1.0, None: 1.0}
    shorter = conversion_paths(shop, event_type="order", lookback={"default": "30D", "offline": "7D"})
    assert credited(shorter) == credited(conversion_paths(shop, event_type="order"))


@pytest.mark.slow
def test_the_lookback_of_a_node_is_that_of_what_is_below_it(shop):
    paths = conversion_paths(shop, event_type="order", lookback="1D", node_lookbacks={"ads": "30D"})
    assert credited(paths) == {"shoes": 1.0, "boots": 1.0, None: 1.0}
    # The nearest one counts, and credit may go to an ancestor all the same.
    nearest = {"ads": "30D", "shoes": "1D"}
    paths = conversion_paths(
        shop, event_type="order", lookback="2D", node_lookbacks=nearest, level="campaign"
    )
    counts = {node: count for node, count in credited(paths).items() if count}
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
    assert credited(conversion_paths(shop, event_type="order"))["letter"] == pytest.approx(1 / 3 + 1 / 2)
    paths = conversion_paths(
        shop, event_type="order", precedence=("session", "offline"), lookback={"default": "90D"}
    )
    # Ben's call gives way to his visit; Carl has nothing but a letter.
    assert credited(paths)["letter"] == pytest.approx(1 / 3 + 1)


@pytest.mark.slow
def test_events_of_any_type_or_of_the_same_one_reset(shop):
    # Anna's lead on the 6th came before her order.
    assert credited(conversion_paths(shop, event_type="order", reset="same"))["shoes"] == pytest.approx(1 / 3)
    after_lead = conversion_paths(shop, event_type="order", reset="any")
    assert credited(after_lead) == {"direct": 1.0, "boots": 1.0, None: 1.0}
    again = pd.DataFrame({"userId": [ANNA], "eventType": ["order"], "eventDate": ["2025-01-12T10:00:00Z"]})
    load(shop, events=again)
    # The order of the 10th is before the period, and has taken its path all the same.
    late = {"event_type": "order", "since": "2025-01-11T00:00:00Z"}
    assert credited(conversion_paths(shop, **late))["shoes"] == pytest.approx(1 / 3)
    assert credited(conversion_paths(shop, **late, reset="same")) == {None: 1.0}


@pytest.mark.slow
def test_windows_and_periods_may_end_at_the_state(shop):
    lead = {"event_type": "lead", "state": "qualified"}
    paths = conversion_paths(shop, **lead, anchor="state", lookback="5D")
    # Qualified on the 7th at 10: the visit of the 1st is too old then, and was not on the 6th.
    assert credited(paths) == {"letter": 1.0}
    assert credited(conversion_paths(shop, **lead, lookback="6D")) == {"shoes": 0.5, "letter": 0.5}
    assert credited(conversion_paths(shop, **lead, until="2025-01-06T23:00:00Z")) != {}
    assert credited(conversion_paths(shop, **lead, until="2025-01-06T23:00:00Z", anchor="state")) == {}
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
    assert credited(paths, "value") == {"shoes": 0.0, "letter": 0.0, "direct": 0.0, "boots": 40.0, None: 20.0}
    assert credited(paths.with_original_values(), "value")["shoes"] == 30.0
    assert credited(paths.with_later_values(), "value")["shoes"] == -30.0
    series = credit_series(paths, "linear", interval="month", date="state")
    of_shoes = series[series["node_id"] == "shoes"]
    assert of_shoes[["month", "conversions", "value"]].to_numpy().tolist() == [
        ["2025-01", pytest.approx(1 / 3), 30.0],
        ["2025-02", 0.0, -10.0],
        ["2025-03", 0.0, -20.0],
    ]


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
    assert credited(conversion_paths(shop, **ORDER, **since), "value") == {"boots": 50.0}
    returned = {"storageKey": "refund", "value": -20.0, "date": "2025-02-01T10:00:00Z"}
    orders = list_user_events(shop, BEN)
    ids = orders.loc[orders["eventDate"] >= "2025-01-11", "_id"]
    update_statistics(shop, pd.DataFrame({"id": ids}).assign(**returned))
    paths = conversion_paths(shop, **ORDER, **since, adjustments=["refund"])
    assert credited(paths, "value") == {"boots": 30.0}
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


@pytest.mark.slow
def test_rates_of_ones_own_go_before_those_of_the_project(abroad):
    set_rates(abroad, pd.DataFrame({"currency": "NOK", "date": ["2025-01-01"], "rate": [0.08]}))
    own = pd.DataFrame({"currency": ["NOK", "EUR"], "date": "2024-01-01", "rate": [0.1, 1.2]})
    paths = conversion_paths(abroad, **ORDER, in_currency="USD", rates=own)
    assert credited(paths, "value")["boots"] == pytest.approx(40 * 1.2 + 10)
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
def test_bad_input_is_refused_by_name(shop, arguments, message):
    with pytest.raises(errors.InvalidRequest, match=message):
        conversion_paths(shop, **({"event_type": "order"} | arguments))
