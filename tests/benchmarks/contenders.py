"""One contender of the attribution benchmark, run in a separate process.

``python contenders.py NAME FOLDER`` prints one line of JSON: seconds and processor seconds from Parquet files to credits
(without imports), processor seconds of the whole process, its peak memory in MB, and credited conversions by model and
node.
"""

import contextlib
import io
import json
import resource
import sys
import time
from pathlib import Path


def ours(folder: Path):
    """All ten rules, Markov 1 and 2, and Shapley by conversion rates, with a lookback."""
    import attrib_ds as at
    from attrib_ds.attribution.models import rule_models

    several = (
        {name: name for name in rule_models()} | _markov() | {"shapley": at.models.ConversionRateShapley()}
    )
    return _attribute(folder, several)


def ours_as_numpy_floor(folder: Path):
    """The five rules and two chains of the NumPy floor."""
    rules = ("first_touch", "last_touch", "linear", "position_based", "time_decay")
    return _attribute(folder, {name: name for name in rules} | _markov())


def ours_as_channel_attribution(folder: Path):
    """The three rules and the chain of order 1 that ChannelAttribution computes here."""
    import attrib_ds as at

    rules = ("first_touch", "last_touch", "linear")
    return _attribute(folder, {name: name for name in rules} | {"markov_1": at.models.Markov()})


def ours_rules(folder: Path):
    """All ten rules."""
    from attrib_ds.attribution.models import rule_models

    return _attribute(folder, {name: name for name in rule_models()})


THREE = ("first_touch", "last_touch", "linear")


def ours_three(folder: Path):
    """First, last and linear, from Parquet."""
    return _attribute(folder, {name: name for name in THREE})


def ours_three_from_frames(folder: Path):
    """First, last and linear, from pandas frames that are in memory."""
    return _attribute(folder, {name: name for name in THREE}, read=_pandas)


def _pandas(path: Path):
    import pandas as pd

    return pd.read_parquet(path)


#: What a good engineer writes: conversions with their touchpoints, first, last and number by conversion.
STATEMENT = """
WITH pairs AS (
    SELECT event_id, node_id, touched.date FROM {conversions} AS bought JOIN {touchpoints} AS touched
    ON touched.user_id = bought.user_id AND touched.date <= bought.date
    AND touched.date > bought.date - INTERVAL 40 DAY
), ends AS (
    SELECT event_id, arg_min(node_id, (date, node_id)) AS first, arg_max(node_id, (date, node_id)) AS last,
        count(*) AS length FROM pairs GROUP BY event_id
)
SELECT 'first_touch', first, count(*) FROM ends GROUP BY first
UNION ALL SELECT 'last_touch', last, count(*) FROM ends GROUP BY last
UNION ALL SELECT 'linear', node_id, sum(1 / length) FROM pairs JOIN ends USING (event_id) GROUP BY node_id
"""


def plain_duckdb(folder: Path):
    """First, last and linear in one statement of DuckDB, from Parquet."""
    import duckdb

    tables = {name: f"'{folder / name}.parquet'" for name in ("touchpoints", "conversions")}
    duckdb.sql("SELECT 1").fetchall()
    with measuring() as spent:
        rows = duckdb.connect().execute(STATEMENT.format(**tables)).fetchall()
    return spent, {model: {node: n for name, node, n in rows if name == model} for model in THREE}


#: The same for five rules and the transitions of chains, of users who convert and of those who do not.
TOUCHED = """
CREATE TEMP TABLE nodes AS
    SELECT node_id, (row_number() OVER (ORDER BY node_id) - 1)::INT AS code
    FROM (SELECT DISTINCT node_id FROM {touchpoints});
CREATE TEMP TABLE pairs AS
    SELECT event_id, node_id, length, position, length - position AS rest, 0.5 ** (age - min(age) OVER ends) AS decayed
    FROM (
        SELECT event_id, node_id, (epoch_us(bought.date) - epoch_us(touched.date)) / 6.048e11 AS age,
            row_number() OVER (PARTITION BY event_id ORDER BY touched.date, node_id) AS position,
            count(*) OVER (PARTITION BY event_id) AS length
        FROM {conversions} AS bought JOIN {touchpoints} AS touched ON touched.user_id = bought.user_id
            AND touched.date <= bought.date AND touched.date > bought.date - INTERVAL 40 DAY
    ) WINDOW ends AS (PARTITION BY event_id)
"""
RULES = """
SELECT node_id, sum((position = 1)::INT), sum((rest = 0)::INT), sum(1 / length),
    sum(CASE WHEN length = 1 THEN 1 WHEN length = 2 THEN 0.5 WHEN position = 1 OR rest = 0 THEN 0.4
        ELSE 0.2 / (length - 2) END), sum(decayed / whole)
FROM (SELECT *, sum(decayed) OVER (PARTITION BY event_id) AS whole FROM pairs) GROUP BY node_id ORDER BY node_id
"""
MOVES = """
SELECT coalesce(before_that, {size}) AS before_that, coalesce(before, {size}) AS before, code, is_last, converts, times
FROM (
    SELECT before_that, before, code, is_last, true AS converts, count(*) AS times
    FROM (
        SELECT code, lag(code) OVER steps AS before, lag(code, 2) OVER steps AS before_that, rest = 0 AS is_last
        FROM pairs JOIN nodes USING (node_id) WINDOW steps AS (PARTITION BY event_id ORDER BY position)
    ) GROUP BY ALL
    UNION ALL
    SELECT before_that, before, code, is_last, false, count(*)
    FROM (
        SELECT code, lag(code) OVER steps AS before, lag(code, 2) OVER steps AS before_that,
            lead(code) OVER steps IS NULL AS is_last
        FROM (
            SELECT user_id, date, code
            FROM {touchpoints} AS touched JOIN nodes USING (node_id) ANTI JOIN {conversions} USING (user_id)
        ) WINDOW steps AS (PARTITION BY user_id ORDER BY date, code)
    ) GROUP BY ALL
)
"""


def plain_duckdb_seven(folder: Path):
    """Five rules and two chains: paths and transitions in statements of DuckDB, chains in NumPy."""
    import duckdb
    from numpy_floor import credits_of_chain
    from threadpoolctl import threadpool_limits

    tables = {name: f"'{folder / name}.parquet'" for name in ("touchpoints", "conversions")}
    duckdb.sql("SELECT 1").fetchnumpy()
    with threadpool_limits(1), measuring() as spent:
        connection = duckdb.connect()
        connection.execute(TOUCHED.format(**tables))
        names = [name for (name,) in connection.execute("SELECT node_id FROM nodes ORDER BY code").fetchall()]
        columns = list(zip(*connection.execute(RULES).fetchall(), strict=True))[1:]
        found = dict(zip((*THREE, "position_based", "time_decay"), columns, strict=True))
        counted = connection.execute(MOVES.format(size=len(names), **tables)).fetchnumpy()
        moves = [counted[name] for name in ("before_that", "before", "code", "is_last", "converts")]
        for order in (1, 2):
            found[f"markov_{order}"] = credits_of_chain(
                *moves, len(names), order=order, times=counted["times"]
            ).tolist()
    return spent, {model: dict(zip(names, credited, strict=True)) for model, credited in found.items()}


def plain_polars(folder: Path):
    """First, last and linear in Polars, from Parquet."""
    import polars

    with measuring() as spent:
        credits = _three_in_polars(
            *(polars.scan_parquet(folder / f"{name}.parquet") for name in ("touchpoints", "conversions"))
        )
    return spent, credits


def plain_polars_from_frames(folder: Path):
    """First, last and linear in Polars, from pandas frames that are in memory."""
    import polars

    frames = [_pandas(folder / f"{name}.parquet") for name in ("touchpoints", "conversions")]
    with measuring() as spent:
        credits = _three_in_polars(*(polars.from_pandas(frame).lazy() for frame in frames))
    return spent, credits


def _three_in_polars(touchpoints, conversions):
    import polars
    from polars import col

    bought = conversions.select("event_id", "user_id", bought="date")
    pairs = (
        bought.join(touchpoints, on="user_id")
        .filter((col("date") <= col("bought")) & (col("date") > col("bought") - polars.duration(days=40)))
        .sort("date", "node_id")
        .select("event_id", "node_id")
        .collect()
    )
    ends = pairs.group_by("event_id").agg(
        first=col("node_id").first(), last=col("node_id").last(), length=polars.len()
    )
    found = {
        "first_touch": ends.group_by(node="first").agg(credit=polars.len()),
        "last_touch": ends.group_by(node="last").agg(credit=polars.len()),
        "linear": pairs.join(ends, on="event_id")
        .group_by(node="node_id")
        .agg(credit=(1 / col("length")).sum()),
    }
    return {model: dict(rows.iter_rows()) for model, rows in found.items()}


def _markov():
    import attrib_ds as at

    return {"markov_1": at.models.Markov(), "markov_2": at.models.Markov(order=2)}


def _attribute(folder: Path, models, *, read=Path):
    import pandas as pd

    import attrib_ds as at

    warm = pd.DataFrame({"path": ["a > b"], "n": [1], "lost": [1]})
    at.attribute(
        at.Paths.from_sequences(warm, path="path", conversions="n", nulls="lost"), ["linear", "markov"]
    )
    tables = [read(folder / f"{name}.parquet") for name in ("touchpoints", "conversions")]
    with measuring() as spent:
        paths = at.Paths.from_frames(*tables, lookback="40D")
        credits = at.attribute(paths, models)
    return spent, {
        model: rows.dropna(subset="node_id").set_index("node_id")["conversions"].to_dict()
        for model, rows in credits.groupby("model")
    }


def numpy_floor(folder: Path):
    """Five rules and exact chains of order 1 and 2, in plain NumPy."""
    from numpy_floor import credits_of

    with measuring() as spent:
        credits = credits_of(folder)
    return spent, credits


def channel_attribution(folder: Path):
    """First, last, linear and Markov 1 of ChannelAttribution, from path strings."""
    import ChannelAttribution
    import pandas as pd

    with measuring() as spent:
        data = _path_strings(folder)
        rules = ChannelAttribution.heuristic_models(data, "path", "conversions", sep=">", flg_pro=False)
        chain = ChannelAttribution.markov_model(
            data, "path", "conversions", var_null="nulls", sep=">", seed=1, verbose=False, flg_pro=False
        )
    frame = pd.DataFrame(rules).set_index("channel_name")
    named = {"first_touch": "first_touch", "last_touch": "last_touch", "linear": "linear_touch"}
    chained = pd.DataFrame(chain).set_index("channel_name")["total_conversions"]
    return spent, {model: frame[column].to_dict() for model, column in named.items()} | {
        "markov_simulated": chained.to_dict()
    }


def marketing_attribution_models(folder: Path):
    """First, last, linear, position, time decay and the chain of marketing-attribution-models."""
    import polars
    from mam.core import MAM

    with measuring() as spent:
        touches = polars.read_parquet(folder / "touchpoints.parquet")
        buyers = polars.read_parquet(folder / "conversions.parquet", columns=["user_id"])["user_id"]
        touches = touches.with_columns(
            converted=polars.col("user_id").is_in(buyers.implode())
            & (polars.col("date") == polars.col("date").max().over("user_id"))
        )
        models = MAM(
            touches,
            format_type="session",
            channels_colname="node_id",
            journey_with_conv_colname="converted",
            datetime_colname="date",
            user_id_colname="user_id",
        )
        results = {
            "first_touch": models.run_first_click(),
            "last_touch": models.run_last_click(),
            "linear": models.run_linear(),
            "position_based": models.run_position_based(),
            "time_decay_by_seconds": models.run_time_decay(),
            "markov_mam": models.run_markov(),
        }
        found = {name: each.to_polars().select("channels", "attribution") for name, each in results.items()}
    return spent, {name: dict(each.iter_rows()) for name, each in found.items()}


@contextlib.contextmanager
def measuring():
    """Measure the seconds and processor seconds of a block."""
    spent: dict[str, float] = {}
    before, start = processor(), time.perf_counter()
    yield spent
    spent |= {"seconds": time.perf_counter() - start, "processor": processor() - before}


def processor() -> float:
    """Return the processor seconds of this process, over all threads."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _path_strings(folder: Path):
    """Build path strings from integer codes and lists, which is much faster than a groupby with a join."""
    import numpy as np
    import pandas as pd

    touches = pd.read_parquet(folder / "touchpoints.parquet")
    buyers = pd.read_parquet(folder / "conversions.parquet", columns=["user_id"])["user_id"]
    users, user_ids = pd.factorize(touches["user_id"])
    order = np.lexsort((touches["date"].astype("int64").to_numpy(), users))
    users = users[order]
    nodes = touches["node_id"].to_numpy()[order].tolist()
    starts = np.flatnonzero(np.diff(users, prepend=-1))
    ends = [*starts[1:].tolist(), len(nodes)]
    converts = pd.Index(user_ids).isin(buyers)[users[starts]].astype(int)
    paths = [">".join(nodes[start:end]) for start, end in zip(starts.tolist(), ends, strict=True)]
    return pd.DataFrame({"path": paths, "conversions": converts, "nulls": 1 - converts})


if __name__ == "__main__":
    functions = (
        ours,
        ours_as_numpy_floor,
        ours_as_channel_attribution,
        ours_rules,
        ours_three,
        ours_three_from_frames,
        plain_duckdb,
        plain_duckdb_seven,
        plain_polars,
        plain_polars_from_frames,
        numpy_floor,
        channel_attribution,
        marketing_attribution_models,
    )
    contenders = {function.__name__: function for function in functions}
    with contextlib.redirect_stdout(io.StringIO()):
        measured, credited = contenders[sys.argv[1]](Path(sys.argv[2]))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps(measured | {"process": processor(), "peak_mb": peak, "credited": credited}))
