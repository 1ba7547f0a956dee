"""Requests about mirrors of projects, which only the embedded service knows."""

from typing import Annotated, Any, TypeAlias

from attrib_ds.contract.request import ProjectRequest
from attrib_ds.contract.rule import choice

Mirrored: TypeAlias = Annotated[str, choice("users", "event-types", "campaigns")]


class BeginMirror(ProjectRequest):
    """The project as a mirror of the same project elsewhere."""

    source: str


class KeepMirror(ProjectRequest):
    """How far the mirror has come."""

    progress: dict[str, Any]


class MirrorRecords(ProjectRequest):
    """Records of the project elsewhere, that the loader does not know, in the schema of their resource."""

    resource: Mirrored
    records: Any
