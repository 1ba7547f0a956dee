"""Aggregated paths, wide journeys and the spend of nodes in users' own files, and how they spell nodes."""

from __future__ import annotations

import json
import re
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import Final

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from attrib_ds import scratch
from attrib_ds.attribution.paths.paths import Paths
from attrib_ds.display import and_others
from attrib_ds.errors import warn
from attrib_ds.importers import journeys
from attrib_ds.importers.columns import Named
from attrib_ds.importers.reading import Formats, Reading
from attrib_ds.importers.tables.candidates import candidates
from attrib_ds.importers.tables.own_table import OwnTable
from attrib_ds.importers.tables.roles import checked, find_column, flag_sql, take_word
from attrib_ds.importers.tables.values import find_currency, take_currency, take_number
from attrib_ds.records import sources
from attrib_ds.records.frames import to_pandas
from attrib_ds.traffic.sources import Traffic

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
        ``file`` (str), ``row`` (Int64), ``reason`` (str).
    reading : Reading, optional
        How the files were read.
    """

    paths: Paths
    counts: dict[str, int]
    columns: dict[str, dict[str, Named]]
    rejected: pd.DataFrame
    reading: Reading | None = None


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
    table = OwnTable(scratch.open_database(), file, "paths", formats)
    steps = _find_steps(table, named)
    if steps:
        _take_steps(table, steps, separator)
        table.columns["flag"] = flag = str(find_column(table, "flag", named))
        table.select["conversions"] = f"CASE WHEN {flag_sql(table, flag)} THEN 1.0 ELSE 0.0 END"
        table.select["nulls"] = f"1.0 - {table.select['conversions']}"
    else:
        take_word(table, "path", find_column(table, "path", named))
        take_number(table, "conversions", find_column(table, "conversions", named), minimum=0, is_count=True)
        nulls = find_column(table, "nulls", named, required=False)
        take_number(table, "nulls", nulls, minimum=0, is_count=True)
    value = find_column(table, "total_value", named, required=False)
    # Paths without a conversion may have no value.
    is_null = f"coalesce({table.select['conversions']}, 0) = 0"
    take_number(table, "value", value, optional_if=is_null, default="0")
    take_currency(table, find_currency(table, named, value), journeys.checked_currency(currency))
    rows, rejected = table.read()
    if table.note:
        warn(table.note)
    optional = {name: name for name in ("value", "currency", "nulls") if name in rows.column_names}
    paths = Paths.from_sequences(
        to_pandas(rows), path="path", conversions="conversions", separator=separator, **optional
    )
    return FilePaths(paths, {"paths": rows.num_rows}, {"paths": table.columns}, rejected)


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
            "reading=Reading(ignore_case=False) keeps them apart"
        )
    return rows


def _warn_of_punctuation(rows: pa.Table, name: str) -> None:
    """Warn of names of nodes that differ by spaces and punctuation only; they are credited apart."""
    spellings: dict[tuple[str, int, str], dict[str, None]] = {}
    for field in ("node", "levels", "source", "medium", "campaign"):
        for word in pc.unique(rows[field]).drop_null().to_pylist() if field in rows.column_names else ():
            for level, part in enumerate(json.loads(word) if field == "levels" else [word]):
                plain = re.sub(r"[\W_]+", "", caseless(part or ""))
                if plain:
                    spellings.setdefault((field, level, plain), {})[part] = None
    alike = [list(names) for names in spellings.values() if len({*map(caseless, names)}) > 1]
    if alike:
        shown = "; ".join(" and ".join(map(repr, names)) for names in alike[:_MAX_NAMES])
        warn(
            f"in {name}, names of nodes that differ by spaces and punctuation only are credited apart: "
            f"{shown}{and_others(len(alike), _MAX_NAMES)}. Write them alike if they are one"
        )


def _chosen(
    frequencies: Mapping[tuple[int, str], int], merged: list[dict[str, int]]
) -> dict[tuple[int, str], str]:
    """Return the spelling of each name that has several; the first one in the alphabet of equally many."""
    spellings: dict[tuple[int, str], dict[str, int]] = {}
    for (level, word), count in frequencies.items():
        if word is not None:
            spellings.setdefault((level, caseless(word)), {})[word] = count
    chosen: dict[tuple[int, str], str] = {}
    for (level, _), counts in spellings.items():
        if len(counts) > 1:
            ranked = dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))
            merged.append(ranked)
            chosen |= {(level, word): next(iter(ranked)) for word in ranked}
    return chosen


def caseless(name: str) -> str:
    """Return a name without differences of case; accented letters are one character each."""
    return unicodedata.normalize("NFC", name).casefold()


def _find_steps(table: OwnTable, named: Mapping[str, Named]) -> list[str]:
    """Return the columns of the steps of wide journeys in order, or none if a column holds the path."""
    given = named.get("path")
    if given is not None and not isinstance(given, str):
        return [checked(table, "path", column, "path") for column in given]
    if given is not None or candidates(table, "path"):
        return []
    series: dict[str, dict[int, str]] = {}
    for column in table.source.columns:
        match = re.fullmatch(r"(.*?)[ _.-]?(\d+)", column)
        if match is not None:
            series.setdefault(match[1].casefold(), {})[int(match[2])] = column
    longest = max(series.values(), key=len, default={})
    return [longest[number] for number in sorted(longest)] if len(longest) > 1 else []


def _take_steps(table: OwnTable, columns: Sequence[str], separator: str) -> None:
    """Select the steps of wide journeys as one path; journeys without a step are rejected."""
    words = ", ".join(table.word(column) for column in columns)
    path = f"nullif(concat_ws({sources.literal(separator)}, {words}), '')"
    table.columns["path"] = list(columns)
    table.select["path"] = path
    table.rules.append((f"{path} IS NULL", sources.literal(f"{columns[0]} to {columns[-1]} are missing")))
