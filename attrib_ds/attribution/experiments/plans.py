"""Plans a holdout: how many users to withhold a node from."""

from __future__ import annotations

import math
from collections.abc import Mapping
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from attrib_ds.attribution.models.model import check_level
from attrib_ds.errors import InvalidRequest
from attrib_ds.records.frames import to_pandas

if TYPE_CHECKING:
    from collections.abc import Sequence

    from attrib_ds.attribution.paths.paths import Paths

    #: One amount, several, or one for each of some nodes.
    Amounts = float | Sequence[float] | Mapping[str, float]


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
) -> pd.DataFrame:
    """Plan how many users to withhold a node from, or see what a plan would show.

    Tell one of three things: an effect that is to be found, a precision that is wanted, or the share of users
    that can be spared.

    Parameters
    ----------
    paths : Paths, optional
        Of a period as long as the experiment will be; users and their conversions are counted in it. With
        ``Paths.from_frames(users=...)`` these are the users, otherwise all who had a touchpoint or converted.
    users : int, optional
        Who will take part; needed without paths.
    rate : float, optional
        Conversions per user in the period while nothing is withheld, 0 to 1; needed without paths. A user
        converts once at most then.
    effect : float, sequence or mapping, optional
        Conversions that a node is thought to cause in the period among all users, such as an incremental
        model finds them; a mapping gives one for each node.
    precision : float, sequence or mapping, optional
        Conversions from the middle of the interval to either end.
    share : float, sequence or mapping, optional
        Share of users to withhold the node from, 0 to 1.
    power : float, default 0.8
        Probability that an effect of that size is found: that the interval does not include zero.
    confidence : float, default 0.95
        Level of the interval.

    Returns
    -------
    DataFrame
        One row per amount, in the given order: ``node_id`` (str, null without a mapping), ``share`` (float64,
        of users to withhold from; the smallest that does, at most a half; null where even a half does not),
        ``withheld`` (Int64, users), ``error`` (float64, standard error of the conversions caused),
        ``precision`` (half the width of the interval), ``detectable`` (the smallest effect found with
        ``power``), ``effect`` (as given) and ``power`` (of finding it; null without an effect).

    Raises
    ------
    InvalidRequest
        If not exactly one of effect, precision and share is given, users or rate are missing, or a number is
        not allowed.

    Notes
    -----
    Withheld are ``s`` of ``n`` users, who convert ``T / n`` less. The variance of the conversions caused is
    ``n (v1 / (1 - s) + v0 / s)``, with the variances ``v`` of a user's conversions with the node and without;
    the effect is found with the power asked for where ``T`` is ``z(confidence) + z(power)`` standard errors.
    Nodes that are withheld independently do not take users from each other. Opportunities that are logged
    (:func:`holdout_effects`) make the error about a third smaller than planned here.

    References
    ----------
    Lewis and Rao (2015), The unfavorable economics of measuring the returns to advertising, Quarterly Journal
    of Economics 130(4), on how large such experiments have to be.

    Examples
    --------
    >>> from attrib_ds import experiments
    >>> plan = experiments.plan_holdout(users=1_000_000, rate=0.04, effect=[3_000, 1_000])
    >>> plan["share"].round(3).tolist(), plan["detectable"].round().tolist()
    ([0.032, nan], [3000.0, nan])
    """
    for argument, level in (("power", power), ("confidence", confidence)):
        check_level(argument, level)
    told = {name: given for name, given in _named(effect, precision, share) if given is not None}
    if len(told) != 1:
        raise InvalidRequest(
            f"effect: {len(told)} of effect, precision and share are given; allowed: exactly one",
            field="effect",
        )
    ((asked, given),) = told.items()
    count, mean, variance = _population(paths, users, rate)
    normal = NormalDist()
    reach, found = normal.inv_cdf(0.5 + confidence / 2), normal.inv_cdf(power)
    if reach + found <= 0:
        raise InvalidRequest(
            f"power: {power!r} is not allowed; allowed: more than the {0.5 - confidence / 2:.3g} that chance "
            "alone gives",
            field="power",
        )
    is_binary = paths is None
    rows = []
    for node_id, amount in _amounts(asked, given, most=count * mean):
        caused = amount if asked == "effect" else 0.0
        # A user who would have converted once with the node converts no more than once without it.
        less = mean - caused / count
        without = less * (1 - less) if is_binary else variance
        if asked == "share":
            chosen = amount
        else:
            wanted = amount / (reach + (found if asked == "effect" else 0.0))
            chosen = _smallest_share(variance, without, wanted**2 / count)
            # Fewer than two cannot be compared with anybody.
            chosen = max(chosen, 2 / count) if chosen > 0 else chosen
        error = math.sqrt(count * (variance / (1 - chosen) + without / chosen))
        rows.append(
            {
                "node_id": node_id,
                "share": chosen,
                "withheld": pd.NA if math.isnan(chosen) else math.ceil(round(chosen * count, 6)),
                "error": error,
                "precision": reach * error,
                "detectable": (reach + found) * error,
                "effect": caused if asked == "effect" else math.nan,
                "power": normal.cdf(caused / error - reach) if asked == "effect" and error > 0 else math.nan,
            }
        )
    return pd.DataFrame(rows).astype({"node_id": "str", "withheld": "Int64"})


def _named(effect: object, precision: object, share: object) -> list[tuple[str, Any]]:
    return [("effect", effect), ("precision", precision), ("share", share)]


def _population(paths: Paths | None, users: int | None, rate: float | None) -> tuple[int, float, float]:
    """Return the number of users, and mean and variance of a user's conversions."""
    if paths is None:
        if users is None or rate is None:
            raise InvalidRequest(
                "paths: there are none, and not both users and rate; allowed: paths, or users and rate",
                field="paths",
            )
        if not isinstance(users, int | np.integer) or isinstance(users, bool) or users < 4:
            raise InvalidRequest(
                f"users: {users!r} is not allowed; allowed: whole numbers, 4 or more", field="users"
            )
        check_level("rate", rate)
        return int(users), rate, rate * (1 - rate)
    if users is not None or rate is not None:
        raise InvalidRequest(
            "paths: users and rate are counted in them; allowed: one or the other", field="paths"
        )
    if not paths.has_users:
        raise InvalidRequest("paths: aggregated paths have no users; give users and rate", field="paths")
    touches = paths.touches
    last = touches.filter(touches.position == touches.length)
    converted = to_pandas(last.group_by("user_id").agg(count=last.conversions.sum()).to_pyarrow())
    per_user = np.sort(np.asarray(converted["count"], dtype=np.float64))
    if paths.observed is not None:
        count = int(paths.observed.count().to_pyarrow().as_py())
    else:
        seen = last.select("user_id")
        if paths.touchpoints is not None:
            points = paths.touchpoints
            seen = seen.union(points.filter(points.user_id.notnull()).select("user_id"))
        count = int(seen.distinct().count().to_pyarrow().as_py())
    if not per_user.sum() or count < 4:
        raise InvalidRequest("paths: allowed are 4 users or more, and some conversions", field="paths")
    mean = float(per_user.sum() / count)
    return count, mean, float((per_user**2).sum() / count - mean**2)


def _amounts(asked: str, given: Any, *, most: float) -> list[tuple[str | None, float]]:
    pairs: list[tuple[str | None, Any]]
    if isinstance(given, Mapping):
        pairs = [(str(node), amount) for node, amount in given.items()]
    elif isinstance(given, int | float) and not isinstance(given, bool):
        pairs = [(None, given)]
    else:
        try:
            pairs = [(None, amount) for amount in given]
        except TypeError:
            pairs = [(None, given)]
    limits = {"effect": most, "precision": math.inf, "share": 1.0}
    words = {
        "effect": f"conversions above 0 and below the {most:,.6g} that there are",
        "precision": "conversions above 0",
        "share": "between 0 and 1",
    }
    checked: list[tuple[str | None, float]] = []
    for node, amount in pairs:
        is_number = isinstance(amount, int | float | np.number) and not isinstance(amount, bool)
        if not is_number or not 0 < float(amount) < limits[asked]:
            raise InvalidRequest(f"{asked}: {amount!r} is not allowed; allowed: {words[asked]}", field=asked)
        checked.append((node, float(amount)))
    if not checked:
        raise InvalidRequest(f"{asked}: there is none; allowed: one or more", field=asked)
    return checked


def _smallest_share(variance: float, without: float, wanted: float) -> float:
    """Return the smallest share ``s`` up to a half with ``variance/(1-s) + without/s <= wanted``, or NaN."""
    half = wanted + without - variance
    root = half**2 - 4 * wanted * without
    if root < 0:
        return math.nan
    share = (half - math.sqrt(root)) / (2 * wanted)
    return share if 0 < share <= 0.5 else math.nan
