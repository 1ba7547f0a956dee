"""Checks scopes: validity, and permissions granted by them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrib_ds.contract.scopes import FULL_ACCESS, SCOPES
from attrib_ds.errors import InvalidRequest

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable


def allows(granted: Collection[str], scope: str) -> bool:
    """Return whether granted scopes include a scope.

    Examples
    --------
    >>> allows({"full_access"}, "users:sql"), allows({"users:read"}, "users:sql")
    (True, False)
    """
    return scope in granted or FULL_ACCESS in granted


def validated(scopes: Iterable[str]) -> tuple[str, ...]:
    """Return distinct scopes in the order of :data:`SCOPES`.

    Raises
    ------
    InvalidRequest
        If there is none, or one is unknown.

    Examples
    --------
    >>> validated(["events:read", "interactions:read", "events:read"])
    ('interactions:read', 'events:read')
    """
    requested = set(scopes)
    for scope in sorted(requested - set(SCOPES)):
        raise InvalidRequest.choice("scopes", scope, SCOPES)
    if not requested:
        raise InvalidRequest(
            f"scopes: none was given; allowed: one or more of {', '.join(SCOPES)}", field="scopes"
        )
    return tuple(scope for scope in SCOPES if scope in requested)
