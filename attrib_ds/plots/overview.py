"""The answers of a report as plain data: sentences, credit by model, periods, roles and returns."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from pathlib import Path
from typing import Any, Final
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd

from attrib_ds.attribution.credits.credits import attribute
from attrib_ds.attribution.credits.series import credit_series
from attrib_ds.attribution.models import named_models, rule_models
from attrib_ds.attribution.paths.money import OCCURRED, local_days_of
from attrib_ds.attribution.paths.paths import Paths
from attrib_ds.display import counted, half_up, number, printable
from attrib_ds.errors import InvalidRequest, check_whole, warn
from attrib_ds.instants import naive, parse
from attrib_ds.plots.labels import ESTIMATES, distinct, name_of_rest, shorten
from attrib_ds.records.frames import Frame, read_frame

#: By name of a model: its ``label`` in words, its ``meaning`` and a ``link``.
MODELS: Final = tomllib.loads(Path(__file__).with_name("models.toml").read_text(encoding="utf-8"))
#: Lengths of a period in days; whole weeks, so that both periods have the same weekdays.
_PERIODS: Final = (364, 182, 84, 28, 7)
#: Maximum number of points in a chart over time; longer periods are drawn by week.
_MOST_POINTS: Final = 62
#: Maximum number of characters of a name, in tables and in sentences.
_WIDTH: Final = 120
_IN_SENTENCES: Final = 48
_KEYS: Final = ["model", "key"]
#: Sum of money from which on cents do not matter.
_LARGE: Final = 1_000
#: Decimals that tell a number from the noise of its computation.
EXACT: Final = 6


def in_words(model: str) -> str:
    """Return the label of a model in words.

    Examples
    --------
    >>> in_words("position_based"), in_words("time_decay(half_life=3D)"), in_words("My model")
    ('Position based', 'Time decay (half life = 3D)', 'My model')
    """
    stem, _, settings = model.partition("(")
    if stem not in MODELS:
        return printable(model)
    label, settings = MODELS[stem]["label"], settings.replace("_", " ").replace("=", " = ")
    return printable(f"{label} ({settings}" if settings else label)


def day_in_words(day: date) -> str:
    """Return a day as ``1 Feb 2025``."""
    return f"{day.day} {day:%b %Y}"


@dataclass(frozen=True)
class Measure:
    """A column of numbers by model and node: its name, unit and number of decimals."""

    name: str
    unit: str = ""
    decimals: int = 0

    @property
    def title(self) -> str:
        """Name and unit."""
        return f"{self.name}, {self.unit}" if self.unit else self.name

    def text(self, number: Any) -> str:
        """Return a number with the decimals of the measure; empty if it is missing."""
        if pd.isna(number):
            return ""
        return f"{half_up(number, self.decimals):,}".replace("-", "\N{MINUS SIGN}")


@dataclass(frozen=True)
class Period:
    """Conversions and value in a period and in the period before it.

    Attributes
    ----------
    days : int
        Length of the period.
    first, last : Timestamp
        Its first and its last day.
    step : int
        Days of a point of ``now`` and ``before``.
    now, before : DataFrame
        One row per point: ``conversions`` and ``value`` (in the main currency); ``before`` is empty if the
        data do not cover it.
    by_node : DataFrame
        Index ``key``: ``now`` and ``before``, credited conversions under the leading model; empty if it
        cannot be divided into periods.
    """

    days: int
    first: pd.Timestamp
    last: pd.Timestamp
    step: int
    now: pd.DataFrame
    before: pd.DataFrame
    by_node: pd.DataFrame = field(default_factory=pd.DataFrame)

    @property
    def name(self) -> str:
        """The length in words."""
        if self.days % 7 or self.days < 28:
            return f"{self.days} day{'s' * (self.days != 1)}"
        return f"{self.days // 7} weeks"

    def table(self) -> pd.DataFrame:
        """Return one row per point of both periods, with the first day of the point."""
        starts = {"now": self.first, "before": self.first - pd.Timedelta(days=self.days)}
        parts = {"now": self.now, "before": self.before}
        rows = pd.concat(parts, names=["period", "point"]).reset_index()
        date = rows["period"].map(starts) + pd.to_timedelta(rows["point"] * self.step, unit="D")
        rows.insert(2, "date", date.dt.date)
        return rows


@dataclass(frozen=True)
class Overview:
    """What a report says, before it is drawn.

    Attributes
    ----------
    models : list of str
        Labels of the models, in order.
    lead : str
        Model whose credit is shown where one is.
    reason : str
        Why it leads, as a sentence.
    span : str
        The days that the numbers are of, as a sentence; empty without dates.
    sentences : list of str
        What brought the conversions, where models disagree most, what cannot be told.
    measures : list of Measure
        Columns of ``numbers``.
    numbers : DataFrame
        Index ``model`` and ``key`` (node id, empty for conversions without a touchpoint), a column per title
        of a measure; nodes by credit under the leading model.
    names : dict
        Name of each key.
    currency : str
        Currency of most conversions, empty if values have none.
    has_value : bool
        Whether conversions have a value beside their number.
    roles : DataFrame
        Index ``key``: ``touched``, ``opens``, ``assists``, ``closes``; empty without paths.
    period : Period or None
        Conversions over time; None without dates.
    paths : DataFrame
        The most frequent paths; empty without paths.
    lags : DataFrame
        Share of conversions by the days from the first and the last touchpoint; empty without dates.
    pages, entries, funnel : DataFrame
        From :func:`attrib_ds.page_insights`, in all and by source, and from :func:`attrib_ds.funnel`; empty
        where there are none.
    """

    models: list[str]
    lead: str
    reason: str
    span: str
    sentences: list[str]
    measures: list[Measure]
    numbers: pd.DataFrame
    names: dict[str, str]
    currency: str
    has_value: bool
    roles: pd.DataFrame
    period: Period | None
    paths: pd.DataFrame
    lags: pd.DataFrame
    pages: pd.DataFrame = field(default_factory=pd.DataFrame)
    entries: pd.DataFrame = field(default_factory=pd.DataFrame)
    funnel: pd.DataFrame = field(default_factory=pd.DataFrame)

    @classmethod
    def of(
        cls, credits: Frame, paths: Paths | None = None, *, lead: str | None = None, days: int | None = None
    ) -> Overview:
        """Collect the answers of credits, and of their paths if they are given.

        Parameters
        ----------
        credits : DataFrame
            From :func:`attrib_ds.attribute`.
        paths : Paths, optional
            The paths that were attributed.
        lead : str, optional
            Label of the leading model; by default the one nearest to the middle of all models.
        days : int, optional
            Length of the period that the answers are of; by default they are of all days. It is compared with
            the one before it, by default the longest of 364, 182, 84, 28 and 7 days that the data hold twice.

        Raises
        ------
        InvalidRequest
            If ``credits`` lacks a column, ``lead`` is not one of its models, or ``days`` is not allowed or
            given without paths that have dates.

        Warns
        -----
        InputWarning
            If the paths cover fewer than ``days``.
        """
        wanted = ("model", "node_id", "node_name", "conversions", "value", "currency", "share")
        rows = read_frame("credits", credits, wanted)
        models = list(dict.fromkeys(rows["model"]))
        if lead is not None and lead not in models:
            raise InvalidRequest.choice("lead", lead, models)
        if days is not None:
            days = check_whole("days", days, minimum=1)
            if paths is None or not paths.has_dates:
                raise InvalidRequest(
                    "days: needs paths with dates; pass the paths that were attributed as paths="
                )
        names, span = _names(rows := rows.assign(key=rows["node_id"].fillna(""))), ""
        paths = whole = None if paths is None else paths.computed()
        if paths is not None and paths.has_dates:
            if len(rows):
                covered = _covered(paths)
                days = None if days is None else _at_most(days, *covered)
                rows, paths, span = _of_period(rows, paths, days, *covered)
            models = list(dict.fromkeys(rows["model"]))
        rows = rows.assign(key=rows["node_id"].fillna(""))
        shares = rows.groupby(_KEYS)["share"].sum().unstack("model", fill_value=0)
        chosen, reason = _leading(shares.reindex(columns=models), lead)
        currencies = currencies_of(rows)
        measures, numbers = _numbers(rows, currencies, valued=has_value(rows))
        roles = pd.DataFrame() if paths is None else paths.roles().set_index("node_id")
        period = None if whole is None else period_of(whole, chosen, currencies[0], days)
        # Rolled-up credits have other nodes than their paths.
        fits = {*roles.index} <= names.keys()
        roles = roles if fits else roles.iloc[:0]
        of_lead = numbers[numbers.index.get_level_values("model") == chosen].droplevel("model")
        if period is not None:
            by_node = period.by_node[period.by_node.index.isin([*names] if fits else [])]
            period = replace(period, by_node=by_node)
            # Nodes that have credit in the period before only are what changed most.
            keys = of_lead.index.union(by_node.index).rename("key")
            of_lead = of_lead.reindex(keys).fillna({"Conversions": 0.0})
        order = of_lead.assign(last=of_lead.index == "", Conversions=of_lead["Conversions"].round(9))
        order = order.sort_values(["last", "Conversions", "key"], ascending=[True, False, True])
        index = pd.MultiIndex.from_product([models, order.index], names=_KEYS)
        overview = cls(
            models=models,
            lead=chosen,
            reason=reason,
            span=span,
            sentences=[],
            measures=measures,
            numbers=numbers.reindex(index),
            names={key: names[key] for key in order.index},
            currency=currencies[0] or "",
            has_value=has_value(rows),
            roles=roles,
            period=period,
            paths=pd.DataFrame() if paths is None else _frequent(paths, top=12),
            lags=pd.DataFrame() if paths is None or not paths.has_dates else _by_lag(paths.lags()),
        )
        overview.sentences.extend(_sentences(overview, paths))
        return overview

    def of_model(self, model: str) -> pd.DataFrame:
        """Return the numbers of one model by key."""
        return self.numbers[self.numbers.index.get_level_values("model") == model].droplevel("model")

    def across(self, measure: str) -> pd.DataFrame:
        """Return one row per key and one column per model."""
        by_model = {model: self.of_model(model)[measure] for model in self.models}
        return pd.DataFrame(by_model, index=list(self.names))

    def titles(self, name: str) -> list[str]:
        """Return the titles of a measure, one per unit."""
        return [measure.title for measure in self.measures if measure.name == name]

    def frames(self) -> dict[str, pd.DataFrame]:
        """Return the answers as the sheets of a workbook, by name."""
        names = pd.Series(self.names, name="node", dtype=object).to_frame()
        answers = [*filter(None, [self.span]), *self.sentences, self.reason]
        sheets = {"Overview": pd.DataFrame({"answer": answers})}
        lead = self.of_model(self.lead).join(self.roles.drop(columns="node_name", errors="ignore"))
        if self.period is not None and len(self.period.by_node):
            columns = {"now": f"last {self.period.name}", "before": f"{self.period.name} before"}
            lead = lead.join(self.period.by_node.rename(columns=columns))
        sheets["Credit"] = names.join(lead).reset_index(drop=True)
        for name in ("Conversions", "Value"):
            for title in self.titles(name):
                wide = self.across(title).rename(columns=in_words)
                sheet = title.replace(", ", " ") + " by model"
                sheets[sheet] = names.join(wide).reset_index(drop=True)
        if self.period is not None:
            sheets["Over time"] = self.period.table()
        sheets |= {"Paths": self.paths} if len(self.paths) else {}
        return {name: sheet.round(EXACT) for name, sheet in sheets.items()}

    def decimals(self, title: str) -> int:
        """Return the decimals of a measure."""
        return next((each.decimals for each in self.measures if each.title == title), 1)


def has_value(credits: pd.DataFrame) -> bool:
    """Return whether the value of conversions is more than their number."""
    return bool(credits["value"].notna().any() and (credits["value"] != credits["conversions"]).any())


def currencies_of(credits: pd.DataFrame) -> list[str | None]:
    """Return the currencies, that of most conversions first; None last if there are values without one."""
    counts = credits.groupby("currency")["conversions"].sum().rename("size").reset_index()
    ordered = counts.sort_values(["size", "currency"], ascending=[False, True])["currency"].tolist()
    has_unknown = bool((credits["currency"].isna() & credits["value"].notna()).any())
    return [*ordered, None] if has_unknown or not ordered else ordered


def _leading(shares: pd.DataFrame, lead: str | None) -> tuple[str, str]:
    """Return the leading model, and why it leads."""
    models = shares.columns.tolist()
    if not models:
        return "", "There is no credit."
    if lead is not None or len(models) == 1:
        chosen = models[0] if lead is None else lead
        why = "it is the only model" if len(models) == 1 else "it was chosen"
        return chosen, f"{in_words(chosen)} is shown first, because {why}."
    away = shares.sub(shares.median(axis=1), axis=0).abs().sum()
    # Rounding must not decide between models that are equally far.
    chosen = str(away.round(9).idxmin())
    return chosen, (
        f"{in_words(chosen)} is shown first, because its credit is nearest to the middle of the "
        f"{len(models)} models."
    )


def _numbers(
    rows: pd.DataFrame, currencies: list[str | None], *, valued: bool
) -> tuple[list[Measure], pd.DataFrame]:
    """Return the measures, and their numbers by model and node; amounts of each currency are apart."""
    by = rows.groupby(_KEYS, sort=False)
    conversions = by["conversions"].sum()
    whole = conversions.groupby("model").transform("sum")
    found = [
        (Measure("Conversions", decimals=1), conversions),
        (Measure("Share", "%", 1), 100 * conversions / whole.where(whole != 0, 1.0)),
    ]
    unknown = "in no currency" if len(currencies) > 1 else ""
    parts = [(unit or unknown, rows[rows["currency"].fillna("") == (unit or "")]) for unit in currencies]

    def sums(column: str) -> list[tuple[str, pd.Series[Any]]]:
        summed = [(unit, part.groupby(_KEYS)[column].sum(min_count=1)) for unit, part in parts]
        return [(unit, amounts) for unit, amounts in summed if amounts.notna().any()]

    def money(name: str, column: str) -> list[tuple[Measure, pd.Series[Any]]]:
        return [(Measure(name, unit, _cents(amounts)), amounts) for unit, amounts in sums(column)]

    if valued:
        found += money("Value", "value")
    if "spend" in rows.columns:
        found += money("Spend", "spend")
        found += [(Measure("CPA", unit, 2), amounts) for unit, amounts in sums("cpa")]
        ratios = sums("roas")
        found += [
            (Measure("ROAS", f"spend in {unit}" if len(ratios) > 1 else "", 2), ratio)
            for unit, ratio in ratios
        ]
    columns = {measure.title: amounts.astype("float64") for measure, amounts in found}
    return [measure for measure, _ in found], pd.DataFrame(columns, index=conversions.index)


def _cents(amounts: pd.Series[Any]) -> int:
    """Return the decimals of amounts of money: none if they are large."""
    return 0 if amounts.abs().groupby("model").sum().max() >= _LARGE else 2


def _names(rows: pd.DataFrame) -> dict[str, str]:
    """Return the name of each node; equal names have their id behind them."""
    named = rows[["key", "node_name"]].drop_duplicates("key").set_index("key")["node_name"]
    names = {str(key): str(key) if pd.isna(name) else str(name) for key, name in named.items()}
    return distinct(names, width=_WIDTH) | ({"": name_of_rest(rows["model"])} if "" in names else {})


def period_of(paths: Paths, lead: str, currency: str | None, days: int | None) -> Period | None:
    """Sum conversions and value by day, and divide them into the period and the one before it."""
    if not paths.has_dates:
        return None
    # Totals are the same under every rule, and other models take too long by day.
    model = None if lead == "participation" else rule_models().get(lead)
    rows = credit_series(paths, model or "linear", interval="day")
    rows = rows.assign(key=rows["node_id"].fillna(""), day=pd.to_datetime(rows["day"]))
    rows = rows[~rows["is_partial"].fillna(False).astype(bool) & (rows["conversions"] != 0)]
    if rows.empty:
        return None
    first, last = _covered(paths)
    covered = (last - first).days + 1
    has_before = days is not None or any(2 * length <= covered for length in _PERIODS)
    if days is None:
        days = next((length for length in _PERIODS if 2 * length <= covered), covered)
    step = 1 if days <= _MOST_POINTS else 7
    if not has_before:
        days -= days % step
    values = rows["value"] if currency is None else rows["value"].where(rows["currency"] == currency)
    daily = rows.assign(value=values).groupby("day")[["conversions", "value"]].sum()
    every = daily.reindex(pd.date_range(last - pd.Timedelta(days=2 * days - 1), last), fill_value=0.0)
    point = np.arange(days, dtype=np.int64) // step
    now, before = (part.groupby(point).sum() for part in (every.iloc[days:], every.iloc[:days]))
    start = last - pd.Timedelta(days=days - 1)
    is_covered = has_before and start - pd.Timedelta(days=days) >= first
    by_node = pd.DataFrame()
    if model is not None and is_covered:
        rows = rows[rows["day"] >= every.index[0]]
        which = np.where(rows["day"] >= start, "now", "before")
        by_node = rows.groupby(["key", which])["conversions"].sum().unstack(fill_value=0.0)
        by_node = by_node.reindex(columns=["now", "before"], fill_value=0.0)
    return Period(days, start, last, step, now, before if is_covered else before.iloc[:0], by_node)


def _covered(paths: Paths) -> tuple[pd.Timestamp, pd.Timestamp]:
    """Return the first and the last day that the paths cover: their bounds, else those of their data."""
    table: Any = paths.touches if paths.conversions is None else paths.conversions
    dates = table[OCCURRED if OCCURRED in table.columns else "event_date"]
    newest = [dates.max()]
    if paths.touchpoints is not None and "until" not in paths.settings:
        newest.append(paths.touchpoints.date.max())

    def day(instant: Any) -> pd.Timestamp:
        return pd.Timestamp(instant, tz="UTC").tz_convert(paths.timezone).tz_localize(None).normalize()

    first, *last = (day(edge.to_pyarrow().as_py()) for edge in (dates.min(), *newest))
    if paths.spend is not None and "date" in paths.spend.columns and "until" not in paths.settings:
        last.append(local_days_of(paths.spend["date"], ZoneInfo(paths.timezone)).max())
    bounds = {
        name: day(naive(parse(paths.settings[name], argument=name)))
        for name in ("since", "until")
        if name in paths.settings
    }
    return min(first, bounds.get("since", first)), max([*last, bounds.get("until", first)])


def _at_most(days: int, first: pd.Timestamp, last: pd.Timestamp) -> int:
    """Return a number of days, or the smaller one that the paths cover, with a warning."""
    covered = (last - first).days + 1
    if days > covered:
        warn(
            f"days: the paths cover {counted(covered, 'days')}, from {day_in_words(first)} to "
            f"{day_in_words(last)}; the report covers these, not {days:,} days"
        )
    return min(days, covered)


def _of_period(
    rows: pd.DataFrame, paths: Paths, days: int | None, first: pd.Timestamp, last: pd.Timestamp
) -> tuple[pd.DataFrame, Paths, str]:
    """Return credits and paths of the last days, and what they are of in words.

    Credits under models other than those with a name stay as they are, which the words say.
    """
    if days is None:
        return rows, paths, f"Conversions from {day_in_words(first)} to {day_in_words(last)}."
    first = last - pd.Timedelta(days=days - 1)
    of_period = f"from {day_in_words(first)} to {day_in_words(last)}"
    own = paths.within(since=f"{first:%Y-%m-%d}", until=f"{last:%Y-%m-%d}")
    given, named = rows.attrs.get("models", {}), named_models()
    models = {label: named[label] for label in dict.fromkeys(rows["model"]) if label in named}
    credits = attribute(own, models) if models else rows.head(0)
    if (
        not set(rows["model"]) <= {*models}
        or any(given.get(label, repr(model)) != repr(model) for label, model in models.items())
        # Credits that were rolled up have other nodes.
        or not set(credits["node_id"].dropna()) <= set(rows["node_id"].dropna())
    ):
        return (
            rows,
            paths,
            f"Charts over time and changes cover conversions {of_period}. The rest covers all days; "
            f'for this period alone, attribute paths.within(since="{first:%Y-%m-%d}").',
        )
    is_undated = "spend" in rows and "spend" not in credits
    lost = " Returns are missing: the spend has no dates." * is_undated
    return credits, own, f"Conversions {of_period}, {counted(days, 'days')}.{lost}"


def _frequent(paths: Paths, *, top: int) -> pd.DataFrame:
    """Return the most frequent paths, whatever the currency of their conversions."""
    counted = paths.summary(top=None).groupby("path")[["conversions"]].sum().reset_index()
    ordered = counted.sort_values(["conversions", "path"], ascending=[False, True])
    return ordered.head(top).reset_index(drop=True)


#: Upper ends of classes of lags, in days.
_LAGS: Final = (1, 3, 7, 14, 30, 90)


def _by_lag(lags: pd.DataFrame) -> pd.DataFrame:
    """Return the cumulative share of conversions by the days from the first and from the last touchpoint."""
    known = lags[lags["first_lag_days"].notna()]
    weights = known["conversions"]
    if not weights.sum() > 0:
        return pd.DataFrame()
    return pd.DataFrame(
        {
            name: [float(weights[known[column] <= days].sum() / weights.sum()) for days in _LAGS]
            for name, column in (("first", "first_lag_days"), ("last", "last_lag_days"))
        },
        index=pd.Index(_LAGS, name="days"),
    )


def percent(share: float) -> str:
    """Return a share in a sentence."""
    return f"{number(100 * share)} %"


def listed(parts: Sequence[str]) -> str:
    """Join parts with commas and "and"."""
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)


def _sentences(overview: Overview, paths: Paths | None) -> list[str]:
    shown = overview.of_model(overview.lead)
    total = float(shown["Conversions"].sum())
    if not total > 0:
        return ["No conversions."]
    return [_what_brought(overview, shown, total), _disagreement(overview), _unknown(overview, total, paths)]


def _what_brought(overview: Overview, shown: pd.DataFrame, total: float) -> str:
    worth = [
        f"{number(float(shown[title].sum()), overview.decimals(title))} {title.partition(', ')[2]}".strip()
        for title in overview.titles("Value")
    ]
    first = f"{number(total)} conversion{'' if total == 1 else 's'}{' worth ' * bool(worth)}{listed(worth)}"
    nodes = shown[(shown.index != "") & (shown["Conversions"] > 0)]["Conversions"].head(3)
    if nodes.empty:
        return f"{first}; none had a known visit before."
    parts = [
        f"{shorten(overview.names[str(key)], width=_IN_SENTENCES)} ({number(part)}, {percent(part / total)})"
        for key, part in nodes.items()
    ]
    most = "the most credit goes" if len(parts) > 1 else "the credit goes"
    return f"{first}: under {in_words(overview.lead)}, {most} to {listed(parts)}."


def _disagreement(overview: Overview) -> str:
    if len(overview.models) == 1:
        used = in_words(overview.lead)
        return f"Only {used} was used; other models may divide the conversions differently."
    wide = overview.across("Share, %").fillna(0.0).drop(index="", errors="ignore")
    spread = wide.max(axis=1) - wide.min(axis=1)
    if spread.empty:
        return "Models cannot divide these conversions differently."
    if spread.max() < 0.5:
        all_of_them = "Both" if len(overview.models) == 2 else f"All {len(overview.models)}"
        return f"{all_of_them} models agree to within half a percent of the conversions."
    key = str(spread.idxmax())
    credited: Any = overview.across("Conversions").loc[key].fillna(0.0)
    low, high = str(wide.loc[key].idxmin()), str(wide.loc[key].idxmax())
    sentence = (
        f"Models disagree most about {shorten(overview.names[key], width=_IN_SENTENCES)}: "
        f"{number(credited[low])} under {in_words(low)}, {number(credited[high])} under {in_words(high)}"
    )
    if key not in overview.roles.index:
        return f"{sentence}, so test it before you move its budget."
    opens, closes = (float(overview.roles[name][key]) for name in ("opens", "closes"))
    favoured = {True: "the last visit", False: "the first visit"}[closes > opens]
    if opens == closes:
        favoured = "the visits between"
    return (
        f"{sentence}. It opens {counted(opens, 'journeys')} and closes {number(closes)}, so models that "
        f"favour {favoured} give it more credit. Test it before you move its budget."
    )


def _unknown(overview: Overview, total: float, paths: Paths | None) -> str:
    rules = [model for model in overview.models if not model.startswith(ESTIMATES)]
    estimated = len(rules) < len(overview.models)
    reason = ", unless the model of effects holds." if estimated else ": models only divide them."
    text = f"These data cannot tell how many of the conversions would have happened anyway{reason}"
    # The baseline of a model of effects is not a lack of visits.
    without = float(overview.across("Conversions").reindex(index=[""], columns=rules).iloc[0].min())
    if without > 1e-6:
        lookback = "" if paths is None else paths.settings.get("lookback", "")
        window = f" in the {lookback[:-1]} days before" if lookback[:-1].isdigit() else " before"
        text += f" {number(without)} ({percent(without / total)}) had no known visit{window}."
        missed = 0.0 if paths is None else paths.beyond_lookback()
        if missed > 1e-6:
            text += f" Of these, {number(missed)} had earlier visits, which a longer lookback would credit."
    return text
