"""Effects of nodes, measured by randomised holdouts."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pandas as pd

from attrib_ds.attribution.experiments.balance import Balance, balance, warn_of_imbalance
from attrib_ds.attribution.experiments.contrasts import contrast
from attrib_ds.attribution.experiments.covariates import covariates_of
from attrib_ds.attribution.experiments.draws import complete_draws
from attrib_ds.attribution.experiments.trial import NEVER, Trial, microseconds, read_moments
from attrib_ds.attribution.models.model import check_level
from attrib_ds.attribution.paths.sequences import number_currencies
from attrib_ds.errors import HoldoutWarning, InvalidRequest
from attrib_ds.records.frames import TEXT, to_pandas

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from attrib_ds.attribution.paths.paths import Paths
    from attrib_ds.records.frames import FrameOrPath

    Numbers = NDArray[np.float64]

#: Standard deviations by which the withheld share of users with an opportunity may deviate by chance.
_MAX_DEVIATION: Final = 4.0


def holdout_effects(
    paths: Paths,
    withheld: FrameOrPath | None = None,
    *,
    participants: FrameOrPath | None = None,
    opportunities: FrameOrPath | None = None,
    covariates: Sequence[str] = (),
    cuped: bool = True,
    confidence: float = 0.95,
) -> pd.DataFrame:
    """Measure the conversions that nodes caused, from a randomised holdout.

    Users from whom a node was withheld are compared with the other participants, whether or not these were
    reached (intention to treat). Nodes withheld independently of each other are estimated in one regression.
    The effect is identified by randomisation alone, without assumptions about paths or about who is reached.

    Parameters
    ----------
    paths : Paths
        Paths with users, from ``Paths.from_frames`` or :func:`conversion_paths`.
    withheld : DataFrame or path of a Parquet file, optional
        One row per user and node that was withheld from the user: ``user_id``, ``node_id`` and, if only
        conversions in a window count, ``since`` and ``until`` (timestamps, both included). By default the
        rows of ``participants``, or else of ``opportunities``, whose column ``withheld`` (bool) is true.
    participants : DataFrame or path of a Parquet file, optional
        One row per user and node that could have been withheld from the user, including those that were:
        ``user_id``, ``node_id`` and optionally ``since`` and ``until``, as above; and without ``withheld=``
        the column ``withheld``, as :func:`attrib_ds.experiments.assign` returns it. By default all users of
        ``Paths.from_frames(users=...)`` take part for every node, in the window of its withheld users; or
        those of ``opportunities`` without ``withheld=``.
    opportunities : DataFrame or path of a Parquet file, optional
        One row per touchpoint that a withheld user would have had, as an ad server logs it ("ghost ads"):
        ``user_id``, ``node_id``, ``date``. The comparison is then limited to users with a touchpoint or an
        opportunity and to their conversions from the first one on, which narrows intervals by about a third.
        A log of all participants with the column ``withheld``, as
        :func:`attrib_ds.experiments.list_opportunities` returns it, needs neither ``withheld=`` nor
        ``participants=``.
    covariates : sequence of str, optional
        Columns of ``Paths.from_frames(users=...)`` to adjust for (Lin's estimator). Their values must date
        from before the draw, so that the experiment cannot have changed them.
    cuped : bool, default True
        Whether to adjust for the participants' conversions and value before ``since`` (CUPED), which narrows
        intervals if those who converted before convert again. Each number keeps the estimate with the smaller
        standard error. Without ``since``, or if fewer than ten withheld users converted before, nothing is
        adjusted.
    confidence : float, default 0.95
        Level of the intervals, between 0 and 1.

    Returns
    -------
    DataFrame
        One row per node and currency, by node: ``node_id``, ``node_name``, ``currency`` (str); numbers of
        users (Int64): ``users`` (compared), ``withheld`` (compared and withheld), ``reached`` (not withheld,
        with a touchpoint of the node), ``contaminated`` (withheld, but with a touchpoint of the node);
        ``rate``, ``withheld_rate`` (float64, conversions per user, not withheld and withheld); ``caused``
        (float64, conversions lost if the node were withheld from all compared users), ``error`` (float64,
        standard error of ``caused``), ``low``, ``high`` (float64, bounds of ``caused``); ``value``,
        ``value_low``, ``value_high`` (float64, the same for the value, in ``currency``). Columns from
        ``caused`` on are null in currencies without a conversion that counts for the node.

    Warns
    -----
    HoldoutWarning
        If withheld users have touchpoints of the node. They still count as withheld, so the effect is
        underestimated. Or if the withheld share of users with an opportunity differs from the share drawn by
        more than chance explains, so that the groups are not comparable. Or if withheld users and the others
        differ in their conversions before ``since``, in their touchpoints of
        the node before it, or in ``covariates``, by more than chance explains (one test for all of them, at a
        significance level of 0.001). Such a draw was not random, which adjusting does not mend, or began
        before ``since``.

    Raises
    ------
    InvalidRequest
        If a column is missing; a node or user is unknown; no argument says from whom nodes were withheld, or
        rows contradict each other about it; fewer than two participants are withheld or not withheld;
        ``participants`` is missing and the paths have no users table; two nodes were withheld from
        the same users; or no conversion counts for a node, for example because its ``since`` and ``until``
        lie outside the data.

    Notes
    -----
    The effect is that of one node while the other nodes run as in the experiment. With large holdouts and
    strong interactions it differs slightly from the effect with no other node withheld. Standard errors are
    robust and reliable from a few dozen conversions among the withheld on. With fewer than ten, the variance
    of the withheld is taken to be at least that of the others, since a few withheld users may have no
    conversion by chance.

    References
    ----------
    Lin (2013), Agnostic notes on regression adjustments to experimental data, Annals of Applied Statistics
    7(1); Deng, Xu, Kohavi and Walker (2013), Improving the sensitivity of online controlled experiments by
    utilizing pre-experiment data, WSDM; Johnson, Lewis and Nubbemeyer (2017), Ghost ads, Journal of Marketing
    Research 54(6).

    Examples
    --------
    >>> import attrib_ds as at
    >>> world = at.simulate("random", users=20_000, seed=1, holdout=0.2)
    >>> paths = at.Paths.from_frames(world.touchpoints, world.conversions, users=world.users)
    >>> effects = at.experiments.holdout_effects(paths, world.withheld, covariates=["trait"])
    >>> effects["node_id"].tolist()[:3], bool((effects["low"] < effects["high"]).all())
    (['brand_search', 'display', 'email'], True)
    """
    check_level("confidence", confidence)
    withheld, participants = complete_draws(withheld, participants, opportunities)
    trial = Trial.of(paths, withheld, participants)
    first, earlier = _first_touches(paths, trial)
    contaminated = (first < NEVER) & trial.is_withheld
    reached = (first < NEVER) & trial.takes_part & ~trial.is_withheld
    _warn_contaminated(trial, contaminated)
    compared = trial if opportunities is None else _triggered(trial, first, opportunities)
    outcomes = _Outcomes.of(paths, trial.users)
    matrix = covariates_of(paths, trial.users, covariates)
    names = [f"covariates {', '.join(covariates)}"] * matrix.shape[1]
    warn_of_imbalance(
        {
            node: _balance(trial, number, outcomes, earlier[number], matrix)
            for number, node in enumerate(trial.node_ids)
        },
        ["conversions before", "touchpoints before", *names],
    )
    effects = _effects(
        compared,
        outcomes,
        matrix,
        NormalDist().inv_cdf(0.5 + confidence / 2),
        before=trial if cuped and trial.since is not None else None,
    )
    counts = {
        "users": compared.takes_part.sum(axis=1),
        "withheld": (compared.is_withheld & compared.takes_part).sum(axis=1),
        "reached": reached.sum(axis=1),
        "contaminated": contaminated.sum(axis=1),
    }
    currencies = len(outcomes.currencies)
    for position, (name, count) in enumerate(counts.items(), start=2):
        repeated = pd.Series(np.repeat(count, currencies), dtype="Int64")
        effects.insert(position, name, repeated)
    effects.insert(1, "node_name", paths.names(effects["node_id"]))
    return effects


@dataclass(frozen=True, eq=False)
class _Outcomes:
    """Conversions of participants as arrays; users and currencies are numbers."""

    user: NDArray[np.int64]
    instant: NDArray[np.int64]
    currency: NDArray[np.int64]
    conversions: Numbers
    value: Numbers
    currencies: list[str | None]

    @classmethod
    def of(cls, paths: Paths, users: pd.Index[str]) -> _Outcomes:
        touches = paths.touches
        last = touches.filter(touches.position == touches.length)
        names = ("event_id", "user_id", "event_date", "conversions", "value", "currency")
        # A fixed order makes floating-point sums reproducible.
        table = last.select(*names).order_by("event_id").to_pyarrow()
        number, currencies = number_currencies(table["currency"], np.ones(len(table), bool))
        rows = to_pandas(table.select(["user_id", "event_date", "conversions", "value"]))
        user = users.get_indexer(pd.Index(rows["user_id"]))
        took_part = user >= 0
        return cls(
            user[took_part],
            microseconds(rows["event_date"])[took_part],
            number[took_part],
            np.asarray(rows["conversions"], dtype=np.float64)[took_part],
            np.asarray(rows["value"], dtype=np.float64)[took_part],
            currencies or [None],
        )

    def per_user(self, trial: Trial, node: int, *, before: bool = False) -> Numbers:
        """Return conversions and value of each user by currency, within or before the window of a node."""
        counts = (trial.before if before else trial.within)(node, self.user, self.instant)
        users = len(trial.users)
        columns = []
        for number in range(len(self.currencies)):
            chosen = counts & (self.currency == number)
            columns += [
                np.bincount(self.user[chosen], amounts[chosen], users)
                for amounts in (self.conversions, self.value)
            ]
        return np.stack(columns, axis=1)


def _balance(
    trial: Trial, node: int, outcomes: _Outcomes, touchpoints: Numbers, covariates: Numbers
) -> Balance:
    """Compare the groups of a node by conversions and touchpoints before its window, and by covariates."""
    part = trial.takes_part[node]
    conversions = outcomes.per_user(trial, node, before=True)[:, ::2].sum(axis=1)
    counts = np.stack([np.maximum(conversions, 0), touchpoints], axis=1)
    # Few users have most touchpoints; logarithms make the test depend on all.
    known = np.concatenate([np.log1p(counts), covariates], axis=1)
    return balance(known[part], trial.is_withheld[node, part])


def _effects(
    trial: Trial, outcomes: _Outcomes, covariates: Numbers, reach: float, *, before: Trial | None
) -> pd.DataFrame:
    """Estimate effects; ``before`` has the windows whose earlier outcomes are covariates."""
    positions = list(range(len(trial.node_ids)))
    # If all users took part and all conversions count, one regression estimates all nodes.
    is_plain = trial.since is None and trial.until is None and trial.takes_part.all()
    rows: list[dict[str, Any]] = []
    for nodes in [positions] if is_plain else [[node] for node in positions]:
        part = trial.takes_part[nodes[0]]
        amounts = outcomes.per_user(trial, nodes[0])[part]
        has_any = amounts[:, ::2].any(axis=0)
        if not has_any.any():
            raise InvalidRequest(
                f"withheld: no conversion of a participant counts for node {trial.node_ids[nodes[0]]!r}; "
                "allowed: participants, and since and until if given, with at least one conversion",
                field="withheld",
            )
        held = trial.is_withheld[:, part]
        prior = None if before is None else outcomes.per_user(before, nodes[0], before=True)[part]
        estimate = contrast(
            amounts, held, covariates[part], nodes=nodes, node_ids=trial.node_ids, prior=prior
        )
        for position, node in enumerate(nodes):
            caused, error = (
                np.where(np.repeat(has_any, 2), int(part.sum()) * per_user[position], np.nan)
                for per_user in (estimate.difference, estimate.error)
            )
            rates = amounts[~held[node]].mean(axis=0), amounts[held[node]].mean(axis=0)
            for number, currency in enumerate(outcomes.currencies):
                count, value = 2 * number, 2 * number + 1
                rows.append(
                    {
                        "node_id": trial.node_ids[node],
                        "currency": currency,
                        "rate": rates[0][count],
                        "withheld_rate": rates[1][count],
                        "caused": caused[count],
                        "error": error[count],
                        "low": caused[count] - reach * error[count],
                        "high": caused[count] + reach * error[count],
                        "value": caused[value],
                        "value_low": caused[value] - reach * error[value],
                        "value_high": caused[value] + reach * error[value],
                    }
                )
    return pd.DataFrame(rows).astype({"node_id": TEXT, "currency": TEXT})


def _first_touches(paths: Paths, trial: Trial) -> tuple[NDArray[np.int64], Numbers]:
    """Return each user's first touchpoint of each node within its window, and the number before it.

    The first is ``NEVER`` without a touchpoint.
    """
    first = np.full(trial.takes_part.shape, NEVER, np.int64)
    points = paths.touches if paths.touchpoints is None else paths.touchpoints
    chosen = points.filter(points.node_id.isin(trial.node_ids) & points.user_id.notnull())
    if trial.since is None and trial.until is None:
        chosen = chosen.group_by("user_id", "node_id").agg(date=chosen.date.min())
    rows = to_pandas(chosen.select("user_id", "node_id", "date").to_pyarrow())
    user, node, is_known = trial.numbers_of(rows)
    dates = microseconds(rows["date"])
    user, node, dates = user[is_known], node[is_known], dates[is_known]
    _mark_first(first, trial, user, node, dates)
    earlier = np.zeros(first.shape)
    for number in range(len(trial.node_ids)):
        at_node = user[node == number]
        is_before = trial.before(number, at_node, dates[node == number])
        earlier[number] = np.bincount(at_node[is_before], minlength=len(trial.users))
    return first, earlier


def _mark_first(
    first: NDArray[np.int64],
    trial: Trial,
    user: NDArray[np.int64],
    node: NDArray[np.int64],
    dates: NDArray[np.int64],
) -> None:
    for number in range(len(trial.node_ids)):
        here = node == number
        inside = trial.within(number, user[here], dates[here])
        np.minimum.at(first[number], user[here][inside], dates[here][inside])


def _triggered(trial: Trial, first: NDArray[np.int64], opportunities: object) -> Trial:
    """Limit the trial to users with a touchpoint or an opportunity, from the first one on."""
    log = read_moments(opportunities, "opportunities")
    user, node, is_known = trial.numbers_of(log)
    first = first.copy()
    _mark_first(first, trial, user[is_known], node[is_known], np.asarray(log["date"])[is_known])
    has_any = (first < NEVER) & trial.takes_part
    held = trial.is_withheld & has_any
    uneven = []
    for number, node_id in enumerate(trial.node_ids):
        if not held[number].any():
            raise InvalidRequest(
                f"opportunities: no withheld user of node {node_id!r} has an opportunity; allowed: every "
                "touchpoint of every withheld node that withheld users would have had",
                field="opportunities",
            )
        drawn = trial.is_withheld[number].sum() / trial.takes_part[number].sum()
        users = int(has_any[number].sum())
        deviation = (int(held[number].sum()) - users * drawn) / np.sqrt(users * drawn * (1 - drawn))
        if abs(deviation) > _MAX_DEVIATION:
            uneven.append(f"{node_id} ({held[number].sum() / users:.1%} instead of {drawn:.1%})")
    if uneven:
        warnings.warn(
            "among users with a touchpoint or an opportunity, the withheld share differs from the share "
            f"drawn: {', '.join(uneven[:10])}{' and others' if len(uneven) > 10 else ''}. Opportunities and "
            "touchpoints are not logged alike, so the effects are biased; run without opportunities=",
            HoldoutWarning,
            stacklevel=3,
        )
    compared = replace(trial, takes_part=has_any, since=first)
    compared.check()
    return compared


def _warn_contaminated(trial: Trial, contaminated: NDArray[np.bool_]) -> None:
    contacts = [
        f"{count:,} of {held:,} ({node})"
        for node, count, held in zip(
            trial.node_ids, contaminated.sum(axis=1), trial.is_withheld.sum(axis=1), strict=True
        )
        if count
    ]
    if contacts:
        warnings.warn(
            f"withheld users have touchpoints of the withheld node: {', '.join(contacts[:10])}"
            f"{' and others' if len(contacts) > 10 else ''}. They still count as withheld, so effects are "
            "underestimated; check ad delivery, and whether user ids changed",
            HoldoutWarning,
            stacklevel=3,
        )
