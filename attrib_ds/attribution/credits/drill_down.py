"""Drill-down: credits of the children of one node of the tree."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrib_ds.attribution.credits.returns import summed_into
from attrib_ds.attribution.paths.tree import parents_of, require_columns
from attrib_ds.errors import InvalidRequest

if TYPE_CHECKING:
    import pandas as pd


def drill_down(credits: pd.DataFrame, nodes: pd.DataFrame, node_id: str | None = None) -> pd.DataFrame:
    """Divide the credit of a node among the nodes right below it.

    Parameters
    ----------
    credits : DataFrame
        From :func:`attribute`, of nodes as they were touched (without ``level``).
    nodes : DataFrame
        From :func:`attrib_ds.list_nodes`: ``_id``, ``parentId``, ``type``, ``name``.
    node_id : str, optional
        The node to look into; by default the whole tree, whose nodes without a parent are shown.

    Returns
    -------
    DataFrame
        As ``credits``, one row per model, node right below and currency, with everything further below
        summed into it; what is credited to the node itself has a row of its own. Over its rows, a model's
        credits are those of the node. ``share`` stays that of all credited conversions. Intervals are left
        out, because bounds do not add up. A node that is not in the tree belongs to no branch: it is shown
        for the whole tree, as are the conversions that no touchpoint led to.

    Raises
    ------
    InvalidRequest
        If columns are missing or there is no such node.

    Examples
    --------
    >>> import pandas as pd
    >>> from attrib_ds import Paths, attribute, drill_down
    >>> sequences = pd.DataFrame({"path": ["shoes > brand > boots"], "n": [3]})
    >>> credits = attribute(Paths.from_sequences(sequences, path="path", conversions="n"), "linear")
    >>> nodes = pd.DataFrame({"_id": ["brand", "shoes", "boots"], "parentId": [None, "brand", "brand"],
    ...     "type": ["campaign", "adset", "adset"], "name": ["Brand", "Shoes", "Boots"]})
    >>> drill_down(credits, nodes)[["node_id", "conversions"]]
      node_id  conversions
    0   brand          3.0
    >>> drill_down(credits, nodes, "brand")["node_id"].tolist()
    ['boots', 'brand', 'shoes']
    """
    require_columns(nodes, "nodes", ("_id", "parentId", "type", "name"))
    require_columns(credits, "credits", ("node_id",))
    parents = parents_of(nodes)
    if node_id is not None and node_id not in parents:
        raise InvalidRequest.choice("node_id", node_id, [each for each in parents if each is not None])
    found = ((node, _below(node, node_id, parents)) for node in parents)
    inside = {node: each for node, each in found if each is not None}
    if node_id is None:
        return summed_into(credits, inside, nodes)
    return summed_into(credits[credits["node_id"].isin(list(inside))], inside, nodes)


def _below(node: str, top: str | None, parents: dict[str, str | None]) -> str | None:
    """Return the ancestor of a node right below another, itself where it is one of the two, or None."""
    current: str | None = node
    # A tree is no deeper than it has nodes; the bound ends the walk on a frame that holds a loop.
    for _ in range(len(parents)):
        if current is None or current == top or parents.get(current) == top:
            return current
        current = parents.get(current)
    return None
