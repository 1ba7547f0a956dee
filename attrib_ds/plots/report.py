"""A report of credits: one self-contained HTML page, and the credits as CSV."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pandas as pd

from attrib_ds import plots
from attrib_ds.attribution.credits.returns import compare_models
from attrib_ds.display import printable
from attrib_ds.records.written_files import write_csv

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from attrib_ds.attribution.paths.paths import Paths


#: Maximum number of touches for the flow diagram of paths, which is slow to compute for more.
_MAX_TOUCHES = 200_000

_STYLE = """
:root { color-scheme: light; }
body { font: 16px/1.5 system-ui, sans-serif; color: #1d2433; background: #fbfbfa; margin: 0; }
main { max-width: 62rem; margin: 0 auto; padding: 2.5rem 1.25rem 4rem; }
h1 { font-size: 1.9rem; line-height: 1.2; margin: 0 0 .25rem; }
h2 { font-size: 1.2rem; margin: 2.5rem 0 .5rem; }
p.headline { font-size: 1.2rem; margin: .75rem 0; }
p.lead { color: #566074; margin: 0; }
nav { margin: 1.5rem 0 0; padding: .75rem 1rem; background: #fff; border: 1px solid #e6e6e3; }
nav { border-radius: 8px; }
nav h2 { font-size: .9rem; margin: 0; color: #566074; }
nav ol { margin: .25rem 0 0; padding-left: 1.4rem; columns: 18rem; }
a { color: #0b5cad; }
figure { margin: 1rem 0 0; background: #fff; border: 1px solid #e6e6e3; border-radius: 8px; padding: .75rem; }
figure img { display: block; max-width: 100%; height: auto; margin: 0 auto; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: .9rem; font-variant-numeric: tabular-nums; background: #fff; }
th, td { padding: .35rem .8rem; border-bottom: 1px solid #e6e6e3; text-align: right; white-space: nowrap; }
th:first-child, td:first-child { text-align: left; }
thead th { color: #566074; font-weight: 600; }
footer { margin-top: 3rem; color: #566074; font-size: .85rem; }
"""


@dataclass(frozen=True)
class Report:
    """Files of a report.

    Attributes
    ----------
    page : Path
        The HTML page, with embedded plots.
    credits : Path
        The credits as CSV, UTF-8, one row per model, node and currency.
    """

    page: Path
    credits: Path


def write_report(
    folder: str | Path, credits: pd.DataFrame, paths: Paths, *, title: str, notes: tuple[str, ...] = ()
) -> Report:
    """Write a report of credits into a folder.

    Parameters
    ----------
    folder : str or Path
        Created if it does not exist; files with the same names are replaced.
    credits : DataFrame
        From :func:`attrib_ds.attribute`.
    paths : Paths
        The paths that were attributed.
    title : str
        Heading of the page.
    notes : tuple of str
        Sentences about the input, shown under the heading.

    Returns
    -------
    Report
        The files written: ``report.html`` and ``credits.csv``.

    Examples
    --------
    >>> import tempfile
    >>> import pandas as pd
    >>> from attrib_ds import Paths, attribute
    >>> from attrib_ds.plots.report import write_report
    >>> sequences = pd.DataFrame({"path": ["search > email", "email"], "n": [3, 1]})
    >>> paths = Paths.from_sequences(sequences, path="path", conversions="n")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     report = write_report(folder, attribute(paths, "linear"), paths, title="Example")
    ...     report.page.name, report.credits.name
    ('report.html', 'credits.csv')
    """
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    report = Report(target / "report.html", target / "credits.csv")
    write_csv(credits, report.credits)
    page = report_page(credits, paths, title=title, notes=notes)
    report.page.write_text(printable(page), encoding="utf-8")
    return report


def report_page(credits: pd.DataFrame, paths: Paths, *, title: str, notes: tuple[str, ...] = ()) -> str:
    """Return the page of a report as HTML."""
    sections = _sections(credits, paths)
    ids = [f"section-{number}" for number in range(1, len(sections) + 1)]
    items = "".join(
        f'<li><a href="#{id}">{escape(heading)}</a></li>'
        for id, (heading, _) in zip(ids, sections, strict=True)
    )
    contents = f'<nav aria-label="Contents"><h2>Contents</h2><ol>{items}</ol></nav>' if items else ""
    bodies = "".join(
        f'<section id="{id}"><h2>{escape(heading)}</h2>{body}</section>'
        for id, (heading, body) in zip(ids, sections, strict=True)
    )
    first = escape(headline(credits, _main(credits)))
    lead = "".join(f'<p class="lead">{escape(note)}</p>' for note in notes)
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><style>{_STYLE}</style></head>'
        f'<body><main><h1>{escape(title)}</h1><p class="headline">{first}</p>'
        f"{lead}{contents}{bodies}"
        "<footer>Rule-based models divide conversions among the touchpoints before them. They do not measure "
        "causal effects. The credits are in credits.csv in the same folder.</footer>"
        "</main></body></html>\n"
    )


def _main(credits: pd.DataFrame) -> str:
    """Return the model whose results are shown in detail: the last one."""
    return str(credits["model"].iloc[-1]) if len(credits) else ""


def _sections(credits: pd.DataFrame, paths: Paths) -> list[tuple[str, str]]:
    """Return heading and HTML of each section that the data supports."""
    if credits.empty:
        return []
    model, with_value = _main(credits), has_value(credits)
    currencies = currencies_of(credits)
    main = currencies[0]
    beside = "Conversions and value" if with_value else "Conversions"
    bars = [_figure("credited conversions", lambda: plots.credits(credits, model=model))]
    if with_value:
        bars.append(
            _figure("credited value", lambda: plots.credits(credits, by="value", model=model, currency=main))
        )
    sections = [
        (f"{beside} by node under {model}", f"{_html(summary(credits, model))}{''.join(bars)}"),
        ("Credited conversions by model", _table(credits, "conversions")),
    ]
    if with_value:
        for currency in currencies:
            rows = credits if currency is None else credits[credits["currency"] == currency]
            unit = "" if currency is None else f" in {currency}"
            sections.append((f"Credited value{unit} by model", _table(rows, "value")))
    sections.append(
        ("Models compared", _figure("share of conversions by model", lambda: plots.model_comparison(credits)))
    )
    if "spend" in credits.columns and credits["roas"].notna().any():
        figure = _figure(
            "spend against credited value", lambda: plots.returns(credits, model=model, currency=main)
        )
        sections.append((f"Returns under {model}", figure))
    if paths.touches.count().to_pyarrow().as_py() <= _MAX_TOUCHES:
        sections.append(
            ("The last touchpoints before a conversion", _figure("flow", lambda: plots.paths(paths)))
        )
    if paths.has_dates:
        lags = paths.lags()
        sections.append(("From touchpoint to conversion", _figure("time lags", lambda: plots.lags(lags))))
    return sections


def _figure(description: str, draw: Callable[[], Axes]) -> str:
    from matplotlib import pyplot  # slow to import, and only needed for figures
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    figure = draw().figure.get_figure(root=True)
    figure.set_dpi(160)
    buffer = io.BytesIO()
    # Figure.savefig() would draw once more, to measure what the layout has measured.
    FigureCanvasAgg(figure).print_png(buffer, metadata={"Software": None})  # type: ignore[no-untyped-call]
    pyplot.close(figure)
    encoded = base64.b64encode(buffer.getvalue()).decode("ascii")
    return f'<figure><img alt="{escape(description)}" src="data:image/png;base64,{encoded}"></figure>'


def _table(credits: pd.DataFrame, by: str) -> str:
    return _html(side_by_side(credits, by=by))


def _html(shown: pd.DataFrame) -> str:
    table = shown.to_html(index=False, border=0, na_rep="", float_format=lambda number: f"{number:,.1f}")
    # A table that is wider than the page is scrolled, by keyboard too.
    return f'<div class="scroll" tabindex="0">{table}</div>'


def side_by_side(credits: pd.DataFrame, *, by: str) -> pd.DataFrame:
    """Return one row per node and one column per model, by descending credit of the last model.

    Conversions are summed over currencies; values are not.
    """
    models = list(dict.fromkeys(credits["model"]))
    compared = compare_models(credits, by=by)
    if by == "conversions":
        summed = compared.groupby(["node_id", "node_name"], dropna=False)[models].sum().reset_index()
        compared = summed.assign(currency=None)
    ordered = compared.sort_values(models[-1], ascending=False, kind="stable")
    ordered = pd.concat([ordered[ordered["node_id"].notna()], ordered[ordered["node_id"].isna()]])
    has_currencies = len(ordered["currency"].dropna().unique()) > 1
    ordered = ordered.rename(columns={"node_name": "node"})
    return ordered[["node", *(["currency"] if has_currencies else []), *models]].reset_index(drop=True)


_UNATTRIBUTED: Final = "unattributed"


def headline(credits: pd.DataFrame, model: str) -> str:
    """Return the result of a model in a few words.

    Examples
    --------
    >>> credits = pd.DataFrame({"model": "linear", "node_id": ["a", None], "node_name": ["Ads", None],
    ...     "conversions": [3.0, 1.0], "value": [60.0, 20.0], "currency": "EUR"})
    >>> headline(credits, "linear")
    '4 conversions worth 80 EUR. Ads has the most credit under linear: 3 (75 %). Unattributed: 1 (25 %).'
    """
    rows = credits[credits["model"] == model]
    total = float(rows["conversions"].sum())
    if not total > 0:
        return "No conversions."
    parts = [f"{_number(total)} conversion{'' if total == 1 else 's'}{_worth(rows)}."]
    by_node = rows.groupby("node_id")["conversions"].sum()
    if len(by_node):
        node, most = str(by_node.idxmax()), float(by_node.max())
        names = rows.loc[rows["node_id"] == node, "node_name"].dropna().tolist()
        name = names[0] if names else node
        parts.append(f"{name} has the most credit under {model}: {_number(most)} ({_percent(most / total)}).")
    unattributed = float(rows.loc[rows["node_id"].isna(), "conversions"].sum())
    if round(unattributed, 6) > 0:
        parts.append(f"Unattributed: {_number(unattributed)} ({_percent(unattributed / total)}).")
    return " ".join(parts)


def has_value(credits: pd.DataFrame) -> bool:
    """Return whether the value of conversions is more than their number."""
    return bool(credits["value"].notna().any() and (credits["value"] != credits["conversions"]).any())


def currencies_of(credits: pd.DataFrame) -> list[str | None]:
    """Return the currencies, that of most conversions first; None alone if there is none."""
    counts = credits.groupby("currency")["conversions"].sum().rename("size").reset_index()
    ordered = counts.sort_values(["size", "currency"], ascending=[False, True])["currency"].tolist()
    return ordered or [None]


def summary(credits: pd.DataFrame, model: str) -> pd.DataFrame:
    """Return conversions, value, spend and returns of each node as texts, the largest first.

    Amounts of each currency have columns of their own. A cost per conversion is that of all conversions of
    the node, so there is none for spend in several currencies.
    """
    rows = credits[credits["model"] == model]
    rows = rows.assign(
        key=rows["node_id"].fillna(""), node=rows["node_name"].where(rows["node_id"].notna(), _UNATTRIBUTED)
    )
    conversions = _sums(rows, "conversions")
    shown: list[tuple[str, pd.Series[Any], Callable[[float], str]]] = [
        ("conversions", conversions, "{:,.1f}".format),
        ("share", conversions / (conversions.sum() or 1.0), "{:.1%}".format),
    ]
    by_currency = [
        (
            "" if currency is None else f" ({currency})",
            rows if currency is None else rows[rows["currency"] == currency],
        )
        for currency in currencies_of(rows)
    ]
    if has_value(rows):
        shown += [(f"value{unit}", _sums(part, "value"), "{:,.0f}".format) for unit, part in by_currency]
    if "spend" in rows.columns:
        spent = [(unit, _sums(part, "spend")) for unit, part in by_currency]
        spent = [(unit, sums) for unit, sums in spent if sums.notna().any()]
        shown += [(f"spend{unit}", sums, "{:,.0f}".format) for unit, sums in spent]
        if len(spent) == 1:
            ((unit, sums),) = spent
            costs = sums.where(sums > 0) / conversions.where(conversions > 0)
            shown.append((f"CPA{unit}", costs, "{:,.2f}".format))
        returns = [(f"ROAS{unit}", _sums(part, "roas")) for unit, part in by_currency]
        shown += [(name, sums, "{:,.2f}".format) for name, sums in returns if sums.notna().any()]
    table = pd.DataFrame({name: sums.reindex(conversions.index) for name, sums, _ in shown}).reset_index()
    table["is_last"] = table["key"] == ""
    table = table.sort_values(["is_last", "conversions", "key"], ascending=[True, False, True])
    texts = {
        name: ["" if pd.isna(number) else text(number) for number in table[name]] for name, _, text in shown
    }
    return pd.DataFrame({"node": table["node"].tolist(), **texts})


def _sums(rows: pd.DataFrame, column: str) -> pd.Series[Any]:
    return rows.groupby(["key", "node"], dropna=False)[column].sum(min_count=1)


def _worth(rows: pd.DataFrame) -> str:
    if not has_value(rows):
        return ""
    values = rows.groupby("currency", dropna=False)["value"].sum()
    named = [f"{values[each]:,.0f} {each}" for each in currencies_of(rows) if each is not None]
    return f" worth {' and '.join(named)}" if named else f" worth {values.sum():,.0f}"


def _number(amount: float) -> str:
    return f"{amount:,.0f}" if round(amount, 6) == round(amount) else f"{amount:,.1f}"


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"
