"""What the operations of the service do; `service.toml` declares their paths and members."""

import re
from datetime import UTC, datetime, timedelta
from functools import cache, partial
from operator import contains, eq, ge, gt, le, lt
from typing import Annotated, Any, Literal, NotRequired

import pandas as pd
import pydantic
from starlette.exceptions import HTTPException
from starlette.responses import Response
from support.vendor.variations import Variation, answered, exported, extended, shaped
from support.vendor.world import AGGREGATES, SERVICE, World, grouped
from typing_extensions import TypedDict

OPERATORS = {"equals": eq, "in": lambda one, v: one in v, "isNull": lambda one, _: one is None}
OPERATORS |= {"contains": lambda one, v: v.lower() in str(one).lower(), "hasMember": contains}
OPERATORS |= {"greaterThan": gt, "greaterThanOrEquals": ge, "lessThan": lt, "lessThanOrEquals": le}
OPPOSITES = {f"not{name[0].upper()}{name[1:]}": name for name in OPERATORS} | {"isNotNull": "isNull"}


def instant(value):
    """Read a date-time of RFC 3339; without an offset it is in UTC."""
    found = re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)?", str(value).upper())
    moment = datetime.fromisoformat(found[0] if found else "none")
    return moment.replace(tzinfo=moment.tzinfo or UTC).astimezone(UTC)


#: Types of members by kind; any other kind is a pattern of text.
KINDS = {"any": Any, "object": dict, "list": list, "flag": bool, "count": pydantic.NonNegativeInt}
KINDS["text"] = Annotated[str, pydantic.Field(min_length=1)]
KINDS["names"] = Annotated[list, pydantic.Field(min_length=1)]
KINDS["number"] = pydantic.StrictInt | pydantic.StrictFloat
KINDS["date"] = Annotated[datetime, pydantic.BeforeValidator(instant)]
KINDS["amount"] = Annotated[dict, pydantic.BeforeValidator(lambda v: {"amount": v, "currency": "EUR"})]
KINDS["sort"] = dict[str, Literal[1, -1, "1", "-1", "ASC", "DESC"]]
KINDS["only"] = Annotated[bool, pydantic.AfterValidator(lambda v: v or None)]


@cache
def reader(operation):
    """Return what reads the members of the body or the query of an operation, and refuses others."""
    types = {}
    for name, text in SERVICE["operations"][operation].get("members", {}).items():
        kind = text.rstrip("?")
        type_ = KINDS.get(kind) or Annotated[str, pydantic.Field(pattern=f"^({kind})$")]
        types[name] = NotRequired[type_ | None] if text.endswith("?") else type_
    return pydantic.TypeAdapter(pydantic.with_config(extra="forbid")(TypedDict("Members", types)))


def lookup(record, path):
    """Return a property of a record, or None; a dot leads into a nested object."""
    for part in path.split("."):
        record = record.get(part) if isinstance(record, dict) else None
    return record


def matches(node, values_of):
    """Tell whether a record matches a predicate or a condition; `values_of` finds the values of one."""
    if rules := node.get("rules") or node.get("operands"):
        of = {"AND": all, "OR": any}[node.get("condition") or node["operator"]]
        return of(matches(rule, values_of) for rule in rules)
    name, value, found = OPPOSITES.get(node["operator"], node["operator"]), node.get("value"), False
    for one in values_of(node) or [None]:
        right = instant(value) if isinstance(one, datetime) and name != "isNull" else value
        found |= (one is not None or name in ("equals", "in", "isNull")) and OPERATORS[name](one, right)
    return found is (name == node["operator"])


def ordered(rows, value, way):
    """Sort rows by a value of each; missing ones come first when ascending, and a field has the first one."""

    def rank(row):
        found = value(row)
        found = found[0]["current"] if isinstance(found, list) and found else found
        return found is not None, isinstance(found, str), found or 0

    return sorted(rows, key=rank, reverse=str(way) in ("-1", "DESC"))


def label(moment, given, labels):
    """Return the label of the interval that a date is in."""
    interval, since, until = given["interval"], given.get("since"), given.get("until")
    if interval == "custom":
        width, last = (until - since) / given["segmentCount"], given["segmentCount"] - 1
        return (since + width * min(int((moment - since) / width), last)).isoformat()

    def name(day):
        parts = {"quarter": (day.month + 2) // 3, "semester": (day.month + 5) // 6}
        return SERVICE["intervals"][interval].format(day, **parts)

    if "Of" in interval:
        return int(name(moment)) if labels in ("number", "native") else str(int(name(moment)))
    start = moment.replace(hour=0, minute=0, second=0, microsecond=0)
    while labels in ("start", "number") and name(start - timedelta(days=1)) == name(moment):
        start -= timedelta(days=1)
    forms = {"start": f"{start:%Y-%m-%dT00:00:00.000Z}", "number": int(start.timestamp())}
    return forms.get(labels, name(moment))


class Operations:
    """The operations: each takes a call, whose `given` are its parameters and members. `writes` is a log."""

    def __init__(self, variation=None, **data):
        self.variation, self.writes = variation or Variation(), []
        self.world = World(ids=self.variation.ids, **data)

    def carried_out(self, operation):
        """Count how often a write was carried out."""
        return sum(write.operation == operation for write in self.writes)

    def now(self):
        """Return the time of the service's clock."""
        return datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=self.variation.clock_off)

    # Selection

    def records(self, kind):
        """Return the records of a kind by id."""
        return self.world.complete_users() if kind == "users" else getattr(self.world, kind)

    def value(self, record, path, mode=None):
        """Return a property of a record; a mode reduces the values of a user's field to an array of one."""
        value, kind = lookup(record, path), path.partition(".")[0]
        if value is None:
            return {"fields": [], "eventTypesCount": 0}.get(kind)
        if kind == "fields" and mode:
            value = sorted(value, key=lambda v: str(v["current"]) if mode == "alphabetical" else v["date"])
            return value[-1:] if mode == "latest" else value[:1]
        return value

    def values(self, row, rule):
        """Return the values that a predicate is about: of a node and its parent, or of a record."""
        if "filterId" in rule:
            node = self.world.nodes[row["nodeId"]]
            return [one.get(rule["filterId"]) for one in (node, self.world.nodes.get(node["parent"])) if one]
        kind = "" if rule["type"] in ("predicate", "counters") else f"{rule['type']}."
        value = self.value(row, kind + rule["field"])
        values = value if isinstance(value, list) else [value]
        return [one["current"] if isinstance(one, dict) else one for one in values]

    def selected(self, call, given):
        """Return the records that members and parameters select."""
        rows = list(self.records(call.spec["kind"]).values())
        for name, path in call.spec.get("select", {}).items():
            test = OPERATORS[SERVICE["selectors"].get(name, "equals")]
            if (wanted := given.get(name)) is not None:
                rows = [row for row in rows if test(lookup(row, path), wanted)]
        try:
            for node in filter(None, map(given.get, SERVICE["vocabulary"]["filters"])):
                rows = [row for row in rows if matches(node, partial(self.values, row))]
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise HTTPException(400, f"the filter is not understood: {error!r}") from None
        return rows

    def check_keys(self, keys):
        """Refuse keys that users do not have."""
        types, parts = self.world.event_types, {"counters": SERVICE["counters"], "aggregates": AGGREGATES}
        parts |= {"names": [name for type_ in types.values() for name in type_["~storageKeys"]]}
        parts |= {"types": map(re.escape, types)}
        pattern = SERVICE["vocabulary"]["key"].format(**{name: "|".join(of) for name, of in parts.items()})
        for key in keys:
            if not re.fullmatch(pattern, key):
                raise HTTPException(400, f"{key} is not a valid key")

    def projected(self, record, names, mode):
        """Return the properties of a record that have these names, nested or flat."""
        chosen = {}
        for name in dict.fromkeys([*(["_id"] if self.variation.always_id or not names else []), *names]):
            *parts, last = [name] if self.variation.keys == "flat" else name.split(".")
            if name.partition(".")[0] in record:
                target = chosen
                for part in parts:
                    target = target.setdefault(part, {})
                target[last] = self.value(record, name, mode)
        return extended(chosen) if self.variation.extra else chosen

    def list(self, call):
        """Return a page of the records that a call selects, sorted, with the properties that it names."""
        given, spec, variation = call.given, call.spec, self.variation
        rows, sort, kind = self.selected(call, given), given.get("sort") or {}, spec["kind"]
        names = given.get("projection", given.get("fields"))
        if isinstance(sort, str):
            order = given.get("order") or "ASC"
            sort = {name.lstrip("-"): "DESC" if name[0] == "-" else order for name in sort.split(",")}
        self.check_keys([*names, *sort] if kind == "users" else [])
        rows = self.world.random.sample(rows, len(rows)) if variation.shuffle else rows
        mode = (given.get("multiFieldMode") or "latest") if variation.reduced else None
        for name, way in reversed(sort.items()):
            path = spec.get("sorts", {}).get(name, name)
            rows = ordered(rows, partial(self.value, path=path, mode=mode), way)
        offset, limit = given.get("offset") or 0, given.get("limit", len(rows))
        if variation.page_limit and limit > variation.page_limit:
            raise HTTPException(variation.page_refusal, f"limit must be at most {variation.page_limit}")
        data = rows[offset : offset + min(limit, variation.page_cap or limit)]
        data = [shaped(kind, row, variation) for row in data]
        data = data if names is None else [self.projected(row, names, mode) for row in data]
        if not data and variation.nothing == "none":
            return Response(status_code=204)
        data = data or {"list": []}.get(variation.nothing)
        if spec.get("is_bare") or (spec.get("is_open") and variation.bare_metrics):
            return data
        answer = {"offset": offset, "limit": limit} if spec.get("echo", True) else {}
        answer |= {"count": len(data or ()), "total": len(rows)}
        answer |= {} if data is None and variation.nothing == "absent" else {"data": data}
        return extended(answer) if variation.extra else answer

    def find(self, call):
        """Return the record of an id; a malformed or an unknown id is refused."""
        given, pattern, records = call.given, call.spec.get("id", ".+"), self.records(call.spec["kind"])
        if not re.fullmatch(pattern, given["id"]):
            raise HTTPException(self.variation.malformed, f"id must match {pattern}")
        record = records.get(given["id"]) or records.get(given["id"].lower())
        if record not in self.selected(call, given):
            raise HTTPException(404, "Resource not found")
        return record

    def get(self, call):
        """Return one record as this service has it."""
        return shaped(call.spec["kind"], self.find(call), self.variation)

    # Insights

    def cells(self, call, group, cells):
        """Add the selected records to cells: by the label of an interval and the value of a property."""
        given, labels = call.given, self.variation.labels
        for row in self.selected(call, given):
            value = lookup(row, group) if group else None
            if isinstance(value, dict | list):
                raise HTTPException(400, "group must be a single property")
            is_text = value is None or isinstance(value, str) or labels == "native"
            date = lookup(row, call.spec["select"]["since"])
            bucket = label(date, given, labels) if given.get("interval") else None
            cells.setdefault((bucket, value if is_text else str(value).lower()), []).append(row)
        return cells.items()

    def interaction_insights(self, call):
        """Count interactions per group and interval that occur; one record without both."""
        given, names, rows = call.given, ("interval", "group"), []
        cells = {} if any(given.get(name) for name in names) else {(None, None): []}
        for labels, those in self.cells(call, given.get("group"), cells):
            row = {name: one for name, one in zip(names, labels, strict=True) if given.get(name)}
            for name, (how, path) in SERVICE["sums"].items():
                row[name] = AGGREGATES[how]([one.get(path, 0) for one in those])
            rows.append(shaped("insights", row, self.variation))
        for name, way in (given.get("sort") or {}).items():
            rows = ordered(rows, partial(self.value, path=name), way)
        return rows

    def event_insights(self, call):
        """Sum metrics of events per interval, for the project or each event type."""
        given, world, variation, rows = call.given, self.world, self.variation, []
        by, names = "projectId", {world.project: world.project}
        if given["groupBy"] == "event-type":
            types = {name: world.event_types[name] for name in given.get("filter") or world.event_types}
            by, names = "eventType", {name: one[variation.event_type_as] for name, one in types.items()}
        dates = [*pd.date_range(given["since"], given["until"]), given["until"]]
        dates = dates if variation.zeros == "rows" else []
        cells = {(label(date, given, variation.labels), value): [] for date in dates for value in names}
        for (bucket, value), events in self.cells(call, by, cells):
            metrics = [metric for event in events for metric in event["~metrics"].values()]
            found = grouped((one["key"], one["~number"]) for one in metrics)
            sums = {name: round(sum(found[name]), 6) for name in given["metrics"]}
            sums = {name: v for name, v in sums.items() if v or variation.zeros != "sparse"}
            row = {"identifier": names.get(value), "interval": str(bucket), "values": sums}
            rows += [shaped("event_insights", row, variation)] if value in names else []
        return rows

    # Writes

    def written(self, call, kind, record, form=None, is_new=True):
        """Log a write, and answer it as the specification shows or, where it does not, in the chosen form."""
        self.writes += [call] if is_new else []
        variation, (status, shown) = self.variation, call.spec.get("shown", (200, form))
        if variation.every_write or not shown:
            status, shown = variation.write_status, variation.write_form
        id_ = record.get("_id") or record["id"]
        id_ = id_.upper() if variation.uuid == "upper" and kind == "raw_events" else id_
        values = {"id": id_, "record": shaped(kind, record, variation)}
        return answered(SERVICE["writes"][shown], values, variation, status)

    def create(self, call):
        """Create a record; what must be unique must be new."""
        given, spec, kind, names = call.given, call.spec, call.spec["kind"], call.spec.get("unique", ())
        record = {name: given[name] for name in spec["members"] if given.get(name) is not None}
        record |= {path: given[name] for name, path in spec.get("of", {}).items()}
        held = [[one[name] for name in names] for one in self.records(kind).values()]
        if names and [record[name] for name in names] in held:
            raise HTTPException(spec.get("conflict", 400), f"{names[-1]} must be unique")
        add = getattr(self.world, f"add_{kind}", partial(self.world.add, kind))
        return self.written(call, kind, add(record, self.now()))

    def update(self, call):
        """Change a record; what is ignored if it is unknown is modified by nothing."""
        kind, members = call.spec["kind"], {name: call.given.get(name) for name in call.spec["members"]}
        if call.spec.get("ignores_unknown") and call.given["id"] not in self.records(kind):
            return {"modifiedCount": 0}
        record = self.find(call)
        record |= {name: one for name, one in members.items() if one is not None} | {"updatedAt": self.now()}
        return self.written(call, kind, record)

    def create_event(self, call):
        """Store an event, once per nonce."""
        world, is_sync = self.world, call.operation == "create_event_sync"
        known = world.nonces.get(call.given["nonce"])
        if known and is_sync and self.variation.repeated_nonce == 409:
            raise HTTPException(409, "an event with this nonce exists")
        id_ = known or world.add_event(call.given, self.now())
        if is_sync and id_ in world.trashed_events and self.variation.invalid_sync == 400:
            raise HTTPException(400, "data does not match the event type")
        form = "plain" if self.variation.uuid == "plain" else "bare"
        return self.written(call, "raw_events", world.raw_events[id_], form, is_new=not known)

    create_event_sync = create_event

    def set_metric(self, call):
        """Set a state or a statistic of an event."""
        event, given, now = self.find(call), call.given, self.now()
        key, value, kind = given["storageKey"], given["value"], event["~types"].get(given["storageKey"])
        if kind not in call.spec["types"]:
            raise HTTPException(404, "No storageKey matches a field of the event type")
        if kind == "state" and value not in (0, 1):
            raise HTTPException(400, "value must be 0 or 1")
        event["updatedAt"] = now
        metric = self.world.set_metric(event, key, kind, value, given.get("date") or now, now)
        return self.written(call, "metrics", metric)

    def export_users(self, call):
        """Write users to a file."""
        given, config = call.given, call.given["exporterDataConfig"]
        kind, columns = given["outputFormatConfig"].get("type"), config.get("columns") or []
        if kind not in SERVICE["media"] or given["transformerConfig"]:
            raise HTTPException(400, "outputFormatConfig.type must be csv or xlsx, transformerConfig empty")
        self.check_keys(columns)
        rows = [[self.value(user, key, "latest") for key in columns] for user in self.selected(call, config)]
        return exported(columns, rows, kind, given["filename"], self.variation)
