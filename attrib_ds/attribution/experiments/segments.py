"""Segments of users and periods: cells that divide conversions, and shares of users observed by segment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pandas as pd

from attrib_ds.attribution.arrays import Codes
from attrib_ds.attribution.calendar import INTERVALS, first_days, labels, starts_of, zone_of
from attrib_ds.attribution.incremental.discrete_hazard import HazardSample
from attrib_ds.attribution.incremental.histories import conversions_of
from attrib_ds.attribution.paths.sequences import Sequences
from attrib_ds.errors import InvalidRequest, check_number
from attrib_ds.records.frames import to_pandas

#: A share of users, or a share and its standard error.
Share = float | tuple[float, float]
#: Of all users, or by the values of a column of users.
ObservedShare = Share | Mapping[str, Mapping[Any, Share]]

#: Maximum number of values of a column of segments.
_MOST_VALUES: Final = 100
#: Columns of observed users that are not segments.
_NO_SEGMENTS: Final = ("user_id", "since", "until")
_FIELD: Final = "observed_share"


@dataclass(frozen=True, eq=False)
class Segments:
    """Conversions and observed users, to be divided into cells.

    Attributes
    ----------
    dates : Series of instants
        Date of each conversion, in the order of their ids.
    user : int array
        Position of each conversion's user among those observed.
    columns : dict
        Columns of observed users, in the order of their ids; the number of values of a column with too many.
    timezone : str
        Time zone in which periods begin.
    """

    dates: pd.Series[Any]
    user: Codes
    columns: dict[str, Any]
    timezone: str

    @classmethod
    def of(cls, sequences: Sequences) -> Segments:
        """Read conversions and users from paths."""
        paths = sequences.paths
        table = conversions_of(sequences).select("event_id", "user_id", "event_date").order_by("event_id")
        events = to_pandas(table.to_pyarrow())
        columns: dict[str, Any] = {}
        user = np.zeros(len(events), np.int64)
        if paths.observed is not None:
            users = to_pandas(paths.observed.order_by("user_id").to_pyarrow())
            user = pd.Index(users["user_id"]).get_indexer(pd.Index(events["user_id"]))
            for name in users.columns.difference(list(_NO_SEGMENTS), sort=False):
                count = users[name].nunique()
                # Names and addresses are not kept.
                columns[name] = users[name].array if count <= _MOST_VALUES else count
        return cls(events["event_date"], user, columns, paths.timezone)

    def cells(self, by: str | Sequence[str], *, taken: Sequence[str] = ()) -> Cells:
        """Divide conversions by periods, columns of users, or both.

        Parameters
        ----------
        by : str or sequence of str
            As users pass it.
        taken : sequence of str
            Names of other columns of the result.

        Raises
        ------
        InvalidRequest
            If a name is neither a period nor a column of the observed users, occurs twice, is taken or has
            too many values, or if there are several periods.
        """
        names = [by] if isinstance(by, str) else list(by)
        for name in names:
            if name not in INTERVALS and (name not in self.columns or name in taken):
                allowed = [*INTERVALS, *(each for each in self.columns if each not in taken)]
                raise InvalidRequest.choice("by", name, allowed)
        if not names or len(set(names)) < len(names) or sum(name in INTERVALS for name in names) > 1:
            raise InvalidRequest.value("by", by, "one period, columns of users, or both, each once")
        for name in names:
            count = None if name in INTERVALS else self.columns[name]
            if isinstance(count, int):
                raise InvalidRequest(
                    f"by: {name!r} has {count:,} different values; allowed: up to {_MOST_VALUES} (merge rare "
                    "ones)"
                )
        rows = self._labelled(self.user, self.dates, names)
        keys = rows.drop_duplicates().sort_values(names, na_position="last", ignore_index=True)
        numbered = keys.assign(cell=range(len(keys)))
        cell = rows.merge(numbered, on=list(rows.columns), how="left")["cell"]
        return Cells(self, names, keys, cell.to_numpy(dtype=np.int64))

    def _labelled(self, user: Codes, dates: pd.Series[Any], by: Sequence[str]) -> pd.DataFrame:
        """Return the segment of the user and the period of the date, for each row."""
        columns: dict[str, Any] = {}
        starts: dict[str, Any] = {}
        for name in by:
            if name not in INTERVALS:
                columns[name] = self.columns[name].take(user)
                continue
            zone = zone_of(self.timezone)
            # Few of the dates differ by day, so labels are made once per day.
            local = pd.DatetimeIndex(dates).tz_convert(zone).tz_localize(None).normalize()
            of_day, days = pd.factorize(local)
            distinct = pd.Series(days).astype("datetime64[us]")
            columns[name] = labels(distinct, name).array.take(of_day)
            starts["start"] = starts_of(first_days(distinct, name), zone).array.take(of_day)
        return pd.DataFrame(columns | starts)


@dataclass(frozen=True, eq=False)
class Cells:
    """Cells that divide conversions and person-periods.

    Attributes
    ----------
    segments : Segments
        What the cells divide.
    by : list of str
        Names of the periods and segments.
    keys : DataFrame
        One row per cell with a conversion, in order: the columns ``by`` and, with a period, ``start``.
    of_event : int array
        Cell of each conversion, in the order of their ids.
    """

    segments: Segments
    by: list[str]
    keys: pd.DataFrame
    of_event: Codes

    def of_periods(self, sample: HazardSample) -> Codes:
        """Return the cell of each sampled person-period, -1 if nobody converts in its cell."""
        periods, histories = sample.periods, sample.histories
        since = pd.Series(histories.origin + (periods.moment * 86_400e6).astype("timedelta64[us]"))
        rows = self.segments._labelled(
            histories.user_number[periods.user], since.dt.tz_localize("UTC"), self.by
        )
        keys = self.keys.assign(cell=range(len(self.keys)))
        cell = rows.merge(keys, on=list(rows.columns), how="left")["cell"].fillna(-1).to_numpy(dtype=np.int64)
        # The moment of a conversion is rounded to microseconds: its cell is that of the conversion.
        of_case = self.of_event[histories.event_number]
        return np.where(periods.is_case, of_case[np.maximum(periods.event, 0)], cell)


@dataclass(frozen=True, eq=False)
class ObservedShares:
    """Shares of users observed, and their standard errors: one for all users, or one for each segment.

    Attributes
    ----------
    column : str or None
        Column of users that names their segment; None if one share holds for all.
    of : mapping
        Share and standard error by segment; None is the segment without a value, or all users.
    """

    column: str | None
    of: Mapping[Any, tuple[float, float]]

    @classmethod
    def read(cls, given: Any) -> ObservedShares:
        """Return the shares that a user passes.

        Raises
        ------
        InvalidRequest
            If a share is not above 0 and at most 1, its error is not between 0 and the share, or shares by
            segment are not those of one column.
        """
        if not isinstance(given, Mapping):
            return cls(None, {None: _read_share(given)})
        ((column, shares),) = given.items() if len(given) == 1 else ((None, None),)
        if not isinstance(column, str) or not isinstance(shares, Mapping) or not shares:
            raise InvalidRequest(
                f"{_FIELD}: {given!r} is not allowed; allowed: a column of users with the share of each of "
                "its values, as in {'country': {'FR': 0.6, 'US': (0.9, 0.01)}}"
            )
        return cls(column, {_key(value): _read_share(share) for value, share in shares.items()})

    def of_segment(self, value: Any) -> tuple[float, float]:
        """Return the share of a segment, and its standard error."""
        return self.of[None if self.column is None else _key(value)]

    def check_segments(self, segments: Segments) -> None:
        """Raise unless every segment of the users has a share."""
        if self.column not in segments.columns or isinstance(segments.columns[self.column], int):
            columns = [name for name, values in segments.columns.items() if not isinstance(values, int)]
            raise InvalidRequest.choice(_FIELD, self.column, columns)
        values = {_key(value) for value in segments.columns[self.column].unique().tolist()}
        for name, wrong, allowed in (
            ("no user has", set(self.of) - values, values),
            ("no share is given for", values - set(self.of), values),
        ):
            if wrong:
                raise InvalidRequest(
                    f"{_FIELD}: {name} {self.column} {_shown(wrong)}; allowed: one share for each of "
                    f"{_shown(allowed)}"
                )


def _read_share(given: Any) -> tuple[float, float]:
    allowed = "a number above 0 and at most 1, or such a number and its standard error, as in (0.7, 0.02)"
    share, error = given if isinstance(given, tuple | list) and len(given) == 2 else (given, 0.0)
    share = check_number(_FIELD, share, allowed, above=0, maximum=1)
    return float(share), float(check_number(_FIELD, error, allowed, minimum=0, below=share))


def _key(value: Any) -> Any:
    return None if pd.api.types.is_scalar(value) and pd.isna(value) else value


def _shown(values: set[Any]) -> str:
    shown = sorted(map(repr, values))
    return ", ".join(shown[:40]) + (f", … ({len(shown)} in all)" if len(shown) > 40 else "")
