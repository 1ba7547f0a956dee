"""The columns that an answer has, which follow from the request alone."""

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
    """Return the columns of the records that an operation answers with.

    Parameters
    ----------
    operation : Operation
        One whose answer has a resource.
    request : Request
        What is asked.

    Returns
    -------
    pyarrow.Schema
        Flat; for a search of interactions those of the projection, and of users those of the keys, in the
        order asked for, ``_id`` first (G-058).

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
    """Return the columns of interactions that a projection stands for.

    Parameters
    ----------
    projection : tuple of str, optional
        Properties; an object stands for all below it. By default all but the personal ones.

    Returns
    -------
    list of str
        In the order asked for, ``_id`` first (G-058).
    """
    if projection is None:
        return [name for name in schema.INTERACTION.names if name not in schema.ON_REQUEST]
    asked = [column for name in projection for column in schema.leaves(schema.INTERACTION, name)]
    return list(dict.fromkeys(["_id", *asked]))
