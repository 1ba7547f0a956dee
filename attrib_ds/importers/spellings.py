"""Read names that differ by case only, or by how their accents are encoded, as one name."""

from __future__ import annotations

import json
import unicodedata
from collections import Counter
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from attrib_ds.errors import MergedNames, warn
from attrib_ds.importers.own_rows import NODE_FIELDS

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

_LEVELS: Final = "levels"
_MAX_SHOWN: Final = 3


def merge_case(rows: pa.Table, *, name: str) -> pa.Table:
    """Write the names of nodes that :func:`folded` makes one as the most frequent of them, with a warning.

    Parameters
    ----------
    rows : pyarrow.Table
        With some of the fields of a traffic source.
    name : str
        Name of the file or frame in the warning.
    """
    merged: list[dict[str, int]] = []
    for field in NODE_FIELDS:
        if field not in rows.column_names:
            continue
        position = rows.column_names.index(field)
        encoded = pc.dictionary_encode(rows[field]).combine_chunks()
        words = encoded.dictionary.to_pylist()
        tally = pc.value_counts(encoded.indices.drop_null())
        counts = dict(zip(tally.field(0).to_pylist(), tally.field(1).to_pylist(), strict=True))
        times = [counts.get(index, 0) for index in range(len(words))]
        if field == _LEVELS:
            spelled = _of_levels(words, times, merged)
        else:
            frequencies = Counter(dict(zip(words, times, strict=True)))
            chosen = _chosen(frequencies, merged)
            spelled = [chosen.get(word, word) for word in words]
        if spelled != words:
            column = pa.array(spelled, pa.string()).take(encoded.indices)
            rows = rows.set_column(position, field, column)
    if merged:
        _warn(merged, name)
    return rows


def folded(name: str) -> str:
    """Return a name without differences of case; accented letters are one character each."""
    return unicodedata.normalize("NFC", name).casefold()


def like_known(node_ids: Iterable[str], known: Collection[str]) -> list[str]:
    """Return ids of nodes, as another table spells them if :func:`folded` makes them one."""
    by_fold: dict[str, str] = {}
    for node_id in sorted(known):
        by_fold.setdefault(folded(node_id), node_id)
    return [node_id if node_id in known else by_fold.get(folded(node_id), node_id) for node_id in node_ids]


def _of_levels(words: list[str], times: list[int], merged: list[dict[str, int]]) -> list[str]:
    """Return lists of names, level by level as the most frequent spelling."""
    names = [json.loads(word) for word in words]
    frequencies: dict[int, Counter[str]] = {}
    for levels, count in zip(names, times, strict=True):
        for depth, level in enumerate(levels):
            if level is not None:
                frequencies.setdefault(depth, Counter())[level] += count
    chosen = {depth: _chosen(counted, merged) for depth, counted in frequencies.items()}
    spelled = []
    for word, levels in zip(words, names, strict=True):
        others = [chosen.get(depth, {}).get(level, level) for depth, level in enumerate(levels)]
        spelled.append(word if others == levels else json.dumps(others, ensure_ascii=False))
    return spelled


def _chosen(frequencies: Mapping[str, int], merged: list[dict[str, int]]) -> dict[str, str]:
    """Return the spelling of each name that has several; the first one in the alphabet of equally many."""
    by_fold: dict[str, dict[str, int]] = {}
    for word, count in frequencies.items():
        by_fold.setdefault(folded(word), {})[word] = count
    chosen: dict[str, str] = {}
    for spellings in by_fold.values():
        if len(spellings) > 1:
            ranked = dict(sorted(spellings.items(), key=lambda item: (-item[1], item[0])))
            merged.append(ranked)
            chosen |= dict.fromkeys(ranked, next(iter(ranked)))
    return chosen


def _warn(merged: list[dict[str, int]], name: str) -> None:
    shown = "; ".join(
        ", ".join(f"{word!r} ({count:,})" for word, count in spellings.items())
        for spellings in merged[:_MAX_SHOWN]
    )
    others = len(merged) - _MAX_SHOWN
    more = f"; and {others:,} others" if others > 0 else ""
    warn(
        f"in {name}, names of nodes that differ by case only are read as one, with the most frequent "
        f"spelling: {shown}{more}. ignore_case=False, or --no-ignore-case in the command, keeps them apart",
        MergedNames,
    )
