"""One contender of the attribution benchmark, run as a process of its own.

``python contenders.py NAME FOLDER`` prints one line of JSON: seconds from Parquet files to credits (imports not
counted), peak memory of the process in MB, and credited conversions by model and node.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from pathlib import Path


def attrib_ds(folder: Path):
    """All ten rule-based models, with lookback, in one call."""
    from attrib_ds.attribution.models import rule_models

    return _attribute(folder, list(rule_models()))


def attrib_ds_three(folder: Path):
    """The three rule-based models that ChannelAttribution has."""
    return _attribute(folder, ["first_touch", "last_touch", "linear"])


def _attribute(folder: Path, models: list[str]):
    import attrib_ds as at

    at.attribute(at.Paths.from_sequences(_warm(), path="path", conversions="n"), "linear")
    start = time.perf_counter()
    paths = at.Paths.from_frames(
        folder / "touchpoints.parquet", folder / "conversions.parquet", lookback="40D"
    )
    credits = at.attribute(paths, models)
    seconds = time.perf_counter() - start
    return seconds, {
        model: rows.set_index("node_id")["conversions"].to_dict() for model, rows in credits.groupby("model")
    }


def channel_attribution(folder: Path):
    """First, last and linear of ChannelAttribution, from path strings built the fastest way we know."""
    import ChannelAttribution
    import pandas as pd

    start = time.perf_counter()
    data = _path_strings(folder)
    credits = ChannelAttribution.heuristic_models(data, "path", "conversions", var_value="value", sep=">")
    seconds = time.perf_counter() - start
    frame = pd.DataFrame(credits).set_index("channel_name")
    named = {"first_touch": "first_touch", "last_touch": "last_touch", "linear": "linear_touch"}
    return seconds, {model: frame[f"{column}_conversions"].to_dict() for model, column in named.items()}


def marketing_attribution_models(folder: Path):
    """First, last, last non-direct, linear, position-based and time decay of marketing-attribution-models."""
    import pandas as pd
    from marketing_attribution_models import MAM

    start = time.perf_counter()
    frame = _converting_touches(folder)
    frame["converted"] = False
    last = ~frame["user_id"].duplicated(keep="last")
    frame.loc[last, "converted"] = True
    models = MAM(
        frame,
        group_channels=True,
        channels_colname="node_id",
        journey_with_conv_colname="converted",
        group_channels_by_id_list=["user_id"],
        group_timestamp_colname="date",
        create_journey_id_based_on_conversion=True,
    )
    results = {
        "first_touch": models.attribution_first_click(),
        "last_touch": models.attribution_last_click(),
        "linear": models.attribution_linear(),
        "position_based": models.attribution_position_based(),
        "time_decay": models.attribution_time_decay(),
    }
    seconds = time.perf_counter() - start
    by_node = {}
    for model, result in results.items():
        table = pd.DataFrame(result[1])
        by_node[model] = dict(zip(table.iloc[:, 0], table.iloc[:, -1].astype(float), strict=True))
    return seconds, by_node


def _warm():
    import pandas as pd

    return pd.DataFrame({"path": ["a > b"], "n": [1]})


def _converting_touches(folder: Path):
    import pandas as pd

    touchpoints = pd.read_parquet(folder / "touchpoints.parquet")
    conversions = pd.read_parquet(folder / "conversions.parquet", columns=["user_id", "value"])
    kept = touchpoints[touchpoints["user_id"].isin(conversions["user_id"])]
    return kept.sort_values(["user_id", "date"], ignore_index=True).merge(
        conversions, on="user_id", how="left"
    )


def _path_strings(folder: Path):
    """Join node names into paths by codes and lists, far faster than a groupby with a join."""
    import numpy as np
    import pandas as pd

    frame = _converting_touches(folder)
    starts = np.flatnonzero(~frame["user_id"].duplicated().to_numpy())
    nodes = frame["node_id"].tolist()
    ends = [*starts[1:].tolist(), len(nodes)]
    return pd.DataFrame(
        {
            "path": [">".join(nodes[start:end]) for start, end in zip(starts.tolist(), ends, strict=True)],
            "conversions": 1,
            "value": frame["value"].to_numpy()[starts],
        }
    )


if __name__ == "__main__":
    every = (attrib_ds, attrib_ds_three, channel_attribution, marketing_attribution_models)
    contenders = {each.__name__: each for each in every}
    measured, credited = contenders[sys.argv[1]](Path(sys.argv[2]))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"seconds": measured, "peak_mb": peak, "credited": credited}))
