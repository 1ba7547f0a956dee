"""Request access tokens and share them between threads."""

from __future__ import annotations

import copy
import re
import threading
from concurrent.futures import Future
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from attrib_ds.errors import AttribError, InvalidRequest, ServiceFailure, Unauthorized, Unavailable
from attrib_ds.keys.secret import Secret
from attrib_ds.records.json_records import decode
from attrib_ds.transports.http.retrying import AttemptFailed, parse_retry_after

if TYPE_CHECKING:
    from collections.abc import Callable

    from attrib_ds.transports.http.clock import Clock
    from attrib_ds.transports.http.session import Response

#: Lifetime in seconds if the response states none.
_DEFAULT_LIFETIME: Final = 300.0
#: A token that is said to live longer is renewed after a day.
_LONGEST_LIFETIME: Final = 86_400
_LONGEST_MARGIN: Final = 60.0
_MARGIN: Final = 0.1
#: Characters that a header can carry; slightly more than RFC 6750, section 2.1 allows.
_TOKEN: Final = re.compile(r"[!-~]{1,65536}")
_LONGEST_DESCRIPTION: Final = 300


@dataclass(frozen=True)
class Grant:
    """A new access token.

    Parameters
    ----------
    token : Secret of str
        Sent with each request.
    seconds : float
        Lifetime.
    """

    token: Secret[str]
    seconds: float


@dataclass(frozen=True)
class _CachedToken:
    token: Secret[str]
    renew_at: float
    expires_at: float

    def usable_until(self, is_being_renewed: bool) -> float:
        return self.expires_at if is_being_renewed else self.renew_at


class Tokens:
    """The access token of one transport.

    Parameters
    ----------
    request : callable
        Requests a token from the service.
    clock : Clock
        Source of time.
    """

    def __init__(self, request: Callable[[], Grant], clock: Clock) -> None:
        self._request = request
        self._clock = clock
        self._lock = threading.Lock()
        self._cached: _CachedToken | None = None
        self._pending: Future[Secret[str]] | None = None

    def current(self) -> Secret[str]:
        """Return a valid token; if several threads need a new one, only one requests it."""
        return self._get(rejected=None)

    def renewed(self, rejected: Secret[str]) -> Secret[str]:
        """Return another token than the rejected one; concurrent callers share one renewal."""
        return self._get(rejected=rejected)

    def _get(self, rejected: Secret[str] | None) -> Secret[str]:
        while True:
            with self._lock:
                cached, pending, now = self._cached, self._pending, self._clock.monotonic()
                # Shortly before expiry one thread renews the token, and the others still use it.
                is_usable = cached is not None and now < cached.usable_until(pending is not None)
                if cached is not None and is_usable and cached.token is not rejected:
                    return cached.token
                is_mine = pending is None
                if pending is None:
                    pending = self._pending = Future()
            if is_mine:
                return self._fetch(pending)
            try:
                return pending.result()
            except AttribError as error:
                failure = copy.copy(error)
            except BaseException as error:
                # The thread that requested the token was interrupted; this one was not.
                if not pending.done() or pending.exception() is not error:
                    raise
                continue
            raise failure

    def _fetch(self, pending: Future[Secret[str]]) -> Secret[str]:
        started_at = self._clock.monotonic()
        try:
            grant = self._request()
        except BaseException as error:
            with self._lock:
                self._pending = None
            pending.set_exception(error)
            raise
        margin = min(_LONGEST_MARGIN, grant.seconds * _MARGIN)
        expires_at = started_at + grant.seconds
        with self._lock:
            self._cached = _CachedToken(grant.token, expires_at - margin, expires_at)
            self._pending = None
        pending.set_result(grant.token)
        return grant.token


def read_grant(response: Response, *, assertion: Secret[str], now: float) -> Grant | AttemptFailed:
    """Read the response of the token route.

    A failure is returned, not raised, so that no traceback holds a token.

    Parameters
    ----------
    response : Response
        Its body has not been read.
    assertion : Secret of str
        The assertion that was sent; redacted in messages.
    now : float
        Unix time by the service's clock.

    Returns
    -------
    Grant or AttemptFailed
        The token, or the failure.
    """
    try:
        body = decode(response.beginning())
    except InvalidRequest:
        body = None
    members = body if isinstance(body, dict) else {}
    if not 200 <= response.status < 300:
        return _read_failure(response, members, assertion, now)
    token, token_type = members.get("access_token"), members.get("token_type", "Bearer")
    if not isinstance(token, str) or not _TOKEN.fullmatch(token):
        return AttemptFailed(
            ServiceFailure("the token route answered without an access_token; check auth_url="), "never"
        )
    if not isinstance(token_type, str) or token_type.lower() != "bearer":
        return AttemptFailed(
            ServiceFailure("the token route answered with a token_type other than Bearer"), "never"
        )
    return Grant(Secret(token), _lifetime(members.get("expires_in")))


def is_clock_error(result: Grant | AttemptFailed) -> bool:
    """Return whether an assertion was rejected in a way that a wrong clock would explain."""
    return isinstance(result, AttemptFailed) and {"error": "invalid_grant"} in result.error.details


def is_scope_error(result: Grant | AttemptFailed) -> bool:
    """Return whether the account lacks a requested scope."""
    return isinstance(result, AttemptFailed) and {"error": "invalid_scope"} in result.error.details


def _lifetime(seconds: Any) -> float:
    is_number = isinstance(seconds, int | Decimal) and not isinstance(seconds, bool)
    return float(min(seconds, _LONGEST_LIFETIME)) if is_number and seconds > 0 else _DEFAULT_LIFETIME


def _read_failure(
    response: Response, members: dict[str, Any], assertion: Secret[str], now: float
) -> AttemptFailed:
    status = response.status
    retry_after = parse_retry_after(response.headers.get("Retry-After"), now=now)
    values = [members.get(name) for name in ("error", "error_description", "message")]
    parts = [
        assertion.redact(value)[:_LONGEST_DESCRIPTION] for value in values if isinstance(value, str) and value
    ]
    text = f"the token route answered {status}{': ' if parts else ''}{': '.join(dict.fromkeys(parts))}"
    if status == 429 or status >= 500 or status == 408:
        return AttemptFailed(Unavailable(text, retry_after=retry_after), "always")
    if 300 <= status < 400 or status in (404, 405):
        return AttemptFailed(InvalidRequest(f"{text}; check auth_url=", field="auth_url"), "never")
    advice = "check that the key is the right one and is not revoked"
    if members.get("error") == "invalid_scope":
        advice = "the service grants no scope to this key"
    elif members.get("error") == "invalid_grant":
        advice += ", that auth_url= is the service's own address, and that this machine's clock is right"
    details = [{"error": members["error"]}] if isinstance(members.get("error"), str) else []
    return AttemptFailed(Unauthorized(f"{text}; {advice}", field="key", details=details), "never")
