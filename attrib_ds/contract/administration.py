"""Requests about a whole project: settings, holdouts, access, audit log, loading, mirrors and backups."""

import hmac
import ipaddress
import json
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Annotated, Any, ClassVar, Final, Self

from pydantic import Field, TypeAdapter, ValidationError, model_validator

from attrib_ds import errors, instants, keys
from attrib_ds.contract import campaigns, identifiers, request, values
from attrib_ds.contract.json_values import Refused, Rule, Size, choice, pattern, text

# ruff: noqa: N815  (attributes carry the names of the API)


_LONGEST_NODE: Final = 512
_DECIMALS: Final = 6
_BYTES_DRAWN: Final = 8
_RANGE: Final = 256.0**_BYTES_DRAWN

NAME: Final = pattern(
    "[a-z0-9][a-z0-9_-]{0,63}",
    "1 to 64 lower-case letters, digits, - and _, starting with a letter or digit",
    longest=64,
)
HoldoutName = Annotated[str, NAME]


@dataclass(frozen=True, kw_only=True)
class Holdout:
    """A node that is withheld from a random share of visitors or users.

    Parameters
    ----------
    name : str
        Its name, which the draw depends on: holdouts of different names are independent.
    share : float
        Share withheld, more than 0 and less than 1, to six decimals.
    since, until : date, optional
        First and last day, in UTC; unbounded by default.
    node_id : str
        The node.
    """

    name: str
    share: float
    node_id: str
    since: date | None = None
    until: date | None = None

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the holdout of a stored text, or of an earlier version's ``name:share:since/until:node``.

        Examples
        --------
        >>> holdout = Holdout.parse("banner:0.1:2026-05-01/:spring")
        >>> str(holdout)
        '{"name": "banner", "share": 0.1, "node_id": "spring", "since": "2026-05-01", "until": null}'
        >>> Holdout.parse(str(holdout)) == holdout
        True
        """
        if text.startswith("{"):
            members = json.loads(text)
        else:
            name, share, period, node_id = text.split(":", 3)
            since, until = period.split("/")
            members = {
                "name": name,
                "share": float(share),
                "node_id": node_id,
                "since": since,
                "until": until,
            }
        days = {name: date.fromisoformat(members[name]) for name in ("since", "until") if members[name]}
        return cls(**{**members, "since": None, "until": None, **days})

    def __str__(self) -> str:
        """Return the holdout as the project stores it."""
        return json.dumps(asdict(self), default=str)

    def is_running(self, now: datetime) -> bool:
        """Return whether an instant, aware, is in the period."""
        day = now.astimezone(UTC).date()
        return (self.since is None or self.since <= day) and (self.until is None or day <= self.until)

    def withholds(self, id: str, *, key: str) -> bool:
        """Return whether the node is withheld from a visitor or user.

        The first eight bytes of HMAC-SHA256 of the name, a line break and the id, as a fraction of their
        range, are below the share. So a larger share withholds from the same ids and from others.

        Parameters
        ----------
        id : str
            Id of the tracker or user.
        key : str
            The setting ``holdoutKey``.

        Examples
        --------
        >>> Holdout(name="banner", share=0.1, node_id="spring").withholds("t-1", key="secret")
        False
        """
        message = f"{self.name}\n{id}".encode("utf-8", "surrogatepass")
        drawn = hmac.digest(key.encode(), message, "sha256")[:_BYTES_DRAWN]
        return int.from_bytes(drawn, "big") < self.share * _RANGE


def find_holdout(texts: tuple[str, ...], name: str) -> Holdout | None:
    """Return the holdout of a name among the texts that the project stores."""
    found = (holdout for holdout in map(Holdout.parse, texts) if holdout.name == name)
    return next(found, None)


def get_holdout(texts: tuple[str, ...], name: str) -> Holdout:
    """Return the holdout of a name among the texts that the project stores; refuse an unknown one."""
    found = find_holdout(texts, name)
    if found is None:
        raise unknown_holdout(name, [Holdout.parse(text).name for text in texts])
    return found


def unknown_holdout(name: str, names: Iterable[str], *, advice: str = "") -> errors.NotFound:
    """Return the error of a name that no holdout has; it names the closest one and ends with the advice."""
    message = f"holdout: there is no holdout {name!r}{errors.closest(name, names)}{advice}"
    return errors.NotFound(message, field="holdout")


_SHARE: Final = values.above_zero(f"a number above 0 and below 1, to {_DECIMALS} decimals", below=1)


def _check_share(value: Any) -> float:
    share: float = round(_SHARE.check(value), _DECIMALS)
    if not 0 < share < 1:
        raise Refused
    return share


def _check_day(value: Any) -> date:
    day = instants.parse_day(value, argument="value")
    if day is None or not 1000 <= day.year < 3000:
        raise Refused
    return day


Share = Annotated[float, Rule(_check_share, _SHARE.expected, _SHARE.json_schema)]
#: A day in UTC.
Day = Annotated[
    date, Rule(_check_day, "a day, such as '2026-05-01'", {"type": "string", "format": "date"}, write=str)
]
NodeId = Annotated[
    str,
    pattern(
        r"[^\x00\ud800-\udfff]+",
        f"the id of a node, of 1 to {_LONGEST_NODE} characters",
        longest=_LONGEST_NODE,
    ),
]


class ListHoldouts(request.ProjectRequest):
    """List the holdouts that the service draws, by name."""


class CreateHoldout(request.ProjectRequest):
    """Create a holdout, or change its period and enlarge its share."""

    holdout: HoldoutName
    nodeId: NodeId
    share: Share
    firstDay: Day | None = None
    lastDay: Day | None = None

    @model_validator(mode="after")
    def _check_period(self) -> Self:
        if self.firstDay and self.lastDay and self.firstDay > self.lastDay:
            raise request.disagreement(("lastDay", "is before {firstDay}"))
        return self


class DeleteHoldout(request.ProjectRequest):
    """End a holdout."""

    holdout: HoldoutName


#: 0 keeps values for ever; the maximum is a hundred years.
NodesPerDay = Annotated[int, values.whole("a whole number from 0 to 1,000,000", lowest=0, highest=1_000_000)]
RetentionDays = Annotated[
    int, values.whole("a whole number of days from 0 (for ever) to 36525", lowest=0, highest=36_525)
]

#: Public and write-only, as in pages of a shop.
IngestKey = Annotated[
    str, pattern("[A-Za-z0-9_-]{16,128}", "16 to 128 letters, digits, _ and -", shortest=16, longest=128)
]
#: As browsers send it: scheme and host in lower case, and a port that is not the usual one.
Origin = Annotated[
    str,
    pattern(
        r"https?://[a-z0-9.-]+(?::[0-9]{1,5})?", "an origin, such as 'https://shop.example'", longest=256
    ),
]


Host = Annotated[
    str, pattern(r"[a-z0-9-]+(?:\.[a-z0-9-]+)+", "a host in lower case, such as 'pay.example'", longest=253)
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
TrafficFilter = Annotated[
    str,
    Rule(
        _traffic_filter,
        "'address:203.0.113.0/24', 'referrer:spam.example', 'hostname:test.shop.example' or "
        "'userAgent:Monitor'",
        {
            "type": "string",
            "maxLength": _LONGEST_FILTER,
            "pattern": "^(?:address|referrer|hostname|userAgent):.+$",
        },
    ),
]


_PROJECT: Final = {
    "project_id": identifiers.ProjectId,
    "currency": campaigns.Currency,
    "timezone": values.TimeZone,
}


def check_project(**given: object) -> None:
    """Refuse an id, currency or time zone of a project that is not allowed.

    Examples
    --------
    >>> check_project(project_id="shop", currency="euro", timezone="UTC")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    attrib_ds.errors.InvalidRequest: currency: 'euro' is not allowed; expected a currency of ISO 4217, ...
    """
    for name, value in given.items():
        try:
            TypeAdapter(_PROJECT[name]).validate_python(value)
        except ValidationError as error:
            (problem, *_) = error.errors()
            expected = "" if problem["type"] == "explained" else f"{value!r} is not allowed; expected "
            raise errors.InvalidRequest(f"{name}: {expected}{problem['msg']}", field=name) from error


class GetSettings(request.ProjectRequest):
    """Get the settings of a project, including defaults."""


class GetCollector(request.ProjectRequest):
    """Get what a collector needs: settings, and the secret by which visitors are recognised on this day."""


class UpdateSettings(request.ProjectRequest):
    """Update the settings; attributes that are not given stay as they are; null clears a period."""

    null_counts: ClassVar[frozenset[str]] = frozenset({"retentionDurationInDays"})

    lenientOptionalFields: values.Flag | None = None
    retentionDurationInDays: RetentionDays | None = None
    piiFields: Annotated[tuple[identifiers.StorageKey, ...], values.BOUNDED] | None = None
    requireTokenForEvents: values.Flag | None = None
    ingestKeys: Annotated[tuple[IngestKey, ...], values.BOUNDED] | None = None
    allowedOrigins: Annotated[tuple[Origin, ...], values.BOUNDED] | None = None
    excludedReferrers: Annotated[tuple[Host, ...], values.BOUNDED] | None = None
    domains: Annotated[tuple[Host, ...], values.BOUNDED] | None = None
    trafficFilters: Annotated[tuple[TrafficFilter, ...], values.BOUNDED] | None = None
    anonymousNodesPerDay: NodesPerDay | None = None
    respectGpc: values.Flag | None = None
    respectDnt: values.Flag | None = None
    visitorOfTheDay: values.Flag | None = None
    anonymousIdentification: values.Flag | None = None


class CheckProject(request.ProjectRequest):
    """Check the project for inconsistencies."""


class RepairProject(request.ProjectRequest):
    """Repair what can be computed from the hits of the project, after a copy of its file."""


class BackUpProject(request.ProjectRequest):
    """Back up the project at one point in time."""


class CompactProject(request.ProjectRequest):
    """Rewrite the files of the project, so that nothing of erased users is left in them."""


class RestoreProject(request.ProjectRequest):
    """Replace the project with a backup; over HTTP the body is the file."""

    source: Annotated[Path, Field(repr=False)]


JWT_BEARER: Final = "urn:ietf:params:oauth:grant-type:jwt-bearer"

GrantType = Annotated[str, choice(JWT_BEARER)]
ClientId = Annotated[str, text("the clientId of a key", shortest=1)]
Assertion = Annotated[str, text("a signed JWT", shortest=1)]


class ExchangeToken(request.Request):
    """Exchange a signed assertion for an access token."""

    grant_type: GrantType
    client_id: ClientId
    assertion: Assertion = Field(repr=False)


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


KeyId = Annotated[str, pattern("[a-f0-9]{40}", "40 lower-case hexadecimal digits", shortest=40, longest=40)]
PublicKey = Annotated[str, text("an RSA public key in PEM", shortest=1, longest=2_048)]
Scope = Annotated[str, choice(*keys.SCOPES)]
Expiry = Annotated[
    datetime,
    Rule(
        _check_expiry,
        "an RFC 3339 timestamp with a time zone, such as '2027-01-31T12:00:00Z'",
        {"type": "string", "format": "date-time"},
        write=instants.format,
    ),
]


class ListKeys(request.ProjectRequest):
    """List the keys of service accounts whose only project is this one."""


class CreateKey(request.ProjectRequest):
    """Create a service account of this project alone, for a key pair that the client has made.

    The private key stays with the client. The same public key again answers the same key.
    """

    # A client may send its private key by mistake.
    publicKey: PublicKey = Field(repr=False)
    scopes: Annotated[tuple[Scope, ...], Size(lowest=1, highest=100)] = (keys.FULL_ACCESS,)
    expiresAt: Expiry | None = None


class RevokeKey(request.ProjectRequest):
    """Revoke a key and its tokens."""

    keyId: KeyId


class ListAudit(request.PageRequest):
    """List the audit log, optionally of one operation or account."""

    operationName: identifiers.Text | None = None
    account: identifiers.Text | None = None


Loaded = Annotated[str, choice("interactions", "hits", "events", "nodes", "spend")]


class LoadRecords(request.ProjectRequest):
    """Load records from a frame, an Arrow table or a file.

    ``replace`` overwrites stored records by id; ``geo`` and ``asn`` are MMDB files for addresses of raw hits.
    """

    resource: Loaded
    source: Any
    replace: values.Flag = False
    mirrored: values.Flag = False
    geo: Any = None
    asn: Any = None


#: Maximum number of rows of a portion of raw hits, and of its bytes before compression.
MOST_HITS: Final = 20_000
MOST_BYTES_OF_HITS: Final = 64 * 2**20


class SendHits(request.ProjectRequest):
    """Load a portion of raw hits, once; over HTTP the body is a Parquet file of at most 20,000 rows.

    The answer has ``counts`` of loaded records, and ``rejected`` rows with ``row``, ``id`` and ``reason``:
    the first 1,000; ``unlisted_rejected`` among the counts is the number of further ones.
    """

    portionId: identifiers.Uuid
    source: Annotated[Path, Field(repr=False)]
    replace: values.Flag = False


Mirrored = Annotated[str, choice("users", "event-types", "campaigns")]


class BeginMirror(request.ProjectRequest):
    """Make the project a mirror of a project of another service."""

    source: str


class KeepMirror(request.ProjectRequest):
    """Store the progress of the mirror."""

    progress: dict[str, Any]


class MirrorRecords(request.ProjectRequest):
    """Store records of the source that ``LoadRecords`` does not accept, in the schema of their resource."""

    resource: Mirrored
    records: Any
