"""An attribution service written from the specification alone: `Vendor`, an ASGI application over data in memory.

It has no operation that the specification does not list. `Variation` chooses among the answers that it leaves open.
"""

import asyncio
import json
import re
import traceback
from collections import Counter
from datetime import timedelta
from email.utils import format_datetime
from functools import cache
from types import SimpleNamespace
from urllib.parse import parse_qsl, unquote

import jwt
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import Response
from support.signing import service_account
from support.vendor.answers import json_answer, refusal
from support.vendor.operations import Operations
from support.vendor.selection import RefusedError, checked, lookup
from support.vendor.variations import CALLS, WRITES
from support.vendor.world import SERVICE

ASSERTION = {"verify_exp": False, "verify_iat": False, "verify_nbf": False, "require": ["iss", "aud", "exp"]}


#: The key of the service account, and its public half; made once per process.
account = cache(service_account)


class Vendor(Operations):
    """The service: `requests` and `writes` are its logs, `failures` its own errors.

    Calls in a log have the status of their answer, or lost, dropped or cut.
    """

    def __init__(self, variation=None, **data):
        super().__init__(variation, **data)
        self.address, self.requests, self.failures = "http://localhost", [], []
        self.tokens, self.calls, self.routes = {}, Counter(), {}
        self.app = GZipMiddleware(self, minimum_size=1) if self.variation.gzip else self
        for name, spec in SERVICE["operations"].items():
            path = re.sub(r"^(/api/v\d|/auth)", rf"\1{self.variation.prefix}", spec["path"])
            self.routes[name] = re.compile(re.sub(r"\{(\w+)}", r"(?P<\1>[^/]+)", path))

    async def __call__(self, scope, receive, send):
        """Answer a request, or close its connection."""
        request = Request(scope, receive)
        body = await request.body()
        await asyncio.sleep(self.variation.delay)
        call, is_known = self.route(request)
        fault = self.fault(call, body) if call.operation else None
        response = self.answer(call, is_known, fault, request, body)
        broken = fault.answer if fault and isinstance(fault.answer, str) else None
        call.status = broken or response.status_code
        self.requests.append(call)
        response.headers["Date"] = format_datetime(self.now(), usegmt=True)
        if not broken:
            return await response(scope, receive, send)
        if broken == "cut":
            half, status, head = len(response.body) // 2, response.status_code, response.raw_headers
            await send({"type": "http.response.start", "status": status, "headers": head})
            await send({"type": "http.response.body", "body": response.body[:half], "more_body": True})
        cycle = receive.__self__  # uvicorn's, of this request
        while not cycle.disconnected:
            cycle.transport.close()
            await asyncio.sleep(0)
        return None

    def route(self, request):
        """Return the call of an operation, and whether its path is known with any method."""
        path, query = request.scope["raw_path"].split(b"?")[0].decode(), dict(request.query_params)
        found = {name: pattern.fullmatch(path) for name, pattern in self.routes.items()}
        found = {name: match.groupdict() for name, match in found.items() if match}
        call = SimpleNamespace(operation=None, path=request.url.path, query=query)
        for name, given in found.items():
            if SERVICE["operations"][name]["method"] == request.method:
                call.operation, call.spec = name, SERVICE["operations"][name]
                call.given = {key: unquote(value) for key, value in given.items()}
        return call, bool(found)

    def fault(self, call, body):
        """Return the fault of this call, if it has one."""
        found, kinds = None, ["writes" if call.operation in WRITES else "reads", "all"]
        kinds = [call.operation, *(["token"] if call.operation == "exchange_token" else kinds)]
        for index, fault in enumerate(self.variation.faults):
            same = (call.path, str(call.query), body) if fault.per == "request" else None
            key = index, call.operation, same
            self.calls[key] += 1
            fails = fault.on in kinds and self.calls[key] in CALLS[fault.calls]
            found = found or (fault if fails else None)
        return found

    def answer(self, call, is_known, fault, request, body):
        """Carry out a call, as far as it is known and does not fail."""
        variation, headers = self.variation, {}
        if request.method == "HEAD" and variation.head:
            return Response(status_code=variation.head)
        if call.operation is None:
            status, form = variation.absent or (405 if is_known else 404), variation.absent_body
            return refusal(status, f"no {call.path}", form or variation.error_body, variation)
        response = Response()
        if fault is None or fault.carried_out or fault.answer in ("lost", "cut"):
            response = self.carry_out(call, request.headers.get("authorization", ""), body)
        if fault is None or isinstance(fault.answer, str):
            return response
        if fault.retry_after:
            date = format_datetime(self.now() + timedelta(seconds=2), usegmt=True)
            headers["Retry-After"] = date if fault.retry_after == "date" else fault.retry_after
        return refusal(fault.answer, "the service is unwell", variation.error_body, variation, headers)

    def carry_out(self, call, authorization, body):
        """Check a call and run its operation."""
        spec, given = call.spec, call.given
        try:
            if call.operation == "exchange_token":
                return self.exchange_token(dict(parse_qsl(body.decode())))
            if self.variation.token_required == "all" or not spec.get("open"):
                self.check_token(authorization)
            if given.get("projectId", self.world.project) != self.world.project:
                raise RefusedError(403, "Forbidden resource")
            members = json.loads(body or b"{}") if spec["method"] != "GET" else call.query
            given |= spec.get("absent", {}) | checked(call.operation, members)
            for name, kind in spec.get("known", {}).items():
                if lookup(given, name) not in getattr(self.world, kind):
                    raise RefusedError(spec.get("unknown", 400), f"{name} identifies nothing")
            if given.get("startDate") and given.get("endDate") and given["startDate"] >= given["endDate"]:
                raise RefusedError(400, "startDate must be less than endDate")
            answer = getattr(self, spec.get("do", call.operation))(call)
            return answer if isinstance(answer, Response) else json_answer(answer, self.variation)
        except RefusedError as error:
            return refusal(*error.args, self.variation.error_body, self.variation)
        except Exception:  # noqa: BLE001  an error of this service, shown at its end
            self.failures.append(traceback.format_exc())
            return refusal(500, "Internal server error", self.variation.error_body, self.variation)

    def exchange_token(self, form):
        """Verify an assertion and issue a token."""
        if self.variation.token_redirect:
            headers = {"Location": f"{self.address}/login/oidc/token"}
            return Response(status_code=self.variation.token_redirect, headers=headers)
        (key, public), text = account(), form.get("assertion", "")
        route = {"audience": self.address + self.routes["exchange_token"].pattern, "issuer": key["clientId"]}
        known = {"grant_type": "urn:ietf:params:oauth:grant-type:jwt-bearer", "client_id": key["clientId"]}
        known |= {"kid": key["privateKeyId"], "sub": key["serviceAccountEmail"]}
        try:
            found = jwt.decode(text, public, algorithms=["RS256"], options=ASSERTION, **route)
            found |= jwt.get_unverified_header(text) | form
            ahead = found["exp"] - self.now().timestamp()
            if not known.items() <= found.items() or not 0 < ahead <= self.variation.assertion_ahead:
                raise jwt.InvalidTokenError("the grant, client, key, account or exp is not accepted")
        except jwt.InvalidTokenError as error:
            return refusal(400, str(error), "grant", self.variation)
        token = f"token-{len(self.tokens)}-{self.world.id()}"
        self.tokens[token] = [self.now() + timedelta(hours=1), self.variation.token_uses]
        answer = {"access_token": token} | SERVICE["tokens"][self.variation.token]
        return json_answer(answer, self.variation)

    def check_token(self, header):
        """Refuse a request without a valid token."""
        scheme, _, token = header.partition(" ")
        known = self.tokens.get(token.strip()) if scheme.lower() == "bearer" else None
        if known is None or known[0] <= self.now() or known[1] == 0:
            raise RefusedError(401, "Unauthorized")
        known[1] = known[1] and known[1] - 1
