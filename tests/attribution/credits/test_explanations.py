"""Explanations of credits; the numbers in the sentences are computed by hand."""

import pandas as pd
import pytest
from support.journeys_as_paths import paths_of, users_of

from attrib_ds import Paths, attribute, errors, explain, simulate, touch_credits
from attrib_ds.attribution.credits.explanations import reasons, unattributed_reason
from attrib_ds.attribution.models import (
    ConversionRateShapley,
    CustomWeights,
    DiscreteHazard,
    Fractribution,
    LastNonDirect,
    PositionBased,
    TimeDecay,
    rule_models,
)


@pytest.fixture(scope="module")
def paths():
    touchpoints = pd.DataFrame(
        {
            "user_id": ["u"] * 4,
            "node_id": ["search", "email", "search", "direct"],
            "date": pd.to_datetime(["2025-01-01", "2025-01-05", "2025-01-07", "2025-01-08"], utc=True),
        }
    )
    conversions = pd.DataFrame(
        {
            "event_id": ["e", "alone"],
            "user_id": ["u", "v"],
            "date": pd.to_datetime(["2025-01-09", "2025-01-09"], utc=True),
            "lead": pd.to_datetime(["2025-01-06", None], utc=True),
            "value": [100.0, 5.0],
            "currency": ["EUR", "EUR"],
        }
    )
    return Paths.from_frames(touchpoints, conversions, columns={"milestone.lead": "lead"})


def why(paths, model, event="e"):
    return explain(paths, model, event)["why"].tolist()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ("first_touch", ["first of 4 touchpoints: 100 %", *["not the first: 0 %"] * 3]),
        ("last_touch", [*["not the last: 0 %"] * 3, "last of 4 touchpoints: 100 %"]),
        (
            "last_non_direct",
            [
                *["followed by another non-direct touchpoint: 0 %"] * 2,
                "last non-direct of 4 touchpoints: 100 %",
                "direct: 0 %",
            ],
        ),
        (
            LastNonDirect(direct=("search", "email", "direct")),
            [*["not the last, all direct: 0 %"] * 3, "last of 4 touchpoints, all direct: 100 %"],
        ),
        ("linear", ["one of 4 touchpoints: 25 %"] * 4),
        (
            "linear_ramp",
            [f"touchpoint {place} of 4: weight {place} of 10, {10 * place} %" for place in (1, 2, 3, 4)],
        ),
        (
            # Half-life of four days: 1/4, 1/2, 2 ** -0.5, 2 ** -0.25, in total 2.30.
            TimeDecay("4D"),
            [
                "8.0 days old: weight 0.25 of 2.30, 10.9 %",
                "4.0 days old: weight 0.50 of 2.30, 21.8 %",
                "2.0 days old: weight 0.71 of 2.30, 30.8 %",
                "1.0 days old: weight 0.84 of 2.30, 36.6 %",
            ],
        ),
        (
            # With a half-life of an hour all weights round to 0, so they are shown relative to the last one.
            TimeDecay("1h"),
            [
                "8.0 days old: weight 0.00 against 1.00 of the last touchpoint, 2.67e-49 %",
                "4.0 days old: weight 0.00 against 1.00 of the last touchpoint, 2.12e-20 %",
                "2.0 days old: weight 0.00 against 1.00 of the last touchpoint, 5.96e-06 %",
                "1.0 days old: weight 1.00 against 1.00 of the last touchpoint, 100 %",
            ],
        ),
        (
            "position_based",
            [
                "first of 4 touchpoints: 40 %",
                "neither first nor last of 4 touchpoints: 10 %",
                "neither first nor last of 4 touchpoints: 10 %",
                "last of 4 touchpoints: 40 %",
            ],
        ),
        (
            PositionBased(first=0.3, last=0.3, milestones={"lead": 0.3}),
            [
                "first of 4 touchpoints: 30 %",
                "last before 'lead' of 4 touchpoints: 30 %",
                "without a role of 4 touchpoints: 10 %",
                "last of 4 touchpoints: 30 %",
            ],
        ),
        (
            "participation",
            [
                "search took part: 100 %",
                "email took part: 100 %",
                "search already took part at touchpoint 1: 0 %",
                "direct took part: 100 %",
            ],
        ),
        (
            CustomWeights(lambda touch: touch.position, label="later is better"),
            [f"weight by later is better: {10 * place} %" for place in (1, 2, 3, 4)],
        ),
        (
            "shapley",
            [
                "one of 3 nodes: 33.3 %, divided among its 2 touchpoints",
                "one of 3 nodes: 33.3 %",
                "one of 3 nodes: 33.3 %, divided among its 2 touchpoints",
                "one of 3 nodes: 33.3 %",
            ],
        ),
    ],
)
def test_reasons_of_rules(paths, model, expected):
    assert why(paths, model) == expected


@pytest.mark.slow
def test_reasons_of_models_that_compare_rates():
    # Conversion rates: ab 4 of 8, b 0 of 4, a 1 of 4.
    journeys = users_of([("ab", 4, 4.0, 4), ("b", 0, 0.0, 4), ("a", 1, 1.0, 3)])
    assert why(journeys, Fractribution(), "event 0-0") == [
        "users with this path convert at 50 %, without this touchpoint at 0 %: 50 of 75 percentage points lost",
        "users with this path convert at 50 %, without this touchpoint at 25 %: 25 of 75 percentage points lost",
    ]
    assert why(journeys, ConversionRateShapley(), "event 0-0") == [
        "users with these nodes convert at 50 %, of which a contributes 37.5 percentage points: 75 %",
        "users with these nodes convert at 50 %, of which b contributes 12.5 percentage points: 25 %",
    ]


@pytest.mark.slow
def test_reasons_of_touchpoints_left_out_by_a_transform_or_without_effect():
    journeys = users_of([("aab", 1, 1.0, 1), ("ab", 1, 1.0, 1), ("a", 2, 2.0, 0), ("b", 2, 2.0, 0)])
    assert why(journeys, Fractribution(transform="first"), "event 0-0") == [
        "no touchpoint raises the conversion rate, and this is not the last one: 0 %",
        "left out of the path (transform 'first'): 0 %",
        "no touchpoint raises the conversion rate, and this is the last one: 100 %",
    ]
    assert why(journeys, Fractribution(steps=1), "event 0-0")[0] == (
        "left out of the path (last 1 touchpoint only): 0 %"
    )


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"transform": "exposure"}, "transform 'exposure'"),
        ({"steps": 2}, "last 2 touchpoints only"),
        ({"remove_if_not_all": ["direct"]}, "without direct unless alone"),
        ({"remove_if_last_and_not_all": ["direct"]}, "without direct at the end unless alone"),
        (
            {"steps": 3, "remove_if_not_all": ["direct", "mail"]},
            "last 3 touchpoints only, without direct unless alone, without mail unless alone",
        ),
    ],
)
def test_a_touchpoint_is_left_out_for_the_settings_of_the_model(settings, reason):
    rows = pd.DataFrame({"rate": [float("nan")], "rate_without": [float("nan")], "weight": [0.0]})
    assert reasons(Fractribution(**settings), rows) == [f"left out of the path ({reason}): 0 %"]


@pytest.mark.large
@pytest.mark.slow
def test_reasons_of_the_discrete_hazard():
    drawn = simulate("random", users=3_000, seed=11)
    world = Paths.from_frames(drawn.touchpoints, drawn.conversions, users=drawn.users, lookback="1D")
    model = DiscreteHazard(rows=4_000)
    credits = touch_credits(world, model)
    rows = explain(world, model, credits.loc[credits["position"].isna(), "event_id"].iloc[0])
    assert rows["weight"].sum() == pytest.approx(1.0)
    assert rows["node_id"].isna().tolist() == [False] * (len(rows) - 1) + [True]
    *touched, unattributed = rows["why"]
    assert unattributed.endswith(("too much", "would have happened anyway"))
    assert all(
        why.endswith(("less likely to convert without it", "more likely to convert without it"))
        for why in touched
    )
    # Touchpoints before the short lookback still have an effect.
    outside = rows["position"].isna().tolist()
    assert any(outside)
    assert ["before the lookback" in why for why in rows["why"]] == outside


@pytest.mark.large
@pytest.mark.slow
def test_weights_sum_to_the_credits_of_attribute(paths):
    for rule in rule_models():
        rows = explain(paths, rule, "e")
        by_node = rows.groupby("node_id")[["conversions", "value"]].sum()
        credits = attribute(paths, rule).dropna(subset="node_id").set_index("node_id")
        pd.testing.assert_frame_equal(
            by_node, credits.loc[by_node.index, ["conversions", "value"]], check_exact=False
        )
    rows = explain(paths, "linear", "e")
    assert rows["age_days"].tolist() == [8.0, 4.0, 2.0, 1.0]
    assert rows["date"].astype(str).tolist()[0].startswith("2025-01-01")
    assert rows.attrs["model"] == "linear"
    assert rows.attrs["event_date"] == pd.Timestamp("2025-01-09", tz="UTC")


@pytest.mark.slow
def test_a_conversion_without_a_touchpoint(paths):
    for model in ("linear", "fractribution"):
        rows = explain(paths, model, "alone")
        assert rows[["position", "weight", "value", "why"]].to_numpy().tolist() == [
            [0, 1.0, 5.0, "no touchpoint in the lookback"]
        ]


def test_the_reason_for_the_baseline():
    assert (
        unattributed_reason(DiscreteHazard(), 0.25, length=2) == "baseline: 25 % would have happened anyway"
    )
    assert (
        unattributed_reason(DiscreteHazard(), -0.5, length=2)
        == "the touchpoints' weights sum to 150 %, 50 % too much"
    )
    assert (
        unattributed_reason(DiscreteHazard(), 1, length=0)
        == "no effective touchpoint: would have happened anyway"
    )


def test_the_only_touchpoint():
    single = users_of([("a", 1, 1.0, 0)])
    assert why(single, "position_based", "event 0-0") == ["the only touchpoint: 100 %"]
    assert why(single, "linear", "event 0-0") == ["the only touchpoint: 100 %"]


def test_aggregated_paths_can_be_explained():
    assert why(paths_of([("ab", 3, 3.0, 0)]), "linear", "0") == ["one of 2 touchpoints: 50 %"] * 2


def test_invalid_arguments_are_refused(paths):
    with pytest.raises(
        errors.InvalidRequest, match="event_id: the paths have no conversion 'x'; allowed: a value of"
    ):
        explain(paths, "linear", "x")
    with pytest.raises(
        errors.InvalidRequest, match="event_id: the paths have no conversion 7; allowed: a value of"
    ):
        explain(paths, "linear", 7)
    with pytest.raises(errors.InvalidRequest, match=r"model: got 2 models \(linear, markov\); allowed: one"):
        explain(paths, ["linear", "markov"], "e")
    with pytest.raises(errors.InvalidRequest, match="markov credits nodes, not touchpoints"):
        explain(paths, "markov", "e")
