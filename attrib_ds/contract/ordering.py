"""The ``sort`` of public functions, translated to what requests carry."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from attrib_ds.contract.rule import shown
from attrib_ds.errors import InvalidRequest

if TYPE_CHECKING:
    from attrib_ds.contract.operation import Operation


def wire_order(operation: Operation, sort: object) -> dict[str, Any]:
    """Return the attributes of a request that stand for ``sort``.

    Parameters
    ----------
    operation : Operation
        With an attribute ``sort``.
    sort : str, list of str or None
        Names in the order of their weight, with ``-`` in front for descending; None for the default order.

    Returns
    -------
    dict
        ``sort`` as names with 1 or -1; or one name as ``sort``, and ``order``, where the request has one.

    Raises
    ------
    InvalidRequest
        If it has another form, names a column twice, or names several where one is allowed.

    Examples
    --------
    >>> from attrib_ds.contract import OPERATIONS
    >>> wire_order(OPERATIONS["search_interactions"], ["geo.city", "-startDate"])
    {'sort': {'geo.city': 1, 'startDate': -1}}
    >>> wire_order(OPERATIONS["list_outlays"], "-amount")
    {'sort': 'amount', 'order': 'DESC'}
    """
    if sort is None or sort in ([], ()):
        return {"sort": None}
    names = [sort] if isinstance(sort, str) else sort
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        raise _refusal(sort, "a column name or a list of names, with '-' in front for descending")
    directions = {name.removeprefix("-"): -1 if name.startswith("-") else 1 for name in names}
    if len(directions) < len(names):
        raise _refusal(sort, "each column once")
    if "order" not in operation.request.model_fields:
        return {"sort": directions}
    if len(directions) > 1:
        raise _refusal(sort, "one column name, with '-' in front for descending")
    [(name, direction)] = directions.items()
    return {"sort": name, "order": "ASC" if direction > 0 else "DESC"}


def _refusal(sort: object, allowed: str) -> InvalidRequest:
    return InvalidRequest(f"sort: {shown(sort)} is not allowed; allowed: {allowed}", field="sort")
