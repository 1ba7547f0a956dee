"""Cost and return, models side by side, and roll-up."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.law_examples import examples

from attrib_ds import Paths, attribute, compare_models, drill_down, errors, report_returns, roll_up
from attrib_ds.attribution.models import Fractribution, Linear, Markov, TimeDecay
from attrib_ds.records.frames import TEXT


def credits_of(*rows):
    frame = pd.DataFrame(rows, columns=["model", "node_id", "conversions", "value", "currency"])
    frame["share"] = frame["conversions"] / frame.groupby("model")["conversions"].transform("sum")
    text = dict.fromkeys(["model", "node_id", "currency"], TEXT)
    return frame.assign(node_name=frame["node_id"]).astype(text)


def spend_of(*rows):
    return pd.DataFrame(rows, columns=["node_id", "spend", "currency"])


def table(frame, *columns):
    shown = frame[list(columns)].astype(object)
    return shown.where(shown.notna(), None).to_numpy().tolist()


def test_cost_per_conversion_and_return():
    credits = credits_of(("linear", "search", 4.0, 90.0, "EUR"), ("linear", None, 1.0, 10.0, "EUR"))
    report = report_returns(credits, spend_of(("search", 20.0, "EUR"), ("search", 10.0, "EUR")))
    assert table(report, "node_id", "spend", "cpa", "roas") == [
        ["search", 30.0, 7.5, 3.0],
        [None, None, None, None],
    ]


def test_bounds_of_cost_and_return_follow_from_those_of_the_credit():
    credits = credits_of(("linear", "search", 4.0, 90.0, "EUR"), ("linear", "email", 1.0, 10.0, "EUR"))
    bounds = {"low": [2.0, 0.0], "high": [6.0, 3.0], "value_low": [60.0, -5.0], "value_high": [120.0, 25.0]}
    credits = credits.assign(**bounds, share_low=0.0, share_high=1.0)
    spend = spend_of(("search", 30.0, "EUR"), ("email", 6.0, "EUR"), ("tv", 5.0, "EUR"))
    report = report_returns(credits, spend)
    columns = ["node_id", "cpa", "cpa_low", "cpa_high", "roas", "roas_low", "roas_high"]
    assert table(report, *columns) == [
        ["search", 7.5, 5.0, 15.0, 3.0, 2.0, 4.0],
        ["email", 6.0, 2.0, np.inf, 10 / 6, -5 / 6, 25 / 6],
        # No credited conversions: infinite cost per conversion, and no return.
        ["tv", None, np.inf, np.inf, 0.0, 0.0, 0.0],
    ]
    tv = report.set_index("node_id").loc["tv"]
    assert tv[["low", "high", "value_low", "value_high", "share_low", "share_high"]].tolist() == [0.0] * 6
    # A second call replaces the columns of the first.
    pd.testing.assert_frame_equal(report_returns(report[report["node_id"] != "tv"].iloc[:2], spend), report)


def test_a_model_without_intervals_has_no_bounds_for_nodes_without_credit():
    credits = credits_of(("known", "search", 4.0, 90.0, "EUR"), ("unknown", "search", 4.0, 90.0, "EUR"))
    credits = credits.assign(
        low=[2.0, None], high=[6.0, None], value_low=[60.0, None], value_high=[99.0, None]
    )
    report = report_returns(credits, spend_of(("tv", 5.0, "EUR")))
    columns = ["model", "low", "value_high", "cpa_high", "roas_low", "roas_high"]
    assert table(report[report["node_id"] == "tv"], *columns) == [
        ["known", 0.0, 0.0, np.inf, 0.0, 0.0],
        ["unknown", None, None, None, None, None],
    ]


def test_without_spend_or_currency_there_are_no_bounds():
    credits = credits_of(("linear", "search", 4.0, 4.0, None), ("linear", "email", 4.0, 4.0, None))
    credits = credits.assign(low=0.0, high=9.0, value_low=1.0, value_high=9.0)
    report = report_returns(credits, spend_of(("search", 18.0, "EUR"), ("email", 0.0, "EUR")))
    report = report.set_index("node_id")
    assert table(report.loc[["search"]], "cpa_low", "cpa_high", "roas_low") == [[2.0, np.inf, None]]
    assert table(report.loc[["email"]], "cpa_low", "cpa_high", "roas_high") == [[None, None, None]]


def test_the_order_of_columns_with_intervals_and_spend():
    frame = pd.DataFrame({"path": ["a > b"], "n": [6], "v": [60.0]})
    paths = Paths.from_sequences(frame, path="path", conversions="n", value="v")
    first = ["model", "node_id", "node_name", "conversions", "value", "currency", "share"]
    last = ["value_low", "value_high", "share_low", "share_high"]
    spend = spend_of(("a", 6.0, None))[["node_id", "spend"]]
    assert list(attribute(paths, "linear", confidence=0.9).columns) == [*first, "low", "high", *last]
    credits = attribute(paths, "linear", confidence=0.9, spend=spend)
    ratios = ["spend", "cpa", "roas", "cpa_low", "cpa_high", "roas_low", "roas_high"]
    assert list(credits.columns) == [*first, "low", "high", *ratios, *last]
    row = credits.set_index("node_id").loc["a"]
    assert row["cpa_low"] == pytest.approx(6 / row["high"])
    assert row["roas_high"] == pytest.approx(row["value_high"] / 6)


def test_spend_without_credit_and_credit_without_spend_are_both_kept():
    credits = credits_of(("linear", "search", 4.0, 90.0, "EUR"), ("first", "search", 4.0, 90.0, "EUR"))
    report = report_returns(credits, spend_of(("tv", 50.0, "EUR")))
    assert table(report, "model", "node_id", "conversions", "value", "spend", "cpa", "roas") == [
        ["linear", "search", 4.0, 90.0, None, None, None],
        ["linear", "tv", 0.0, 0.0, 50.0, None, 0.0],
        ["first", "search", 4.0, 90.0, None, None, None],
        ["first", "tv", 0.0, 0.0, 50.0, None, 0.0],
    ]


def test_no_spend_gives_no_ratio():
    credits = credits_of(("linear", "search", 4.0, 90.0, "EUR"))
    report = report_returns(credits, spend_of(("search", 0.0, "EUR")))
    assert table(report, "spend", "cpa", "roas") == [[0.0, None, None]]


def test_spend_is_joined_within_its_currency():
    credits = credits_of(("linear", "search", 4.0, 90.0, "EUR"), ("linear", "search", 1.0, 10.0, "CHF"))
    report = report_returns(credits, spend_of(("search", 30.0, "EUR")))
    assert table(report, "currency", "spend", "roas") == [["EUR", 30.0, 3.0], ["CHF", None, None]]


def test_values_of_unknown_currency_are_not_labelled_with_that_of_the_spend():
    credits = credits_of(("linear", "search", 4.0, 90.0, None))
    advice = (
        "the column 'value' cannot be compared with 'spend': values have no currency, and other amounts are in "
        'EUR. .* pass currency="EUR" where they are read'
    )
    with pytest.warns(errors.UnknownCurrency, match=advice) as caught:
        report = report_returns(credits, spend_of(("search", 30.0, "EUR"), ("tv", 5.0, "EUR")))
    assert caught[0].filename == __file__
    assert table(report, "node_id", "value", "currency", "spend", "cpa", "roas") == [
        ["search", 90.0, None, 30.0, 7.5, None],
        ["tv", 0.0, None, 5.0, None, None],
    ]


def test_spend_has_a_currency_in_every_row_or_in_none():
    credits = credits_of(("linear", "search", 4.0, 90.0, "EUR"))
    with pytest.raises(errors.InvalidRequest, match="'currency' is missing in row 1; allowed: a currency in"):
        report_returns(credits, spend_of(("search", 30.0, "EUR"), ("tv", 5.0, None)))


def test_numbers_of_conversions_take_the_currency_of_the_spend_without_a_return():
    credits = credits_of(("linear", "search", 4.0, 4.0, None))
    report = report_returns(credits, spend_of(("search", 30.0, "EUR")))
    assert table(report, "currency", "cpa", "roas") == [["EUR", 7.5, None]]
    with pytest.raises(
        errors.InvalidRequest, match="spend: has CHF, EUR, but .* no currency; allowed: spend in one currency"
    ):
        report_returns(credits, spend_of(("search", 30.0, "EUR"), ("tv", 1.0, "CHF")))


def test_conversions_without_a_currency_get_no_spend_if_others_have_one():
    credits = credits_of(("linear", "search", 4.0, 90.0, "EUR"), ("linear", "search", 1.0, 10.0, None))
    expected = [["EUR", 20.0, 5.0, 4.5], [None, None, None, None]]
    for spend in (spend_of(("search", 20.0, "EUR")), spend_of(("search", 20.0, None))):
        with pytest.warns(errors.UnknownCurrency, match="some values have no currency, .* in EUR"):
            report = report_returns(credits, spend)
        assert table(report, "currency", "spend", "cpa", "roas") == expected


def test_without_any_currency_all_amounts_are_in_the_same_one():
    credits = credits_of(("linear", "search", 4.0, 90.0, None))
    report = report_returns(credits, spend_of(("search", 30.0, None))[["node_id", "spend"]])
    assert table(report, "currency", "cpa", "roas") == [[None, 7.5, 3.0]]


def test_spend_without_a_currency_takes_the_only_currency_of_the_conversions():
    credits = credits_of(("linear", "search", 4.0, 90.0, "EUR"))
    bare = spend_of(("search", 30.0, None))[["node_id", "spend"]]
    assert table(report_returns(credits, bare), "currency", "roas") == [["EUR", 3.0]]
    two = credits_of(("linear", "search", 4.0, 90.0, "EUR"), ("linear", "search", 1.0, 1.0, "CHF"))
    with pytest.raises(
        errors.InvalidRequest,
        match="spend: has no currency, but values are in CHF, EUR; add the column 'currency'",
    ):
        report_returns(two, bare)


@pytest.mark.parametrize(
    ("spend", "message"),
    [
        (spend_of(("search", -1.0, "EUR")), "-1.0 in row 0; allowed: 0 or more"),
        (spend_of(("search", np.nan, "EUR")), "nan in row 0"),
        (spend_of(("search", np.inf, "EUR")), "inf in row 0"),
        (spend_of((None, 1.0, "EUR")), "'node_id' has missing values"),
        (spend_of(("search", 1.0, "EUR")).drop(columns="spend"), "no column 'spend'"),
        ([1, 2], "must be a DataFrame, got list"),
    ],
)
def test_bad_spend_is_refused(spend, message):
    with pytest.raises(errors.InvalidRequest, match=message):
        report_returns(credits_of(("linear", "search", 4.0, 90.0, "EUR")), spend)


def test_bad_spend_is_shown_as_it_was_given():
    with pytest.raises(errors.InvalidRequest, match="'spend' is 'ten' in row 1"):
        report_returns(
            credits_of(("linear", "a", 1.0, 1.0, "EUR")), spend_of(("a", "5", "EUR"), ("b", "ten", "EUR"))
        )


def test_credits_that_cannot_be_compared_are_refused():
    credits = credits_of(("linear", "search", 4.0, 90.0, "EUR"))
    with pytest.raises(errors.InvalidRequest, match="credits: model 'linear' has two rows for node 'search'"):
        compare_models(pd.concat([credits, credits]))
    for label in ("spread", "node_id"):
        with pytest.raises(
            errors.InvalidRequest, match=f"credits: the model label '{label}' is the name of a result column"
        ):
            compare_models(credits.assign(model=label))


def test_models_side_by_side():
    paths = Paths.from_sequences(
        pd.DataFrame({"path": ["a > b > c"], "n": [6]}), path="path", conversions="n"
    )
    compared = compare_models(attribute(paths, ["first_touch", "linear"]))
    assert table(compared, "node_id", "first_touch", "linear", "spread") == [
        ["a", 6.0, 2.0, 4.0],
        ["b", 0.0, 2.0, 2.0],
        ["c", 0.0, 2.0, 2.0],
    ]
    credits = attribute(paths, ["first_touch", "linear"])
    by_share = compare_models(credits, by="share")
    assert by_share["spread"].tolist() == pytest.approx([2 / 3, 1 / 3, 1 / 3])
    # A model without a row for a node credits it with 0; unknown values stay null.
    without = credits[(credits["model"] == "linear") | (credits["node_id"] == "a")]
    assert table(compare_models(without), "node_id", "first_touch", "spread")[1:] == [
        ["b", 0.0, 2.0],
        ["c", 0.0, 2.0],
    ]
    assert compare_models(credits, by="value")["linear"].isna().all()
    with pytest.raises(errors.InvalidRequest, match="by: 'shares' is not allowed.*did you mean 'share'"):
        compare_models(attribute(paths, "linear"), by="shares")


NODES = pd.DataFrame(
    [
        ("google", None, "integration", "Google"),
        ("brand", "google", "campaign", "Brand"),
        ("shoes", "brand", "adset", "Shoes"),
        ("boots", "brand", "adset", "Boots"),
        ("direct", None, "channel", "Direct"),
    ],
    columns=["_id", "parentId", "type", "name"],
)


def test_roll_up_sums_into_the_ancestor_of_a_type():
    credits = credits_of(
        ("linear", "shoes", 4.0, 40.0, "EUR"),
        ("linear", "boots", 1.0, 20.0, "EUR"),
        ("linear", "direct", 3.0, 30.0, "EUR"),
        ("linear", None, 2.0, 10.0, "EUR"),
    )
    rolled = roll_up(credits, NODES, "campaign")
    assert table(rolled, "node_id", "node_name", "conversions", "value", "share") == [
        ["brand", "Brand", 5.0, 60.0, 0.5],
        ["direct", "Direct", 3.0, 30.0, 0.3],
        [None, "unattributed", 2.0, 10.0, 0.2],
    ]
    assert table(roll_up(credits, NODES, "integration"), "node_id")[0] == ["google"]


def test_roll_up_recomputes_ratios_and_leaves_bounds_out():
    credits = credits_of(("linear", "shoes", 4.0, 40.0, "EUR"), ("linear", "boots", 1.0, 20.0, "EUR"))
    bounds = dict.fromkeys(["low", "high", "value_low", "value_high", "share_low", "share_high"], 1.0)
    credits = report_returns(
        credits.assign(**bounds), spend_of(("shoes", 10.0, "EUR"), ("boots", 5.0, "EUR"))
    )
    rolled = roll_up(credits, NODES, "campaign")
    assert table(rolled, "spend", "cpa", "roas") == [[15.0, 3.0, 4.0]]
    assert not [name for name in rolled.columns if name.endswith(("low", "high"))]


@pytest.mark.parametrize(
    ("ids", "parents"), [([1, 2, 3], [None, 1, 1]), ([1, 2, 3], pd.array([None, 1, 1], dtype="Int64"))]
)
def test_node_ids_may_be_numbers(ids, parents):
    nodes = pd.DataFrame(
        {"_id": ids, "parentId": parents, "type": ["campaign", "adset", "adset"], "name": ["A", None, "C"]}
    )
    credits = credits_of(("linear", "2", 4.0, 90.0, "EUR"), ("linear", "3", 1.0, 10.0, "EUR"))
    assert table(roll_up(credits, nodes, "campaign"), "node_id", "node_name", "conversions") == [
        ["1", "A", 5.0]
    ]
    # A node without a name is shown by its id.
    assert table(roll_up(credits, nodes, "keyword"), "node_id", "node_name") == [["2", "2"], ["3", "C"]]


def test_roll_up_refuses_an_unknown_level():
    with pytest.raises(
        errors.InvalidRequest, match="level: 'campain' is not allowed.*did you mean 'campaign'"
    ):
        roll_up(credits_of(("linear", "shoes", 4.0, 40.0, "EUR")), NODES, "campain")


def test_the_level_channel_sums_by_the_channel_of_each_node():
    nodes = NODES.assign(channel=["Paid Search", "Paid Search", "Paid Search", None, "Direct"])
    credits = credits_of(("linear", "shoes", 4.0, 40.0, "EUR"), ("linear", "direct", 3.0, 30.0, "EUR"))
    assert table(roll_up(credits, nodes, "channel"), "node_id", "conversions") == [
        ["Paid Search", 4.0],
        ["Direct", 3.0],
    ]


# Drill-down in the node tree, and which models can be rolled up.

NODES_DRILL_DOWN = pd.DataFrame(
    [
        ("ads", None, "integration", "Ads"),
        ("brand", "ads", "campaign", "Brand"),
        ("shoes", "brand", "adset", "Shoes"),
        ("boots", "brand", "adset", "Boots"),
        ("generic", "ads", "campaign", "Generic"),
        ("letter", None, "campaign", "Newsletter"),
    ],
    columns=["_id", "parentId", "type", "name"],
)
AT_CAMPAIGN = {"shoes": "brand", "boots": "brand"}


def paths_of(*rows, at=None):
    """Make aggregated paths of (nodes in order, conversions, null paths)."""
    credited = at or {}
    texts = [" > ".join(credited.get(node, node) for node in row[0].split()) for row in rows]
    frame = pd.DataFrame({"path": texts, "n": [row[1] for row in rows], "lost": [row[2] for row in rows]})
    return Paths.from_sequences(frame, path="path", conversions="n", nulls="lost")


def conversions(credits):
    ids = [None if pd.isna(each) else each for each in credits["node_id"]]
    return dict(zip(ids, credits["conversions"], strict=True))


CREDITS = attribute(paths_of(("shoes brand boots letter", 4, 0), ("generic elsewhere", 2, 0)), "linear")


def test_the_credit_of_a_node_is_divided_among_its_children():
    assert conversions(drill_down(CREDITS, NODES_DRILL_DOWN)) == {"ads": 4.0, "letter": 1.0, "elsewhere": 1.0}
    assert conversions(drill_down(CREDITS, NODES_DRILL_DOWN, "ads")) == {"brand": 3.0, "generic": 1.0}
    # Credit of the node itself is in a row of its own.
    assert conversions(drill_down(CREDITS, NODES_DRILL_DOWN, "brand")) == {
        "shoes": 1.0,
        "brand": 1.0,
        "boots": 1.0,
    }
    assert conversions(drill_down(CREDITS, NODES_DRILL_DOWN, "shoes")) == {"shoes": 1.0}
    names = drill_down(CREDITS, NODES_DRILL_DOWN, "ads").set_index("node_id")["node_name"].to_dict()
    assert names == {"brand": "Brand", "generic": "Generic"}


def test_unattributed_conversions_belong_to_no_branch():
    day = pd.to_datetime(["2025-01-01"], utc=True)
    touchpoints = pd.DataFrame({"user_id": ["u"], "node_id": ["shoes"], "date": day})
    orders = pd.DataFrame({"event_id": ["e", "f"], "user_id": ["u", "v"], "date": [*day, *day]})
    credits = attribute(Paths.from_frames(touchpoints, orders), "linear")
    assert conversions(drill_down(credits, NODES_DRILL_DOWN)) == {"ads": 1.0, None: 1.0}
    assert conversions(drill_down(credits, NODES_DRILL_DOWN, "ads")) == {"brand": 1.0}


def test_spend_is_summed_and_its_ratios_are_new():
    spend = pd.DataFrame({"node_id": ["shoes", "boots"], "spend": [1.0, 3.0]})
    paths = paths_of(("shoes boots", 2, 0)).with_spend(spend)
    row = drill_down(attribute(paths, "linear"), NODES_DRILL_DOWN, "ads").iloc[0]
    assert (row["spend"], row["conversions"], row["cpa"]) == (4.0, 2.0, 2.0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((CREDITS, NODES_DRILL_DOWN, "brnd"), "node_id: 'brnd' is not allowed.*did you mean 'brand'"),
        ((CREDITS, NODES_DRILL_DOWN.drop(columns="parentId")), "nodes: no column 'parentId'"),
        ((CREDITS.drop(columns="node_id"), NODES_DRILL_DOWN), "credits: no column 'node_id'"),
        ((CREDITS, "nodes"), "nodes: must be a DataFrame, got str"),
    ],
)
def test_bad_input_is_refused_by_name(arguments, message):
    with pytest.raises(errors.InvalidRequest, match=message):
        drill_down(*arguments)


def test_a_tree_with_a_loop_terminates():
    loop = NODES_DRILL_DOWN.assign(parentId=["brand", "ads", "brand", "brand", "ads", None])
    assert conversions(drill_down(CREDITS, loop))["letter"] == 1.0


steps = st.lists(st.sampled_from(["shoes", "boots", "brand", "generic", "letter"]), min_size=1, max_size=6)
journeys = st.lists(st.tuples(steps.map(" ".join), st.integers(1, 9), st.integers(0, 9)), max_size=5)
COMMUTING = ["first_touch", "last_touch", "linear", "linear_ramp", "position_based", "j_shaped"]


@pytest.mark.large
@pytest.mark.slow
@settings(max_examples=examples(25))
@given(journeys)
@example([])
@example([("shoes", 1, 0)])
@example([("shoes boots", 1, 0), ("boots shoes", 1, 0)])
@example([("shoes letter boots", 3, 0), ("shoes shoes", 2, 1)])
def test_rules_that_ignore_nodes_can_be_rolled_up(rows):
    rolled = roll_up(attribute(paths_of(*rows), COMMUTING), NODES_DRILL_DOWN, "campaign")
    direct = attribute(paths_of(*rows, at=AT_CAMPAIGN), COMMUTING)
    for model in COMMUTING:
        left, right = (conversions(each[each["model"] == model]) for each in (rolled, direct))
        assert left == pytest.approx(right)


@settings(max_examples=examples(15))
@given(journeys.filter(bool))
@example([("shoes boots letter", 3, 1), ("generic", 1, 0)])
def test_drilling_down_and_summing_gives_the_whole(rows):
    credits = attribute(paths_of(*rows), "linear")
    whole = drill_down(credits, NODES_DRILL_DOWN)
    assert whole["conversions"].sum() == pytest.approx(credits["conversions"].sum())
    tops = conversions(whole)
    for top in set(tops) & {"ads"}:
        assert drill_down(credits, NODES_DRILL_DOWN, top)["conversions"].sum() == pytest.approx(tops[top])


def test_time_decay_can_be_rolled_up():
    dates = pd.to_datetime(["2025-01-01", "2025-01-08", "2025-01-08"], utc=True)
    touchpoints = pd.DataFrame({"user_id": "u", "node_id": ["shoes", "boots", "letter"], "date": dates})
    order = pd.DataFrame({"event_id": ["e"], "user_id": ["u"], "date": dates[-1:]})
    at_campaign = touchpoints.assign(node_id=touchpoints["node_id"].replace(AT_CAMPAIGN))
    rolled = roll_up(
        attribute(Paths.from_frames(touchpoints, order), TimeDecay()), NODES_DRILL_DOWN, "campaign"
    )
    direct = attribute(Paths.from_frames(at_campaign, order), TimeDecay())
    # Weights of 1/2, 1 and 1.
    assert conversions(rolled) == pytest.approx({"brand": 0.6, "letter": 0.4})
    assert conversions(direct) == pytest.approx(conversions(rolled))


#: For each model that cannot be rolled up: paths, rolled-up credit of the campaign, and its direct credit.
COUNTEREXAMPLES = {
    # Two nodes of one campaign are two players of three, the campaign is one of two.
    "shapley": ([("shoes boots letter", 6, 0)], 4.0, 3.0),
    # Removing any of the three nodes loses all conversions.
    "markov": ([("shoes boots letter", 6, 0)], 4.0, 3.0),
    # A node takes part in a conversion once.
    "participation": ([("shoes boots", 6, 0)], 12.0, 6.0),
}


@pytest.mark.slow
@pytest.mark.parametrize("model", COUNTEREXAMPLES)
def test_models_that_compare_nodes_cannot_be_rolled_up(model):
    rows, rolled, direct = COUNTEREXAMPLES[model]
    found = roll_up(attribute(paths_of(*rows), model), NODES_DRILL_DOWN, "campaign")
    assert conversions(found)["brand"] == pytest.approx(rolled)
    at_campaign = attribute(paths_of(*rows, at=AT_CAMPAIGN), model)
    assert conversions(at_campaign)["brand"] == pytest.approx(direct)


@pytest.mark.slow
def test_fractribution_cannot_be_rolled_up():
    # "shoes > letter" converts 2 of 2. Without shoes "letter" converts 1 of 2 (a loss of 1/2), without the
    # letter "shoes" converts 0 of 1 (a loss of 1): shoes have 1/3 of the 2 conversions.
    rows = [("shoes letter", 2, 0), ("letter", 1, 1), ("shoes", 0, 1), ("boots", 3, 0)]
    rolled = roll_up(attribute(paths_of(*rows), Fractribution()), NODES_DRILL_DOWN, "campaign")
    assert conversions(rolled)["brand"] == pytest.approx(2 / 3 + 3)
    # At the campaign "brand" converts 3 of 4: without the letter only 1/4 is lost, so the brand has 2/3.
    direct = attribute(paths_of(*rows, at=AT_CAMPAIGN), Fractribution())
    assert conversions(direct)["brand"] == pytest.approx(4 / 3 + 3)


@pytest.mark.slow
def test_conversion_rate_shapley_cannot_be_rolled_up():
    # In {shoes, letter} (rate 1) shoes (rate 0) and the letter (rate 1/2) have 1/4 and 3/4 of 2 conversions.
    rows = [("shoes letter", 2, 0), ("letter", 1, 1), ("shoes", 0, 1), ("boots", 3, 0)]
    rolled = roll_up(attribute(paths_of(*rows), "conversion_rate_shapley"), NODES_DRILL_DOWN, "campaign")
    assert conversions(rolled)["brand"] == pytest.approx(2 / 4 + 3)
    # The brand has a rate of 3/4: (3/4 + 1/2) / 2 = 5/8 of them.
    direct = attribute(paths_of(*rows, at=AT_CAMPAIGN), "conversion_rate_shapley")
    assert conversions(direct)["brand"] == pytest.approx(2 * 5 / 8 + 3)


def test_a_transform_that_collapses_cannot_be_rolled_up():
    # Unlike "shoes > boots", "brand > brand" is one step: as likely to be the last one as the letter.
    rows = [("letter shoes boots", 4, 0), ("letter", 0, 4)]
    exposure = Markov(transform="exposure")
    rolled = roll_up(attribute(paths_of(*rows), exposure), NODES_DRILL_DOWN, "campaign")
    direct = attribute(paths_of(*rows, at=AT_CAMPAIGN), exposure)
    assert conversions(rolled)["brand"] == pytest.approx(8 / 3)
    assert conversions(direct)["brand"] == pytest.approx(2.0)


def test_linear_over_repeated_nodes_can_be_rolled_up():
    rows = [("shoes shoes letter", 3, 0)]
    rolled = roll_up(attribute(paths_of(*rows), Linear()), NODES_DRILL_DOWN, "campaign")
    assert conversions(rolled) == pytest.approx({"brand": 2.0, "letter": 1.0})
