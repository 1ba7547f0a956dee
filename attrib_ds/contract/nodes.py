"""Requests about the traffic-source nodes (G-046)."""

from typing import Annotated, TypeAlias

from attrib_ds.contract.identifiers import PathText, Text
from attrib_ds.contract.request import ProjectRequest
from attrib_ds.contract.rule import choice
from attrib_ds.contract.values import Limit, Offset
from attrib_ds.schema import NODE_TYPES

NodeType: TypeAlias = Annotated[str, choice(*NODE_TYPES)]


class ListNodes(ProjectRequest):
    """List the nodes of a project's traffic-source tree."""

    type: NodeType | None = None
    search: Text | None = None
    offset: Offset = 0
    limit: Limit | None = None


class GetNode(ProjectRequest):
    """Get one node."""

    id: PathText
