"""The spend of campaigns in users' own files, put on the nodes of the touchpoints."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from itertools import combinations
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa

from attrib_ds import scratch
from attrib_ds.display import and_others, cents, counted
from attrib_ds.errors import InvalidRequest, closest, warn
from attrib_ds.importers import journeys
from attrib_ds.importers.aliases import Aliases
from attrib_ds.importers.columns import Named, folded
from attrib_ds.importers.content import evidence
from attrib_ds.importers.own_paths import merge_case
from attrib_ds.importers.reading import Formats
from attrib_ds.importers.spend_nodes import Place, Tree
from attrib_ds.importers.tables.candidates import candidates, check_equal
from attrib_ds.importers.tables.dates import take_date
from attrib_ds.importers.tables.nodes import find_node, take_node
from attrib_ds.importers.tables.own_table import OwnTable
from attrib_ds.importers.tables.roles import find_column
from attrib_ds.importers.tables.table import is_same
from attrib_ds.importers.tables.values import (
    NO_AMOUNT,
    find_currency,
    know_currencies,
    take_currency,
    take_number,
)
from attrib_ds.records import sources
from attrib_ds.records.frames import TEXT, FrameOrPath, to_pandas
from attrib_ds.traffic.sources import Traffic

#: Names, folded, of columns with the day of a row.
_DAYS: Final = ("day", "byday", "date", "gregoriandate", "tag", "datum", "jour", "da")
#: Cells for no amount or no name.
_NOTHING: Final = ("--", "-", "—")
#: Kinds of values that are not names of nodes.
_NO_NAMES: Final = ("instant", "clock", "currency", "address", "email")
#: Least share of the rows of a column whose names meet nodes.
_LEAST: Final = 0.2
_HALF: Final = 0.5
_MOST_WORDS: Final = 10_000
_MAX_NODES: Final = 5
_FIELDS: Final = tuple(field.name for field in fields(Traffic))


def read_all(
    files: FrameOrPath | Sequence[FrameOrPath], nodes: Mapping[str, str], **options: Any
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Read the spend in one or several files or frames; return it, and the rows that were rejected.

    Raises
    ------
    InvalidRequest
        If two files are the same, or have different amounts of a node and day.

    Warns
    -----
    InputWarning
        If rows without a day are in several files, and count several times.
    """
    listed: Sequence[Any] = files if isinstance(files, list | tuple) else [files]
    if any(is_same(*pair) for pair in combinations(listed, 2)):
        raise InvalidRequest("spend: two of the files are the same, so that their spend would count twice")
    parts = [read_spend(file, nodes=nodes, **options) for file in listed]
    rejected = pd.concat([rows for _, rows in parts], ignore_index=True)
    if len(rejected):
        journeys.warn_of_rejected(rejected)
    names = [Path(file).name if isinstance(file, str | Path) else "a frame" for file in listed]
    spend = _once(names, [rows for rows, _ in parts])
    has_dates = "date" in spend.columns and spend["date"].notna().all()
    return spend if has_dates else spend.drop(columns="date", errors="ignore"), rejected


def read_spend(
    file: FrameOrPath,
    *,
    nodes: Mapping[str, str] | None = None,
    columns: Mapping[str, Named] | None = None,
    currency: str | None = None,
    formats: Formats = Formats(),  # noqa: B008  (frozen)
    ignore_case: bool = True,
    aliases: Aliases | None = None,
    tables: list[OwnTable] | None = None,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Read the spend of nodes from a file; return it, and the rejected rows.

    It has ``node_id``, ``spend``, ``currency`` if known, and ``date`` if each row is that of a day.

    Parameters
    ----------
    file : DataFrame or path
        One row per amount.
    nodes : mapping of str to str, optional
        Types of the nodes of touchpoints by their ids. The names of nodes in the file are those of the
        columns whose values meet them most.
    columns : mapping of str to str or list of str, optional
        Column by role. ``spend_node`` has those of nodes.
    currency : str, optional
        Currency of amounts that have none.
    formats : Formats
        How the file is written.
    ignore_case : bool, default True
        Whether names that differ by case only are one.
    aliases : Aliases, optional
        Present names of nodes by former ones.
    tables : list of OwnTable, optional
        The table of the file is added to it.

    Raises
    ------
    InvalidRequest
        If no columns look like the node and the amount, or every name meets several nodes.

    Warns
    -----
    InputWarning
        If names meet no node or several, or the file has no rows.
    """
    named = dict(columns or {})
    # Columns that are named for the nodes of touchpoints are found by their values.
    named.pop("node", None)
    if "spend_node" in named:
        named["node"] = named.pop("spend_node")
    table = OwnTable(scratch.open_database(), file, "spend", formats)
    if tables is not None:
        tables.append(table)
    if "currency" in named and named["currency"] not in table.header:
        # It is that of the conversions.
        named.pop("currency")
    tree = Tree(nodes or {}, ignore_case=ignore_case)
    _replace_signs(table)
    node = _node_of(table, tree, named)
    _leave_out_totals(table, node, tree)
    take_node(table, node)
    if len(node) > 1:
        table.require_any(node)
    amount = _amount_of(table, named, node)
    unit, code = find_currency(table, named, amount), journeys.checked_currency(currency)
    know_currencies(table, unit, code)
    take_number(table, "spend", amount, minimum=0)
    take_currency(table, unit, code)
    day = _day_of(table, node[-1])
    if day is not None:
        take_date(table, [day])
    rows, rejected = table.read(may_be_empty=True)
    if not rows.num_rows:
        warn(f"{table.name} has no rows, so that no spend is known")
    if ignore_case:
        rows = merge_case(rows, name=table.name)
    rows = rows if aliases is None else aliases.renamed(rows)
    kept = rows.select([name for name in ("spend", "currency", "date") if name in rows.column_names])
    node_ids, places = _placed(rows, tree, table.platform)
    spend = to_pandas(kept.add_column(0, "node_id", pa.array(node_ids, pa.string())))
    if day is not None:
        # Text, since a day is that of any time zone.
        spend["date"] = spend["date"].dt.strftime("%Y-%m-%d").astype(TEXT)
    if tree.types:
        _say_places(table, spend, places, tree)
    if table.note:
        warn(table.note)
    return spend, rejected


# -- columns


def _replace_signs(table: OwnTable) -> None:
    """Write 0 for the dashes with which reports say that nothing was spent."""
    for name, kind in table.types.items():
        if kind == "VARCHAR" and evidence.weight("spend", name) > 0:
            word, column = table.word(name), sources.quoted(name)
            spent = f"CASE WHEN {word} IN {_NOTHING} THEN '0' ELSE {column} END AS {column}"
            table.replace_rows(f"SELECT * REPLACE ({spent}) FROM {table.relation}")


def _node_of(table: OwnTable, tree: Tree, named: Mapping[str, Named]) -> list[str]:
    """Return the columns of a node: those named, else those whose values meet the known nodes most."""
    columns = [
        each
        for each in table.profile.values()
        if each.filled
        and not any(map(each.holds, _NO_NAMES))
        and (each.holds("long") or not each.holds("amount"))
    ]
    campaigns = [each.name for each in columns if evidence.names_level("campaign", each.name)]
    if "node" in named or not tree.types:
        return find_node(table, named, required=not campaigns, called="spend_node") or campaigns[:1]
    met = [_meeting(table, each.name, tree) for each in columns]
    deep = [each for each in met if each.share >= _LEAST or (each.share and each.name in campaigns)]
    if not deep and not campaigns:
        whole = sorted((each for each in met if each.sources), key=lambda each: -each.sources)
        return find_node(table, {}, required=not whole, called="spend_node") or [whole[0].name]
    deep.sort(key=lambda each: (round(each.share, 2), each.depth, each.name in campaigns))
    last = deep[-1].name if deep else campaigns[0]
    above = [
        each
        for each in met
        if each.name != last and (each.above >= _HALF or evidence.names_level("medium", each.name))
    ]
    return [*(each.name for each in sorted(above, key=lambda each: each.position)), last]


class _Meeting(NamedTuple):
    """What the values of a column are among the nodes of touchpoints.

    Attributes
    ----------
    name : str
        Its name.
    share, sources, above : float
        Shares of its rows whose values meet nodes, whole sources, and names that nodes are below.
    depth, position : float
        Mean depth of the nodes and mean level of the names.
    """

    name: str
    share: float
    sources: float
    above: float
    depth: float
    position: float


def _meeting(table: OwnTable, name: str, tree: Tree) -> _Meeting:
    """Compare the values of a column with nodes."""
    word = table.word(name)
    words = table.connection.execute(
        f"SELECT {word}, count(*) FROM {table.relation} WHERE {word} IS NOT NULL GROUP BY 1 "
        f"ORDER BY 2 DESC, 1 LIMIT {_MOST_WORDS}"
    ).fetchall()
    places = [tree.place([word]) for word, _ in words]
    levels = [tree.position(word) for word, _ in words]
    depths = [tree.depth(each.nodes[0]) if each.nodes and not each.is_source else 0 for each in places]
    counts = [int(count) for _, count in words]

    def total(values: Iterable[float]) -> float:
        return sum(value * count for value, count in zip(values, counts, strict=True))

    met, above, rows = total(map(bool, depths)), total(at is not None for at in levels), sum(counts)
    sources = total(each.is_source and each.node is not None for each in places)
    depth, position = total(depths) / max(1, met), total(at or 0 for at in levels) / max(1, above)
    return _Meeting(name, met / rows, sources / rows, above / rows, depth, position)


def _is_total(word: str) -> str:
    """Return SQL for whether a word names the sum of other rows."""
    return f"coalesce(regexp_full_match(lower({word}), {sources.literal(evidence.TOTAL)}), false)"


def _leave_out_totals(table: OwnTable, node: Sequence[str], tree: Tree) -> None:
    """Leave out rows with the sum of others: those named total, and those of reports without a campaign."""
    source, last = table.source, table.word(node[-1])
    query = f"SELECT DISTINCT {last} FROM {source.relation} WHERE {_is_total(last)}"
    words = [word for (word,) in table.connection.execute(query).fetchall() if tree.place([word]).nodes]
    is_kept = f"coalesce({last} IN ({', '.join(map(sources.literal, ['', *words]))}), false)"
    names = dict.fromkeys([source.columns[0], *node])
    is_total = " OR ".join(_is_total(source.word(name)) for name in names)
    is_empty = " AND ".join(f"coalesce({source.word(name)} IN {_NOTHING}, true)" for name in node)
    where = f"(({is_total}) AND NOT {is_kept})" + (f" OR ({is_empty})" if table.platform else "")
    count = table.scalar(f"count(*) FILTER ({where})")
    if count:
        table.replace_rows(f"SELECT * FROM {source.relation} WHERE NOT ({where})")
        table.say(f"{counted(count, 'rows')} of totals left out")


def _amount_of(table: OwnTable, named: Mapping[str, Named], node: Sequence[str]) -> str:
    """Return the column of the amounts: by its name, or as the only one of amounts, or of decimals.

    Raises
    ------
    InvalidRequest
        If the names of two columns speak for it alike and their values differ, or no column has amounts.
    """
    amounts = [each for each in table.profile.values() if each.holds("amount") and each.name not in node]
    ranked = evidence.ranked(amounts, "spend", ("amount",))
    likely = [name for points, name in ranked if points > 0]
    if candidates(table, "currency"):
        # Beside a currency, an amount in that of its name was converted.
        likely = [name for name in likely if evidence.currency_at_end(name)[1] is None] or likely
    if not likely:
        others = {name for points, name in ranked if points == 0 and not NO_AMOUNT.match(name.lower())}
        decimals = [each.name for each in amounts if each.has_decimals and each.name in others]
        money = [name for name in others if evidence.currencies_in(name)]
        likely = next(([*names] for names in (money, decimals, others) if len(names) == 1), [])
    periods = [each.name for each in amounts if re.search(r"\d", each.name)]
    if not likely and "spend" not in named and len(periods) == len(amounts) > 1:
        # A column for each period.
        listed = ", ".join(map(sources.quoted, periods))
        table.replace_rows(f"UNPIVOT {table.relation} ON {listed} INTO NAME period VALUE spend")
        return "spend"
    if "spend" in named or not likely:
        return str(find_column(table, "spend", named))
    for other in likely[1:2]:
        if total := [name for name in likely[:2] if name in table.amounts.money.totals.outermost]:
            return total[0]
        check_equal(table, "spend", [likely[0], other])
    return likely[0]


def _day_of(table: OwnTable, node: str) -> str | None:
    """Return the column with the day of each row; None if a row has none, or is of several days."""
    names = [
        name
        for name, each in table.profile.items()
        if each.filled
        and evidence.weight("period", name) <= 0
        and (each.holds("instant") or folded(name) in _DAYS)
    ]
    starts, ends = ([name for name in names if evidence.weight(role, name) > 0] for role in ("start", "end"))
    days = [name for name in names if name not in {*starts, *ends}]
    days.sort(key=lambda name: (folded(name) not in _DAYS, -evidence.weight("date", name)))
    if starts and ends:
        words = [table.word(each[0]) for each in (starts, ends)]
        days += starts[:1] if table.scalar(f"bool_and({words[0]} = {words[1]})") else []
    shares = {day: table.instants.share_in(day, beside=node) for day in days}
    whole = [day for day, share in shares.items() if share == 1]
    # Days that cannot be read at all are refused, with the way to write them.
    return next(
        iter(whole or [day for day in days if not shares[day] and table.profile[day].holds("instant")]), None
    )


# -- places


def _placed(rows: pa.Table, tree: Tree, platform: str) -> tuple[list[str], dict[str, Place]]:
    """Return the node of each row, and what the names meet that have none; they are nodes of their own."""
    named = [name for name in _FIELDS if name in rows.column_names]
    found: dict[tuple[str | None, ...], str] = {}
    places: dict[str, Place] = {}
    keys = list(zip(*(rows[name].to_pylist() for name in named), strict=True))
    for key, chain in zip(keys, journeys.chains_of(rows), strict=True):
        label = found.get(key, chain[-1].node_id)
        if key not in found and label not in tree.types:
            words = json.loads(key[0] or "") if named == ["levels"] else key
            place = tree.place([word for word in words if word and word not in _NOTHING], platform)
            label = place.node or (f"{platform}/{label}" if platform else label)
            places |= {} if label in tree.types else {label: place}
        found[key] = label
    return [found[key] for key in keys], places


def _say_places(table: OwnTable, spend: pd.DataFrame, places: Mapping[str, Place], tree: Tree) -> None:
    """Say which amounts are of whole sources, and warn of those that are on no node.

    Raises
    ------
    InvalidRequest
        If several nodes have the names of all spend.
    """
    amounts = spend[spend["spend"] > 0].groupby("node_id", sort=False)["spend"].sum()
    said = {node: f"{node!r} with {cents(amounts[node])}" for node in amounts.index if node in places}
    whole = [words for node, words in said.items() if places[node].is_source and places[node].node]
    several = [
        f"{words} ({' or '.join(nodes)})"
        for node, words in said.items()
        if len(nodes := places[node].nodes) > 1
    ]
    unknown = [node for node in said if not places[node].nodes]
    for node in unknown[:_MAX_NODES]:
        is_total = len(amounts) > 2 and math.isclose(amounts[node], amounts.drop(node).sum(), rel_tol=1e-6)
        said[node] += " (the sum of the others: a total?)" if is_total else closest(node, tree.types)
    if whole:
        table.say(f"spend of whole sources: {_listed(whole)}")
    advice = (
        f"{_listed(several)}. Add a column of platforms or sources; if a column has whole nodes, name it "
        "with reading=Reading(columns={'spend_node': COLUMN})"
    )
    if several and len(several) == len(amounts):
        raise InvalidRequest(
            f"spend: in {table.name}, several nodes have the names of all spend: {advice}", field="spend_node"
        )
    if several:
        warn(
            f"{table.name} has spend of names that several nodes have, which get rows of their own: {advice}"
        )
    if unknown:
        listed = _listed([said[node] for node in unknown])
        warn(
            f"{table.name} has spend of nodes without a touchpoint, which get rows of their own: {listed}. "
            "Leave out totals, and write names as in the touchpoints"
        )


def _listed(said: Sequence[str]) -> str:
    return ", ".join(said[:_MAX_NODES]) + and_others(len(said), _MAX_NODES)


# -- several tables


def _once(names: Sequence[str], parts: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Concatenate tables of spend, without nodes and days that an earlier one has with the same amounts."""
    every = pd.concat(parts, ignore_index=True)
    file = np.repeat(range(len(parts)), [len(part) for part in parts])
    day, money = (every[name].fillna("") if name in every else "" for name in ("date", "currency"))
    keyed = pd.DataFrame({"node": every["node_id"], "day": day, "file": file, "money": money})
    sums = every["spend"].groupby([keyed[name] for name in keyed]).sum().reset_index()
    sums["said"] = (sums["spend"].map(cents) + " " + sums["money"]).str.strip()
    said = sums.groupby(["node", "day", "file"])["said"].agg(" and ".join).reset_index()
    first = said.groupby(["node", "day"])[["file", "said"]].transform("first")
    later, is_equal = said["file"] != first["file"], said["said"] == first["said"]
    for row in said[later & ~is_equal & (said["day"] != "")].index[:1]:
        node, on, at, own = said.loc[row]
        raise InvalidRequest(
            f"spend: {node!r} has {first['said'][row]} on {on} in {names[first['file'][row]]} and {own} in "
            f"{names[at]}; leave out one of them",
            field="spend",
        )
    repeated = pd.MultiIndex.from_frame(said.loc[later & is_equal, ["node", "day", "file"]])
    is_repeated = pd.MultiIndex.from_frame(keyed[["node", "day", "file"]]).isin(repeated)
    is_once = is_repeated & (keyed["day"] != "")
    if is_once.any():
        rows = counted(is_once.sum(), "rows")
        warn(f"spend: {rows} of the same node and day in several files; each counts once")
    if is_twice := int((is_repeated & ~is_once).sum()):
        warn(
            f"spend: {counted(is_twice, 'rows')} of the same node and amount in several files, without a "
            "day; each counts. If reports overlap, leave out one of them"
        )
    return every[~is_once]
