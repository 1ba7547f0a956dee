"""Evidence against a model of effects: a verdict by negative controls, and nodes at the checkout."""

from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
import pandas as pd
from scipy.stats import f as fisher
from scipy.stats import poisson
from scipy.stats import t as student

from attrib_ds.attribution import arrays, intervals
from attrib_ds.attribution.incremental.histories import preceding
from attrib_ds.attribution.paths.sequences import Sequences
from attrib_ds.errors import ConfoundingWarning, warn

#: Credit of controls, relative to the other nodes, above which a model may count as confounded.
_MIN_SHARE: Final = 0.03
#: Significance level of the test of confounding.
SIGNIFICANCE: Final = 0.001
#: A model is clear if the share of its controls is below this at the significance level, on either side.
_NEGLIGIBLE_SHARE: Final = 0.25
CLEAR_SIGNIFICANCE: Final = 0.025

Verdict = Literal["clear", "cannot tell", "confounded"]
#: Days before a conversion that count as its checkout, and days that show the usual rate of touchpoints.
_CHECKOUT: Final = 30 / 1_440
_USUAL: Final = 7.0
#: Touchpoints cluster if conversions after one are this many times as many as the usual rate gives, are a
#: share of at least this of those within a week of one, and are not due to chance.
_TIMES: Final = 10.0
_LEAST_SHARE: Final = 0.1
_SIGNIFICANCE: Final = 0.0001


@dataclass(frozen=True)
class ControlsTest:
    """Verdict on a model by its controls.

    Attributes
    ----------
    verdict : str
        ``"clear"``, ``"cannot tell"`` or ``"confounded"``.
    share, low, high : float
        Credit of the controls relative to the sum of the sizes of the other nodes' credits, in which harm and
        benefit do not cancel, and its bounds; infinite if that may be zero, NaN without a test.
    """

    verdict: Verdict
    share: float
    low: float
    high: float


#: Result without controls, or if the model assumes that they have no effect.
UNTESTED: Final = ControlsTest("cannot tell", np.nan, np.nan, np.nan)


def judge_controls(
    credited: arrays.Numbers,
    error: arrays.Numbers,
    total: float,
    total_error: float,
    others: arrays.Numbers,
    others_error: arrays.Numbers,
    *,
    conversions: float,
    confidence: float,
) -> ControlsTest:
    """Judge a model by the credit of controls.

    It is confounded if sampling error does not explain what controls earn, and that is a relevant share;
    clear if their share is certainly negligible, by two one-sided tests of equivalence; else nobody can tell.

    Parameters
    ----------
    credited, error : float array, shape (n_controls,)
        Credits of the controls, and their standard errors.
    total, total_error : float
        Credit of all controls together, and its standard error.
    others, others_error : float array, shape (n_others,)
        Credits of the other nodes, and their standard errors.
    conversions : float
        Number of conversions, which bounds the credit of the other nodes: a failed fit may exceed it.
    confidence : float
        Level of the bounds of the share.
    """
    # Harm and benefit may cancel in the net.
    rest, rest_error = float(np.abs(others).sum()), float(np.sqrt((others_error**2).sum()))
    share = total / rest if rest else (np.inf if total else np.nan)
    low, high = _ratio_bounds(total, total_error, rest, rest_error, confidence)
    if is_confounded(credited, error, total, total_error, min(rest, conversions)):
        return ControlsTest("confounded", share, low, high)
    reach = student.ppf(1 - CLEAR_SIGNIFICANCE, intervals.GROUPS - 1)
    spread = np.hypot(total_error, _NEGLIGIBLE_SHARE * rest_error)
    is_clear = abs(total) + reach * spread < _NEGLIGIBLE_SHARE * rest
    return ControlsTest("clear" if is_clear else "cannot tell", share, low, high)


def is_confounded(
    credited: arrays.Numbers, error: arrays.Numbers, total: float, total_error: float, others: float
) -> bool:
    """Return whether controls earn more credit than sampling error explains, and a relevant share.

    Parameters
    ----------
    credited, error : float array, shape (n_controls,)
        Credits of the controls under a model of effects, and their jackknife standard errors.
    total, total_error : float
        The same for all controls together.
    others : float
        Absolute credit of all other nodes.
    """
    if np.abs(credited).sum() <= _MIN_SHARE * others:
        return False
    # A joint F test of all controls, and a test of their sum: half the significance level for each.
    squares = np.divide(credited, error, out=np.full(len(credited), np.inf), where=error > 0) ** 2
    statistic = float(squares[credited != 0].sum()) / len(credited)
    is_joint = statistic > fisher.ppf(1 - SIGNIFICANCE / 2, len(credited), intervals.GROUPS - 1)
    reach = student.ppf(1 - SIGNIFICANCE / 4, intervals.GROUPS - 1)
    return bool(is_joint or abs(total) > reach * total_error)


def _ratio_bounds(
    part: float, part_error: float, whole: float, whole_error: float, confidence: float
) -> tuple[float, float]:
    """Return Fieller's bounds of a ratio of independent estimates; infinite if the whole may be zero."""
    reach = float(student.ppf(0.5 + confidence / 2, intervals.GROUPS - 1))
    square = whole**2 - (reach * whole_error) ** 2
    if square <= 0:
        return -np.inf, np.inf
    inner = (part * whole) ** 2 - square * (part**2 - (reach * part_error) ** 2)
    middle, half = part * whole / square, np.sqrt(max(inner, 0.0)) / square
    return float(middle - half), float(middle + half)


def jackknife_error(without: arrays.Numbers) -> arrays.Numbers:
    """Return the standard errors of sums over users from those without each group of users."""
    scaled = without * (intervals.GROUPS / (intervals.GROUPS - 1))
    return np.asarray(
        np.sqrt((intervals.GROUPS - 1) / intervals.GROUPS * ((scaled - scaled.mean(axis=0)) ** 2).sum(axis=0))
    )


def warn_of_confounding(label: str, controls: list[str], credited: arrays.Numbers, others: float) -> None:
    """Warn that a model is confounded."""
    shown = ", ".join(f"{node} {amount:,.0f}" for node, amount in zip(controls, credited, strict=True))
    warn(
        f"{label} estimates effects of nodes known to have none: {shown} conversions if they are the only "
        f"nodes of the model, against {others:,.0f} for all other nodes. Exposure and conversions have a "
        "common cause that the model does not include, such as the intent to buy, so its estimates for the "
        "other nodes may be biased as much or more, whatever their intervals. Run a randomised holdout "
        "(plan_holdout, holdout_effects); until then, treat these numbers as credit, not as effects",
        ConfoundingWarning,
    )


def checkout_nodes(sequences: Sequences) -> pd.DataFrame:
    """Compare touchpoints in the last 30 minutes before conversions with those of the week before.

    Returns
    -------
    DataFrame
        One row per node with touchpoints in the week before a conversion, indexed by ``node_id``: ``share``
        (float64, of these conversions, those with a touchpoint in the last 30 minutes; null if most ages are
        whole days, as without times of day) and ``is_at_checkout`` (bool).
    """
    rows = preceding(sequences, "node_id")
    rows = rows.filter(rows.age_days <= _USUAL)
    is_last = rows.age_days <= _CHECKOUT
    counted = (
        rows.group_by("node_id")
        .agg(
            conversions=rows.event_id.nunique(),
            last=rows.event_id.nunique(where=is_last),
            before=(~is_last).sum(),
            whole=(rows.age_days == rows.age_days.floor()).sum(),
            touches=rows.count(),
        )
        .order_by("node_id")
        .to_pyarrow()
        .to_pandas()
        .set_index("node_id")
    )
    expected = counted["before"] * _CHECKOUT / (_USUAL - _CHECKOUT)
    share = counted["last"] / counted["conversions"]
    has_times = counted["whole"] <= 0.5 * counted["touches"]
    is_clustered = (counted["last"] >= _TIMES * expected) & (share >= _LEAST_SHARE)
    is_clustered &= poisson.sf(counted["last"] - 1, expected) < _SIGNIFICANCE
    return pd.DataFrame({"share": share.where(has_times), "is_at_checkout": is_clustered & has_times})


def warn_of_checkout_nodes(nodes: pd.DataFrame) -> None:
    """Warn of nodes whose touchpoints cluster at the checkout, if there are any."""
    named = nodes[nodes["is_at_checkout"]]
    if named.empty:
        return
    shown = ", ".join(f"{node} {share:.0%}" for node, share in named["share"].items())
    warn(
        f"touchpoints cluster in the last 30 minutes before conversions: {shown} of the conversions within a "
        "week of a touchpoint. People on their way to the checkout visit such nodes anyway, so paths cannot "
        "tell whether they cause conversions: leave them out of comparisons, or withhold them at random "
        "(plan_holdout, holdout_effects)",
        ConfoundingWarning,
    )
