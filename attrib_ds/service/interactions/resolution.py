"""Finds the node that the properties of an advertiser mean, in the tree of an integration."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from pydantic import TypeAdapter, ValidationError

from attrib_ds.contract.identifiers import Slug
from attrib_ds.contract.rule import shown
from attrib_ds.errors import InvalidRequest
from attrib_ds.service.campaigns.campaigns import insert_campaign
from attrib_ds.service.campaigns.integrations import insert_campaign_node
from attrib_ds.service.store.records import read_record

if TYPE_CHECKING:
    from collections.abc import Mapping

    import duckdb

    from attrib_ds.service.campaigns.integrations import Integration

#: Slug of the campaign of traffic that names none (G-160).
_DEFAULT_SLUG: Final = "default"
#: Longest id of a node (G-217).
_LONGEST: Final = 128
_BY_ID: Final = "(_id = $value OR externalId = $value)"
#: What each property is compared with, from the top of the tree down (G-219).
_LEVELS: Final = {
    "campaignId": ("campaign", _BY_ID),
    "campaignSlug": ("campaign", "campaignSlug = $value"),
    "adsetId": ("adset", _BY_ID),
    "adId": ("ad", _BY_ID),
    "keyword": ("keyword", f"({_BY_ID} OR name = $value)"),
}


@dataclass(frozen=True)
class Resolved:
    """The node that was found.

    Parameters
    ----------
    node_id : str
        The node.
    is_complete : bool
        Whether every property led to it.
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
    """Follow the properties down the tree; a campaign that is not known is made (G-144, G-160).

    Parameters
    ----------
    connection : duckdb.DuckDBPyConnection
        Inside a transaction.
    integration : Integration
        Whose tree.
    node_data : mapping of str to object
        ``vendorId`` and the advertiser's properties; null is not given.
    project_id : str
        The project.
    new_id : str
        Of the campaign, if one is made.

    Returns
    -------
    Resolved
        The deepest node found. Without properties it is the campaign of the slug ``default``; where no
        property leads anywhere it is the integration's own node.

    Raises
    ------
    InvalidRequest
        If a property is no id.
    """
    given = {name: value for name, value in node_data.items() if name != "vendorId" and value is not None}
    wanted = {name: _text(name, given[name]) for name in _LEVELS if name in given}
    if not given:
        wanted = {"campaignSlug": _DEFAULT_SLUG}
    node_id, matched = integration.node_id, 0
    for name, value in wanted.items():
        found = _below(connection, node_id, name, value)
        if found is None and node_id == integration.node_id:
            found = _make(connection, integration, name, value, project_id=project_id, new_id=new_id)
        if found is not None:
            node_id, matched = found, matched + 1
    return Resolved(node_id, is_complete=matched == len(wanted) and wanted.keys() >= given.keys())


def _below(connection: duckdb.DuckDBPyConnection, node_id: str, name: str, value: str) -> str | None:
    """Return the node that a property means: the given one, or one below it."""
    kind, condition = _LEVELS[name]
    found = connection.execute(
        f"SELECT _id FROM nodes WHERE type = $kind AND {condition} "
        # An own id comes before the id that another system knows a node by.
        "AND (_id = $root OR list_contains(path, $root)) ORDER BY _id <> $value, len(path), _id LIMIT 1",
        {"kind": kind, "value": value, "root": node_id},
    ).fetchone()
    return None if found is None else str(found[0])


def _make(
    connection: duckdb.DuckDBPyConnection,
    integration: Integration,
    name: str,
    value: str,
    *,
    project_id: str,
    new_id: str,
) -> str | None:
    """Make the campaign that a property names, unless it names something else; return its node."""
    if name == "campaignSlug":
        insert_campaign(
            connection,
            integration,
            project_id=project_id,
            id=new_id,
            slug=value,
            name=value,
            active=True,
            explicit=False,
        )
        return new_id
    if name != "campaignId":
        return None
    # A tree that is loaded later has the ids of its ad platform, and takes the place of this node.
    is_free = read_record(connection, "SELECT _id FROM nodes WHERE _id = ?", value) is None
    id = value if is_free else new_id
    insert_campaign_node(
        connection,
        integration,
        project_id=project_id,
        id=id,
        name=value,
        external_id=value,
        implicit=True,
        now=datetime.now(UTC),
    )
    return id


def _text(name: str, value: object) -> str:
    """Return an id as text, or refuse what is none."""
    field = f"node_data/{name}"
    is_whole = isinstance(value, int) and not isinstance(value, bool)
    text = str(value) if is_whole or isinstance(value, str) else ""
    if not text.strip() or len(text) > _LONGEST:
        raise InvalidRequest(
            f"{field}: {shown(value)} is not allowed; allowed: text of 1 to {_LONGEST} characters or a "
            "whole number",
            field=field,
        )
    if name == "campaignSlug":
        try:
            TypeAdapter(Slug).validate_python(text)
        except ValidationError as error:
            allowed = error.errors()[0]["msg"]
            refusal = f"{field}: {shown(value)} is not allowed; allowed: {allowed}"
            raise InvalidRequest(refusal, field=field) from None
    return text
