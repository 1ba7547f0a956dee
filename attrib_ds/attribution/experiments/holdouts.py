"""Effects of nodes as randomised holdouts show them."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pandas as pd

from attrib_ds.attribution.experiments.contrasts import contrast
from attrib_ds.attribution.experiments.covariates import covariates_of
from attrib_ds.attribution.experiments.trial import NEVER, Trial, microseconds, read_moments
from attrib_ds.attribution.models.model import check_level
from attrib_ds.attribution.paths.codes import number_currencies
from attrib_ds.errors import ContaminatedHoldout, InvalidRequest, UnevenHoldout
from attrib_ds.records.frames import to_pandas

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from attrib_ds.attribution.paths.paths import Paths

    Numbers = NDArray[np.float64]

#: Standard deviations by which the withheld share of users with an opportunity may be off by chance.
_EVEN: Final = 4.0


def holdout_effects(
    paths: Paths,
    withheld: object,
    *,
    participants: object = None,
    opportunities: object = None,
    covariates: Sequence[str] = (),
    confidence: float = 0.95,
) -> pd.DataFrame:
    """Measure what nodes caused, from users whom they were withheld from at random.

    Users from whom a node was withheld are compared with the other users who took part, whether or not these
    were reached (intention to treat). Nodes withheld independently of each other are judged together in one
    regression. What it finds is identified by the draw alone: no model of paths, nor of who is reached, has
    to hold.

    Parameters
    ----------
    paths : Paths
        With users: of ``Paths.from_frames``, or of :func:`conversion_paths`.
    withheld : DataFrame, pyarrow.Table or path of a Parquet file
        One row per user and node that was withheld from the user: ``user_id``, ``node_id`` and, where only
        the conversions of a time count, ``since`` and ``until`` (instants, both included).
    participants : DataFrame, pyarrow.Table or path of a Parquet file, optional
        One row per user and node whom the draw could have withheld it from, those included from whom it
        was: ``user_id``, ``node_id`` and, as above, ``since`` and ``until``. By default all users of
        ``Paths.from_frames(users=...)`` took part for every node, and a node's window is that of its withheld
        users.
    opportunities : DataFrame, pyarrow.Table or path of a Parquet file, optional
        One row per touchpoint that a withheld user would have had, as a server of advertisements logs it
        ("ghost ads"): ``user_id``, ``node_id``, ``date``. Then only users with a touchpoint or an opportunity
        are compared, and their conversions from the first of these on: before, a node could not have done
        anything, and all else is noise. Intervals become about a third narrower.
    covariates : sequence of str, optional
        Columns of the observed users that were known before the draw, to take their chance differences out
        (Lin's estimator). What the experiment may have changed must not be among them.
    confidence : float, default 0.95
        Level of intervals.

    Returns
    -------
    DataFrame
        One row per node and currency, by node: ``node_id``, ``node_name``, ``currency`` (str), ``users``
        (Int64, who are compared), ``withheld``, ``reached`` (Int64, users without and with a touchpoint of
        the node, of those whom it was and was not withheld from), ``contaminated`` (Int64, withheld users
        with a touchpoint all the same), ``rate``, ``withheld_rate`` (float64, conversions per user who was
        not, and who was, withheld), ``caused`` (float64, conversions that there would be less if the node
        were withheld from everybody compared), ``error`` (its standard error), ``low``, ``high``, ``value``
        (float64, the same of the value, in ``currency``), ``value_low``, ``value_high``. All from ``caused``
        on are null in a currency in which no conversion counts for the node.

    Warns
    -----
    ContaminatedHoldout
        If withheld users have touchpoints of the node after all. They stay where the draw put them, so the
        effect found is too small, never biased the other way.
    UnevenHoldout
        If the withheld have more or fewer opportunities than the draw would give them by chance, so that the
        two sides are not comparable.

    Raises
    ------
    InvalidRequest
        If a column is missing, a node or user is unknown, nobody or everybody is withheld, who took part is
        not known, two nodes were withheld from the very same users, or no conversion counts for a node, as
        where its ``since`` and ``until`` lie outside the data.

    Notes
    -----
    The effect is that of one node while all others go on, for those others' share of users whom they were
    not withheld from: with large holdouts and strong interplay it differs a little from that with nothing
    else withheld. Errors are robust; with some dozens of conversions among the withheld they are sound. With
    fewer than ten, the withheld count as varying at least as much as the others: that none of a few withheld
    users converts may be chance, and does not tell that the node causes everything.

    References
    ----------
    Lin (2013), Agnostic notes on regression adjustments to experimental data, Annals of Applied Statistics
    7(1); Johnson, Lewis and Nubbemeyer (2017), Ghost ads, Journal of Marketing Research 54(6).

    Examples
    --------
    >>> from attrib_ds import Paths, experiments, simulate
    >>> world = simulate("random", users=20_000, seed=1, holdout=0.2)
    >>> paths = Paths.from_frames(world.touchpoints, world.conversions, users=world.users)
    >>> effects = experiments.holdout_effects(paths, world.withheld, covariates=["trait"])
    >>> effects["node_id"].tolist()[:3], bool((effects["low"] < effects["high"]).all())
    (['brand_search', 'display', 'email'], True)
    """
    check_level("confidence", confidence)
    trial = Trial.of(paths, withheld, participants)
    first = _first_touches(paths, trial)
    contaminated = (first < NEVER) & trial.is_withheld
    reached = (first < NEVER) & trial.takes_part & ~trial.is_withheld
    _warn_contaminated(trial, contaminated)
    compared = trial if opportunities is None else _triggered(trial, first, opportunities)
    outcomes = _Outcomes.of(paths, trial.users)
    known = covariates_of(paths, trial.users, covariates)
    effects = _effects(compared, outcomes, known, NormalDist().inv_cdf(0.5 + confidence / 2))
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
    """Conversions, whose user's number is known."""

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
        # Sums of floating-point numbers depend on their order.
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

    def per_user(self, trial: Trial, node: int) -> Numbers:
        """Return each user's conversions and value by currency, of those that count for a node."""
        counts = trial.within(node, self.user, self.instant)
        users = len(trial.users)
        columns = []
        for number in range(len(self.currencies)):
            chosen = counts & (self.currency == number)
            columns += [
                np.bincount(self.user[chosen], amounts[chosen], users)
                for amounts in (self.conversions, self.value)
            ]
        return np.stack(columns, axis=1)


def _effects(trial: Trial, outcomes: _Outcomes, covariates: Numbers, reach: float) -> pd.DataFrame:
    every = list(range(len(trial.node_ids)))
    # Where all users took part and all conversions count, one regression tells about all nodes.
    is_plain = trial.since is None and trial.until is None and trial.takes_part.all()
    rows: list[dict[str, Any]] = []
    for nodes in [every] if is_plain else [[node] for node in every]:
        part = trial.takes_part[nodes[0]]
        amounts = outcomes.per_user(trial, nodes[0])[part]
        has_any = amounts[:, ::2].any(axis=0)
        if not has_any.any():
            raise InvalidRequest(
                f"withheld: no conversion counts for node {trial.node_ids[nodes[0]]!r}, neither of users "
                "whom it was withheld from nor of others; allowed: users who took part and, if they are "
                "told, since and until between which some of them converted",
                field="withheld",
            )
        held = trial.is_withheld[:, part]
        found = contrast(amounts, held, covariates[part], nodes=nodes, node_ids=trial.node_ids)
        for position, node in enumerate(nodes):
            caused, error = (
                np.where(np.repeat(has_any, 2), int(part.sum()) * each[position], np.nan)
                for each in (found.difference, found.error)
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
    return pd.DataFrame(rows).astype({"node_id": "str", "currency": "str"})


def _first_touches(paths: Paths, trial: Trial) -> NDArray[np.int64]:
    """Return when each user was first touched by each node within its window; ``NEVER`` where nobody was."""
    first = np.full(trial.takes_part.shape, NEVER, np.int64)
    points = paths.touches if paths.touchpoints is None else paths.touchpoints
    chosen = points.filter(points.node_id.isin(trial.node_ids) & points.user_id.notnull())
    if trial.since is None and trial.until is None:
        chosen = chosen.group_by("user_id", "node_id").agg(date=chosen.date.min())
    rows = to_pandas(chosen.select("user_id", "node_id", "date").to_pyarrow())
    user, node, is_known = trial.numbers_of(rows)
    dates = microseconds(rows["date"])
    _mark_first(first, trial, user[is_known], node[is_known], dates[is_known])
    return first


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
    """Keep the users with a touchpoint or an opportunity, from the first of them on."""
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
                f"opportunities: there is none of a user from whom {node_id!r} was withheld; allowed: every "
                "touchpoint that withheld users would have had, of every withheld node",
                field="opportunities",
            )
        drawn = trial.is_withheld[number].sum() / trial.takes_part[number].sum()
        users = int(has_any[number].sum())
        off = (int(held[number].sum()) - users * drawn) / np.sqrt(users * drawn * (1 - drawn))
        if abs(off) > _EVEN:
            uneven.append(f"{node_id} ({held[number].sum() / users:.1%} instead of {drawn:.1%})")
    if uneven:
        warnings.warn(
            "of the users with a touchpoint or an opportunity, not the share was withheld that was drawn "
            f"of all: {', '.join(uneven[:10])}{' and others' if len(uneven) > 10 else ''}. So the log of "
            "opportunities and the touchpoints do not count the same, and the effects found are not sound; "
            "compare without opportunities=",
            UnevenHoldout,
            stacklevel=3,
        )
    compared = replace(trial, takes_part=has_any, since=first)
    compared.check()
    return compared


def _warn_contaminated(trial: Trial, contaminated: NDArray[np.bool_]) -> None:
    found = [
        f"{count:,} of {held:,} ({node})"
        for node, count, held in zip(
            trial.node_ids, contaminated.sum(axis=1), trial.is_withheld.sum(axis=1), strict=True
        )
        if count
    ]
    if found:
        warnings.warn(
            f"withheld users were reached all the same: {', '.join(found[:10])}"
            f"{' and others' if len(found) > 10 else ''}. They are counted as withheld, as the draw had it, "
            "so effects come out too small; check who was served, or whether user ids changed",
            ContaminatedHoldout,
            stacklevel=3,
        )
