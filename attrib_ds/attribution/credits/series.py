"""Credits over time: credits of each model by node and day, week, month or longer period."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any
from zoneinfo import ZoneInfo

import ibis
import ibis.expr.types as ir
import numpy as np
import pandas as pd
import pyarrow as pa

from attrib_ds import instants
from attrib_ds.attribution import rules
from attrib_ds.attribution.arrays import Codes, Numbers
from attrib_ds.attribution.calendar import counted_in_part, first_days, labels, local_days, starts_of, zone_of
from attrib_ds.attribution.credits import path_credits, returns
from attrib_ds.attribution.credits.touches import Models, check_custom_weights, models_by_label
from attrib_ds.attribution.engines.engine import group_of
from attrib_ds.attribution.intervals import GROUPS, Limits, Uncertainty, measures_of
from attrib_ds.attribution.models import DiscreteHazard, Markov, Model, PathModel
from attrib_ds.attribution.paths import inputs, money
from attrib_ds.attribution.paths.paths import Paths, require_paths
from attrib_ds.attribution.paths.sequences import Sequences
from attrib_ds.errors import InvalidRequest, check_choice
from attrib_ds.records.frames import TEXT, Frame, read_frame, to_pandas

_DATES = ("event", "state", "touch")
_CELL = ["node_id", "currency", "day"]
_BOUNDS = ["low", "high", "value_low", "value_high"]


def credit_series(
    paths: Paths,
    models: Models,
    *,
    interval: str = "day",
    date: str = "event",
    timezone: str | None = None,
    spend: Frame | None = None,
    confidence: float | None = None,
) -> pd.DataFrame:
    """Attribute conversions and their value to nodes, period by period.

    Parameters
    ----------
    paths : Paths
        From :func:`attrib_ds.conversion_paths` or ``Paths.from_frames``.
    models : Model, str, sequence or mapping
        As in :func:`attrib_ds.attribute`. The Markov model credits nodes only, so each period has a chain of
        its own: of the conversions in the period, and of the users without a conversion whose last touchpoint
        is in it.
    interval : {"day", "week", "month", "quarter", "semester", "year"}, default "day"
        Length of a period.
    date : {"event", "state", "touch"}, default "event"
        Date that assigns credit to a period. ``"event"``: the date of the event, later amounts included.
        ``"state"``: the date of the state for the conversion and its original value, and its own date for
        each later amount. ``"touch"``: the date of the touchpoint, as ad platforms report; the unattributed
        part keeps the date of the event.
    timezone : str, optional
        IANA name of the time zone in which periods begin, such as ``"Europe/Paris"``; by default that of the
        project, or UTC.
    spend : DataFrame, optional
        One row or more per node and day: ``node_id`` (str), ``date`` (datetime, date or ISO 8601 str),
        ``spend`` (number, 0 or more) and, with several currencies, ``currency`` (str). Each amount belongs
        to the period of its date; a date without a time is a day in ``timezone``. By default the spend of the
        paths, if it is by day.
    confidence : float, optional
        Level of the intervals, between 0 and 1, such as 0.95; without it there are none. As in
        :func:`attrib_ds.attribute`: closed forms for rules, and a jackknife over twenty groups of users for
        other models, which are estimated anew without each group.

    Returns
    -------
    DataFrame
        One row per model, period, node and currency with credit or spend, by model and then by period:
        ``model``; the period, in a column with the name of ``interval``, such as ``week`` (str, as in
        insights: ``"2025-W06"``); ``start`` (datetime64[us, UTC], when it begins), ``node_id``,
        ``node_name`` (str), ``conversions``, ``value`` (float64, credited), ``currency`` (str); with
        ``confidence``, ``low``, ``high``, ``value_low`` and ``value_high`` (float64, bounds of both); with
        spend, ``spend``, ``cpa`` and ``roas`` (float64), as in :func:`attrib_ds.report_returns`; and
        ``is_partial`` (boolean): the ``since`` or ``until`` of the paths lies inside the period, or beyond it
        for dates of touchpoints, or, without an ``until``, credit and spend end before the period does.
        Summed over periods, the credits equal those of :func:`attrib_ds.attribute`, except those of Markov
        chains; bounds do not add up.

    Raises
    ------
    InvalidRequest
        If a model is unknown, or the Markov model is to be divided by the dates of touchpoints or of later
        amounts, an argument is not allowed, the paths have no dates, or no state for ``date="state"``,
        ``spend`` has no dates or ambiguous ones, or the currency of conversions or spend is missing and
        ambiguous.

    Warns
    -----
    InputWarning
        If ``spend`` has nodes without a touchpoint.
    UnknownCurrency
        If values have no currency but the spend or other values have one; their ``currency`` and ``roas`` are
        null.

    See Also
    --------
    attrib_ds.plots.series : Draw the result.

    Examples
    --------
    >>> import pandas as pd
    >>> import attrib_ds as at
    >>> touchpoints = pd.DataFrame({"user_id": ["u", "u"], "node_id": ["search", "email"],
    ...     "date": pd.to_datetime(["2025-01-30", "2025-01-31"], utc=True)})
    >>> conversions = pd.DataFrame({"event_id": ["e"], "user_id": ["u"], "value": [30.0],
    ...     "date": pd.to_datetime(["2025-02-01"], utc=True)})
    >>> paths = at.Paths.from_frames(touchpoints, conversions)
    >>> at.credit_series(paths, "linear", interval="month")[["month", "node_id", "conversions", "value"]]
         month node_id  conversions  value
    0  2025-02   email          0.5   15.0
    1  2025-02  search          0.5   15.0
    >>> spend = pd.DataFrame({"node_id": ["search"], "date": ["2025-01-20"], "spend": [6.0]})
    >>> by_touch = at.credit_series(paths, "linear", interval="month", date="touch", spend=spend)
    >>> by_touch[["month", "node_id", "value", "spend", "roas"]]
         month node_id  value  spend  roas
    0  2025-01   email   15.0    NaN   NaN
    1  2025-01  search   15.0    6.0   2.5
    """
    require_paths(paths)
    chosen = models_by_label(models)
    # Names of intervals are checked before anything is computed.
    labels(pd.Series([], dtype="datetime64[us]"), interval)
    check_choice("date", date, _DATES)
    paths.require_dates("a series of credits")
    zone = zone_of(timezone or paths.timezone)
    own_spend = None if spend is None else read_frame("spend", spend, ("node_id", "date", "spend"))
    if own_spend is not None:
        of_paths: Iterable[Any] = [] if paths.nodes is None else paths.nodes["node_id"]
        returns.warn_of_unknown_nodes(paths, own_spend, of_paths)
        paths = paths.with_spend(own_spend)
    spent = _daily(paths.spend, zone)
    dated = _Dated.of(paths, date)
    uncertainty = Uncertainty.of(confidence, intervals="closed_form", replicates=2, seed=0)
    bounds = [] if uncertainty is None else _BOUNDS
    check_custom_weights(paths, chosen)
    by_rule = {label: model for label, model in chosen.items() if not isinstance(model, PathModel)}
    calendar = _Calendar.of(paths, dated, zone, interval if bounds else "day")
    if len(by_rule) < len(chosen):
        paths = paths.computed()
    by_day = _by_rules(paths, by_rule, calendar, uncertainty) if by_rule else {}
    for label, model in chosen.items():
        if isinstance(model, Markov):
            own = replace(calendar, interval=interval)
            by_day[label] = _by_chains(paths, model, own, uncertainty)
        elif isinstance(model, PathModel):
            by_day[label] = _by_shares(paths, model, calendar, uncertainty)
    series = _by_period({label: by_day[label] for label in chosen}, interval, spent, bounds)
    series["start"] = starts_of(series["start"], zone)
    days = [] if all(rows.empty for rows in by_day.values()) else [calendar.newest]
    days += [] if spent is None else spent["day"].tolist()
    first, last = _counted(paths, days, zone)
    series["is_partial"] = counted_in_part(series[interval], interval, zone, first=first, last=last)
    series["model"] = series["model"].astype(TEXT)
    series["node_name"] = paths.names(series["node_id"])
    columns = [
        "model", interval, "start", "node_id", "node_name", "conversions", "value", "currency", *bounds,
    ]  # fmt: skip
    if spent is not None:
        columns += ["spend", *(name for name in series.columns if name.startswith(("cpa", "roas")))]
    series = series[[*columns, "is_partial"]]
    described = {} if uncertainty is None else uncertainty.described()
    settings: dict[Any, Any] = {
        **paths.settings,
        "interval": interval,
        "date": date,
        "timezone": zone.key,
        **described,
    }
    series.attrs = {"models": {label: repr(model) for label, model in chosen.items()}, **settings}
    return series


@dataclass(frozen=True)
class _Dated:
    """Columns of touches that assign conversions and amounts to dates.

    Attributes
    ----------
    column : str
        Column with the date of the conversion.
    value : str
        Column with the amount of that date: the net value, or the original value only.
    later : ibis.Table or None
        Later amounts with dates of their own.
    by_touch : bool
        Whether the date of the touchpoint takes precedence over that of the conversion.
    """

    column: str
    value: str
    later: ir.Table | None
    by_touch: bool

    @classmethod
    def of(cls, paths: Paths, date: str) -> _Dated:
        """Return the columns for a choice of ``date``."""
        columns = paths.touches.columns
        of_event = money.OCCURRED if money.OCCURRED in columns else "event_date"
        if date != "state":
            return cls(of_event, "value", None, date == "touch")
        if inputs.STATE not in columns and paths.later is None:
            raise InvalidRequest(
                "date: 'state' needs the dates of a state or of later amounts, which the paths do not have; "
                "build the paths with state= or adjustments="
            )
        value = "value" if paths.later is None else money.ORIGINAL
        return cls(inputs.STATE if inputs.STATE in columns else of_event, value, paths.later, False)


@dataclass(frozen=True)
class _Calendar:
    """Periods in a time zone between two instants that enclose all dates; the newest day has conversions."""

    zone: ZoneInfo
    interval: str
    first: datetime
    last: datetime
    dated: _Dated

    @classmethod
    def of(cls, paths: Paths, dated: _Dated, zone: ZoneInfo, interval: str) -> _Calendar:
        """Return the periods of the dates, which need not be computed for all touchpoints."""
        conversions = paths.touches if paths.conversions is None else paths.conversions
        columns = [conversions[dated.column], *([] if dated.later is None else [dated.later.date])]
        ends = [end.to_pyarrow().as_py() for column in columns for end in (column.min(), column.max())]
        found = [pd.Timestamp(end) for end in ends if end is not None] or [pd.Timestamp(0)]
        # Windows may end at another date than the one that counts, such as that of a state.
        margin = pd.Timedelta(days=800) if paths.window is None else pd.Timedelta(paths.window.longest)
        first, last = (min(found) - margin).to_pydatetime(), max(found).to_pydatetime()
        return cls(zone, interval, first, last, dated)

    @property
    def newest(self) -> pd.Timestamp:
        """The local day of the last date."""
        return pd.Timestamp(self.last, tz="UTC").tz_convert(self.zone).tz_localize(None).normalize()

    def place(self, rows: ir.Table) -> ir.Table:
        """Add the first local day of the period of ``on``, as ``day``."""
        day = local_days(rows.on, self.zone, first=self.first, last=self.last)
        if self.interval == "day":
            return rows.mutate(day=day)
        margin = pd.Timedelta(days=2)
        days = pd.Series(pd.date_range(self.first - margin, self.last + margin, normalize=True))
        named = {"local_day": days, "day": first_days(days, self.interval)}
        table = ibis.memtable(pa.table({name: pa.array(each.dt.date) for name, each in named.items()}))
        return rows.mutate(local_day=day).inner_join(table, "local_day").drop("local_day")


def _by_rules(
    paths: Paths, chosen: dict[str, Model], calendar: _Calendar, uncertainty: Uncertainty | None
) -> dict[str, pd.DataFrame]:
    """Sum the credit of every rule by node, currency and day; by period if there are bounds."""
    models, dated = list(chosen.values()), calendar.dated
    rows = rules.weighted_touches(paths, models)
    on = rows.date.coalesce(rows[dated.column]) if dated.by_touch else rows[dated.column]
    rows = rows.mutate(on=on, value=rows[dated.value])
    kept = ["event_id", "user_id", "node_id", "currency", "on", "conversions", "value"]
    kept += [f"w{index}" for index in range(len(models))]
    parts = rows.select(*kept)
    if dated.later is not None:
        later = dated.later.select(later_of="event_id", later_on="date", amount="value")
        joined = rows.inner_join(later, rows.event_id == later.later_of)
        late = joined.mutate(on=joined.later_on, value=joined.amount, conversions=0.0)
        parts = ibis.union(parts, late.select(*kept).cast(dict(parts.schema())))
    placed = calendar.place(parts)
    placed = placed.mutate(day=placed.day.cast("timestamp(6)"))
    if uncertainty is None:
        sums = rules.credit_sums(placed, range(len(models)))
        wide = to_pandas(placed.group_by(_CELL).agg(**sums).order_by(*_CELL).to_pyarrow())
    else:
        wide = rules.sums_with_squares(placed, paths, models, _CELL)
    wide["day"] = wide["day"].dt.tz_localize(None)
    found = {label: rules.credits_of(wide, index, _CELL) for index, label in enumerate(chosen)}
    if uncertainty is None:
        return found
    return {
        label: _bounded(rows, partial(_bounds_of_rule, wide, index, uncertainty))
        for index, (label, rows) in enumerate(found.items())
    }


def _bounds_of_rule(
    wide: pd.DataFrame, index: int, uncertainty: Uncertainty, rows: Codes
) -> dict[str, Numbers]:
    return rules.bounds_around(wide.iloc[rows], index, uncertainty)


def _bounded(credits: pd.DataFrame, bounds_of: Callable[[Codes], dict[str, Numbers]]) -> pd.DataFrame:
    """Add the bounds of credits, which depend on all rows of the same period."""
    periods = map(np.asarray, credits.groupby("day").indices.values())
    parts = [pd.DataFrame(bounds_of(rows), index=credits.index[rows]) for rows in periods]
    return credits.join(pd.concat(parts)[_BOUNDS]) if parts else credits.reindex(columns=[*credits, *_BOUNDS])


def _by_chains(
    paths: Paths, model: Markov, calendar: _Calendar, uncertainty: Uncertainty | None
) -> pd.DataFrame:
    """Credit nodes by a chain for each period."""
    if calendar.dated.by_touch or calendar.dated.later is not None:
        raise InvalidRequest(
            f"date: {model.name} credits nodes, not touchpoints, so it has no credit by the dates of "
            "touchpoints or of later amounts; allowed: 'event'"
        )
    touches = calendar.place(paths.touches.mutate(on=paths.touches[calendar.dated.column]))
    converted = paths.touches if paths.converted is None else paths.converted
    points = paths.touchpoints
    ended = None
    if points is not None:
        ended = calendar.place(points.group_by("user_id").agg(on=points.date.max()))
    parts = [pd.DataFrame(columns=[*_CELL, "conversions", "value"])]
    for day in sorted(touches.day.to_pyarrow().unique().to_pylist()):
        nulls = (
            None
            if points is None or ended is None
            else points.semi_join(ended.filter(ended.day == day), "user_id")
        )
        own = touches.filter(touches.day == day).drop("on", "day")
        narrow = replace(paths, touches=own, touchpoints=nulls, converted=converted.select("user_id"))
        (rows,) = path_credits.path_credits(narrow, [model], uncertainty=uncertainty)
        parts.append(rows.assign(day=pd.Timestamp(day)))
    return pd.concat(parts[1:] or parts, ignore_index=True)


def _by_shares(
    paths: Paths, model: PathModel, calendar: _Calendar, uncertainty: Uncertainty | None
) -> pd.DataFrame:
    """Sum the credit of a path model by node, currency and day; by period if there are bounds."""
    credits = _shared(paths, model, calendar)
    if uncertainty is None:
        return credits
    tables = {"touches": paths.touches, "touchpoints": paths.touchpoints, "observed": paths.observed}
    cells, measures, without = pd.MultiIndex.from_frame(credits[_CELL]), ["conversions", "value"], []
    for group in range(GROUPS):
        kept: dict[str, Any] = {
            name: table.filter(group_of(table.user_id.fill_null(""), GROUPS) != group)
            for name, table in tables.items()
            if table is not None
        }
        left_out = _shared(replace(paths, **kept), model, calendar).set_index(_CELL)[measures]
        without.append(left_out.reindex(cells).fillna(0.0).to_numpy(float).T)
    samples, is_sum = np.stack(without), not (model.signed or isinstance(model, DiscreteHazard))
    currency = pd.factorize(credits["currency"])[0].astype(np.int64) + 1

    def bounds_of(rows: Codes) -> dict[str, Numbers]:
        estimates = measures_of(*credits[measures].to_numpy(float)[rows].T)
        limits = Limits(is_sum, model.signed, np.zeros(len(rows), bool), currency[rows])
        return uncertainty.without(estimates, samples[:, :, rows], limits=limits)

    return _bounded(credits, bounds_of)


def _shared(paths: Paths, model: PathModel, calendar: _Calendar) -> pd.DataFrame:
    """Sum the credit of a path model from the shares of touchpoints."""
    sequences, dated = Sequences.of(paths), calendar.dated
    shares = to_pandas(path_credits.touch_shares(model, sequences))[["event_id", "node_id", "date", "share"]]
    last = paths.ends
    events = to_pandas(
        last.select(
            "event_id", "currency", "conversions", worth=last[dated.value], on=last[dated.column]
        ).to_pyarrow()
    )
    rest = 1.0 - shares.groupby("event_id")["share"].sum().reindex(events["event_id"], fill_value=0.0)
    unattributed = pd.DataFrame({"event_id": events["event_id"], "share": rest.to_numpy()})
    is_real = unattributed["share"].abs() > 1e-12  # Smaller rests are rounding error.
    rows = pd.concat([shares, unattributed[is_real]], ignore_index=True).merge(events, on="event_id")
    if dated.by_touch:
        rows["on"] = rows["date"].where(rows["date"].notna(), rows["on"])
    if dated.later is not None:
        later = to_pandas(dated.later.select("event_id", later_on="date", amount="value").to_pyarrow())
        late = rows.merge(later, on="event_id").assign(conversions=0.0)
        late["on"], late["worth"] = late.pop("later_on"), late.pop("amount")
        rows = pd.concat([rows, late], ignore_index=True)
    local = _local(rows["on"], calendar.zone)
    credited = rows.assign(
        day=first_days(local, calendar.interval),
        conversions=rows["share"] * rows["conversions"],
        value=rows["share"] * rows["worth"],
    )
    sums = credited.groupby(_CELL, dropna=False)[["conversions", "value"]].sum(min_count=1)
    return sums.reset_index()


def _daily(spend: pd.DataFrame | None, zone: ZoneInfo) -> pd.DataFrame | None:
    """Return the spend by local day, or None if it has no dates."""
    if spend is None or "date" not in spend.columns:
        return None
    rows = returns.checked_spend(spend)
    days = money.local_days_of(spend["date"], zone)
    is_missing = np.asarray(days.isna())
    if is_missing.any():
        row = int(is_missing.argmax())
        date = spend["date"].tolist()[row]
        found = "missing" if pd.isna(date) else repr(date)
        raise InvalidRequest(f"spend: the column 'date' is {found} in row {row}; allowed: {money.ALLOWED}")
    return rows.assign(day=days)


def _counted(
    paths: Paths, days: list[pd.Timestamp], zone: ZoneInfo
) -> tuple[datetime | None, datetime | None]:
    """Return the bounds of the conversions; without an upper one, the end of the last of some days."""
    first, last = (
        instants.parse(paths.settings[name], argument=name) if name in paths.settings else None
        for name in ("since", "until")
    )
    if last is None and days:
        last = instants.last_instant(max(days).date(), zone, argument="until")
    return first, last


def _local(dates: pd.Series[Any], zone: ZoneInfo) -> pd.Series[Any]:
    local = pd.DatetimeIndex(dates).tz_convert(zone).tz_localize(None).normalize()
    return pd.Series(local, index=dates.index)


def _by_period(
    by_day: dict[str, pd.DataFrame], interval: str, spend: pd.DataFrame | None, bounds: list[str]
) -> pd.DataFrame:
    """Sum the days of each model into periods, and join the spend of each period to its credit."""
    rows = pd.concat([rows.assign(model=label) for label, rows in by_day.items()], ignore_index=True)
    if spend is not None:
        rows, spend = returns.in_one_currency(rows, spend)
    own = {label: rows[rows["model"] == label].drop(columns="model") for label in by_day}
    parts = [_summed(own[label], interval, spend, bounds).assign(model=label) for label in by_day]
    return pd.concat(parts, ignore_index=True)


def _summed(rows: pd.DataFrame, interval: str, spend: pd.DataFrame | None, bounds: list[str]) -> pd.DataFrame:
    # A cell with bounds is one row, so that its sum is itself.
    counts = ["conversions", "value", *bounds]
    if spend is not None:
        # Without any conversion the spend has earned 0.
        is_monetary = rows.empty or bool(rows["monetary"].any())
        is_valued = rows.empty or bool(rows["value"].notna().any())
        columns = [*rows.columns, "spend"]
        # pandas 2 would take dtypes from empty frames.
        filled = [part for part in (rows, spend.assign(conversions=0.0)) if len(part)] or [rows]
        rows = pd.concat(filled, ignore_index=True).reindex(columns=columns)
        counts.append("spend")
    days = pd.to_datetime(rows["day"]).astype("datetime64[us]")
    placed = rows.assign(**{interval: labels(days, interval), "start": first_days(days, interval)})
    keys = ["start", interval, "node_id", "currency"]
    summed = placed.groupby(keys, dropna=False)[counts].sum(min_count=1).reset_index()
    if spend is not None:
        # A node with spend and no credit has a value of 0 if conversions have values.
        only_spend = summed["value"].isna()
        for column in ("value", *bounds):
            zero = 0.0 if is_valued or column in ("low", "high") else np.nan
            summed[column] = summed[column].mask(only_spend & summed[column].isna(), zero)
        summed = returns.with_ratios(summed.assign(monetary=is_monetary))
    order = summed.assign(unattributed=summed["node_id"].isna())
    order = order.sort_values(["start", "unattributed", "node_id", "currency"])
    return summed.loc[order.index]
