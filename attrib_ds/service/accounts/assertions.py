"""Validates the JWT assertions by which service accounts authenticate (RFC 7523)."""

from __future__ import annotations

import base64
import json
import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import jwt

from attrib_ds.service.accounts.refusal import Refusal

if TYPE_CHECKING:
    from collections.abc import Collection

    from attrib_ds.service.accounts.accounts import PublicKey

_ALGORITHM: Final = "RS256"
_TYPE: Final = "JWT"
_LONGEST: Final = 16_384
_LONGEST_ID: Final = 256
_TOLERANCE: Final = 60
_LONGEST_LIFE: Final = 3_600
_PART: Final = re.compile("[A-Za-z0-9_-]+")


@dataclass(frozen=True)
class Claims:
    """The claims of a valid assertion.

    Parameters
    ----------
    scope : object
        Requested scopes, unvalidated; None for all.
    once : str, optional
        Identifier of the assertion (``jti``), for replay protection.
    until : float
        End of validity, in seconds since 1970.
    """

    scope: object
    once: str | None
    until: float


def read_key_id(assertion: str) -> str:
    """Return the key id of a well-formed assertion.

    Parameters
    ----------
    assertion : str
        A JWT in the compact form.

    Returns
    -------
    str
        ``kid``, unverified.

    Raises
    ------
    Refusal
        If the assertion is malformed or has another algorithm.
    """
    parts = assertion.split(".")
    is_long = len(assertion) > _LONGEST
    # Accept only canonical base64url, since several texts decode to the same bytes.
    if is_long or len(parts) != 3 or not all(map(_is_canonical, parts)):
        raise _refused("is no JWT: three parts in base64url without padding, 16 KiB at most")
    header = _json_object(parts[0])
    if header.get("alg") != _ALGORITHM:
        raise _refused(f"is not signed by {_ALGORITHM}")
    if header.get("typ") != _TYPE:
        raise _refused(f"is not of typ {_TYPE}")
    if "crit" in header:
        raise _refused("has a header that must be understood and is not (crit)")
    if not isinstance(header.get("kid"), str):
        raise _refused("has no kid")
    return str(header["kid"])


def check(assertion: str, key: PublicKey, *, audiences: Collection[str], now: float) -> Claims:
    """Verify the signature of an assertion and validate its claims.

    Parameters
    ----------
    assertion : str
        A well-formed assertion; see :func:`read_key_id`.
    key : PublicKey
        Its key.
    audiences : collection of str
        URLs of the token route.
    now : float
        Seconds since 1970.

    Returns
    -------
    Claims
        The validated claims.

    Raises
    ------
    Refusal
        If the assertion is invalid.
    """
    try:
        jwt.PyJWS().decode(assertion, key.pem, algorithms=[_ALGORITHM])
    except jwt.PyJWTError:
        raise _refused("has a wrong signature") from None
    # PyJWT would also accept numbers as text, and one audience among others.
    claims = _json_object(assertion.split(".")[1])
    if claims.get("iss") != key.client_id:
        raise _refused("has an iss that is not the client_id")
    if claims.get("sub") != key.email:
        raise _refused("has a sub that is not the serviceAccountEmail")
    if not any(claims.get("aud") in (url, [url]) for url in audiences):
        raise _refused(f"has an aud that is not the URL of the token route, {sorted(audiences)[0]}")
    expiry = _check_times(claims, now)
    once = claims.get("jti")
    if once is not None and not (isinstance(once, str) and 0 < len(once) <= _LONGEST_ID):
        raise _refused(f"has a jti that is no text of 1 to {_LONGEST_ID} characters")
    return Claims(claims.get("scope"), once, expiry + _TOLERANCE)


def _check_times(claims: dict[str, Any], now: float) -> float:
    expiry = _second(claims, "exp")
    if expiry is None:
        raise _refused("has no exp")
    if expiry <= now - _TOLERANCE:
        raise _refused("has expired")
    if expiry > now + _LONGEST_LIFE + _TOLERANCE:
        raise _refused(f"has an exp more than {_LONGEST_LIFE} seconds ahead")
    for name in ("iat", "nbf"):
        start = _second(claims, name)
        if start is not None and start > now + _TOLERANCE:
            raise _refused(f"has an {name} in the future")
    return float(expiry)


def _second(claims: dict[str, Any], name: str) -> float | None:
    value = claims.get(name)
    if value is None:
        return None
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or (isinstance(value, float) and not math.isfinite(value)):
        raise _refused(f"has an {name} that is no number of seconds")
    return value  # type: ignore[no-any-return]


def _is_canonical(part: str) -> bool:
    if not _PART.fullmatch(part) or len(part) % 4 == 1:
        return False
    return base64.urlsafe_b64encode(_bytes(part)).rstrip(b"=") == part.encode()


def _bytes(part: str) -> bytes:
    return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))


def _json_object(part: str) -> dict[str, Any]:
    try:
        value = json.loads(_bytes(part))
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise _refused("has a part that is no JSON object")
    return value


def _refused(problem: str) -> Refusal:
    return Refusal("invalid_grant", f"the assertion {problem}")
