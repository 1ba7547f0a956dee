"""The spend of campaigns in users' own files, put on the nodes of the touchpoints."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import combinations
from pathlib import Path
from typing import Any, Final

import duckdb
import pandas as pd
import pyarrow as pa

from attrib_ds.display import and_others, counted
from attrib_ds.errors import InvalidRequest, closest, warn
from attrib_ds.importers import formats as of_services
from attrib_ds.importers import journeys, own_table
from attrib_ds.importers.aliases import Aliases
from attrib_ds.importers.columns import COMMON_NAMES, Named, folded
from attrib_ds.importers.content import evidence
from attrib_ds.importers.own_paths import merge_case
from attrib_ds.importers.spend_nodes import Place, Tree
from attrib_ds.records import sources, text_files
from attrib_ds.records.frames import TEXT, FrameOrPath, to_pandas
from attrib_ds.traffic.sources import Traffic

#: Names, folded, of columns with the day of a row.
_DAYS: Final = ("day", "byday", "date", "gregoriandate", "tag", "datum", "jour", "da")
#: Cells for no amount or no name.
_NOTHING: Final = "('--', '-', '—')"
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
    if any(own_table.is_same(*pair) for pair in combinations(listed, 2)):
        raise InvalidRequest("spend: two of the files are the same, so that their spend would count twice")
    parts = [read_spend(file, nodes=nodes, **options) for file in listed]
    rejected = pd.concat([rows for _, rows in parts], ignore_index=True)
    if len(rejected):
        journeys.warn_of_rejected(rejected)
    _warn_of_overlap([rows for rows, _ in parts if "date" not in rows.columns])
    names = [
        Path(file).name if isinstance(file, str | Path) else f"table {number}"
        for number, file in enumerate(listed, start=1)
    ]
    every = pd.concat(_once(names, [rows for rows, _ in parts]), ignore_index=True)
    has_dates = "date" in every.columns and every["date"].notna().all()
    return every if has_dates else every.drop(columns="date", errors="ignore"), rejected


def read_spend(
    file: FrameOrPath,
    *,
    nodes: Mapping[str, str] | None = None,
    columns: Mapping[str, Named] | None = None,
    currency: str | None = None,
    formats: own_table.Formats = own_table.Formats(),  # noqa: B008  (frozen)
    ignore_case: bool = True,
    aliases: Aliases | None = None,
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
        Column by role. ``spend_node`` has those of nodes; ``node`` has those of the touchpoints' nodes, which
        are used otherwise if the file has them too.
    currency : str, optional
        Currency of amounts that have none.
    formats : Formats
        How the file is written.
    ignore_case : bool, default True
        Whether names that differ by case only are one.
    aliases : Aliases, optional
        Present names of nodes by former ones.

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
    table = own_table.OwnTable(duckdb.connect(), file, "spend", formats)
    tree = Tree(nodes or {}, ignore_case=ignore_case)
    of_touchpoints = named.pop("node", None)
    if "spend_node" in named:
        named["node"] = named.pop("spend_node")
    elif of_touchpoints is not None:
        listed = [of_touchpoints] if isinstance(of_touchpoints, str) else of_touchpoints
        if {*listed} <= {*table.source.columns}:
            named["node"] = of_touchpoints
    _replace_signs(table)
    node = _node_of(table, tree, named)
    _leave_out_totals(table, node, tree)
    table.take_node(node)
    if len(node) > 1:
        table.require_any(node)
    amount = _amount_of(table, named, node)
    table.take_number("spend", amount, minimum=0)
    table.take_currency(table.find_currency(named, amount), journeys.checked_currency(currency))
    day = _day_of(table)
    if day is not None:
        table.take_date([day])
    rows, rejected = table.read(may_be_empty=True)
    if not rows.num_rows:
        warn(f"{table.name} has no rows, so that no spend is known")
    if ignore_case:
        rows = merge_case(rows, name=table.name)
    rows = rows if aliases is None else aliases.renamed(rows)
    kept = rows.select([name for name in ("spend", "currency", "date") if name in rows.column_names])
    placed = _Placed(rows, tree, table.platform)
    spend = to_pandas(kept.add_column(0, "node_id", pa.array(placed.node_ids, pa.string())))
    if day is not None:
        # Text, since a day is that of any time zone.
        spend["date"] = spend["date"].dt.strftime("%Y-%m-%d").astype(TEXT)
    if tree:
        placed.say(spend, table)
    if table.note:
        warn(table.note)
    return spend, rejected


# -- columns


def _replace_signs(table: own_table.OwnTable) -> None:
    """Write 0 for the dashes with which reports say that nothing was spent."""
    names = [
        *table.with_names(COMMON_NAMES["spend"]),
        *(name for name in table.source.columns if evidence.weight("spend", name) > 0),
    ]
    texts = [name for name in dict.fromkeys(names) if table.source.types[name] == "VARCHAR"]
    if texts:
        replaced = ", ".join(
            f"CASE WHEN {table.source.word(name)} IN {_NOTHING} THEN '0' ELSE {sources.quoted(name)} END AS "
            f"{sources.quoted(name)}"
            for name in texts
        )
        _select(table, f"SELECT * REPLACE ({replaced}) FROM {table.source.relation}")


def _select(table: own_table.OwnTable, query: str) -> None:
    relation = text_files.replace_table(table.connection, table.source.relation, query)
    table.source = sources.described(table.connection, relation, table.source.unreadable)
    table.__dict__.pop("profile", None)


def _node_of(table: own_table.OwnTable, tree: Tree, named: Mapping[str, Named]) -> list[str]:
    """Return the columns of a node: those named, else those whose values meet the known nodes most."""
    if "node" in named:
        return table.find_node(named, called="spend_node")
    columns = [
        each
        for each in table.profile.values()
        if each.filled
        and not any(each.holds(kind) for kind in _NO_NAMES)
        and (each.holds("long") or not each.holds("amount"))
    ]
    campaigns = [each.name for each in columns if evidence.names_level("campaign", each.name)]
    met = [_Meeting.of(table, each.name, tree) for each in columns] if tree else []
    deep = [each for each in met if each.share >= _LEAST or (each.share and each.name in campaigns)]
    if deep:
        last = max(deep, key=lambda each: (round(each.share, 2), each.depth, each.name in campaigns)).name
    elif campaigns and tree:
        last = campaigns[0]
    elif by_name := table.find_node(
        {}, required=not (campaigns or any(each.sources for each in met)), called="spend_node"
    ):
        return by_name
    elif campaigns:
        return campaigns[:1]
    else:
        return [max(met, key=lambda each: each.sources).name]
    above = [
        each
        for each in met
        if each.name != last and (each.above > _HALF or evidence.names_level("medium", each.name))
    ]
    return [*(each.name for each in sorted(above, key=lambda each: each.position)), last]


@dataclass(frozen=True)
class _Meeting:
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

    @classmethod
    def of(cls, table: own_table.OwnTable, name: str, tree: Tree) -> _Meeting:
        """Compare the values of a column with nodes."""
        word = table.source.word(name)
        words = table.connection.execute(
            f"SELECT {word}, count(*) FROM {table.source.relation} WHERE {word} IS NOT NULL GROUP BY 1 "
            f"ORDER BY 2 DESC, 1 LIMIT {_MOST_WORDS}"
        ).fetchall()
        total = sum(count for _, count in words)
        places = [(tree.place([word]), count) for word, count in words]
        nodes = [(place, count) for place, count in places if place.nodes and not place.is_source]
        wholes = [count for place, count in places if place.is_source and place.node]
        levels = [(at, count) for word, count in words if (at := tree.position(word)) is not None]
        of_nodes, of_levels = (sum(count for _, count in found) for found in (nodes, levels))
        return cls(
            name,
            of_nodes / total,
            sum(wholes) / total,
            of_levels / total,
            sum(tree.depth(place.nodes[0]) * count for place, count in nodes) / max(1, of_nodes),
            sum(at * count for at, count in levels) / max(1, of_levels),
        )


def _leave_out_totals(table: own_table.OwnTable, node: Sequence[str], tree: Tree) -> None:
    """Leave out rows with the sum of others: those named total, and those of reports without a campaign."""
    source = table.source
    is_known = [
        sources.literal(word)
        for (word,) in table.connection.execute(
            f"SELECT DISTINCT {source.word(node[-1])} FROM {source.relation} WHERE "
            f"{of_services.is_total(source.word(node[-1]))}"
        ).fetchall()
        if tree.place([word]).nodes
    ]
    is_kept = f"coalesce({source.word(node[-1])} IN ({', '.join(is_known)}), false)" if is_known else "false"
    names = dict.fromkeys([source.columns[0], *node])
    is_total = " OR ".join(of_services.is_total(source.word(name)) for name in names)
    is_empty = " AND ".join(f"coalesce({source.word(name)} IN {_NOTHING}, true)" for name in node)
    where = f"(({is_total}) AND NOT {is_kept})" + (f" OR ({is_empty})" if table.platform else "")
    count = table.scalar(f"count(*) FILTER ({where})")
    if count:
        _select(table, f"SELECT * FROM {source.relation} WHERE NOT ({where})")
        table.say(f"{counted(count, 'rows')} of totals left out")


def _amount_of(table: own_table.OwnTable, named: Mapping[str, Named], node: Sequence[str]) -> str:
    """Return the column of the amounts: by its name, or as the only one of amounts, or of decimals."""
    column = table.find("spend", named, required=False)
    if column is None:
        amounts = [
            each
            for each in table.profile.values()
            if each.holds("amount")
            and each.name not in node
            and evidence.weight("spend", each.name) == 0
            and not own_table.NO_AMOUNT.match(each.name.casefold())
        ]
        found = [each.name for each in amounts if each.has_decimals] or [each.name for each in amounts]
        column = found[0] if len(found) == 1 else table.find("spend", named)
    return str(column)


def _day_of(table: own_table.OwnTable) -> str | None:
    """Return the column with the day of each row; None if a row has none, or is of several days."""
    names = [
        name
        for name, each in table.profile.items()
        if each.filled
        and evidence.weight("period", name) <= 0
        and (each.holds("instant") or (each.holds("count") and evidence.weight("date", name) > 0))
    ]
    starts, ends = ([name for name in names if evidence.weight(role, name) > 0] for role in ("start", "end"))
    days = [name for name in names if name not in {*starts, *ends}]
    days.sort(key=lambda name: (folded(name) not in _DAYS, -evidence.weight("date", name)))
    if starts and ends:
        words = [table.source.word(each[0]) for each in (starts, ends)]
        days += starts[:1] if table.scalar(f"bool_and({words[0]} = {words[1]})") else []
    shares = {day: table.share_of_instants(day) for day in days}
    whole = [day for day, share in shares.items() if share == 1]
    # Days that cannot be read at all are refused, with the way to write them.
    return next(iter(whole or [day for day, share in shares.items() if share == 0]), None)


# -- places


class _Placed:
    """The nodes of rows of spend, with the names that meet no node or several.

    Parameters
    ----------
    rows : pyarrow.Table
        With some of the fields of a traffic source.
    tree : Tree
        The nodes of touchpoints.
    platform : str
        Ad platform whose report the rows are, if one is known.
    """

    def __init__(self, rows: pa.Table, tree: Tree, platform: str) -> None:
        named = [name for name in _FIELDS if name in rows.column_names]
        self._tree = tree
        self.places: dict[str, Place] = {}
        self.node_ids: list[str] = []
        found: dict[tuple[str | None, ...], str] = {}
        keys = list(zip(*(rows[name].to_pylist() for name in named), strict=True))
        for key, chain in zip(keys, journeys.chains_of(rows), strict=True):
            if key not in found:
                label = chain[-1].node_id
                if label not in tree:
                    words = json.loads(key[0] or "") if named == ["levels"] else key
                    place = tree.place([word for word in words if word and word not in _NOTHING], platform)
                    label = place.node or (f"{platform}/{label}" if platform else label)
                    if label not in tree:
                        self.places[label] = place
                found[key] = label
            self.node_ids.append(found[key])

    def say(self, spend: pd.DataFrame, table: own_table.OwnTable) -> None:
        """Say which amounts are of whole sources, and warn of those that have no place.

        Raises
        ------
        InvalidRequest
            If several nodes have the names of all spend.
        """
        amounts = spend[spend["spend"] > 0].groupby("node_id", sort=False)["spend"].sum()
        without = {node: self.places[node] for node in amounts.index if node in self.places}
        if whole := [node for node, place in without.items() if place.is_source and place.node]:
            table.say(f"spend of whole sources: {_listed([_amount(node, amounts) for node in whole])}")
        several = {node: place for node, place in without.items() if len(place.nodes) > 1}
        said = [f"{_amount(node, amounts)} ({' or '.join(place.nodes)})" for node, place in several.items()]
        advice = "Add a column with the platform or the source, or name those of whole nodes with "
        advice += "columns={'spend_node': [...]}"
        if several and len(several) == len(amounts):
            raise InvalidRequest(
                f"spend: in {table.name}, the names of all spend are those of several nodes: "
                f"{_listed(said)}. {advice}",
                field="spend_node",
            )
        if several:
            warn(
                f"{table.name} has spend of names that several nodes have, which get rows of their own: "
                f"{_listed(said)}. {advice}"
            )
        unknown = [node for node in without if not without[node].nodes]
        _warn_of_unknown(unknown, amounts, table.name, list(self._tree))


def _amount(node: str, amounts: pd.Series[float]) -> str:
    return f"{node!r} with {amounts[node]:,.2f}"


def _listed(said: Sequence[str]) -> str:
    return ", ".join(said[:_MAX_NODES]) + and_others(len(said), _MAX_NODES)


def _warn_of_unknown(
    unknown: Sequence[str], amounts: pd.Series[float], name: str, known: Sequence[str]
) -> None:
    """Warn of nodes without a touchpoint; a row with the sum of the others is called a total."""
    if not unknown:
        return
    said = []
    for node in unknown[:_MAX_NODES]:
        is_total = len(amounts) > 2 and math.isclose(amounts[node], amounts.drop(node).sum(), rel_tol=1e-6)
        hint = " (the sum of the others: a total?)" if is_total else closest(node, known)
        said.append(f"{_amount(node, amounts)}{hint}")
    warn(
        f"{name} has spend of nodes without a touchpoint, which get rows of their own: "
        f"{', '.join(said)}{and_others(len(unknown), _MAX_NODES)}. "
        "Leave out totals, and write names as in the touchpoints",
    )


# -- several tables


def _once(names: Sequence[str], parts: Sequence[pd.DataFrame]) -> list[pd.DataFrame]:
    """Return tables of spend without the nodes and days that an earlier one has with the same amounts."""
    seen: dict[tuple[str, str], tuple[str, dict[str, float]]] = {}
    kept, count = [], 0
    for name, part in zip(names, parts, strict=True):
        if "date" not in part.columns:
            kept.append(part)
            continue
        keyed = part.assign(currency=part["currency"].fillna("") if "currency" in part.columns else "")
        sums = keyed.groupby(["node_id", "date", "currency"], sort=False)["spend"].sum().round(6)
        own: dict[tuple[str, str], dict[str, float]] = {}
        for row in sums.reset_index().itertuples(index=False):
            own.setdefault((row.node_id, row.date), {})[row.currency] = row.spend
        repeated = [key for key in own if key in seen]
        for key in repeated:
            if own[key] != seen[key][1]:
                before, after = (_amounts(each) for each in (seen[key][1], own[key]))
                raise InvalidRequest(
                    f"spend: {key[0]!r} has {before} on {key[1]} in {seen[key][0]} and {after} in {name}; "
                    "leave out those of one",
                    field="spend",
                )
        is_repeated = pd.MultiIndex.from_frame(part[["node_id", "date"]]).isin(repeated)
        count += int(is_repeated.sum())
        kept.append(part[~is_repeated])
        seen |= {key: (name, amounts) for key, amounts in own.items() if key not in seen}
    if count:
        rows = counted(count, "rows")
        warn(f"spend: {rows} of the same node, day and amount in several files; each counts once")
    return kept


def _amounts(by_currency: Mapping[str, float]) -> str:
    return " and ".join(f"{amount:,.2f} {currency}".strip() for currency, amount in by_currency.items())


def _warn_of_overlap(parts: Sequence[pd.DataFrame]) -> None:
    """Warn of spend without days that is in several files, since it counts twice."""
    every = pd.concat([pd.DataFrame(), *(spent.drop_duplicates() for spent in parts)], ignore_index=True)
    repeated = every[every.duplicated() & (every["spend"] > 0)] if len(every) else every
    if len(repeated):
        node, amount = repeated[["node_id", "spend"]].iloc[0]
        warn(
            f"spend: {len(repeated):,} {'row is' if len(repeated) == 1 else 'rows are'} in several files, "
            f"such as {amount:,.2f} for {node!r}, and count several times. If reports overlap, leave out "
            "those of one",
        )
