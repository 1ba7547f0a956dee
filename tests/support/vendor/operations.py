"""What the operations of the service do; `service.toml` declares their paths and members."""

import re
from datetime import UTC, datetime, timedelta
from functools import partial
from operator import ge, gt, le, lt

from support.vendor.answers import answered, exported, extended, shaped
from support.vendor.selection import RefusedError, label, lookup, matches, ordered
from support.vendor.variations import Variation
from support.vendor.world import AGGREGATES, SERVICE, World, number

BOUNDS = {"since": ge, "until": le, "idAfter": gt, "idFrom": ge, "idTo": lt}


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

    def selected(self, kind, call, given):
        """Return the records of a kind that members and parameters select."""
        rows, spec = list(self.records(kind).values()), call.spec
        for name, path in spec.get("where", {}).items():
            if (wanted := given.get(name)) is not None:
                values = [(row, lookup(row, path)) for row in rows]
                rows = [row for row, v in values if v == wanted or (isinstance(v, list) and wanted in v)]
        for name, paths in spec.get("like", {}).items():
            text = (given.get(name) or "").lower()
            rows = [row for row in rows if any(text in row[path].lower() for path in paths)]
        for name, test in BOUNDS.items():
            path = "_id" if name.startswith("id") else spec.get("date")
            rows = [row for row in rows if not given.get(name) or test(lookup(row, path), given[name])]
        try:
            for node in (given.get(name) for name in SERVICE["vocabulary"]["filters"]):
                rows = [row for row in rows if not node or matches(node, partial(self.values, row))]
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise RefusedError(400, f"the filter is not understood: {error!r}") from None
        return rows

    def check_keys(self, keys):
        """Refuse keys that users do not have."""
        for key in keys:
            if not re.fullmatch(self.world.key(), key):
                raise RefusedError(400, f"{key} is not a valid key")

    def projected(self, kind, rows, names, mode):
        """Return records as this service has them, with the properties of these names, nested or flat."""
        variation, answer = self.variation, []
        always = ["_id"] if variation.always_id or not names else []
        for row in rows:
            record = shaped(kind, row, variation)
            chosen = record if names is None else {}
            for name in dict.fromkeys([*always, *(names or [])]):
                source, target = row if kind == "users" and "." in name else record, chosen
                *parts, last = [name] if variation.keys == "flat" else name.split(".")
                if name.partition(".")[0] in source:
                    for part in parts:
                        target = target.setdefault(part, {})
                    target[last] = self.value(source, name, mode if variation.reduced else None)
            answer.append(extended(chosen) if variation.extra and names and kind == "users" else chosen)
        return answer

    def list(self, call):
        """Return a page of the records that a call selects, sorted, with the properties that it names."""
        given, spec, variation = call.given, call.spec, self.variation
        kind, rows = spec["kind"], self.selected(spec["kind"], call, given)
        sort, names = given.get("sort") or {}, given.get("projection", given.get("fields"))
        if isinstance(sort, str):
            order = given.get("order") or "ASC"
            sort = {name.lstrip("-"): "DESC" if name[0] == "-" else order for name in sort.split(",")}
        self.check_keys([*names, *sort] if kind == "users" else [])
        if variation.shuffle:
            self.world.random.shuffle(rows)
        mode = given.get("multiFieldMode") or "latest"
        for name, way in reversed(sort.items()):
            path = spec.get("sorts", {}).get(name, name)
            rows = ordered(rows, partial(self.value, path=path, mode=mode), way)
        offset, limit, most = given.get("offset") or 0, given.get("limit"), variation.page_limit
        limit = len(rows) if limit is None else limit
        if most is not None and limit > most:
            raise RefusedError(variation.page_refusal, f"limit must not be greater than {most}")
        part = rows[offset : offset + min(limit, variation.page_cap or limit)]
        data = self.projected(kind, part, names, mode)
        if spec.get("is_bare"):
            return data
        answer = {"offset": offset, "limit": limit} if spec.get("echo", True) else {}
        answer |= {"count": len(data), "total": len(rows), "data": data}
        return extended(answer) if variation.extra else answer

    def find(self, call):
        """Return the record of an id; a malformed or an unknown id is refused."""
        given, spec, records = call.given, call.spec, self.records(call.spec["kind"])
        if not re.fullmatch(spec.get("id", ".+"), given["id"], re.DOTALL):
            raise RefusedError(self.variation.malformed, f"id must match {spec['id']}")
        record = records.get(given["id"]) or records.get(given["id"].lower())
        if not record or any(record[path] != given[name] for name, path in spec.get("where", {}).items()):
            raise RefusedError(404, "Resource not found")
        return record

    def get(self, call):
        """Return one record as this service has it."""
        return shaped(call.spec["kind"], self.find(call), self.variation)

    # Insights

    def cells(self, call, group):
        """Return the selected records by the label of an interval and the value of a property."""
        given, labels, cells = call.given, self.variation.labels, {}
        for row in self.selected(call.spec["kind"], call, given):
            value = lookup(row, group) if group else None
            if isinstance(value, dict | list):
                raise RefusedError(400, "group must be a single property")
            is_text = value is None or isinstance(value, str) or labels == "native"
            bucket = label(row[call.spec["date"]], given, labels) if given.get("interval") else None
            cells.setdefault((bucket, value if is_text else str(value).lower()), []).append(row)
        return cells

    def interaction_insights(self, call):
        """Count interactions per group and interval that occur; one record without both."""
        group, interval, rows = call.given.get("group"), call.given.get("interval"), []
        cells = self.cells(call, group) or ({} if group or interval else {(None, None): []})
        for (bucket, value), those in cells.items():
            row = ({"interval": bucket} if interval else {}) | ({"group": value} if group else {})
            for name, (how, path) in SERVICE["sums"].items():
                row[name] = AGGREGATES[how]([one.get(path, 0) for one in those])
            rows.append(shaped("insights", row, self.variation))
        for name, way in (call.given.get("sort") or {}).items():
            rows = ordered(rows, partial(self.value, path=name), way)
        return rows

    def event_insights(self, call):
        """Sum metrics of events per interval, for the project or each event type."""
        given, world, variation, rows = call.given, self.world, self.variation, []
        wanted = world.event_types if given.get("filter") is None else given["filter"]
        names = {ref: one[variation.event_type_as] for ref, one in world.event_types.items() if ref in wanted}
        by = "eventType" if given["groupBy"] == "event-type" else "projectId"
        names = names if by == "eventType" else {world.project: world.project}
        days = range((given["until"] - given["since"]).days + 2 if variation.zeros == "rows" else 0)
        dates = [min(given["since"] + timedelta(days=day), given["until"]) for day in days]
        cells = {(label(date, given, variation.labels), value): [] for date in dates for value in names}
        for (bucket, value), events in (cells | self.cells(call, by)).items():
            sums = dict.fromkeys(given["metrics"], 0)
            for metric in [
                one for event in events for one in event["~metrics"].values() if one["key"] in sums
            ]:
                sums[metric["key"]] = round(sums[metric["key"]] + number(metric["data"]["current"]), 6)
            sums = {name: v for name, v in sums.items() if v or variation.zeros != "sparse"}
            row = {"identifier": names.get(value), "interval": str(bucket), "values": sums}
            rows += [shaped("event_insights", row, variation)] if value in names else []
        return rows

    # Writes

    def written(self, call, kind, record, form=None, is_new=True):
        """Log a write, and answer it as the specification shows or, where it does not, in the chosen form."""
        self.writes += [call] if is_new else []
        status, shown = call.spec.get("shown", (200, form))
        if self.variation.every_write or not shown:
            status, shown = self.variation.write
        id_ = record.get("_id") or record["id"]
        id_ = id_.upper() if self.variation.uuid == "upper" and kind == "raw_events" else id_
        values = {"id": id_, "record": shaped(kind, record, self.variation)}
        return answered(SERVICE["writes"][shown], values, self.variation, status)

    def create(self, call):
        """Create a record; what must be unique must be new."""
        given, spec, names = call.given, call.spec, call.spec.get("unique", ())
        record = {name: given[name] for name in spec["members"] if given.get(name) is not None}
        record |= {path: given[name] for name, path in spec.get("of", {}).items()}
        held = [[one[name] for name in names] for one in self.records(spec["kind"]).values()]
        if names and [record[name] for name in names] in held:
            raise RefusedError(spec.get("conflict", 400), f"{names[-1]} must be unique")
        add = getattr(self.world, f"add_{spec['kind']}", partial(self.world.add, spec["kind"]))
        return self.written(call, spec["kind"], add(record, self.now()))

    def update(self, call):
        """Change a record; what is ignored if it is unknown is modified by nothing."""
        if call.spec.get("ignores_unknown") and call.given["id"] not in self.records(call.spec["kind"]):
            return {"modifiedCount": 0}
        record, given = self.find(call), call.given
        record |= {name: given[name] for name in call.spec["members"] if given.get(name) is not None}
        record["updatedAt"] = self.now()
        return self.written(call, call.spec["kind"], record)

    def create_event(self, call):
        """Store an event, once per nonce."""
        world, is_sync = self.world, call.operation == "create_event_sync"
        known = world.nonces.get(call.given["nonce"])
        if known and is_sync and self.variation.repeated_nonce == 409:
            raise RefusedError(409, "an event with this nonce exists")
        id_ = known or world.add_event(call.given, self.now())
        if is_sync and id_ in world.trashed_events and self.variation.invalid_sync == 400:
            raise RefusedError(400, "data does not match the event type")
        form = "plain" if self.variation.uuid == "plain" else "bare"
        return self.written(call, "raw_events", world.raw_events[id_], form, is_new=not known)

    create_event_sync = create_event

    def set_metric(self, call):
        """Set a state or a statistic of an event."""
        event, given, now = self.find(call), call.given, self.now()
        key, value, kind = given["storageKey"], given["value"], event["~types"].get(given["storageKey"])
        if kind not in call.spec["types"]:
            raise RefusedError(404, "No storageKey matches a field of the event type")
        if kind == "state" and value not in (0, 1):
            raise RefusedError(400, "value must be 0 or 1")
        event["updatedAt"] = now
        metric = self.world.set_metric(event, key, kind, value, given.get("date") or now, now)
        return self.written(call, "metrics", metric)

    def export_users(self, call):
        """Write users to a file."""
        given, config = call.given, call.given["exporterDataConfig"]
        kind, columns = given["outputFormatConfig"].get("type"), config.get("columns") or []
        if kind not in SERVICE["media"] or given["transformerConfig"]:
            raise RefusedError(400, "outputFormatConfig.type must be csv or xlsx, transformerConfig empty")
        self.check_keys(columns)
        users = self.selected("users", call, config)
        rows = [[self.value(user, key, "latest") for key in columns] for user in users]
        return exported(columns, rows, kind, given["filename"], self.variation)
