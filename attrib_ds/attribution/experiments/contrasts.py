"""Compares users whom a node was withheld from with the others: regression, which nothing biases."""

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

#: Users whose rows of the regression are in memory at once.
_TOGETHER: Final = 100_000
#: Withheld users with an outcome below which their own spread does not tell how sure it is: where three are
#: to be expected there may be none by chance, and none has no spread.
_FEW: Final = 10
#: Share of a column's variance that other columns must leave, or it says nothing of its own.
_OWN: Final = 1e-9


@dataclass(frozen=True, eq=False)
class Contrast:
    """How much more there is of each outcome per user without the withholding.

    Attributes
    ----------
    difference, error : float array, shape (n_nodes, n_outcomes)
        Per user, and its standard error.
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
) -> Contrast:
    """Regress outcomes on who was withheld from which node.

    Parameters
    ----------
    outcomes : float array, shape (n_users, n_outcomes)
        Conversions and value of each user.
    is_withheld : bool array, shape (n_all_nodes, n_users)
        All holdouts that these users were in.
    covariates : float array, shape (n_users, n_covariates)
        What was known of the users before.
    nodes : sequence of int
        The nodes to contrast.
    node_ids : sequence of str
        Names of all nodes, for errors.

    Returns
    -------
    Contrast
        Covariates are centred and may act differently on either side (Lin's estimator), so that they cannot
        bias. Errors are robust (HC2): with one node and no covariate the variance is the sum of both groups'
        sample variances, each divided by its users. Of an outcome that fewer than ten of the withheld have,
        the variance is at least what it would be if they varied as the others do.

    Raises
    ------
    InvalidRequest
        If the users of one holdout follow from those of the others.
    """
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
    """Return the least variance of each outcome's difference; zero where enough of the withheld have it."""
    held, others = outcomes[is_withheld], outcomes[~is_withheld]
    usual = others.var(axis=0, ddof=1) * (1 / len(held) + 1 / len(others))
    return np.where((held != 0).sum(axis=0) < _FEW, usual, 0.0)


@dataclass(frozen=True, eq=False)
class _Design:
    """Columns: the constant, who is withheld from each node, covariates, and covariates of the withheld."""

    is_withheld: Flags
    covariates: Numbers
    nodes: list[int]

    def parts(self) -> list[slice]:
        count = len(self.covariates)
        return [slice(start, min(start + _TOGETHER, count)) for start in range(0, count, _TOGETHER)]

    def matrix(self, rows: slice) -> Numbers:
        held = self.is_withheld[:, rows].T.astype(np.float64)
        known = self.covariates[rows]
        crossed = [held[:, [node]] * known for node in self.nodes]
        return np.concatenate([np.ones((len(known), 1)), held, known, *crossed], axis=1)

    def products(self, outcomes: Numbers) -> tuple[Numbers, Numbers]:
        width = 1 + len(self.is_withheld) + self.covariates.shape[1] * (1 + len(self.nodes))
        gram, moments = np.zeros((width, width)), np.zeros((width, outcomes.shape[1]))
        for rows in self.parts():
            matrix = self.matrix(rows)
            gram += matrix.T @ matrix
            moments += matrix.T @ outcomes[rows]
        return gram, moments


def _inverse(gram: Numbers, design: _Design, node_ids: Sequence[str]) -> Numbers:
    """Return the inverse of the columns that say something of their own; zeros for the others."""
    scale = np.sqrt(np.diag(gram))
    kept: list[int] = []
    # One after the other, as Cholesky's method goes, so that the first of equal columns stays.
    for column in np.flatnonzero(scale):
        normed = gram / np.outer(np.where(scale, scale, 1), np.where(scale, scale, 1))
        own = 1.0
        if kept:
            inner = normed[np.ix_(kept, kept)]
            own = 1.0 - normed[column, kept] @ np.linalg.solve(inner, normed[kept, column])
        if own > _OWN:
            kept.append(int(column))
        elif column - 1 in range(len(design.is_withheld)):
            _check_apart(int(column) - 1, design, node_ids)
    inverse = np.zeros_like(gram)
    inverse[np.ix_(kept, kept)] = np.linalg.inv(gram[np.ix_(kept, kept)])
    return inverse


def _check_apart(node: int, design: _Design, node_ids: Sequence[str]) -> None:
    """Refuse holdouts that cannot be told apart, if one of them is asked for."""
    held = design.is_withheld
    same = [other for other in range(node) if (held[other] == held[node]).all()]
    involved = {node, *same}
    if involved & set(design.nodes):
        others = ", ".join(repr(node_ids[other]) for other in same) or "other nodes together"
        raise InvalidRequest(
            f"withheld: node {node_ids[node]!r} was withheld from the same users as {others}, so their "
            "effects cannot be told apart; allowed: give such nodes one node_id between them, or withhold "
            "each from users of its own",
            field="withheld",
        )
