"""Aggregated paths, wide journeys and the spend of nodes in users' own files, and how they spell nodes."""

from __future__ import annotations

import json
import math
import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import Final

import duckdb
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from attrib_ds.attribution.paths.paths import Paths
from attrib_ds.display import and_others
from attrib_ds.errors import closest, warn
from attrib_ds.importers import journeys, own_table
from attrib_ds.importers.aliases import Aliases
from attrib_ds.importers.columns import Named
from attrib_ds.importers.formats import Format
from attrib_ds.importers.reading import Formats, Reading
from attrib_ds.records.frames import TEXT, FrameOrPath, to_pandas
from attrib_ds.traffic.sources import Traffic

#: Names of the column of days in reports of spend, and of the first and last day of a row.
_DAYS: Final = ("Day", "By Day", "Date", "Gregorian date", "Tag", "Datum", "Jour", "Día")
_FROM_TO: Final = (
    "Reporting starts|Berichtsstart|Début des rapports|Inicio del informe",
    "Reporting ends|Berichtsende|Fin des rapports|Fin del informe",
)
_MAX_NODES: Final = 5
_MAX_NAMES: Final = 3


@dataclass(frozen=True)
class FilePaths:
    """Paths read from files.

    Attributes
    ----------
    paths : Paths
        Paths to attribute.
    counts : dict of str to int
        Number of rows read, by kind.
    columns : dict of str to dict
        The columns used, by kind and role.
    rejected : DataFrame
        ``file`` (str), ``row`` (Int64, from 0, without the header), ``reason`` (str).
    reading : Reading, optional
        How the files were read.
    """

    paths: Paths
    counts: dict[str, int]
    columns: dict[str, dict[str, Named]]
    rejected: pd.DataFrame
    reading: Reading | None = None

    def with_spend(self, spend: pd.DataFrame, rejected: pd.DataFrame) -> FilePaths:
        """Return the same paths with more spend, and the rows of it that were rejected."""
        spent = spend if self.paths.spend is None else together([self.paths.spend, spend])
        every = pd.concat([self.rejected, rejected], ignore_index=True)
        return replace(self, paths=self.paths.with_spend(spent), rejected=every)


def read_sequences(
    file: Path,
    *,
    columns: Mapping[str, Named] | None = None,
    currency: str | None = None,
    formats: Formats = Formats(),  # noqa: B008  (frozen)
    separator: str = " > ",
) -> FilePaths:
    """Read aggregated paths from a file.

    Parameters
    ----------
    file : Path
        CSV, NDJSON, Parquet or XLSX file: one row per distinct path, or one row per journey with its steps
        in numbered columns (``T_1``, ``T_2``, …) and a flag that says whether it converted.
    columns : mapping of str to str or list of str, optional
        Column by role (``path``, ``conversions``, ``total_value``, ``currency``, ``nulls``; ``path`` may list
        the columns of steps in order, with ``flag``).
    currency : str, optional
        Currency of values that have none.
    formats : Formats
        How the file is written.
    separator : str, default " > "
        Separator between nodes.

    Returns
    -------
    FilePaths
        Paths, counts, the columns used and the rejected rows.

    Raises
    ------
    InvalidRequest
        If the file or a column is missing, or there are no readable rows.
    """
    named = dict(columns or {})
    table = own_table.OwnTable(duckdb.connect(), file, "paths", formats)
    steps = table.find_steps(named)
    if steps:
        table.take_steps(steps, separator)
        table.take_outcome(str(table.find("flag", named)))
    else:
        table.take_word("path", table.find("path", named))
        table.take_number("conversions", table.find("conversions", named), minimum=0, is_count=True)
        nulls = table.find("nulls", named, required=False)
        table.take_number("nulls", nulls, minimum=0, is_count=True)
    value = table.find("total_value", named, required=False)
    table.take_value(value)
    table.take_currency(table.find_currency(named, value), journeys.checked_currency(currency))
    rows, rejected = table.read()
    if table.note:
        warn(table.note)
    optional = {name: name for name in ("value", "currency", "nulls") if name in rows.column_names}
    paths = Paths.from_sequences(
        to_pandas(rows), path="path", conversions="conversions", separator=separator, **optional
    )
    return FilePaths(paths, {"paths": rows.num_rows}, {"paths": table.columns}, rejected)


def read_spend(
    file: FrameOrPath,
    *,
    columns: Mapping[str, Named] | None = None,
    currency: str | None = None,
    formats: Formats = Formats(),  # noqa: B008  (frozen)
    ignore_case: bool = True,
    touchpoint_node: Named | None = None,
    known_nodes: Collection[str] = (),
    aliases: Aliases | None = None,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Read the spend of nodes from a file; return it, and the rejected rows.

    It has ``node_id``, ``spend``, ``currency`` if known, and ``date`` if each row is that of a day.

    The role ``spend_node`` names the columns of nodes; the role ``node`` and ``touchpoint_node`` have those
    of the touchpoints' nodes, which are used otherwise if the file has them too. ``known_nodes`` has the ids
    of the touchpoints' nodes, whose spelling counts if ``ignore_case`` is set. ``aliases`` has present names
    by former ones.

    Warns
    -----
    InputWarning
        If the file has none.
    InputWarning
        If nodes are not among the known ones.
    """
    named = dict(columns or {})
    table = own_table.OwnTable(duckdb.connect(), file, "spend", formats)
    of_touchpoints = named.pop("node", None)
    if "spend_node" in named:
        named["node"] = named.pop("spend_node")
    elif of_touchpoints is not None:
        listed = [of_touchpoints] if isinstance(of_touchpoints, str) else of_touchpoints
        if {*listed} <= {*table.source.columns}:
            named["node"] = of_touchpoints
    is_report = table.format is not None and "node" not in named
    if table.format is not None and is_report:
        warn(table.note)
        table.take_word("node", table.find("campaign", {}))
    else:
        node = table.find_node_like(touchpoint_node, named)
        table.take_node(node)
        if len(node) > 1:
            table.require_any(node)
    spend = table.find("spend", named)
    table.take_number("spend", spend, minimum=0)
    table.take_currency(table.find_currency(named, spend), journeys.checked_currency(currency))
    day = _day_of(table)
    if day is not None:
        table.take_date([day])
    rows, rejected = table.read(may_be_empty=True)
    if table.note and not is_report:
        warn(table.note)
    if not rows.num_rows:
        warn(f"{table.name} has no rows, so that no spend is known")
    if ignore_case:
        rows = merge_case(rows, name=table.name)
    rows = rows if aliases is None else aliases.renamed(rows)
    if table.format is not None and is_report:
        node_ids = _of_campaigns(table.format, rows["node"].to_pylist(), known_nodes)
    else:
        node_ids = [nodes[-1].node_id for nodes in journeys.chains_of(rows)]
    if ignore_case:
        node_ids = _like_known(node_ids, known_nodes)
    kept = rows.select([name for name in ("spend", "currency", "date") if name in rows.column_names])
    spend_of_nodes = to_pandas(kept.add_column(0, "node_id", pa.array(node_ids, pa.string())))
    if day is not None:
        # Text, since a day is that of any time zone.
        spend_of_nodes["date"] = spend_of_nodes["date"].dt.strftime("%Y-%m-%d").astype(TEXT)
    if known_nodes:
        _warn_of_unknown(spend_of_nodes, known_nodes, table.name)
    return spend_of_nodes, rejected


def _day_of(table: own_table.OwnTable) -> str | None:
    """Return the column with the day of each row; None if a row has none, or is of several days."""
    days, (start, end) = table.with_names(_DAYS), (table.with_names([name]) for name in _FROM_TO)
    if (
        start
        and end
        and table.scalar(f"bool_and({table.source.word(start[0])} = {table.source.word(end[0])})")
    ):
        days = [*days, start[0]]
    return next((day for day in days if table.holds_instants(day)), None)


def together(spend: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Concatenate the spend of several files; it has dates if each has."""
    every = pd.concat(spend, ignore_index=True)
    has_dates = "date" in every.columns and every["date"].notna().all()
    return every if has_dates else every.drop(columns="date", errors="ignore")


def _of_campaigns(report: Format, campaigns: Iterable[str], known_nodes: Collection[str]) -> list[str]:
    """Return the node of each campaign of an ad platform: the known one of its source, the best medium first.

    Other campaigns belong to the node of the source, if touchpoints know no campaigns of it.
    """
    sources = {_caseless(name): rank for rank, name in enumerate(report.sources)}
    media = {_caseless(name): rank for rank, name in enumerate(report.media)}
    by_campaign: dict[str, list[tuple[int, int, str]]] = {}
    whole: list[tuple[int, int, str]] = []
    for node in sorted(known_nodes):
        parts = [_caseless(part.strip()) for part in node.split("/")]
        rank = (
            media.get(parts[1] if len(parts) > 1 else "", len(media)),
            sources.get(parts[0], len(sources)),
            node,
        )
        if parts[0] in sources and (len(parts) == 1 or (len(parts) == 2 and parts[1] in media)):
            whole.append(rank)
        elif len(parts) == 1 or parts[0] in sources:
            by_campaign.setdefault(parts[-1], []).append(rank)
    is_deep = any(len(node.split("/")) > 2 for ranked in by_campaign.values() for _, _, node in ranked)
    found = []
    for campaign in campaigns:
        ranked = by_campaign.get(_caseless(campaign)) or ([] if is_deep else whole)
        found.append(min(ranked)[2] if ranked else f"{report.sources[0]}/{report.media[0]}/{campaign}")
    return found


def _warn_of_unknown(spend: pd.DataFrame, known_nodes: Collection[str], name: str) -> None:
    """Warn of nodes without a touchpoint; a row with the sum of the others is called a total."""
    amounts = spend[spend["spend"] > 0].groupby("node_id", sort=False)["spend"].sum()
    unknown = [node for node in amounts.index if node not in known_nodes]
    if not unknown:
        return
    said = []
    for node in unknown[:_MAX_NODES]:
        is_total = len(amounts) > 2 and math.isclose(amounts[node], amounts.drop(node).sum(), rel_tol=1e-6)
        hint = " (the sum of the others: a total?)" if is_total else closest(node, known_nodes)
        said.append(f"{node!r} with {amounts[node]:,.2f}{hint}")
    warn(
        f"{name} has spend of nodes without a touchpoint, which get rows of their own: "
        f"{', '.join(said)}{and_others(len(unknown), _MAX_NODES)}. "
        "Leave out totals, and write names as in the touchpoints",
    )


def merge_case(rows: pa.Table, *, name: str) -> pa.Table:
    """Write names of nodes that differ by case only as the most frequent of them, with a warning.

    Parameters
    ----------
    rows : pyarrow.Table
        With some of the fields of a traffic source.
    name : str
        Name of the file or frame in the warning.
    """
    merged: list[dict[str, int]] = []
    for field in (field.name for field in fields(Traffic) if field.name in rows.column_names):
        encoded = pc.dictionary_encode(rows[field]).combine_chunks()
        words = encoded.dictionary.to_pylist()
        tally = pc.value_counts(encoded.indices.drop_null())
        times = dict(zip(tally.field(0).to_pylist(), tally.field(1).to_pylist(), strict=True))
        # Levels are lists of names, each of which is spelled by itself.
        paths = [json.loads(word) if field == "levels" else [word] for word in words]
        frequencies: Counter[tuple[int, str]] = Counter()
        for position, path in enumerate(paths):
            for part in enumerate(path):
                frequencies[part] += times.get(position, 0)
        chosen = _chosen(frequencies, merged)
        spelled = [[chosen.get(part, part[1]) for part in enumerate(path)] for path in paths]
        if spelled != paths:
            write = partial(json.dumps, ensure_ascii=False) if field == "levels" else itemgetter(0)
            texts = [
                word if path == before else write(path)
                for word, before, path in zip(words, paths, spelled, strict=True)
            ]
            column = pa.array(texts, pa.string()).take(encoded.indices)
            rows = rows.set_column(rows.column_names.index(field), field, column)
    _warn_of_punctuation(rows, name)
    if merged:
        shown = "; ".join(
            ", ".join(f"{word!r} ({count:,})" for word, count in spellings.items())
            for spellings in merged[:_MAX_NAMES]
        )
        warn(
            f"in {name}, names of nodes that differ by case only are read as one, with the most frequent "
            f"spelling: {shown}{and_others(len(merged), _MAX_NAMES)}. "
            "reading=Reading(ignore_case=False) keeps them apart",
        )
    return rows


def _warn_of_punctuation(rows: pa.Table, name: str) -> None:
    """Warn of names of nodes that differ by spaces and punctuation only; they are credited apart."""
    spellings: dict[tuple[str, int, str], dict[str, None]] = {}
    for field in ("node", "levels", "source", "medium", "campaign"):
        for word in pc.unique(rows[field]).drop_null().to_pylist() if field in rows.column_names else ():
            for level, part in enumerate(json.loads(word) if field == "levels" else [word]):
                plain = re.sub(r"[\W_]+", "", _caseless(part or ""))
                if plain:
                    spellings.setdefault((field, level, plain), {})[part] = None
    alike = [list(names) for names in spellings.values() if len({*map(_caseless, names)}) > 1]
    if alike:
        shown = "; ".join(" and ".join(map(repr, names)) for names in alike[:_MAX_NAMES])
        warn(
            f"in {name}, names of nodes that differ by spaces and punctuation only are credited apart: "
            f"{shown}{and_others(len(alike), _MAX_NAMES)}. Write them alike if they are one",
        )


def _chosen(
    frequencies: Mapping[tuple[int, str], int], merged: list[dict[str, int]]
) -> dict[tuple[int, str], str]:
    """Return the spelling of each name that has several; the first one in the alphabet of equally many."""
    spellings: dict[tuple[int, str], dict[str, int]] = {}
    for (level, word), count in frequencies.items():
        if word is not None:
            spellings.setdefault((level, _caseless(word)), {})[word] = count
    chosen: dict[tuple[int, str], str] = {}
    for (level, _), counts in spellings.items():
        if len(counts) > 1:
            ranked = dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))
            merged.append(ranked)
            chosen |= {(level, word): next(iter(ranked)) for word in ranked}
    return chosen


def _like_known(node_ids: Iterable[str], known: Collection[str]) -> list[str]:
    """Return ids of nodes, as another table spells them if they differ by case only."""
    spelled = {_caseless(node_id): node_id for node_id in sorted(known, reverse=True)}
    return [node_id if node_id in known else spelled.get(_caseless(node_id), node_id) for node_id in node_ids]


def _caseless(name: str) -> str:
    """Return a name without differences of case; accented letters are one character each."""
    return unicodedata.normalize("NFC", name).casefold()
