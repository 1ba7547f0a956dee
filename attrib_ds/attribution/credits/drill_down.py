"""Drill-down: credits of the children of one node in the tree."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrib_ds.attribution.credits.returns import summed_into
from attrib_ds.attribution.paths.tree import TREE, parents_of
from attrib_ds.errors import InvalidRequest
from attrib_ds.records.input_frames import read_frame

if TYPE_CHECKING:
    import pandas as pd

    from attrib_ds.records.input_frames import Frame


def drill_down(credits: Frame, nodes: Frame, node_id: str | None = None) -> pd.DataFrame:
    """Divide the credit of a node among its children.

    Parameters
    ----------
    credits : DataFrame
        From :func:`attribute`, with paths at the level of the touchpoints (without ``level``).
    nodes : DataFrame
        From :func:`attrib_ds.list_nodes`: ``_id``, ``parentId``, ``type``, ``name``.
    node_id : str, optional
        Node to drill into; by default the whole tree, divided among the nodes without a parent.

    Returns
    -------
    DataFrame
        One row per model, child and currency, with the columns of ``credits``. A child's row includes all its
        descendants; credit of the node itself is in a row of its own, so the rows of a model sum to the
        credit of the node. ``share`` remains the fraction of all credited conversions. Interval columns are
        dropped, because bounds do not add up. Nodes outside the tree and the unattributed conversions are
        listed only for the whole tree.

    Raises
    ------
    InvalidRequest
        If a column is missing, or ``node_id`` is not in ``nodes``.

    Examples
    --------
    >>> import pandas as pd
    >>> import attrib_ds as at
    >>> sequences = pd.DataFrame({"path": ["shoes > brand > boots"], "n": [3]})
    >>> paths = at.Paths.from_sequences(sequences, path="path", conversions="n")
    >>> credits = at.attribute(paths, "linear")
    >>> nodes = pd.DataFrame({"_id": ["brand", "shoes", "boots"], "parentId": [None, "brand", "brand"],
    ...     "type": ["campaign", "adset", "adset"], "name": ["Brand", "Shoes", "Boots"]})
    >>> at.drill_down(credits, nodes)[["node_id", "conversions"]]
      node_id  conversions
    0   brand          3.0
    >>> at.drill_down(credits, nodes, "brand")["node_id"].tolist()
    ['boots', 'brand', 'shoes']
    """
    nodes = read_frame("nodes", nodes, TREE)
    credits = read_frame("credits", credits, ("node_id",))
    parents = parents_of(nodes)
    if node_id is not None and node_id not in parents:
        raise InvalidRequest.choice("node_id", node_id, [node for node in parents if node is not None])
    found = ((node, _child(node, node_id, parents)) for node in parents)
    inside = {node: child for node, child in found if child is not None}
    if node_id is None:
        return summed_into(credits, inside, nodes)
    return summed_into(credits[credits["node_id"].isin(list(inside))], inside, nodes)


def _child(node: str, top: str | None, parents: dict[str, str | None]) -> str | None:
    """Return the child of ``top`` that a node belongs to, ``top`` for itself, or None outside its branch."""
    current: str | None = node
    # The bound ends the walk if the frame contains a loop.
    for _ in range(len(parents)):
        if current is None or current == top or parents.get(current) == top:
            return current
        current = parents.get(current)
    return None
