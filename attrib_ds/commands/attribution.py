"""Commands ``demo`` and ``attribute``: credits of the sample shop or of users' files, with a report."""

from __future__ import annotations

import argparse
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ibis
import ibis.selectors
import pandas as pd

import attrib_ds as at
from attrib_ds import display, errors, sample
from attrib_ds.attribution.engines.engine import DuckDB
from attrib_ds.commands.cli import show, show_error
from attrib_ds.contract.identifiers import code_of
from attrib_ds.importers.columns import LISTED, OPTIONS
from attrib_ds.plots.overview import Measure, Overview
from attrib_ds.records import written_files

if TYPE_CHECKING:
    from attrib_ds.importers.own_paths import FilePaths  # slow to import

_DEMO_MODELS = ("first_touch", "last_touch", "last_non_direct", "linear", "time_decay", "position_based")
_SEQUENCE_MODELS = ("first_touch", "last_touch", "last_non_direct", "linear", "position_based")
_MAX_ROWS = 30
_ONE = Measure("", decimals=1)
#: Arguments of the function that are options of the command, in its messages.
_PAIR = re.compile(r"'(\w+)': (COLUMN|'[^']*')")
_SWITCHES = "dayfirst|aggregate|ignore_case|order_sources"
#: Options that are fields of a reading, with what they are if they are not given.
_OF_READINGS: dict[str, Any] = {
    "dayfirst": None, "decimal": None, "encoding": None, "timezone": None, "ignore_case": True,
    "aggregate": False, "order_sources": False, "sheet": None, "conversion_sheet": None, "spend_sheet": None,
}  # fmt: skip
_VALUES = "decimal|encoding|timezone|currency|sheet|conversion_sheet|spend_sheet|conversion_page"


def demo(options: argparse.Namespace) -> None:
    """Attribute the orders of the sample shop and write a report."""
    with _sample_tables() as shop:
        paths = at.conversion_paths(shop, event_type="order", statistic="turnover", level="campaign")
        paths = paths.computed()  # four queries read them
        credits = at.attribute(paths, _DEMO_MODELS)
        notes = (
            "Orders of the shipped sample shop, January to June 2025, with a lookback of 30 days.",
            "The data is made up; the shop does not exist.",
        )
        written = _write_report(
            options.out, credits, paths, "Where the sample shop's orders came from", notes
        )
    show("Sample shop: orders of half a year, credited to campaigns\n")
    _print_credited(credits, confidence=None)
    show(written)


def _write_report(
    folder: Path, credits: pd.DataFrame, paths: at.Paths, title: str, notes: Sequence[str]
) -> str:
    """Write a report and its credits; return what to print about them."""
    page = at.report(credits, folder / "report.html", paths=paths, title=title, notes=notes)
    written_files.write_csv(credits, folder / "credits.csv")
    return f"\nReport: {page}\nCredits: {folder / 'credits.csv'}"


def _sample_tables() -> at.Project:
    """Open the files of the sample; loading them into a project takes ten times as long."""
    engine = DuckDB().connect()
    resources = ("nodes", "interactions", "events", "spend")
    tables = {name: engine.read_parquet(sample.files()[name]) for name in resources}
    amount = {"statistics.turnover": "statistics.turnover.amount"}
    tables["events"] = tables["events"].drop(ibis.selectors.startswith("states.")).rename(amount)
    return at.open_tables(engine, **tables)


def attribute(options: argparse.Namespace) -> int:
    """Attribute the conversions in users' files and print the credits, or how the files are read."""
    if options.explain:
        return _explain(options)
    with _in_words_of_the_command() as caught:
        read, credits, rejected = _attributed(options)
    counts = ", ".join(display.counted(count, kind) for kind, count in read.counts.items())
    # Files first: printing fails where nobody reads on.
    unreadable = _write_rejected(rejected, options.out)
    written = ""
    if options.out is not None:
        unread = ", ".join(
            f"{display.counted(rows, 'unreadable rows')} of {file}"
            for file, rows in rejected["file"].value_counts(sort=False).items()
        )
        notes = (f"{counts}; lookback {options.lookback}; {unread or 'no unreadable rows'}.",)
        written = _write_report(options.out, credits, read.paths, "Credited conversions", notes)
        if read.reading is not None:
            (options.out / "reading.json").write_text(read.reading.to_json() + "\n", encoding="utf-8")
            written += f"\nHow the files were read: {options.out / 'reading.json'}"
    show(f"Read {counts}.")
    for kind, columns in read.columns.items():
        show(f"Columns of {kind}: {', '.join(_shown(role, column) for role, column in columns.items())}")
    if "value" not in read.columns.get("conversions", {"value": ""}):
        show("Conversions have no value: no column of amounts")
    if unreadable:
        show_error(unreadable)
    for warning in caught:
        # The report of rejected rows says more, and has those of the spend.
        if not issubclass(warning.category, errors.RejectedRows):
            show_error(as_options(str(warning.message)))
    _print_credited(credits, confidence=options.confidence)
    if written:
        show(written)
    return 0


@contextmanager
def _in_words_of_the_command() -> Iterator[list[warnings.WarningMessage]]:
    """Collect warnings, and raise errors that name options instead of arguments."""
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", UserWarning)
            yield caught
    except errors.InvalidRequest as error:
        raise errors.InvalidRequest(as_options(error.message)) from error


def _explain(options: argparse.Namespace) -> int:
    """Print how the files are read, and return 1 if something is not clear."""
    if options.touchpoints is None:
        options.wrong_usage("--explain needs --touchpoints FILE")
    with _in_words_of_the_command() as caught:
        preview = at.preview_files(
            options.touchpoints,
            options.conversions,
            spend=options.spend,
            reading=_reading(options),
            currency=code_of(options.column_currency),
            conversion_page=options.conversion_page,
        )
    for warning in caught:
        show_error(as_options(str(warning.message)))
    for file, rows in preview.groupby("file", sort=False):
        show(f"{file}\n")
        for row in rows.to_dict("records"):
            show(_explained(row))
        show("")
    return int((preview["read_as"] == "not clear").any())


def _explained(row: Mapping[Any, str]) -> str:
    """Return the lines about a column of a file, or about what is not clear."""
    if row["read_as"] == "not clear":
        return f"  ? {as_options(row['evidence'])}"
    seen = f" ({row['evidence']})" if row["evidence"] else ""
    if not row["column"]:
        return f"  ({row['evidence']})"
    if not row["role"]:
        return f"  {row['column']} = not used{seen}\n      {row['before']}"
    became = "" if row["before"] == row["after"] else f" -> {row['after']}"
    other = f"; or {as_options('reading=' + row['alternative'])}" if row["alternative"] else ""
    return f"  {row['column']} = {row['role']}: {row['read_as']}{seen}{other}\n      {row['before']}{became}"


def as_options(message: str) -> str:
    """Return a message with the options of the command instead of the arguments of the function.

    Examples
    --------
    >>> as_options("name it with columns={'user': COLUMN}, or pass dayfirst=False")
    'name it with --user COLUMN, or pass --no-dayfirst'
    """

    def named(match: re.Match[str]) -> str:
        return " ".join(f"{OPTIONS[role]} {column}" for role, column in _PAIR.findall(match[1]))

    def switched(match: re.Match[str]) -> str:
        return f"--{'' if match[2] == 'True' else 'no-'}{match[1].replace('_', '-')}"

    def given(match: re.Match[str]) -> str:
        return f"--{match[1].replace('_', '-')} {match[2].strip(chr(34))}"

    message = re.sub(r"reading=Reading\(([^()]*)\)", r"\1", message)
    message = re.sub(r"columns=\{([^}]*)\}", named, message)
    # By the file that it is of.
    message = re.sub(r"(dayfirst|decimal|timezone)=\{'\w+': ([^}]*)\}", r"\1=\2", message)
    message = re.sub(rf"\b({_SWITCHES})=(True|False)", switched, message)
    return re.sub(rf"\b({_VALUES})=('[^']*'|\"[^\"]*\")", given, message)


def _shown(role: str, column: str | Sequence[str]) -> str:
    return f"{role} = {column if isinstance(column, str) else ', '.join(column)}"


def _attributed(options: argparse.Namespace) -> tuple[FilePaths, pd.DataFrame, pd.DataFrame]:
    """Return what was read, its credits and all rejected rows."""
    read = _read(options)
    default = _DEMO_MODELS if read.paths.has_dates else _SEQUENCE_MODELS
    models = default if options.models is None else [name.strip() for name in options.models.split(",")]
    credits = at.attribute(read.paths, models, confidence=options.confidence)
    return read, credits, read.rejected


def _read(options: argparse.Namespace) -> FilePaths:
    if options.paths is None and options.touchpoints is None:
        options.wrong_usage("--touchpoints FILE (with --conversions FILE) or --paths FILE is required")
    if options.paths is not None and (options.touchpoints or options.conversions) is not None:
        options.wrong_usage("--paths FILE cannot be combined with --touchpoints or --conversions")
    if options.paths is not None and options.aliases:
        options.wrong_usage("--alias OLD=NEW cannot be combined with --paths")
    from attrib_ds.importers.own_paths import FilePaths, read_sequences
    from attrib_ds.importers.own_spend import read_all
    from attrib_ds.importers.reading import Formats

    if options.paths is not None:
        columns = _columns(options)
        formats = Formats(decimal=options.decimal, encoding=options.encoding, sheet=options.sheet)
        shared: dict[str, Any] = {"columns": columns, "currency": code_of(options.column_currency)}
        read = read_sequences(options.paths, formats=formats, separator=options.separator, **shared)
        if not options.spend:
            return read
        nodes = dict.fromkeys(read.paths.touches.select("node_id").distinct().to_pyarrow()[0].to_pylist(), "")
        shared |= {"formats": replace(formats, sheet=options.spend_sheet), "ignore_case": options.ignore_case}
        spend, rejected = read_all(options.spend, nodes, **shared)
        every = pd.concat([read.rejected, rejected], ignore_index=True)
        return replace(read, paths=read.paths.with_spend(spend), rejected=every)
    journeys = at.read_journeys(
        options.touchpoints,
        options.conversions,
        reading=_reading(options),
        currency=code_of(options.column_currency),
        conversion_page=options.conversion_page,
        spend=options.spend,
        aliases=dict(options.aliases),
    )
    counts = {"touchpoints": len(journeys.interactions), "conversions": len(journeys.events)}
    paths = journeys.paths(lookback=options.lookback)
    return FilePaths(paths, counts, journeys.columns, journeys.rejected, journeys.reading)


def _reading(options: argparse.Namespace) -> at.Reading:
    """Return the reading that was kept in a file, with what the options say."""
    kept = at.Reading()
    if options.reading is not None:
        try:
            kept = at.Reading.from_json(options.reading.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            raise errors.InvalidRequest(f"--reading: {options.reading} cannot be read: {error}") from error
    given = {name: getattr(options, name) for name in _OF_READINGS}
    chosen = {name: value for name, value in given.items() if value != _OF_READINGS[name]}
    return replace(kept, columns={**kept.columns, **_columns(options)}, **chosen)


def _columns(options: argparse.Namespace) -> dict[str, str | list[str]]:
    named = {role: getattr(options, f"column_{role}") for role in OPTIONS}
    # A code or a sign is that of the amounts without a currency, and no column.
    if code_of(options.column_currency) is not None:
        del named["currency"]
    columns: dict[str, str | list[str]] = {role: name for role, name in named.items() if name is not None}
    for role in LISTED:
        if "," in (named[role] or ""):
            columns[role] = [name.strip() for name in named[role].split(",")]
    return columns


def _write_rejected(rejected: pd.DataFrame, folder: Path | None) -> str:
    """List rejected rows in a file; return what to print about them."""
    if not len(rejected):
        return ""
    rejected = rejected.assign(reason=rejected["reason"].map(as_options))
    listed = (folder or Path()) / "unreadable-rows.csv"
    listed.parent.mkdir(parents=True, exist_ok=True)
    written_files.write_csv(rejected, listed)
    first = rejected.iloc[0]
    return (
        f"{display.counted(len(rejected), 'rows')} could not be read, the first is row {first['row']} of "
        f"{first['file']} ({first['reason']}); all are listed in {listed}"
    )


def _print_credited(credits: pd.DataFrame, *, confidence: float | None) -> None:
    """Print what the report says first: two sentences, all measures under one model, and all models."""
    overview = Overview.of(credits)
    for sentence in overview.sentences[:2]:
        show(sentence)
    show(f"\n{overview.reason}\n")
    shown = overview.of_model(overview.lead)
    texts = pd.DataFrame({each.title: shown[each.title].map(each.text) for each in overview.measures})
    texts.insert(0, "node", shown.index.map(overview.names))
    _print_rows(texts)
    if confidence is not None:
        show(f"\nCredited conversions, with intervals at {confidence * 100:.6g} %\n")
        named = credits.assign(node_name=credits["node_id"].fillna("").map(overview.names))
        _print_rows(_with_bounds(named, overview.models))
    elif len(overview.models) > 1:
        show("\nCredited conversions by model\n")
        by_model = overview.across("Conversions").reset_index(drop=True)
        _print_rows(pd.concat([texts["node"].reset_index(drop=True), by_model], axis=1))


def _with_bounds(credits: pd.DataFrame, models: list[str]) -> pd.DataFrame:
    """Return one row per node and currency, with a column of credited conversions and bounds per model."""
    cells = [
        _ONE.text(credited) + ("" if pd.isna(low) else f" ({_ONE.text(low)} to {_ONE.text(high)})")
        for credited, low, high in credits[["conversions", "low", "high"]].itertuples(index=False)
    ]
    keys = ["node_id", "node_name", "currency"]
    rows = credits.loc[credits["node_id"].isna().sort_values(kind="stable").index, keys].drop_duplicates()
    for model in models:
        own = credits["model"] == model
        rows = rows.merge(
            credits.loc[own, keys].assign(**{model: pd.Series(cells, credits.index)[own]}), "left"
        )
    has_currencies = credits["currency"].nunique() > 1
    return rows.drop(columns=["node_id", *([] if has_currencies else ["currency"])]).fillna("")


def _print_rows(rows: pd.DataFrame) -> None:
    shown = rows.head(_MAX_ROWS)
    show(shown.to_string(index=False, float_format=_ONE.text, na_rep=""))
    if len(rows) > len(shown):
        show(f"… and {display.counted(len(rows) - len(shown), 'more rows')}")
