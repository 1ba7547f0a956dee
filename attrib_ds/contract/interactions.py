"""Requests about interactions, their hits and the traffic-source nodes."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Final, Self, TypeAlias

import pyarrow as pa
from pydantic import model_validator

from attrib_ds.contract.identifiers import HexId, Name, PathText, Text, Uuid
from attrib_ds.contract.json_values import Refused, Rule, choice, listed, nearest, shown
from attrib_ds.contract.request import InteractionFilter, NodeFilter, ProjectRequest, disagreement
from attrib_ds.contract.values import (
    FILLED,
    Instant,
    Limit,
    Offset,
    PastInstant,
    SegmentCount,
    ThreeState,
    TimeZone,
    check_json_object,
    sorting,
)
from attrib_ds.schema import INTERACTION, INTERACTION_INSIGHT, NODE_TYPES, is_json, properties

# ruff: noqa: N815  (attributes carry the specification's names)


MOST_SEGMENTS: Final = 1_000

#: Ids, by which counters cannot be grouped.
_UNGROUPED: Final = {"_id", "firstHitId"}

#: Columns to sort by: those with one value per record.
SORTABLE: Final = tuple(column.name for column in INTERACTION if not is_json(column))

#: Columns to group by: no ids, no continuous numbers, no dates.
GROUPABLE: Final = tuple(
    column.name
    for column in INTERACTION
    if column.name not in _UNGROUPED
    and not is_json(column)
    and not pa.types.is_floating(column.type)
    and not pa.types.is_timestamp(column.type)
)


def _check_group(value: Any) -> str:
    if isinstance(value, str) and value in GROUPABLE:
        return str(value)
    problem = f"{shown(value)} is not allowed"
    if isinstance(value, str) and value in properties(INTERACTION):
        problem = f"{value!r} is not a single column of names or counts"
    raise Refused(f"{problem}{nearest(value, GROUPABLE)}; allowed: {listed(GROUPABLE)}")


def _check_node_data(value: Any) -> dict[str, Any]:
    node_data = check_json_object(value)
    if not isinstance(node_data.get("vendorId"), str):
        raise Refused("has no vendorId; expected an object with the vendorId (text) of an integration")
    return node_data


def _check_user_data(value: Any) -> dict[str, Any]:
    user_data = check_json_object(value)
    if all(field is None or (isinstance(field, str) and not field.strip()) for field in user_data.values()):
        raise Refused("identifies no user; expected at least one identity field, such as email")
    return user_data


Projection: TypeAlias = Annotated[tuple[Annotated[str, choice(*properties(INTERACTION))], ...], FILLED]
InteractionSort: TypeAlias = Annotated[dict[str, int], sorting(SORTABLE)]
InsightSort: TypeAlias = Annotated[dict[str, int], sorting(tuple(INTERACTION_INSIGHT.names))]
Group: TypeAlias = Annotated[
    str,
    Rule(
        check=_check_group,
        expected="a property of interactions with a column of its own",
        json_schema={"type": "string", "enum": list(GROUPABLE)},
    ),
]
Interval: TypeAlias = Annotated[
    str,
    choice(
        "year",
        "semester",
        "semesterOfYear",
        "quarter",
        "quarterOfYear",
        "month",
        "monthOfYear",
        "week",
        "weekOfYear",
        "day",
        "dayOfYear",
        "dayOfMonth",
        "dayOfWeek",
        "hourOfDay",
        "custom",
    ),
]
NodeData: TypeAlias = Annotated[
    dict[str, Any],
    Rule(
        check=_check_node_data,
        expected="an object with the vendorId of an integration and the properties of its node",
        json_schema={
            "type": "object",
            "required": ["vendorId"],
            "properties": {"vendorId": {"type": "string"}},
        },
    ),
]
UserData: TypeAlias = Annotated[
    dict[str, Any],
    Rule(
        check=_check_user_data,
        expected="an object with at least one identity field",
        json_schema={"type": "object", "minProperties": 1},
    ),
]


class Population(ProjectRequest):
    """The selection of interactions that searches and insights share."""

    null_counts: ClassVar[frozenset[str]] = frozenset({"filtered", "isBot"})

    since: Instant | None = None
    until: Instant | None = None
    interactionFilter: InteractionFilter | None = None
    nodeFilter: NodeFilter | None = None
    filtered: ThreeState = False
    isBot: ThreeState = False


class SearchInteractions(Population):
    """Search the interactions of a project, one page at a time."""

    projection: Projection | None = None
    sort: InteractionSort | None = None
    offset: Offset = 0
    limit: Limit | None = None


class GetInteraction(ProjectRequest):
    """Get an interaction with all properties."""

    id: HexId


class ListHits(ProjectRequest):
    """List the hits of a session, identified by its first hit."""

    firstHitId: Uuid


class InteractionInsights(Population):
    """Count interactions by group and interval."""

    group: Group | None = None
    interval: Interval | None = None
    segmentCount: SegmentCount | None = None
    sort: InsightSort | None = None
    timezone: TimeZone | None = None

    @model_validator(mode="after")
    def _check_segments(self) -> Self:
        if self.interval != "custom":
            return self
        required = ("segmentCount", "since", "until")
        missing = [name for name in required if getattr(self, name) is None]
        if missing:
            raise disagreement(*((name, "is required when {interval} is 'custom'") for name in missing))
        if not 1 <= (self.segmentCount or 0) <= MOST_SEGMENTS:
            expected = f"a whole number from 1 to {MOST_SEGMENTS}"
            problem = f"{shown(self.segmentCount)} is not allowed; expected {expected}"
            raise disagreement(("segmentCount", problem))
        return self


class CreateOfflineInteraction(ProjectRequest):
    """Create an offline interaction, such as a call or a visit to a store."""

    date: PastInstant
    userData: UserData
    nodeData: NodeData
    externalId: Name | None = None


NodeType: TypeAlias = Annotated[str, choice(*NODE_TYPES)]


class ListNodes(ProjectRequest):
    """List the nodes of a project's traffic-source tree."""

    type: NodeType | None = None
    search: Text | None = None
    offset: Offset = 0
    limit: Limit | None = None


class GetNode(ProjectRequest):
    """Get one node."""

    id: PathText
