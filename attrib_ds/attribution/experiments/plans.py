"""Plan a holdout: how many users to withhold a node from."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from statistics import NormalDist
from typing import Any, Final

import ibis.expr.types as ir
import numpy as np
import pandas as pd
from scipy.stats import t as student

from attrib_ds.attribution.arrays import Numbers
from attrib_ds.attribution.experiments import contrasts
from attrib_ds.attribution.models import check_level
from attrib_ds.attribution.paths.paths import Paths
from attrib_ds.display import counted
from attrib_ds.errors import InvalidRequest, check_number, check_whole
from attrib_ds.records.frames import TEXT, to_pandas

#: One amount, several, or a mapping from nodes to amounts.
Amounts = float | Sequence[float] | Mapping[str, float]

#: Largest fraction of users to withhold a node from; a comparison is most precise at about this fraction.
_LARGEST_SHARE: Final = 0.5


def plan_holdout(
    paths: Paths | None = None,
    *,
    users: int | None = None,
    rate: float | None = None,
    effect: Amounts | None = None,
    precision: Amounts | None = None,
    share: Amounts | None = None,
    power: float = 0.8,
    confidence: float = 0.95,
    cluster: str | None = None,
) -> pd.DataFrame:
    """Plan how many users to withhold a node from.

    Pass exactly one of ``effect`` (to detect), ``precision`` (of the estimate) and ``share`` (of users to
    withhold from).

    Parameters
    ----------
    paths : Paths, optional
        Paths of a past period as long as the experiment, from which users and their conversions are counted:
        the users of ``Paths.from_frames(users=...)``, otherwise all with a touchpoint or a conversion.
    users : int, optional
        Number of participants, at least 4; required without paths.
    rate : float, optional
        Conversions per user in the period if nothing is withheld, between 0 and 1; required without paths.
        Assumes at most one conversion per user.
    effect : float, sequence or mapping, optional
        Conversions that a node is expected to cause in the period among all users, for example the estimate
        of an incremental model; a mapping gives one per node. Below 0 if the node is expected to prevent
        conversions; 0 cannot be detected (see the notes).
    precision : float, sequence or mapping, optional
        Half-width of the interval to reach, in conversions, above 0; a mapping gives one per node.
    share : float, sequence or mapping, optional
        Fraction of users to withhold the node from, between 0 and 1, and at least 2 users on either side; a
        mapping gives one per node.
    power : float, default 0.8
        Probability of detecting the effect, between 0 and 1: that the interval excludes zero.
    confidence : float, default 0.95
        Level of the interval, between 0 and 1.
    cluster : str, optional
        Column of ``Paths.from_frames(users=...)`` whose values are withheld as a whole, such as regions. The
        clusters of the past period show how much they differ. ``share`` and ``withheld`` then count clusters.

    Returns
    -------
    DataFrame
        One row per amount, in the given order: ``node_id`` (str, null without a mapping), ``share`` (float64,
        smallest sufficient fraction of users, at most 0.5; null if 0.5 is not enough), ``withheld`` (Int64,
        number of users; null without a share), ``error`` (float64, standard error of the conversions caused),
        ``precision`` (float64, half-width of the interval), ``detectable`` (float64, size of the smallest
        effect detected with ``power``), ``effect`` (float64, as given) and ``power`` (float64, of detecting
        it; null without an effect or a share). Without a share, ``error``, ``precision`` and X

    Raises
    ------
    InvalidRequest
        If not exactly one of ``effect``, ``precision`` and ``share`` is given, not ``paths`` or both
        ``users`` and ``rate`` are given, or a number is out of range.

    Notes
    -----
    A fraction ``s`` of ``n`` users is withheld, and a withheld user has ``T / n`` fewer conversions. The
    variance of the estimated effect ``T`` is ``n (v1 / (1 - s) + v0 / s)``, with the variances ``v1`` and
    ``v0`` of a user's conversions with and without the node. The effect is detected with the requested power
    if its size is ``z(confidence) + z(power)`` standard errors. So an effect below 0 needs about as many
    withheld users as one above 0 of the same size; slightly more if users and a rate are given, because
    withheld users then convert more often, which varies more. No holdout detects an effect of exactly 0: the
    share is null, and ``detectable`` says which effects half of the users could rule out. To show that an
    effect is close to 0, pass ``precision``.
    With clusters, ``v1`` and ``v0`` are the variance of a cluster's conversions beyond those that its number
    of users explains, ``n`` is the number of clusters, and quantiles are those of a t distribution with the
    degrees of freedom of :func:`holdout_effects`.
    Nodes that are withheld independently can share their users. Logged opportunities
    (:func:`holdout_effects`) reduce the error by about a third.

    References
    ----------
    Lewis and Rao (2015), The unfavorable economics of measuring the returns to advertising, Quarterly Journal
    of Economics 130(4) (on the size of such experiments).

    Examples
    --------
    >>> import attrib_ds as at
    >>> plan = at.experiments.plan_holdout(users=1_000_000, rate=0.04, effect=[3_000, -3_000, 1_000])
    >>> plan["share"].round(3).tolist(), plan["detectable"].round().tolist()
    ([0.032, 0.037, nan], [3000.0, 3000.0, 1091.0])
    """
    power, confidence = check_level("power", power), check_level("confidence", confidence)
    goals = {"effect": effect, "precision": precision, "share": share}
    given = {name: amounts for name, amounts in goals.items() if amounts is not None}
    if len(given) != 1:
        raise InvalidRequest(
            f"effect: {len(given)} of effect, precision and share are given; allowed: exactly one"
        )
    ((goal, amounts),) = given.items()
    count, mean, variance = _population(paths, users, rate)
    clusters = None if cluster is None else _of_clusters(paths, cluster)
    normal = NormalDist()
    reach, margin = normal.inv_cdf(0.5 + confidence / 2), normal.inv_cdf(power)
    if reach + margin <= 0:
        raise InvalidRequest(
            f"power: {power!r} is not allowed; allowed: above {0.5 - confidence / 2:.3g}, the probability of "
            "a significant result by chance"
        )
    is_binary = paths is None
    fewest = (1 - 1e-9) * 2 / (count if clusters is None else len(clusters))
    rows = []
    limits = {
        "effect": (-count * (1 - mean) if is_binary else -math.inf, count * mean),
        "precision": (0.0, math.inf),
        # A comparison needs two users or clusters on either side.
        "share": (fewest, 1.0 - fewest),
    }
    for node_id, amount in _amounts(goal, amounts, *limits[goal]):
        if clusters is not None:
            rows.append({"node_id": node_id} | _row(goal, amount, clusters, power, confidence))
            continue
        caused = amount if goal == "effect" else 0.0
        # The rate of withheld users, who convert at most once if the rate was given.
        other = mean - caused / count
        without = other * (1 - other) if is_binary else variance
        if goal == "share":
            chosen = amount
        else:
            wanted = abs(amount) / (reach + (margin if goal == "effect" else 0.0))
            chosen = _smallest_share(variance, without, wanted**2 / count)
            # A comparison needs at least two withheld users.
            chosen = max(chosen, 2 / count) if chosen > 0 else chosen
        is_enough = not math.isnan(chosen)
        applied = chosen if is_enough else _LARGEST_SHARE
        error = math.sqrt(count * (variance / (1 - applied) + without / applied))
        has_power = goal == "effect" and is_enough and error > 0
        rows.append(
            {
                "node_id": node_id,
                "share": chosen,
                "withheld": math.ceil(round(chosen * count, 6)) if is_enough else pd.NA,
                "error": error,
                "precision": reach * error,
                "detectable": (reach + margin) * error,
                "effect": caused if goal == "effect" else math.nan,
                "power": normal.cdf(abs(caused) / error - reach) if has_power else math.nan,
            }
        )
    return pd.DataFrame(rows).astype({"node_id": TEXT, "withheld": "Int64"})


def _population(paths: Paths | None, users: int | None, rate: float | None) -> tuple[int, float, float]:
    """Return the number of users, and the mean and variance of a user's conversions."""
    if paths is None:
        if users is None or rate is None:
            raise InvalidRequest("paths: nothing to plan from; pass paths, or users and rate")
        users = check_whole("users", users, minimum=4)
        rate = check_level("rate", rate)
        return int(users), rate, rate * (1 - rate)
    if users is not None or rate is not None:
        raise InvalidRequest(
            "paths: users and rate are counted from paths; allowed: paths, or users and rate"
        )
    if not paths.has_users:
        raise InvalidRequest("paths: aggregated paths have no users; give users and rate")
    last, converted = _converted(paths)
    per_user = np.sort(np.asarray(converted))
    if paths.observed is not None:
        count = int(paths.observed.count().to_pyarrow().as_py())
    else:
        seen = last.select("user_id")
        if paths.touchpoints is not None:
            points = paths.touchpoints
            seen = seen.union(points.filter(points.user_id.notnull()).select("user_id"))
        count = int(seen.distinct().count().to_pyarrow().as_py())
    if not per_user.sum() or count < 4:
        raise InvalidRequest(
            f"paths: {counted(count, 'users')} and {counted(per_user.sum(), 'conversions')}; allowed: "
            "at least 4 users and some conversions"
        )
    mean = float(per_user.sum() / count)
    return count, mean, float((per_user**2).sum() / count - mean**2)


def _converted(paths: Paths) -> tuple[ir.Table, pd.Series[float]]:
    """Return the last touchpoints of paths, and the conversions of each user with some."""
    last = paths.ends
    converted = to_pandas(last.group_by("user_id").agg(count=last.conversions.sum()).to_pyarrow())
    return last, converted.set_index("user_id")["count"].astype("float64")


def _of_clusters(paths: Paths | None, cluster: str) -> Numbers:
    """Return the conversions of each cluster beyond those that its number of users explains."""
    observed = None if paths is None else paths.observed
    if paths is None or observed is None or cluster == "user_id":
        raise InvalidRequest(
            f"cluster: {cluster!r} is not allowed here; allowed: a column of Paths.from_frames(users=…), "
            "with those paths as the first argument"
        )
    table = to_pandas(observed.select("user_id").order_by("user_id").to_pyarrow())
    users = pd.Index(table["user_id"], dtype=TEXT)
    (number,) = contrasts.clusters_of(paths, users, cluster).values()
    count = _converted(paths)[1].reindex(users).fillna(0.0).to_numpy()
    sums = np.bincount(number, count - count.mean())
    if len(sums) < 4:
        raise InvalidRequest(f"cluster: {cluster!r} has {len(sums)} values; allowed: columns with 4 or more")
    return np.asarray(sums)


def _row(goal: str, amount: float, clusters: Numbers, power: float, confidence: float) -> dict[str, Any]:
    """Plan how many clusters to withhold from, the fewest that suffice."""
    count = len(clusters)
    # As floats, since the products of counts would overflow.
    several = np.arange(2, count // 2 + 1, dtype=np.float64)
    held = np.clip([round(amount * count)] if goal == "share" else several, 2.0, count - 2.0)
    others = count - held
    error = count * math.sqrt(clusters @ clusters / (count - 1)) * np.sqrt(1 / held + 1 / others)
    degrees = (1 / held + 1 / others) ** 2 / (1 / (held**2 * (held - 1)) + 1 / (others**2 * (others - 1)))
    reach = student.ppf(0.5 + confidence / 2, degrees)
    precision, detectable = reach * error, (reach + student.ppf(power, degrees)) * error
    reached = {"effect": detectable <= abs(amount), "precision": precision <= amount}.get(goal, held > 0)
    best = int(np.argmax(reached)) if reached.any() else -1
    is_enough = bool(reached.any())
    has_power = goal == "effect" and is_enough and amount != 0 and error[best] > 0
    return {
        "share": held[best] / count if is_enough else math.nan,
        "withheld": int(held[best]) if is_enough else pd.NA,
        "error": error[best],
        "precision": precision[best],
        "detectable": detectable[best],
        "effect": amount if goal == "effect" else math.nan,
        "power": student.cdf(abs(amount) / error[best] - reach[best], degrees[best])
        if has_power
        else math.nan,
    }


def _amounts(goal: str, given: Any, low: float, high: float) -> list[tuple[str | None, float]]:
    """Return amounts with their nodes, if they have some."""
    if isinstance(given, Mapping):
        pairs: list[tuple[str | None, Any]] = [(str(node), amount) for node, amount in given.items()]
    else:
        pairs = [(None, amount) for amount in (given if isinstance(given, Iterable) else [given])]
    for _, amount in pairs:
        check_number(goal, amount, f"numbers above {low:,.6g} and below {high:,.6g}", above=low, below=high)
    if not pairs:
        raise InvalidRequest(f"{goal} is empty; allowed: at least one number", field=goal)
    return [(node, float(amount)) for node, amount in pairs]


def _smallest_share(variance: float, without: float, wanted: float) -> float:
    """Return the smallest share ``s`` up to a half with ``variance/(1-s) + without/s <= wanted``, or NaN."""
    if wanted <= 0:
        return math.nan
    half = wanted + without - variance
    root = half**2 - 4 * wanted * without
    if root < 0:
        return math.nan
    share = (half - math.sqrt(root)) / (2 * wanted)
    return share if 0 < share <= _LARGEST_SHARE else math.nan
