"""Ancestors and names of nodes in a frame of the tree."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import ibis
import pandas as pd
import pyarrow as pa
from pandas.api.types import is_numeric_dtype

from attrib_ds.errors import InvalidRequest
from attrib_ds.records.dtypes import TEXT
from attrib_ds.schema import NODE_TYPES

if TYPE_CHECKING:
    from collections.abc import Mapping

    import ibis.expr.types as ir


#: Columns of a frame of the tree.
TREE: Final = ("_id", "parentId", "type", "name")

#: Name of the row without a node, which has the conversions that no node is credited with.
UNATTRIBUTED: Final = "unattributed"


def ancestors_at(nodes: pd.DataFrame, level: str) -> dict[str, str]:
    """Map each node to its nearest ancestor of a type, itself included, or else to itself.

    The level ``"channel"`` maps a node to the name of its channel, if it has one: the nodes of a channel are
    in several trees.
    """
    if level not in NODE_TYPES:
        raise InvalidRequest.choice("level", level, NODE_TYPES)
    parents = parents_of(nodes)
    types = dict(zip(identifiers(nodes["_id"]), nodes["type"], strict=True))
    ancestors: dict[str, str] = {}
    for node in parents:
        current: Any = node
        # A tree is no deeper than its number of nodes; the bound ends the walk if the frame has a cycle.
        for _ in range(len(parents)):
            if current is None or types.get(current) == level:
                break
            current = parents.get(current)
        ancestors[node] = current if current is not None and types.get(current) == level else node
    if level == "channel" and "channel" in nodes.columns:
        named = nodes.loc[nodes["channel"].notna(), ["_id", "channel"]]
        ancestors |= dict(zip(identifiers(named["_id"]), named["channel"], strict=True))
    return ancestors


def parents_of(nodes: pd.DataFrame) -> dict[str, str | None]:
    """Return the parent of each node; None for roots."""
    return dict(zip(identifiers(nodes["_id"]), identifiers(nodes["parentId"]), strict=True))


def identifiers(ids: pd.Series[Any]) -> list[Any]:
    """Return ids as text, as in credits, and None for missing ones.

    Integers stored as floats, because some are missing, lose their ``.0``.
    """
    if is_numeric_dtype(ids):
        ids = ids.astype("Int64").astype("string")
    return list(ids.astype(object).where(ids.notna(), None))


def nearest_of(nodes: pd.DataFrame, chosen: set[str]) -> pd.Series[Any]:
    """Return the nearest of the chosen nodes at or above each node; missing if there is none."""
    parents = parents_of(nodes)

    def find(node: Any) -> Any:
        for _ in range(len(parents)):
            if node is None or node in chosen:
                break
            node = parents.get(node)
        return node if node in chosen else None

    return nodes["_id"].map(find).astype(TEXT)


def replaced(node_ids: pd.Series[Any], by: Mapping[str, str]) -> pd.Series[Any]:
    """Replace node ids by a mapping; ids that are not in it, and missing ones, stay."""
    return node_ids.map(lambda node: by.get(node, node), na_action="ignore").astype(TEXT)


def names_of(node_ids: pd.Series[Any], names: Mapping[str, Any]) -> pd.Series[Any]:
    """Return the name of each node, its id if it has none, and "unattributed" for a missing id.

    A node that is itself named "unattributed" gets its id behind the name, to be told apart.
    """

    def name(node: Any) -> str:
        named = names.get(node)
        shown = node if pd.isna(named) else named
        return f"{shown} ({node})" if shown == UNATTRIBUTED else str(shown)

    return node_ids.map(name, na_action="ignore").astype(TEXT).fillna(UNATTRIBUTED)


def lazy(frame: pd.DataFrame) -> ir.Table:
    """Return a small frame as a lazy table, to join with tables of any engine."""
    return ibis.memtable(pa.Table.from_pandas(frame, preserve_index=False))
