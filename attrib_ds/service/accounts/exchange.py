"""Exchanges an assertion for an access token."""

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
    """Give an access token for an assertion.

    Parameters
    ----------
    accounts : Accounts
        Who is known.
    client_id : str
        The account that asks.
    assertion : str
        JWT signed by a key of it.
    audiences : collection of str
        URLs of the token route, one of which the assertion must be made for.

    Returns
    -------
    Token
        For the scopes that were asked for, or all that the account has.

    Raises
    ------
    Refusal
        If the account is not known, or the assertion or its scopes are not good.
    """
    if not accounts.has_account(client_id):
        raise Refusal("invalid_client", "the client_id is not known")
    key = accounts.find_key(client_id, assertions.read_key_id(assertion))
    if key is None:
        raise Refusal("invalid_grant", "the assertion has a kid that is no working key of the client")
    claims = assertions.check(assertion, key, audiences=audiences, now=accounts.clock())
    scopes = _granted(claims.scope, key.scopes)
    return accounts.issue(key, scopes, once=claims.once, until=claims.until)


def _granted(asked: object, held: tuple[str, ...]) -> tuple[str, ...]:
    if asked is None:
        return (FULL_ACCESS,) if FULL_ACCESS in held else held
    if not isinstance(asked, str) or not asked.split():
        raise Refusal("invalid_scope", "the scope is no list of names with blanks between them")
    names = tuple(dict.fromkeys(asked.split()))
    # Unknown and not granted are told alike, since full_access allows every known scope only.
    if not all(name in SCOPES and allows(held, name) for name in names):
        raise Refusal("invalid_scope", "a scope is not known, or not granted to the account")
    return names
