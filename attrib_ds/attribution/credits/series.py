"""Credits over time: what each model gives to each node, day by day or by longer periods."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from attrib_ds.attribution.calendar import first_days, labels, local_days, starts_of, zone_of
from attrib_ds.attribution.credits.model_labels import check_custom_weights, models_by_label
from attrib_ds.attribution.credits.returns import checked_spend
from attrib_ds.attribution.credits.touch_shares import touch_shares
from attrib_ds.attribution.engines.sums import total
from attrib_ds.attribution.models.path_models import PathModel
from attrib_ds.attribution.paths.money import OCCURRED, ORIGINAL
from attrib_ds.attribution.paths.path_inputs import STATE
from attrib_ds.attribution.paths.paths import require_paths
from attrib_ds.attribution.paths.sequences import Sequences
from attrib_ds.attribution.rules.weights import weighted
from attrib_ds.errors import InvalidRequest
from attrib_ds.records.frames import to_pandas

if TYPE_CHECKING:
    from datetime import datetime
    from zoneinfo import ZoneInfo

    import ibis.expr.types as ir

    from attrib_ds.attribution.credits.model_labels import Models
    from attrib_ds.attribution.models.model import Model
    from attrib_ds.attribution.paths.paths import Paths

_DATES = ("event", "state", "touch")
_CELL = ["node_id", "currency", "day"]


def credit_series(
    paths: Paths,
    models: Models,
    *,
    interval: str = "day",
    date: str = "event",
    timezone: str | None = None,
) -> pd.DataFrame:
    """Credit conversions to the nodes that led to them, period by period.

    Parameters
    ----------
    paths : Paths
        From :func:`attrib_ds.conversion_paths` or ``Paths.from_frames``.
    models : Model, str, sequence or mapping
        As in :func:`attrib_ds.attribute`: models that give credit to touchpoints. A model that gives it to
        nodes alone, such as Markov's, has no part of a period and is refused.
    interval : str, default "day"
        ``"day"``, ``"week"``, ``"month"``, ``"quarter"``, ``"semester"`` or ``"year"``.
    date : {"event", "state", "touch"}, default "event"
        What decides to which period credit belongs: the date of the event, with all that came later; the date
        at which something came about, which is that of the state for the conversion and its first value, and
        its own for a later amount; or the date of the touchpoint, as ad platforms report (what no touchpoint
        led to stays at the date of the event).
    timezone : str, optional
        IANA name, such as ``"Europe/Paris"``, of the calendar that periods follow; by default that of the
        project, UTC without one.

    Returns
    -------
    DataFrame
        One row per model, period, node and currency with credit or spend, by model and then by period:
        ``model``, ``interval`` (str, such as ``"2025-01"``), ``since`` (datetime64[us, UTC], the beginning of
        the period), ``node_id``, ``node_name`` (str), ``conversions``, ``value`` (float64), ``currency``
        (str) and, where the paths know the spend by day, ``spend`` (float64). Summed over periods they are
        the credits of :func:`attrib_ds.attribute`.

    Raises
    ------
    InvalidRequest
        If a model is unknown or cannot be split, an argument is not allowed, or the paths have no dates or no
        state to report by.

    Examples
    --------
    >>> import pandas as pd
    >>> from attrib_ds import Paths, credit_series
    >>> touchpoints = pd.DataFrame({"user_id": ["u", "u"], "node_id": ["search", "email"],
    ...     "date": pd.to_datetime(["2025-01-30", "2025-01-31"], utc=True)})
    >>> conversions = pd.DataFrame({"event_id": ["e"], "user_id": ["u"], "value": [30.0],
    ...     "date": pd.to_datetime(["2025-02-01"], utc=True)})
    >>> paths = Paths.from_frames(touchpoints, conversions)
    >>> credit_series(paths, "linear", interval="month")[["interval", "node_id", "conversions", "value"]]
      interval node_id  conversions  value
    0  2025-02   email          0.5   15.0
    1  2025-02  search          0.5   15.0
    >>> credit_series(paths, "linear", interval="month", date="touch")["interval"].tolist()
    ['2025-01', '2025-01']
    """
    require_paths(paths)
    chosen = models_by_label(models)
    # Names of intervals are checked before anything is computed.
    labels(pd.Series([], dtype="datetime64[us]"), interval)
    if date not in _DATES:
        raise InvalidRequest.choice("date", date, _DATES)
    paths.require_dates("a series of credits")
    zone = zone_of(timezone or paths.timezone)
    dated = _Dated.of(paths, date)
    check_custom_weights(paths, chosen)
    rules = {label: model for label, model in chosen.items() if not isinstance(model, PathModel)}
    by_day = _by_rules(paths, rules, dated, zone) if rules else {}
    sequences = Sequences.of(paths) if len(rules) < len(chosen) else None
    for label, model in chosen.items():
        if isinstance(model, PathModel) and sequences is not None:
            by_day[label] = _by_shares(model, sequences, dated, zone)
    spend = _daily(paths.spend, zone)
    parts = [_summed(by_day[label], interval, spend).assign(model=label) for label in chosen]
    series = pd.concat(parts, ignore_index=True)
    series["since"] = starts_of(series["since"], zone)
    series["model"] = series["model"].astype("str")
    series["node_name"] = paths.names(series["node_id"])
    columns = ["model", "interval", "since", "node_id", "node_name", "conversions", "value", "currency"]
    series = series[[*columns, *([] if spend is None else ["spend"])]]
    told: dict[Any, Any] = {"models": {label: repr(model) for label, model in chosen.items()}}
    series.attrs = told | dict(paths.settings) | {"date": date, "timezone": zone.key}
    return series


@dataclass(frozen=True)
class _Dated:
    """Which column of touches dates what.

    Attributes
    ----------
    column : str
        Of the conversion.
    value : str
        What is dated so: the net value, or the first one alone.
    later : ibis.Table or None
        Amounts that have dates of their own.
    by_touch : bool
        Whether the date of the touchpoint goes before that of the conversion.
    """

    column: str
    value: str
    later: ir.Table | None
    by_touch: bool

    @classmethod
    def of(cls, paths: Paths, date: str) -> _Dated:
        """Find what a choice of dates means for paths."""
        known = paths.touches.columns
        of_event = OCCURRED if OCCURRED in known else "event_date"
        if date != "state":
            return cls(of_event, "value", None, date == "touch")
        if STATE not in known and paths.later is None:
            raise InvalidRequest(
                "date: 'state' needs the dates of a state or of later amounts, which the paths do not have; "
                "name them with state= or adjustments= where the paths are made",
                field="date",
            )
        value = "value" if paths.later is None else ORIGINAL
        return cls(STATE if STATE in known else of_event, value, paths.later, False)


def _by_rules(
    paths: Paths, rules: dict[str, Model], dated: _Dated, zone: ZoneInfo
) -> dict[str, pd.DataFrame]:
    """Sum the credit of every rule by node, currency and day."""
    touches = paths.touches
    rows = touches.mutate(
        **{f"w{index}": weighted(paths, model) for index, model in enumerate(rules.values())},
        on=touches.date.coalesce(touches[dated.column]) if dated.by_touch else touches[dated.column],
    )
    rows = rows.mutate(worth=rows[dated.value])
    first, last = _bounds(rows.on if paths.conversions is None else None, paths, dated)
    parts = [_credited(rows, len(rules), zone, first, last)]
    if dated.later is not None:
        later = dated.later.select(later_of="event_id", later_on="date", amount="value")
        joined = rows.inner_join(later, rows.event_id == later.later_of)
        late = joined.mutate(on=joined.later_on, worth=joined.amount, conversions=0.0)
        parts.append(_credited(late, len(rules), zone, first, last))
    wide = pd.concat(parts, ignore_index=True)
    return {
        label: wide[_CELL].assign(
            conversions=wide[f"c{index}"].astype("float64"), value=wide[f"v{index}"].astype("float64")
        )
        for index, label in enumerate(rules)
    }


def _credited(rows: ir.Table, models: int, zone: ZoneInfo, first: datetime, last: datetime) -> pd.DataFrame:
    sums: dict[str, Any] = {}
    for index in range(models):
        weight = rows[f"w{index}"]
        sums[f"c{index}"] = total(weight * rows.conversions)
        sums[f"v{index}"] = total(weight * rows.worth)
    day = local_days(rows.on, zone, first=first, last=last).cast("timestamp(6)")
    table = rows.mutate(day=day).group_by(_CELL).agg(**sums).order_by(*_CELL).to_pyarrow()
    frame = to_pandas(table)
    return frame.assign(day=frame["day"].dt.tz_localize(None))


def _bounds(instants: Any, paths: Paths, dated: _Dated) -> tuple[datetime, datetime]:
    """Return between which instants all dates lie, at little cost and with room on both sides."""
    if instants is None:
        conversions = paths.conversions
        known = {"event_date", dated.column}
        dates = [conversions[name] for name in known]  # type: ignore[index]
    else:
        dates = [instants]
    found = [(each.min().to_pyarrow().as_py(), each.max().to_pyarrow().as_py()) for each in dates]
    if dated.later is not None:
        column = dated.later.date
        found.append((column.min().to_pyarrow().as_py(), column.max().to_pyarrow().as_py()))
    bounds = [each for each in found if each[0] is not None]
    first = min((low for low, _ in bounds), default=pd.Timestamp(0).to_pydatetime())
    last = max((high for _, high in bounds), default=first)
    longest = pd.Timedelta(0) if paths.window is None else paths.window.longest
    return pd.Timestamp(first - longest).to_pydatetime(), pd.Timestamp(last).to_pydatetime()


def _by_shares(model: PathModel, sequences: Sequences, dated: _Dated, zone: ZoneInfo) -> pd.DataFrame:
    """Sum the credit of a model of whole paths, from the part of each touchpoint."""
    shares = to_pandas(touch_shares(model, sequences))[["event_id", "node_id", "date", "share"]]
    touches = sequences.paths.touches
    last = touches.filter(touches.position == touches.length)
    events = to_pandas(
        last.select(
            "event_id", "currency", "conversions", worth=last[dated.value], on=last[dated.column]
        ).to_pyarrow()
    )
    rest = 1.0 - shares.groupby("event_id")["share"].sum().reindex(events["event_id"], fill_value=0.0)
    nobody = pd.DataFrame({"event_id": events["event_id"], "share": rest.to_numpy()})
    # What is left of a whole by rounding is nobody's credit either.
    nobody = nobody[nobody["share"].abs() > 1e-12].assign(node_id=pd.array([None], dtype="str")[0])
    rows = pd.concat([shares, nobody], ignore_index=True).merge(events, on="event_id")
    rows["node_id"] = rows["node_id"].astype("str")
    if dated.by_touch:
        rows["on"] = rows["date"].where(rows["date"].notna(), rows["on"])
    if dated.later is not None:
        later = to_pandas(dated.later.select("event_id", later_on="date", amount="value").to_pyarrow())
        late = rows.merge(later, on="event_id").assign(conversions=0.0)
        late["on"], late["worth"] = late.pop("later_on"), late.pop("amount")
        rows = pd.concat([rows, late], ignore_index=True)
    credited = rows.assign(
        day=_local(rows["on"], zone),
        conversions=rows["share"] * rows["conversions"],
        value=rows["share"] * rows["worth"],
    )
    sums = credited.groupby(_CELL, dropna=False)[["conversions", "value"]].sum(min_count=1)
    return sums.reset_index()


def _daily(spend: pd.DataFrame | None, zone: ZoneInfo) -> pd.DataFrame | None:
    """Return the spend by local day, where it is known by date."""
    if spend is None or "date" not in spend.columns:
        return None
    checked_spend(spend)
    dates = pd.to_datetime(spend["date"], utc=True, errors="coerce")
    unknown = np.asarray(dates.isna())
    if unknown.any():
        row = int(unknown.argmax())
        raise InvalidRequest(
            f"spend: the column 'date' is {spend['date'].tolist()[row]!r} in row {row}; allowed: dates, "
            "instants or text such as '2025-01-31'",
            field="spend",
        )
    currency = spend["currency"] if "currency" in spend.columns else pd.Series(None, index=spend.index)
    return pd.DataFrame(
        {
            "node_id": spend["node_id"].astype("str"),
            "currency": currency.astype("str"),
            "day": _local(dates, zone),
            "spend": pd.to_numeric(spend["spend"]).astype("float64"),
        }
    )


def _local(instants: pd.Series[Any], zone: ZoneInfo) -> pd.Series[Any]:
    local = pd.DatetimeIndex(instants).tz_convert(zone).tz_localize(None).normalize()
    return pd.Series(local, index=instants.index)


def _summed(rows: pd.DataFrame, interval: str, spend: pd.DataFrame | None) -> pd.DataFrame:
    """Sum days into periods, and put the spend of each period beside its credit."""
    counts = ["conversions", "value"]
    if spend is not None:
        rows, spend = _in_one_currency(rows, spend)
        rows = pd.concat([rows, spend.assign(conversions=0.0)], ignore_index=True)
        counts.append("spend")
    days = pd.to_datetime(rows["day"]).astype("datetime64[us]")
    placed = rows.assign(interval=labels(days, interval), since=first_days(days, interval))
    keys = ["since", "interval", "node_id", "currency"]
    summed = placed.groupby(keys, dropna=False)[counts].sum(min_count=1).reset_index()
    if spend is not None:
        # Where conversions have a value, a node that only cost has one of 0.
        summed["value"] = summed["value"].fillna(0.0 if rows["value"].notna().any() else np.nan)
    order = summed.assign(unattributed=summed["node_id"].isna())
    order = order.sort_values(["since", "unattributed", "node_id", "currency"])
    return summed.loc[order.index]


def _in_one_currency(rows: pd.DataFrame, spend: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Let credit without a currency have that of the spend, and the other way round, where there is one.

    Beside credit of a currency that without one stays as it is: it may be of any.
    """
    earned, spent = (set(each["currency"].dropna()) for each in (rows, spend))
    if earned:
        spent = set()
    for mine, others in ((rows, spent), (spend, earned)):
        if mine["currency"].isna().any() and len(others) > 1:
            raise InvalidRequest(
                f"spend: what has no currency meets {', '.join(sorted(others))}; allowed: spend in one "
                "currency, or a currency for all of it",
                field="spend",
            )
    of_rows, of_spend = (next(iter(each), None) for each in (spent, earned))
    if of_rows is not None:
        rows = rows.assign(currency=rows["currency"].fillna(of_rows))
    if of_spend is not None:
        spend = spend.assign(currency=spend["currency"].fillna(of_spend))
    return rows, spend
