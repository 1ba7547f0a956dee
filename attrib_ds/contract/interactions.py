"""Requests about interactions and their hits."""

# ruff: noqa: N815  (attributes carry the specification's names)

from typing import Annotated, Any, ClassVar, Final, Self, TypeAlias

import pyarrow as pa
from pydantic import model_validator

from attrib_ds.contract.identifiers import HexId, Name, Uuid
from attrib_ds.contract.predicates import InteractionFilter, NodeFilter
from attrib_ds.contract.request import ProjectRequest, disagreement
from attrib_ds.contract.rule import Refused, Rule, choice, listed, nearest, shown
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
from attrib_ds.schema import INTERACTION, INTERACTION_INSIGHT, is_json, properties

MOST_SEGMENTS: Final = 1_000

#: Ids of records that are no property to break counters down by (G-113).
_UNGROUPED: Final = {"_id", "firstHitId"}

#: Columns that hold one value per record, thus an order.
SORTABLE: Final = tuple(each.name for each in INTERACTION if not is_json(each))

#: Columns that counters can be broken down by: no ids, no continuous numbers, no dates (G-113).
GROUPABLE: Final = tuple(
    each.name
    for each in INTERACTION
    if each.name not in _UNGROUPED
    and not is_json(each)
    and not pa.types.is_floating(each.type)
    and not pa.types.is_timestamp(each.type)
)


def _check_group(value: Any) -> str:
    if isinstance(value, str) and value in GROUPABLE:
        return str(value)
    problem = f"{shown(value)} is not allowed"
    if isinstance(value, str) and value in properties(INTERACTION):
        problem = f"{value!r} is not a single column of names or counts"
    raise Refused(f"{problem}{nearest(value, GROUPABLE)}; allowed: {listed(GROUPABLE)}")


def _check_node_data(value: Any) -> dict[str, Any]:
    found = check_json_object(value)
    if not isinstance(found.get("vendorId"), str):
        raise Refused("has no vendorId; allowed: an object with the vendorId (text) of an integration")
    return found


def _check_user_data(value: Any) -> dict[str, Any]:
    found = check_json_object(value)
    if all(each is None or (isinstance(each, str) and not each.strip()) for each in found.values()):
        raise Refused("identifies nobody; allowed: an object with at least one identity field, such as email")
    return found


Projection: TypeAlias = Annotated[tuple[Annotated[str, choice(*properties(INTERACTION))], ...], FILLED]
InteractionSort: TypeAlias = Annotated[dict[str, int], sorting(SORTABLE)]
InsightSort: TypeAlias = Annotated[dict[str, int], sorting(tuple(INTERACTION_INSIGHT.names))]
Group: TypeAlias = Annotated[
    str,
    Rule(
        check=_check_group,
        allowed="one property of interactions backed by one column",
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
        allowed="an object with the vendorId of an integration and the properties of its tree",
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
        allowed="an object of identity fields, at least one",
        json_schema={"type": "object", "minProperties": 1},
    ),
]


class Population(ProjectRequest):
    """Which interactions are meant: the part that searches and insights share."""

    null_counts: ClassVar[frozenset[str]] = frozenset({"filtered", "isBot"})

    since: Instant | None = None
    until: Instant | None = None
    interactionFilter: InteractionFilter | None = None
    nodeFilter: NodeFilter | None = None
    filtered: ThreeState = False
    isBot: ThreeState = False


class SearchInteractions(Population):
    """Interactions of a project, one page of them."""

    projection: Projection | None = None
    sort: InteractionSort | None = None
    offset: Offset = 0
    limit: Limit | None = None


class GetInteraction(ProjectRequest):
    """One interaction with every property."""

    id: HexId


class ListHits(ProjectRequest):
    """The hits of the session that a hit opened."""

    firstHitId: Uuid


class InteractionInsights(Population):
    """Counters of interactions, by group and interval."""

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
            raise disagreement(*((name, "missing; the {interval} 'custom' needs it") for name in missing))
        if not 1 <= (self.segmentCount or 0) <= MOST_SEGMENTS:
            problem = f"{shown(self.segmentCount)} is not allowed; allowed: 1 to {MOST_SEGMENTS}"
            raise disagreement(("segmentCount", problem))
        return self


class CreateOfflineInteraction(ProjectRequest):
    """A contact outside the website, imported."""

    date: PastInstant
    userData: UserData
    nodeData: NodeData
    externalId: Name | None = None
