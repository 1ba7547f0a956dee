"""Resolves the node of an offline interaction from its advertising properties."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pydantic import TypeAdapter, ValidationError

from attrib_ds.contract.identifiers import Slug
from attrib_ds.contract.rule import shown
from attrib_ds.errors import InvalidRequest
from attrib_ds.service.campaigns.campaigns import find_by_id, find_by_slug, insert_campaign
from attrib_ds.service.store.table_access import read_record

if TYPE_CHECKING:
    from collections.abc import Mapping

    import duckdb

    from attrib_ds.service.campaigns.integrations import Integration

#: Slug of the campaign of traffic without a campaign (G-160).
_DEFAULT_SLUG: Final = "default"
#: Longest id of a node (G-217).
_LONGEST: Final = 128
_BY_ID: Final = "(_id = $value OR externalId = $value)"
#: Node type and condition by property, from the top of the tree down (G-219).
_LEVELS: Final = {
    "campaignId": ("campaign", _BY_ID),
    "campaignSlug": ("campaign", "campaignSlug = $value"),
    "adsetId": ("adset", _BY_ID),
    "adId": ("ad", _BY_ID),
    "keyword": ("keyword", f"({_BY_ID} OR name = $value)"),
}


@dataclass(frozen=True)
class Resolved:
    """Result of :func:`resolve_node`.

    Parameters
    ----------
    node_id : str
        The node.
    is_complete : bool
        Whether all properties were resolved.
    """

    node_id: str
    is_complete: bool


def resolve_node(
    connection: duckdb.DuckDBPyConnection,
    integration: Integration,
    node_data: Mapping[str, Any],
    *,
    project_id: str,
    new_id: str,
) -> Resolved:
    """Follow the properties down the tree; create unknown campaigns (G-144, G-160).

    Parameters
    ----------
    connection : duckdb.DuckDBPyConnection
        Inside a transaction.
    integration : Integration
        Owner of the tree.
    node_data : mapping of str to object
        ``vendorId`` and the advertising properties; null means missing.
    project_id : str
        The project.
    new_id : str
        Id of a new campaign.

    Returns
    -------
    Resolved
        The deepest matching node. Without properties the campaign with the slug ``default``; without a match
        the root of the integration.

    Raises
    ------
    InvalidRequest
        If a property is not a valid id.
    """
    properties = {
        name: value for name, value in node_data.items() if name != "vendorId" and value is not None
    }
    texts = {name: _text(name, properties[name]) for name in _LEVELS if name in properties}
    if not properties:
        texts = {"campaignSlug": _DEFAULT_SLUG}
    node_id, matched = integration.node_id, 0
    for name, value in texts.items():
        child_id = _below(connection, node_id, name, value)
        if child_id is None and node_id == integration.node_id:
            child_id = _create_campaign(
                connection, integration, name, value, project_id=project_id, new_id=new_id
            )
        if child_id is not None:
            node_id, matched = child_id, matched + 1
    return Resolved(node_id, is_complete=matched == len(texts) and texts.keys() >= properties.keys())


def _below(connection: duckdb.DuckDBPyConnection, node_id: str, name: str, value: str) -> str | None:
    """Return the node that matches a property: the given node or a descendant."""
    kind, condition = _LEVELS[name]
    row = connection.execute(
        f"SELECT _id FROM nodes WHERE type = $kind AND {condition} "
        # Ids take precedence over external ids.
        "AND (_id = $root OR list_contains(path, $root)) ORDER BY _id <> $value, len(path), _id LIMIT 1",
        {"kind": kind, "value": value, "root": node_id},
    ).fetchone()
    return None if row is None else str(row[0])


def _create_campaign(
    connection: duckdb.DuckDBPyConnection,
    integration: Integration,
    name: str,
    value: str,
    *,
    project_id: str,
    new_id: str,
) -> str | None:
    """Create the campaign of a campaign property and return its node; None for other properties."""
    if name == "campaignSlug":
        # A campaign of the integration may lie outside the tree of its root.
        existing = find_by_slug(connection, integration, value)
        if existing is not None:
            return str(existing["id"])
        insert_campaign(
            connection, integration, project_id=project_id, id=new_id, slug=value, name=value, explicit=False
        )
        return new_id
    if name != "campaignId":
        return None
    if find_by_id(connection, integration, value) is not None:
        return value
    # Use the ad platform's id, so that a tree loaded later replaces this node.
    is_free = read_record(connection, "SELECT _id FROM nodes WHERE _id = ?", value) is None
    id = value if is_free else new_id
    insert_campaign(
        connection,
        integration,
        project_id=project_id,
        id=id,
        slug=None,
        name=value,
        explicit=False,
        external_id=value,
        implicit=True,
    )
    return id


def _text(name: str, value: object) -> str:
    """Return an id as text; refuse other values."""
    field = f"node_data/{name}"
    is_whole = isinstance(value, int) and not isinstance(value, bool)
    text = str(value) if is_whole or isinstance(value, str) else ""
    if not text.strip() or len(text) > _LONGEST:
        raise InvalidRequest(
            f"{field}: {shown(value)} is not allowed; expected text of 1 to {_LONGEST} characters or a "
            "whole number",
            field=field,
        )
    if name == "campaignSlug":
        try:
            TypeAdapter(Slug).validate_python(text)
        except ValidationError as error:
            expected = error.errors()[0]["msg"]
            refusal = f"{field}: {shown(value)} is not allowed; expected {expected}"
            raise InvalidRequest(refusal, field=field) from None
    return text
