"""Compare withheld users with the others, by linear regression with robust standard errors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from attrib_ds.errors import InvalidRequest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Numbers = NDArray[np.float64]
    Flags = NDArray[np.bool_]

#: Number of users whose rows of the design matrix are held in memory at once.
_TOGETHER: Final = 100_000
#: With fewer outcomes among the withheld, their sample variance is unreliable: it is 0 if three conversions
#: are expected and none happens.
_FEW: Final = 10
#: A column counts as collinear if the others leave less than this share of its variance.
_OWN: Final = 1e-9


@dataclass(frozen=True, eq=False)
class Contrast:
    """Differences of outcomes per user between exposed and withheld users.

    Attributes
    ----------
    difference, error : float array, shape (n_nodes, n_outcomes)
        Difference per user, and its standard error.
    """

    difference: Numbers
    error: Numbers


def contrast(
    outcomes: Numbers,
    is_withheld: Flags,
    covariates: Numbers,
    *,
    nodes: Sequence[int],
    node_ids: Sequence[str],
    prior: Numbers | None = None,
) -> Contrast:
    """Regress outcomes on indicators of the withheld nodes.

    Parameters
    ----------
    outcomes : float array, shape (n_users, n_outcomes)
        Conversions and value of each user.
    is_withheld : bool array, shape (n_all_nodes, n_users)
        Users withheld from each node, for all holdouts.
    covariates : float array, shape (n_users, n_covariates)
        Covariates from before the experiment.
    nodes : sequence of int
        Positions of the nodes to estimate.
    node_ids : sequence of str
        Ids of all nodes, for error messages.
    prior : float array, shape (n_users, n_prior), optional
        Outcomes before the experiment, which join the covariates of each outcome whose error they reduce
        (CUPED). A column with a missing value, or in which fewer than ten withheld users differ from zero, is
        left out.

    Returns
    -------
    Contrast
        Covariates are centred and interacted with the indicators (Lin's estimator), so they do not bias the
        differences. Errors are robust (HC2): with one node and no covariate, the variance is the sum of both
        groups' sample variances, each divided by its number of users. If fewer than ten withheld users have
        an outcome, its variance is at least that of the other users.

    Raises
    ------
    InvalidRequest
        If a holdout is collinear with others.
    """
    plain = _regress(outcomes, is_withheld, covariates, nodes=nodes, node_ids=node_ids)
    if prior is None:
        return plain
    held = np.array([(prior[is_withheld[node]] != 0).sum(axis=0) for node in nodes]).min(axis=0)
    is_used = (held >= _FEW) & np.isfinite(prior).all(axis=0)
    if not is_used.any():
        return plain
    joined = np.concatenate([covariates, prior[:, is_used]], axis=1)
    adjusted = _regress(outcomes, is_withheld, joined, nodes=nodes, node_ids=node_ids)
    is_better = adjusted.error < plain.error
    return Contrast(
        np.where(is_better, adjusted.difference, plain.difference),
        np.where(is_better, adjusted.error, plain.error),
    )


def _regress(
    outcomes: Numbers,
    is_withheld: Flags,
    covariates: Numbers,
    *,
    nodes: Sequence[int],
    node_ids: Sequence[str],
) -> Contrast:
    """Return the differences of one regression."""
    design = _Design(is_withheld, covariates - covariates.mean(axis=0), list(nodes))
    gram, moments = design.products(outcomes)
    inverse = _inverse(gram, design, node_ids)
    coefficients = inverse @ moments
    positions = [1 + node for node in nodes]
    variance = np.zeros((len(positions), outcomes.shape[1]))
    for rows in design.parts():
        matrix = design.matrix(rows)
        projected = matrix @ inverse
        leverage = np.minimum((projected * matrix).sum(axis=1), 1 - 1e-9)
        residual = (outcomes[rows] - matrix @ coefficients) ** 2 / (1 - leverage)[:, None]
        variance += (projected[:, positions] ** 2).T @ residual
    floor = np.stack([_floor(outcomes, is_withheld[node]) for node in nodes])
    return Contrast(-coefficients[positions], np.sqrt(np.maximum(variance, floor)))


def _floor(outcomes: Numbers, is_withheld: Flags) -> Numbers:
    """Return a lower bound of the variance of each difference; 0 if enough of the withheld have outcomes."""
    held, others = outcomes[is_withheld], outcomes[~is_withheld]
    usual = others.var(axis=0, ddof=1) * (1 / len(held) + 1 / len(others))
    return np.where((held != 0).sum(axis=0) < _FEW, usual, 0.0)


@dataclass(frozen=True, eq=False)
class _Design:
    """Design matrix: intercept, indicators of withheld nodes, covariates, and their interactions."""

    is_withheld: Flags
    covariates: Numbers
    nodes: list[int]

    def parts(self) -> list[slice]:
        count = len(self.covariates)
        return [slice(start, min(start + _TOGETHER, count)) for start in range(0, count, _TOGETHER)]

    def matrix(self, rows: slice) -> Numbers:
        held = self.is_withheld[:, rows].T.astype(np.float64)
        covariates = self.covariates[rows]
        interactions = [held[:, [node]] * covariates for node in self.nodes]
        intercept = np.ones((len(covariates), 1))
        return np.concatenate([intercept, held, covariates, *interactions], axis=1)

    def products(self, outcomes: Numbers) -> tuple[Numbers, Numbers]:
        width = 1 + len(self.is_withheld) + self.covariates.shape[1] * (1 + len(self.nodes))
        gram, moments = np.zeros((width, width)), np.zeros((width, outcomes.shape[1]))
        for rows in self.parts():
            matrix = self.matrix(rows)
            gram += matrix.T @ matrix
            moments += matrix.T @ outcomes[rows]
        return gram, moments


def _inverse(gram: Numbers, design: _Design, node_ids: Sequence[str]) -> Numbers:
    """Return the inverse for the linearly independent columns; zeros for the others."""
    scale = np.sqrt(np.diag(gram))
    kept: list[int] = []
    # As in a Cholesky decomposition, columns enter one by one, so the first of equal columns is kept.
    for column in np.flatnonzero(scale):
        normed = gram / np.outer(np.where(scale, scale, 1), np.where(scale, scale, 1))
        own = 1.0
        if kept:
            inner = normed[np.ix_(kept, kept)]
            own = 1.0 - normed[column, kept] @ np.linalg.solve(inner, normed[kept, column])
        if own > _OWN:
            kept.append(int(column))
        elif column - 1 in range(len(design.is_withheld)):
            _check_separable(int(column) - 1, design, node_ids)
    inverse = np.zeros_like(gram)
    inverse[np.ix_(kept, kept)] = np.linalg.inv(gram[np.ix_(kept, kept)])
    return inverse


def _check_separable(node: int, design: _Design, node_ids: Sequence[str]) -> None:
    """Refuse collinear holdouts if one of them is to be estimated."""
    held = design.is_withheld
    same = [other for other in range(node) if (held[other] == held[node]).all()]
    involved = {node, *same}
    if involved & set(design.nodes):
        others = ", ".join(repr(node_ids[other]) for other in same) or "other nodes combined"
        raise InvalidRequest(
            f"withheld: node {node_ids[node]!r} was withheld from the same users as {others}, so their "
            "effects cannot be separated; allowed: one shared node_id for such nodes, or an independent draw "
            "of users for each",
            field="withheld",
        )
