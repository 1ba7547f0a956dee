"""Requests about mirrors of projects, which only the embedded service accepts."""

from typing import Annotated, Any, TypeAlias

from attrib_ds.contract.request import ProjectRequest
from attrib_ds.contract.rule import choice

Mirrored: TypeAlias = Annotated[str, choice("users", "event-types", "campaigns")]


class BeginMirror(ProjectRequest):
    """Make the project a mirror of a project of another service."""

    source: str


class KeepMirror(ProjectRequest):
    """Store the progress of the mirror."""

    progress: dict[str, Any]


class MirrorRecords(ProjectRequest):
    """Store records of the source that ``LoadRecords`` does not accept, in the schema of their resource."""

    resource: Mirrored
    records: Any
