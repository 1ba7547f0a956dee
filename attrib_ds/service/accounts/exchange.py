"""Exchange the JWT assertion with which a service account authenticates for an access token (RFC 7523)."""

import base64
import json
import math
import re
from collections.abc import Collection
from typing import Any, Final, Literal

import jwt

from attrib_ds.contract.json_values import is_deeper
from attrib_ds.keys import FULL_ACCESS, SCOPES
from attrib_ds.service.accounts.accounts import Accounts, PublicKey, Token, allows

_ALGORITHM: Final = "RS256"
_TYPE: Final = "JWT"
_LONGEST: Final = 16_384
_LONGEST_ID: Final = 256
_TOLERANCE: Final = 60
_LONGEST_LIFE: Final = 3_600
_PART: Final = re.compile("[A-Za-z0-9_-]+")
Code = Literal[
    "invalid_request", "invalid_client", "invalid_grant", "invalid_scope", "unsupported_grant_type"
]


class OAuthError(Exception):
    """A rejected token request; handled by the token route.

    Parameters
    ----------
    code : str
        Error code of RFC 6749.
    description : str
        What is wrong, without any content of the request.
    """

    def __init__(self, code: Code, description: str) -> None:
        super().__init__(description)
        self.code = code
        self.description = description


def exchange(accounts: Accounts, *, client_id: str, assertion: str, audiences: Collection[str]) -> Token:
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
    key = accounts.find_key(client_id, read_key_id(assertion))
    if key is None:
        raise OAuthError("invalid_grant", "the assertion has a kid that is not a valid key of the client")
    claims, until = check(assertion, key, audiences=audiences, now=accounts.clock())
    scopes = _granted(claims.get("scope"), key.scopes)
    token = accounts.issue(key, scopes, once=claims.get("jti"), until=until)
    if token is None:
        raise OAuthError("invalid_grant", "the assertion was used before (jti)")
    return token


def _granted(requested: object, account_scopes: tuple[str, ...]) -> tuple[str, ...]:
    if requested is None:
        return (FULL_ACCESS,) if FULL_ACCESS in account_scopes else account_scopes
    if not isinstance(requested, str) or not requested.split():
        raise OAuthError("invalid_scope", "the scope is not a list of names separated by spaces")
    names = tuple(dict.fromkeys(requested.split()))
    if not all(name in SCOPES and allows(account_scopes, name) for name in names):
        raise OAuthError("invalid_scope", "a scope does not exist or is not granted to the account")
    return names


def read_key_id(assertion: str) -> str:
    """Return the key id of an assertion after checking its format.

    Parameters
    ----------
    assertion : str
        A JWT in compact serialization.

    Returns
    -------
    str
        ``kid``, not yet verified.

    Raises
    ------
    OAuthError
        If the format or the algorithm is not supported.
    """
    parts = assertion.split(".")
    is_long = len(assertion) > _LONGEST
    # Several strings decode to the same bytes; only the canonical one is accepted.
    if is_long or len(parts) != 3 or not all(map(_is_canonical, parts)):
        raise _invalid("is not a JWT: three parts in base64url without padding, 16 KiB at most")
    header = _json_object(parts[0])
    if header.get("alg") != _ALGORITHM:
        raise _invalid(f"is not signed with {_ALGORITHM}")
    if header.get("typ") != _TYPE:
        raise _invalid(f"is not of typ {_TYPE}")
    if "crit" in header:
        raise _invalid("has an unsupported critical header (crit)")
    if not isinstance(header.get("kid"), str):
        raise _invalid("has no kid")
    return str(header["kid"])


def check(
    assertion: str, key: PublicKey, *, audiences: Collection[str], now: float
) -> tuple[dict[str, Any], float]:
    """Verify the signature of an assertion, then its claims.

    Parameters
    ----------
    assertion : str
        Checked by :func:`read_key_id`.
    key : PublicKey
        The key with that id.
    audiences : collection of str
        URLs of the token route.
    now : float
        Unix time.

    Returns
    -------
    tuple of dict and float
        Its claims, of which the scope is unchecked, and the Unix time until which it is valid.

    Raises
    ------
    OAuthError
        If the signature or a claim is invalid.
    """
    try:
        jwt.PyJWS().decode(assertion, key.pem, algorithms=[_ALGORITHM])
    except jwt.PyJWTError:
        raise _invalid("has an invalid signature") from None
    # PyJWT would also accept numbers as strings, and one audience among several.
    claims = _json_object(assertion.split(".")[1])
    if claims.get("iss") != key.client_id:
        raise _invalid("has an iss that is not the client_id")
    if claims.get("sub") != key.email:
        raise _invalid("has a sub that is not the serviceAccountEmail")
    if not any(claims.get("aud") in (url, [url]) for url in audiences):
        raise _invalid(f"has an aud that is not the URL of the token route, {sorted(audiences)[0]}")
    expiry = _check_times(claims, now)
    once = claims.get("jti")
    if once is not None and not (isinstance(once, str) and 0 < len(once) <= _LONGEST_ID):
        raise _invalid(f"has a jti that is not a string of 1 to {_LONGEST_ID} characters")
    return claims, expiry + _TOLERANCE


def _check_times(claims: dict[str, Any], now: float) -> float:
    expiry = _timestamp(claims, "exp")
    if expiry is None:
        raise _invalid("has no exp")
    if expiry <= now - _TOLERANCE:
        raise _invalid("has expired")
    if expiry > now + _LONGEST_LIFE + _TOLERANCE:
        raise _invalid(f"has an exp more than {_LONGEST_LIFE} seconds ahead")
    for name in ("iat", "nbf"):
        start = _timestamp(claims, name)
        if start is not None and start > now + _TOLERANCE:
            raise _invalid(f"has an {name} in the future")
    return float(expiry)


def _timestamp(claims: dict[str, Any], name: str) -> float | None:
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < math.inf:
        raise _invalid(f"has an {name} that is not a number of seconds")
    return value


def _is_canonical(part: str) -> bool:
    if not _PART.fullmatch(part) or len(part) % 4 == 1:
        return False
    return base64.urlsafe_b64encode(_bytes(part)).rstrip(b"=") == part.encode()


def _bytes(part: str) -> bytes:
    return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))


def _json_object(part: str) -> dict[str, Any]:
    try:
        content = _bytes(part)
        value = None if is_deeper(content) else json.loads(content)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise _invalid("has a part that is not a JSON object")
    return value


def _invalid(problem: str) -> OAuthError:
    return OAuthError("invalid_grant", f"the assertion {problem}")
