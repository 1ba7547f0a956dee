"""The report of credits: a page that answers first, drawn as HTML and SVG in one file, or a workbook."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path
from typing import Any, Final

import pandas as pd

from attrib_ds import display, errors, local_files
from attrib_ds.attribution.paths.paths import Paths, require_paths
from attrib_ds.display import number
from attrib_ds.plots.labels import distinct, shorten
from attrib_ds.plots.overview import EXACT, MODELS, Measure, Overview, Period, day_in_words, in_words, percent
from attrib_ds.records.frames import Frame, read_frame
from attrib_ds.records.written_files import write_excel

STYLE: Final = Path(__file__).with_suffix(".css").read_text(encoding="utf-8")
_SCRIPT: Final = Path(__file__).with_suffix(".js").read_text(encoding="utf-8")
_PAGE_STYLE: Final = "html { color-scheme: light; } body { margin: 0; background: #fff; } \
main { max-width: 68rem; margin: 0 auto; padding: 1.75rem 1.25rem 3rem; } \
@media print { html { font-size: 10.5px; } main { max-width: none; padding: 0; } @page { margin: 13mm; } }\n"
#: Maximum number of nodes on the first page; the table has all.
_MOST_NODES: Final = 10
#: Maximum number of characters of a name on the first page.
_NARROW: Final = 22
_WIDE: Final = 34
#: Headings of parts that are not about credit.
PAGES: Final = "Pages that visits enter and leave on"
ENTRIES: Final = "Where sources enter"
FUNNEL: Final = "How far users get"
_FIRST: Final = "Channel or campaign"
_ONE, _TWO = Measure("", decimals=1), Measure("", decimals=2)


def report(
    credits: Frame,
    path: str | Path,
    *,
    paths: Paths | None = None,
    lead: str | None = None,
    days: int | None = None,
    title: str = "Credited conversions",
    notes: Sequence[str] = (),
) -> Path:
    """Write a report of credits: an HTML page or an Excel workbook.

    Parameters
    ----------
    credits : DataFrame
        From :func:`attrib_ds.attribute`.
    path : str or Path
        File to write, ``.html`` or ``.xlsx``; a file with this name is replaced.
    paths : Paths, optional
        The paths that were attributed. With them the report shows conversions and value over time against
        the period before, which nodes open and close, frequent paths and lags. ``days`` needs them.
    lead : str, optional
        Label of the model whose credit is shown first; by default the one nearest to the middle of all
        models, which the report says.
    days : int, optional
        Number of days that the report covers, such as 7 for the last week, which it compares with the days
        before. They end on the last day that the paths cover, with their touchpoints and spend. Models are
        computed again for them. Credits of models with settings, and rolled-up credits, stay those of all
        days, and the report says so. By default, the report covers all days and compares the longest of 364,
        182, 84, 28 and 7 days that the data contain twice.
    title : str, default "Credited conversions"
        Heading of the page.
    notes : sequence of str, optional
        Sentences about the data, below the heading.

    Returns
    -------
    Path
        The file.

    Raises
    ------
    InvalidRequest
        If ``credits`` lacks a column, ``path`` has another ending, ``lead`` is not a model of the credits,
        or ``days`` is not allowed or given without paths that have dates.
    NotSupported
        If a workbook is to be written without the extra ``[excel]``.
    Unavailable
        If the file cannot be written; one with this name is as it was.

    Warns
    -----
    InputWarning
        If the paths cover fewer than ``days``; the report is then of the days that they cover.

    Examples
    --------
    >>> import tempfile
    >>> import pandas as pd
    >>> import attrib_ds as at
    >>> sequences = pd.DataFrame({"path": ["search > email", "email"], "n": [3, 1]})
    >>> paths = at.Paths.from_sequences(sequences, path="path", conversions="n")
    >>> credits = at.attribute(paths, ["first_touch", "linear"])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     at.report(credits, f"{folder}/report.html", paths=paths).name
    'report.html'
    """
    target = Path(path)
    if target.suffix.lower() not in (".html", ".xlsx"):
        raise errors.InvalidRequest.value("path", target.name, "a name ending in .html or .xlsx")
    if paths is not None:
        require_paths(paths)
    overview = Overview.of(credits, paths, lead=lead, days=days)
    with local_files.writing(target, argument="path"):
        target.parent.mkdir(parents=True, exist_ok=True)
        with local_files.replacing(target) as file:
            if target.suffix.lower() == ".html":
                file.write(page(overview, title=title, notes=notes).encode())
            else:
                name = "All credits" if days is None else "Credits of all days"
                write_excel({**overview.frames(), name: read_frame("credits", credits).round(EXACT)}, file)
    return target


def page(overview: Overview, *, title: str, notes: Sequence[str] = ()) -> str:
    """Return the whole report as one HTML file, without a network and under a strict content policy."""
    style = _PAGE_STYLE + STYLE
    policy = f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(_SCRIPT)}; base-uri 'none'"
    lead = "".join(f'<p class="quiet">{escape(note)}</p>' for note in [overview.span, *notes] if note)
    body = f"<header><h1>{escape(title)}</h1>{lead}</header>{first_page(overview)}"
    script = ""
    if len(overview.names):
        body += _table(overview) + _behind(overview)
        script = f"<script>{_SCRIPT}</script>"
    # Data are made printable where they are collected; this covers titles and notes too.
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{escape(policy)}">'
        f"<title>{display.printable(escape(title))}</title>"
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><style>{style}</style></head>'
        f'<body><main class="answers">{display.printable(body)}</main>{script}</body></html>\n'
    )


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def first_page(overview: Overview) -> str:
    """Return the answers as an HTML fragment, to be shown inside an element of the class ``answers``.

    It has no script, and needs the rules of :data:`STYLE`.
    """
    said = "".join(f"<li>{escape(sentence)}</li>" for sentence in overview.sentences)
    sections = [*_over_time(overview), _credit(overview), _roles(overview)]
    sections += [
        _returns(overview),
        _changes(overview),
        _pages(overview),
        _entries(overview),
        _funnel(overview),
    ]
    drawn = "".join(f"<section>{section}</section>" for section in sections if section)
    drawn, said = (html.replace(" %", "&nbsp;%") for html in (drawn, said))
    return f'<ul class="said">{said}</ul><div class="parts">{drawn}</div>'


def _over_time(overview: Overview) -> list[str]:
    period = overview.period
    if period is None:
        return []
    drawn = [_chart("Conversions", "", period, "conversions")]
    if overview.has_value:
        others = [title.partition(", ")[2] for title in overview.titles("Value")[1:]]
        decimals = overview.decimals(overview.titles("Value")[0])
        drawn.append(_chart("Value", overview.currency, period, "value", without=others, decimals=decimals))
    return drawn


def _chart(
    name: str, unit: str, period: Period, column: str, *, without: Sequence[str] = (), decimals: int = 1
) -> str:
    now, before = period.now[column].tolist(), period.before[column].tolist()
    total = f"{number(sum(now), decimals)} {unit}".strip()
    caption = f'<span class="now">Last {period.name}: {total}</span>'
    if before:
        change = _change(sum(now), sum(before))
        earlier = number(sum(before), decimals)
        caption += f' · <span class="before">the {period.name} before: {earlier}</span>{change}'
    else:
        caption = f'<span class="now">{total}</span> in {period.name}'
    high, low = _ceiling(max([*now, *before, 0.0])), 0.0 - _ceiling(-min([*now, *before, 0.0]))
    height = high - low or 1.0
    left, right, top, bottom = 46, 470, 10, 128

    def points(values: list[float]) -> str:
        steps = max(len(now) - 1, 1)
        pairs = (
            (left + (right - left) * place / steps, bottom - (bottom - top) * (value - low) / height)
            for place, value in enumerate(values)
        )
        return " ".join(f"{x:.1f},{y:.1f}" for x, y in pairs)

    lines = "".join(
        f'<line class="grid" x1="{left}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}"/>'
        f'<text x="{left - 6}" y="{y + 4:.1f}" text-anchor="end">{number(tick)}</text>'
        for tick in sorted({low, 0.0, (high if high else 0.0) / 2, high})
        for y in [bottom - (bottom - top) * (tick - low) / height]
    )
    old = f'<polyline class="line old" points="{points(before)}"/>' if before else ""
    ends = f'<text x="{left}" y="146">{day_in_words(period.first)}</text>'
    if len(now) > 1:
        ends += f'<text x="{right}" y="146" text-anchor="end">{day_in_words(period.last)}</text>'
    else:
        x, _, y = points(now).partition(",")
        ends += f'<circle class="dot" cx="{x}" cy="{y}" r="4"/>'
    per = "day" if period.step == 1 else "week"
    missing = f" (without {', '.join(without)})" * bool(without)
    what = escape(f"{name} per {per}{f', {unit}' if unit else ''}{missing}")
    return (
        f'<h2>{what}</h2><p class="quiet">{caption}</p><svg viewBox="0 0 480 152" role="img" '
        f'aria-label="{what}">{lines}{old}<polyline class="line" points="{points(now)}"/>{ends}</svg>'
    )


def _change(now: float, before: float) -> str:
    if not before > 0:
        return ""
    share = now / before - 1
    return f" · {'+' * (share > 0)}{percent(share)}"


def _ceiling(amount: float) -> float:
    """Return a round number at or above an amount."""
    if amount <= 0:
        return 0.0
    size = 10.0 ** (len(str(int(amount))) - 1)
    return next(size * step for step in (1, 2, 3, 4, 5, 6, 8, 10) if size * step >= amount * (1 - 1e-12))


def _rows(head: Sequence[str], rows: Iterable[Sequence[str]], *, attributes: str = "") -> str:
    """Return a table of cells that are HTML; a title may have the class of its column behind a bar."""
    titles = "".join(
        f'<th scope="col" class="{name}">{text}</th>' if text else f'<td class="{name}"></td>'
        for text, _, name in (each.partition("|") for each in head)
    )
    lines = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>" for cells in rows)
    return f"<table{attributes}><thead><tr>{titles}</tr></thead><tbody>{lines}</tbody></table>"


def _section(title: str, text: str, head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return f'<h2>{escape(title)}</h2><p class="quiet">{text}</p>{_rows(head, rows)}'


def _named(overview: Overview) -> dict[str, str]:
    """Return a short name of each node, with the whole one as its title, as HTML."""
    short = distinct(overview.names, width=_NARROW)
    return {
        key: f'<span title="{escape(name)}">{escape(short[key])}</span>'
        for key, name in overview.names.items()
    }


def _drawn(shapes: str) -> str:
    return f'<svg height="16" aria-hidden="true">{shapes}</svg>'


def _bar(start: float, width: float, kind: str = "") -> str:
    """Return a bar; places are percentages of the cell."""
    return f'<rect class="bar {kind}" x="{start:.2f}%" y="2" width="{width:.2f}%" height="12"/>'


def _dots(row: pd.Series[Any], lead: str, scale: tuple[float, float], *, mark: float | None = None) -> str:
    """Return the number of the leading model as a dot, on a bar from the lowest to the highest model."""
    least, most = scale

    def place(number: float) -> str:
        return f"{3 + 94 * (number - least) / (most - least or 1.0):.2f}%"

    low, value, high = place(row.min()), place(row[lead]), place(row.max())
    line = "" if mark is None else f'<line class="one" x1="{place(mark)}" x2="{place(mark)}" y1="0" y2="16"/>'
    return _drawn(
        f'{line}<line class="range" x1="{low}" x2="{high}" y1="8" y2="8"/>'
        f'<circle class="dot" cx="{value}" cy="8" r="4.5"/>'
    )


def _ends(row: pd.Series[Any], measure: Measure) -> str:
    """Return the lowest and the highest number of a row."""
    return " to ".join(measure.text(end) for end in (row.min(), row.max()))


def _credit(overview: Overview) -> str:
    wide = overview.across("Conversions").fillna(0.0)
    if wide.empty:
        return ""
    names, nodes = _named(overview), [key for key in wide.index if key]
    parts = [(names[key], wide.loc[key]) for key in nodes[:_MOST_NODES]]
    scale = min([0.0, *(row.min() for _, row in parts)]), max([0.0, *(row.max() for _, row in parts)])
    if len(nodes) > _MOST_NODES:
        # The others have a range of their own: that of their sums.
        parts.append(
            (display.counted(len(nodes) - _MOST_NODES, "others"), wide.loc[nodes[_MOST_NODES:]].sum())
        )
    if "" in names:
        parts.append((names[""], wide.loc[""]))
    total, several = float(wide[overview.lead].sum()) or 1.0, len(overview.models) > 1
    rows = []
    for place, (name, row) in enumerate(parts):
        value = float(row[overview.lead])
        dots = _dots(row, overview.lead, scale) if place < min(len(nodes), _MOST_NODES) else ""
        cells = [name, dots, _ONE.text(value), _ONE.text(100 * value / total) + " %"]
        rows.append([*cells, *([_ends(row, _ONE)] if several else [])])
    text = escape(overview.reason) + " The bar shows the range of all models." * several
    head = ["", "|draw", "Credit", "Share", *(["Range"] if several else [])]
    return _section(f"Credited conversions, {in_words(overview.lead)}", text, head, rows)


def _roles(overview: Overview) -> str:
    roles, names = overview.roles, _named(overview)
    if roles.empty:
        return ""
    most = float(roles[["opens", "closes"]].max().max()) or 1.0
    kept = roles.loc[roles[["opens", "closes"]].sum(axis=1).nlargest(_MOST_NODES).index]
    rows = []
    for key, opens, assists, closes in kept[["opens", "assists", "closes"]].itertuples():
        left, right = 100 * opens / most, 100 * closes / most
        drawn = _drawn(_bar(100 - left, left, "open")), _drawn(_bar(0, right))
        rows.append([names[key], number(opens), *drawn, number(closes), number(assists)])
    text = (
        'Conversions that the channel <span class="open">opens</span> (first visit), <span class="now">closes'
        "</span> (last visit) or assists (visits between)."
    )
    head = ["", "Opens", "|half", "|half", "Closes", "Assists"]
    return _section("How journeys open and close", text, head, rows)


def _returns(overview: Overview) -> str:
    spend, cost, returned = (overview.titles(name)[:1] for name in ("Spend", "CPA", "ROAS"))
    if not spend:
        return ""
    lead, names = overview.of_model(overview.lead), _named(overview)
    spent = lead[lead[spend[0]] > 0].nlargest(_MOST_NODES, spend[0])
    ratios = overview.across(returned[0]).loc[spent.index] if returned else pd.DataFrame(index=spent.index)
    scale = (
        min(ratios.min().min(), 0.0) if returned else 0.0,
        max(ratios.max().max(), 1.0) if returned else 1.0,
    )
    rows = []
    for key, row in spent.iterrows():
        cells = [names[str(key)]]
        if returned:
            earned: Any = ratios.loc[str(key)]
            is_known = earned.notna().any()
            cells += (
                [
                    _dots(earned, overview.lead, scale, mark=1.0),
                    _TWO.text(earned[overview.lead]),
                    _ends(earned, _TWO),
                ]
                if is_known
                else [""] * 3
            )
        rows.append(
            [
                *cells,
                *(_TWO.text(row[title]) for title in cost),
                number(row[spend[0]], overview.decimals(spend[0])),
            ]
        )
    text = (
        f"{in_words(overview.lead)}. "
        + "ROAS: credited value per unit of spend; at the dashed line, value equals spend. " * bool(returned)
        + "CPA: spend per credited conversion in the currency of the spend. " * bool(cost)
        + "Spend in other currencies is in the table below." * (len(overview.titles("Spend")) > 1)
    )
    head = ["", *(["|draw", "ROAS", "Range"] if returned else []), *map(escape, [*cost, *spend])]
    return _section("What the spend brought back", escape(text), head, rows)


def _changes(overview: Overview) -> str:
    period = overview.period
    if period is None or period.by_node.empty:
        return ""
    change = (period.by_node["now"] - period.by_node["before"]).rename("change")
    kept = change.abs().nlargest(_MOST_NODES)
    names, most, rows = _named(overview), float(kept.max()) or 1.0, []
    for key in kept.index:
        share = 46 * float(change[key]) / most
        bar = _bar(50 + min(share, 0), abs(share), "rest" if share < 0 else "")
        drawn = _drawn(f'<line class="one" x1="50%" x2="50%" y1="0" y2="16"/>{bar}')
        counts = (_ONE.text(period.by_node.loc[key, name]) for name in ("now", "before"))
        rows.append([names[key], drawn, "+" * (share > 0) + _ONE.text(change[key]), *counts])
    text = f"{in_words(overview.lead)}: credited conversions in the last {period.name} and in those before."
    head = ["", "|draw", "Change", f"Last {period.name}", "Before"]
    return _section("What changed most", escape(text), head, rows)


def _ratio(part: Any, whole: Any) -> str:
    return percent(part / whole) if whole else ""


def _page(path: Any) -> str:
    name = display.printable("(unknown)" if pd.isna(path) else str(path))
    return f'<span title="{escape(name)}">{escape(shorten(name, width=_WIDE))}</span>'


def _pages(overview: Overview) -> str:
    if overview.pages.empty:
        return ""
    columns = ["page", "views", "entries", "bounces", "exits"]
    rows = [
        [
            _page(page),
            number(views),
            number(entries),
            _ratio(bounces, entries),
            number(exits),
            _ratio(exits, views),
        ]
        for page, views, entries, bounces, exits in overview.pages[columns].itertuples(index=False)
    ]
    text = (
        "Entries and exits are the first and the last view of a visit. Bounce rate: entries that are the "
        "only view. Exit rate: views that are exits."
    )
    head = ["", "Views", "Entries", "Bounce rate", "Exits", "Exit rate"]
    return _section(PAGES, text, head, rows)


def _entries(overview: Overview) -> str:
    if overview.entries.empty:
        return ""
    most = overview.entries["entries"].max()
    rows = [
        [
            escape(display.printable("(none)" if pd.isna(group) else group)),
            _page(page),
            _drawn(_bar(0, 100 * entries / most)),
            number(entries),
            _ratio(bounces, entries),
        ]
        for group, page, entries, bounces in overview.entries[
            ["group", "page", "entries", "bounces"]
        ].itertuples(index=False)
    ]
    text = "Visits by the channel of their source and the page of their first view."
    return _section(ENTRIES, text, ["", "Page|name", "|half", "Entries", "Bounce rate"], rows)


def _funnel(overview: Overview) -> str:
    if overview.funnel.empty:
        return ""
    rows = [
        [
            _page(name),
            _drawn(_bar(0, 100 * float(first) if first == first else 0.0)),
            number(count),
            "" if place == 1 or pd.isna(share) else percent(share),
            "" if pd.isna(median) else _time(median),
        ]
        for place, name, count, share, first, median in overview.funnel[
            ["step", "name", "count", "share", "first_share", "median_seconds"]
        ].itertuples(index=False)
    ]
    text = (
        "Users who take these steps in this order within a day; share and median time from the step before."
    )
    return _section(FUNNEL, text, ["", "|draw", "Users", "Share", "Time"], rows)


def _time(seconds: float) -> str:
    """Return a duration in its largest unit."""
    units = {"days": 86_400, "hours": 3_600, "min": 60}
    unit = next((name for name, length in units.items() if seconds >= 2 * length), "s")
    return f"{number(seconds / units.get(unit, 1))} {unit}"


def _table(overview: Overview) -> str:
    """Return the table of all nodes under the leading model, and the numbers of the others for the script."""
    keys = list(overview.names)
    fixed: list[tuple[Measure, pd.Series[Any]]] = []
    if len(overview.roles):
        columns = ("opens", "assists", "closes")
        decimals = int((overview.roles[list(columns)] % 1).any(axis=None))
        fixed = [(Measure(name.capitalize(), decimals=decimals), overview.roles[name]) for name in columns]
    period = overview.period
    if period is not None and len(period.by_node):
        by_node = period.by_node.reindex(keys, fill_value=0.0)
        fixed.append((Measure(f"Last {period.name}", decimals=1), by_node["now"]))
        fixed.append((Measure("Before", decimals=1), by_node["before"]))

    def listed(numbers: pd.Series[Any]) -> list[float | None]:
        return [None if pd.isna(each) else float(f"{each:.15g}") for each in numbers.reindex(keys)]

    data = {
        "title": _FIRST,
        "names": list(overview.names.values()),
        "models": [in_words(model) for model in overview.models],
        "measures": [{"title": each.title, "decimals": each.decimals} for each in overview.measures],
        "numbers": [
            [listed(overview.of_model(model)[each.title]) for each in overview.measures]
            for model in overview.models
        ],
        "fixed": [
            {"title": each.title, "decimals": each.decimals, "numbers": listed(numbers)}
            for each, numbers in fixed
        ],
    }
    lead = overview.of_model(overview.lead)
    shown = [*((each, lead[each.title]) for each in overview.measures), *fixed]
    texts = [[each.text(amount) for amount in numbers.reindex(keys)] for each, numbers in shown]
    rows = zip((escape(name) for name in overview.names.values()), *texts, strict=True)
    table = _rows([_FIRST, *(escape(each.title) for each, _ in shown)], rows, attributes=' id="table"')
    models = _options(enumerate(data["models"]), overview.models.index(overview.lead))  # type: ignore[arg-type]
    measures = _options([(-1, "all of one model"), *enumerate(each.title for each in overview.measures)], -1)
    numbers = json.dumps(data).replace("<", "\\u003c")
    return (
        '<section class="all"><h2>All channels and campaigns</h2>'
        f'<div class="tools" hidden><label>Measure<select id="measure">{measures}</select></label>'
        f'<label>Model<select id="model">{models}</select></label>'
        '<label>Search<input id="search" type="search" autocomplete="off"></label></div>'
        f'<div class="scroll" tabindex="0">{table}</div>'
        f'<script type="application/json" id="numbers">{numbers}</script></section>'
    )


def _options(options: Iterable[tuple[int, str]], chosen: int) -> str:
    return "".join(
        f'<option value="{value}"{" selected" if value == chosen else ""}>{escape(text)}</option>'
        for value, text in options
    )


def _behind(overview: Overview) -> str:
    """Return what stands behind the page: frequent paths, lags and what the models do."""
    parts = []
    if len(overview.paths):
        named = [escape(str(path) or overview.names.get("", "")) for path in overview.paths["path"]]
        rows = zip(named, map(number, overview.paths["conversions"]), strict=True)
        parts.append(
            ("Most frequent paths", _rows(["From the first to the last visit", "Conversions"], rows))
        )
    if len(overview.lags):
        head = ["Conversions", "after the first visit", "after the last visit"]
        lags = [
            [f"within {days} day{'s' * (days > 1)}", percent(first), percent(last)]
            for days, first, last in overview.lags.itertuples()
        ]
        parts.append(("From visit to conversion", _rows(head, lags)))
    stems = {model: model.partition("(")[0] for model in overview.models}
    known = [(in_words(model), MODELS[stem]["meaning"]) for model, stem in stems.items() if stem in MODELS]
    listed = "".join(f"<dt>{escape(words)}</dt> <dd>{escape(text)}</dd>" for words, text in known)
    if listed:
        parts.append(("What the models do", f"<dl>{listed}</dl>"))
    return "".join(f"<details><summary>{title}</summary>{body}</details>" for title, body in parts)
