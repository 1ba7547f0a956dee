"""Posterior predictive check: path lengths, lags and last nodes, observed and replicated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
from scipy.stats import chi2

from attrib_ds.errors import MisfitWarning, warn

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from attrib_ds.attribution.incremental.latent_intent.replication import Replicated

    Codes = NDArray[np.int64]
    Numbers = NDArray[np.float64]

#: Upper ends of the classes of path lengths and lags; each is a little more than half as long again.
_ENDS: Final = (0, 1, 2, 3, 5, 8, 13, 21, 34, 55)
#: Least expected count of a class in Pearson's test; smaller ones are joined.
_LEAST_EXPECTED: Final = 10.0
#: A model misses the data if more than this share of users is in other classes than it says. With many users
#: every model is refuted, so the size of the misfit decides, and chance must not explain it.
LARGEST_DISTANCE: Final = 0.1
_SIGNIFICANCE: Final = 0.01


@dataclass(frozen=True, eq=False)
class Comparison:
    """Distribution of one statistic.

    Attributes
    ----------
    statistic : str
        Its name.
    classes : list of str
        Its values, in classes.
    observed, replicated : float array
        Number of users in each class.
    """

    statistic: str
    classes: list[str]
    observed: Numbers
    replicated: Numbers

    @property
    def distance(self) -> float:
        """Total variation distance: the share of users who are in other classes than the model says."""
        if not self.observed.sum() or not self.replicated.sum():
            return 0.0
        return float(np.abs(self._share(self.observed) - self._share(self.replicated)).sum() / 2)

    @property
    def p_value(self) -> float:
        """P-value of Pearson's test that both come from one distribution."""
        counts = np.stack([self.observed, self.replicated])
        totals = counts.sum(axis=1, keepdims=True)
        if not totals.all():
            return 1.0
        least = counts.sum(axis=0) * totals.min() / totals.sum() >= _LEAST_EXPECTED
        joined = np.concatenate([counts[:, least], counts[:, ~least].sum(axis=1, keepdims=True)], axis=1)
        joined = joined[:, joined.sum(axis=0) > 0]
        expected = totals * joined.sum(axis=0) / totals.sum()
        return float(chi2.sf(((joined - expected) ** 2 / expected).sum(), joined.shape[1] - 1))

    @staticmethod
    def _share(counts: Numbers) -> Numbers:
        return np.asarray(counts / counts.sum())


def misfits(comparisons: Sequence[Comparison]) -> dict[str, float]:
    """Return the distances of the statistics that chance does not explain, largest first.

    The significance level is that of all statistics together (Bonferroni).
    """
    found = {
        each.statistic: each.distance
        for each in comparisons
        if each.p_value * len(comparisons) < _SIGNIFICANCE
    }
    return dict(sorted(found.items(), key=lambda item: -item[1]))


def warn_of_misfit(label: str, distances: Mapping[str, float]) -> None:
    """Warn if the model misses the distribution of a statistic by more than is tolerable."""
    large = {name: distance for name, distance in distances.items() if distance > LARGEST_DISTANCE}
    if not large:
        return
    shown = ", ".join(f"{name} ({100 * distance:.0f} %)" for name, distance in list(large.items())[:3])
    others = " and others" if len(large) > 3 else ""
    warn(
        f"{label} does not describe these data: users drawn from the fitted model differ from those "
        f"observed in {shown}{others}; in brackets, the share of users whom the model puts elsewhere, of "
        f"which up to {100 * LARGEST_DISTANCE:.0f} % count as tolerable. So people do not come to buy as its "
        "funnel says, or the search was too short (evaluations=), and its credits are no estimates of "
        "effects. Run a randomised holdout (plan_holdout, holdout_effects); check_fit and plots.fit show the "
        "differences",
        MisfitWarning,
    )


def compare(observed: Replicated, replicated: Replicated, node_ids: Sequence[str]) -> list[Comparison]:
    """Compare path lengths, lags and last nodes; every user counts at most once in each distribution."""
    rarity = np.bincount(observed.node, minlength=len(node_ids))
    pairs = zip(
        _statistics(observed, rarity, node_ids), _statistics(replicated, rarity, node_ids), strict=True
    )
    return [Comparison(name, classes, seen, drawn) for (name, classes, seen), (_, _, drawn) in pairs]


def _statistics(
    histories: Replicated, rarity: Codes, node_ids: Sequence[str]
) -> Iterator[tuple[str, list[str], Numbers]]:
    """Return name, classes and counts of each statistic."""
    order = np.lexsort((rarity[histories.node], histories.period, histories.user))
    user, node, period = histories.user[order], histories.node[order], histories.period[order]
    count = np.bincount(user, minlength=histories.users)
    first, converted = np.cumsum(count) - count, histories.converted
    is_buyer = converted >= 0
    yield "touchpoints of users", *_classed(count)
    yield "touchpoints of buyers", *_classed(count[is_buyer])
    several = first[count > 1]
    yield "lag between the first two touchpoints", *_classed(period[several + 1] - period[several])
    last_two = several + count[count > 1] - 1
    yield "lag between the last two touchpoints", *_classed(period[last_two] - period[last_two - 1])
    touched = np.flatnonzero(is_buyer & (count > 0))
    begins, ends = first[touched], first[touched] + count[touched] - 1
    yield "lag from the first touchpoint to the conversion", *_classed(converted[touched] - period[begins])
    yield "lag from the last touchpoint to the conversion", *_classed(converted[touched] - period[ends])
    # Of several nodes in the last period, the rarest tells most, and comes first.
    moment = user * (period.max(initial=0) + 1) + period
    last = np.searchsorted(moment, moment[ends])
    by_node = np.bincount(node[last], minlength=len(node_ids)).astype(np.float64)
    none = float(np.sum(is_buyer & (count == 0)))
    yield "last node before the conversion", [*node_ids, "none"], np.append(by_node, none)
    buyers = np.flatnonzero(is_buyer[user])
    for code, name in enumerate(node_ids):
        rows = buyers[node[buyers] == code]
        who, place = np.unique(user[rows], return_index=True)
        yield f"lag from the first {name} to the conversion", *_classed(converted[who] - period[rows[place]])


def _classed(values: Codes) -> tuple[list[str], Numbers]:
    counts = np.bincount(np.searchsorted(_ENDS, values), minlength=len(_ENDS) + 1).astype(np.float64)
    lows = [0, *(end + 1 for end in _ENDS)]
    names = [str(end) if end == low else f"{low}-{end}" for low, end in zip(lows, _ENDS, strict=False)]
    return [*names, f"{lows[-1]}+"], counts
