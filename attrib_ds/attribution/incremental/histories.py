"""Histories of users as arrays: observation period, touchpoints, conversions and covariates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import ibis
import numpy as np
import pyarrow as pa

from attrib_ds.attribution.incremental.categories import categories, check_kind, is_number
from attrib_ds.attribution.incremental.observations import (
    DAY,
    check_conversions_are_inside,
    check_order,
    check_users_are_observed,
    conversions_of,
    observed_users,
    touchpoints_of,
)
from attrib_ds.attribution.paths.codes import number_currencies
from attrib_ds.dtypes import TEXT
from attrib_ds.errors import InvalidRequest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from attrib_ds.attribution.paths.sequences import Sequences

    Numbers = NDArray[np.float64]
    Codes = NDArray[np.int64]

#: Prefix of covariates while they are read, so that their names cannot collide with others.
_COVARIATE = "covariate_"


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
    event_user, event_currency : int array; event_time, conversions, value : float array
        One entry per conversion.
    currencies : list
        Currency of each number.
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
    conversions: Numbers
    value: Numbers
    currencies: list[str | None]

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
            Without a table of observations, everybody who was touched or converted counts as observed from
            the first date in the paths to the last.

        Raises
        ------
        InvalidRequest
            If the paths have no dates or users, a covariate is unknown, or a conversion lies outside the
            observation of its user.
        """
        paths = sequences.paths
        paths.require_dates("an incremental model")
        touchpoints = touchpoints_of(sequences)
        conversions = conversions_of(sequences)
        observed = observed_users(paths.observed, touchpoints, conversions)
        columns = [name for name in observed.columns if name not in ("user_id", "since", "until")]
        wanted = columns if covariates is None else list(covariates)
        for name in wanted:
            if name not in columns:
                raise InvalidRequest.choice("covariates", name, columns)
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
        return _assembled(
            users,
            wanted,
            touchpoints.order_by("number", "date", "code").to_pyarrow(),
            conversions.order_by("event_id").to_pyarrow(),
        )


def _assembled(
    users: pa.Table, covariates: Sequence[str], touchpoints: pa.Table, conversions: pa.Table
) -> Histories:
    check_users_are_observed(conversions["number"].is_null().to_numpy())
    since, until = (_moments(users[name]) for name in ("since", "until"))
    check_order(since > until, users["user_id"])
    origin = since.min() if len(since) else np.datetime64("1970-01-01", "us")
    begins, ends = (_days(moments, origin) for moments in (since, until))
    event_user = conversions["number"].to_numpy().astype(np.int64)
    event_time = _days(_moments(conversions["event_date"]), origin)
    is_outside = (event_time < begins[event_user]) | (event_time > ends[event_user])
    check_conversions_are_inside(is_outside, conversions["event_id"])
    touch_user = touchpoints["number"].to_numpy().astype(np.int64)
    touch_time = _days(_moments(touchpoints["date"]), origin)
    # Touchpoints before the observation are kept: part of their adstock may be left in it.
    is_kept = touch_time <= ends[touch_user]
    currency, currencies = number_currencies(conversions["currency"], np.ones(len(conversions), bool))
    return Histories(
        begins,
        ends,
        _columns(users, covariates),
        users["fold"].to_numpy().astype(np.int64),
        touch_user[is_kept],
        touchpoints["code"].to_numpy().astype(np.int64)[is_kept],
        touch_time[is_kept],
        event_user,
        event_time,
        currency,
        conversions["conversions"].to_numpy().astype(np.float64),
        np.asarray(conversions["value"].to_pandas(), dtype=np.float64),
        currencies,
    )


def _moments(column: pa.ChunkedArray) -> NDArray[np.datetime64]:
    plain = column.cast(pa.timestamp("us", tz=column.type.tz), safe=False).cast(pa.int64())
    return np.asarray(plain.to_numpy()).astype("datetime64[us]")


def _days(moments: NDArray[np.datetime64], origin: np.datetime64) -> Numbers:
    return np.asarray((moments - origin).astype(np.int64) / DAY)


def _columns(users: pa.Table, covariates: Sequence[str]) -> Numbers:
    """Return covariates as numbers; categories are one-hot encoded without the most frequent one."""
    columns: list[Numbers] = []
    for position, name in enumerate(covariates):
        values = users[f"{_COVARIATE}{position}"]
        check_kind(values.type, name, argument="users")
        if is_number(values.type) or (pa.types.is_boolean(values.type) and not values.null_count):
            numbers = np.asarray(values.to_pandas(), dtype=np.float64)
            if not np.isfinite(numbers).all():
                raise InvalidRequest(
                    f"users: the covariate {name!r} has missing or infinite values; allowed: finite numbers "
                    "for everybody, or flags and text, whose gaps count as a category",
                    field="users",
                )
            columns.append(numbers)
            continue
        columns += categories(values.to_pandas().astype(TEXT).fillna(""), name, argument="users")
    return np.stack(columns, axis=1) if columns else np.zeros((len(users), 0))
