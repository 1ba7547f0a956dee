"""What scopes allow, and which of them are given."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrib_ds.contract.scopes import FULL_ACCESS, SCOPES
from attrib_ds.errors import InvalidRequest

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable


def allows(granted: Collection[str], scope: str) -> bool:
    """Say whether the granted scopes allow what a scope stands for.

    Examples
    --------
    >>> allows({"full_access"}, "users:sql"), allows({"users:read"}, "users:sql")
    (True, False)
    """
    return scope in granted or FULL_ACCESS in granted


def checked(scopes: Iterable[str]) -> tuple[str, ...]:
    """Return the scopes in the order of :data:`SCOPES`, each once.

    Raises
    ------
    InvalidRequest
        If there is none, or one is not known.

    Examples
    --------
    >>> checked(["events:read", "interactions:read", "events:read"])
    ('interactions:read', 'events:read')
    """
    asked = set(scopes)
    for scope in sorted(asked - set(SCOPES)):
        raise InvalidRequest.choice("scopes", scope, SCOPES)
    if not asked:
        raise InvalidRequest(
            f"scopes: none was given; allowed: one or more of {', '.join(SCOPES)}", field="scopes"
        )
    return tuple(scope for scope in SCOPES if scope in asked)
