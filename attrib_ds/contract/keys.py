"""Requests about the keys of service accounts (G-172)."""

# ruff: noqa: N815  (attributes carry the specification's names)

import re
from datetime import datetime
from typing import Annotated, Any, Final, TypeAlias

from pydantic import Field

from attrib_ds import instants
from attrib_ds.contract.request import ProjectRequest
from attrib_ds.contract.rule import Refused, Rule, Size, choice, pattern, text
from attrib_ds.contract.scopes import FULL_ACCESS, SCOPES

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
