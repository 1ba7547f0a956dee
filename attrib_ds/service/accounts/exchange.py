"""Exchange an assertion for an access token."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrib_ds.contract.scopes import FULL_ACCESS, SCOPES
from attrib_ds.service.accounts import assertions
from attrib_ds.service.accounts.oauth_error import OAuthError
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
        Service accounts.
    client_id : str
        Id of the account.
    assertion : str
        JWT signed with a key of the account.
    audiences : collection of str
        URLs of the token route, one of which must be the audience of the assertion.

    Returns
    -------
    Token
        With the requested scopes, by default all scopes of the account.

    Raises
    ------
    OAuthError
        If the account does not exist, or the assertion or its scopes are invalid.
    """
    if not accounts.has_account(client_id):
        raise OAuthError("invalid_client", "the client_id does not exist")
    key = accounts.find_key(client_id, assertions.read_key_id(assertion))
    if key is None:
        raise OAuthError("invalid_grant", "the assertion has a kid that is not a valid key of the client")
    claims = assertions.check(assertion, key, audiences=audiences, now=accounts.clock())
    scopes = _granted(claims.scope, key.scopes)
    return accounts.issue(key, scopes, once=claims.once, until=claims.until)


def _granted(requested: object, account_scopes: tuple[str, ...]) -> tuple[str, ...]:
    if requested is None:
        return (FULL_ACCESS,) if FULL_ACCESS in account_scopes else account_scopes
    if not isinstance(requested, str) or not requested.split():
        raise OAuthError("invalid_scope", "the scope is not a list of names separated by spaces")
    names = tuple(dict.fromkeys(requested.split()))
    if not all(name in SCOPES and allows(account_scopes, name) for name in names):
        raise OAuthError("invalid_scope", "a scope does not exist or is not granted to the account")
    return names
