"""Tests of a model of effects, and the verdict that rests on them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
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

#: Credit of controls, relative to the net effect of the others, that matters: a model is clear only if it is
#: certainly less, and confounded only if it is more.
NEGLIGIBLE_SHARE: Final = 0.25
#: The same relative to the sizes of the others' effects, whose net may be zero: more makes it confounded.
_MIN_SHARE: Final = 0.05
#: Significance level of the test of confounding.
SIGNIFICANCE: Final = 0.01
#: Significance level of each of the two tests that the credit of controls is negligible.
_EQUIVALENCE: Final = 0.1
#: Largest change of the net effect without the adjustment for activity, relative to it, that both models
#: may differ by and agree: a truth halfway between them is within a quarter.
_AGREEMENT: Final = 2 * NEGLIGIBLE_SHARE
#: Numbers of users beyond these times those at hand are no advice.
_MOST_TIMES: Final = 100.0
#: Significance level at which there are effects at all.
_NOT_ZERO: Final = 0.01

Verdict = Literal["clear", "cannot tell", "confounded"]
Result = Literal["passed", "failed", "cannot tell", "not applicable"]
#: Days before a conversion that count as its checkout, and days that show the usual rate of touchpoints.
_CHECKOUT: Final = 30 / 1_440
_USUAL: Final = 7.0
#: Touchpoints cluster if conversions after one are this many times as many as the usual rate gives, are a
#: share of at least this of those within a week of one, and are not due to chance.
_TIMES: Final = 10.0
_LEAST_SHARE: Final = 0.1
_SIGNIFICANCE: Final = 0.0001


@dataclass(frozen=True)
class Check:
    """A test of a model of effects.

    Attributes
    ----------
    test : str
        Name of the test.
    result : str
        ``"passed"``, ``"failed"``, ``"cannot tell"`` or ``"not applicable"``.
    explanation : str
        What was found, in words.
    settled_by : str
        What would settle the question.
    share, low, high : float
        What was found, relative to the effects of all nodes that are not controls, with bounds; NaN without
        a number.
    """

    test: str
    result: Result
    explanation: str
    settled_by: str = ""
    share: float = np.nan
    low: float = np.nan
    high: float = np.nan


@dataclass(frozen=True)
class Judgement:
    """Verdict on a model, and the tests that it rests on: controls first."""

    verdict: Verdict
    checks: tuple[Check, ...]


def judge(checks: Sequence[Check]) -> Judgement:
    """Return the verdict of tests: controls, effects, and nodes at the checkout.

    A model is clear if it passes all that apply, and controls do; confounded if its controls fail and no
    other test says that there is nothing to be confounded; where tests disagree, nobody can tell.
    """
    results = [each.result for each in checks]
    is_clear = results[0] == "passed" and set(results) <= {"passed", "not applicable"}
    verdict: Verdict = "confounded" if results[0] == "failed" else "clear" if is_clear else "cannot tell"
    return Judgement(verdict, tuple(checks))


def check_controls(
    credits: arrays.Numbers, is_control: arrays.Flags, controls: Sequence[str], *, confidence: float
) -> Check:
    """Test what a model credits to nodes known to have no effect.

    It fails if sampling error does not explain their credit, and it is not negligible beside the others'
    effects; and passes if their credit is certainly negligible beside the net effect of the others, by two
    one-sided tests of equivalence.

    Parameters
    ----------
    credits : float array, shape (1 + GROUPS, n_nodes)
        Credits of nodes under the model: of all users, then without each group.
    is_control : bool array, shape (n_nodes,)
        Which of them are controls.
    controls : sequence of str
        Their names.
    confidence : float
        Level of the bounds of the share.
    """
    name = f"negative controls: {', '.join(controls) or 'none'}"
    holdout = "a randomised holdout (experiments.plan_holdout, experiments.holdout_effects)"
    if not is_control.any():
        settled_by = f"controls=, nodes that cause nothing; or {holdout}"
        return Check(name, "not applicable", "No node is known to have no effect.", settled_by)
    of_controls, of_others = credits[:, is_control], credits[:, ~is_control]
    part, net = of_controls.sum(axis=1), of_others.sum(axis=1)
    # Harm and benefit may cancel in the net.
    whole = (of_others * np.sign(of_others[0])).sum(axis=1)
    bounds = ratio_bounds(part, whole, confidence)
    found = f"They earn {part[0]:,.0f} conversions"
    if is_failed(of_controls, max(NEGLIGIBLE_SHARE * abs(net[0]), _MIN_SHARE * whole[0])):
        found += f", {bounds[0]:.0%} of the size of the other effects: exposure and conversions have a common"
        return Check(name, "failed", f"{found} cause that the model lacks.", holdout, *bounds)
    distance, reach = _room(part, net)
    if distance > reach:
        found += f", certainly less than {NEGLIGIBLE_SHARE:.0%} of the net effect of the others."
        return Check(name, "passed", found, "", *bounds)
    found += f", and may earn more than {NEGLIGIBLE_SHARE:.0%} of the net effect of the others."
    times = (reach / distance) ** 2 if distance > 0 else np.inf
    more = f"{times:,.1f} times as many users, or " if times < _MOST_TIMES else ""
    return Check(name, "cannot tell", found, f"{more}{holdout}", *bounds)


def reconsidered(
    check: Check, credits: arrays.Numbers, unadjusted: arrays.Numbers, is_control: arrays.Flags
) -> Check:
    """Return the check of controls after a look at a model in which all users are equally active.

    The adjustment for activity takes part of the effects of paid nodes for activity, and then makes up for it
    by negative credit of the controls. So where both models agree on the net effect, controls that earn a
    negligible share without it have passed; and if they fail with it only, the tests disagree.

    Parameters
    ----------
    check : Check
        From :func:`check_controls`, which did not pass.
    credits, unadjusted : float array, shape (1 + GROUPS, n_nodes)
        Credits of nodes under both models: of all users, then without each group.
    is_control : bool array, shape (n_nodes,)
        Which of them are controls.
    """
    part, net = unadjusted[:, is_control].sum(axis=1), unadjusted[:, ~is_control].sum(axis=1)
    distance, reach = _room(part, net)
    adjusted = credits[0, ~is_control].sum()
    if distance <= reach or abs(net[0] - adjusted) > _AGREEMENT * abs(adjusted):
        return check
    found = (
        f"{check.explanation} Without the adjustment for activity they certainly earn less than that share"
    )
    if check.result == "failed":
        return replace(check, result="cannot tell", explanation=f"{found}: the tests disagree.")
    return replace(check, result="passed", explanation=f"{found} of a similar net effect.", settled_by="")


def _room(part: arrays.Numbers, net: arrays.Numbers) -> tuple[float, float]:
    """Return how far credit of controls is below the negligible share, and how far it must be."""
    room = NEGLIGIBLE_SHARE * net * np.sign(net[0])
    error = max(float(jackknife_error((room + sign * part)[1:])) for sign in (1, -1))
    reach = float(student.ppf(1 - _EQUIVALENCE, intervals.GROUPS - 1))
    return float(room[0] - abs(part[0])), reach * error


def is_failed(of_controls: arrays.Numbers, negligible: float) -> bool:
    """Return whether controls earn more credit than sampling error explains, and more than is negligible.

    Parameters
    ----------
    of_controls : float array, shape (1 + GROUPS, n_controls)
        Their credits: of all users, then without each group.
    negligible : float
        Credit, of either sign, that does not matter.
    """
    credited, error = of_controls[0], jackknife_error(of_controls[1:])
    if np.abs(credited).sum() <= negligible:
        return False
    # A joint F test of all controls, and a test of their sum: half the significance level for each.
    squares = np.divide(credited, error, out=np.full(len(credited), np.inf), where=error > 0) ** 2
    statistic = float(squares[credited != 0].sum()) / len(credited)
    is_joint = statistic > fisher.ppf(1 - SIGNIFICANCE / 2, len(credited), intervals.GROUPS - 1)
    total, total_error = credited.sum(), jackknife_error(of_controls[1:].sum(axis=1))
    reach = student.ppf(1 - SIGNIFICANCE / 4, intervals.GROUPS - 1)
    return bool(is_joint or abs(total) > reach * total_error)


def check_effects(net: arrays.Numbers) -> Check:
    """Test whether nodes have a net effect above zero, which comes for all users, then without each group.

    A net effect below zero is rather a sign that users who are about to buy are reached in other ways: what
    the model then takes for activity is their wish to buy, and nodes that reach everybody seem to harm.
    """
    reach = float(student.ppf(1 - _NOT_ZERO / 2, intervals.GROUPS - 1))
    error = float(jackknife_error(net[1:]))
    found = f"All nodes together cause {net[0]:,.0f} conversions, with a standard error of {error:,.0f}."
    if net[0] > reach * error:
        return Check("effects", "passed", found)
    if net[0] < -reach * error:
        found += " That they prevent conversions is less likely than that buyers are reached in other ways."
        return Check("effects", "cannot tell", found, "a randomised holdout")
    found += " It may be nothing."
    return Check("effects", "cannot tell", found, "more users, or a randomised holdout")


def check_checkout(nodes: pd.DataFrame, controls: Sequence[str], *, in_sessions: bool = False) -> Check:
    """Test whether touchpoints of nodes cluster at the checkout, from :func:`checkout_nodes`."""
    name, at = "checkout", nodes.index[nodes["is_at_checkout"]].difference(list(controls)).tolist()
    if in_sessions:
        return Check(name, "not applicable", "People convert in sessions, whatever opens them.")
    if nodes["share"].isna().all():
        return Check(name, "not applicable", "Dates have no times of day.", "dates with times of day")
    if not at:
        return Check(name, "passed", "Touchpoints of no node cluster in the minutes before conversions.")
    named = ", ".join(at)
    found = f"Touchpoints cluster in the 30 minutes before conversions: {named}. People on their way to the "
    settled_by = f"paths without {named}, or a randomised holdout of {named}"
    return Check(name, "failed", f"{found}checkout visit them anyway.", settled_by)


def check_sessions(net: arrays.Numbers, anyway: arrays.Numbers, *, confidence: float) -> Check:
    """Compare net effects with those if all sessions would have come anyway, whatever opened them.

    Paths cannot tell: a click that leads to a visit, and one on the way to a visit, leave the same sessions.
    """
    change = anyway - net
    bounds = ratio_bounds(change, np.abs(net), confidence)
    found = (
        "If the sessions that nodes opened had come anyway, they would cause "
        f"{anyway[0]:,.0f} conversions instead of {net[0]:,.0f}"
    )
    distance, reach = _room(change, net)
    if distance > reach:
        return Check("replacement of sessions", "passed", f"{found}: it hardly matters.", "", *bounds)
    found += ". Paths do not show who would have come anyway."
    return Check("replacement of sessions", "cannot tell", found, "a randomised holdout", *bounds)


def check_earlier_conversions(
    credits: arrays.Numbers, adjusted: arrays.Numbers, node_ids: Sequence[str]
) -> Check:
    """Compare effects with those of a model that knows the earlier conversions of users.

    Who has converted may be reached more often than others, as by an e-mail to customers, and convert again
    whatever reaches them. Both arguments have the shape (1 + GROUPS, n_nodes).
    """
    name, change = "earlier conversions", adjusted - credits
    if not is_failed(change, NEGLIGIBLE_SHARE * float(np.abs(credits[0]).sum())):
        return Check(name, "passed", "That users have converted before hardly changes the effects.")
    node = int(np.abs(change[0]).argmax())
    found = (
        f"Adjusted for earlier conversions of users, {node_ids[node]} would cause {adjusted[0, node]:,.0f} "
        f"conversions instead of {credits[0, node]:,.0f}: effects rest on who converts again."
    )
    return Check(name, "failed", found, "first conversions alone, which end observations; or a holdout")


def check_activity(net: arrays.Numbers, unadjusted: arrays.Numbers, *, confidence: float) -> Check:
    """Compare net effects with those of a model in which all users are equally active."""
    name, change = "activity of users", unadjusted - net
    if not change.any():
        return Check(
            name, "not applicable", "Users are equally active in the model, or all nodes are controls."
        )
    bounds = ratio_bounds(change, np.abs(net), confidence)
    reach = float(student.ppf(1 - _NOT_ZERO / 2, intervals.GROUPS - 1))
    least = max(reach * float(jackknife_error(change[1:])), NEGLIGIBLE_SHARE * abs(net[0]))
    found = f"Without the adjustment for it, all nodes together would cause {unadjusted[0]:,.0f} conversions "
    if abs(change[0]) <= least:
        return Check(name, "passed", f"{found}instead of {net[0]:,.0f}: it hardly matters.", "", *bounds)
    found += f"instead of {net[0]:,.0f}: the effects rest on the adjustment, as where active users buy more."
    settled_by = "covariates of users that predict purchases (covariates=), or a randomised holdout"
    return Check(name, "failed", found, settled_by, *bounds)


def ratio_bounds(
    part: arrays.Numbers, whole: arrays.Numbers, confidence: float
) -> tuple[float, float, float]:
    """Return a ratio with Fieller's bounds, which are infinite if the whole may be zero.

    Both come for all users, and then without each group of users.
    """
    if not whole[0]:
        return (np.inf if part[0] else np.nan), -np.inf, np.inf
    reach = float(student.ppf(0.5 + confidence / 2, intervals.GROUPS - 1))
    variances = [float(jackknife_error(each[1:])) ** 2 for each in (part, whole, part + whole)]
    shared = (variances[2] - variances[0] - variances[1]) / 2
    square = whole[0] ** 2 - reach**2 * variances[1]
    ratio = float(part[0] / whole[0])
    if square <= 0:
        return ratio, -np.inf, np.inf
    middle = (part[0] * whole[0] - reach**2 * shared) / square
    half = np.sqrt(max(middle**2 - (part[0] ** 2 - reach**2 * variances[0]) / square, 0.0))
    return ratio, float(middle - half), float(middle + half)


def jackknife_error(without: arrays.Numbers) -> arrays.Numbers:
    """Return the standard errors of sums over users from those without each group of users."""
    scaled = without * (intervals.GROUPS / (intervals.GROUPS - 1))
    return np.asarray(
        np.sqrt((intervals.GROUPS - 1) / intervals.GROUPS * ((scaled - scaled.mean(axis=0)) ** 2).sum(axis=0))
    )


def warn_of_confounding(label: str, check: Check) -> None:
    """Warn that a model is confounded."""
    warn(
        f"{label} estimates effects of nodes known to have none ({check.test}). {check.explanation} So its "
        "estimates for the other nodes may be biased as much or more, whatever their intervals. Run a "
        "randomised holdout (plan_holdout, holdout_effects); until then, treat these numbers as credit, not "
        "as effects",
        ConfoundingWarning,
    )


#: In days.
_TWO_MICROSECONDS: Final = 2 / 86_400_000_000


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
            # The end of a day is a microsecond before the next one.
            whole=((rows.age_days - rows.age_days.round()).abs() < _TWO_MICROSECONDS).sum(),
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
