"""Traffic-source nodes, which receive credit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrib_ds.frames import to_pandas

if TYPE_CHECKING:
    import pandas as pd

    from attrib_ds.project import Project


def list_nodes(project: Project) -> pd.DataFrame:
    """List the tree of traffic-source nodes.

    Parameters
    ----------
    project : Project
        From :func:`attrib_ds.connect`.

    Returns
    -------
    DataFrame
        One row per node: ``_id``, ``parentId`` (null at a root), ``type`` (``channel``, ``integration``,
        ``campaign``, ``adset``, ``ad``, ``keyword`` or ``referrer``), ``name``, ``channel`` (str), ``path``
        (list of ancestor ids, the root first) and the rest of the node's properties.

    Examples
    --------
    >>> from attrib_ds import list_nodes, sample_project
    >>> {"_id", "parentId", "type", "name"} <= set(list_nodes(sample_project()).columns)
    True
    """
    return to_pandas(project.send("list_nodes").table)
