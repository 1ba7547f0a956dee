"""Requests about the settings of a project."""

# ruff: noqa: N815  (attributes carry the specification's names)

import ipaddress
import re
from typing import Annotated, Any, ClassVar, Final, Self, TypeAlias

from pydantic import model_validator

from attrib_ds.contract.holdouts import HoldoutText
from attrib_ds.contract.identifiers import StorageKey
from attrib_ds.contract.request import ProjectRequest, disagreement
from attrib_ds.contract.rule import Refused, Rule, pattern
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


Host: TypeAlias = Annotated[
    str,
    pattern(
        r"[a-z0-9-]+(?:\.[a-z0-9-]+)+",
        longest=253,
        expected="a host in lower case, such as 'pay.example'",
    ),
]
_HOST_FILTER: Final = re.compile(r"(?:referrer|hostname):[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*")
_LONGEST_FILTER: Final = 256


def _traffic_filter(value: Any) -> str:
    if not isinstance(value, str) or len(value) > _LONGEST_FILTER or not value.isprintable():
        raise Refused
    kind, _, captured = value.partition(":")
    if kind == "address":
        try:
            ipaddress.ip_network(captured, strict=False)
        except ValueError:
            raise Refused from None
    elif not (kind == "userAgent" and captured.strip()) and not _HOST_FILTER.fullmatch(value):
        raise Refused
    return value


#: What it captures, and its id in ``trafficFilterId``.
TrafficFilter: TypeAlias = Annotated[
    str,
    Rule(
        check=_traffic_filter,
        expected="'address:203.0.113.0/24', 'referrer:spam.example', 'hostname:test.shop.example' or "
        "'userAgent:Monitor'",
        json_schema={
            "type": "string",
            "maxLength": _LONGEST_FILTER,
            "pattern": "^(?:address|referrer|hostname|userAgent):.+$",
        },
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
    excludedReferrers: Annotated[tuple[Host, ...], BOUNDED] | None = None
    trafficFilters: Annotated[tuple[TrafficFilter, ...], BOUNDED] | None = None
    holdouts: Annotated[tuple[HoldoutText, ...], BOUNDED] | None = None
    respectGpc: Flag | None = None
    respectDnt: Flag | None = None

    @model_validator(mode="after")
    def _check_holdouts(self) -> Self:
        names = [text.partition(":")[0] for text in self.holdouts or ()]
        if len(set(names)) < len(names):
            raise disagreement(("holdouts", "contains a name twice; expected each holdout once"))
        return self
