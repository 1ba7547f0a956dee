"""Requests about who is who, and about what is known of one person."""

# ruff: noqa: N815  (attributes carry the specification's names)

from typing import Annotated, TypeAlias

from attrib_ds.contract.identifiers import HexId
from attrib_ds.contract.request import ProjectRequest
from attrib_ds.contract.rule import choice
from attrib_ds.contract.values import Instant

ErasureMode: TypeAlias = Annotated[str, choice("anonymise", "delete")]


class MergeUsers(ProjectRequest):
    """A user to be merged into another one, who survives (G-149)."""

    id: HexId
    userId: HexId


class SplitUser(ProjectRequest):
    """A user to be parted from the one it was merged into (G-149)."""

    id: HexId
    userId: HexId


class DeleteUser(ProjectRequest):
    """A person to be forgotten (G-209).

    ``delete`` takes away every record; ``anonymise`` keeps what counts and takes away who it was.
    """

    id: HexId
    mode: ErasureMode = "anonymise"


class ExportUserData(ProjectRequest):
    """Everything that is known of a person (G-209)."""

    id: HexId


class AnonymiseExpired(ProjectRequest):
    """The personal values whose time is over, as of a moment: now, unless another is given (G-208)."""

    now: Instant | None = None
