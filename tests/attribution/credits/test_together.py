"""Models computed together share counts, and give the same credits as alone."""

import gc

import numpy as np
import pandas as pd
import pytest

import attrib_ds as at

DAY = pd.Timestamp("2025-03-01", tz="UTC")
MODELS = {
    "linear": "linear",
    "markov": at.models.Markov(),
    "markov 3": at.models.Markov(order=3),
    "exposure": at.models.Markov(transform="exposure"),
    "without nulls": at.models.Markov(nulls=False),
    "shapley": at.models.ConversionRateShapley(shrinkage=2.0),
    "fractribution": at.models.Fractribution(),
}


@pytest.fixture(scope="module")
def frames():
    random = np.random.default_rng(7)
    user, day = random.integers(0, 300, 1_200), random.uniform(0, 20, 1_200)
    touches = pd.DataFrame(
        {
            "user_id": [f"u{each}" for each in user],
            "node_id": random.choice(list("abcde"), 1_200, p=[0.4, 0.3, 0.15, 0.1, 0.05]),
            "date": DAY + pd.to_timedelta(day, unit="D"),
        }
    )
    buyers = random.choice(330, 90, replace=False)
    conversions = pd.DataFrame(
        {
            "event_id": [f"e{each}" for each in buyers],
            "user_id": [f"u{each}" for each in buyers],
            "date": DAY + pd.to_timedelta(random.uniform(5, 25, 90), unit="D"),
            "value": random.uniform(-5, 50, 90).round(2),
            "currency": random.choice(["EUR", "USD"], 90),
        }
    )
    later = conversions[["event_id", "value"]].iloc[::4].assign(date=DAY + pd.Timedelta("40D"))
    return touches, conversions, later.assign(value=-later["value"] / 2)


@pytest.mark.slow
@pytest.mark.parametrize("is_refunded", [False, True], ids=["as sold", "with refunds"])
@pytest.mark.parametrize("intervals", [None, "closed_form", "bootstrap"])
def test_models_give_the_same_credits_together_as_alone(frames, is_refunded, intervals):
    touches, conversions, later = frames
    paths = at.Paths.from_frames(touches, conversions, adjustments=later if is_refunded else None)
    asked = {} if intervals is None else {"confidence": 0.9, "intervals": intervals, "replicates": 20}
    together = at.attribute(paths, MODELS, **asked)
    alone = [at.attribute(paths, {label: model}, **asked) for label, model in MODELS.items()]
    pd.testing.assert_frame_equal(together, pd.concat(alone, ignore_index=True), rtol=1e-9, atol=1e-12)


@pytest.mark.slow
def test_temporary_tables_are_dropped_after_the_call(frames):
    touches, conversions, _ = frames
    paths = at.Paths.from_frames(touches, conversions)
    engine = paths.touches._find_backends()[0][0].con
    at.attribute(paths, MODELS)
    gc.collect()
    assert engine.execute("SELECT table_name FROM duckdb_tables()").fetchall() == []
