"""Answers the token route (RFC 6749, RFC 7523)."""

from __future__ import annotations

import json
import logging
import re
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from attrib_ds.contract import OPERATIONS, from_wire
from attrib_ds.contract.accounts import JWT_BEARER
from attrib_ds.errors import InvalidRequest
from attrib_ds.service.accounts import Refusal, exchange
from attrib_ds.service.http import bodies
from attrib_ds.service.http.failures import Failed, failed

if TYPE_CHECKING:
    from collections.abc import Collection

    from attrib_ds.service.accounts import Accounts
    from attrib_ds.service.http.workers import Workers

_FORM: Final = "application/x-www-form-urlencoded"
_MOST_BYTES: Final = 64 * 1024
_MOST_PARAMETERS: Final = 20
#: What an error_description may hold (RFC 6749, section 5.2).
_UNTELLABLE: Final = re.compile(r"[^\x20-\x21\x23-\x5B\x5D-\x7E]+")
_HEADERS: Final = {"Cache-Control": "no-store", "Pragma": "no-cache"}
_log: Final = logging.getLogger(__name__)


class TokenRoute:
    """Gives access tokens for assertions.

    Parameters
    ----------
    accounts : Accounts
        Who may have one.
    audiences : collection of str
        URLs under which the route is known, one of which an assertion must be made for (G-171).
    workers : Workers
        Where the work is done.
    """

    def __init__(self, accounts: Accounts, *, audiences: Collection[str], workers: Workers) -> None:
        self._accounts = accounts
        self._audiences = audiences
        self._workers = workers

    async def answer(self, request: Request) -> Response:
        """Answer one request; whatever goes wrong is told in the words of RFC 6749 (G-169)."""
        try:
            form = await _read_form(request)
            token = await self._workers.begin(
                exchange,
                self._accounts,
                client_id=form["client_id"],
                assertion=form["assertion"],
                audiences=self._audiences,
            )
        except Refusal as refusal:
            return _refused(refusal)
        except ClientDisconnect:
            raise
        except Exception as error:  # noqa: BLE001  (told by status, and logged by name alone)
            failure = failed(error)
            return _failure(request, failure, error)
        told = {
            "access_token": token.text,
            "token_type": "Bearer",
            "expires_in": token.seconds,
            "scope": " ".join(token.scopes),
        }
        return _response(200, told)


async def _read_form(request: Request) -> dict[str, str]:
    media = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media != _FORM:
        raise Refusal("invalid_request", f"the content type is not {_FORM}")
    content = await bodies.read(request, most_bytes=_MOST_BYTES)
    try:
        pairs = parse_qsl(content.decode("ascii"), errors="strict", max_num_fields=_MOST_PARAMETERS)
    except ValueError:
        raise Refusal("invalid_request", "the body is no form in UTF-8") from None
    form = dict(pairs)
    if len(form) < len(pairs):
        raise Refusal("invalid_request", "a parameter is there twice")
    if form.get("grant_type", JWT_BEARER) != JWT_BEARER:
        raise Refusal("unsupported_grant_type", f"the grant_type is not {JWT_BEARER}")
    try:
        from_wire(OPERATIONS["exchange_token"], body=form)
    except InvalidRequest as error:
        named = ", ".join(sorted({str(each["attribute"]) for each in error.details}))
        raise Refusal("invalid_request", f"missing or not allowed: {named}") from None
    return form


def _refused(refusal: Refusal) -> Response:
    told = {"error": refusal.code, "error_description": _UNTELLABLE.sub(" ", refusal.description)}
    if refusal.code == "invalid_client":
        return _response(401, told, {"WWW-Authenticate": 'Bearer error="invalid_client"'})
    return _response(400, told)


def _failure(request: Request, failure: Failed, error: Exception) -> Response:
    if failure.status >= 500:
        # Without its text and trace: what is going on here is about secrets.
        _log.error("request %s failed: %s", request.state.request_id, type(error).__name__)
        code = "temporarily_unavailable" if failure.status == 503 else "server_error"
    else:
        code = "invalid_request"
    return _response(failure.status, {"error": code}, failure.headers)


def _response(status: int, told: dict[str, Any], headers: dict[str, str] | None = None) -> Response:
    return Response(json.dumps(told), status, {**_HEADERS, **(headers or {})}, media_type="application/json")
