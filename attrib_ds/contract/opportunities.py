"""The opportunity to show a placement, which a page reports."""

# ruff: noqa: N815  (attributes carry the decision's names)

from collections.abc import Mapping
from typing import Any, Final

from pydantic import ValidationError

from attrib_ds.contract.event_types import CreateEventType, EventTypeField
from attrib_ds.contract.hits import HitId, Referrer, TrackerId
from attrib_ds.contract.holdouts import HoldoutName
from attrib_ds.contract.request import ProjectRequest
from attrib_ds.contract.settings import IngestKey
from attrib_ds.contract.values import Flag
from attrib_ds.contract.violations import translate

#: Event type of opportunities, and the types of its fields.
OPPORTUNITY: Final = "holdout-opportunity"
_FIELDS: Final = {"holdout": "string", "node": "string", "withheld": "boolean"}


class CollectOpportunity(ProjectRequest):
    """A page could show the placement of a holdout, and asks whether to.

    ``opportunityId`` keeps a repeated request from counting twice; ``isPersistent`` and ``referrer`` as for
    hits.
    """

    holdout: HoldoutName
    trackerId: TrackerId
    opportunityId: HitId
    isPersistent: Flag = True
    referrer: Referrer = ""
    ingestKey: IngestKey | None = None


def opportunity_type(project_id: str) -> CreateEventType:
    """Return the event type that a project needs for its first holdout."""
    fields = [EventTypeField(type=kind, entity="event", storageKey=key) for key, kind in _FIELDS.items()]
    return CreateEventType(
        projectId=project_id, reference=OPPORTUNITY, name="Holdout opportunity", fields=tuple(fields)
    )


def read_opportunity(values: Mapping[str, Any]) -> CollectOpportunity:
    """Return the opportunity of a body; unknown members are ignored.

    Raises
    ------
    InvalidRequest
        If a value is not allowed; members are named by JSON pointers (G-181).
    """
    given = {name: value for name, value in values.items() if value is not None}
    try:
        return CollectOpportunity.model_validate(given)
    except ValidationError as error:
        # Not chained: the pydantic error contains every value.
        raise translate(error, CollectOpportunity, call=lambda attribute: f"/{attribute}") from None
