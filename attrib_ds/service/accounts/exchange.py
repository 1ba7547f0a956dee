"""The token exchange: an access token for an assertion."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrib_ds.contract.scopes import FULL_ACCESS, SCOPES
from attrib_ds.service.accounts import assertions
from attrib_ds.service.accounts.refusal import Refusal
from attrib_ds.service.accounts.scopes import allows

if TYPE_CHECKING:
    from collections.abc import Collection

    from attrib_ds.service.accounts.accounts import Accounts, Token


def exchange(
    accounts: Accounts,
    *,
    client_id: str,
    assertion: str,
    audiences: Collection[str],
) -> Token:
    """Issue an access token for an assertion.

    Parameters
    ----------
    accounts : Accounts
        The service accounts.
    client_id : str
        The requesting account.
    assertion : str
        JWT signed by a key of the account.
    audiences : collection of str
        Valid audiences of the assertion: URLs of the token route.

    Returns
    -------
    Token
        With the requested scopes, by default all scopes of the account.

    Raises
    ------
    Refusal
        If the account is unknown, or the assertion or its scopes are invalid.
    """
    if not accounts.has_account(client_id):
        raise Refusal("invalid_client", "the client_id is not known")
    key = accounts.find_key(client_id, assertions.read_key_id(assertion))
    if key is None:
        raise Refusal("invalid_grant", "the assertion has a kid that is no working key of the client")
    claims = assertions.check(assertion, key, audiences=audiences, now=accounts.clock())
    scopes = _granted(claims.scope, key.scopes)
    return accounts.issue(key, scopes, once=claims.once, until=claims.until)


def _granted(requested: object, granted: tuple[str, ...]) -> tuple[str, ...]:
    if requested is None:
        return (FULL_ACCESS,) if FULL_ACCESS in granted else granted
    if not isinstance(requested, str) or not requested.split():
        raise Refusal("invalid_scope", "the scope is no list of names with blanks between them")
    names = tuple(dict.fromkeys(requested.split()))
    # Unknown and not granted scopes get the same error: full_access includes known scopes only.
    if not all(name in SCOPES and allows(granted, name) for name in names):
        raise Refusal("invalid_scope", "a scope is not known, or not granted to the account")
    return names
