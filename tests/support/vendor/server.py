"""An attribution service written from the specification alone: `Vendor`, an ASGI application over data in memory.

It has no operation that the specification does not list. `Variation` chooses among the answers that it leaves open.
"""

import asyncio
import json
import re
import traceback
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from functools import cache
from urllib.parse import parse_qsl, unquote
from uuid import UUID

import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount

from support.vendor.answers import exported, extended, json_response, refusal, shaped, written
from support.vendor.selection import (
    COUNTERS, LINEAR, SEASONAL, RefusedError, descends, event_insights, instant, interaction_insights, lookup, matches,
    projected, reduced, sorted_by, user_key, user_values,
)  # fmt: skip
from support.vendor.variations import WRITES, Variation
from support.vendor.world import World, number

V1, PROJECT = "/api/v1", "/api/v1/projects/{projectId}"
CAMPAIGN = f"{PROJECT}/custom-ads/{{vendorId}}/campaigns"
ROUTES = {
    "search_interactions": ("POST", f"{PROJECT}/interactions/search"),
    "interaction_insights": ("POST", f"{PROJECT}/interactions/insights"),
    "create_offline_interaction": ("POST", f"{PROJECT}/interactions/offline"),
    "list_hits": ("GET", f"{PROJECT}/interactions/{{firstHitId}}/hits"),
    "get_interaction": ("GET", f"{PROJECT}/interactions/{{id}}"),
    "create_event": ("POST", f"{V1}/events"),
    "create_event_sync": ("POST", f"{V1}/events/sync"),
    "event_insights": ("POST", f"{PROJECT}/events/insights"),
    "get_raw_event": ("GET", f"{PROJECT}/events/{{id}}/raw"),
    "update_event_state": ("PUT", f"{PROJECT}/events/{{id}}/states/{{storageKey}}"),
    "update_event_statistic": ("PUT", f"{PROJECT}/events/{{id}}/statistics/{{storageKey}}"),
    "get_event": ("GET", f"{PROJECT}/events/{{id}}"),
    "list_trashed_events": ("GET", f"{PROJECT}/trashed-events"),
    "search_users": ("POST", "/api/v2/projects/{projectId}/users/search"),
    "export_users": ("POST", f"{PROJECT}/users/export"),
    "list_user_events": ("GET", f"{PROJECT}/users/{{id}}/events"),
    "list_user_metrics": ("GET", f"{PROJECT}/users/{{id}}/metrics"),
    "get_user": ("GET", f"{PROJECT}/users/{{id}}"),
    "list_event_types": ("GET", f"{PROJECT}/event-types"),
    "create_event_type": ("POST", f"{PROJECT}/event-types"),
    "get_event_type": ("GET", f"{PROJECT}/event-types/{{id}}"),
    "list_campaigns": ("GET", CAMPAIGN),
    "create_campaign": ("POST", CAMPAIGN),
    "get_campaign": ("GET", f"{CAMPAIGN}/{{id}}"),
    "update_campaign": ("PATCH", f"{CAMPAIGN}/{{id}}"),
    "list_outlays": ("GET", f"{CAMPAIGN}/{{parentCampaignId}}/outlays"),
    "create_outlay": ("POST", f"{CAMPAIGN}/{{parentCampaignId}}/outlays"),
    "get_outlay": ("GET", f"{CAMPAIGN}/{{parentCampaignId}}/outlays/{{outlayId}}"),
    "update_outlay": ("PATCH", f"{CAMPAIGN}/{{parentCampaignId}}/outlays/{{outlayId}}"),
    "exchange_token": ("POST", "/auth/oidc/token"),
}
NO_AUTHORIZATION = {"create_event", "create_event_sync", *(name for name in ROUTES if name.endswith(("campaign", "campaigns", "outlay", "outlays")))}  # fmt: skip


@cache
def account():
    """Return the key of the service account, once per process, and its public half."""
    private = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = private.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    key = {"clientId": "client-1", "serviceAccountEmail": "reports@accounts.example", "privateKeyId": "key-1"}
    return key | {"privateKey": pem.decode()}, private.public_key()


@dataclass(frozen=True)
class Logged:
    """A request, or a write that was carried out."""

    operation: str | None
    method: str
    path: str
    query: dict
    body: object
    status: int | str | None = None


@dataclass
class Call:
    """A request that reached its operation."""

    path: dict
    query: dict
    body: dict

    def flag(self, name, source=None):
        """Read a boolean of the query."""
        if self.query.get(name) not in (None, "true", "false"):
            raise RefusedError(400, f"{name} must be a boolean value")
        return {"true": True, "false": False}.get(self.query.get(name))


class Vendor:
    """The service; `requests` and `writes` are logs, and `address` is set when it listens."""

    def __init__(self, variation=None, *, project="my-shop", seed=1, users=40):
        self.variation = variation or Variation()
        self.world = World(project, seed, users, self.variation.ids)
        self.address, self.requests, self.writes, self.failures = "http://localhost", [], [], []
        self.tokens, self.calls = {}, Counter()
        gzip = [Middleware(GZipMiddleware, minimum_size=1)] if self.variation.gzip else []
        self.app = Starlette(routes=[Mount("/", app=self)], middleware=gzip)
        insert = lambda path: re.sub(r"^(/api/v\d|/auth)", rf"\1{self.variation.prefix}", path)  # noqa: E731
        self.routes = {name: (method, insert(path)) for name, (method, path) in ROUTES.items()}

    def carried_out(self, operation):
        """Count how often a write was carried out."""
        return sum(write.operation == operation for write in self.writes)

    def now(self):
        """Return the time of this service's clock."""
        return datetime.now(UTC) + timedelta(seconds=self.variation.clock_off)

    async def __call__(self, scope, receive, send):
        """Answer a request, or close its connection."""
        request = Request(scope, receive)
        body = await request.body()
        await asyncio.sleep(self.variation.delay)
        operation, fault, response = self.answer(request, body)
        status = fault if isinstance(fault, str) else response.status_code
        log = Logged(operation, request.method, request.url.path, dict(request.query_params), body, status)
        self.requests.append(log)
        response.headers["Date"] = format_datetime(self.now(), usegmt=True)
        if fault == "cut" and response.body:
            await send({"type": "http.response.start", "status": response.status_code, "headers": response.raw_headers})
            await send({"type": "http.response.body", "body": response.body[: len(response.body) // 2], "more_body": True})
        elif not isinstance(fault, str):
            return await response(scope, receive, send)
        while not receive.__self__.disconnected:  # uvicorn's cycle of this request
            receive.__self__.transport.close()
            await asyncio.sleep(0)
        return None

    def answer(self, request, body):
        """Find the operation and carry it out; return its name, a fault of the connection, and the response."""
        form, raw = self.variation.error_body, request.scope["raw_path"].split(b"?")[0].decode()
        if request.method == "HEAD" and self.variation.head:
            return None, None, Response(b"", self.variation.head)
        operation, path, known = self.match(request.method, raw)
        if operation is None:
            status = self.variation.absent or (405 if known else 404)
            message = f"Cannot {request.method} {raw}"
            return None, None, refusal(status, message, self.variation.absent_body or form)
        fault = self.fault(operation, raw, body)
        carried_out = fault is None or fault.carried_out or fault.answer in ("lost", "cut")
        response = self.carry_out(operation, path, request, body) if carried_out else Response()
        if fault and isinstance(fault.answer, int):
            after = format_datetime(self.now() + timedelta(seconds=2), usegmt=True) if fault.retry_after == "date" else fault.retry_after
            headers = {"Retry-After": after} if after is not None else None
            return operation, None, refusal(fault.answer, "the service is unwell", form, headers)
        return operation, fault and fault.answer, response

    def match(self, method, raw):
        """Return the operation of a path, its parameters, and whether the path exists with another method."""
        known = False
        for name, (its_method, template) in self.routes.items():
            wanted, given = template.split("/"), raw.split("/")
            if len(wanted) == len(given) and all(w == g or (w[:1] == "{" and g) for w, g in zip(wanted, given, strict=True)):
                if method == its_method:
                    return name, {w[1:-1]: unquote(g) for w, g in zip(wanted, given, strict=True) if w[:1] == "{"}, True
                known = True
        return None, {}, known

    def fault(self, operation, raw, body):
        """Return the fault of this call, if it has one."""
        found = None
        for index, fault in enumerate(self.variation.faults):
            key = (index, operation) if fault.per == "operation" else (index, operation, raw, body)
            self.calls[key] += 1
            found = found or (fault if fault.fails(operation, self.calls[key]) else None)
        return found

    def carry_out(self, operation, path, request, body):
        """Check the token and the project, run the operation and write its answer."""
        try:
            if operation == "exchange_token":
                return self.exchange_token(dict(parse_qsl(body.decode())))
            if self.variation.token_required == "all" or operation not in NO_AUTHORIZATION:
                self.check_token(request.headers.get("authorization", ""))
            if path.get("projectId", self.world.project) != self.world.project:
                raise RefusedError(403, "Forbidden resource")
            call = Call(path, dict(request.query_params), self.json_object(body) if request.method != "GET" else {})
            count = len(self.writes)
            response = getattr(self, operation)(call)
            if operation in WRITES and response.status_code < 300 and not getattr(response, "repeated", False):
                self.world.version += 1
                self.writes.append(Logged(operation, request.method, request.url.path, call.query, call.body))
            assert len(self.writes) - count in (0, 1)
            return response
        except RefusedError as error:
            return refusal(error.status, error.message, self.variation.error_body)
        except Exception:
            self.failures.append(traceback.format_exc())
            return refusal(500, "Internal server error", self.variation.error_body)

    @staticmethod
    def json_object(body):
        """Read the body of a request; an empty one is an empty object."""
        try:
            given = json.loads(body or b"{}")
        except ValueError:
            given = None
        if not isinstance(given, dict):
            raise RefusedError(400, "the body must be a JSON object")
        return given

    # Tokens

    def exchange_token(self, form):
        """Verify an assertion and issue a token."""
        if self.variation.token_redirect:
            return Response(status_code=self.variation.token_redirect, headers={"Location": f"{self.address}/login/oidc/token"})
        key, public = account()
        options = {"require": ["iss", "sub", "aud", "exp"], "verify_exp": False, "verify_iat": False, "verify_nbf": False}
        try:
            if form["grant_type"] != "urn:ietf:params:oauth:grant-type:jwt-bearer" or form["client_id"] != key["clientId"]:
                raise jwt.InvalidTokenError("unknown grant or client")
            if jwt.get_unverified_header(form["assertion"]).get("kid") != key["privateKeyId"]:
                raise jwt.InvalidTokenError("unknown key")
            audience = f"{self.address}{self.routes['exchange_token'][1]}"
            claims = jwt.decode(form["assertion"], public, ["RS256"], options, audience=audience, issuer=key["clientId"])
            ahead = claims["exp"] - self.now().timestamp()
            if claims["sub"] != key["serviceAccountEmail"] or not 0 < ahead <= self.variation.assertion_ahead:
                raise jwt.InvalidTokenError("unknown account, or exp is not within the allowed time")
        except (jwt.InvalidTokenError, KeyError) as error:
            return json_response({"error": "invalid_grant", "error_description": str(error)}, self.variation, 400)
        token = f"token-{len(self.tokens)}-{self.world.random.getrandbits(128):x}"
        self.tokens[token] = [self.now() + timedelta(seconds=3600), self.variation.token_uses]
        answer = {"access_token": token, "token_type": "Bearer", "expires_in": 3600, "scope": "full_access"}
        answer = {k: answer[k] for k in ("access_token", "token_type")} if self.variation.token == "lean" else answer
        answer |= {"id_token": None, "not_before": 0} if self.variation.token == "verbose" else {}
        return json_response(answer, self.variation, headers={"Cache-Control": "no-store"})

    def check_token(self, header):
        """Refuse a request without a valid token."""
        scheme, _, token = header.partition(" ")
        known = self.tokens.get(token.strip()) if scheme.lower() == "bearer" else None
        if known is None or known[0] <= self.now() or known[1] == 0:
            raise RefusedError(401, "Unauthorized")
        known[1] = known[1] and known[1] - 1

    # Parts of answers

    def json(self, value):
        """Answer with JSON and 200."""
        return json_response(value, self.variation)

    def records(self, kind, rows):
        """Return records as this service has them."""
        return [shaped(kind, row, self.variation) for row in rows]

    def ordered(self, rows, keys):
        """Sort rows; where keys leave the order open, it is that of storage or, if chosen, none at all."""
        rows = list(rows)
        if self.variation.shuffle:
            self.world.random.shuffle(rows)
        return sorted_by(rows, keys)

    def by_query(self, rows, call, names, **paths):
        """Sort rows by `sort` and `order` of the query."""
        name, order = call.query.get("sort"), call.query.get("order", "ASC")
        if name not in (None, *names) or order not in ("ASC", "DESC"):
            raise RefusedError(400, f"sort must be one of: {', '.join(names)}, and order ASC or DESC")
        return self.ordered(rows, [(lambda row: lookup(row, paths.get(name, name)), order == "DESC")] if name else [])

    def page(self, rows, given, present, echo=True):
        """Return a page of rows; `present` turns the rows of the page into records."""
        sizes = {}
        for name in ("offset", "limit"):
            value = given.get(name)
            if value is not None and not re.fullmatch(r"\d+", str(value)):
                raise RefusedError(400, f"{name} must not be less than 0")
            sizes[name] = None if value is None else int(value)
        offset, cap = sizes["offset"] or 0, self.variation.page_cap
        limit = len(rows) if sizes["limit"] is None else sizes["limit"]
        most = self.variation.page_limit
        if most is not None and (limit if sizes["limit"] is not None else len(rows) - offset) > most:
            raise RefusedError(self.variation.page_refusal, f"limit must not be greater than {most}")
        data = present(rows[offset : offset + min(limit, limit if cap is None else cap)])
        answer = {"count": len(data), "total": len(rows), "data": data}
        answer = {"offset": offset, "limit": limit, **answer} if echo else answer
        return self.json(extended(answer) if self.variation.extra else answer)

    def written(self, kind, record, id_, shown=None):
        """Answer a write as the specification shows, or else in the form that the variation chooses."""
        status, form = self.variation.write if shown is None or self.variation.every_write else shown
        return written(status, form, shaped(kind, record, self.variation), id_, self.variation)

    def find(self, records, id_, pattern=r".+"):
        """Return a record by its id; a malformed one is refused, and so is an unknown one."""
        if not re.fullmatch(pattern, id_):
            raise RefusedError(self.variation.malformed, f"id must match {pattern}")
        if id_ not in records:
            raise RefusedError(404, "Resource not found")
        return records[id_]

    # Interactions

    def selected(self, body):
        """Return the interactions that a search or an insight selects."""
        self.world.complete_users()  # numbers the interactions of each user
        since, until = (instant(body[k], k) if body.get(k) is not None else None for k in ("since", "until"))
        wanted = {name: body.get(name, False) for name in ("filtered", "isBot")}
        if any(value not in (True, False, None) for value in wanted.values()):
            raise RefusedError(400, "filtered and isBot must be boolean values or null")

        def keep(row):
            captured = {"filtered": row["trafficFilterId"] is not None, "isBot": row["isBot"]}
            value = lambda node: [lookup(row, node["field"])]  # noqa: E731
            return (
                (since is None or row["startDate"] >= since)
                and (until is None or row["startDate"] <= until)
                and all(wanted[name] in (None, captured[name]) for name in wanted)
                and (not body.get("interactionFilter") or matches(body["interactionFilter"], value))
                and (not body.get("nodeFilter") or matches(body["nodeFilter"], lambda node: self.node_values(row["nodeId"], node)))
            )

        return [row for row in self.world.interactions.values() if keep(row)]

    def node_values(self, id_, node):
        """Return the values of a node and its ancestors, so that a match selects its children."""
        names, values = {"nodeId": "id", "nodeName": "name", "campaignName": "name"}, []
        while id_ is not None:
            known = self.world.nodes[id_] | {"id": id_}
            values.append(known.get(names.get(node.get("filterId"), node.get("filterId"))))
            id_ = known["parent"]
        return [value for value in values if value is not None]

    def search_interactions(self, call):
        """Search the interactions of a project."""
        body, projection = call.body, call.body.get("projection")
        if projection is not None and (not isinstance(projection, list) or not projection):
            raise RefusedError(400, "projection should not be empty")
        keys = [(lambda row, k=k: lookup(row, k), descends(way)) for k, way in (body.get("sort") or {}).items()]
        hidden = () if projection else ("userData", "rawUserData", "rawNodeData")

        def present(rows):
            whole = [{k: v for k, v in row.items() if k not in hidden} for row in self.records("interactions", rows)]
            paths = list(dict.fromkeys([*(["_id"] if self.variation.always_id else []), *(projection or [])]))
            return [projected(row, paths, self.variation.keys) for row in whole] if projection else whole

        return self.page(self.ordered(self.selected(body), keys), body, present)

    def get_interaction(self, call):
        """Get one interaction."""
        self.world.complete_users()
        found = self.find(self.world.interactions, call.path["id"], "[a-f0-9]{24}")
        return self.json(shaped("interactions", found, self.variation))

    def list_hits(self, call):
        """List the hits of a session."""
        return self.json(self.records("hits", self.world.hits.get(call.path["firstHitId"], [])))

    def interaction_insights(self, call):
        """Count interactions by group and interval."""
        found = interaction_insights(self.selected(call.body), call.body, self.variation.labels)
        return self.json(self.records("insights", found))

    def create_offline_interaction(self, call):
        """Create an offline interaction."""
        data = call.body.get("nodeData")
        if not isinstance(data, dict) or data.get("vendorId") not in self.world.vendors:
            raise RefusedError(400, "nodeData.vendorId must identify an integration")
        given = call.body | {"date": instant(call.body["date"], "date") if call.body.get("date") else self.now()}
        record = self.world.add_offline(given, self.now())
        self.world.version += 1
        self.world.complete_users()
        return self.written("interactions", record, record["_id"])

    # Events

    def create_event(self, call, sync=False):
        """Store an event, once per nonce."""
        body = dict(call.body)
        for name in ("projectId", "eventType", "nonce", "data"):
            if not isinstance(body.get(name), dict if name == "data" else str) or not body[name]:
                raise RefusedError(400, f"{name} should not be empty")
        if body["projectId"] != self.world.project:
            raise RefusedError(400, "projectId is unknown")
        body["eventDate"] = instant(body["eventDate"], "eventDate") if body.get("eventDate") else None
        known = body["nonce"] in self.world.nonces
        if known and sync and self.variation.repeated_nonce == 409:
            raise RefusedError(409, "an event with this nonce exists")
        id_ = self.world.nonces[body["nonce"]] if known else self.world.add_event(body, self.now())
        if sync and id_ in self.world.trashed and self.variation.invalid_sync == 400:
            response = refusal(400, "data does not match the event type", self.variation.error_body)
        else:
            text = id_.upper() if self.variation.uuid == "upper" else id_
            response = Response(text, media_type="text/plain") if self.variation.uuid == "text" else self.json(text)
            response = self.written("raw_events", self.world.raw[id_], id_) if self.variation.every_write else response
        response.repeated = known
        return response

    def create_event_sync(self, call):
        """Store an event and answer when it is processed."""
        return self.create_event(call, sync=True)

    def get_raw_event(self, call):
        """Get an event as it was sent."""
        return self.json(shaped("raw_events", self.find(self.world.raw, call.path["id"].lower()), self.variation))

    def get_event(self, call):
        """Get a computed event."""
        return self.json(shaped("events", self.find(self.world.events, call.path["id"].lower()), self.variation))

    def list_trashed_events(self, call):
        """List the events that could not be processed."""
        rows = self.within(self.world.trashed.values(), call, lambda row: row["processingDate"])
        return self.page(self.ordered(rows, []), call.query, lambda page: self.records("trashed_events", page), echo=False)

    def within(self, rows, call, date):
        """Keep the rows within `since` and `until` of the query."""
        since, until = (instant(call.query[k], k) if call.query.get(k) else None for k in ("since", "until"))
        return [row for row in rows if (since is None or date(row) >= since) and (until is None or date(row) <= until)]

    def event_insights(self, call):
        """Sum metrics of events."""
        body = call.body
        for name in ("since", "until", "metrics", "groupBy", "interval"):
            if body.get(name) is None:
                raise RefusedError(400, f"{name} should not be empty")
        if body["groupBy"] not in ("project", "event-type") or body["interval"] not in (*LINEAR, *SEASONAL):
            raise RefusedError(400, "groupBy or interval is not supported")
        references, wanted = list(self.world.types), body.get("filter")
        wanted = wanted.get("value", wanted.get("eventTypes")) if isinstance(wanted, dict) else wanted
        wanted = [wanted] if isinstance(wanted, str) else wanted
        references = [ref for ref in references if wanted is None or ref in wanted]
        as_id = {"reference": "reference", "id": "_id", "name": "name"}[self.variation.event_type_as]
        identify = lambda ref: self.world.project if ref is None else self.world.types[ref][as_id]  # noqa: E731
        found = event_insights(list(self.world.events.values()), body, identify, references, self.variation)
        return self.json(self.records("event_insights", found))

    def update_event_state(self, call, kinds=("state",)):
        """Set a state, or a statistic, of an event."""
        event, key, value = self.find(self.world.events, call.path["id"].lower()), call.path["storageKey"], call.body.get("value")
        kind = event["declared"].get(key)
        if kind not in kinds:
            raise RefusedError(404, "No storageKey matches a field of the event type")
        if not isinstance(value, int | float) or isinstance(value, bool) or (kind == "state" and value not in (0, 1)):
            raise RefusedError(400, "value must be a number, 0 or 1 for a state")
        date, now = instant(call.body["date"], "date") if call.body.get("date") else self.now(), self.now()
        made = self.world.metric(event["_id"], key, kind, value, date, now)
        known = event["metrics"].get(key, made)
        event["metrics"][key] = metric = known | {"data": made["data"], "updatedAt": now}
        event["updatedAt"] = now
        if kind == "state":
            event["metrics"].pop(f"state-delay-{key}", None)
            if value:
                delay = (date - event["eventDate"]).total_seconds()
                name = f"state-delay-{key}"
                event["metrics"][name] = self.world.metric(event["_id"], name, "number", delay, date, now)
        return self.written("metrics", metric, metric["_id"])

    def update_event_statistic(self, call):
        """Set a statistic of an event."""
        return self.update_event_state(call, ("number", "currency"))

    # Users

    def users(self, body):
        """Return the complete users that filters select."""
        users = list(self.world.complete_users().values())
        for name in ("filters", "audienceCondition", "audience"):
            node = body.get(name)
            if isinstance(node, str):
                users = [user for user in users if node in user["audienceIds"]]
            elif node:
                users = [user for user in users if matches(node, lambda rule, user=user: user_values(rule, user, self.world))]
        return users

    def search_users(self, call):
        """Search the users of a project."""
        body, named, variation = call.body, call.body.get("fields"), self.variation
        if not isinstance(named, list):
            raise RefusedError(400, "fields must be an array")
        if body.get("sqlQuery"):
            raise RefusedError(403, "sqlQuery is not enabled for this project")
        mode, readers = body.get("multiFieldMode", "latest"), {key: user_key(key, self.world) for key in named}
        bounds = {"idAfter": lambda id_, b: id_ > b, "idFrom": lambda id_, b: id_ >= b, "idTo": lambda id_, b: id_ < b}
        for name in bounds:
            if body.get(name) is not None and not re.fullmatch("[a-f0-9]{24}", str(body[name])):
                raise RefusedError(400, f"{name} must match ^[a-f0-9]{{24}}$")
        users = [u for u in self.users(body) if all(body.get(n) is None or test(u["_id"], body[n]) for n, test in bounds.items())]
        keys, order = [], body.get("order", "ASC")
        if body.get("sort"):
            read = user_key(body["sort"], self.world)
            keys = [(lambda user: self.plain(reduced(read(user), mode)), order == "DESC")]

        def present(rows):
            answer = []
            for user, record in zip(rows, self.records("users", rows), strict=True):
                chosen = {"_id": user["_id"]} if variation.always_id or not named else {}
                for key, read in readers.items():
                    kind, _, rest = key.partition(".")
                    value = read(user) if not variation.reduced else reduced(read(user), mode)
                    if kind in COUNTERS and kind not in record:
                        continue
                    value = record[kind] if kind in COUNTERS else value
                    if variation.keys == "flat" or not rest:
                        chosen[key] = value
                    elif kind == "metrics":
                        name, _, aggregate = rest.rpartition(".")
                        chosen.setdefault(kind, {}).setdefault(name, {})[aggregate] = value
                    else:
                        chosen.setdefault(kind, {})[rest] = value
                answer.append(extended(chosen) if variation.extra else chosen)
            return answer

        return self.page(self.ordered(users, keys), body, present)

    @staticmethod
    def plain(value):
        """Return the value by which a user is sorted."""
        value = value[0] if isinstance(value, list) and value else value or None if isinstance(value, list) else value
        return value["current"] if isinstance(value, dict) and "current" in value else value

    def export_users(self, call):
        """Write users to a file."""
        body = call.body
        for name, kind in (("filename", str), ("exporterDataConfig", dict), ("outputFormatConfig", dict), ("transformerConfig", list)):
            if not isinstance(body.get(name), kind):
                raise RefusedError(400, f"{name} should not be empty")
        config, kind = body["exporterDataConfig"], str(body["outputFormatConfig"].get("type")).lower()
        if kind not in ("csv", "xlsx"):
            raise RefusedError(400, "outputFormatConfig.type must be one of: csv, xlsx")
        columns, levels = config.get("columns") or [], {"year": 4, "month": 7, "day": 10}
        readers = [user_key(key, self.world) for key in columns]
        rows = [[reduced(read(user), "latest") for read in readers] for user in self.users(config)]
        for one in body["transformerConfig"]:
            if one.get("type") != "date" or one.get("key") not in columns or one.get("level") not in levels:
                raise RefusedError(400, "transformerConfig has an unknown transformer")
            index = columns.index(one["key"])
            for row in rows:
                row[index] = row[index] and row[index].isoformat()[: levels[one["level"]]]
        return exported(columns, rows, kind, body["filename"], self.variation)

    def get_user(self, call):
        """Get one user."""
        found = self.find(self.world.complete_users(), call.path["id"], "[a-f0-9]{24}")
        return self.json(shaped("users", found, self.variation))

    def list_user_events(self, call):
        """List the events of a user."""
        rows = [e for e in self.world.events.values() if e["userId"] == call.path["id"]]
        rows = [e for e in self.within(rows, call, lambda e: e["eventDate"]) if e["attributable"] or not call.flag("attributable")]
        rows = self.by_query(rows, call, ("eventDate", "createdAt", "updatedAt", "_id"))
        return self.page(rows, call.query, lambda page: self.records("events", page))

    def list_user_metrics(self, call):
        """List the metrics of a user's events."""
        self.find(self.world.users, call.path["id"])
        rows = [m for e in self.world.events.values() if e["userId"] == call.path["id"] for m in e["metrics"].values()]
        rows = [m for m in rows if m["type"] == (call.query.get("type") or m["type"])]
        rows = self.within(rows, call, lambda m: m["data"]["date"])
        rows = self.by_query(rows, call, ("createdAt", "updatedAt", "metricDate"), metricDate="data.date")
        return self.page(rows, call.query, lambda page: self.records("metrics", page))

    # Event types, campaigns and outlays

    def list_event_types(self, call):
        """List event types."""
        query, archived = call.query, bool(call.flag("archived"))
        search = query.get("search", "").lower()
        rows = [
            one
            for one in self.world.types.values()
            if bool(one["archivedAt"]) == archived
            and (search in one["name"].lower() or search in one["reference"].lower())
            and query.get("reference", one["reference"]) == one["reference"]
            and ("storageKey" not in query or query["storageKey"] in [f["storageKey"] for f in one["fields"]])
        ]
        names = [name for name in query.get("sort", "").split(",") if name]
        keys = [(lambda row, n=n: row.get(n.lstrip("-")), n.startswith("-")) for n in names]
        return self.page(self.ordered(rows, keys), query, lambda page: self.records("event_types", page), echo=False)

    def create_event_type(self, call):
        """Create an event type."""
        allowed, body = ("reference", "name", "fields", "metadata"), call.body
        if set(body) - set(allowed) or not body.get("reference") or body["reference"] in self.world.types:
            raise RefusedError(400, f"reference must be new, and only these properties are allowed: {', '.join(allowed)}")
        template = {"discriminant": False, "isPii": False, "isMostProbableLocation": False, "optional": True, "ingestionKey": None}
        given = {"name": body["reference"], **body, "fields": [template | one for one in body.get("fields", [])]}
        record = self.world.add_type(given, self.now())
        return self.written("event_types", record, record["_id"], (201, "record"))

    def get_event_type(self, call):
        """Get an event type by its reference."""
        return self.json(shaped("event_types", self.find(self.world.types, call.path["id"]), self.variation))

    def integration(self, call):
        """Return the integration of a path, which has no 404 of its own."""
        if call.path["vendorId"] not in self.world.vendors:
            raise RefusedError(400, "vendorId identifies no integration")
        return self.world.vendors[call.path["vendorId"]]["integrationId"]

    def list_campaigns(self, call):
        """List the campaigns of an integration."""
        query, integration = call.query, self.integration(call)
        exact = {"id": query.get("campaignId"), "campaignSlug": query.get("campaignSlug")}
        exact |= {"active": call.flag("active"), "explicit": call.flag("explicit"), "integrationId": integration}
        rows = [
            one
            for one in self.world.campaigns.values()
            if all(value is None or one[name] == value for name, value in exact.items())
            and query.get("nameLike", "").lower() in one["name"].lower()
        ]
        rows = self.by_query(rows, call, ("name", "campaignId", "active"), campaignId="id")
        return self.page(rows, query, lambda page: self.records("campaigns", page))

    def create_campaign(self, call):
        """Create a campaign."""
        integration = self.integration(call)
        given = {name: call.body.get(name) for name in ("campaignSlug", "name")}
        if not all(isinstance(value, str) and value for value in given.values()):
            raise RefusedError(400, "campaignSlug and name should not be empty")
        slugs = [c["campaignSlug"] for c in self.world.campaigns.values() if c["integrationId"] == integration]
        if given["campaignSlug"] in slugs:
            raise RefusedError(409, "campaignSlug must be unique within the integration")
        given["active"] = call.body.get("active", True)
        record = self.world.add_campaign(call.path["vendorId"], given, self.now())
        return self.written("campaigns", record, record["id"], (200, "id"))

    def campaign(self, call, name="id"):
        """Return the campaign of a path."""
        integration = self.integration(call)
        known = {c["id"]: c for c in self.world.campaigns.values() if c["integrationId"] == integration}
        return self.find(known, call.path[name])

    def get_campaign(self, call):
        """Get a campaign by its id."""
        return self.json(shaped("campaigns", self.campaign(call), self.variation))

    def change(self, records, id_, changes):
        """Store changes of a record under its id, and return the new record."""
        records[id_] |= {**changes, "updatedAt": self.now()}
        return records[id_]

    def update_campaign(self, call):
        """Change the name or the activity of a campaign; an unknown one modifies none."""
        id_, changes = call.path["id"], {k: v for k, v in call.body.items() if k in ("name", "active")}
        if id_ not in self.world.campaigns:
            response = self.json({"modifiedCount": 0})
            response.repeated = True
            return response
        return self.written("campaigns", self.change(self.world.campaigns, id_, changes), id_, (200, "modified"))

    def list_outlays(self, call):
        """List the outlays of a campaign."""
        rows = [o for o in self.world.outlays.values() if o["campaignId"] == call.path["parentCampaignId"]]
        rows = self.within(rows, call, lambda o: o["startDate"])
        names = ("campaignId", "startDate", "endDate", "amount", "country", "region")
        return self.page(self.by_query(rows, call, names), call.query, lambda page: self.records("outlays", page))

    def outlay_values(self, body, known=None):
        """Check the properties of an outlay."""
        given = {k: body[k] for k in ("amount", "startDate", "endDate", "country", "region") if body.get(k) is not None}
        given |= {k: instant(given[k], k) for k in ("startDate", "endDate") if k in given}
        whole = {**(known or {}), **given}
        if not all(k in whole for k in ("amount", "startDate", "endDate")) or whole["startDate"] >= whole["endDate"]:
            raise RefusedError(400, "amount, startDate and endDate are required, and startDate must be less than endDate")
        if not isinstance(number(whole["amount"]), int | float):
            raise RefusedError(400, "amount must be a number")
        return given

    def create_outlay(self, call):
        """Create an outlay."""
        try:
            campaign = self.campaign(call, "parentCampaignId")
        except RefusedError:
            raise RefusedError(400, "parentCampaignId identifies no campaign") from None
        record = self.world.add_outlay(campaign, self.outlay_values(call.body), self.now())
        return self.written("outlays", record, record["_id"], (200, "id"))

    def outlay(self, call):
        """Return the outlay of a path."""
        known = {id_: o for id_, o in self.world.outlays.items() if o["campaignId"] == call.path["parentCampaignId"]}
        return self.find(known, call.path["outlayId"])

    def get_outlay(self, call):
        """Get an outlay."""
        return self.json(shaped("outlays", self.outlay(call), self.variation))

    def update_outlay(self, call):
        """Change an outlay."""
        known = self.outlay(call)
        changes = self.outlay_values(call.body, known)
        if "amount" in changes:
            changes["amount"] = known["amount"] | {"amount": changes["amount"]}
        return self.written("outlays", self.change(self.world.outlays, known["_id"], changes), known["_id"], (200, "modified"))


def is_uuid(value):
    """Tell whether a text is a UUID."""
    try:
        return str(UUID(value)) == value.lower()
    except ValueError:
        return False
