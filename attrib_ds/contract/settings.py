"""Requests about the choices of a project."""

# ruff: noqa: N815  (attributes carry the specification's names)

from typing import Annotated, TypeAlias

from attrib_ds.contract.identifiers import StorageKey
from attrib_ds.contract.request import ProjectRequest
from attrib_ds.contract.values import BOUNDED, Flag, whole

#: 0 keeps values for ever; the most are a hundred years.
RetentionDays: TypeAlias = Annotated[
    int, whole(lowest=0, highest=36_525, allowed="a whole number of days from 0 (for ever) to 36525")
]


class GetSettings(ProjectRequest):
    """The choices of a project, defaults among them."""


class UpdateSettings(ProjectRequest):
    """Changes of the choices; what is not given stays."""

    lenientOptionalFields: Flag | None = None
    retentionDurationInDays: RetentionDays | None = None
    piiFields: Annotated[tuple[StorageKey, ...], BOUNDED] | None = None
    requireTokenForEvents: Flag | None = None
