"""Requests about a whole project: access, audit log, loading, mirrors, checks and backups."""

from __future__ import annotations

import re
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Final, TypeAlias

from pydantic import Field

from attrib_ds import instants
from attrib_ds.contract.identifiers import Text
from attrib_ds.contract.json_values import Refused, Rule, Size, choice, pattern, text
from attrib_ds.contract.request import ProjectRequest, Request
from attrib_ds.contract.scopes import FULL_ACCESS, SCOPES
from attrib_ds.contract.values import Flag, Limit, Offset


class CheckProject(ProjectRequest):
    """Check the project for inconsistencies."""


class BackUpProject(ProjectRequest):
    """Back up the project at one point in time."""


class RestoreProject(ProjectRequest):
    """Replace the project with a backup; over HTTP the body is the file."""

    source: Annotated[Path, Field(repr=False)]


JWT_BEARER: Final = "urn:ietf:params:oauth:grant-type:jwt-bearer"

GrantType: TypeAlias = Annotated[str, choice(JWT_BEARER)]
ClientId: TypeAlias = Annotated[str, text(expected="the clientId of a key", shortest=1)]
Assertion: TypeAlias = Annotated[str, text(expected="a signed JWT", shortest=1)]


class ExchangeToken(Request):
    """Exchange a signed assertion for an access token."""

    grant_type: GrantType
    client_id: ClientId
    assertion: Assertion = Field(repr=False)


# ruff: noqa: N815  (attributes carry the specification's names)


_LONGEST_INSTANT: Final = 100
_WITH_ZONE: Final = re.compile(r"(?:[Zz]|[+-][0-9]{2}:[0-9]{2})\Z")


def _check_expiry(value: Any) -> datetime:
    if not isinstance(value, str | datetime) or (isinstance(value, str) and len(value) > _LONGEST_INSTANT):
        raise Refused
    instant = instants.parse_exact(value, argument="value")
    # Elsewhere an instant without a time zone is in UTC. Here a wrong guess would prolong the life of a key.
    is_local = value.tzinfo is None if isinstance(value, datetime) else not _WITH_ZONE.search(value)
    if is_local:
        raise Refused
    return instant


KeyId: TypeAlias = Annotated[
    str, pattern("[a-f0-9]{40}", shortest=40, longest=40, expected="40 lower-case hexadecimal digits")
]
PublicKey: TypeAlias = Annotated[str, text(expected="an RSA public key in PEM", shortest=1, longest=2_048)]
Scope: TypeAlias = Annotated[str, choice(*SCOPES)]
Expiry: TypeAlias = Annotated[
    datetime,
    Rule(
        check=_check_expiry,
        expected="an RFC 3339 timestamp with a time zone, such as '2027-01-31T12:00:00Z'",
        json_schema={"type": "string", "format": "date-time"},
        write=instants.format,
    ),
]


class ListKeys(ProjectRequest):
    """List the keys of service accounts whose only project is this one."""


class CreateKey(ProjectRequest):
    """Create a service account of this project alone, for a key pair that the client has made.

    The private key stays with the client. The same public key again answers the same key.
    """

    # A client may send its private key by mistake.
    publicKey: PublicKey = Field(repr=False)
    scopes: Annotated[tuple[Scope, ...], Size(lowest=1, highest=100)] = (FULL_ACCESS,)
    expiresAt: Expiry | None = None


class RevokeKey(ProjectRequest):
    """Revoke a key and its tokens."""

    keyId: KeyId


# ruff: noqa: N815  (attributes carry the specification's names)


class ListAudit(ProjectRequest):
    """List the audit log, optionally of one operation or account."""

    operationName: Text | None = None
    account: Text | None = None
    offset: Offset = 0
    limit: Limit | None = None


Loaded: TypeAlias = Annotated[str, choice("interactions", "hits", "events", "nodes", "spend")]


class LoadRecords(ProjectRequest):
    """Load records from a frame, an Arrow table or a file.

    ``replace`` overwrites stored records by id; ``geo`` and ``asn`` are MMDB files for addresses of raw hits.
    """

    resource: Loaded
    source: Any
    replace: Flag = False
    geo: Any = None
    asn: Any = None


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
