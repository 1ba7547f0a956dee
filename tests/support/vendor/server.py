"""An attribution service written from the specification alone: `Vendor`, and `serving`, which runs it.

It has no operation that the specification does not list. `Variation` chooses among the answers that are open.
"""

import asyncio
import json
import re
import threading
from collections import Counter
from contextlib import contextmanager
from datetime import timedelta
from email.utils import format_datetime
from functools import cache
from types import SimpleNamespace
from urllib.parse import parse_qsl, unquote

import jwt
import pydantic
import uvicorn
from starlette.exceptions import HTTPException
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import Response
from support.signing import service_account
from support.vendor.operations import Operations, lookup, reader
from support.vendor.variations import VARIATIONS, WRITES, Variation, answered, refusal
from support.vendor.world import SERVICE
from support.waiting import eventually

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
        self.tokens, self.calls, self.routes = Counter(), Counter(), {}
        self.app = GZipMiddleware(self, minimum_size=1) if self.variation.gzip else self
        for name, spec in SERVICE["operations"].items():
            path = re.sub(r"^(/api/v\d|/auth)", rf"\1{self.variation.prefix}", spec["path"])
            self.routes[name] = re.compile(re.sub(r"\{(\w+)}", r"(?P<\1>[^/]+)", path))

    async def __call__(self, scope, receive, send):
        """Answer a request, or close its connection."""
        request = Request(scope, receive)
        call = self.route(request, await request.body())
        await asyncio.sleep(self.variation.delay)
        fault = self.fault(call)
        response = self.answer(call, fault)
        call.status = fault.answer if fault and isinstance(fault.answer, str) else response.status_code
        self.requests.append(call)
        response.headers["Date"] = format_datetime(self.now(), usegmt=True)
        if call.status == "cut":
            # The server closes a connection whose response is shorter than its Content-Length.
            response.body = response.body[: len(response.body) // 2]
        if call.status not in ("lost", "dropped"):
            return await response(scope, receive, send)
        while not await request.is_disconnected():
            receive.__self__.transport.close()  # uvicorn's, of this request
        return None

    def route(self, request, body):
        """Return a call; what the specification does not list has no operation."""
        call = SimpleNamespace(operation=None, method=request.method, path=request.url.path, status=404)
        text = body if "form" in request.headers.get("content-type", "") else request.scope["query_string"]
        call.query, call.body = dict(parse_qsl(text.decode(), keep_blank_values=True)), body
        call.token = request.headers.get("authorization", "").removeprefix("Bearer ")
        for name, pattern in self.routes.items():
            if match := pattern.fullmatch(request.scope["raw_path"].decode()):
                spec, call.status = SERVICE["operations"][name], 405
                if spec["method"] == request.method:
                    given = {key: unquote(value) for key, value in match.groupdict().items()}
                    call.operation, call.spec, call.given = name, spec, given
        return call

    def fault(self, call):
        """Return the fault of this call, if it has one."""
        kinds = [call.operation, "writes" if call.operation in WRITES else "reads", "all"]
        kinds = ["token"] if call.operation == "exchange_token" else kinds
        for fault in self.variation.faults if call.operation else ():
            same = (call.path, str(call.query), call.body) if fault.per == "request" else None
            self.calls[call.operation, same] += 1
            if fault.on in kinds and self.calls[call.operation, same] in range(*fault.calls):
                return fault
        return None

    def answer(self, call, fault):
        """Carry out a call, as far as it is known and does not fail."""
        variation = self.variation
        if call.operation is None:
            status = (call.method == "HEAD" and variation.head) or variation.absent or call.status
            form = variation.absent_body or variation.error_body
            return refusal(status, f"no {call.path}", form, variation)
        response = self.carry_out(call) if fault is None or fault.carried_out else Response()
        if fault is None or isinstance(fault.answer, str):
            return response
        dates = {"date": format_datetime(self.now() + timedelta(seconds=2), usegmt=True)}
        after = dates.get(fault.retry_after, fault.retry_after)
        headers = {"Retry-After": after} if after else {}
        return refusal(fault.answer, "the service is unwell", variation.error_body, variation, headers)

    def carry_out(self, call):
        """Check a call and run its operation."""
        spec, given, form = call.spec, call.given, call.spec.get("refusal", self.variation.error_body)
        try:
            if spec.get("token", "listed") in self.variation.token_required:
                self.tokens[call.token] -= 1
                if self.tokens[call.token] < 0:
                    raise HTTPException(401, "Unauthorized")
            if given.get("projectId", self.world.project) != self.world.project:
                raise HTTPException(403, "Forbidden resource")
            members = call.query or json.loads(call.body or b"{}")
            given |= spec.get("absent", {}) | reader(call.operation).validate_python(members)
            for name, kind in spec.get("known", {}).items():
                if lookup(given, name) not in getattr(self.world, kind):
                    raise HTTPException(spec.get("unknown", 400), f"{name} identifies nothing")
            if given.get("startDate") and given.get("endDate") and given["startDate"] >= given["endDate"]:
                raise HTTPException(400, "startDate must be less than endDate")
            answer = getattr(self, spec.get("do", call.operation))(call)
            record = SERVICE["writes"]["record"], {"record": answer}, self.variation
            return answer if isinstance(answer, Response) else answered(*record)
        except (HTTPException, pydantic.ValidationError, jwt.InvalidTokenError) as error:
            message = getattr(error, "detail", str(error))
            return refusal(getattr(error, "status_code", 400), message, form, self.variation)
        except Exception as error:  # an error of this service, shown at its end
            self.failures.append(error)
            raise

    def exchange_token(self, call):
        """Verify an assertion and issue a token."""
        variation, (key, public), text = self.variation, account(), call.given["assertion"]
        if variation.token_redirect:
            headers = {"Location": f"{self.address}/login/oidc/token"}
            return Response(status_code=variation.token_redirect, headers=headers)
        known = {"audience": self.address + call.path, "issuer": key["clientId"]}
        known |= {"subject": key["serviceAccountEmail"], "options": ASSERTION}
        ahead = jwt.decode(text, public, ["RS256"], **known)["exp"] - self.now().timestamp()
        kid = jwt.get_unverified_header(text)["kid"]
        if kid != key["privateKeyId"] or not 0 < ahead <= variation.assertion_ahead:
            raise jwt.InvalidTokenError("the key or exp is not accepted")
        token = self.world.id("uuid")
        self.tokens[token] = variation.token_uses
        return {"access_token": token} | SERVICE["tokens"][variation.token]


@contextmanager
def serving(folder, variation: Variation | str = "plain", **data):
    """Run a service until the block ends; it answers when the block starts. `data` are those of `World`.

    Yields its addresses, its project, the file of a key that fits, and the service itself.
    """
    variation = VARIATIONS[variation] if isinstance(variation, str) else variation
    vendor, key = Vendor(variation, **data), folder / "vendor-key.json"
    key.touch(mode=0o600)
    key.write_text(json.dumps(account()[0]))
    quiet = {"log_config": None, "log_level": "critical", "date_header": False, "port": 0}
    server = uvicorn.Server(uvicorn.Config(vendor.app, http="h11", ws="none", lifespan="off", **quiet))
    thread = threading.Thread(target=server.run, name="vendor", daemon=True)
    thread.start()
    try:
        eventually(lambda: server.started)
        vendor.address = f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
        bases = {name: f"{vendor.address}{base}{variation.prefix}" for name, base in SERVICE["bases"].items()}
        yield SimpleNamespace(**bases, project=vendor.world.project, key=key, vendor=vendor)
    finally:
        server.should_exit = True
        thread.join(60)
    assert not vendor.failures
