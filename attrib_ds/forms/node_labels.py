"""Names of traffic-source nodes as people read them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from attrib_ds.api.nodes import list_nodes

if TYPE_CHECKING:
    from collections.abc import Iterable

    from attrib_ds.project import Project


@dataclass(frozen=True)
class NodeLabel:
    """A node as it is shown.

    Parameters
    ----------
    name : str
        Its name.
    ancestors : tuple of str, default ()
        Names of the nodes above it, the root first.
    """

    name: str
    ancestors: tuple[str, ...] = ()


_UNKNOWN: Final = NodeLabel("unknown")


class NodeLabels:
    """Labels of the nodes of a project; the tree is read again only when a new node appears.

    Parameters
    ----------
    project : Project
        From :func:`attrib_ds.connect`.
    """

    def __init__(self, project: Project) -> None:
        self._project = project
        self._labels: dict[str, NodeLabel] = {}

    def of(self, ids: Iterable[str | None]) -> dict[str | None, NodeLabel]:
        """Return the labels of nodes by id; a node that is not in the tree has its id as its name.

        Raises
        ------
        AttribError
            If the tree cannot be read.
        """
        wanted = set(ids)
        missing = {id for id in wanted if id is not None} - self._labels.keys()
        if missing:
            self._labels = {id: NodeLabel(id) for id in missing} | self._labels | self._read()
        return {id: _UNKNOWN if id is None else self._labels[id] for id in wanted}

    def _read(self) -> dict[str, NodeLabel]:
        nodes = list_nodes(self._project)
        names = dict(zip(nodes["_id"], nodes["name"].fillna(nodes["_id"]), strict=True))
        return {
            id: NodeLabel(names[id], tuple(names.get(ancestor, ancestor) for ancestor in path))
            for id, path in zip(nodes["_id"], nodes["path"], strict=True)
        }
