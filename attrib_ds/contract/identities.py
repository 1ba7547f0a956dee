"""Requests about the identity and the personal data of users."""

# ruff: noqa: N815  (attributes carry the specification's names)

from typing import Annotated, TypeAlias

from attrib_ds.contract.identifiers import HexId
from attrib_ds.contract.request import ProjectRequest
from attrib_ds.contract.rule import choice
from attrib_ds.contract.values import Instant

ErasureMode: TypeAlias = Annotated[str, choice("anonymise", "delete")]


class MergeUsers(ProjectRequest):
    """Merge a user into another one, which remains (G-149)."""

    id: HexId
    userId: HexId


class SplitUser(ProjectRequest):
    """Split a user from the one it was merged into (G-149)."""

    id: HexId
    userId: HexId


class DeleteUser(ProjectRequest):
    """Delete or anonymise a user (G-209).

    ``delete`` removes all records; ``anonymise`` keeps the counts and removes personal values.
    """

    id: HexId
    mode: ErasureMode = "anonymise"


class ExportUserData(ProjectRequest):
    """Export all data of a user (G-209)."""

    id: HexId


class AnonymiseExpired(ProjectRequest):
    """Anonymise personal values past their retention, by default as of now (G-208)."""

    now: Instant | None = None
