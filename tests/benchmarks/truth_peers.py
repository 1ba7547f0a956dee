"""Credits of another package for journeys on disk, run in its own environment.

``python truth_peers.py NAME FOLDER`` reads ``touchpoints.parquet`` and ``conversions.parquet`` and prints one line of
JSON: credited conversions by model and node.
"""

import contextlib
import io
import json
import sys
from pathlib import Path

import numpy as np
import pandas as pd


def channel_attribution(folder: Path) -> dict[str, dict[str, float]]:
    """First, last and linear, and Markov of order 1 and 2 with null paths."""
    import ChannelAttribution

    touches = _touches(folder)
    starts = np.flatnonzero(~touches["user_id"].duplicated().to_numpy())
    nodes = touches["node_id"].tolist()
    ends = [*starts[1:].tolist(), len(nodes)]
    frame = pd.DataFrame(
        {
            "path": [">".join(nodes[start:end]) for start, end in zip(starts.tolist(), ends, strict=True)],
            "conversions": touches["converts"].to_numpy()[starts].astype(int),
        }
    )
    frame["nulls"] = 1 - frame["conversions"]
    data = frame.groupby("path", as_index=False).sum()
    rules = pd.DataFrame(
        ChannelAttribution.heuristic_models(data, "path", "conversions", sep=">", flg_pro=False)
    )
    credits = {
        name: dict(zip(rules["channel_name"], rules[column], strict=True))
        for name, column in (
            ("first_touch", "first_touch"),
            ("last_touch", "last_touch"),
            ("linear", "linear_touch"),
        )
    }
    for order in (1, 2):
        found = ChannelAttribution.markov_model(
            data,
            "path",
            "conversions",
            var_null="nulls",
            order=order,
            sep=">",
            seed=1,
            verbose=False,
            flg_pro=False,
        )
        table = pd.DataFrame(found)
        credits[f"markov_{order}"] = dict(
            zip(table["channel_name"], table["total_conversions"].astype(float), strict=True)
        )
    return credits


def marketing_attribution_models(folder: Path) -> dict[str, dict[str, float]]:
    """Time decay, position, Markov and Shapley, with default arguments."""
    from mam.core import MAM

    touches = _touches(folder)
    touches["converted"] = touches["converts"] & ~touches["user_id"].duplicated(keep="last")
    models = MAM(
        touches[["user_id", "date", "node_id", "converted"]],
        format_type="session",
        channels_colname="node_id",
        journey_with_conv_colname="converted",
        datetime_colname="date",
        user_id_colname="user_id",
    )
    found = {
        "time_decay": models.run_time_decay(),
        "position_based": models.run_position_based(),
        "markov": models.run_markov(),
        "shapley": models.run_shapley(),
    }
    return {
        name: dict(each.to_polars().select("channels", "attribution").iter_rows())
        for name, each in found.items()
    }


def _touches(folder: Path) -> pd.DataFrame:
    """Return touchpoints by user and time, with a flag for users who converted."""
    touches = pd.read_parquet(folder / "touchpoints.parquet")
    conversions = pd.read_parquet(folder / "conversions.parquet", columns=["user_id"])
    touches["converts"] = touches["user_id"].isin(conversions["user_id"])
    return touches.sort_values(["user_id", "date"], ignore_index=True)


if __name__ == "__main__":
    packages = {
        function.__name__: function for function in (channel_attribution, marketing_attribution_models)
    }
    with contextlib.redirect_stdout(io.StringIO()):
        credits = packages[sys.argv[1]](Path(sys.argv[2]))
    print(json.dumps(credits))
