"""Effects of nodes, measured by randomised holdouts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import pandas as pd
from scipy.stats import t as student

from attrib_ds import display
from attrib_ds.attribution.arrays import Codes, Flags, Numbers
from attrib_ds.attribution.engines.engine import engine
from attrib_ds.attribution.experiments import contrasts
from attrib_ds.attribution.experiments.effects import Effects, Ranges, around, recorded, weighted
from attrib_ds.attribution.paths import inputs, sequences
from attrib_ds.attribution.paths.paths import Paths
from attrib_ds.errors import HoldoutWarning, InvalidRequest, check_choice, warn
from attrib_ds.records.frames import TEXT, FrameOrPath, to_pandas

#: Microseconds since 1970, beyond any instant.
_ALWAYS: Final = -(2**62)
_NEVER: Final = 2**62
#: Standard deviations by which the withheld share of users with an opportunity may deviate by chance.
_MAX_DEVIATION: Final = 4.0
#: Log of the probability below which it is no chance that a draw of single users follows a column.
_BY_CHANCE: Final = float(np.log(1e-6))
_PAIR: Final = ["user_id", "node_id"]


def holdout_effects(
    paths: Paths,
    withheld: FrameOrPath,
    *,
    covariates: Sequence[str] = (),
    cuped: bool = True,
    cluster: str | None = None,
) -> HoldoutEffects:
    """Measure the conversions that nodes caused, from a randomised holdout.

    Users from whom a node was withheld are compared with the other participants, whether or not these were
    reached (intention to treat). Nodes withheld independently of each other are estimated in one regression.
    The effect is identified by randomisation alone, without assumptions about paths or about who is reached.

    Parameters
    ----------
    paths : Paths
        Paths with users, from ``Paths.from_frames`` or :func:`conversion_paths`.
    withheld : DataFrame or path of a Parquet file
        One row per user and node: ``user_id``, ``node_id`` and optionally

        - ``withheld`` (bool): whether the node was withheld from the user; rows with False list the other
          participants, as :func:`attrib_ds.experiments.assign` returns them. Without the column, the node was
          withheld from all users listed, and all users of ``Paths.from_frames(users=...)`` took part.
        - ``since``, ``until`` (timestamps, both included): the window in which conversions count. Without
          ``withheld``, that of a node's users holds for all others.
        - ``date`` (timestamp, may be missing): one row per touchpoint that the user had or would have had, as
          an ad server logs it ("ghost ads") and :func:`attrib_ds.experiments.list_opportunities` returns it.
          The comparison is then limited to users with a touchpoint or such an opportunity and to their
          conversions from the first one on, which narrows intervals by about a third. Withheld users without
          an opportunity stay in the frame, with a missing date.
    covariates : sequence of str, optional
        Columns of ``Paths.from_frames(users=...)`` to adjust for (Lin's estimator). Their values must date
        from before the draw, so that the experiment cannot have changed them.
    cuped : bool, default True
        Whether to adjust for the participants' conversions and value before ``since`` (CUPED), which narrows
        intervals if those who converted before convert again. Each number keeps the estimate with the smaller
        standard error. Without ``since``, or if fewer than ten withheld users converted before, nothing is
        adjusted.
    cluster : str, optional
        Column of ``Paths.from_frames(users=...)`` whose values were drawn as a whole, such as regions, stores
        or households: users of a cluster are alike, so few clusters say less than many users. Standard errors
        are robust to that, with a t distribution whose degrees of freedom follow from the number of clusters.
        ``"user_id"`` says that users were drawn one by one; by default, that is assumed unless the data
        contradict it.

    Returns
    -------
    HoldoutEffects
        ``.table()``: effects with intervals, conversions and value lost if the node were withheld from all
        compared users; ``.contrast(a, b)``, ``.scale(share)``, ``.plot()``, ``.identified`` as in
        :func:`attrib_ds.estimate_effects`; ``.groups()``: the users compared. Effects are null in currencies
        without a conversion that counts for the node.

    Warns
    -----
    HoldoutWarning
        If withheld users have touchpoints of the node: they still count as withheld, so the effect is
        underestimated. If the withheld share of users with an opportunity differs from the share drawn by
        more than chance explains, so that the groups are not comparable. If withheld users and the others
        differ in their conversions before ``since``, in their touchpoints of the node before it, or in
        ``covariates``, by more than chance explains (one test for all of them, at a significance level of
        0.001): such a draw was not random, which adjusting does not fix, or began before ``since``.

    Raises
    ------
    InvalidRequest
        If a column is missing; a node or user is unknown; rows contradict each other about a draw or a
        window; fewer than two participants, or clusters, are withheld or not withheld; the users withheld
        are all those of some values of a column, as in a holdout by region, and ``cluster`` is not given; the
        column ``withheld`` is missing
        and the paths have no users table; two nodes were withheld from the same users; or no conversion
        counts for a node, for example because its ``since`` and ``until`` lie outside the data.

    Notes
    -----
    The effect is that of one node while the other nodes run as in the experiment. With large holdouts and
    strong interactions it differs slightly from the effect with no other node withheld. Standard errors are
    robust and reliable from a few dozen conversions among the withheld on. With fewer than ten, the variance
    of the withheld is taken to be at least that of the others, since a few withheld users may have no
    conversion by chance.

    References
    ----------
    Bell and McCaffrey (2002), Bias reduction in standard errors for linear regression with multi-stage
    samples, Survey Methodology 28(2); Lin (2013), Agnostic notes on regression adjustments to experimental
    data, Annals of Applied Statistics 7(1); Deng, Xu, Kohavi and Walker (2013), Improving the sensitivity of
    online controlled experiments by utilizing pre-experiment data, WSDM; Johnson, Lewis and Nubbemeyer
    (2017), Ghost ads, Journal of Marketing Research 54(6).

    Examples
    --------
    >>> import attrib_ds as at
    >>> world = at.simulate("random", users=20_000, seed=1, holdout=0.2)
    >>> paths = at.Paths.from_frames(world.touchpoints, world.conversions, users=world.users)
    >>> effects = at.experiments.holdout_effects(paths, world.withheld, covariates=["trait"]).table()
    >>> sorted(effects["node_id"])[:3], bool((effects["low"] < effects["high"]).all())
    (['brand_search', 'display', 'email'], True)

    With a log of the touchpoints that withheld users would have had:

    >>> logged = world.withheld.merge(world.opportunities, how="left")
    >>> narrower = at.experiments.holdout_effects(paths, logged).table()
    """
    with recorded() as messages:
        draws = read_draws(withheld)
        trial = Trial.of(paths, draws, cluster=cluster)
        first, earlier = _first_touches(paths, trial)
        contaminated = (first < _NEVER) & trial.is_withheld
        reached = (first < _NEVER) & trial.takes_part & ~trial.is_withheld
        _warn_contaminated(trial, contaminated)
        compared = trial if "date" not in draws else _triggered(trial, first, draws.dropna(subset="date"))
        outcomes = _Outcomes.of(paths, trial.users)
        matrix = contrasts.covariates_of(paths, trial.users, covariates)
        names = [f"covariates {', '.join(covariates)}"] * matrix.shape[1]
        contrasts.warn_of_imbalance(
            {
                node: _balance(trial, number, outcomes, earlier[number], matrix)
                for number, node in enumerate(trial.node_ids)
            },
            ["conversions before", "touchpoints before", *names],
        )
        before = trial if cuped and trial.since is not None else None
        found = _measured(compared, outcomes, matrix, before=before)
    counts = {
        "users": compared.takes_part.sum(axis=1),
        "withheld": (compared.is_withheld & compared.takes_part).sum(axis=1),
        "reached": reached.sum(axis=1),
        "contaminated": contaminated.sum(axis=1),
    }
    node_ids = trial.node_ids
    return HoldoutEffects(
        "holdout",
        [*node_ids],
        paths.names(pd.Series(node_ids, dtype=TEXT)).tolist(),
        outcomes.currencies,
        np.ones((len(node_ids), len(outcomes.currencies)), bool),
        warnings=tuple(messages),
        counts=pd.DataFrame(counts, dtype="Int64"),
        cluster=None if trial.cluster is None else cluster,
        **found,
    )


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class HoldoutEffects(Effects):
    """Effects measured by a randomised holdout, from :func:`attrib_ds.experiments.holdout_effects`."""

    #: Users compared, one row per node.
    counts: pd.DataFrame
    #: Conversions per user of both groups; shape (2, n_nodes, n_currencies).
    rates: Numbers
    #: Effects and their standard errors, conversions and value in turn; shape (n_nodes, n_outcomes).
    caused: Numbers
    error: Numbers
    #: Correlation of the errors of nodes; shape (n_nodes, n_nodes, n_outcomes).
    correlation: Numbers
    #: Degrees of freedom of the errors, infinite without clusters; shape (n_nodes, n_outcomes).
    degrees: Numbers
    #: Column whose values were drawn as a whole.
    cluster: str | None = None

    def groups(self) -> pd.DataFrame:
        """Return the users compared.

        Returns
        -------
        DataFrame
            One row per node and currency, by node: ``node_id``, ``node_name``, ``currency`` (str); numbers of
            users (Int64): ``users`` (compared), ``withheld`` (compared and withheld), ``reached`` (not
            withheld, with a touchpoint of the node), ``contaminated`` (withheld, but with a touchpoint of the
            node); ``rate``, ``withheld_rate`` (float64, conversions per user, not withheld and withheld).
        """
        keys = pd.DataFrame({"node_id": self.node_ids, "node_name": self.node_names})
        several = len(self.currencies)
        rows = keys.join(self.counts).loc[lambda nodes: nodes.index.repeat(several)].reset_index(drop=True)
        rows.insert(2, "currency", pd.array(self.currencies * len(keys), dtype=TEXT))
        rows["rate"], rows["withheld_rate"] = (rate.ravel() for rate in self.rates)
        return rows.astype({"node_id": TEXT, "node_name": TEXT})

    @property
    def identified(self) -> str:
        """What is identified, under which assumptions, and what is not."""
        by = "" if self.cluster is None else f", drawn by {self.cluster}"
        return (
            "caused: the total effect, including what a node triggers in others, identified by randomisation "
            f"alone{by}, while the other nodes run as in the experiment. low and high measure sampling error."
        )

    def _observed_ranges(self, weights: Numbers, currency: int, measure: str, confidence: float) -> Ranges:
        outcome = 2 * currency + (measure == "value")
        error = self.error[:, outcome]
        covariance = self.correlation[:, :, outcome] * np.outer(error, error)
        variance = weighted(weights, np.stack([weighted(weights, each) for each in covariance], axis=-1))
        degrees = np.where(weights != 0, self.degrees[:, outcome], np.inf).min(axis=-1)
        half_width = student.ppf(0.5 + confidence / 2, degrees) * np.sqrt(np.maximum(variance, 0.0))
        return around(weighted(weights, self.caused[:, outcome]), half_width)


def read_draws(frame: object) -> pd.DataFrame:
    """Return who was withheld from what, from a frame of a user.

    Returns
    -------
    DataFrame
        ``user_id``, ``node_id`` and, if the frame has them, ``withheld`` (bool), ``since``, ``until`` and
        ``date`` (microseconds since 1970; null without a date).

    Raises
    ------
    InvalidRequest
        If a column is missing or of another kind, there are no rows, or rows contradict each other.
    """
    given = inputs.Input.open(engine(), frame, argument="withheld")
    columns: dict[str, Any] = {name: given.keys(name, role=None) for name in _PAIR}
    if given.has("withheld"):
        columns["withheld"] = given.flags("withheld", role=None)
    for name in ("since", "until", "date"):
        if given.has(name):
            columns[name] = given.instants(name, role=None, optional=name == "date")
    given.check()
    rows = to_pandas(given.table.select(**columns).to_pyarrow()).drop_duplicates(ignore_index=True)
    if rows.empty:
        raise InvalidRequest(
            "withheld has no rows; allowed: one row per user and withheld node", field="withheld"
        )
    for name in rows.columns.intersection(["since", "until", "date"]):
        is_known = rows[name].notna()
        rows[name] = pd.Series(_microseconds(rows[name]), rows.index, "Int64").where(is_known)
    draws = rows.drop(columns="date", errors="ignore").drop_duplicates()
    repeated = draws[draws.duplicated(_PAIR)]
    if len(repeated):
        user, node = repeated[_PAIR].iloc[0]
        drawn = draws[(draws["user_id"] == user) & (draws["node_id"] == node)]
        is_drawn_twice = "withheld" in drawn and drawn["withheld"].nunique() > 1
        complaint = "as withheld and as not withheld" if is_drawn_twice else "with different since or until"
        raise InvalidRequest(
            f"withheld: user {user!r} and node {node!r} occur {complaint}; allowed: one draw and one window "
            "per user and node"
        )
    if {"since", "until"} <= set(rows.columns) and (rows["since"] > rows["until"]).any():
        user, node = rows.loc[rows["since"] > rows["until"], _PAIR].iloc[0]
        raise InvalidRequest(
            f"withheld: since is after until, for example for user {user!r} and node {node!r}; allowed: "
            "since no later than until"
        )
    return rows


@dataclass(frozen=True, eq=False)
class Trial:
    """Participants of an experiment; users are numbered by their position in ``users``.

    Attributes
    ----------
    users : Index
        All participants, for any node.
    node_ids : list of str
        Withheld nodes, sorted.
    takes_part, is_withheld : bool array, shape (n_nodes, n_users)
        Participants in the experiment on each node, and users from whom it was withheld.
    since, until : int array, shape (n_nodes, n_users), or None
        Window in which conversions count, in microseconds since 1970; None if unbounded.
    cluster : int array, shape (n_users,), or None
        Cluster in which each user was drawn; None if users were drawn one by one.
    """

    users: pd.Index[str]
    node_ids: list[str]
    takes_part: Flags
    is_withheld: Flags
    since: Codes | None = None
    until: Codes | None = None
    cluster: Codes | None = None

    @classmethod
    def of(cls, paths: Paths, draws: pd.DataFrame, *, cluster: str | None = None) -> Trial:
        """Make an experiment of draws.

        Raises
        ------
        InvalidRequest
            If a node or a user is unknown, windows differ, fewer than two participants or clusters are
            withheld or not withheld, or users were drawn by a column other than ``cluster``.
        """
        has_others = "withheld" in draws
        pairs = draws.drop(columns="date", errors="ignore").drop_duplicates()
        held = pairs["withheld"].astype(bool) if has_others else pd.Series(True, pairs.index)
        node_ids = sorted(pairs["node_id"].unique())
        _check_nodes(paths, node_ids)
        users = _users(paths, pairs if has_others else None)
        user = users.get_indexer(pd.Index(pairs["user_id"]))
        if (user < 0).any():
            example = pairs["user_id"].iloc[int(np.argmax(user < 0))]
            raise InvalidRequest(
                f"withheld: {display.counted((user < 0).sum(), 'rows')} of users who did not take part, such "
                f"as {example!r}; allowed: users of Paths.from_frames(users=…), or all participants with the "
                "column 'withheld'"
            )
        place = pd.Index(node_ids).get_indexer(pd.Index(pairs["node_id"])), user
        shape = (len(node_ids), len(users))
        takes_part, is_withheld = np.full(shape, not has_others), np.zeros(shape, bool)
        takes_part[place] = True
        is_withheld[place] = held
        windows = {}
        for name, otherwise in (("since", _ALWAYS), ("until", _NEVER)):
            if name in pairs:
                windows[name] = np.full(shape, otherwise, np.int64)
                windows[name][place] = pairs[name]
                if not has_others:
                    windows[name] = _for_all(windows[name], is_withheld, node_ids, name)
        columns = contrasts.clusters_of(paths, users, cluster)
        trial = cls(users, node_ids, takes_part, is_withheld, **windows, cluster=columns.pop(cluster, None))
        trial.check()
        for column, values in columns.items():
            trial.check_drawn_singly(str(column), values)
        return trial

    def check(self) -> None:
        """Refuse an experiment with fewer than two users or clusters on either side."""
        units = "participants" if self.cluster is None else "clusters"
        for node, part, held in zip(self.node_ids, self.takes_part, self.is_withheld, strict=True):
            sides = [np.flatnonzero(part & held), np.flatnonzero(part & ~held)]
            if self.cluster is not None:
                sides = [np.unique(self.cluster[side]) for side in sides]
            counts = [len(side) for side in sides]
            if min(counts) < 2:
                raise InvalidRequest(
                    f"withheld: node {node!r} was withheld from {counts[0]} of {sum(counts)} {units}; "
                    f"allowed: at least 2 withheld and 2 other {units}"
                )

    def check_drawn_singly(self, name: str, values: Codes) -> None:
        """Refuse an experiment whose withheld users are all those of some values of a column."""
        for node, part, held in zip(self.node_ids, self.takes_part, self.is_withheld, strict=True):
            users = np.bincount(values[part])
            withheld = np.bincount(values[part & held], minlength=len(users))
            share = withheld.sum() / users.sum()
            # Values of one user say nothing, and small ones may be withheld as a whole by chance.
            chance = np.logaddexp(users * np.log(share), users * np.log1p(-share))[users > 1].sum()
            if ((withheld == 0) | (withheld == users)).all() and chance < _BY_CHANCE:
                raise InvalidRequest(
                    f"cluster: node {node!r} was withheld from all users of {int((withheld > 0).sum())} of "
                    f"{int((users > 0).sum())} values of {name!r} and no others, so users were not drawn one "
                    f"by one, and intervals would be too narrow; pass cluster={name!r}, or "
                    "cluster='user_id' if the column only records a draw of single users"
                )

    def within(self, node: int, user: Codes, instant: Codes) -> Flags:
        """Return which instants of users lie within the window of a node."""
        inside = self.takes_part[node, user]
        if self.since is not None:
            inside = inside & (instant >= self.since[node, user])
        if self.until is not None:
            inside = inside & (instant <= self.until[node, user])
        return np.asarray(inside)

    def before(self, node: int, user: Codes, instant: Codes) -> Flags:
        """Return which instants of participants lie before the window of a node; none if it is unbounded."""
        if self.since is None:
            return np.zeros(len(user), bool)
        return np.asarray(self.takes_part[node, user] & (instant < self.since[node, user]))

    def numbers_of(self, rows: pd.DataFrame) -> tuple[Codes, Codes, Flags]:
        """Return the positions of each row's user and node, and which rows belong to the experiment."""
        user = self.users.get_indexer(pd.Index(rows["user_id"]))
        node = pd.Index(self.node_ids).get_indexer(pd.Index(rows["node_id"]))
        return user, node, np.asarray((user >= 0) & (node >= 0))


@dataclass(frozen=True, eq=False)
class _Outcomes:
    """Conversions of participants as arrays; users and currencies are numbers."""

    user: Codes
    instant: Codes
    currency: Codes
    conversions: Numbers
    value: Numbers
    currencies: list[str | None]

    @classmethod
    def of(cls, paths: Paths, users: pd.Index[str]) -> _Outcomes:
        names = ("event_id", "user_id", "event_date", "conversions", "value", "currency")
        # A fixed order makes floating-point sums reproducible.
        table = paths.ends.select(*names).order_by("event_id").to_pyarrow()
        number, currencies = sequences.number_currencies(table["currency"], np.ones(len(table), bool))
        rows = to_pandas(table.select(["user_id", "event_date", "conversions", "value"]))
        user = users.get_indexer(pd.Index(rows["user_id"]))
        took_part = user >= 0
        return cls(
            user[took_part],
            _microseconds(rows["event_date"])[took_part],
            number[took_part],
            np.asarray(rows["conversions"], dtype=np.float64)[took_part],
            np.asarray(rows["value"], dtype=np.float64)[took_part],
            currencies or [None],
        )

    def per_user(self, trial: Trial, node: int, *, before: bool = False) -> Numbers:
        """Return conversions and value of each user by currency, within or before the window of a node."""
        counts = (trial.before if before else trial.within)(node, self.user, self.instant)
        users = len(trial.users)
        columns = []
        for number in range(len(self.currencies)):
            chosen = counts & (self.currency == number)
            columns += [
                np.bincount(self.user[chosen], amounts[chosen], users)
                for amounts in (self.conversions, self.value)
            ]
        return np.stack(columns, axis=1)


def _balance(
    trial: Trial, node: int, outcomes: _Outcomes, touchpoints: Numbers, covariates: Numbers
) -> contrasts.Balance:
    """Compare the groups of a node by conversions and touchpoints before its window, and by covariates."""
    part = trial.takes_part[node]
    conversions = outcomes.per_user(trial, node, before=True)[:, ::2].sum(axis=1)
    counts = np.stack([np.maximum(conversions, 0), touchpoints], axis=1)
    # Few users have most touchpoints; logarithms make the test depend on all.
    known = np.concatenate([np.log1p(counts), covariates], axis=1)[part]
    held = trial.is_withheld[node, part]
    if trial.cluster is None:
        return contrasts.balance(known, held)
    number, cluster = np.unique(trial.cluster[part], return_inverse=True)
    weight = np.bincount(cluster)
    means = [np.bincount(cluster, column, len(number)) / weight for column in (*known.T, held)]
    return contrasts.balance(np.stack(means[:-1], axis=1), means[-1] > 0.5)


def _measured(
    trial: Trial, outcomes: _Outcomes, covariates: Numbers, *, before: Trial | None
) -> dict[str, Any]:
    """Estimate effects; ``before`` has the windows whose earlier outcomes are covariates."""
    positions = list(range(len(trial.node_ids)))
    # If all users took part and all conversions count, one regression estimates all nodes.
    is_plain = trial.since is None and trial.until is None and trial.takes_part.all()
    shape = (len(positions), 2 * len(outcomes.currencies))
    caused, error = np.full((2, *shape), np.nan)
    rates = np.zeros((2, len(positions), len(outcomes.currencies)))
    degrees = np.full(shape, np.inf)
    cluster = trial.cluster
    units = len(trial.users) if cluster is None else int(cluster.max()) + 1
    influence = np.zeros((len(positions), units, shape[1]))
    for nodes in [positions] if is_plain else [[node] for node in positions]:
        part = trial.takes_part[nodes[0]]
        amounts = outcomes.per_user(trial, nodes[0])[part]
        has_any = amounts[:, ::2].any(axis=0)
        if not has_any.any():
            raise InvalidRequest(
                f"withheld: no conversion of a participant counts for node {trial.node_ids[nodes[0]]!r}; "
                "allowed: participants, and since and until if given, with at least one conversion"
            )
        held = trial.is_withheld[:, part]
        prior = None if before is None else outcomes.per_user(before, nodes[0], before=True)[part]
        found = contrasts.contrast(
            amounts,
            held,
            covariates[part],
            nodes=nodes,
            node_ids=trial.node_ids,
            prior=prior,
            cluster=None if cluster is None else cluster[part],
        )
        is_known = np.repeat(has_any, 2)
        users = int(part.sum())
        caused[nodes] = np.where(is_known, users * found.difference, np.nan)
        error[nodes] = np.where(is_known, users * found.error, np.nan)
        degrees[nodes] = found.degrees
        which = (
            np.flatnonzero(part) if cluster is None else np.arange(found.influence.shape[1], dtype=np.int64)
        )
        influence[np.ix_(np.asarray(nodes), which)] = found.influence
        for node in nodes:
            rates[:, node] = amounts[~held[node], ::2].mean(axis=0), amounts[held[node], ::2].mean(axis=0)
    covariance = np.einsum("auo,buo->abo", influence, influence)
    size = np.sqrt(np.einsum("aao->ao", covariance))
    scale = size[:, None] * size[None]
    correlation = np.divide(covariance, scale, out=np.zeros_like(covariance), where=scale > 0)
    np.einsum("aao->ao", correlation)[:] = 1.0
    return {"rates": rates, "caused": caused, "error": error, "correlation": correlation, "degrees": degrees}


def _first_touches(paths: Paths, trial: Trial) -> tuple[Codes, Numbers]:
    """Return each user's first touchpoint of each node within its window, and the number before it.

    The first is ``_NEVER`` without a touchpoint.
    """
    first = np.full(trial.takes_part.shape, _NEVER, np.int64)
    points = paths.touches if paths.touchpoints is None else paths.touchpoints
    chosen = points.filter(points.node_id.isin(trial.node_ids) & points.user_id.notnull())
    if trial.since is None and trial.until is None:
        chosen = chosen.group_by("user_id", "node_id").agg(date=chosen.date.min())
    rows = to_pandas(chosen.select("user_id", "node_id", "date").to_pyarrow())
    user, node, is_known = trial.numbers_of(rows)
    dates = _microseconds(rows["date"])
    user, node, dates = user[is_known], node[is_known], dates[is_known]
    _mark_first(first, trial, user, node, dates)
    earlier = np.zeros(first.shape)
    for number in range(len(trial.node_ids)):
        at_node = user[node == number]
        is_before = trial.before(number, at_node, dates[node == number])
        earlier[number] = np.bincount(at_node[is_before], minlength=len(trial.users))
    return first, earlier


def _mark_first(first: Codes, trial: Trial, user: Codes, node: Codes, dates: Codes) -> None:
    for number in range(len(trial.node_ids)):
        here = node == number
        inside = trial.within(number, user[here], dates[here])
        np.minimum.at(first[number], user[here][inside], dates[here][inside])


def _triggered(trial: Trial, first: Codes, log: pd.DataFrame) -> Trial:
    """Limit the trial to users with a touchpoint or an opportunity, from the first one on."""
    user, node, is_known = trial.numbers_of(log)
    first = first.copy()
    _mark_first(first, trial, user[is_known], node[is_known], log["date"].to_numpy(dtype=np.int64)[is_known])
    has_any = (first < _NEVER) & trial.takes_part
    held = trial.is_withheld & has_any
    uneven = []
    for number, node_id in enumerate(trial.node_ids):
        if not held[number].any():
            raise InvalidRequest(
                f"withheld: no withheld user of node {node_id!r} has an opportunity (date); allowed: every "
                "touchpoint of every withheld node that withheld users would have had"
            )
        drawn = trial.is_withheld[number].sum() / trial.takes_part[number].sum()
        users = int(has_any[number].sum())
        deviation = (int(held[number].sum()) - users * drawn) / np.sqrt(users * drawn * (1 - drawn))
        if abs(deviation) > _MAX_DEVIATION and trial.cluster is None:
            uneven.append(f"{node_id} ({held[number].sum() / users:.1%} instead of {drawn:.1%})")
    if uneven:
        warn(
            "among users with a touchpoint or an opportunity, the withheld share differs from the share "
            f"drawn: {', '.join(uneven[:10])}{' and others' if len(uneven) > 10 else ''}. Opportunities and "
            "touchpoints are not logged alike, so the effects are biased; leave out the column 'date'",
            HoldoutWarning,
        )
    compared = replace(trial, takes_part=has_any, since=first)
    compared.check()
    return compared


def _warn_contaminated(trial: Trial, contaminated: Flags) -> None:
    contacts = [
        f"{count:,} of {held:,} ({node})"
        for node, count, held in zip(
            trial.node_ids, contaminated.sum(axis=1), trial.is_withheld.sum(axis=1), strict=True
        )
        if count
    ]
    if contacts:
        warn(
            f"withheld users have touchpoints of the withheld node: {', '.join(contacts[:10])}"
            f"{' and others' if len(contacts) > 10 else ''}. They still count as withheld, so effects are "
            "underestimated; check ad delivery, and whether user ids changed",
            HoldoutWarning,
        )


def _microseconds(instants: pd.Series[Any]) -> Codes:
    """Return the microseconds since 1970 of instants."""
    plain = instants.dt.tz_convert(None) if instants.dt.tz is not None else instants
    return np.asarray(plain.to_numpy().astype("datetime64[us]").astype(np.int64))


def _check_nodes(paths: Paths, node_ids: list[str]) -> None:
    points = paths.touches if paths.touchpoints is None else paths.touchpoints
    found = points.filter(points.node_id.notnull()).select("node_id").distinct().to_pyarrow()
    allowed = set(found["node_id"].to_pylist())
    if paths.nodes is not None:
        allowed |= set(paths.nodes["node_id"])
    for node in node_ids:
        check_choice("withheld", node, allowed)


def _users(paths: Paths, took_part: pd.DataFrame | None) -> pd.Index[str]:
    if not paths.has_users:
        raise InvalidRequest(
            "paths: an experiment needs users, which aggregated paths do not have; use Paths.from_frames"
        )
    if took_part is not None:
        users: pd.Index[str] = pd.Index(sorted(took_part["user_id"].unique()), dtype=TEXT)
        return users
    if paths.observed is None:
        raise InvalidRequest(
            "withheld: the paths have no users, so the participants are unknown. Pass all participants with "
            "the column 'withheld', or paths of the participants from Paths.from_frames(users=…)"
        )
    observed = paths.observed.select("user_id").order_by("user_id").to_pyarrow()
    index: pd.Index[str] = pd.Index(to_pandas(observed)["user_id"], dtype=TEXT)
    return index


def _for_all(instants: Codes, is_withheld: Flags, node_ids: list[str], name: str) -> Codes:
    """Extend the window of a node's withheld users to all other users."""
    extended = np.empty_like(instants)
    for node, held in enumerate(is_withheld):
        distinct = np.unique(instants[node, held])
        if len(distinct) != 1:
            raise InvalidRequest(
                f"withheld: {name!r} differs between the users of node {node_ids[node]!r}, so the window of "
                f"the other users is undefined; allowed: one {name!r} per node, or participants= with since "
                "and until for every user"
            )
        extended[node] = distinct[0]
    return extended
