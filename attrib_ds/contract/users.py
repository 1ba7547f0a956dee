"""Requests about users."""

# ruff: noqa: N815  (attributes carry the specification's names)

from typing import Annotated, TypeAlias

from attrib_ds.contract.audiences import AudienceCondition
from attrib_ds.contract.identifiers import HexId, UserIdOrUnknown
from attrib_ds.contract.predicates import UserFilter
from attrib_ds.contract.request import ProjectRequest
from attrib_ds.contract.rule import choice, text
from attrib_ds.contract.user_keys import UserKey
from attrib_ds.contract.values import BOUNDED, Flag, Instant, Limit, Offset, Order

Query: TypeAlias = Annotated[
    str, text(expected="one SELECT of 1 to 8192 characters", shortest=1, longest=8_192)
]
MultiFieldMode: TypeAlias = Annotated[str, choice("latest", "earliest", "alphabetical")]
EventSort: TypeAlias = Annotated[str, choice("eventDate", "createdAt", "updatedAt", "_id")]
MetricSort: TypeAlias = Annotated[str, choice("createdAt", "updatedAt", "metricDate")]
MetricType: TypeAlias = Annotated[str, choice("state", "statistic")]


class SearchUsers(ProjectRequest):
    """Search users, one page at a time; they must meet all given conditions (G-095)."""

    fields: Annotated[tuple[UserKey, ...], BOUNDED]
    filters: UserFilter | None = None
    audienceCondition: AudienceCondition | None = None
    sqlQuery: Query | None = None
    sort: UserKey | None = None
    order: Order | None = None
    idAfter: HexId | None = None
    idFrom: HexId | None = None
    idTo: HexId | None = None
    multiFieldMode: MultiFieldMode = "latest"
    offset: Offset = 0
    limit: Limit | None = None


class GetUser(ProjectRequest):
    """Get a user with all properties."""

    id: HexId


class ListUserEvents(ProjectRequest):
    """List the events of a user."""

    id: UserIdOrUnknown
    attributable: Flag | None = None
    since: Instant | None = None
    until: Instant | None = None
    sort: EventSort | None = None
    order: Order | None = None
    offset: Offset = 0
    limit: Limit | None = None


class ListUserMetrics(ProjectRequest):
    """List the states and statistics of a user's events."""

    id: UserIdOrUnknown
    type: MetricType | None = None
    since: Instant | None = None
    until: Instant | None = None
    sort: MetricSort | None = None
    order: Order | None = None
    offset: Offset = 0
    limit: Limit | None = None
