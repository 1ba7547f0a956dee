"""Lines and heat maps over calendar intervals: insights and credits."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from datetime import date
from typing import Any, Final

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from attrib_ds.contract.events import LINEAR
from attrib_ds.display import counted
from attrib_ds.errors import InvalidRequest, check_choice, check_whole
from attrib_ds.plots import credit_plots, style
from attrib_ds.plots.labels import distinct, name_of_rest, names_of_nodes, shorten
from attrib_ds.plots.style import numbers
from attrib_ds.records.frames import TEXT, Frame, read_frame

INSIGHT_COLUMNS: Final = ("group", "interval", "sessionCount", "hitCount", "durationSum")


def insights(insights: Frame, *, value: str | None = None, top: int = 8, ax: Axes | None = None) -> Axes:
    """Draw insights over an interval as one line per group.

    Parameters
    ----------
    insights : DataFrame
        As ``interaction_insights`` returns it with an interval: ``group`` (null: none), ``interval``,
        ``sessionCount``, ``hitCount``, ``durationSum`` (seconds); or as ``event_insights`` does:
        ``identifier``, ``interval``, ``values.<metric>``.
    value : str, optional
        Column to draw: ``"sessionCount"`` (default), ``"hitCount"`` or ``"durationSum"``; for events, a
        metric, by default the first.
    top : int, default 8
        Maximum number of groups with their own line, largest first; the rest is summed into one grey line.
    ax : Axes, optional
        Axes to draw on; a new figure by default.

    Returns
    -------
    Axes
        Intervals in order from left to right. An interval without a record counts as 0, including intervals
        between the first and the last that no group has. Partial intervals (column ``is_partial``) have
        hollow markers, and a note below names them.

    Raises
    ------
    InvalidRequest
        If a column is missing, every interval is null, or ``value`` or ``top`` is not allowed.

    Examples
    --------
    >>> import attrib_ds as at
    >>> import pandas as pd
    >>> from matplotlib.figure import Figure
    >>> frame = pd.DataFrame({"group": None, "interval": ["2025-03", "2025-01"], "sessionCount": [4, 2],
    ...                       "hitCount": [9, 3], "durationSum": [60.0, 5.0]})
    >>> axes = at.plots.insights(frame, ax=Figure().subplots())
    >>> [float(height) for height in axes.get_lines()[0].get_ydata()]
    [2.0, 0.0, 4.0]
    """
    top = check_whole("top", top, minimum=1)
    insights = read_frame("insights", insights)
    if "identifier" in insights.columns:
        insights, labels = rows_of_events(insights)
    else:
        insights, labels = read_frame("insights", insights, INSIGHT_COLUMNS), VALUES
    value = next(iter(labels), "") if value is None else value
    check_choice("value", value, labels)
    table = table_of_groups(insights, value, top=top)

    has_groups = len(table) > 1
    name = labels[value].partition(" (")[0]
    title = f"{name[:1].upper()}{name[1:]} per interval{' and group' if has_groups else ''}"
    ax = style.start(ax, _SIZE, title, grid="y", x="interval", y=labels[value])
    if table.empty:
        return style.write_empty(ax, f"no {name.lower()}")
    table = table.reindex(columns=complete(list(table.columns)), fill_value=0.0)
    kinds = [
        OTHER if has_groups and rank == top and str(label).startswith(OTHER) else GROUP
        for rank, label in enumerate(table.index)
    ]
    names = [str(label) for label in table.index] if has_groups or table.index[0] else []
    return _draw_lines(ax, table, kinds, names, partial_intervals(insights, "interval"))


SERIES_COLUMNS: Final = ("model", "node_id", "node_name", "conversions", "value", "currency")
#: Measures with their names and, for ratios, the columns that are divided.
_NAMES: Final = {
    "conversions": "credited conversions",
    "value": "credited value",
    "spend": "spend",
    "cpa": "cost per conversion (CPA)",
    "roas": "return on ad spend (ROAS)",
}
_RATIOS: Final = {"cpa": ("spend", "conversions"), "roas": ("value", "spend")}
_IN_MONEY: Final = ("value", "spend", "cpa")


def series(
    series: Frame,
    *,
    by: str = "conversions",
    model: str | None = None,
    currency: str | None = None,
    top: int = 8,
    ax: Axes | None = None,
) -> Axes:
    """Draw one model's credit or its returns over time as one line per node.

    Parameters
    ----------
    series : DataFrame
        As :func:`attrib_ds.credit_series` returns it.
    by : {"conversions", "value", "spend", "cpa", "roas"}, default "conversions"
        What is drawn; the last three need spend.
    model : str, optional
        A name in column ``model``; required when there is more than one.
    currency : str, optional
        Keep the rows in this currency only; required for amounts of money in more than one.
    top : int, default 8
        Maximum number of nodes with their own line, largest first: by ``by``, or by spend for ``"cpa"`` and
        ``"roas"``, which only nodes with spend have. The other nodes are one dashed line.
    ax : Axes, optional
        Axes to draw on; a new figure by default.

    Returns
    -------
    Axes
        Periods in order from left to right. A period without credit or spend counts as 0; a CPA without
        conversions and a ROAS without spend are gaps. Conversions and value without a node are a dotted line.
        Partial periods (column ``is_partial``) have hollow markers, and a note below names them.

    Raises
    ------
    InvalidRequest
        If a column is missing, or an argument is not allowed.

    Examples
    --------
    >>> import attrib_ds as at
    >>> import pandas as pd
    >>> from matplotlib.figure import Figure
    >>> frame = pd.DataFrame({"model": "linear", "month": ["2025-01", "2025-03"], "node_id": "a",
    ...                       "node_name": "Ads", "conversions": [3.0, 5.0], "value": [30.0, 90.0],
    ...                       "currency": "EUR", "spend": [10.0, 45.0]})
    >>> axes = at.plots.series(frame, by="roas", ax=Figure().subplots())
    >>> [float(height) for height in axes.get_lines()[0].get_ydata()]
    [3.0, nan, 2.0]
    """
    check_choice("by", by, _NAMES)
    top = check_whole("top", top, minimum=1)
    parts = _RATIOS.get(by, (by,))
    rows = read_frame("series", series, list(dict.fromkeys((*SERIES_COLUMNS, *parts))))
    interval = _interval(rows)
    rows, model = credit_plots.select_model(rows, model)
    amounts = [name for name in ("value", "spend") if name in parts]
    rows, currency = credit_plots.select_currency(rows, currency, amounts=amounts)
    if by in _RATIOS:
        # Credit that costs nothing, such as that of direct visits, would flatter the other nodes.
        has_spend = numbers("series", rows, "spend") > 0
        rows = rows[rows["node_id"].isin(rows.loc[has_spend, "node_id"].dropna())]
    sums = _sums(rows, interval, parts, top=top)
    table = sums[0] if by not in _RATIOS else (sums[0] / sums[1].where(sums[1] > 0)).dropna(how="all")

    title = f"{_NAMES[by][0].upper()}{_NAMES[by][1:]} per {interval}{f', {shorten(model)}' if model else ''}"
    unit = f" ({currency})" if by in _IN_MONEY and currency else ""
    ax = style.start(ax, _SIZE, title, grid="y", x=interval, y=f"{_NAMES[by]}{unit}")
    if table.empty:
        return style.write_empty(ax, f"no {_NAMES[by]}")
    kinds, labels = zip(*table.index, strict=True)
    _draw_lines(ax, table, kinds, list(map(shorten, labels)), partial_intervals(rows, interval))
    if by == "roas":
        ax.axhline(1.0, color=style.palette(ax).muted, linewidth=0.9, zorder=1)
    return ax


def _interval(series: pd.DataFrame) -> str:
    """Return the column of periods, which has the name of their length."""
    found = [name for name in LINEAR if name in series.columns]
    if not found:
        raise InvalidRequest(
            f"series: has no column of periods, only {list(series.columns)!r}; expected one of "
            f"{', '.join(LINEAR)}, as credit_series returns it"
        )
    return found[0]


def _sums(rows: pd.DataFrame, interval: str, columns: tuple[str, ...], *, top: int) -> list[pd.DataFrame]:
    """Return a table for each column: one row per line, by kind and label, and one column per period.

    Nodes are ordered by the size of spend, if it is among the columns, or else of the first one.
    """
    periods = complete(sorted(set(rows[interval].astype(str))))
    names = names_of_nodes(rows)
    tables = []
    for column in columns:
        amounts = rows.assign(amount=numbers("series", rows, column))
        of_nodes = amounts.pivot_table(index="node_id", columns=interval, values="amount", aggfunc="sum")
        without = amounts[rows["node_id"].isna()].groupby(interval)["amount"].sum()
        tables.append((of_nodes.reindex(columns=periods).fillna(0.0), without.reindex(periods).fillna(0.0)))
    sizes = tables[columns.index("spend") if "spend" in columns else 0][0].abs().sum(axis="columns")
    # A column of spend has nodes without credit, which the other column may lack, and the reverse.
    nodes = style.ranked(sizes)
    kept, others = nodes[:top], nodes[top:]
    lines = [(GROUP, label) for label in distinct({node: names[node] for node in kept}).values()]
    lines += [(OTHER, f"other ({counted(len(others), 'nodes')})")] * bool(others)
    has_rest = any(without.any() for _, without in tables)
    lines += [(UNATTRIBUTED, name_of_rest(rows["model"]))] * has_rest
    sums = []
    for of_nodes, without in tables:
        parts = [of_nodes.reindex(kept).fillna(0.0)]
        if others:
            parts.append(of_nodes.reindex(others).fillna(0.0).sum().to_frame().T)
        if has_rest:
            parts.append(without.to_frame().T)
        index = pd.MultiIndex.from_tuples(lines, names=["kind", "label"])
        sums.append(pd.concat(parts).set_axis(index) if lines else of_nodes)
    return sums


def seasonality(
    insights: Frame,
    *,
    value: str = "sessionCount",
    interval: str | None = None,
    top: int = 15,
    ax: Axes | None = None,
) -> Axes:
    """Draw insights over a seasonal interval as a heat map of groups by labels.

    Parameters
    ----------
    insights : DataFrame
        As ``interaction_insights`` returns it with a seasonal interval: ``group`` (null: none),
        ``interval``, ``sessionCount``, ``hitCount``, ``durationSum`` (seconds).
    value : {"sessionCount", "hitCount", "durationSum"}, default "sessionCount"
        The colour of a cell.
    interval : str, optional
        Seasonal interval of the insights, such as ``"dayOfWeek"``; sets the name and the full range of the
        axis. Without it, labels that are exactly 1 to 7 are taken as weekdays.
    top : int, default 15
        Maximum number of groups with their own row, largest first; the rest is summed into one row.
    ax : Axes, optional
        Axes to draw on, which the colour bar makes smaller; a new figure by default.

    Returns
    -------
    Axes
        Seasonal labels from left to right, groups from top to bottom; a cell without a record counts
        as 0.

    Raises
    ------
    InvalidRequest
        If a column is missing, a label is not seasonal or outside ``interval``, or ``value``,
        ``interval`` or ``top`` is not allowed.

    Examples
    --------
    >>> import attrib_ds as at
    >>> import pandas as pd
    >>> from matplotlib.figure import Figure
    >>> frame = pd.DataFrame({"group": None, "interval": ["1", "7"], "sessionCount": [4, 2],
    ...                       "hitCount": [9, 3], "durationSum": [60.0, 5.0]})
    >>> axes = at.plots.seasonality(frame, interval="dayOfWeek", ax=Figure().subplots())
    >>> [label.get_text() for label in axes.get_xticklabels()]
    ['Mon', 'Tue', 'Wed', 'Thu', 'Fri', 'Sat', 'Sun']
    """
    insights = read_frame("insights", insights, INSIGHT_COLUMNS)
    check_choice("value", value, VALUES)
    top = check_whole("top", top, minimum=1)
    if interval is not None:
        check_choice("interval", interval, SEASONS)
    table = table_of_groups(insights, value, top=top)
    season, names = season_of(list(table.columns), interval) if len(table) else ([], [])

    title = VALUES[value].partition(" (")[0]
    name = _words(interval) if interval else ("day of week" if names[:1] == ["Mon"] else "interval")
    size = (9.0, 1.5 + 0.3 * max(len(table), 2))
    ax = style.start(ax, size, f"{title.capitalize()} by {name}", x=name)
    if table.empty:
        return style.write_empty(ax, f"no {title}")
    cells = table.reindex(columns=season, fill_value=0.0).to_numpy()
    # The sum of the rest may dwarf every group, so it does not set the colour range.
    low, high = min(cells[:top].min(), 0.0), cells[:top].max()
    image = ax.imshow(cells, aspect="auto", cmap="cividis", vmin=low, vmax=high, interpolation="nearest")
    extend = "max" if cells.max() > high else "neither"
    bar = ax.figure.colorbar(image, ax=ax, label=VALUES[value], pad=0.02, extend=extend)
    bar.ax.yaxis.label.set_color(style.palette(ax).text)
    bar.outline.set_visible(False)
    style.format_thousands(bar.ax.yaxis)
    bar.ax.tick_params(color=style.palette(ax).muted, labelcolor=style.palette(ax).text, labelsize="small")
    labels = [str(label) for label in table.index] if any(table.index) else [""]
    style.label_rows(ax, labels)
    ax.spines[:].set_visible(False)
    style.label_ticks(ax, names)
    return ax


def _words(interval: str) -> str:
    """Return ``day of week`` for ``dayOfWeek``."""
    return "".join(f" {letter.lower()}" if letter.isupper() else letter for letter in interval)


VALUES: Final = {"sessionCount": "visits", "hitCount": "hits", "durationSum": "duration (seconds)"}
OTHER: Final = "other"


def rows_of_events(insights: pd.DataFrame) -> tuple[pd.DataFrame, dict[str, str]]:
    """Rename the columns of event insights to those of interaction insights; return a label per metric too.

    The identifier becomes the group if there are several.
    """
    metrics = {
        name: name.removeprefix("values.")
        for name in map(str, insights.columns)
        if name.startswith("values.")
    }
    rows = insights.rename(columns={**metrics, "identifier": "group"})
    if rows["group"].nunique() < 2:
        rows["group"] = pd.Series(None, index=rows.index, dtype=TEXT)
    labels = {metric: "events" if metric == "event-count" else metric for metric in metrics.values()}
    return rows, labels


def table_of_groups(insights: pd.DataFrame, value: str, *, top: int) -> pd.DataFrame:
    """Return one row per group and one column per interval; missing records count as 0.

    The ``top`` groups by sum of magnitudes come first, in descending order, then the sum of the rest. The
    index holds labels; it is ``[""]`` when no row has a group.
    """
    if len(insights) and insights["interval"].isna().all():
        raise InvalidRequest(
            "insights: column 'interval' is null in every row; request the insights with an interval"
        )
    rows = insights.loc[insights["interval"].notna(), ["group", "interval"]].assign(
        amount=numbers("insights", insights, value).fillna(0.0)
    )
    has_groups = rows["group"].notna().any()
    rows["interval"] = rows["interval"].astype(TEXT)
    # groupby drops null groups, so they get a key that no real group has.
    rows["group"] = rows["group"].astype(TEXT).fillna("\0") if has_groups else "\0"
    table = rows.groupby(["group", "interval"])["amount"].sum().unstack().fillna(0.0)
    order = style.ranked(table.abs().sum(axis="columns"))
    kept = table.loc[order[:top]]
    names = distinct({group: group.replace("\0", "no group" if has_groups else "") for group in kept.index})
    kept.index = kept.index.map(names).rename(None)
    if len(order) > top:
        kept.loc[f"{OTHER} ({counted(len(order) - top, 'groups')})"] = table.loc[order[top:]].sum()
    return kept


#: Kinds of lines.
GROUP: Final = "group"
UNATTRIBUTED: Final = "unattributed"
_DASHES: Final = ("-", "-.", ":")
_MAX_MARKERS: Final = 60
_SIZE: Final = (9.0, 4.2)


def _draw_lines(
    ax: Axes, table: pd.DataFrame, kinds: Sequence[str], names: Sequence[str], partial: Collection[str]
) -> Axes:
    """Draw each row of a table as a line over its columns, with a legend if there are names.

    Groups have colours, the others are grey. A note below the axis names the partial intervals.
    """
    palette = style.palette(ax)
    lines: list[Line2D] = []
    marker = "o" if len(table.columns) <= _MAX_MARKERS else ""
    look: style.Look = {"marker": marker, "markersize": 3.5, "linewidth": 1.6}
    groups = 0
    for row, kind in enumerate(kinds):
        if kind == GROUP:
            colour = palette.colours[groups % len(palette.colours)]
            dashes = _DASHES[groups // len(palette.colours) % len(_DASHES)]
            groups += 1
        else:
            colour, dashes = (style.GREY, "--") if kind == OTHER else (palette.muted, ":")
        heights = table.iloc[row].to_numpy()
        lines += ax.plot(range(len(table.columns)), heights, color=colour, linestyle=dashes, **look)
    drawn = table.notna().any().tolist()
    places = [place for place, name in enumerate(table.columns) if name in partial and drawn[place]]
    if places:
        hollow: dict[str, Any] = {
            "markersize": 6,
            "markeredgewidth": 1.2,
            "markerfacecolor": palette.background,
        }
        for row, line in enumerate(lines):
            edge, order = line.get_color(), line.get_zorder() + 0.5
            heights = table.iloc[row, places].to_numpy()
            ax.plot(places, heights, "o", markeredgecolor=edge, zorder=order, **hollow)
        style.add_note(ax, f"hollow: {_listed(list(table.columns), places)}, counted in part only")
    style.format_thousands(ax.yaxis)
    if not table.min().min() < 0:
        ax.set_ylim(bottom=0)
    if names:
        style.draw_legend(ax, lines, names)
    style.label_ticks(ax, list(table.columns))
    return ax


def _listed(intervals: list[str], places: list[int]) -> str:
    """Return the names of intervals; several in a row are the first and the last."""
    firsts = [place for place in places if place - 1 not in places]
    lasts = [place for place in places if place + 1 not in places]
    return ", ".join(
        intervals[first] if first == last else f"{intervals[first]} to {intervals[last]}"
        for first, last in zip(firsts, lasts, strict=True)
    )


def partial_intervals(rows: pd.DataFrame, interval: str) -> set[str]:
    """Return the partial intervals of rows; none if no column marks them."""
    if "is_partial" not in rows.columns:
        return set()
    return set(rows.loc[rows["is_partial"].fillna(False).astype(bool), interval].dropna().astype(str))


# The lowest and highest label of each seasonal interval.
SEASONS: Final = {
    "semesterOfYear": (1, 2), "quarterOfYear": (1, 4), "monthOfYear": (1, 12), "weekOfYear": (1, 53),
    "dayOfYear": (1, 366), "dayOfMonth": (1, 31), "dayOfWeek": (1, 7), "hourOfDay": (0, 23),
}  # fmt: skip
WEEKDAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
MONTHS: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_LONGEST: Final = 20_000  # labels; a stray date far away must not fill the axis with centuries of days


def _week_number(label: str) -> int:
    return (date.fromisocalendar(int(label[:4]), int(label[6:]), 1).toordinal() - 1) // 7


def _week_label(number: int) -> str:
    year, week, _ = date.fromordinal(number * 7 + 1).isocalendar()
    return f"{year:04}-W{week:02}"


def _part_number(parts: int) -> Callable[[str], int]:
    return lambda label: int(label[:4]) * parts + int(re.sub(r"^.{5}\D?", "", label)) - 1


# Pattern of a label, label to ordinal number, ordinal number to label.
_FORMATS: Final[tuple[tuple[str, Callable[[str], int], Callable[[int], str]], ...]] = (
    (r"\d{1,4}", int, str),
    (r"\d{4}-S\d", _part_number(2), lambda number: f"{number // 2:04}-S{number % 2 + 1}"),
    (r"\d{4}-Q\d", _part_number(4), lambda number: f"{number // 4:04}-Q{number % 4 + 1}"),
    (r"\d{4}-\d{2}", _part_number(12), lambda number: f"{number // 12:04}-{number % 12 + 1:02}"),
    (r"\d{4}-W\d{2}", _week_number, _week_label),
    (
        r"\d{4}-\d{2}-\d{2}",
        lambda label: date.fromisoformat(label).toordinal(),
        lambda number: date.fromordinal(number).isoformat(),
    ),
)


def complete(labels: Collection[str]) -> list[str]:
    """Return the labels in order, including intervals that insights leave out because they are empty.

    Labels of other formats (instants of custom segments) are only sorted.

    Examples
    --------
    >>> complete(["2025-W02", "2024-W51"])
    ['2024-W51', '2024-W52', '2025-W01', '2025-W02']
    >>> complete(["10", "8"])
    ['8', '9', '10']
    """
    for pattern, number_of, label_of in _FORMATS:
        if labels and all(re.fullmatch(pattern, label) for label in labels):
            try:
                numbers = {label: number_of(label) for label in labels}
            except ValueError:
                break
            low, high = min(numbers.values()), max(numbers.values())
            if high - low < _LONGEST and all(label_of(number) == label for label, number in numbers.items()):
                return [label_of(number) for number in range(low, high + 1)]
            return sorted(labels, key=lambda label: (numbers[label], label))
    return sorted(labels)


def season_of(labels: Collection[str], interval: str | None) -> tuple[list[str], list[str]]:
    """Return all labels of a seasonal interval in order, and their display names.

    Without ``interval``, labels that are exactly 1 to 7 are weekdays; other labels run from the lowest to the
    highest and are their own names.
    """
    wrong = sorted(label for label in labels if not re.fullmatch(r"\d{1,3}", label))
    if wrong:
        raise InvalidRequest(
            f"insights: interval {wrong[0]!r} is not seasonal; allowed: whole numbers, as returned for "
            f"{', '.join(SEASONS)}"
        )
    present = sorted({int(label) for label in labels})
    if interval is None:
        interval = "dayOfWeek" if present == list(range(1, 8)) else None
    low, high = SEASONS[interval] if interval else (present[0], present[-1])
    if present[0] < low or present[-1] > high:
        outside = next(label for label in present if not low <= label <= high)
        raise InvalidRequest(
            f"interval: {interval!r} is not allowed because insights have the label '{outside}'; its labels "
            f"are {low} to {high}"
        )
    names = {"dayOfWeek": WEEKDAYS, "monthOfYear": MONTHS}.get(interval or "")
    season = [str(label) for label in range(low, high + 1)]
    return season, list(names or season)
