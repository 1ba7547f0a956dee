"""How many touchpoints back the next step depends on, judged by users whom the chain has not seen."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from attrib_ds.attribution.comparison.folds import check_folds, mean_and_error
from attrib_ds.attribution.models.model import check_amount
from attrib_ds.attribution.models.sequences import Markov
from attrib_ds.attribution.path_models.backoff import NextSteps
from attrib_ds.attribution.path_models.transitions import Transitions
from attrib_ds.attribution.paths.paths import require_paths
from attrib_ds.attribution.paths.sequences import Sequences
from attrib_ds.errors import InvalidRequest

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from attrib_ds.attribution.paths.paths import Paths

    Numbers = NDArray[np.float64]


def compare_orders(
    paths: Paths,
    orders: Iterable[int] = range(1, 5),
    *,
    nulls: bool = True,
    transform: str = "unique",
    steps: int | None = None,
    smoothing: float = 1.0,
    folds: int = 5,
    seed: int = 0,
) -> pd.DataFrame:
    """Compare Markov chains of several orders, to choose one.

    A chain of a higher order always fits the paths better that it was made from. What tells is how likely it
    finds the paths of other users: each group of users is left out in turn.

    Parameters
    ----------
    paths : Paths
        From :func:`attrib_ds.conversion_paths` or ``Paths.from_frames``; aggregated paths have no users.
    orders : iterable of int, default 1 to 4
        Orders, each 1 to 9.
    nulls, transform, steps
        As in :class:`attrib_ds.models.Markov`.
    smoothing : float, default 1
        What users do whom the chain has not seen, it may never have seen. A history of touchpoints counts
        as seen so many times more, with the chances that a chain of one order less has; that of order 0,
        with equal chances of everything. Above 0.
    folds : int, default 5
        Groups of users, 2 to 100.
    seed : int, default 0
        Of the groups.

    Returns
    -------
    DataFrame
        One row per order, ascending: ``order`` (Int64), ``states``, ``parameters`` (Int64: histories of that
        length that were seen, and chances free to choose if anything may follow each), ``log_likelihood``
        (float64, of all paths under the chain made from them), ``aic`` and ``bic`` (float64, twice the
        parameters, or the parameters times the logarithm of the number of transitions, less twice that;
        lower is better),
        ``held_out`` (float64, log-likelihood per path of the users left out, the mean over the groups;
        higher is better), ``held_out_error`` (float64, its standard error), ``behind`` (float64, how far it
        is behind the best order, group by group), ``behind_error`` (float64, the standard error of that),
        ``is_best`` (boolean, the highest ``held_out``), ``is_parsimonious`` (boolean, the lowest order that
        is no further behind than one standard error). Paths without a touchpoint do not count.

    Raises
    ------
    InvalidRequest
        If an argument is not allowed, the paths have no users, or a group of them has no path.

    References
    ----------
    Katz (1981), On some criteria for estimating the order of a Markov chain, Technometrics 23(3), 243-249.

    Examples
    --------
    >>> from attrib_ds import Paths, compare_orders, simulate
    >>> world = simulate("random", users=2_000, seed=1)
    >>> orders = compare_orders(Paths.from_frames(world.touchpoints, world.conversions), range(1, 4))
    >>> orders.loc[orders["is_parsimonious"], "order"].tolist()
    [1]
    """
    require_paths(paths)
    wanted = _checked(orders)
    check_folds(paths, folds, seed)
    check_amount("smoothing", smoothing)
    if smoothing == 0:
        raise InvalidRequest("smoothing: 0 is not allowed; allowed: above 0", field="smoothing")
    model = Markov(order=wanted[-1], nulls=nulls, transform=transform, steps=steps)
    sequences = Sequences.of(paths, folds=folds, salt=seed)
    following = NextSteps.of(Transitions.of(sequences, model), folds=folds)
    number = following.paths
    if (number == 0).any():
        raise InvalidRequest(
            f"folds: {int((number == 0).sum())} of {folds} groups have no path; allowed: fewer groups, or "
            "more paths",
            field="folds",
        )
    held_out = _held_out(following, wanted, smoothing) / number
    mean, error = mean_and_error(held_out)
    best = int(mean.argmax())
    behind, behind_error = mean_and_error(held_out[best] - held_out)
    rows = pd.DataFrame([_in_sample(following, order) for order in wanted])
    return rows.assign(
        held_out=mean,
        held_out_error=error,
        behind=behind,
        behind_error=behind_error,
        is_best=pd.array(np.arange(len(wanted)) == best, dtype="boolean"),
        is_parsimonious=pd.array(
            np.arange(len(wanted)) == int((behind <= behind_error).argmax()), dtype="boolean"
        ),
    ).astype({"order": "Int64", "states": "Int64", "parameters": "Int64"})


def _checked(orders: Iterable[int]) -> list[int]:
    orders = [orders] if isinstance(orders, int) else orders
    if not hasattr(orders, "__iter__"):
        raise InvalidRequest(
            f"orders: {orders!r} is no collection of orders; allowed: several of 1 to 9, such as range(1, 5)",
            field="orders",
        )
    wanted = sorted({Markov(order=order).order for order in orders})
    if not wanted:
        raise InvalidRequest("orders: there is none; allowed: 1 to 9", field="orders")
    return wanted


def _held_out(following: NextSteps, orders: list[int], smoothing: float) -> Numbers:
    """Return the log-likelihood of each group of users under chains of the others, by order."""
    held_out = np.zeros((len(orders), following.counts.shape[1]))
    total = following.counts.sum(axis=1)
    for fold, counts in enumerate(following.counts.T):
        # What rounding leaves of the counts of nobody else is nothing.
        others = np.maximum(total - counts, 0.0)
        chances = following.chances(others, order=orders[-1], smoothing=smoothing)
        for order, chance in enumerate(chances):
            if order in orders:
                held_out[orders.index(order), fold] = counts @ np.log(chance)
    return held_out


def _in_sample(following: NextSteps, order: int) -> dict[str, float]:
    counts = following.counts.sum(axis=1)
    history, both = following.histories(order)
    seen, after = np.bincount(both, counts), np.bincount(history, counts)
    likelihood = float(counts @ np.log(seen[both] / after[history]))
    states = len(after)
    parameters = states * (following.outcomes - 1)
    return {
        "order": order,
        "states": states,
        "parameters": parameters,
        "log_likelihood": likelihood,
        "aic": 2 * parameters - 2 * likelihood,
        "bic": parameters * np.log(counts.sum()) - 2 * likelihood,
    }
