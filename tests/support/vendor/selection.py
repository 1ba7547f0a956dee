"""Filter, sort, project and group records, as the operations with bodies do."""

import re
from collections import defaultdict
from datetime import UTC, datetime, timedelta

from support.vendor.world import SERVICE, number

OPERATORS = {
    "equals": lambda one, value: one == value,
    "in": lambda one, value: one in value,
    "contains": lambda one, value: str(value).lower() in str(one).lower(),
    "startsWith": lambda one, value: str(one).lower().startswith(str(value).lower()),
    "endsWith": lambda one, value: str(one).lower().endswith(str(value).lower()),
    "matches": lambda one, value: re.search(value, str(one)) is not None,
    "greaterThan": lambda one, value: one > value,
    "greaterThanOrEquals": lambda one, value: one >= value,
    "lessThan": lambda one, value: one < value,
    "lessThanOrEquals": lambda one, value: one <= value,
    "between": lambda one, value: value[0] <= one <= value[1],
    "isNull": lambda one, _: one is None,
    "isEmpty": lambda one, _: one in (None, "", [], {}),
}
OPPOSITES = {"isNotNull": "isNull", "isNotEmpty": "isEmpty"}
OPPOSITES |= {f"not{name[0].upper()}{name[1:]}": name for name in OPERATORS}


class RefusedError(Exception):
    """A request that the service refuses with a status and a message."""

    def __init__(self, status, message):
        super().__init__(message)
        self.status = status


def instant(value, name):
    """Read a date-time of RFC 3339; without an offset it is in UTC."""
    shape = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)?"
    try:
        moment = datetime.fromisoformat(re.fullmatch(shape, str(value).upper())[0])
    except (TypeError, ValueError):
        raise RefusedError(400, f"{name} must be a valid ISO 8601 date string") from None
    return moment.replace(tzinfo=moment.tzinfo or UTC).astimezone(UTC)


def lookup(record, path):
    """Return a property of a record, or None; a dot leads into a nested object."""
    for part in path.split("."):
        record = record.get(part) if isinstance(record, dict) else None
    return record


def matches(node, values_of):
    """Tell whether a record matches a predicate or a condition; `values_of` finds the values of a predicate."""
    rules = node.get("rules") or node.get("operands")
    if rules is not None or node.get("type") in ("condition", "operation"):
        combined = str(node.get("condition") or node.get("operation") or "AND").upper()
        if combined not in ("AND", "OR"):
            raise RefusedError(400, "condition must be one of the following values: AND, OR")
        found = (all if combined == "AND" else any)(matches(rule, values_of) for rule in rules or [])
        return found is not bool(node.get("not"))
    name = OPPOSITES.get(node.get("operator"), node.get("operator"))
    if name not in OPERATORS:
        raise RefusedError(400, f"operator {name} is not supported")
    found = any(holds(name, one, node.get("value")) for one in values_of(node) or [None])
    return found is (name == node["operator"])


def holds(operator, one, value):
    """Apply an operator; a missing value has no size and no text."""
    if isinstance(one, datetime) and not operator.startswith("is"):
        dates = [instant(v, "value") for v in (value if isinstance(value, list) else [value])]
        value = dates if isinstance(value, list) else dates[0]
    try:
        plain = one is not None or operator in ("equals", "in", "isNull", "isEmpty")
        return plain and OPERATORS[operator](one, value)
    except TypeError:
        raise RefusedError(400, "value does not fit the field") from None


def sorted_by(rows, keys):
    """Sort rows by pairs of a function and a direction; missing values come first when ascending."""
    for key, direction in reversed(keys):
        if str(direction).lower() not in ("1", "-1", "asc", "desc"):
            raise RefusedError(400, "a direction of sort is 1, -1, ASC or DESC")
        values = {id(row): key(row) for row in rows}
        order = {i: (v is not None, type(v).__name__ == "str", v or 0) for i, v in values.items()}
        descends = str(direction).lower() in ("-1", "desc")
        rows = sorted(rows, key=lambda row: order[id(row)], reverse=descends)
    return rows


def projected(record, paths, keys):
    """Return the properties of a record that were asked for, nested or flat."""
    answer = {}
    for path in paths:
        target, parts = answer, [path] if keys == "flat" else path.split(".")
        if path.split(".")[0] in record:
            for part in parts[:-1]:
                target = target.setdefault(part, {})
            target[parts[-1]] = lookup(record, path)
    return answer


def user_path(key, world):
    """Return where a complete user holds a key of the vocabulary; unknown keys are refused."""
    kind, _, rest = str(key).partition(".")
    fields = {f["storageKey"]: f for one in world.event_types.values() for f in one["fields"]}
    metrics = {"event-count"} | {k for k, f in fields.items() if f["entity"] == "event"}
    metrics |= {f"state-delay-{k}" for k, f in fields.items() if f["type"] == "state"}
    sums = [f"{name}.{a}" for name in metrics for a in ("sum", "max", "min", "count", "average")]
    people = [name for name, f in fields.items() if f["entity"] == "user"]
    known = {"fields": people, "eventTypesCount": world.event_types, "metrics": sums}
    if key not in SERVICE["vocabulary"]["counters"] and rest not in known.get(kind, ()):
        raise RefusedError(400, f"{key} is not a valid key")
    return [kind, *(rest.rsplit(".", 1) if kind == "metrics" else [rest][: bool(rest)])]


def user_value(user, path, mode=None):
    """Return the value of a user at a path; a mode reduces the values of a field to an array of one."""
    value = user
    for part in path:
        none = {"fields": [], "eventTypesCount": 0}.get(path[0])
        value = None if value is None else value.get(part, none)
    if path[0] != "fields" or not value or mode is None:
        return value
    ranked = sorted(value, key=lambda one: str(one["current"]) if mode == "alphabetical" else one["date"])
    return [ranked[-1 if mode == "latest" else 0]]


def user_values(node, user, world):
    """Return the values of a user that a predicate is about."""
    kind, name = node.get("type"), str(node.get("field"))
    whole = kind == "counters" or name.startswith(f"{kind}.")
    value = user_value(user, user_path(name if whole else f"{kind}.{name}", world))
    value = value if isinstance(value, list) else [value]
    return [one["current"] if isinstance(one, dict) and "current" in one else one for one in value]


def label(moment, interval, labels="iso"):
    """Return the label of the interval that a date is in."""
    if interval not in SERVICE["intervals"]:
        raise RefusedError(400, f"interval must be one of: {', '.join(SERVICE['intervals'])}")
    name = lambda day: day.strftime(SERVICE["intervals"][interval]).format(  # noqa: E731
        q=(day.month + 2) // 3, h=(day.month + 5) // 6
    )
    if "Of" in interval:
        return int(name(moment)) if labels in ("number", "native") else str(int(name(moment)))
    start = moment.replace(hour=0, minute=0, second=0, microsecond=0)
    while labels in ("start", "number") and name(start - timedelta(days=1)) == name(moment):
        start -= timedelta(days=1)
    forms = {"start": f"{start:%Y-%m-%dT00:00:00.000Z}", "number": int(start.timestamp())}
    return forms.get(labels, name(moment))


def interaction_insights(rows, body, labels):
    """Count interactions, hits and durations per group and interval that occur; one record without both."""
    group, interval, counted = body.get("group"), body.get("interval"), defaultdict(list)
    if not group and not interval:
        counted[None, None] = []
    for row in sorted(rows, key=lambda row: row["startDate"]):
        value, bucket = lookup(row, group) if group else None, None
        if isinstance(value, dict | list):
            raise RefusedError(400, "group must be a single property")
        if interval == "custom":
            since, until = instant(body.get("since"), "since"), instant(body.get("until"), "until")
            width, last = (until - since) / body["segmentCount"], body["segmentCount"] - 1
            bucket = (since + width * min(int((row["startDate"] - since) / width), last)).isoformat()
        elif interval:
            bucket = label(row["startDate"], interval, labels)
        text = value is None or labels == "native" or isinstance(value, str)
        counted[value if text else str(value).lower(), bucket].append(row)
    records = []
    for (value, bucket), members in counted.items():
        names = {k: v for k, v in {"group": value, "interval": bucket}.items() if body.get(k)}
        hits, seconds = (sum(row.get(k, 0) for row in members) for k in ("hitCount", "duration"))
        records.append(names | {"sessionCount": len(members), "hitCount": hits, "durationSum": seconds})
    return sorted_by(records, [(lambda r, n=n: r.get(n), way) for n, way in (body.get("sort") or {}).items()])


def event_insights(events, body, names, references, variation):
    """Sum metrics of events per interval, for the project or each event type."""
    metrics, by_type, sums = body["metrics"], body["groupBy"] == "event-type", {}
    since, until = instant(body["since"], "since"), instant(body["until"], "until")
    groups = references if by_type else [None]
    within = [event for event in events if since <= event["eventDate"] <= until]
    dates = [event["eventDate"] for event in within]
    if variation.zeros == "rows":
        dates = [min(since + timedelta(days=n), until) for n in range((until - since).days + 2)]
    buckets = {date: str(label(date, body["interval"], variation.labels)) for date in sorted(dates)}
    sums = {(bucket, group): dict.fromkeys(metrics, 0) for bucket in buckets.values() for group in groups}
    counts = dict.fromkeys(sums, variation.zeros == "rows")
    for event in within:
        bucket = str(label(event["eventDate"], body["interval"], variation.labels))
        key = bucket, event["eventType"] if by_type else None
        counts |= {key: True} if key in sums else {}
        for name in set(metrics) & set(event["metrics"]) if key in sums else ():
            sums[key][name] += number(event["metrics"][name]["data"]["current"])
    return [
        {"identifier": names[group], "interval": bucket}
        | {"values": {k: round(v, 6) for k, v in values.items() if v or variation.zeros != "sparse"}}
        for (bucket, group), values in sums.items()
        if counts[bucket, group]
    ]
