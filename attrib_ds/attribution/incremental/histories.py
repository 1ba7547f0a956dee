"""Histories of users: observation periods, touchpoints, conversions and covariates, from tables to arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Final

import ibis
import ibis.expr.types as ir
import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from attrib_ds.attribution.arrays import Codes, Flags, Numbers
from attrib_ds.attribution.paths.sequences import Sequences, number_currencies
from attrib_ds.errors import InvalidRequest, TruncatedUsers, check_choice, warn
from attrib_ds.records.frames import TEXT

#: Largest sum of amounts; that of a bootstrap sample is still finite.
_LARGEST_SUM: Final = 1e300
#: Prefix of covariates while they are read, so that their names cannot collide with others.
_COVARIATE = "covariate_"
#: A table of users is truncated if fewer untouched users without a conversion are in it than this share of
#: the lower bound of their number, and the bound is at least so large.
_TRUNCATED_SHARE: Final = 0.05
_FEWEST_MISSING: Final = 20
#: Arrays of histories with one entry per user, touchpoint and conversion.
_USERS: Final = ("until", "covariates", "fold", "user_number")
_TOUCHPOINTS: Final = ("touch_user", "touch_node", "touch_time")
_EVENTS: Final = ("event_user", "event_time", "event_currency", "event_number", "conversions", "value")
#: Microseconds.
_DAY: Final = 86_400_000_000.0
#: Maximum number of categories; a column with more holds names or notes.
_MOST_CATEGORIES: Final = 100
_READABLE: Final = "numbers, flags and text"


@dataclass(frozen=True, eq=False)
class Unobserved:
    """Conversions outside the observation of their users, which no model of effects can explain.

    Attributes
    ----------
    fold, currency : int array
        Group of the user, for the jackknife, and currency.
    conversions, value : float array
        One entry per conversion.
    event_number : int array
        Position of each conversion among all, in the order of their ids.
    """

    fold: Codes
    currency: Codes
    conversions: Numbers
    value: Numbers
    event_number: Codes

    @classmethod
    def nothing(cls) -> Unobserved:
        """Return no conversions."""
        empty = np.zeros(0, np.int64)
        return cls(empty, empty, np.zeros(0), np.zeros(0), empty)

    def sums(self, currencies: int, weight: Flags) -> Numbers:
        """Return weighted sums by currency: conversions, then value."""
        rows = np.stack([self.conversions, self.value]) * weight
        return np.stack([np.bincount(self.currency, row, minlength=currencies) for row in rows])


@dataclass(frozen=True, eq=False)
class Histories:
    """Histories of users; users and nodes are numbers, times are days since the first observation began.

    Attributes
    ----------
    since, until : float array, shape (n_users,)
        Observation period of each user.
    covariates : float array, shape (n_users, n_covariates)
        Covariates of each user; categories are one-hot columns.
    fold : int array, shape (n_users,)
        Group of each user, for the jackknife.
    touch_user, touch_node : int array; touch_time : float array
        One entry per touchpoint until the end of the user's observation, by user and time.
    event_user, event_currency, event_number : int array; event_time, conversions, value : float array
        One entry per conversion within the observation of its user; the number is its position among all
        conversions, in the order of their ids.
    currencies : list
        Currency of each number.
    unobserved : Unobserved
        All other conversions.
    user_number : int array, shape (n_users,)
        Position of each user among all who are listed as observed, in the order of their ids.
    covariate_names : list of str
        Name of the covariate of each column.
    origin : numpy.datetime64
        When the first observation began.
    """

    since: Numbers
    until: Numbers
    covariates: Numbers
    fold: Codes
    touch_user: Codes
    touch_node: Codes
    touch_time: Numbers
    event_user: Codes
    event_time: Numbers
    event_currency: Codes
    event_number: Codes
    conversions: Numbers
    value: Numbers
    currencies: list[str | None]
    unobserved: Unobserved = field(default_factory=Unobserved.nothing)
    user_number: Codes = field(default_factory=lambda: np.zeros(0, np.int64))
    covariate_names: list[str] = field(default_factory=list)
    origin: np.datetime64 = field(default_factory=lambda: np.datetime64("1970-01-01", "us"))

    @classmethod
    def of(cls, sequences: Sequences, *, covariates: Sequence[str] | None) -> Histories:
        """Read the histories of users from paths.

        Parameters
        ----------
        sequences : Sequences
            Paths whose nodes have numbers.
        covariates : sequence of str, optional
            Columns of the observed users to use; all by default.

        Returns
        -------
        Histories
            Without a table of observations, users are observed from their first touchpoint to the last date
            in the paths, and users who were never touched are not observed: nobody knows how many there are.
            A table that lacks users who were never touched gives the same, but for its ends of observations.

        Warns
        -----
        TruncatedUsers
            If a table of observations lacks users who were never touched.

        Raises
        ------
        InvalidRequest
            If the paths have no dates or users, a covariate is unknown, or a conversion lies outside the
            observation of its user, or sums of conversions or value exceed the largest number.
        """
        paths = sequences.paths
        paths.require_dates("an incremental model")
        touchpoints = touchpoints_of(sequences)
        conversions = conversions_of(sequences)
        has_table = paths.observed is not None
        observed = everybody(touchpoints, conversions) if paths.observed is None else paths.observed
        columns = [name for name in observed.columns if name not in ("user_id", "since", "until")]
        wanted = columns if covariates is None else list(covariates)
        for name in wanted:
            check_choice("covariates", name, columns)
        # Users are sampled by their number, so it must not depend on the order of rows.
        prefixed = {f"{_COVARIATE}{position}": observed[name] for position, name in enumerate(wanted)}
        numbered = observed.select("user_id", "since", "until", **prefixed).order_by("user_id")
        numbered = numbered.mutate(
            number=ibis.row_number().over(ibis.window(order_by=numbered.user_id)),
            fold=sequences.fold(numbered.user_id),
        )
        users = numbered.order_by("number").to_pyarrow()
        keys = ibis.memtable(
            pa.table({"user_id": users["user_id"], "number": np.arange(len(users), dtype=np.int64)})
        )
        touchpoints = touchpoints.inner_join(keys, "user_id").select("number", "code", "date")
        conversions = conversions.left_join(keys, "user_id")
        conversions = conversions.select(
            "event_id", "number", "event_date", "conversions", "value", "currency"
        )
        histories = _assembled(
            users,
            wanted,
            touchpoints.order_by("number", "date", "code").to_pyarrow(),
            conversions.order_by("event_id").to_pyarrow(),
        )
        _check_finite(histories)
        if not has_table:
            return histories.from_first_touchpoint()
        if _lacks_untouched(histories):
            warn(
                "users: users without a touchpoint seem to be missing: there are far fewer than the other "
                "users' numbers of touchpoints imply. So users count as observed from their first "
                "touchpoint on, and earlier conversions count as baseline. Pass one row for everybody "
                "who could have been reached, or set since to the first touchpoint",
                TruncatedUsers,
            )
            return histories.from_first_touchpoint()
        return histories

    def from_first_touchpoint(self) -> Histories:
        """Return the histories from the first touchpoint of each user on, of touched users only.

        Who was never touched is often not recorded unless the user converted, and with such a selection
        touchpoints seem to prevent conversions. From the first touchpoint on, everybody is recorded.
        """
        first = np.full(len(self.since), np.inf)
        begins = np.flatnonzero(np.diff(self.touch_user, prepend=-1))
        first[self.touch_user[begins]] = self.touch_time[begins]
        since = np.maximum(self.since, first)
        is_kept = since <= self.until
        number = np.cumsum(is_kept, dtype=np.int64) - 1
        is_event = self.event_time >= np.where(is_kept, since, np.inf)[self.event_user]
        touches, observed = self._at(_TOUCHPOINTS, is_kept[self.touch_user]), self.observing(is_event)
        columns = {
            **self._at(_USERS, is_kept),
            **touches,
            "since": since[is_kept],
            "touch_user": number[touches["touch_user"]],
            "event_user": number[observed.event_user],
        }
        return replace(observed, **columns)

    def observing(self, is_event: Flags) -> Histories:
        """Return the histories with the chosen conversions; the others count as unobserved too."""
        others, names = (
            self._at(_EVENTS, ~is_event),
            ("event_currency", "conversions", "value", "event_number"),
        )
        more = [self.fold[others["event_user"]], *(others[name] for name in names)]
        before = [getattr(self.unobserved, each.name) for each in fields(Unobserved)]
        unobserved = Unobserved(*map(np.concatenate, zip(before, more, strict=True)))
        return replace(self, **self._at(_EVENTS, is_event), unobserved=unobserved)

    def of_conversions(self, numbers: Codes) -> Histories:
        """Return the histories with some conversions only, by their positions among all."""
        rest = self.unobserved
        is_kept = np.isin(rest.event_number, numbers)
        unobserved = Unobserved(*(getattr(rest, each.name)[is_kept] for each in fields(rest)))
        events = self._at(_EVENTS, np.isin(self.event_number, numbers))
        return replace(self, **events, unobserved=unobserved)

    def _at(self, names: Sequence[str], which: Flags) -> dict[str, Any]:
        """Return some entries of arrays by name."""
        return {name: getattr(self, name)[which] for name in names}


def _assembled(
    users: pa.Table, covariates: Sequence[str], touchpoints: pa.Table, conversions: pa.Table
) -> Histories:
    _refuse(
        conversions["number"].is_null().to_numpy(),
        conversions["event_id"],
        "conversions are of users who are not among those observed",
        "one row for every user who converted",
    )
    since, until = (_moments(users[name]) for name in ("since", "until"))
    _refuse(
        since > until, users["user_id"], "observations end before they begin", "since no later than until"
    )
    origin = since.min() if len(since) else np.datetime64("1970-01-01", "us")
    begins, ends = (_days(moments, origin) for moments in (since, until))
    event_user = conversions["number"].to_numpy().astype(np.int64)
    event_time = _days(_moments(conversions["event_date"]), origin)
    is_outside = (event_time < begins[event_user]) | (event_time > ends[event_user])
    _refuse(
        is_outside,
        conversions["event_id"],
        "conversions lie outside the observation of their users",
        "since and until that include every conversion",
    )
    touch_user = touchpoints["number"].to_numpy().astype(np.int64)
    touch_time = _days(_moments(touchpoints["date"]), origin)
    # Touchpoints before the observation are kept: part of their adstock may be left in it.
    is_kept = touch_time <= ends[touch_user]
    currency, currencies = number_currencies(conversions["currency"], np.ones(len(conversions), bool))
    columns, names = _columns(users, covariates)
    return Histories(
        begins,
        ends,
        columns,
        users["fold"].to_numpy().astype(np.int64),
        touch_user[is_kept],
        touchpoints["code"].to_numpy().astype(np.int64)[is_kept],
        touch_time[is_kept],
        event_user,
        event_time,
        currency,
        np.arange(len(event_user), dtype=np.int64),
        conversions["conversions"].to_numpy().astype(np.float64),
        np.asarray(conversions["value"].to_pandas(), dtype=np.float64),
        currencies,
        user_number=np.arange(len(begins), dtype=np.int64),
        covariate_names=names,
        origin=origin,
    )


def _lacks_untouched(histories: Histories) -> bool:
    """Return whether a table of users lacks those who were never touched and did not convert.

    However users differ in their rates of touchpoints, at least ``one ** 2 / (2 * two)`` of them are expected
    to have none, where ``one`` and ``two`` are the numbers of users with one and with two touchpoints (Chao,
    1987, Biometrics 43).
    """
    begins = np.flatnonzero(np.diff(histories.touch_user, prepend=-1))
    is_before = histories.since[histories.touch_user[begins]] < histories.touch_time[begins]
    if is_before.sum() <= _TRUNCATED_SHARE * len(begins):
        # Observations begin with touchpoints already.
        return False
    is_within = histories.touch_time >= histories.since[histories.touch_user]
    count = np.bincount(histories.touch_user[is_within], minlength=len(histories.since))
    has_converted = np.zeros(len(count), bool)
    has_converted[histories.event_user] = True
    untouched, one, two = (int((count[~has_converted] == number).sum()) for number in range(3))
    expected = one * max(one - 1, 0) / (2 * (two + 1))
    return bool(expected >= _FEWEST_MISSING and untouched < _TRUNCATED_SHARE * expected)


def _moments(column: pa.ChunkedArray) -> NDArray[np.datetime64]:
    plain = column.cast(pa.timestamp("us", tz=column.type.tz), safe=False).cast(pa.int64())
    return np.asarray(plain.to_numpy()).astype("datetime64[us]")


def _days(moments: NDArray[np.datetime64], origin: np.datetime64) -> Numbers:
    return np.asarray((moments - origin).astype(np.int64) / _DAY)


def _columns(users: pa.Table, covariates: Sequence[str]) -> tuple[Numbers, list[str]]:
    """Return covariates as numbers, and their names; categories are one-hot, without the most frequent."""
    columns: list[Numbers] = []
    names: list[str] = []
    for position, name in enumerate(covariates):
        values = users[f"{_COVARIATE}{position}"]
        check_kind(values.type, name, argument="users")
        if is_number(values.type) or (pa.types.is_boolean(values.type) and not values.null_count):
            numbers = np.asarray(values.to_pandas(), dtype=np.float64)
            if not np.isfinite(numbers).all():
                raise InvalidRequest(
                    f"users: the covariate {name!r} has missing or infinite values; allowed: finite numbers "
                    "for everybody, or flags and text, whose gaps count as a category"
                )
            columns.append(numbers)
        else:
            columns += categories(values.to_pandas().astype(TEXT).fillna(""), name, argument="users")
        names += [name] * (len(columns) - len(names))
    return np.stack(columns, axis=1) if columns else np.zeros((len(users), 0)), names


def _check_finite(histories: Histories) -> None:
    """Refuse amounts whose sums, also of a bootstrap sample, would be infinite."""
    for name, amount in (("conversions", histories.conversions), ("value", histories.value)):
        largest = float(np.abs(amount).max(initial=0.0))
        if largest * max(len(amount), 1) > _LARGEST_SUM:
            raise InvalidRequest(
                f"paths: {name} of up to {largest:.3g} sum to infinity; allowed: sums up to {_LARGEST_SUM:g}"
            )


def touchpoints_of(sequences: Sequences, *more: str) -> ir.Table:
    """Return ``user_id``, ``code`` and ``date`` of every touchpoint, and more of its columns."""
    touchpoints = sequences.paths.touchpoints
    if touchpoints is None:
        raise InvalidRequest(
            "paths: an incremental model needs the touchpoints of users who did not convert too; use "
            "Paths.from_frames or conversion_paths"
        )
    complete = touchpoints.filter(touchpoints.user_id.notnull() & touchpoints.node_id.notnull())
    return sequences.coded(complete).select("user_id", "code", "date", *more)


def conversions_of(sequences: Sequences) -> ir.Table:
    """Return one row per conversion."""
    kept = ("event_id", "user_id", "event_date", "conversions", "value", "currency")
    return sequences.paths.ends.select(*kept)


def preceding(sequences: Sequences, *more: str) -> ir.Table:
    """Join conversions with the earlier touchpoints of their users, regardless of the lookback.

    Adds ``age_days``, and ``number``, the position of the conversion in the order of ``event_id``, from 0.
    """
    touchpoints, conversions = touchpoints_of(sequences, *more), conversions_of(sequences)
    in_order = ibis.window(order_by=conversions.event_id)
    conversions = conversions.mutate(number=ibis.row_number().over(in_order))
    joined = conversions.inner_join(
        touchpoints.rename(touch_user="user_id"),
        [conversions.user_id == touchpoints.user_id, touchpoints.date <= conversions.event_date],
    )
    return joined.mutate(age_days=joined.event_date.delta(joined.date, unit="microsecond") / _DAY)


def everybody(touchpoints: ir.Table, conversions: ir.Table) -> ir.Table:
    """Return ``user_id``, ``since`` and ``until``, the first and the last date of all, of everybody seen."""
    seen = touchpoints.select("user_id", "date").union(conversions.select("user_id", date="event_date"))
    ends = seen.agg(since=seen.date.min(), until=seen.date.max())
    return seen.filter(seen.user_id.notnull()).select("user_id").distinct().cross_join(ends)


def _refuse(is_wrong: Flags, ids: pa.ChunkedArray, complaint: str, allowed: str) -> None:
    """Refuse rows that contradict the observation of users, and name the first."""
    if is_wrong.any():
        example = ids[int(is_wrong.argmax())].as_py()
        raise InvalidRequest(
            f"users: {int(is_wrong.sum()):,} {complaint}, for example {example!r}; allowed: {allowed}"
        )


def check_kind(kind: pa.DataType, name: str, *, argument: str) -> None:
    """Refuse columns other than numbers, flags and text, such as dates."""
    is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_dictionary(kind)
    if not (is_number(kind) or is_text or pa.types.is_boolean(kind) or pa.types.is_null(kind)):
        raise InvalidRequest(
            f"{argument}: the covariate {name!r} is of the type {kind}; allowed: {_READABLE} (convert dates "
            "to numbers, such as days, or name the columns to use with covariates=)"
        )


def is_number(kind: pa.DataType) -> bool:
    """Return whether a column holds numbers."""
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def categories(texts: pd.Series[str], name: str, *, argument: str) -> list[Numbers]:
    """Return one-hot columns of all categories but the most frequent.

    Raises
    ------
    InvalidRequest
        If there are more than 100 categories.
    """
    counted = texts.value_counts().sort_index().sort_values(ascending=False, kind="stable")
    if len(counted) > _MOST_CATEGORIES:
        raise InvalidRequest(
            f"{argument}: the covariate {name!r} has {len(counted):,} different values; allowed: up to "
            f"{_MOST_CATEGORIES} (merge rare ones, or name the columns to use with covariates=)"
        )
    return [np.asarray(texts == category, dtype=np.float64) for category in sorted(counted.index[1:])]


def standardised(columns: Numbers) -> Numbers:
    """Return columns with mean 0 and standard deviation 1; constant ones become 0."""
    _, exponent = np.frexp(np.abs(columns).max(axis=0, initial=0.0))
    # The square of a large number overflows; a power of two changes no digit.
    scaled = np.ldexp(columns, -exponent)
    spread = scaled.std(axis=0)
    return np.asarray((scaled - scaled.mean(axis=0)) / np.where(spread > 0, spread, 1.0))
