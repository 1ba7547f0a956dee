"""The columns of an answer, known from the request alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from attrib_ds import schema
from attrib_ds.contract.interactions import SearchInteractions
from attrib_ds.contract.users import SearchUsers

if TYPE_CHECKING:
    from attrib_ds.contract.operation import Operation
    from attrib_ds.contract.request import Request


def columns(operation: Operation, request: Request) -> pa.Schema:
    """Return the columns of the records in an answer.

    Parameters
    ----------
    operation : Operation
        With a resource as its answer.
    request : Request
        The request.

    Returns
    -------
    pyarrow.Schema
        Flat; a search returns the requested columns (interactions) or keys (users), in the order of the
        request with ``_id`` first (G-058).

    Examples
    --------
    >>> from attrib_ds.contract import OPERATIONS, build
    >>> search = OPERATIONS["search_interactions"]
    >>> columns(search, build(search, project_id="shop", columns=["asn"])).names
    ['_id', 'asn.asnId', 'asn.asnName']
    """
    resource = schema.RESOURCES[str(operation.answer.resource)]
    if isinstance(request, SearchInteractions):
        return pa.schema([resource.field(name) for name in projected(request.projection)])
    if isinstance(request, SearchUsers):
        return schema.user_columns(request.fields)
    return resource


def projected(projection: tuple[str, ...] | None) -> list[str]:
    """Return the columns of interactions that a projection selects.

    Parameters
    ----------
    projection : tuple of str, optional
        Properties; an object selects all its members. All but the personal ones by default.

    Returns
    -------
    list of str
        In the order of the projection, ``_id`` first (G-058).
    """
    if projection is None:
        return [name for name in schema.INTERACTION.names if name not in schema.ON_REQUEST]
    selected = [column for name in projection for column in schema.leaves(schema.INTERACTION, name)]
    return list(dict.fromkeys(["_id", *selected]))
