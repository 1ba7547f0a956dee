"""The token route: exchanges assertions for access tokens (RFC 6749, RFC 7523)."""

import json
import logging
import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import parse_qsl

from starlette.requests import ClientDisconnect
from starlette.responses import Response

from attrib_ds.contract import OPERATIONS, from_wire
from attrib_ds.contract.administration import JWT_BEARER
from attrib_ds.errors import InvalidRequest
from attrib_ds.service.accounts import Accounts, OAuthError, exchange
from attrib_ds.service.http import limits
from attrib_ds.service.http.errors import HttpError, to_http_error
from attrib_ds.service.http.limits import BodyBudget, BodyMemory, ServiceRequest
from attrib_ds.service.http.reads import ThreadPool

_FORM: Final = "application/x-www-form-urlencoded"
_MOST_BYTES: Final = 64 * 1024
_MOST_PARAMETERS: Final = 20
#: Characters not allowed in an error_description (RFC 6749, section 5.2).
_DISALLOWED: Final = re.compile(r"[^\x20-\x21\x23-\x5B\x5D-\x7E]+")
_HEADERS: Final = {"Cache-Control": "no-store", "Pragma": "no-cache"}
_log: Final = logging.getLogger(__name__)


@dataclass
class TokenRoute:
    """Issue access tokens for assertions.

    Parameters
    ----------
    accounts : Accounts
        Service accounts.
    audiences : collection of str
        URLs of the route; an assertion must name one as its audience.
    pool : ThreadPool
        Threads that do the work.
    budget : BodyBudget
        Memory for request bodies.
    """

    accounts: Accounts
    audiences: Collection[str]
    pool: ThreadPool
    budget: BodyBudget

    async def answer(self, request: ServiceRequest) -> Response:
        """Answer one request; errors have the codes of RFC 6749."""
        headers: dict[str, str] = {}
        try:
            with self.budget.request(has_token=False) as memory:
                form = await _read_form(request, memory)
            token = await self.pool.run_or_reject(
                exchange,
                self.accounts,
                client_id=form["client_id"],
                assertion=form["assertion"],
                audiences=self.audiences,
            )
            scope = " ".join(token.scopes)
            body: dict[str, Any] = {"access_token": token.text, "token_type": "Bearer", "scope": scope}
            status, body["expires_in"] = 200, token.seconds
        except OAuthError as error:
            status = 400
            body = {"error": error.code, "error_description": _DISALLOWED.sub(" ", error.description)}
            if error.code == "invalid_client":
                status, headers = 401, {"WWW-Authenticate": 'Bearer error="invalid_client"'}
        except ClientDisconnect:
            raise
        except Exception as error:  # noqa: BLE001  (answered by status, and logged by class alone)
            failure = to_http_error(error)
            status, headers = failure.status, failure.headers
            if status >= 500 and not isinstance(error, HttpError):
                # Without message and traceback, which may contain secrets.
                _log.error("request %s failed: %s", request.id, type(error).__name__)
            fault = "temporarily_unavailable" if status == 503 else "server_error"
            body = {"error": "invalid_request" if status < 500 else fault}
        return Response(json.dumps(body), status, _HEADERS | headers, media_type="application/json")


async def _read_form(request: ServiceRequest, memory: BodyMemory) -> dict[str, str]:
    media = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media != _FORM:
        raise OAuthError("invalid_request", f"the content type is not {_FORM}")
    content = await limits.read(request, most_bytes=_MOST_BYTES, memory=memory)
    try:
        pairs = parse_qsl(content.decode("ascii"), errors="strict", max_num_fields=_MOST_PARAMETERS)
    except ValueError:
        raise OAuthError("invalid_request", "the body is not a form in UTF-8") from None
    form = dict(pairs)
    if len(form) < len(pairs):
        raise OAuthError("invalid_request", "a parameter is repeated")
    if form.get("grant_type", JWT_BEARER) != JWT_BEARER:
        raise OAuthError("unsupported_grant_type", f"the grant_type is not {JWT_BEARER}")
    try:
        from_wire(OPERATIONS["exchange_token"], body=form)
    except InvalidRequest as error:
        names = ", ".join(sorted({str(entry["attribute"]) for entry in error.details}))
        raise OAuthError("invalid_request", f"missing or not allowed: {names}") from None
    return form
