"""Nodes whose touchpoints cluster in the minutes before conversions."""

import pandas as pd
import pytest

from attrib_ds import Paths, incremental_effects, simulate
from attrib_ds.attribution.experiments.checkout import checkout_nodes
from attrib_ds.attribution.models.path_models import DiscreteHazard
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


def test_a_node_is_at_the_checkout_if_its_touchpoints_cluster_there():
    # 20 conversions: the coupon precedes 15 of its 20 by five minutes, ads none of theirs, and a shop's mails
    # one in twenty, which is more than its rate implies, and few.
    minutes = [
        [("coupon", LAST if user < 15 else HOURS), ("ad", HOURS), ("mail", LAST if user == 0 else HOURS)]
        for user in range(20)
    ]
    found = checkout_nodes(paths_of(minutes))
    assert found["share"].to_dict() == {"ad": 0.0, "coupon": 0.75, "mail": 0.05}
    assert found["is_at_checkout"].to_dict() == {"ad": False, "coupon": True, "mail": False}


def test_dates_without_times_of_day_tell_nothing():
    found = checkout_nodes(paths_of([[("a", 0), ("a", 2)], [("a", 0)]] * 20, whole_days=True))
    assert found["share"].isna().all()
    assert not found["is_at_checkout"].any()


def test_frequent_touchpoints_are_not_at_the_checkout():
    minutes = [[("app", ago) for ago in range(10 + user % 50, 60 * 24 * 6, 60)] for user in range(20)]
    assert not checkout_nodes(paths_of(minutes))["is_at_checkout"].any()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:fetch_arrow_table:DeprecationWarning")  # Seen by pytest.warns only.
def test_a_site_with_coupons_is_named_and_marked():
    world = simulate("promotions", users=8_000, seed=1)
    paths = Paths.from_frames(world.touchpoints, world.conversions, users=world.users)
    with pytest.warns(ConfoundingWarning, match=r"conversions: coupon \d+% of the conversions") as caught:
        rows = incremental_effects(paths, DiscreteHazard(comparisons=2)).set_index("node_id")
    assert [each.filename for each in caught if each.category is ConfoundingWarning] == [__file__]
    assert rows["is_at_checkout"].to_dict() == {node: node == "coupon" for node in rows.index}
    assert rows.loc["coupon", "checkout_share"] > 0.9
    assert rows.loc["video", "checkout_share"] < 0.1


@pytest.mark.slow
@pytest.mark.parametrize("scenario", ["random", "intent", "synergy", "intent_synergy"])
def test_no_other_channel_is_at_the_checkout(scenario):
    world = simulate(scenario, users=60_000, seed=2)
    found = checkout_nodes(Paths.from_frames(world.touchpoints, world.conversions, users=world.users))
    assert not found["is_at_checkout"].any()
