"""Gets access tokens and shares them between threads."""

from __future__ import annotations

import copy
import re
import threading
from concurrent.futures import Future
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from attrib_ds.errors import AttribError, InvalidRequest, ServiceFailure, Unauthorized, Unavailable
from attrib_ds.records.json_records import decode
from attrib_ds.transports.http.retrying import Failed, seconds_asked
from attrib_ds.transports.http.secret import Secret

if TYPE_CHECKING:
    from collections.abc import Callable

    from attrib_ds.transports.http.clock import Clock
    from attrib_ds.transports.http.session import Response

#: Where a token does not say how long it lives.
_USUAL_LIFE: Final = 300.0
_LONGEST_MARGIN: Final = 60.0
_MARGIN: Final = 0.1
#: What a header can carry (RFC 6750, section 2.1), and a little more.
_TOKEN: Final = re.compile(r"[!-~]{1,65536}")
_LONGEST_DESCRIPTION: Final = 300


@dataclass(frozen=True)
class Grant:
    """An access token, just given.

    Parameters
    ----------
    token : Secret of str
        To be sent with each request.
    seconds : float
        How long it lives.
    """

    token: Secret[str]
    seconds: float


@dataclass(frozen=True)
class _Held:
    token: Secret[str]
    renew_at: float
    ends_at: float

    def until(self, is_being_renewed: bool) -> float:
        return self.ends_at if is_being_renewed else self.renew_at


class Tokens:
    """The access token of one transport.

    Parameters
    ----------
    request : callable
        Asks the service for a token.
    clock : Clock
        Where time comes from.
    """

    def __init__(self, request: Callable[[], Grant], clock: Clock) -> None:
        self._request = request
        self._clock = clock
        self._lock = threading.Lock()
        self._held: _Held | None = None
        self._coming: Future[Secret[str]] | None = None

    def current(self) -> Secret[str]:
        """Return a token that lives; one thread asks for it, and the others wait for the same."""
        return self._get(refused=None)

    def renewed(self, refused: Secret[str]) -> Secret[str]:
        """Return another token than the one that was refused; many that were refused together get one."""
        return self._get(refused=refused)

    def held(self) -> list[Secret[str]]:
        """Return the token that is held, if there is one."""
        held = self._held
        return [held.token] if held else []

    def _get(self, refused: Secret[str] | None) -> Secret[str]:
        while True:
            with self._lock:
                held, coming, now = self._held, self._coming, self._clock.monotonic()
                # Near its end one thread renews it, while it still serves the others.
                if held is not None and held.token is not refused and now < held.until(coming is not None):
                    return held.token
                is_mine = coming is None
                if coming is None:
                    coming = self._coming = Future()
            if is_mine:
                return self._fetch(coming)
            try:
                return coming.result()
            except AttribError as error:
                failure = copy.copy(error)
            except BaseException as error:
                # Whoever asked was interrupted; this thread was not.
                if not coming.done() or coming.exception() is not error:
                    raise
                continue
            raise failure

    def _fetch(self, coming: Future[Secret[str]]) -> Secret[str]:
        began = self._clock.monotonic()
        try:
            grant = self._request()
        except BaseException as error:
            with self._lock:
                self._coming = None
            coming.set_exception(error)
            raise
        margin = min(_LONGEST_MARGIN, grant.seconds * _MARGIN)
        ends_at = began + grant.seconds
        with self._lock:
            self._held = _Held(grant.token, ends_at - margin, ends_at)
            self._coming = None
        coming.set_result(grant.token)
        return grant.token


def read_grant(response: Response, *, assertion: Secret[str], now: float) -> Grant | Failed:
    """Read the answer of a token route; returns what is wrong, so that no frame that holds a token raises.

    Parameters
    ----------
    response : Response
        Of which the body is not read.
    assertion : Secret of str
        What was sent, which no message may show.
    now : float
        Seconds since 1970 by the service's clock.

    Returns
    -------
    Grant or Failed
        The token, or the failure.
    """
    try:
        told = decode(response.beginning())
    except InvalidRequest:
        told = None
    members = told if isinstance(told, dict) else {}
    if not 200 <= response.status < 300:
        return _refusal(response, members, assertion, now)
    token, kind = members.get("access_token"), members.get("token_type", "Bearer")
    if not isinstance(token, str) or not _TOKEN.fullmatch(token):
        return Failed(
            ServiceFailure("the token route answered without an access_token; check auth_url="), "never"
        )
    if not isinstance(kind, str) or kind.lower() != "bearer":
        return Failed(
            ServiceFailure("the token route answered with a token of another kind than Bearer"), "never"
        )
    return Grant(Secret(token), _life(members.get("expires_in")))


def is_about_time(result: Grant | Failed) -> bool:
    """Say whether an assertion was refused as one may be that was made by a clock that is wrong."""
    return isinstance(result, Failed) and {"error": "invalid_grant"} in result.error.details


def _life(seconds: Any) -> float:
    is_number = isinstance(seconds, int | Decimal) and not isinstance(seconds, bool)
    return float(seconds) if is_number and seconds > 0 else _USUAL_LIFE


def _refusal(response: Response, members: dict[str, Any], assertion: Secret[str], now: float) -> Failed:
    status = response.status
    asked = seconds_asked(response.headers.get("Retry-After"), now=now)
    told = [members.get(name) for name in ("error", "error_description", "message")]
    words = [assertion.blot(each)[:_LONGEST_DESCRIPTION] for each in told if isinstance(each, str) and each]
    text = f"the token route answered {status}{': ' if words else ''}{': '.join(dict.fromkeys(words))}"
    if status == 429 or status >= 500 or status == 408:
        return Failed(Unavailable(text, retry_after=asked), "always")
    if 300 <= status < 400 or status in (404, 405):
        return Failed(InvalidRequest(f"{text}; check auth_url=", field="auth_url"), "never")
    advice = "check that the key is the right one and is not revoked"
    if members.get("error") == "invalid_scope":
        advice = "the service account must have full_access"
    elif members.get("error") == "invalid_grant":
        advice += ", that auth_url= is as the service knows it, and the clock of this machine"
    details = [{"error": members["error"]}] if isinstance(members.get("error"), str) else []
    return Failed(Unauthorized(f"{text}; {advice}", field="key", details=details), "never")
