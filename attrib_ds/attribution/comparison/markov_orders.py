"""Choice of the order of a Markov chain by cross-validation: :func:`compare_orders`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pandas as pd

from attrib_ds.attribution.models.model import check_amount, check_whole
from attrib_ds.attribution.models.path_models import Markov
from attrib_ds.attribution.path_models.ngrams import NGrams
from attrib_ds.attribution.path_models.transitions import Transitions
from attrib_ds.attribution.paths.paths import require_paths
from attrib_ds.attribution.paths.sequences import Sequences
from attrib_ds.errors import InvalidRequest

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from attrib_ds.attribution.paths.paths import Paths

    Numbers = NDArray[np.float64]

_MOST_FOLDS: Final = 100


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
    """Compare the orders of Markov chains by cross-validation over users.

    A chain of higher order always fits the paths it was estimated from better. What counts is the likelihood
    of the paths of other users, so each group of users is left out in turn.

    Parameters
    ----------
    paths : Paths
        From :func:`attrib_ds.conversion_paths` or ``Paths.from_frames``; aggregated paths have no users.
    orders : iterable of int, default 1 to 4
        Orders, each 1 to 9.
    nulls, transform, steps
        As in :class:`attrib_ds.models.Markov`.
    smoothing : float, default 1
        Pseudo-observations of each history of touchpoints, above 0. They follow the probabilities of the
        chain of one order less (interpolated backoff), and those of order 0 are uniform, so that a step not
        seen before has a probability above 0.
    folds : int, default 5
        Groups of users, 2 to 100.
    seed : int, default 0
        Seed of the assignment of users to groups.

    Returns
    -------
    DataFrame
        One row per order, ascending: ``order`` (Int64), ``states`` (Int64, observed histories of that
        length), ``parameters`` (Int64, free parameters), ``log_likelihood`` (float64, in sample), ``aic``
        and ``bic`` (float64, from the in-sample likelihood; ``bic`` counts transitions; lower is better),
        ``held_out`` (float64, log-likelihood per path of the users left out, mean over the groups; higher is
        better), ``held_out_error`` (float64, its standard error), ``behind`` (float64, mean difference to
        the best order, paired by group), ``behind_error`` (float64, its standard error), ``is_best``
        (boolean, the highest ``held_out``), ``is_parsimonious`` (boolean, the lowest order within one
        standard error of the best). Paths without a touchpoint are left out.

    Raises
    ------
    InvalidRequest
        If an argument is not allowed, the paths have no users, or a group of them has no path.

    References
    ----------
    Katz (1981), On some criteria for estimating the order of a Markov chain, Technometrics 23(3), 243-249.

    Examples
    --------
    >>> import attrib_ds as at
    >>> world = at.simulate("random", users=2_000, seed=1)
    >>> orders = at.compare_orders(at.Paths.from_frames(world.touchpoints, world.conversions), range(1, 4))
    >>> orders.loc[orders["is_parsimonious"], "order"].tolist()
    [1]
    """
    require_paths(paths)
    wanted = _checked_orders(orders)
    _check_folds(paths, folds, seed)
    check_amount("smoothing", smoothing)
    if smoothing == 0:
        raise InvalidRequest("smoothing: 0 is not allowed; allowed: above 0", field="smoothing")
    model = Markov(order=wanted[-1], nulls=nulls, transform=transform, steps=steps)
    sequences = Sequences.of(paths, folds=folds, salt=seed)
    ngrams = NGrams.of(Transitions.of(sequences, model), folds=folds)
    number = ngrams.paths
    if (number == 0).any():
        raise InvalidRequest(
            f"folds: {int((number == 0).sum())} of {folds} groups have no path; allowed: fewer groups, or "
            "more paths",
            field="folds",
        )
    held_out = _held_out_likelihood(ngrams, wanted, smoothing) / number
    mean, error = _mean_and_error(held_out)
    best = int(mean.argmax())
    behind, behind_error = _mean_and_error(held_out[best] - held_out)
    rows = pd.DataFrame([_in_sample(ngrams, order) for order in wanted])
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


def _checked_orders(orders: Iterable[int]) -> list[int]:
    orders = [orders] if isinstance(orders, int) else orders
    if not hasattr(orders, "__iter__"):
        raise InvalidRequest(
            f"orders: {orders!r} is not a list of orders; allowed: orders of 1 to 9, such as range(1, 5)",
            field="orders",
        )
    wanted = sorted({Markov(order=order).order for order in orders})
    if not wanted:
        raise InvalidRequest("orders: it is empty; allowed: orders of 1 to 9", field="orders")
    return wanted


def _check_folds(paths: Paths, folds: int, seed: int) -> None:
    check_whole("folds", folds, minimum=2, maximum=_MOST_FOLDS)
    check_whole("seed", seed, minimum=0)
    if not paths.has_users:
        raise InvalidRequest(
            "paths: aggregated paths have no users to leave out; use Paths.from_frames or conversion_paths",
            field="paths",
        )


def _mean_and_error(by_fold: Numbers) -> tuple[Numbers, Numbers]:
    """Return the mean over the last axis, the groups of users, and its standard error."""
    folds = by_fold.shape[-1]
    return by_fold.mean(axis=-1), by_fold.std(axis=-1, ddof=1) / np.sqrt(folds)


def _held_out_likelihood(ngrams: NGrams, orders: list[int], smoothing: float) -> Numbers:
    """Return the log-likelihood of each group of users under the chains of the others, by order."""
    held_out = np.zeros((len(orders), ngrams.counts.shape[1]))
    total = ngrams.counts.sum(axis=1)
    for fold, counts in enumerate(ngrams.counts.T):
        # Rounding may leave a count just below zero.
        others = np.maximum(total - counts, 0.0)
        probabilities = ngrams.probabilities(others, order=orders[-1], smoothing=smoothing)
        for order, probability in enumerate(probabilities):
            if order in orders:
                held_out[orders.index(order), fold] = counts @ np.log(probability)
    return held_out


def _in_sample(ngrams: NGrams, order: int) -> dict[str, float]:
    counts = ngrams.counts.sum(axis=1)
    history, ngram = ngrams.number(order)
    of_ngram, of_history = np.bincount(ngram, counts), np.bincount(history, counts)
    likelihood = float(counts @ np.log(of_ngram[ngram] / of_history[history]))
    states = len(of_history)
    parameters = states * (ngrams.outcomes - 1)
    return {
        "order": order,
        "states": states,
        "parameters": parameters,
        "log_likelihood": likelihood,
        "aic": 2 * parameters - 2 * likelihood,
        "bic": parameters * np.log(counts.sum()) - 2 * likelihood,
    }
