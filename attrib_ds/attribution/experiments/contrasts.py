"""Compare withheld users with the others: regressions with robust errors, and balance before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pandas as pd
import pyarrow as pa
from scipy.stats import chi2

from attrib_ds.attribution.arrays import Codes, Flags, Numbers
from attrib_ds.attribution.incremental.histories import categories, check_kind, is_number
from attrib_ds.attribution.paths.paths import Paths
from attrib_ds.errors import HoldoutWarning, InvalidRequest, check_choice, warn
from attrib_ds.records.frames import TEXT, to_pandas

#: Number of users whose rows of the design matrix are held in memory at once.
_TOGETHER: Final = 100_000
#: With fewer outcomes among the withheld, their sample variance is unreliable: it is 0 if three conversions
#: are expected and none happens.
_FEW: Final = 10
#: Largest leverage of a user or cluster, whose residual is 0 at 1.
_MOST_LEVERAGE: Final = 1 - 1e-9
#: A column counts as collinear if the others leave less than this share of its variance.
_OWN: Final = 1e-9
#: Significance level of the warning, for all nodes together.
_LEVEL: Final = 0.001
#: A column is tested if at least this many users of the smaller group are expected to differ from most
#: others: with fewer, differences are not normal.
_FEWEST: Final = 10
#: An observation may end with a conversion, which the experiment may have changed.
_EXCLUDED = ("user_id", "since", "until")


@dataclass(frozen=True, eq=False)
class Contrast:
    """Differences of outcomes per user between exposed and withheld users.

    Attributes
    ----------
    difference, error : float array, shape (n_nodes, n_outcomes)
        Difference per user, and its standard error.
    influence : float array, shape (n_nodes, n_users or n_clusters, n_outcomes)
        What each user or cluster adds to the difference by chance; products of those of two nodes add up to
        their covariance.
    degrees : float array, shape (n_nodes, n_outcomes)
        Degrees of freedom of the errors; infinite without clusters.
    """

    difference: Numbers
    error: Numbers
    influence: Numbers
    degrees: Numbers


def contrast(
    outcomes: Numbers,
    is_withheld: Flags,
    covariates: Numbers,
    *,
    nodes: Sequence[int],
    node_ids: Sequence[str],
    prior: Numbers | None = None,
    cluster: Codes | None = None,
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
    cluster : int array, shape (n_users,), optional
        Cluster of each user, in which all were drawn together.

    Returns
    -------
    Contrast
        Covariates are centred and interacted with the indicators (Lin's estimator), so they do not bias the
        differences. Errors are robust (HC2): with one node and no covariate, the variance is the sum of both
        groups' sample variances, each divided by its number of users. If fewer than ten withheld users have
        an outcome, its variance is at least that of the other users; if fewer than ten users of a group have
        one, or have none, the variance is at least that of both groups with one user more with an outcome and
        one more without (Agresti and Caffo). With clusters, errors are robust to
        any dependence in a cluster and corrected for few of them (CR2), with the degrees of freedom of Bell
        and McCaffrey.

    Raises
    ------
    InvalidRequest
        If a holdout is collinear with others.

    References
    ----------
    Agresti and Caffo (2000), Simple and effective confidence intervals for proportions and differences of
    proportions, American Statistician 54(4); Bell and McCaffrey (2002), Bias reduction in standard errors for
    linear regression with multi-stage samples, Survey Methodology 28(2); Imbens and Kolesár (2016), Robust
    standard errors in small samples: some practical advice, Review of Economics and Statistics 98(4).
    """
    _check_earlier(outcomes, covariates)
    plain = _regress(outcomes, is_withheld, covariates, nodes=nodes, node_ids=node_ids, cluster=cluster)
    if prior is None:
        return plain
    held = np.array([(prior[is_withheld[node]] != 0).sum(axis=0) for node in nodes]).min(axis=0)
    is_used = (held >= _FEW) & np.isfinite(prior).all(axis=0)
    if not is_used.any():
        return plain
    joined = np.concatenate([covariates, prior[:, is_used]], axis=1)
    adjusted = _regress(outcomes, is_withheld, joined, nodes=nodes, node_ids=node_ids, cluster=cluster)
    is_better = adjusted.error < plain.error
    return Contrast(
        np.where(is_better, adjusted.difference, plain.difference),
        np.where(is_better, adjusted.error, plain.error),
        np.where(is_better[:, None], adjusted.influence, plain.influence),
        np.where(is_better, adjusted.degrees, plain.degrees),
    )


def _regress(
    outcomes: Numbers,
    is_withheld: Flags,
    covariates: Numbers,
    *,
    nodes: Sequence[int],
    node_ids: Sequence[str],
    cluster: Codes | None,
) -> Contrast:
    """Return the differences of one regression."""
    design = _Design(is_withheld, covariates - covariates.mean(axis=0), list(nodes))
    gram, moments = design.products(outcomes)
    inverse = _inverse(gram, is_withheld, nodes=nodes, node_ids=node_ids)
    coefficients = inverse @ moments
    positions = [1 + node for node in nodes]
    degrees = np.full((len(positions), outcomes.shape[1]), np.inf)
    if cluster is not None:
        influence, degrees[:] = _of_clusters(design, outcomes, inverse, coefficients, positions, cluster)
    else:
        influence = np.zeros((len(positions), *outcomes.shape))
        for rows in design.parts():
            matrix = design.matrix(rows)
            projected = matrix @ inverse
            leverage = np.minimum((projected * matrix).sum(axis=1), _MOST_LEVERAGE)
            residual = (outcomes[rows] - matrix @ coefficients) / np.sqrt(1 - leverage)[:, None]
            influence[:, rows] = projected[:, positions].T[:, :, None] * residual
    floor = np.stack([_floor(outcomes, is_withheld[node]) for node in nodes])
    variance = (influence**2).sum(axis=1)
    error, difference = np.sqrt(np.maximum(variance, floor)), -coefficients[positions]
    is_rounding = np.abs(difference) < 1e-9 * error
    return Contrast(np.where(is_rounding, 0.0, difference), error, influence, degrees)


def _check_earlier(outcomes: Numbers, covariates: Numbers) -> None:
    """Refuse a covariate that is an outcome, which then leaves no effect and no error."""
    count = len(outcomes)
    for outcome in outcomes.T:
        if not _FEW <= np.count_nonzero(outcome) <= count - _FEW:
            continue
        for covariate in covariates.T:
            if covariate.std() > 0 and abs(np.corrcoef(outcome, covariate)[0, 1]) > 1 - _OWN:
                raise InvalidRequest(
                    "covariates: one of them shows exactly who converted, or for how much, so it is the "
                    "outcome; allowed: columns from before the draw"
                )


def _of_clusters(
    design: _Design,
    outcomes: Numbers,
    inverse: Numbers,
    coefficients: Numbers,
    positions: list[int],
    cluster: Codes,
) -> tuple[Numbers, Numbers]:
    """Return the influence of each cluster (CR2), and the degrees of freedom of each position's variance.

    The residuals of a cluster are multiplied by the inverse root of ``1 - H``, with its block ``H`` of the
    hat matrix, whose rank is at most the number of columns: all is done with matrices of that size.
    """
    count, width = int(cluster.max()) + 1, len(inverse)
    gram, score = np.zeros((count, width, width)), np.zeros((count, width, outcomes.shape[1]))
    for rows in design.parts():
        matrix, here = design.matrix(rows), cluster[rows]
        residual = outcomes[rows] - matrix @ coefficients
        for column in range(width):
            for sums, factors in ((gram, matrix), (score, residual)):
                for other in range(factors.shape[1]):
                    products = matrix[:, column] * factors[:, other]
                    sums[:, column, other] += np.bincount(here, products, minlength=count)
    values, vectors = np.linalg.eigh(inverse)
    root = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
    leverage, axes = np.linalg.eigh(root @ gram @ root)
    leverage = np.clip(leverage, 0.0, _MOST_LEVERAGE)
    of_position = np.einsum("gpk,pn->gkn", axes, root[:, positions])
    widened = of_position / np.sqrt(1 - leverage)[:, :, None]
    influence = np.einsum("gkn,gpk,pq,gqo->ngo", widened, axes, root, score, optimize=True)
    # Moments of the variance if all users were independent (Satterthwaite).
    own = np.einsum("gkn,gkn,gk->ng", widened, widened, leverage)
    shared = np.einsum("gpk,gk,gkn->ngp", axes, leverage, widened)
    size = (shared**2).sum(axis=2)
    common = np.einsum("ngp,ngq->npq", shared, shared)
    square = (own**2 - 2 * own * size).sum(axis=1) + (common**2).sum(axis=(1, 2))
    degrees = (own - size).sum(axis=1) ** 2 / np.maximum(square, np.finfo(float).tiny)
    return influence, np.maximum(degrees, 1.0)[:, None]


def _floor(outcomes: Numbers, is_withheld: Flags) -> Numbers:
    """Return a lower bound of the variance of each difference.

    It is 0 if enough users of both groups have outcomes, and enough have none.
    """
    groups = outcomes[is_withheld], outcomes[~is_withheld]
    held, others = groups
    usual = others.var(axis=0, ddof=1) * (1 / len(held) + 1 / len(others))
    floor = np.where((held != 0).sum(axis=0) < _FEW, usual, 0.0)
    size = np.divide((outcomes**2).sum(axis=0), np.maximum((outcomes != 0).sum(axis=0), 1))
    added, is_few = np.zeros(len(size)), np.zeros(len(size), bool)
    for group in groups:
        having = (group != 0).sum(axis=0)
        is_few |= np.minimum(having, len(group) - having) < _FEW
        # One user more with an outcome, and one more without (Agresti and Caffo).
        share = (having + 1) / (len(group) + 2)
        added += share * (1 - share) * size / (len(group) + 2)
    return np.where(is_few, np.maximum(floor, added), 0.0)


@dataclass(frozen=True, eq=False)
class _Design:
    """Design matrix: intercept, indicators of withheld nodes, covariates, and their interactions."""

    is_withheld: Flags
    covariates: Numbers
    nodes: list[int]

    def parts(self) -> list[slice]:
        return [slice(start, start + _TOGETHER) for start in range(0, len(self.covariates), _TOGETHER)]

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


def _inverse(gram: Numbers, is_withheld: Flags, *, nodes: Sequence[int], node_ids: Sequence[str]) -> Numbers:
    """Return the pseudo-inverse, which collinear covariates leave the same for the differences of nodes."""
    scale = np.sqrt(np.diag(gram))
    scale = np.where(scale > 0, scale, 1.0)
    normed = gram / np.outer(scale, scale)
    inverse = np.linalg.pinv(normed, rcond=_OWN, hermitian=True)
    is_own = np.diag(inverse @ normed) > 1 - 1e-6
    for node in nodes:
        if not is_own[1 + node]:
            is_same = (is_withheld == is_withheld[node]).all(axis=1)
            same = [
                name for name, flag in zip(node_ids, is_same, strict=True) if flag and name != node_ids[node]
            ]
            others = ", ".join(map(repr, same)) or "other nodes combined"
            raise InvalidRequest(
                f"withheld: node {node_ids[node]!r} was withheld from the same users as {others}, so their "
                "effects cannot be separated; allowed: one shared node_id for such nodes, or an independent "
                "draw of users for each"
            )
    return np.asarray(inverse / np.outer(scale, scale))


@dataclass(frozen=True, eq=False)
class Balance:
    """Differences of users before an experiment.

    Attributes
    ----------
    difference : float array, shape (n_columns,)
        Standardised difference of each column: that of the means of withheld and other users, divided by the
        root of the mean of both variances; null if it was not tested.
    probability : float
        Probability of differences this large by chance, of all columns together (Wald test); 1 without any.
    """

    difference: Numbers
    probability: float


def balance(columns: Numbers, is_withheld: Flags) -> Balance:
    """Compare withheld users with the others by what is known of them from before an experiment.

    Parameters
    ----------
    columns : float array, shape (n_users, n_columns)
        Outcomes, touchpoints and covariates of users from before the experiment.
    is_withheld : bool array, shape (n_users,)
        Users from whom the node was withheld.
    """
    difference = np.full(columns.shape[1], np.nan)
    smaller = min(int(is_withheld.sum()), int((~is_withheld).sum()))
    unusual = (columns != np.median(columns, axis=0)).mean(axis=0) if columns.size else difference
    tested = np.flatnonzero(unusual * smaller >= _FEWEST)
    if not len(tested):
        return Balance(difference, 1.0)
    groups = columns[is_withheld][:, tested], columns[~is_withheld][:, tested]
    distance = groups[0].mean(axis=0) - groups[1].mean(axis=0)
    covariances = [np.atleast_2d(np.cov(group, rowvar=False)) for group in groups]
    spread = np.sqrt(np.maximum((np.diag(covariances[0]) + np.diag(covariances[1])) / 2, 1e-300))
    # Columns may be collinear, such as those of the values of one category.
    scaled = sum(
        covariance / len(group) for covariance, group in zip(covariances, groups, strict=True)
    ) / np.outer(spread, spread)
    values, vectors = np.linalg.eigh(scaled)
    is_own = values > 1e-9 * values[-1]
    projected = (distance / spread) @ vectors[:, is_own]
    statistic = float((projected**2 / values[is_own]).sum())
    difference[tested] = distance / spread
    return Balance(difference, float(chi2.sf(statistic, int(is_own.sum()))))


def warn_of_imbalance(found: dict[str, Balance], names: Sequence[str]) -> None:
    """Warn of nodes whose groups differed before the experiment by more than chance explains."""
    uneven = []
    for node, result in found.items():
        if result.probability * len(found) < _LEVEL:
            worst = int(np.nanargmax(np.abs(result.difference)))
            uneven.append(f"{node} ({names[worst]}: {result.difference[worst]:+.2f} standard deviations)")
    if uneven:
        warn(
            "withheld users differed from the others before the experiment by more than chance explains: "
            f"{', '.join(uneven[:10])}{' and others' if len(uneven) > 10 else ''}. So they were not drawn at "
            "random, or since= is later than the beginning, and the effects are biased; check the draw, its "
            "beginning, and that withheld= and participants= list all users, not only those active later",
            HoldoutWarning,
        )


def covariates_of(paths: Paths, users: pd.Index[str], names: Sequence[str]) -> Numbers:
    """Return the covariates of users, with categories as one-hot columns.

    Raises
    ------
    InvalidRequest
        If a covariate is unknown, is missing for a user, or is not numbers, flags or text of up to 100
        values.
    """
    if isinstance(names, str):
        raise InvalidRequest.value("covariates", names, f"a list of columns, as in [{names!r}]")
    observed = paths.observed
    allowed = [] if observed is None else [name for name in observed.columns if name not in _EXCLUDED]
    for name in names:
        check_choice("covariates", name, allowed)
    if observed is None or not names:
        return np.zeros((len(users), 0))
    table = observed.select("user_id", *names).to_pyarrow()
    for name in names:
        check_kind(table[name].type, name, argument="covariates")
    rows = to_pandas(table).set_index("user_id").reindex(users)
    columns: list[Numbers] = []
    for name in names:
        values = rows[name]
        if values.isna().any():
            raise InvalidRequest(
                f"covariates: {name!r} is missing for {int(values.isna().sum())} users; allowed: a value for "
                "every participant"
            )
        if is_number(table[name].type) or pa.types.is_boolean(table[name].type):
            columns.append(np.asarray(values, dtype=np.float64))
            continue
        columns += categories(values.astype(TEXT), name, argument="covariates")
    matrix = np.stack(columns, axis=1) if columns else np.zeros((len(users), 0))
    if not np.isfinite(matrix).all():
        raise InvalidRequest("covariates: some values are infinite; allowed: finite numbers, flags and text")
    return matrix


def clusters_of(paths: Paths, users: pd.Index[str], cluster: str | None) -> dict[str | None, Codes]:
    """Return the column in which users may have been drawn, as numbers of its values.

    Parameters
    ----------
    paths : Paths
        Paths with the users table.
    users : Index
        Participants.
    cluster : str or None
        The column; all columns with fewer values than users if None, none if ``"user_id"``.

    Raises
    ------
    InvalidRequest
        If the column is unknown, or a participant has no value of it.
    """
    if cluster == "user_id":
        return {}
    observed = paths.observed
    names = [] if observed is None else [name for name in observed.columns if name not in _EXCLUDED]
    if cluster is not None:
        check_choice("cluster", cluster, [*names, "user_id"])
        names = [cluster]
    if observed is None or not names:
        return {}
    rows = to_pandas(observed.select("user_id", *names).to_pyarrow()).set_index("user_id").reindex(users)
    columns: dict[str | None, Codes] = {}
    for name in names:
        if cluster is not None and rows[name].isna().any():
            raise InvalidRequest(
                f"cluster: {name!r} is missing for {int(rows[name].isna().sum())} users; allowed: a value "
                "for every participant"
            )
        columns[name] = np.asarray(pd.factorize(rows[name], use_na_sentinel=False)[0], np.int64)
    return columns
