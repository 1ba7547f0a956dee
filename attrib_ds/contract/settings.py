"""Requests about the settings of a project."""

# ruff: noqa: N815  (attributes carry the specification's names)

from typing import Annotated, TypeAlias

from attrib_ds.contract.identifiers import StorageKey
from attrib_ds.contract.request import ProjectRequest
from attrib_ds.contract.values import BOUNDED, Flag, whole

#: 0 keeps values for ever; the maximum is a hundred years.
RetentionDays: TypeAlias = Annotated[
    int, whole(lowest=0, highest=36_525, expected="a whole number of days from 0 (for ever) to 36525")
]


class GetSettings(ProjectRequest):
    """Get the settings of a project, including defaults."""


class UpdateSettings(ProjectRequest):
    """Update the settings; attributes that are not given stay as they are."""

    lenientOptionalFields: Flag | None = None
    retentionDurationInDays: RetentionDays | None = None
    piiFields: Annotated[tuple[StorageKey, ...], BOUNDED] | None = None
    requireTokenForEvents: Flag | None = None
