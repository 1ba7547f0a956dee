"""The same journeys for every engine: ties of time, ids whose order depends on the locale, two currencies."""

from functools import cache

import numpy as np
import pandas as pd
import pyarrow as pa

import attrib_ds as at
from attrib_ds.attribution.models import rule_models

RATES = pd.DataFrame({"currency": ["USD", "USD"], "date": ["2024-12-31", "2025-01-15"], "rate": [0.9, 0.5]})

MODELS = {
    **dict.fromkeys(rule_models()),
    "steps": at.models.TimeDecay("7D", step="1D"),
    "a minute": at.models.TimeDecay("1min"),
    "own": at.models.CustomWeights(lambda touch: 1 / (1 + touch.age_days)),
    "markov": at.models.Markov(),
    "second order": at.models.Markov(order=2, transform="exposure"),
    "first of last": at.models.Markov(transform="first", steps=3, nulls=False),
    "frequency": at.models.Markov(transform="frequency"),
    "shapley": at.models.Shapley(),
    "rates": at.models.ConversionRateShapley(),
    "fractribution": at.models.Fractribution(),
    "discrete": at.models.DiscreteHazard(),
}
MODELS = {name: name if model is None else model for name, model in MODELS.items()}


def world():
    """Ties of time, ids whose order depends on the locale, two currencies, refunds.

    Adding a Timedelta gives nanoseconds on pandas 2.
    """
    random = np.random.default_rng(20250103)
    found = at.simulate("synergy", users=2_000, seed=7)
    touched, converted = pd.DataFrame(found.touchpoints).copy(), pd.DataFrame(found.conversions).copy()
    names = {"email": "Email", "social": "_social", "display": "dIsplay"}
    touched["node_id"] = touched["node_id"].map(lambda node: names.get(node, node))
    touched["date"] = touched["date"].dt.floor("12h").astype("datetime64[us, UTC]")
    touched["type"] = random.choice(["click", "view"], len(touched))
    touched["touch_id"] = [f"{'tT_-'[number % 4]}{number * 7919}" for number in range(len(touched))]
    converted["date"] = converted["date"].astype("datetime64[us, UTC]")
    converted["value"] = random.gamma(2, 40, len(converted)).round(2)
    converted["currency"] = random.choice(["EUR", "USD"], len(converted))
    converted["kind"] = [f"k{number % 2}" for number in range(len(converted))]
    led = converted["date"] - pd.Timedelta("2D")
    converted["led"] = led.where(np.arange(len(converted)) % 3 > 0).dt.as_unit("us")
    refunds = converted[["event_id", "date", "value"]].iloc[::3].copy()
    refunds["date"] = (refunds["date"] + pd.Timedelta("3D")).dt.as_unit("us")
    refunds["value"] /= -2
    users = pd.DataFrame(found.users).astype({"since": "datetime64[us, UTC]", "until": "datetime64[us, UTC]"})
    return {"touched": touched, "converted": converted, "refunds": refunds, "observed": users}


def tables_of(frames):
    """The same data as tables of a project."""
    random = np.random.default_rng(20250104)
    touched, converted = frames["touched"], frames["converted"]
    names = {"touch_id": "_id", "user_id": "userId", "node_id": "nodeId", "date": "startDate"}
    interactions = touched.rename(columns=names)
    interactions["isBot"] = random.random(len(touched)) < 0.1
    interactions["duration"] = random.random(len(touched)) * 100
    interactions["geo.city"] = random.choice(["Paris", "paris", "Évry", None], len(touched))
    names = {"event_id": "_id", "user_id": "userId", "date": "eventDate", "value": "statistics.turnover"}
    events = converted.drop(columns=["kind", "led"]).rename(
        columns=names | {"currency": "statistics.turnover.currency"}
    )
    events["eventType"] = "order"
    paid = events["eventDate"] + pd.Timedelta("2D")
    events["states.paid"] = paid.where(random.random(len(events)) < 0.8).dt.as_unit("us")
    events["statistics.refund"] = -events["statistics.turnover"] / 4
    events["statistics.refund.currency"] = events["statistics.turnover.currency"]
    nodes = pd.DataFrame({"_id": sorted(touched["node_id"].unique())})
    nodes["name"] = nodes["_id"].str.title()
    nodes["channel"] = ["paid" if number % 2 else "free" for number in range(len(nodes))]
    return {"interactions": interactions, "events": events, "nodes": nodes}


@cache
def engine_tables():
    """Every table, in Arrow."""
    frames = world()
    texts = pd.DataFrame({"text": ["", "ünï", *(f"user-{number}" for number in range(300)), None]})
    tables = frames | tables_of(frames) | {"texts": texts}
    return {name: pa.Table.from_pandas(frame, preserve_index=False) for name, frame in tables.items()}
