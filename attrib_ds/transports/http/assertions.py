"""Sign the JWT assertion with which a service account requests an access token (RFC 7523)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import jwt

from attrib_ds.contract.scopes import FULL_ACCESS
from attrib_ds.errors import InvalidRequest
from attrib_ds.keys.secret import Secret

if TYPE_CHECKING:
    from attrib_ds.transports.http.credentials import Credentials

_ALGORITHM: Final = "RS256"

#: Validity in seconds; a service accepts an hour at most (G-170).
_SECONDS: Final = 300
#: Seconds by which ``iat`` is backdated, for services whose clock is slightly behind.
_SECONDS_BEFORE: Final = 10


def make_assertion(
    credentials: Credentials, *, audience: str, now: float, scope: str | None = FULL_ACCESS
) -> Secret[str]:
    """Sign an assertion.

    Parameters
    ----------
    credentials : Credentials
        Key of the service account.
    audience : str
        URL of the token route.
    now : float
        Unix time by the service's clock.
    scope : str, optional
        Scopes to request; None for those that the account has (G-174).

    Returns
    -------
    Secret of str
        A JWT.

    Raises
    ------
    InvalidRequest
        If the private key cannot sign.
    """
    claims = {
        "iss": credentials.client_id,
        "sub": credentials.email,
        "aud": audience,
        **({} if scope is None else {"scope": scope}),
        "iat": int(now) - _SECONDS_BEFORE,
        "exp": int(now) + _SECONDS,
    }
    headers = {"kid": credentials.key_id, "typ": "JWT"}
    try:
        return Secret(
            jwt.encode(claims, credentials.private_key.reveal(), algorithm=_ALGORITHM, headers=headers)
        )
    except (jwt.PyJWTError, ValueError, TypeError):
        pass
    # Outside the handler: the traceback of the failure holds the private key.
    raise InvalidRequest(f"key: the private key {credentials.key_id!r} cannot sign", field="key")
