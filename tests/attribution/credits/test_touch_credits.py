"""Credits of single touchpoints, under every model that has them."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from support.journeys_as_paths import paths_of, users_of

from attrib_ds import Paths, attribute, errors, position_credits, simulate, touch_credits
from attrib_ds.attribution.credits.touches import joined_shares
from attrib_ds.attribution.models import (
    ConversionRateShapley,
    CustomWeights,
    DiscreteHazard,
    Fractribution,
    LastNonDirect,
    Linear,
    PositionBased,
    TimeDecay,
    rule_models,
)

HAZARDS = {
    "discrete_hazard": DiscreteHazard(rows=4_000),
}
MODELS = rule_models() | {
    "custom": CustomWeights(lambda touch: 1 / (1 + touch.age_days)),
    "by_hand_direct": LastNonDirect(direct=("a",)),
    "w_shaped": PositionBased(first=0.3, last=0.3, milestones={"lead": 0.3}),
    "stepped": TimeDecay("2D", step="1D"),
    "shapley": "shapley",
    "conversion_rate_shapley": ConversionRateShapley(),
    "shrunk_shapley": ConversionRateShapley(shrinkage=3.0),
    "drawn_shapley": ConversionRateShapley(exact_size=1, permutations=16),
    "fractribution": Fractribution(),
    "fractribution_exposure": Fractribution(transform="exposure"),
    "fractribution_first": Fractribution(transform="first", shrinkage=2.0),
    "fractribution_frequency": Fractribution(transform="frequency"),
    "fractribution_steps": Fractribution(steps=2),
}
KEY = ["model", "node_id", "currency"]


@pytest.fixture(scope="module")
def shop():
    """Users with several conversions, ties, values in two currencies, refunds and conversions without touchpoints."""
    random = np.random.default_rng(7)
    touched, converted = [], []
    for user in range(60):
        for _ in range(random.integers(0, 7)):
            node = random.choice(["a", "b", "c", "direct"])
            touched.append((f"u{user}", node, int(random.integers(0, 60))))
        for _ in range(random.integers(0, 3)):
            when = int(random.integers(0, 80))
            converted.append(
                (f"u{user}", when, float(random.integers(-20, 50)), random.choice(["EUR", "USD"]))
            )
    touchpoints = pd.DataFrame(touched, columns=["user_id", "node_id", "hours"])
    conversions = pd.DataFrame(converted, columns=["user_id", "hours", "value", "currency"])
    conversions["event_id"] = [f"e{index}" for index in conversions.index]
    for frame in (touchpoints, conversions):
        frame["date"] = pd.Timestamp("2025-01-01", tz="UTC") + pd.to_timedelta(12 * frame["hours"], unit="h")
    conversions["lead"] = conversions["date"] - pd.Timedelta(days=2)
    return Paths.from_frames(touchpoints, conversions, lookback="10D", columns={"milestone.lead": "lead"})


@pytest.fixture(scope="module")
def world():
    drawn = simulate("random", users=3_000, seed=11)
    return Paths.from_frames(drawn.touchpoints, drawn.conversions, users=drawn.users, lookback="5D")


def summed(credits):
    return credits.groupby(KEY, dropna=False)[["conversions", "value"]].sum()


def assert_adds_up(paths, models):
    expected = summed(attribute(paths, models))
    expected = expected[expected["conversions"].abs() > 1e-12]
    found = summed(touch_credits(paths, models))
    found = found[found["conversions"].abs() > 1e-12].reindex(expected.index)
    for name in ("conversions", "value"):
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-9, atol=1e-9)


@pytest.mark.few(2)
@pytest.mark.slow
@pytest.mark.parametrize("label", MODELS)
def test_touchpoints_add_up_to_the_credits(shop, label):
    assert_adds_up(shop, {label: MODELS[label]})


@pytest.mark.large
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:lookback:attrib_ds.errors.InputWarning")
@pytest.mark.parametrize("label", HAZARDS)
def test_touchpoints_of_hazards_add_up_to_the_credits(world, label):
    assert_adds_up(world, {label: HAZARDS[label]})


@pytest.mark.few(4)
@pytest.mark.slow
@pytest.mark.parametrize(
    # Aggregated paths have neither dates nor milestones.
    "label",
    [name for name in MODELS if name not in ("time_decay", "stepped", "custom", "w_shaped")],
)
def test_aggregated_paths_add_up(label):
    journeys = [
        ("aba", 3, 9.0, 4),
        ("a", 1, 2.0, 10),
        ("ab", 2, 5.0, 3),
        ("cab", 1, -4.0, 0),
        ("b", 0, 0.0, 5),
    ]
    assert_adds_up(paths_of(journeys), {label: MODELS[label]})


@pytest.mark.large
@pytest.mark.slow
def test_each_conversion_is_conserved(shop):
    credits = touch_credits(shop, ["time_decay", "fractribution", "conversion_rate_shapley"])
    whole = shop.to_pandas().groupby("event_id")[["conversions", "value"]].first()
    for _, rows in credits.groupby("model"):
        found = rows.groupby("event_id")[["conversions", "value"]].sum()
        pd.testing.assert_frame_equal(found, whole, check_exact=False, atol=1e-9)


def test_rows_are_touchpoints_in_order(shop):
    credits = touch_credits(shop, ["linear"])
    paths = shop.to_pandas()
    touched = credits[credits["node_id"].notna()]
    assert len(credits) == len(paths)
    pd.testing.assert_frame_equal(
        touched[["event_id", "user_id", "node_id", "date", "position"]].reset_index(drop=True),
        paths.loc[paths["length"] > 0, ["event_id", "user_id", "node_id", "date", "position"]].reset_index(
            drop=True
        ),
    )
    alone = credits[credits["node_id"].isna()]
    assert (alone["position"] == 0).all()
    assert len(alone) == (paths["length"] == 0).sum()


@pytest.fixture(scope="module")
def three_conversions():
    """``e`` after ``c``, too long ago, two of ``a`` at one instant and ``b``; ``f`` alone; ``g`` after ``a``."""
    touchpoints = pd.DataFrame(
        {
            "user_id": ["u"] * 4 + ["w"],
            "node_id": ["c", "a", "a", "b", "a"],
            "date": ["2025-01-01", "2025-02-01", "2025-02-01", "2025-02-02", "2025-02-01"],
        }
    )
    conversions = pd.DataFrame({"event_id": [*"efg"], "user_id": [*"uvw"]})
    # One is not at midnight: the dates are instants, not days.
    conversions["date"] = pd.to_datetime(["2025-02-03", "2025-02-03T09:00", "2025-02-03"], format="ISO8601")
    return Paths.from_frames(touchpoints, conversions, lookback="7D")


def joined(paths, shares, *, leaves_rest):
    """Return event, node, position, weight and age in days of each row."""
    dates = {"a": "2025-02-01", "b": "2025-02-02", "c": "2025-01-01"}
    table = pa.Table.from_pylist(
        [
            {"event_id": event, "node_id": node, "date": pd.Timestamp(dates[node]), "touch_id": node, **share}
            for event, node, share in [*(("e", *pair) for pair in shares), ("g", "a", ONLY)]
        ]
    )
    rows = joined_shares(paths, table, leaves_rest=leaves_rest).to_pyarrow().to_pylist()
    names = ("event_id", "node_id", "position", "weight", "age_days")
    return sorted((tuple(row[name] for name in names) for row in rows), key=str)


ONLY = {"share": 1.0, "position": 1}
OTHERS = [("f", None, 0, 1.0, None), ("g", "a", 1, 1.0, 2.0)]


def test_shares_of_nodes_and_instants_are_divided_among_their_touchpoints(three_conversions):
    shares = [("a", {"share": 0.5}), ("b", {"share": 0.25}), ("c", {"share": 0.25})]
    assert joined(three_conversions, shares, leaves_rest=False) == [
        ("e", "a", 1, 0.25, 2.0),
        ("e", "a", 2, 0.25, 2.0),
        ("e", "b", 3, 0.25, 1.0),
        ("e", "c", None, 0.25, 33.0),
        *OTHERS,
    ]


def test_the_rest_of_shares_is_unattributed(three_conversions):
    shares = [("a", {"share": 0.5}), ("b", {"share": 0.125})]
    assert joined(three_conversions, shares, leaves_rest=True) == [
        ("e", "a", 1, 0.25, 2.0),
        ("e", "a", 2, 0.25, 2.0),
        ("e", "b", 3, 0.125, 1.0),
        ("e", None, 0, 0.375, None),
        *OTHERS,
        ("g", None, 0, 0.0, None),
    ]


def test_shares_by_position_go_to_one_touchpoint_each(three_conversions):
    shares = [("a", {"share": 0.75, "position": 2}), ("b", {"share": 0.25, "position": 3})]
    assert joined(three_conversions, shares, leaves_rest=False) == [
        ("e", "a", 1, 0.0, 2.0),
        ("e", "a", 2, 0.75, 2.0),
        ("e", "b", 3, 0.25, 1.0),
        *OTHERS,
    ]


@pytest.mark.large
@pytest.mark.slow
def test_columns_and_dtypes_do_not_depend_on_the_rows(shop):
    some = touch_credits(shop, ["linear", "fractribution"])
    touchpoints = pd.DataFrame({"user_id": ["u"], "node_id": ["a"], "date": ["2025-01-01"]})
    conversions = pd.DataFrame({"event_id": ["e"], "user_id": ["v"], "date": ["2025-01-01"]})
    few = touch_credits(Paths.from_frames(touchpoints, conversions), ["linear", "fractribution"])
    assert list(few.columns) == list(some.columns)
    assert few.dtypes.to_dict() == some.dtypes.to_dict()
    assert (
        few[["node_id", "position", "conversions"]].isna().to_numpy().tolist() == [[True, False, False]] * 2
    )


@pytest.mark.large
@pytest.mark.slow
def test_by_hand():
    # Four of the users with a > b converted, none of those with b alone, and half of those with a alone.
    journeys = [("ab", 4, 4.0, 4), ("b", 0, 0.0, 4), ("a", 1, 1.0, 3)]
    credits = touch_credits(users_of(journeys), {"rate": ConversionRateShapley(), "loss": Fractribution()})
    of_ab = credits[credits["event_id"] == "event 0-0"].set_index(["model", "node_id"])["conversions"]
    # Rates: ab 1/2, a 1/4, b 0. Shapley: a (1/4 + 1/2) / 2 = 3/8, b (1/4 + 0) / 2 = 1/8.
    assert of_ab["rate"].to_dict() == {"a": 0.75, "b": 0.25}
    # Losses: without a 1/2 - 0, without b 1/2 - 1/4.
    assert of_ab["loss"].to_dict() == pytest.approx({"a": 2 / 3, "b": 1 / 3})


@pytest.mark.large
@pytest.mark.slow
def test_touchpoints_of_the_same_node_and_instant_share_equally(world):
    # The discrete hazard sees nodes and instants only: two clicks of a node at one instant get half each.
    points = pd.DataFrame(
        {
            "user_id": ["u"] * 3 + ["v"],
            "node_id": ["a", "a", "b", "a"],
            "date": ["2025-01-02"] * 2 + ["2025-01-01"] * 2,
        }
    )
    orders = pd.DataFrame({"event_id": ["e", "f"], "user_id": ["u", "w"], "date": ["2025-01-03"] * 2})
    paths = Paths.from_frames(points, orders)
    credits = touch_credits(paths, DiscreteHazard())
    of_a = credits[(credits["event_id"] == "e") & (credits["node_id"] == "a")]
    assert len(of_a) == 2
    assert of_a["conversions"].nunique() == 1
    assert_adds_up(paths, {"hazard": DiscreteHazard()})


@pytest.mark.few(2)
@pytest.mark.slow
@pytest.mark.parametrize("label", ["linear", "shapley", "fractribution", "conversion_rate_shapley"])
def test_credits_by_position_sum_the_touch_credits(shop, label):
    credits = touch_credits(shop, label)
    keys = ["node_id", "position", "currency"]
    expected = credits.groupby(keys, dropna=False)[["conversions", "value"]].sum().sort_index()
    found = (
        position_credits(shop, label).groupby(keys, dropna=False)[["conversions", "value"]].sum().sort_index()
    )
    pd.testing.assert_frame_equal(found, expected, check_exact=False, atol=1e-9)


def test_models_that_credit_only_nodes_are_refused(shop):
    message = "markov credits nodes, not touchpoints: its removal effects .* allowed: rules, Shapley"
    with pytest.raises(errors.InvalidRequest, match=message):
        touch_credits(shop, ["linear", "markov"])


def test_labels_of_a_mapping_and_invalid_models(shop):
    assert set(touch_credits(shop, {"mine": Linear()})["model"]) == {"mine"}
    with pytest.raises(errors.InvalidRequest, match="models is empty; allowed: at least one"):
        touch_credits(shop, [])
    with pytest.raises(errors.InvalidRequest, match="negative or not finite"):
        touch_credits(shop, CustomWeights(lambda touch: -1.0))
