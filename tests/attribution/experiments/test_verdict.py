"""Evidence against a model: the credit of negative controls, and nodes at the checkout."""

import numpy as np
import pandas as pd
import pytest

from attrib_ds import Paths, estimate_effects, simulate
from attrib_ds.attribution.experiments.verdict import checkout_nodes, judge_controls
from attrib_ds.attribution.models import DiscreteHazard
from attrib_ds.attribution.paths.sequences import Sequences
from attrib_ds.errors import ConfoundingWarning

START = pd.Timestamp("2025-01-01", tz="UTC")
#: Minutes before the conversion.
LAST, HOURS = 5, 60 * 30


def paths_of(minutes, *, whole_days=False):
    """Return paths of users who convert at the same time; touchpoints are given in minutes before it."""
    rows = [(user, node, ago) for user, touches in enumerate(minutes) for node, ago in touches]
    touchpoints = pd.DataFrame(rows, columns=["user_id", "node_id", "ago"])
    bought = START + pd.Timedelta(days=8)
    unit = pd.Timedelta(days=1) if whole_days else pd.Timedelta(minutes=1)
    touchpoints["date"] = bought - touchpoints.pop("ago") * unit
    touchpoints["user_id"] = "u" + touchpoints["user_id"].astype(str)
    users = sorted(set(touchpoints["user_id"]))
    conversions = pd.DataFrame({"event_id": [f"e{user}" for user in users], "user_id": users, "date": bought})
    return Paths.from_frames(touchpoints, conversions)


def found_in(paths):
    return checkout_nodes(Sequences.of(paths))


def test_a_node_is_at_the_checkout_if_its_touchpoints_cluster_there():
    # 20 conversions: the coupon precedes 15 of its 20 by five minutes, ads none of theirs, and a shop's mails
    # one in twenty, which is more than its rate implies, and few.
    minutes = [
        [("coupon", LAST if user < 15 else HOURS), ("ad", HOURS), ("mail", LAST if user == 0 else HOURS)]
        for user in range(20)
    ]
    found = found_in(paths_of(minutes))
    assert found["share"].to_dict() == {"ad": 0.0, "coupon": 0.75, "mail": 0.05}
    assert found["is_at_checkout"].to_dict() == {"ad": False, "coupon": True, "mail": False}


def test_dates_without_times_of_day_tell_nothing():
    found = found_in(paths_of([[("a", 0), ("a", 2)], [("a", 0)]] * 20, whole_days=True))
    assert found["share"].isna().all()
    assert not found["is_at_checkout"].any()


def test_frequent_touchpoints_are_not_at_the_checkout():
    minutes = [[("app", ago) for ago in range(10 + user % 50, 60 * 24 * 6, 60)] for user in range(20)]
    assert not found_in(paths_of(minutes))["is_at_checkout"].any()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:fetch_arrow_table:DeprecationWarning")  # Seen by pytest.warns only.
def test_a_site_with_coupons_is_named_and_marked():
    world = simulate("promotions", users=8_000, seed=1)
    paths = Paths.from_frames(world.touchpoints, world.conversions, users=world.users)
    with pytest.warns(ConfoundingWarning, match=r"conversions: coupon \d+% of the conversions") as caught:
        effects = estimate_effects(paths, DiscreteHazard(comparisons=2))
    rows = effects.checkout().set_index("node_id")
    assert [each.filename for each in caught if each.category is ConfoundingWarning] == [__file__]
    assert rows["is_at_checkout"].to_dict() == {node: node == "coupon" for node in rows.index}
    assert rows.loc["coupon", "share"] > 0.9
    assert rows.loc["video", "share"] < 0.1


@pytest.mark.slow
@pytest.mark.parametrize("scenario", ["random", "intent", "synergy", "intent_synergy"])
def test_no_other_channel_is_at_the_checkout(scenario):
    world = simulate(scenario, users=60_000, seed=2)
    found = found_in(Paths.from_frames(world.touchpoints, world.conversions, users=world.users))
    assert not found["is_at_checkout"].any()


@pytest.mark.parametrize(
    ("controls", "error", "others", "total", "expected"),
    [
        # Two controls: the mean square of 3 and 4 is 12.5, above the 10.2 that chance reaches once in 1,000.
        ([30.0, 40.0], 10.0, 500.0, 1e4, True),
        ([30.0, 40.0], 11.2, 500.0, 1e4, False),  # 10.0
        ([30.0, 40.0], 10.0, 2_300.0, 1e4, True),
        ([30.0, 40.0], 10.0, 2_350.0, 1e4, False),  # less than 3 % of the others
        ([-30.0, -40.0], 10.0, 500.0, 1e4, True),  # harm is no effect either
        ([30.0, 40.0], 10.0, 1e9, 600.0, True),  # a model gone astray does not hide its controls
        ([0.0, 0.0], 0.0, 500.0, 1e4, False),
        ([60.0, 0.0], 0.0, 500.0, 1e4, True),
    ],
)
def test_controls_count_as_confounded_if_their_credit_is_significant_and_large(
    controls, error, others, total, expected
):
    rest = np.array([others / 2, -others / 2])
    # The error of the sum is large, so that the controls are tested one by one.
    test = judge_controls(
        np.array(controls), np.full(2, error), sum(controls), 1e4, rest, 0 * rest,
        conversions=total, confidence=0.95,
    )  # fmt: skip
    assert test.verdict == ("confounded" if expected else "cannot tell")


@pytest.mark.parametrize(
    ("total", "error", "others", "others_error", "verdict", "bounds"),
    [
        # With an exact denominator the bounds are those of a t distribution with 19 degrees of freedom: 2.093.
        (30.0, 20.0, 1_000.0, 0.0, "clear", (-0.01186, 0.07186)),
        (30.0, 105.0, 1_000.0, 0.0, "clear", (-0.18977, 0.24977)),
        (30.0, 106.0, 1_000.0, 0.0, "cannot tell", (-0.19186, 0.25186)),
        (-30.0, 106.0, 1_000.0, 0.0, "cannot tell", (-0.25186, 0.19186)),
        (580.0, 180.0, 1_000.0, 0.0, "cannot tell", (0.20326, 0.95674)),
        (580.0, 120.0, 1_000.0, 0.0, "confounded", (0.32884, 0.83116)),
        # Others that may have no credit at all leave the share unbounded, and nothing is clear.
        (0.0, 1.0, 10.0, 5.0, "cannot tell", (-np.inf, np.inf)),
        (0.0, 1.0, 0.0, 0.0, "cannot tell", (-np.inf, np.inf)),
    ],
)
def test_the_verdict_is_clear_only_if_the_interval_of_the_share_is_small(
    total, error, others, others_error, verdict, bounds
):
    test = judge_controls(
        np.array([total]), np.array([error]), total, error, np.array([others]), np.array([others_error]),
        conversions=1e4, confidence=0.95,
    )  # fmt: skip
    assert test.verdict == verdict
    assert (test.low, test.high) == pytest.approx(bounds, abs=1e-4)


def test_harm_and_benefit_do_not_cancel_in_the_share_of_controls():
    """The others cause 600 and -595 conversions: 30 of the controls are 2.5 % of 1,195, not 600 % of 5."""
    found = judge_controls(
        np.array([30.0]), np.array([20.0]), 30.0, 20.0, np.array([600.0, -595.0]), np.zeros(2),
        conversions=1e4, confidence=0.95,
    )  # fmt: skip
    assert (found.verdict, found.share) == ("clear", pytest.approx(30 / 1195))
    # The t distribution with 19 degrees of freedom: 2.0930 standard errors of 20.
    assert (found.low, found.high) == pytest.approx(((30 - 41.860) / 1195, (30 + 41.860) / 1195), abs=1e-6)
