"""The OpenAPI document of one project, from which Schemathesis draws requests whose ids exist."""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING, Any

import schemathesis
from conformance.shop import VENDOR, event, hex_id, hit, made, node, send_event, table, uuid, visit
from support.openapi_links import linked_document

if TYPE_CHECKING:
    from conformance.transports import OverHttp, Project
    from schemathesis.schemas import BaseSchema

DESCRIBED = linked_document()


def drawn_project(http: OverHttp, project_id: str) -> Project:
    """Create a project with a node, an interaction, a hit and a trashed event."""
    project = made(
        http,
        project_id,
        nodes=table(node("ads")),
        interactions=table(visit(1, firstHitId=uuid(1), hitCount=1)),
        hits=table(hit(1, 1, "2025-01-31T12:00:00Z")),
    )
    project.send("create_event", body=event(project, eventType="unknown")).ok()
    return project


def description_for(project: Project, *, has_ids: bool = True) -> BaseSchema:
    """Return the document, in which values that must exist are those of a project of :func:`drawn_project`.

    Without ``has_ids``, ids of records come from links only, so that no request archives the event type.
    """
    known: dict[str, list[Any]] = {
        "projectId": [project.id],
        "vendorId": [VENDOR],
        "id": [send_event(project), hex_id(1), hex_id(900), "order", "ads"],
        "firstHitId": [uuid(1)],
        "storageKey": ["confirmed", "turnover"],
    }
    if not has_ids:
        del known["id"]
    described = deepcopy(DESCRIBED)
    for methods in described["paths"].values():
        for operation in methods.values():
            for parameter in operation["parameters"]:
                _narrow(parameter, "schema", known.get(parameter["name"]), parameter["name"])
            for media in operation.get("requestBody", {}).get("content", {}).values():
                properties = media["schema"].get("properties", {})
                if "projectId" in properties:
                    properties["projectId"] = {"enum": known["projectId"]}
    return schemathesis.openapi.from_dict(described)


def _narrow(holder: dict[str, Any], name: str, values: list[Any] | None, parameter: str) -> None:
    """Let a parameter be one of the known values; ids may be any other too."""
    if values:
        some = {"enum": values}
        holder[name] = some if parameter in ("projectId", "vendorId") else {"anyOf": [some, holder[name]]}
