"""Results on Spark equal those on DuckDB and the formulas."""

from datetime import UTC, datetime, timedelta

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from support.reference_attribution import credits as reference_credits

import attrib_ds as at
from attrib_ds import errors
from attrib_ds.attribution.engines.engine import PRIME, group_of, number_of
from attrib_ds.attribution.models import rule_models
from attrib_ds.records.frames import TEXT

pytestmark = pytest.mark.spark

START = datetime(2025, 1, 1, tzinfo=UTC)
LOOKBACK = timedelta(days=5)


def on_spark(spark, name, frame):
    table = frame if isinstance(frame, pa.Table) else pa.Table.from_pandas(frame, preserve_index=False)
    spark._session.createDataFrame(table).createOrReplaceTempView(name)
    return spark.table(name)


def journeys():
    """Ties of time, touchpoints at both bounds of windows, users without touchpoints, refunds, two currencies."""
    random = np.random.default_rng(20250101)
    half_days = [START + timedelta(hours=12 * int(number)) for number in random.integers(0, 40, 400)]
    touchpoints = pd.DataFrame(
        {
            "user_id": [f"u{number}" for number in random.integers(0, 60, 400)],
            "node_id": random.choice(["a", "b", "c", "direct", "ünï'\" > x"], 400),
            "date": pd.to_datetime(half_days, utc=True),
            "type": random.choice(["click", "view"], 400),
        }
    )
    dates = [START + timedelta(hours=12 * int(number)) for number in random.integers(2, 44, 60)]
    conversions = pd.DataFrame(
        {
            "event_id": [f"e{number}" for number in range(60)],
            "user_id": [f"u{number}" for number in random.integers(0, 70, 60)],
            "date": pd.to_datetime(dates, utc=True),
            "value": random.integers(-3, 30, 60).astype(float),
            "currency": random.choice(["EUR", "USD"], 60),
            "led": pd.to_datetime(dates, utc=True).where(random.random(60) < 0.5) - pd.Timedelta("2D"),
        }
    )
    users = pd.DataFrame({"user_id": [f"u{number}" for number in range(75)]})
    users["since"], users["until"] = pd.Timestamp(START), pd.Timestamp(START + timedelta(days=25))
    return touchpoints, conversions, users


@pytest.fixture(scope="module")
def both(spark):
    touchpoints, conversions, users = journeys()
    lent = [on_spark(spark, *each) for each in (("touched", touchpoints), ("converted", conversions))]
    observed = on_spark(spark, "observed", users)
    settings = {"lookback": LOOKBACK, "columns": {"milestone.lead": "led"}}
    ours = at.Paths.from_frames(touchpoints, conversions, users=users, **settings)
    return ours, at.Paths.from_frames(*lent, users=observed, **settings)


def same(left, right):
    pd.testing.assert_frame_equal(left, right, check_exact=False, rtol=1e-9, atol=1e-9)


def test_paths_and_their_counts_are_the_same(both):
    ours, lent = both
    assert (ours.to_pandas()["length"] == 0).any()
    same(lent.to_pandas(), ours.to_pandas())
    same(lent.summary(top=None), ours.summary(top=None))
    same(lent.lengths(), ours.lengths())
    same(lent.lags(), ours.lags())


def test_rules_equal_their_formulas(both):
    touchpoints, conversions, _ = journeys()
    touched = list(touchpoints[["user_id", "node_id", "date"]].itertuples(index=False, name=None))
    converted = list(conversions[["event_id", "user_id", "date", "value"]].itertuples(index=False, name=None))
    rules = list(rule_models())
    credits = at.attribute(both[1], rules)
    for rule in rules:
        rows = (
            credits[credits["model"] == rule].groupby("node_id", dropna=False)[["conversions", "value"]].sum()
        )
        for node, (count, value) in reference_credits(rule, touched, converted, LOOKBACK).items():
            found = rows[rows.index.isna()].iloc[0] if node is None else rows.loc[node]
            assert tuple(found) == pytest.approx((count, value), abs=1e-9), (rule, node)


MODELS = {
    "lead": at.models.PositionBased(0.3, 0.3, milestones={"lead": 0.3}),
    "own": at.models.CustomWeights(lambda touch: 1 / (1 + touch.age_days)),
    "shapley": at.models.Shapley(),
    "markov": at.models.Markov(),
    "second order": at.models.Markov(order=2, transform="exposure"),
    "first of last": at.models.Markov(transform="first", steps=3, nulls=False),
    "frequency": at.models.Markov(transform="frequency"),
    "fractribution": at.models.Fractribution(),
    "rates": at.models.ConversionRateShapley(),
    "hazard": at.models.DiscreteHazard(),
}


@pytest.mark.few(1)
@pytest.mark.parametrize("confidence", [None, 0.9])
def test_every_family_of_models_is_the_same_and_conserves(both, confidence):
    ours, lent = (at.attribute(paths, MODELS, confidence=confidence) for paths in both)
    same(lent, ours)
    for label in MODELS:
        assert lent.loc[lent["model"] == label, "conversions"].sum() == pytest.approx(60, rel=1e-9), label


def test_windows_resets_and_precedence_are_the_same(spark):
    touchpoints, conversions, _ = journeys()
    settings = {"lookback": {"click": "8D", "view": "1D"}, "precedence": ("click", "view"), "reset": "any"}
    ours = at.Paths.from_frames(touchpoints, conversions, **settings)
    lent = at.Paths.from_frames(on_spark(spark, "touched", touchpoints), conversions, **settings)
    same(lent.to_pandas(), ours.to_pandas())


def test_partitions_change_nothing(spark, both):
    touchpoints, conversions, _ = journeys()
    shuffled = touchpoints.sample(frac=1, random_state=1)
    many = spark._session.createDataFrame(pa.Table.from_pandas(shuffled, preserve_index=False)).repartition(7)
    many.createOrReplaceTempView("many")
    paths = at.Paths.from_frames(
        spark.table("many"), on_spark(spark, "converted", conversions), lookback=LOOKBACK
    )
    same(at.attribute(paths, ["time_decay", "markov"]), at.attribute(both[0], ["time_decay", "markov"]))


def test_random_numbers_are_the_same(spark):
    texts = ["", "ünï", *(f"user-{number}" for number in range(300)), None]
    on_spark(spark, "texts", pa.table({"text": texts}))
    ours = pa.table({"text": texts})
    from attrib_ds.attribution.engines.engine import engine, portable

    local = engine()
    local.con.register("texts", ours)
    found = []
    for table in (portable(spark).table("texts"), local.table("texts")):
        numbered = table.mutate(number=number_of(table.text), group=group_of(table.text, 20))
        found.append(numbered.order_by("text").to_pyarrow().to_pandas())
    assert len(found[0]) == len(texts)
    assert found[0]["number"].max() < PRIME
    pd.testing.assert_frame_equal(*found, check_dtype=False)


def test_errors_show_an_example(spark):
    touchpoints, conversions, _ = journeys()
    lent = on_spark(spark, "touched", touchpoints)
    missing = on_spark(spark, "wrong", conversions.assign(event_id=None).astype({"event_id": TEXT}))
    with pytest.raises(errors.InvalidRequest, match=r"conversions: 60 rows .* 'event_id' is missing"):
        at.Paths.from_frames(lent, missing)
    with pytest.raises(errors.InvalidRequest, match="memory: it cannot be set for tables in your own engine"):
        at.Paths.from_frames(lent, conversions, memory="1GB")
    text = on_spark(spark, "text", conversions.assign(date="2025-01-01"))
    with pytest.raises(errors.InvalidRequest, match="'date' holds string; allowed: timestamps or dates"):
        at.Paths.from_frames(lent, text)
