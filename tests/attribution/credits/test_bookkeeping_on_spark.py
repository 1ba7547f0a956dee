"""Windows, later amounts, currencies and periods give the same results on Spark as on DuckDB."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import attrib_ds as at

pytestmark = pytest.mark.spark

RATES = pd.DataFrame({"currency": ["USD", "USD"], "date": ["2024-12-31", "2025-01-10"], "rate": [0.9, 0.5]})
OPTIONS = {
    "lookback": {"click": "5D", "view": "2D"},
    "node_lookbacks": {"c": "36h"},
    "precedence": ("click", "view"),
    "reset": "any",
    "columns": {"state": "led"},
    "anchor": "state",
    "in_currency": "EUR",
    "rates": RATES,
}


def frames():
    """Ties of time, and touchpoints at both bounds of windows."""
    random = np.random.default_rng(20250102)

    def half_days(count):
        return pd.Timestamp("2025-01-01", tz="UTC") + pd.to_timedelta(random.integers(0, 40, count) * 12, "h")

    touched = pd.DataFrame(
        {
            "user_id": [f"u{number}" for number in random.integers(0, 30, 300)],
            "node_id": random.choice(["a", "b", "c"], 300),
            "type": random.choice(["click", "view"], 300),
            "date": half_days(300),
        }
    )
    converted = pd.DataFrame(
        {
            "event_id": [f"e{number}" for number in range(60)],
            "user_id": [f"u{number}" for number in random.integers(0, 35, 60)],
            "date": half_days(60),
            "value": random.integers(1, 30, 60).astype(float),
            "currency": random.choice(["EUR", "USD"], 60),
        }
    )
    converted["led"] = (converted["date"] + pd.Timedelta("2D")).where(random.random(60) < 0.8)
    later = converted[["event_id", "date"]].iloc[::3].assign(value=-4.0)
    return {"touched": touched, "converted": converted, "later": later}


def on_spark(spark, name, frame):
    table = pa.Table.from_pandas(frame, preserve_index=False)
    spark._session.createDataFrame(table).createOrReplaceTempView(name)
    return spark.table(name)


def same(left, right):
    pd.testing.assert_frame_equal(left, right, check_exact=False, rtol=1e-9, atol=1e-9)


@pytest.fixture(scope="module")
def both(spark):
    given = frames()
    lent = {name: on_spark(spark, f"kept_{name}", frame) for name, frame in given.items()}
    return tuple(
        at.Paths.from_frames(each["touched"], each["converted"], adjustments=each["later"], **OPTIONS)
        for each in (given, lent)
    )


@pytest.mark.large
def test_paths_are_the_same(both):
    ours, lent = both
    assert (ours.to_pandas()["length"] > 1).any()
    same(lent.to_pandas(), ours.to_pandas())


def test_credits_are_the_same(both):
    ours, lent = both
    models = ["time_decay", "markov"]
    same(at.attribute(lent, models), at.attribute(ours, models))


@pytest.mark.large
def test_series_are_the_same(both):
    ours, lent = both
    options = {"date": "state", "interval": "week", "timezone": "America/New_York"}
    same(at.credit_series(lent, "linear", **options), at.credit_series(ours, "linear", **options))
