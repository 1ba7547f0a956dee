"""Requests about the settings of a project."""

# ruff: noqa: N815  (attributes carry the specification's names)

from typing import Annotated, ClassVar, TypeAlias

from attrib_ds.contract.identifiers import StorageKey
from attrib_ds.contract.request import ProjectRequest
from attrib_ds.contract.rule import pattern
from attrib_ds.contract.values import BOUNDED, Flag, whole

#: 0 keeps values for ever; the maximum is a hundred years.
RetentionDays: TypeAlias = Annotated[
    int, whole(lowest=0, highest=36_525, expected="a whole number of days from 0 (for ever) to 36525")
]

#: Public and write-only, as in pages of a shop.
IngestKey: TypeAlias = Annotated[
    str,
    pattern("[A-Za-z0-9_-]{16,128}", shortest=16, longest=128, expected="16 to 128 letters, digits, _ and -"),
]
#: As browsers send it: scheme and host in lower case, and a port that is not the usual one.
Origin: TypeAlias = Annotated[
    str,
    pattern(
        r"https?://[a-z0-9.-]+(?::[0-9]{1,5})?",
        longest=256,
        expected="an origin, such as 'https://shop.example'",
    ),
]


class GetSettings(ProjectRequest):
    """Get the settings of a project, including defaults."""


class UpdateSettings(ProjectRequest):
    """Update the settings; attributes that are not given stay as they are; null clears a period (G-227)."""

    null_counts: ClassVar[frozenset[str]] = frozenset({"retentionDurationInDays"})

    lenientOptionalFields: Flag | None = None
    retentionDurationInDays: RetentionDays | None = None
    piiFields: Annotated[tuple[StorageKey, ...], BOUNDED] | None = None
    requireTokenForEvents: Flag | None = None
    ingestKeys: Annotated[tuple[IngestKey, ...], BOUNDED] | None = None
    allowedOrigins: Annotated[tuple[Origin, ...], BOUNDED] | None = None
