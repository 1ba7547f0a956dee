"""Check scopes: of a request against those granted, and of a new account."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrib_ds.contract.scopes import FULL_ACCESS, SCOPES
from attrib_ds.errors import InvalidRequest

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable


def allows(granted: Collection[str], scope: str) -> bool:
    """Return whether the granted scopes include a scope; full access includes all.

    Examples
    --------
    >>> allows({"full_access"}, "users:sql"), allows({"users:read"}, "users:sql")
    (True, False)
    """
    return scope in granted or FULL_ACCESS in granted


def checked(scopes: Iterable[str]) -> tuple[str, ...]:
    """Return the scopes without duplicates, in the order of :data:`SCOPES`.

    Raises
    ------
    InvalidRequest
        If there is none, or one does not exist.

    Examples
    --------
    >>> checked(["events:read", "interactions:read", "events:read"])
    ('interactions:read', 'events:read')
    """
    requested = set(scopes)
    for scope in sorted(requested - set(SCOPES)):
        raise InvalidRequest.choice("scopes", scope, SCOPES)
    if not requested:
        raise InvalidRequest(f"scopes: is empty; allowed: one or more of {', '.join(SCOPES)}", field="scopes")
    return tuple(scope for scope in SCOPES if scope in requested)
