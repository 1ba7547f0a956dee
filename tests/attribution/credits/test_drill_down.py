"""Drill-down in the node tree, and which models can be rolled up."""

import pandas as pd
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.law_examples import examples

from attrib_ds import Paths, attribute, drill_down, errors, roll_up
from attrib_ds.attribution.models.path_models import Fractribution, Markov
from attrib_ds.attribution.models.rules import Linear, TimeDecay

NODES = pd.DataFrame(
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
    assert conversions(drill_down(CREDITS, NODES)) == {"ads": 4.0, "letter": 1.0, "elsewhere": 1.0}
    assert conversions(drill_down(CREDITS, NODES, "ads")) == {"brand": 3.0, "generic": 1.0}
    # Credit of the node itself is in a row of its own.
    assert conversions(drill_down(CREDITS, NODES, "brand")) == {"shoes": 1.0, "brand": 1.0, "boots": 1.0}
    assert conversions(drill_down(CREDITS, NODES, "shoes")) == {"shoes": 1.0}
    names = drill_down(CREDITS, NODES, "ads").set_index("node_id")["node_name"].to_dict()
    assert names == {"brand": "Brand", "generic": "Generic"}


def test_unattributed_conversions_belong_to_no_branch():
    day = pd.to_datetime(["2025-01-01"], utc=True)
    touchpoints = pd.DataFrame({"user_id": ["u"], "node_id": ["shoes"], "date": day})
    orders = pd.DataFrame({"event_id": ["e", "f"], "user_id": ["u", "v"], "date": [*day, *day]})
    credits = attribute(Paths.from_frames(touchpoints, orders), "linear")
    assert conversions(drill_down(credits, NODES)) == {"ads": 1.0, None: 1.0}
    assert conversions(drill_down(credits, NODES, "ads")) == {"brand": 1.0}


def test_spend_is_summed_and_its_ratios_are_new():
    spend = pd.DataFrame({"node_id": ["shoes", "boots"], "spend": [1.0, 3.0]})
    paths = paths_of(("shoes boots", 2, 0)).with_spend(spend)
    row = drill_down(attribute(paths, "linear"), NODES, "ads").iloc[0]
    assert (row["spend"], row["conversions"], row["cpa"]) == (4.0, 2.0, 2.0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((CREDITS, NODES, "brnd"), "node_id: 'brnd' is not allowed.*did you mean 'brand'"),
        ((CREDITS, NODES.drop(columns="parentId")), "nodes: no column 'parentId'"),
        ((CREDITS.drop(columns="node_id"), NODES), "credits: no column 'node_id'"),
        ((CREDITS, "nodes"), "nodes: must be a DataFrame, got str"),
    ],
)
def test_bad_input_is_refused_by_name(arguments, message):
    with pytest.raises(errors.InvalidRequest, match=message):
        drill_down(*arguments)


def test_a_tree_with_a_loop_terminates():
    loop = NODES.assign(parentId=["brand", "ads", "brand", "brand", "ads", None])
    assert conversions(drill_down(CREDITS, loop))["letter"] == 1.0


steps = st.lists(st.sampled_from(["shoes", "boots", "brand", "generic", "letter"]), min_size=1, max_size=6)
journeys = st.lists(st.tuples(steps.map(" ".join), st.integers(1, 9), st.integers(0, 9)), max_size=5)
COMMUTING = ["first_touch", "last_touch", "linear", "linear_ramp", "position_based", "j_shaped"]


@pytest.mark.slow
@settings(max_examples=examples(25), deadline=None)
@given(journeys)
@example([])
@example([("shoes", 1, 0)])
@example([("shoes boots", 1, 0), ("boots shoes", 1, 0)])
@example([("shoes letter boots", 3, 0), ("shoes shoes", 2, 1)])
def test_rules_that_ignore_nodes_can_be_rolled_up(rows):
    rolled = roll_up(attribute(paths_of(*rows), COMMUTING), NODES, "campaign")
    direct = attribute(paths_of(*rows, at=AT_CAMPAIGN), COMMUTING)
    for model in COMMUTING:
        left, right = (conversions(each[each["model"] == model]) for each in (rolled, direct))
        assert left == pytest.approx(right)


@settings(max_examples=examples(15), deadline=None)
@given(journeys.filter(bool))
@example([("shoes boots letter", 3, 1), ("generic", 1, 0)])
def test_drilling_down_and_summing_gives_the_whole(rows):
    credits = attribute(paths_of(*rows), "linear")
    whole = drill_down(credits, NODES)
    assert whole["conversions"].sum() == pytest.approx(credits["conversions"].sum())
    tops = conversions(whole)
    for top in set(tops) & {"ads"}:
        assert drill_down(credits, NODES, top)["conversions"].sum() == pytest.approx(tops[top])


def test_time_decay_can_be_rolled_up():
    dates = pd.to_datetime(["2025-01-01", "2025-01-08", "2025-01-08"], utc=True)
    touchpoints = pd.DataFrame({"user_id": "u", "node_id": ["shoes", "boots", "letter"], "date": dates})
    order = pd.DataFrame({"event_id": ["e"], "user_id": ["u"], "date": dates[-1:]})
    at_campaign = touchpoints.assign(node_id=touchpoints["node_id"].replace(AT_CAMPAIGN))
    rolled = roll_up(attribute(Paths.from_frames(touchpoints, order), TimeDecay()), NODES, "campaign")
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


@pytest.mark.parametrize("model", COUNTEREXAMPLES)
def test_models_that_compare_nodes_cannot_be_rolled_up(model):
    rows, rolled, direct = COUNTEREXAMPLES[model]
    found = roll_up(attribute(paths_of(*rows), model), NODES, "campaign")
    assert conversions(found)["brand"] == pytest.approx(rolled)
    at_campaign = attribute(paths_of(*rows, at=AT_CAMPAIGN), model)
    assert conversions(at_campaign)["brand"] == pytest.approx(direct)


def test_fractribution_cannot_be_rolled_up():
    # "shoes > letter" converts 2 of 2. Without shoes "letter" converts 1 of 2 (a loss of 1/2), without the
    # letter "shoes" converts 0 of 1 (a loss of 1): shoes have 1/3 of the 2 conversions.
    rows = [("shoes letter", 2, 0), ("letter", 1, 1), ("shoes", 0, 1), ("boots", 3, 0)]
    rolled = roll_up(attribute(paths_of(*rows), Fractribution()), NODES, "campaign")
    assert conversions(rolled)["brand"] == pytest.approx(2 / 3 + 3)
    # At the campaign "brand" converts 3 of 4: without the letter only 1/4 is lost, so the brand has 2/3.
    direct = attribute(paths_of(*rows, at=AT_CAMPAIGN), Fractribution())
    assert conversions(direct)["brand"] == pytest.approx(4 / 3 + 3)


def test_conversion_rate_shapley_cannot_be_rolled_up():
    # In {shoes, letter} (rate 1) shoes (rate 0) and the letter (rate 1/2) have 1/4 and 3/4 of 2 conversions.
    rows = [("shoes letter", 2, 0), ("letter", 1, 1), ("shoes", 0, 1), ("boots", 3, 0)]
    rolled = roll_up(attribute(paths_of(*rows), "conversion_rate_shapley"), NODES, "campaign")
    assert conversions(rolled)["brand"] == pytest.approx(2 / 4 + 3)
    # The brand has a rate of 3/4: (3/4 + 1/2) / 2 = 5/8 of them.
    direct = attribute(paths_of(*rows, at=AT_CAMPAIGN), "conversion_rate_shapley")
    assert conversions(direct)["brand"] == pytest.approx(2 * 5 / 8 + 3)


def test_a_transform_that_collapses_cannot_be_rolled_up():
    # Unlike "shoes > boots", "brand > brand" is one step: as likely to be the last one as the letter.
    rows = [("letter shoes boots", 4, 0), ("letter", 0, 4)]
    exposure = Markov(transform="exposure")
    rolled = roll_up(attribute(paths_of(*rows), exposure), NODES, "campaign")
    direct = attribute(paths_of(*rows, at=AT_CAMPAIGN), exposure)
    assert conversions(rolled)["brand"] == pytest.approx(8 / 3)
    assert conversions(direct)["brand"] == pytest.approx(2.0)


def test_linear_over_repeated_nodes_can_be_rolled_up():
    rows = [("shoes shoes letter", 3, 0)]
    rolled = roll_up(attribute(paths_of(*rows), Linear()), NODES, "campaign")
    assert conversions(rolled) == pytest.approx({"brand": 2.0, "letter": 1.0})
