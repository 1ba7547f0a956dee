"""Credits compared across orders of a Markov chain, by cross-validation, and across lookbacks."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

import numpy as np
import pandas as pd

from attrib_ds.attribution.arrays import Codes, Numbers
from attrib_ds.attribution.calendar import as_days
from attrib_ds.attribution.credits.credits import attribute
from attrib_ds.attribution.credits.touches import Models
from attrib_ds.attribution.markov import Transitions
from attrib_ds.attribution.models import Markov, check_amount
from attrib_ds.attribution.paths.paths import Paths, require_paths
from attrib_ds.attribution.paths.sequences import NOTHING, Sequences, number_rows
from attrib_ds.errors import InputWarning, InvalidRequest, check_whole

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
    """Compare Markov orders by cross-validation over users.

    A chain of higher order always fits its own paths better. What counts is the likelihood of the paths of
    other users, so each group of users is left out in turn.

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
    folds = check_whole("folds", folds, minimum=2, maximum=_MOST_FOLDS)
    seed = check_whole("seed", seed, minimum=0)
    if not paths.has_users:
        raise InvalidRequest(
            "paths: aggregated paths have no users to leave out; use Paths.from_frames or conversion_paths"
        )
    smoothing = check_amount("smoothing", smoothing)
    if smoothing == 0:
        raise InvalidRequest("smoothing: 0 is not allowed; allowed: above 0")
    model = Markov(order=wanted[-1], nulls=nulls, transform=transform, steps=steps)
    sequences = Sequences.of(paths, folds=folds, salt=seed)
    ngrams = NGrams.of(Transitions.of(sequences, model), folds=folds)
    number = ngrams.paths
    if (number == 0).any():
        raise InvalidRequest(
            f"folds: {int((number == 0).sum())} of {folds} groups have no path; allowed: fewer groups, or "
            "more paths"
        )
    held_out = _held_out_likelihood(ngrams, wanted, smoothing) / number
    mean, error = _mean_and_error(held_out)
    best = int(mean.argmax())
    behind, behind_error = _mean_and_error(held_out[best] - held_out)
    rows = pd.DataFrame([_in_sample(ngrams, order) for order in wanted])
    types = dict.fromkeys(("order", "states", "parameters"), "Int64")
    types |= dict.fromkeys(("is_best", "is_parsimonious"), "boolean")
    return rows.assign(
        held_out=mean,
        held_out_error=error,
        behind=behind,
        behind_error=behind_error,
        is_best=np.arange(len(wanted), dtype=np.int64) == best,
        is_parsimonious=np.arange(len(wanted), dtype=np.int64) == int((behind <= behind_error).argmax()),
    ).astype(types)


def _checked_orders(given: Iterable[int] | int) -> list[int]:
    orders: Any = [given] if isinstance(given, int | np.integer) else given
    if not hasattr(orders, "__iter__"):
        raise InvalidRequest(
            f"orders: {given!r} is not a list of orders; allowed: orders of 1 to 9, such as range(1, 5)"
        )
    wanted = sorted({Markov(order=order).order for order in orders})
    if not wanted:
        raise InvalidRequest("orders: it is empty; allowed: orders of 1 to 9")
    return wanted


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


@dataclass(frozen=True, eq=False)
class NGrams:
    """Counts of a history of touchpoints and the outcome that followed it.

    An outcome is the next node, a conversion, or the end of the path without one.

    Attributes
    ----------
    history : int array, shape (n_ngrams, order)
        Codes of the preceding nodes, the oldest first; ``NOTHING`` before the start of the path.
    outcome : int array, shape (n_ngrams,)
        Code of the next node; the two codes above those of all nodes are the conversion and the null end.
    outcomes : int
        Number of possible outcomes.
    counts : float array, shape (n_ngrams, n_folds)
        Occurrences by group of users.
    """

    history: Codes
    outcome: Codes
    outcomes: int
    counts: Numbers

    @classmethod
    def of(cls, transitions: Transitions, *, folds: int) -> NGrams:
        """Count the steps and the ends of paths that have a touchpoint."""
        transitions = transitions.where(transitions.code != NOTHING)
        nodes = int(transitions.code.max(initial=-1)) + 1
        last = transitions.where(transitions.is_last)
        after = np.column_stack([last.before[:, 1:], last.code])
        steps = [
            (transitions.before, transitions.code, transitions.fold, transitions.counts[:, :2].sum(axis=1)),
            (after, np.full(len(after), nodes, np.int64), last.fold, last.counts[:, 0]),
            (after, np.full(len(after), nodes + 1, np.int64), last.fold, last.counts[:, 1]),
        ]
        history, outcome, fold, weight = (np.concatenate(parts) for parts in zip(*steps, strict=True))
        rows, row = number_rows(np.column_stack([history, outcome]))
        counts = np.bincount(row * folds + fold, weight, len(rows) * folds).reshape(len(rows), folds)
        has_count = counts.sum(axis=1) > 0
        return cls(rows[has_count, :-1], rows[has_count, -1], nodes + 2, counts[has_count])

    @property
    def paths(self) -> Numbers:
        """Number of paths by group of users."""
        is_first = (self.history == NOTHING).all(axis=1)
        return np.asarray(self.counts[is_first].sum(axis=0))

    def number(self, order: int) -> tuple[Codes, Codes]:
        """Encode the histories of the last ``order`` steps, and the n-grams they form.

        Returns
        -------
        history, ngram : int array, shape (n_ngrams,)
            Number of each row's history, and of the history together with its outcome.
        """
        steps = self.history[:, self.history.shape[1] - order :]
        _, history = number_rows(np.column_stack([steps, np.zeros(len(steps), np.int64)]))
        _, ngram = number_rows(np.column_stack([steps, self.outcome]))
        return history, ngram

    def probabilities(self, counts: Numbers, *, order: int, smoothing: float) -> Iterator[Numbers]:
        """Return the probability of each row's outcome given its history, for each order from 0 up.

        Parameters
        ----------
        counts : float array, shape (n_ngrams,)
            Counts to estimate from.
        order : int
            Length of the longest history.
        smoothing : float
            Pseudo-observations of each history, distributed as after the history that is one step shorter;
            those of the empty history are uniform over outcomes.
        """
        probability = np.full(len(counts), 1.0 / self.outcomes)
        for steps in range(order + 1):
            history, ngram = self.number(steps)
            smoothed = np.bincount(ngram, counts)[ngram] + smoothing * probability
            probability = np.asarray(
                smoothed / (np.bincount(history, counts)[history] + smoothing), dtype=np.float64
            )
            yield probability


_KEYS = ["model", "node_id", "node_name", "currency"]
_COLUMNS = [
    "model", "lookback_days", "node_id", "node_name", "conversions", "value", "currency", "share",
    "share_shift",
]  # fmt: skip


def compare_lookbacks(
    paths: Paths,
    lookbacks: Sequence[str | timedelta] = ("7D", "14D", "30D", "60D", "90D"),
    *,
    models: Models = "linear",
) -> pd.DataFrame:
    """Compare the credits of the same conversions under several lookbacks.

    Parameters
    ----------
    paths : Paths
        From :func:`attrib_ds.conversion_paths` or ``Paths.from_frames``, with any lookback.
    lookbacks : sequence of str or timedelta, default ("7D", "14D", "30D", "60D", "90D")
        Two or more lengths of the window, above 0.
    models : Model, str, sequence or mapping, default "linear"
        As in :func:`attribute`.

    Returns
    -------
    DataFrame
        One row per model, lookback, node and currency, in the order of the models, then by lookback, the
        shortest first, then by credit under the longest: ``model`` (str), ``lookback_days`` (float64),
        ``node_id``, ``node_name`` (str), ``conversions``, ``value`` (float64), ``currency`` (str),
        ``share`` (float64), ``share_shift`` (float64, difference to the share under the longest
        lookback). A node that only a longer lookback reaches has the credit 0. The row without a ``node_id``
        has the conversions without a touchpoint inside the lookback.

    Raises
    ------
    InvalidRequest
        If there are fewer than two lookbacks, one is not allowed, or the paths have no dates.

    Examples
    --------
    >>> import attrib_ds as at
    >>> world = at.simulate("random", users=2_000, seed=1)
    >>> paths = at.Paths.from_frames(world.touchpoints, world.conversions)
    >>> compared = at.compare_lookbacks(paths, ["2D", "30D"])
    >>> unattributed = compared[compared["node_id"].isna()].set_index("lookback_days")["conversions"]
    >>> bool(unattributed[2.0] > unattributed[30.0])
    True
    """
    require_paths(paths)
    lengths = _lengths(lookbacks)
    with warnings.catch_warnings():
        # Lookbacks that are too short are what is compared.
        warnings.simplefilter("ignore", InputWarning)
        parts = {days: attribute(paths.with_lookback(each), models) for days, each in lengths.items()}
    return _side_by_side(parts)


def _lengths(lookbacks: Sequence[str | timedelta]) -> dict[float, str | timedelta]:
    is_several = not isinstance(lookbacks, str) and hasattr(lookbacks, "__iter__")
    given = list(lookbacks) if is_several else []
    lengths = {as_days(lookback, argument="lookbacks"): lookback for lookback in given}
    if len(lengths) < 2:
        raise InvalidRequest(f"lookbacks: {lookbacks!r} is not allowed; allowed: two or more lengths of time")
    return dict(sorted(lengths.items()))


def _side_by_side(parts: dict[float, pd.DataFrame]) -> pd.DataFrame:
    """Concatenate the parts, each with the rows of all of them, in the order of the longest lookback."""
    *_, longest = parts.values()
    every = pd.concat([longest, *parts.values()], ignore_index=True)
    rows = every[_KEYS].drop_duplicates(ignore_index=True)
    reference = rows.merge(longest, on=_KEYS, how="left")["share"].fillna(0.0)
    zeros = {"conversions": 0.0, "share": 0.0} | ({"value": 0.0} if every["value"].notna().any() else {})
    whole = []
    for days, part in parts.items():
        of_all = rows.merge(part, on=_KEYS, how="left").fillna(zeros)
        shift = of_all["share"] - reference
        whole.append(of_all.assign(lookback_days=float(days), share_shift=shift, row=rows.index))
    together = pd.concat(whole, ignore_index=True)
    models = {label: place for place, label in enumerate(every["model"].drop_duplicates())}
    order = together.assign(place=together["model"].map(models)).sort_values(
        ["place", "lookback_days", "row"]
    )
    return order[_COLUMNS].reset_index(drop=True).astype({"lookback_days": "float64"})
