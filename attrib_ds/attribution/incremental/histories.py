"""Users as arrays: how long each was observed, what touched them when, and when they converted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import ibis
import numpy as np
import pyarrow as pa

from attrib_ds.attribution.incremental.categories import categories, check_kind, is_number
from attrib_ds.attribution.incremental.observations import (
    DAY,
    check_are_in_order,
    check_are_inside,
    check_are_observed,
    events_of,
    observed_of,
    points_of,
)
from attrib_ds.attribution.paths.codes import number_currencies
from attrib_ds.errors import InvalidRequest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from attrib_ds.attribution.paths.sequences import Sequences

    Numbers = NDArray[np.float64]
    Codes = NDArray[np.int64]

#: What names of covariates begin with while they are read.
_COVARIATE = "covariate_"


@dataclass(frozen=True, eq=False)
class Histories:
    """What is known of each user in time; users and nodes are numbers, times are days since ``origin``.

    Attributes
    ----------
    origin : datetime64
        When the first observation began.
    since, until : float array, shape (n_users,)
        Observation of each user.
    covariates : float array, shape (n_users, n_covariates)
        What else is known of them; categories are columns of zeros and ones.
    fold : int array, shape (n_users,)
        Group of each user, for the jackknife.
    touch_user, touch_node : int array; touch_time : float array
        One entry per touchpoint within the observation of its user, by user and time.
    event_user, event_currency : int array; event_time, conversions, value : float array
        One entry per conversion.
    currencies : list
        Currency of each number.
    """

    origin: np.datetime64
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
            Without told observations, everybody who was touched or converted was observed from the first date
            in the paths to the last.

        Raises
        ------
        InvalidRequest
            If the paths have no dates or users, a covariate is unknown, or a conversion lies outside the
            observation of its user.
        """
        paths = sequences.paths
        paths.require_dates("an incremental model")
        points = points_of(sequences)
        events = events_of(sequences)
        people = observed_of(paths.observed, points, events)
        known = [name for name in people.columns if name not in ("user_id", "since", "until")]
        wanted = known if covariates is None else list(covariates)
        for name in wanted:
            if name not in known:
                raise InvalidRequest.choice("covariates", name, known)
        # The order of users decides who is drawn, so it must not depend on the order of rows.
        # Under names of their own, as a covariate may be called as what is added here.
        told = {f"{_COVARIATE}{position}": people[name] for position, name in enumerate(wanted)}
        numbered = people.select("user_id", "since", "until", **told).order_by("user_id")
        numbered = numbered.mutate(
            number=ibis.row_number().over(ibis.window(order_by=numbered.user_id)),
            fold=sequences.fold(numbered.user_id),
        )
        users = numbered.order_by("number").to_pyarrow()
        keys = ibis.memtable(
            pa.table({"user_id": users["user_id"], "number": np.arange(len(users), dtype=np.int64)})
        )
        touched = points.inner_join(keys, "user_id").select("number", "code", "date")
        touched = touched.order_by("number", "date", "code").to_pyarrow()
        happened = events.left_join(keys, "user_id")
        happened = happened.select("event_id", "number", "event_date", "conversions", "value", "currency")
        converted = happened.order_by("event_id").to_pyarrow()
        check_are_observed(converted["number"].is_null().to_numpy())
        return _assembled(users, wanted, touched, converted)


def _assembled(
    users: pa.Table, covariates: Sequence[str], touched: pa.Table, converted: pa.Table
) -> Histories:
    since, until = (_moments(users[name]) for name in ("since", "until"))
    backwards = np.flatnonzero(since > until)
    check_are_in_order(
        len(backwards), users["user_id"][int(backwards[0])].as_py() if len(backwards) else None
    )
    origin = since.min() if len(since) else np.datetime64("1970-01-01", "us")
    begins, ends = (_days(moments, origin) for moments in (since, until))
    event_user = converted["number"].to_numpy().astype(np.int64)
    event_time = _days(_moments(converted["event_date"]), origin)
    outside = (event_time < begins[event_user]) | (event_time > ends[event_user])
    check_are_inside(outside, converted["event_id"])
    touch_user = touched["number"].to_numpy().astype(np.int64)
    touch_time = _days(_moments(touched["date"]), origin)
    # What came before the observation may be at work in it still.
    kept = touch_time <= ends[touch_user]
    number, currencies = number_currencies(converted["currency"], np.ones(len(converted), bool))
    return Histories(
        origin,
        begins,
        ends,
        _columns(users, covariates),
        users["fold"].to_numpy().astype(np.int64),
        touch_user[kept],
        touched["code"].to_numpy().astype(np.int64)[kept],
        touch_time[kept],
        event_user,
        event_time,
        number,
        converted["conversions"].to_numpy().astype(np.float64),
        np.asarray(converted["value"].to_pandas(), dtype=np.float64),
        currencies,
    )


def _moments(column: pa.ChunkedArray) -> NDArray[np.datetime64]:
    plain = column.cast(pa.timestamp("us", tz=column.type.tz), safe=False).cast(pa.int64())
    return np.asarray(plain.to_numpy()).astype("datetime64[us]")


def _days(moments: NDArray[np.datetime64], origin: np.datetime64) -> Numbers:
    return np.asarray((moments - origin).astype(np.int64) / DAY)


def _columns(users: pa.Table, covariates: Sequence[str]) -> Numbers:
    """Return covariates as numbers: categories become one column each but the most frequent."""
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
        columns += categories(values.to_pandas().astype("str").fillna(""), name, argument="users")
    return np.stack(columns, axis=1) if columns else np.zeros((len(users), 0))
