"""Credits of touchpoints under the discrete hazard, compared with the credits of their nodes."""

from __future__ import annotations

import pandas as pd
import pytest

from attrib_ds import Paths, attribute, simulate
from attrib_ds.attribution.credits.touches import touch_shares
from attrib_ds.attribution.models.path_models import DiscreteHazard
from attrib_ds.attribution.paths.sequences import Sequences

START = pd.Timestamp("2025-01-01", tz="UTC")


@pytest.fixture(scope="module")
def world():
    return simulate("random", users=6_000, seed=4)


@pytest.mark.slow
@pytest.mark.parametrize(
    "model",
    [
        DiscreteHazard(),
        DiscreteHazard(interactions=True, comparisons=5),
    ],
)
def test_credits_of_touchpoints_sum_to_those_of_their_nodes(world, model):
    paths = Paths.from_frames(world.touchpoints, world.conversions, users=world.users)
    shares = touch_shares(model, Sequences.of(paths)).to_pandas()
    valued = shares.merge(world.conversions[["event_id", "value"]], on="event_id")
    valued["value"] *= valued["share"]
    summed = valued.groupby("node_id")[["share", "value"]].sum()
    credits = attribute(paths, model).set_index("node_id")
    for node in world.touchpoints["node_id"].unique():
        found = summed.loc[node] if node in summed.index else pd.Series({"share": 0.0, "value": 0.0})
        assert found["share"] == pytest.approx(credits.loc[node, "conversions"], rel=1e-9, abs=1e-9)
        assert found["value"] == pytest.approx(credits.loc[node, "value"], rel=1e-9, abs=1e-7)


@pytest.mark.slow
def test_credit_of_a_node_is_divided_by_decay():
    """With a half-life of a day, touchpoints 1, 2 and 4 days old weigh 1/2, 1/4 and 1/16."""
    days = pd.Series([0.0, 2.0, 3.0, 1.0])
    touchpoints = pd.DataFrame(
        {
            "user_id": ["u", "u", "u", "v"],
            "node_id": ["a", "a", "a", "a"],
            "touch_id": ["t4", "t2", "t1", "other"],
            "date": START + pd.to_timedelta(days, unit="D"),
        }
    )
    conversions = pd.DataFrame({"event_id": ["e"], "user_id": ["u"], "date": [START + pd.Timedelta(days=4)]})
    users = pd.DataFrame({"user_id": ["u", "v", "w"], "since": START, "until": START + pd.Timedelta(days=4)})
    paths = Paths.from_frames(touchpoints, conversions, users=users, touch="touch_id")
    model = DiscreteHazard(half_lives=("1D",), covariates=())
    shares = touch_shares(model, Sequences.of(paths)).to_pandas().set_index("touch_id")["share"]
    whole = attribute(paths, model).set_index("node_id").loc["a", "conversions"]
    assert whole != 0
    expected = {"t1": 8 / 13, "t2": 4 / 13, "t4": 1 / 13}
    assert (shares / whole).to_dict() == pytest.approx(expected, rel=1e-9)


def test_touchpoints_that_have_decayed_to_zero_share_equally():
    touchpoints = pd.DataFrame(
        {
            "user_id": ["u", "u"],
            "node_id": ["a", "a"],
            "touch_id": ["t1", "t2"],
            "date": [START, START + pd.Timedelta(hours=1)],
        }
    )
    late = START + pd.Timedelta(days=300)
    conversions = pd.DataFrame({"event_id": ["e"], "user_id": ["u"], "date": [late]})
    users = pd.DataFrame({"user_id": ["u", "v"], "since": START, "until": late})
    paths = Paths.from_frames(touchpoints, conversions, users=users, touch="touch_id")
    shares = touch_shares(DiscreteHazard(half_lives=("1h",), covariates=()), Sequences.of(paths)).to_pandas()
    assert shares["share"].nunique() <= 1
