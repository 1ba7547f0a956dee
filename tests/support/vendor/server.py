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
from functools import cache, partial
from urllib.parse import parse_qsl, unquote

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount
from support.vendor import selection
from support.vendor.answers import exported, extended, json_response, refusal, shaped, written
from support.vendor.selection import RefusedError, instant, lookup, matches, sorted_by, user_path, user_value
from support.vendor.variations import CALLS, WRITES, Variation
from support.vendor.world import SERVICE, World

TYPES = {"str": str, "dict": dict, "list": list, "number": int | float}
ID = "[a-f0-9]{24}"


@cache
def account():
    """Return the key of the service account, once per process, and its public half."""
    private = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    key = {"clientId": "client-1", "serviceAccountEmail": "reports@accounts.example", "privateKeyId": "key-1"}
    return key | {"privateKey": pem}, private.public_key()


def keys_of(ways):
    """Return the keys of a sort by properties of records."""
    return [(partial(lookup, path=name), way) for name, way in ways.items()]


def bounded(rows, given, path):
    """Return the rows whose date is within since and until, where they are given."""
    since, until = (instant(given[k], k) if given.get(k) else None for k in ("since", "until"))
    rows = [row for row in rows if since is None or lookup(row, path) >= since]
    return [row for row in rows if until is None or lookup(row, path) <= until]


@dataclass
class Call:
    """A request; in a log, with the status of its answer (or lost, dropped, cut)."""

    operation: str | None
    method: str
    path: str
    parameters: dict
    query: dict
    body: object = None
    status: int | str | None = None

    @property
    def spec(self):
        """Return what the specification says about the operation."""
        return SERVICE["operations"][self.operation]

    def flag(self, name):
        """Read a boolean of the query."""
        if self.query.get(name) not in (None, "true", "false"):
            raise RefusedError(400, f"{name} must be a boolean value")
        return {"true": True, "false": False}.get(self.query.get(name))


class Vendor:
    """The service: `requests` and `writes` are its logs, `failures` its own errors."""

    def __init__(self, variation=None, **data):
        self.variation = variation or Variation()
        self.world = World(ids=self.variation.ids, **data)
        self.address, self.requests, self.writes, self.failures = "http://localhost", [], [], []
        self.tokens, self.calls = {}, Counter()
        gzip = [Middleware(GZipMiddleware, minimum_size=1)] if self.variation.gzip else []
        self.app, self.routes = Starlette(routes=[Mount("/", app=self)], middleware=gzip), {}
        for name, spec in SERVICE["operations"].items():
            path = re.sub(r"^(/api/v\d|/auth)", rf"\1{self.variation.prefix}", spec["path"])
            self.routes[name] = spec["method"], path.split("/")

    def carried_out(self, operation):
        """Count how often a write was carried out."""
        return sum(write.operation == operation for write in self.writes)

    def now(self):
        """Return the time of the service's clock, in milliseconds."""
        moment = datetime.now(UTC) + timedelta(seconds=self.variation.clock_off)
        return moment.replace(microsecond=moment.microsecond // 1000 * 1000)

    async def __call__(self, scope, receive, send):
        """Answer a request, or close its connection."""
        request = Request(scope, receive)
        body = await request.body()
        await asyncio.sleep(self.variation.delay)
        call, known = self.route(request)
        fault = self.fault(call, body) if call.operation else None
        broken = fault.answer if fault and isinstance(fault.answer, str) else None
        response = self.answer(call, known, fault, request, body)
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
        raw, known, call = request.scope["raw_path"].split(b"?")[0].decode(), False, None
        given = [request.method, request.url.path, {}, dict(request.query_params)]
        for name, (method, parts) in self.routes.items():
            pairs = list(zip(parts, raw.split("/"), strict=False))
            if len(parts) == raw.count("/") + 1 and all(p == g or (p[:1] == "{" and g) for p, g in pairs):
                known = True
                if method == request.method and call is None:
                    call = Call(name, *given)
                    call.parameters = {p[1:-1]: unquote(g) for p, g in pairs if p[:1] == "{"}
        return call or Call(None, *given), known

    def fault(self, call, body):
        """Return the fault of this call, if it has one."""
        found = None
        for index, fault in enumerate(self.variation.faults):
            same = (call.path, str(call.query), body) if fault.per == "request" else None
            key = index, call.operation, same
            self.calls[key] += 1
            kind = "writes" if call.operation in WRITES else "reads"
            kinds = ["token"] if call.operation == "exchange_token" else [kind, "all"]
            fails = fault.on in [*kinds, call.operation] and self.calls[key] in CALLS[fault.calls]
            found = found or (fault if fails else None)
        return found

    def answer(self, call, known, fault, request, body):
        """Carry out a call, as far as it is known and does not fail."""
        form, headers = self.variation.error_body, {}
        if request.method == "HEAD" and self.variation.head:
            return Response(status_code=self.variation.head)
        if call.operation is None:
            status = self.variation.absent or (405 if known else 404)
            return refusal(status, f"Cannot {call.method} {call.path}", self.variation.absent_body or form)
        done = fault is None or fault.carried_out or fault.answer in ("lost", "cut")
        header = request.headers.get("authorization", "")
        response = self.carry_out(call, header, body) if done else Response()
        if fault and isinstance(fault.answer, int):
            if fault.retry_after:
                date = format_datetime(self.now() + timedelta(seconds=2), usegmt=True)
                headers = {"Retry-After": date if fault.retry_after == "date" else fault.retry_after}
            return refusal(fault.answer, "the service is unwell", form, headers)
        return response

    def carry_out(self, call, authorization, body):
        """Check a call, run its operation and log a write that changed something."""
        try:
            if call.operation == "exchange_token":
                return self.exchange_token(dict(parse_qsl(body.decode())))
            if self.variation.token_required == "all" or not call.spec.get("open"):
                self.check_token(authorization)
            given, spec = call.parameters, call.spec
            if given.get("projectId", self.world.project) != self.world.project:
                raise RefusedError(403, "Forbidden resource")
            if "vendorId" in given:  # there is no 404 for an unknown one
                if given["vendorId"] not in self.world.vendors:
                    raise RefusedError(400, "vendorId identifies no integration")
                given["integrationId"] = self.world.vendors[given["vendorId"]]["integrationId"]
            call.body = self.checked(call, body)
            if kind := spec.get("one"):
                same = {path: given[name] for path, name in spec.get("of", {}).items()}
                answer = self.got(kind, given.get("outlayId", given.get("id")), spec.get("id", ".+"), **same)
            elif kind := spec.get("list"):
                answer = self.listed(kind, getattr(self.world, kind).values(), call)
            else:
                answer = getattr(self, call.operation)(call)
            if spec.get("write") and not getattr(answer, "repeated", False) and answer.status_code < 300:
                self.writes.append(call)
                self.world.complete = None
            return answer if isinstance(answer, Response) else json_response(answer, self.variation)
        except RefusedError as error:
            return refusal(error.status, str(error), self.variation.error_body)
        except Exception:  # noqa: BLE001  an error of this service, shown at its end
            self.failures.append(traceback.format_exc())
            return refusal(500, "Internal server error", self.variation.error_body)

    @staticmethod
    def checked(call, body):
        """Read the body of a call, which must be an object with the required members."""
        try:
            given = json.loads(body or b"{}")
        except ValueError:
            given = None
        if not isinstance(given, dict):
            raise RefusedError(400, "the body must be a JSON object")
        for name, kind in call.spec.get("required", {}).items():
            if not isinstance(given.get(name), TYPES[kind]) or (kind == "str" and not given[name]):
                raise RefusedError(400, f"{name} is required, as {kind}")
        return given

    # Tokens

    def exchange_token(self, form):
        """Verify an assertion and issue a token."""
        if self.variation.token_redirect:
            headers = {"Location": f"{self.address}/login/oidc/token"}
            return Response(status_code=self.variation.token_redirect, headers=headers)
        (key, public), now = account(), self.now()
        options = dict.fromkeys(("verify_exp", "verify_iat", "verify_nbf"), False)
        options |= {"require": ["iss", "sub", "aud", "exp"]}
        try:
            audience = self.address + "/".join(self.routes["exchange_token"][1])
            decode = partial(jwt.decode, options=options, audience=audience, issuer=key["clientId"])
            claims = decode(form["assertion"], public, algorithms=["RS256"])
            kid = jwt.get_unverified_header(form["assertion"])["kid"]
            named = (form["grant_type"], form["client_id"], kid, claims["sub"])
            grant = "urn:ietf:params:oauth:grant-type:jwt-bearer"
            if named != (grant, key["clientId"], key["privateKeyId"], key["serviceAccountEmail"]):
                raise jwt.InvalidTokenError("unknown grant, client, key or account")
            if not 0 < claims["exp"] - now.timestamp() <= self.variation.assertion_ahead:
                raise jwt.InvalidTokenError("exp is not within the allowed time")
        except (jwt.InvalidTokenError, KeyError) as error:
            problem = {"error": "invalid_grant", "error_description": str(error)}
            return json_response(problem, self.variation, 400)
        token = f"token-{len(self.tokens)}-{self.world.id()}"
        self.tokens[token] = [now + timedelta(hours=1), self.variation.token_uses]
        answer = {"access_token": token} | SERVICE["tokens"][self.variation.token]
        return json_response(answer, self.variation, headers={"Cache-Control": "no-store"})

    def check_token(self, header):
        """Refuse a request without a valid token."""
        scheme, _, token = header.partition(" ")
        known = self.tokens.get(token.strip()) if scheme.lower() == "bearer" else None
        if known is None or known[0] <= self.now() or known[1] == 0:
            raise RefusedError(401, "Unauthorized")
        known[1] = known[1] and known[1] - 1

    # Parts of answers

    def records(self, kind, rows):
        """Return records as this service has them."""
        return [shaped(kind, row, self.variation) for row in rows]

    def ordered(self, rows, keys):
        """Sort rows; what keys leave open is the order of storage or, if chosen, another one each time."""
        rows = list(rows)
        if self.variation.shuffle:
            self.world.random.shuffle(rows)
        return sorted_by(rows, keys)

    def listed(self, kind, rows, call):
        """Answer a page of a list: within the bounds, in the order and of the size that the query asks for."""
        query, spec, sorts = call.query, call.spec, call.spec.get("sorts", {})
        wanted = {path: call.parameters[name] for path, name in spec.get("of", {}).items()}
        wanted |= {path: query.get(name) for path, name in spec.get("equals", {}).items()}
        wanted |= {name: call.flag(name) for name in spec.get("flags", ())}
        wanted |= {name: call.flag(name) or None for name in spec.get("only", ())}
        rows = [row for row in rows if all(v in (None, row[path]) for path, v in wanted.items())]
        for name, paths in spec.get("like", {}).items():
            text = query.get(name, "").lower()
            rows = [row for row in rows if any(text in row[path].lower() for path in paths)]
        rows = bounded(rows, query, spec["date"]) if "date" in spec else rows
        order, names = query.get("order", "ASC"), [name for name in query.get("sort", "").split(",") if name]
        if sorts and (not set(names) <= set(sorts) or order not in ("ASC", "DESC")):
            raise RefusedError(400, f"sort must be one of: {', '.join(sorts)}, and order ASC or DESC")
        ways = {sorts.get(name, name.lstrip("-")): "DESC" if name[0] == "-" else order for name in names}
        rows = self.ordered(rows, keys_of(ways))
        return self.page(rows, query, partial(self.records, kind), spec.get("echo", True))

    def page(self, rows, given, present, echo=True):
        """Return a page of rows; `present` turns its rows into records."""
        for name in ("offset", "limit"):
            if not re.fullmatch(r"\d+", str(given.get(name) or 0)):
                raise RefusedError(400, f"{name} must not be less than 0")
        offset, limit = int(given.get("offset") or 0), given.get("limit")
        limit = len(rows) if limit is None else int(limit)
        cap, most = self.variation.page_cap, self.variation.page_limit
        if most is not None and limit > most:
            raise RefusedError(self.variation.page_refusal, f"limit must not be greater than {most}")
        data = present(rows[offset : offset + (limit if cap is None else min(limit, cap))])
        answer = {"offset": offset, "limit": limit} if echo else {}
        answer |= {"count": len(data), "total": len(rows), "data": data}
        return extended(answer) if self.variation.extra else answer

    def written(self, call, kind, record, id_):
        """Answer a write as the specification shows or, where it does not, in the chosen form."""
        chosen = self.variation.every_write or "shown" not in call.spec
        status, form = self.variation.write if chosen else call.spec["shown"]
        return written(status, form, shaped(kind, record, self.variation), id_, self.variation)

    def find(self, kind, id_, pattern=".+", **same):
        """Return the record of an id with the same values; a malformed or an unknown id is refused."""
        if not re.fullmatch(pattern, id_, re.DOTALL):
            raise RefusedError(self.variation.malformed, f"id must match {pattern}")
        # Completing users numbers their interactions.
        users = self.world.complete_users() if kind in ("users", "interactions") else {}
        records = users if kind == "users" else getattr(self.world, kind)
        record = records.get(id_, records.get(id_.lower()))
        if record is None or any(record[name] != value for name, value in same.items()):
            raise RefusedError(404, "Resource not found")
        return record

    def got(self, kind, *id_and_pattern, **same):
        """Return one record as this service has it."""
        return shaped(kind, self.find(kind, *id_and_pattern, **same), self.variation)

    # Interactions

    def selected(self, body):
        """Return the interactions that a search or an insight selects."""
        self.world.complete_users()  # numbers the interactions of each user
        filtered, bots = body.get("filtered", False), body.get("isBot", False)
        if not {filtered, bots} <= {True, False, None}:
            raise RefusedError(400, "filtered and isBot must be boolean values or null")
        rows = [r for r in self.world.interactions.values() if bots in (None, r["isBot"])]
        rows = [r for r in rows if filtered in (None, r["trafficFilterId"] is not None)]
        rows = bounded(rows, body, "startDate")
        if node := body.get("interactionFilter"):
            rows = [row for row in rows if matches(node, lambda rule, row=row: [lookup(row, rule["field"])])]
        if node := body.get("nodeFilter"):
            rows = [row for row in rows if matches(node, partial(self.node_values, row["nodeId"]))]
        return rows

    def node_values(self, id_, rule):
        """Return the values of a node and its ancestors, so that a match selects the children."""
        values = []
        while id_ is not None:
            node = self.world.nodes[id_]
            id_ = values.append(node.get(rule["filterId"])) or node["parent"]
        return values

    def search_interactions(self, call):
        """Search the interactions of a project."""
        projection, whole = call.body.get("projection"), partial(self.records, "interactions")
        if projection is not None and (not isinstance(projection, list) or not projection):
            raise RefusedError(400, "projection should not be empty")
        paths = dict.fromkeys([*["_id"][: self.variation.always_id], *(projection or [])])
        part = partial(selection.projected, paths=paths, keys=self.variation.keys)
        present = (lambda rows: [part(row) for row in whole(rows)]) if projection else whole
        rows = self.ordered(self.selected(call.body), keys_of(call.body.get("sort") or {}))
        return self.page(rows, call.body, present)

    def list_hits(self, call):
        """List the hits of a session."""
        return self.records("hits", self.world.hits.get(call.parameters["firstHitId"].lower(), []))

    def interaction_insights(self, call):
        """Count interactions by group and interval."""
        found = selection.interaction_insights(self.selected(call.body), call.body, self.variation.labels)
        return self.records("insights", found)

    def create_offline_interaction(self, call):
        """Create an offline interaction."""
        if call.body["nodeData"].get("vendorId") not in self.world.vendors:
            raise RefusedError(400, "nodeData.vendorId must identify an integration")
        date = instant(call.body["date"], "date") if call.body.get("date") else self.now()
        record = self.world.add_offline(call.body | {"date": date}, self.now())
        return self.written(call, "interactions", record, record["_id"])

    # Events

    def create_event(self, call, sync=False):
        """Store an event, once per nonce."""
        body, date = call.body, call.body.get("eventDate")
        if body["projectId"] != self.world.project:
            raise RefusedError(400, "projectId is unknown")
        known = body["nonce"] in self.world.nonces
        if known and sync and self.variation.repeated_nonce == 409:
            raise RefusedError(409, "an event with this nonce exists")
        sent = body | {"eventDate": instant(date, "eventDate") if date else None}
        id_ = self.world.nonces[body["nonce"]] if known else self.world.add_event(sent, self.now())
        if sync and id_ in self.world.trashed_events and self.variation.invalid_sync == 400:
            raise RefusedError(400, "data does not match the event type")
        shown = 200, "plain" if self.variation.uuid == "plain" else "bare"
        status, form = self.variation.write if self.variation.every_write else shown
        text = id_.upper() if self.variation.uuid == "upper" else id_
        answer = written(status, form, self.got("raw_events", id_), text, self.variation)
        answer.repeated = known
        return answer

    def create_event_sync(self, call):
        """Store an event and answer when it is processed."""
        return self.create_event(call, sync=True)

    def event_insights(self, call):
        """Sum metrics of events."""
        body, types = call.body, self.world.event_types
        if body["groupBy"] not in ("project", "event-type") or body["interval"] in ("hourOfDay", "custom"):
            raise RefusedError(400, "groupBy or interval is not supported")
        wanted = body.get("filter")
        wanted = wanted.get("value", wanted.get("eventTypes")) if isinstance(wanted, dict) else wanted
        wanted = [wanted] if isinstance(wanted, str) else wanted
        references = [ref for ref, one in types.items() if wanted is None or ref in wanted]
        names = {ref: types[ref][self.variation.event_type_as] for ref in types} | {None: self.world.project}
        rows = selection.event_insights(self.world.events.values(), body, names, references, self.variation)
        return self.records("event_insights", rows)

    def update_event_state(self, call, kinds=("state",)):
        """Set a state, or a statistic, of an event."""
        event, key = self.find("events", call.parameters["id"].lower()), call.parameters["storageKey"]
        value, now = call.body.get("value"), self.now()
        if event["types"].get(key) not in kinds:
            raise RefusedError(404, "No storageKey matches a field of the event type")
        if type(value) not in (int, float) or (kinds == ("state",) and value not in (0, 1)):
            raise RefusedError(400, "value must be a number, 0 or 1 for a state")
        date, event["updatedAt"] = instant(call.body["date"], "date") if call.body.get("date") else now, now
        metric = self.world.set_metric(event, key, event["types"][key], value, date, now)
        return self.written(call, "metrics", metric, metric["_id"])

    def update_event_statistic(self, call):
        """Set a statistic of an event."""
        return self.update_event_state(call, ("number", "currency"))

    # Users

    def users(self, body):
        """Return the complete users that filters select."""
        users = list(self.world.complete_users().values())
        for node in (body.get(name) for name in ("filters", "audienceCondition", "audience")):
            if isinstance(node, str):
                users = [user for user in users if node in user["audienceIds"]]
            elif node:
                values = partial(selection.user_values, world=self.world)
                users = [user for user in users if matches(node, partial(values, user=user))]
        return users

    def search_users(self, call):
        """Search the users of a project."""
        body, mode, named = call.body, call.body.get("multiFieldMode", "latest"), call.body["fields"]
        if body.get("sqlQuery") or mode not in ("latest", "earliest", "alphabetical"):
            raise RefusedError(400, "sqlQuery is not supported, or multiFieldMode is unknown")
        paths, users, keys = {key: user_path(key, self.world) for key in named}, self.users(body), []
        bounds = {"idAfter": str.__gt__, "idFrom": str.__ge__, "idTo": str.__lt__}
        for name, test in bounds.items():
            if not re.fullmatch(ID, str(body.get(name) or "0" * 24)):
                raise RefusedError(400, f"{name} must match ^{ID}$")
            users = [user for user in users if not body.get(name) or test(user["_id"], body[name])]
        if body.get("sort"):
            path = user_path(body["sort"], self.world)
            plain = lambda user: next(iter(user_value(user, path, mode) or [{"current": None}]))["current"]  # noqa: E731
            key = plain if path[0] == "fields" else partial(user_value, path=path)
            keys = [(key, body.get("order", "ASC"))]
        kept, flat = mode if self.variation.reduced else None, self.variation.keys == "flat"

        def present(rows):
            answer = []
            for user, record in zip(rows, self.records("users", rows), strict=True):
                chosen = {"_id": user["_id"]} if self.variation.always_id or not named else {}
                for key, path in paths.items():
                    target = chosen
                    for part in () if flat else path[:-1]:
                        target = target.setdefault(part, {})
                    if len(path) > 1:
                        target[key if flat else path[-1]] = user_value(user, path, kept)
                    elif key in record:
                        target[key] = record[key]
                answer.append(extended(chosen) if self.variation.extra else chosen)
            return answer

        return self.page(self.ordered(users, keys), body, present)

    def export_users(self, call):
        """Write users to a file."""
        config = call.body["exporterDataConfig"]
        kind = str(call.body["outputFormatConfig"].get("type")).lower()
        columns, levels = config.get("columns") or [], {"year": "%Y", "month": "%Y-%m", "day": "%Y-%m-%d"}
        if kind not in ("csv", "xlsx"):
            raise RefusedError(400, "outputFormatConfig.type must be one of: csv, xlsx")
        paths = [user_path(key, self.world) for key in columns]
        rows = [[user_value(user, path, "latest") for path in paths] for user in self.users(config)]
        for one in call.body["transformerConfig"]:
            if one.get("type") != "date" or one.get("key") not in columns or one.get("level") not in levels:
                raise RefusedError(400, "transformerConfig has an unknown transformer")
            index = columns.index(one["key"])
            for row in rows:
                row[index] = row[index] and row[index].strftime(levels[one["level"]])
        return exported(columns, rows, kind, call.body["filename"], self.variation)

    def list_user_metrics(self, call):
        """List the metrics of a user's events."""
        user, kind = self.find("users", call.parameters["id"])["_id"], call.query.get("type")
        rows = [m for e in self.world.events.values() if e["userId"] == user for m in e["metrics"].values()]
        return self.listed("metrics", [m for m in rows if kind in (None, m["type"])], call)

    # Event types, campaigns and outlays

    def list_event_types(self, call):
        """List event types."""
        archived, key = bool(call.flag("archived")), call.query.get("storageKey")
        rows = [t for t in self.world.event_types.values() if (t["archivedAt"] is not None) == archived]
        rows = [t for t in rows if not key or key in [field["storageKey"] for field in t["fields"]]]
        return self.listed("event_types", rows, call)

    def create_event_type(self, call):
        """Create an event type."""
        unknown = set(call.body) - {"reference", "name", "fields", "metadata"}
        if unknown or call.body["reference"] in self.world.event_types:
            raise RefusedError(400, f"reference must be new, and these are not allowed: {unknown}")
        record = self.world.add_type(call.body, self.now())
        return self.written(call, "event_types", record, record["_id"])

    def create_campaign(self, call):
        """Create a campaign."""
        given = {k: v for k, v in call.body.items() if k in ("campaignSlug", "name", "active")}
        same = (call.parameters["integrationId"], given["campaignSlug"])
        if same in [(c["integrationId"], c["campaignSlug"]) for c in self.world.campaigns.values()]:
            raise RefusedError(409, "campaignSlug must be unique within the integration")
        record = self.world.add_campaign(call.parameters["vendorId"], given, self.now())
        return self.written(call, "campaigns", record, record["id"])

    def update_campaign(self, call):
        """Change the name or the activity of a campaign; an unknown one is modified by nothing."""
        known = self.world.campaigns.get(call.parameters["id"])
        if known is None:
            answer = json_response({"modifiedCount": 0}, self.variation)
            answer.repeated = True
            return answer
        known |= {k: v for k, v in call.body.items() if k in ("name", "active")} | {"updatedAt": self.now()}
        return self.written(call, "campaigns", known, known["id"])

    @staticmethod
    def outlay_values(body, known):
        """Return the checked properties of an outlay."""
        names = ("amount", "startDate", "endDate", "country", "region")
        given = {k: body[k] for k in names if body.get(k) is not None}
        given |= {k: instant(given[k], k) for k in ("startDate", "endDate") if k in given}
        if (known | given)["startDate"] >= (known | given)["endDate"]:
            raise RefusedError(400, "startDate must be less than endDate")
        return given

    def create_outlay(self, call):
        """Create an outlay."""
        campaign = self.world.campaigns.get(call.parameters["parentCampaignId"])
        if campaign is None:
            raise RefusedError(400, "parentCampaignId identifies no campaign")
        record = self.world.add_outlay(campaign, self.outlay_values(call.body, {}), self.now())
        return self.written(call, "outlays", record, record["_id"])

    def update_outlay(self, call):
        """Change an outlay."""
        campaign = call.parameters["parentCampaignId"]
        known = self.find("outlays", call.parameters["outlayId"], campaignId=campaign)
        given = self.outlay_values(call.body, known) | {"updatedAt": self.now()}
        given |= {"amount": known["amount"] | {"amount": given["amount"]}} if "amount" in given else {}
        known |= given
        return self.written(call, "outlays", known, known["_id"])
