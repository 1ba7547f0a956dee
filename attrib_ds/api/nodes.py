"""The tree of traffic-source nodes, which receive credit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrib_ds.records.frames import to_pandas

if TYPE_CHECKING:
    import pandas as pd

    from attrib_ds.project import Project


def list_nodes(
    project: Project,
    *,
    type: str | None = None,  # noqa: A002
    search: str | None = None,
    limit: int | None = None,
    offset: int = 0,
) -> pd.DataFrame:
    """List the tree of traffic-source nodes.

    Parameters
    ----------
    project : Project
        From :func:`attrib_ds.connect`.
    type : str, optional
        Only nodes of this type.
    search : str, optional
        Only nodes whose name or id contains this text; case does not matter.
    limit : int, optional
        Maximum number of rows; no limit by default.
    offset : int, default 0
        Number of rows to skip.

    Returns
    -------
    DataFrame
        One row per node, ordered by ``_id``: ``_id``, ``parentId`` (null at a root), ``type``
        (``channel``, ``integration``, ``campaign``, ``adset``, ``ad``, ``keyword`` or ``referrer``),
        ``name``, ``channel`` (str), ``path`` (list of ancestor ids, the root first) and the node's
        other properties.

    Raises
    ------
    InvalidRequest
        If an argument is not allowed; the message names it.

    Examples
    --------
    >>> import attrib_ds as at
    >>> {"_id", "parentId", "type", "name"} <= set(at.list_nodes(at.sample_project()).columns)
    True
    """
    answer = project.send("list_nodes", type=type, search=search, limit=limit, offset=offset)
    return to_pandas(answer.read())
