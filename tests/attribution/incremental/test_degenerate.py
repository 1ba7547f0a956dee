"""The discrete hazard on data too small to estimate anything."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from attrib_ds import Paths, attribute, estimate_effects
from attrib_ds.attribution.models import DiscreteHazard
from attrib_ds.errors import InvalidRequest
from attrib_ds.records.frames import TEXT

START = pd.Timestamp("2025-01-01", tz="UTC")
MODELS = [DiscreteHazard(), DiscreteHazard(interactions=True)]


def at(day):
    return START + pd.Timedelta(days=day)


def paths_of(touches, orders, users, **covariates):
    touchpoints = pd.DataFrame(
        {
            "user_id": pd.Series([name for name, _, _ in touches], dtype=TEXT),
            "node_id": pd.Series([node for _, node, _ in touches], dtype=TEXT),
            "date": pd.Series([at(day) for _, _, day in touches], dtype="datetime64[us, UTC]"),
        }
    )
    conversions = pd.DataFrame(
        [(f"e{number}", name, at(day)) for number, (name, day) in enumerate(orders)],
        columns=["event_id", "user_id", "date"],
    )
    if users is None:
        return Paths.from_frames(touchpoints, conversions)
    observed = pd.DataFrame(
        [(name, at(since), at(until)) for name, since, until in users], columns=["user_id", "since", "until"]
    ).assign(**covariates)
    return Paths.from_frames(touchpoints, conversions, users=observed)


@pytest.mark.slow
@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.name)
def test_without_touchpoints_all_conversions_are_baseline(model):
    users = [(f"u{number}", 0, 5 if number % 2 else 2.5) for number in range(20)]
    orders = [(name, until) for name, _, until in users if until < 5]
    rows = attribute(paths_of([], orders, users), model, confidence=0.95)
    assert rows["node_id"].isna().all()
    assert rows["conversions"].tolist() == pytest.approx([10.0])
    assert rows["value"].isna().all()


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.name)
def test_one_user_is_enough(model):
    paths = paths_of([("u", "a", 1), ("u", "b", 2)], [("u", 2.5)], [("u", 0, 4)])
    rows = attribute(paths, model, confidence=0.95)
    assert rows["conversions"].sum() == pytest.approx(1)
    assert rows["conversions"].notna().all()
    assert set(rows["node_id"].dropna()) == {"a", "b"}


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.name)
def test_all_users_convert_at_once(model):
    users = [(f"u{number}", 0, 0) for number in range(10)]
    touches = [(f"u{number}", "a", 0) for number in range(5)]
    rows = attribute(paths_of(touches, [(name, 0) for name, _, _ in users], users), model, confidence=0.95)
    assert rows["conversions"].sum() == pytest.approx(10)
    assert rows["conversions"].notna().all()


def reached(hour, **covariates):
    """Return paths in which three of 400 users convert, each of whom was reached the day before."""
    random = np.random.default_rng(1)
    touches = [
        (f"u{random.integers(400)}", "abc"[random.integers(3)], 20 * random.random()) for _ in range(1_200)
    ]
    touches += [(f"u{number}", "a", 19) for number in range(3)]
    orders = [(f"u{number}", 20 + number + hour / 24) for number in range(3)]
    return paths_of(touches, orders, [(f"u{number}", 0, 25.999) for number in range(400)], **covariates)


@pytest.mark.parametrize("hour", [0, 0.024, 23.976])
@pytest.mark.parametrize("spent", [[30.0, 30.0, 30.0], [5.0, 30.0, 90.0]])
def test_a_covariate_that_is_the_outcome_is_refused(hour, spent):
    with pytest.raises(InvalidRequest, match="covariates: 'spent' tells exactly who converted"):
        estimate_effects(reached(hour, spent=[*spent, *[0.0] * 397]))


def test_a_covariate_that_is_almost_the_outcome_makes_no_effect_certain():
    """One user whom the covariate names did not convert."""
    paths = reached(0.024, is_buyer=[number < 4 for number in range(400)])
    row = estimate_effects(paths).table().set_index("node_id").loc["a"]
    assert row["high"] - row["low"] > 0.1
    assert row["low"] < 0 < row["high"]


def test_a_covariate_that_separates_a_few_users_by_chance_is_taken():
    touches = [("u1", "a", 1), ("u2", "a", 1)]
    users = [(f"u{number}", 0, 4) for number in range(9)]
    paths = paths_of(touches, [("u1", 2.5)], users, age=[30, 99, *range(31, 38)])
    assert estimate_effects(paths).table()["caused"].notna().all()
