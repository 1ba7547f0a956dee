"""Filter, sort, page, group and project records, as the operations with bodies do."""

import re
from collections import defaultdict
from datetime import UTC, datetime, timedelta

from support.vendor.world import number

COUNTERS = (
    "_id", "projectId", "vendorUserIds", "audienceIds", "mostProbableLocation", "eventCount", "firstEventDate", "lastEventDate",
    "interactionCount", "hitCount", "averageHitCount", "interactionDuration", "averageInteractionDuration", "firstInteractionDate",
    "lastInteractionDate", "firstInteractionNodeId", "lastInteractionNodeId", "createdAt", "updatedAt",
)  # fmt: skip
LINEAR = ("day", "week", "month", "quarter", "semester", "year")
SEASONAL = ("dayOfWeek", "dayOfMonth", "dayOfYear", "weekOfYear", "monthOfYear", "quarterOfYear", "semesterOfYear")


class RefusedError(Exception):
    """A request that the service refuses with a status and a message."""

    def __init__(self, status, message):
        super().__init__(message)
        self.status, self.message = status, message


def instant(value, name):
    """Read a date-time of RFC 3339; without an offset it is in UTC."""
    shape = r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)?"
    try:
        if not re.fullmatch(shape, str(value)):
            raise ValueError(value)
        moment = datetime.fromisoformat(value.upper())
    except ValueError:
        raise RefusedError(400, f"{name} must be a valid ISO 8601 date string") from None
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


def lookup(record, path):
    """Return a property of a record, or None; a dot leads into a nested object."""
    for part in path.split("."):
        record = record.get(part) if isinstance(record, dict) else None
    return record


def folded(value):
    return value.lower() if isinstance(value, str) else value


OPERATORS = {
    "equals": lambda one, value: one == value,
    "in": lambda one, value: one in value,
    "contains": lambda one, value: one is not None and str(folded(value)) in str(folded(one)),
    "startsWith": lambda one, value: str(folded(one)).startswith(str(folded(value))),
    "endsWith": lambda one, value: str(folded(one)).endswith(str(folded(value))),
    "matches": lambda one, value: one is not None and re.search(value, str(one)) is not None,
    "greaterThan": lambda one, value: one is not None and one > value,
    "greaterThanOrEquals": lambda one, value: one is not None and one >= value,
    "lessThan": lambda one, value: one is not None and one < value,
    "lessThanOrEquals": lambda one, value: one is not None and one <= value,
    "between": lambda one, value: one is not None and value[0] <= one <= value[1],
    "isNull": lambda one, _: one is None,
    "isEmpty": lambda one, _: one in (None, "", [], {}),
}


def matches(node, values_of):
    """Tell whether a record matches a predicate or a condition; `values_of` finds the values of a predicate."""
    rules = next((node[key] for key in ("rules", "operands", "operations") if key in node), None)
    if rules is not None:
        combined = str(node.get("condition") or node.get("operation") or node.get("operator") or "AND").upper()
        if combined not in ("AND", "OR") or not isinstance(rules, list):
            raise RefusedError(400, "condition must be one of the following values: AND, OR")
        found = (all if combined == "AND" else any)(matches(rule, values_of) for rule in rules)
        return found is not bool(node.get("not"))
    name = str(node.get("operator"))
    plain = next((key for key in OPERATORS if name in (f"not{key[0].upper()}{key[1:]}", key.replace("is", "isNot"))), name)
    plain = name if name in OPERATORS else plain
    if plain not in OPERATORS:
        raise RefusedError(400, f"operator {name} is not supported")
    found = any(holds(plain, one, node.get("value")) for one in values_of(node) or [None])
    return found is (plain == name)


def holds(operator, one, value):
    """Apply an operator; a date is compared with dates."""
    if isinstance(one, datetime) and value is not None:
        value = [instant(v, "value") for v in value] if isinstance(value, list) else instant(value, "value")
    try:
        return OPERATORS[operator](one, value)
    except TypeError:
        raise RefusedError(400, "value does not fit the field") from None


def sorted_by(rows, keys):
    """Sort rows by pairs of a function and whether it descends; missing values come first when ascending."""
    for key, descending in reversed(keys):
        rows = sorted(rows, key=lambda row: orderable(key(row)), reverse=descending)  # noqa: B023
    return rows


def orderable(value):
    value = number(value) if isinstance(value, dict) and "amount" in value else value
    kind = "number" if isinstance(value, int | float) else type(value).__name__
    return (value is not None, kind, str(value) if isinstance(value, dict | list) else value if value is not None else 0)


def projected(record, paths, keys):
    """Return the properties of a record that were asked for, nested or flat."""
    answer = {}
    for path in paths:
        target, parts = answer, [path] if keys == "flat" else path.split(".")
        if lookup(record, path) is None and path.split(".")[0] not in record:
            continue  # a property of sessions, asked of an offline interaction
        for part in parts[:-1]:
            target = target.setdefault(part, {})
        target[parts[-1]] = lookup(record, path)
    return answer


# Keys of users


def user_key(key, world):
    """Return a function that reads a key of the vocabulary from a complete user; unknown keys are refused."""
    kind, _, rest = key.partition(".")
    name, _, aggregate = rest.rpartition(".")
    fields = {f["storageKey"]: f for one in world.types.values() for f in one["fields"]}
    metrics = {"event-count"} | {k for k, f in fields.items() if f["entity"] == "event"}
    metrics |= {f"state-delay-{k}" for k, f in fields.items() if f["type"] == "state"}
    if key in COUNTERS:
        return lambda user: user.get(key)
    if kind == "fields" and rest in fields and fields[rest]["entity"] == "user":
        return lambda user: user["fields"].get(rest, [])
    if kind == "eventTypesCount" and rest in world.types:
        return lambda user: user["eventTypesCount"].get(rest, 0)
    if kind == "metrics" and name in metrics and aggregate in ("sum", "max", "min", "count", "average"):
        return lambda user: user["metrics"].get(name, {}).get(aggregate)
    raise RefusedError(400, f"{key} is not a valid key")


def reduced(value, mode):
    """Reduce the values of a field to one, in an array; other values stay as they are."""
    if not (isinstance(value, list) and value and isinstance(value[0], dict)):
        return value
    if mode not in ("latest", "earliest", "alphabetical"):
        raise RefusedError(400, "multiFieldMode must be one of: latest, earliest, alphabetical")
    ranked = sorted(value, key=lambda one: str(one["current"]) if mode == "alphabetical" else one["date"])
    return [ranked[-1 if mode == "latest" else 0]]


def user_values(node, user, world):
    """Return the values of a user that a predicate is about."""
    kind, name = node.get("type"), str(node.get("field"))
    full = name if kind in ("counters", None) or name.startswith(f"{kind}.") else f"{kind}.{name}"
    value = user_key(full, world)(user)
    value = value if isinstance(value, list) else [value]
    return [one["current"] if isinstance(one, dict) and "current" in one else one for one in value]


# Insights


def bucket(moment, interval, labels):
    """Return the label of a date in an interval, with its order in front."""
    day, week = moment.replace(hour=0, minute=0, second=0, microsecond=0), moment.isocalendar()
    month, (quarter, half) = moment.month, ((moment.month + 2) // 3, (moment.month + 5) // 6)
    starts = {
        "day": (day, f"{day:%Y-%m-%d}"),
        "week": (day - timedelta(days=day.weekday()), f"{week.year}-W{week.week:02}"),
        "month": (day.replace(day=1), f"{day:%Y-%m}"),
        "quarter": (day.replace(day=1, month=3 * quarter - 2), f"{day.year}-Q{quarter}"),
        "semester": (day.replace(day=1, month=6 * half - 5), f"{day.year}-S{half}"),
        "year": (day.replace(day=1, month=1), f"{day.year}"),
    }
    if interval in starts:
        start, label = starts[interval]
        exact = {"start": start.strftime("%Y-%m-%dT00:00:00.000Z"), "number": int(start.timestamp() * 1000)}
        return start.timestamp(), exact.get(labels, label)
    seasons = {
        "hourOfDay": moment.hour, "dayOfWeek": moment.isoweekday(), "dayOfMonth": moment.day, "dayOfYear": int(f"{moment:%j}"),
        "weekOfYear": week.week, "monthOfYear": month, "quarterOfYear": quarter, "semesterOfYear": half,
    }  # fmt: skip
    if interval not in seasons:
        raise RefusedError(400, f"interval {interval} is not supported")
    return seasons[interval], seasons[interval] if labels in ("number", "native") else str(seasons[interval])


def interaction_insights(rows, body, labels):
    """Count interactions, hits and durations per group and interval that occur; one record without both."""
    group, interval, counted = body.get("group"), body.get("interval"), {}
    if not group and not interval:
        counted[None, (0, None)] = []
    if interval == "custom":
        since, until = (instant(body.get(name), name) for name in ("since", "until"))
        width = (until - since) / int(body.get("segmentCount") or 0 or 1)
    for row in rows:
        key = (0, None)
        if interval == "custom":
            index = min(int((row["startDate"] - since) / width), int(body.get("segmentCount") or 1) - 1)
            key = index, (since + index * width).isoformat()
        elif interval:
            key = bucket(row["startDate"], interval, labels)
        value = lookup(row, group) if group else None
        if isinstance(value, dict | list):
            raise RefusedError(400, "group must be a single property")
        counted.setdefault((value, key), []).append(row)
    records = []
    for (value, (order, label)), members in counted.items():
        value = value if labels == "native" or value is None or isinstance(value, str) else str(value).lower()
        sums = {"sessionCount": len(members), "hitCount": sum(m.get("hitCount", 0) for m in members)}
        seconds = sum(m["duration"] for m in members)
        records.append((order, {"group": value, "interval": label, **sums, "durationSum": seconds}))
    records = [record for _, record in sorted(records, key=lambda pair: pair[0])]
    for name, way in reversed((body.get("sort") or {}).items()):
        if name not in ("group", "interval", "sessionCount", "hitCount", "durationSum"):
            raise RefusedError(400, f"sort.{name} is not supported")
        records = sorted_by(records, [(lambda r: r[name], descends(way))])  # noqa: B023
    return [{k: v for k, v in r.items() if k not in ("group", "interval") or body.get(k)} for r in records]


def descends(way):
    """Read a direction of a sort object; the specification shows -1 alone."""
    if str(way).lower() not in ("1", "-1", "asc", "desc"):
        raise RefusedError(400, "sort directions are 1 and -1")
    return str(way).lower() in ("-1", "desc")


def event_insights(events, body, identify, references, variation):
    """Sum metrics of events per interval, for the project or each event type."""
    metrics, interval, by_type = body["metrics"], body["interval"], body["groupBy"] == "event-type"
    since, until = (instant(body[name], name) for name in ("since", "until"))
    labels = "iso" if variation.labels == "native" else variation.labels
    sums = defaultdict(lambda: dict.fromkeys(metrics, 0))
    if variation.zeros != "none":
        for step in range(min((until.date() - since.date()).days + 1, 100_000)):
            moment = min(since + timedelta(days=step), until)
            for reference in references if by_type else [None]:
                _ = sums[bucket(moment, interval, labels), reference]
    for event in events:
        if since <= event["eventDate"] <= until and (not by_type or event["eventType"] in references):
            values = sums[bucket(event["eventDate"], interval, labels), event["eventType"] if by_type else None]
            for key in set(metrics) & set(event["metrics"]):
                values[key] = round(values[key] + number(event["metrics"][key]["data"]["current"]), 6)
    sparse = variation.zeros == "sparse"
    return [
        {"identifier": identify(ref), "interval": str(label), "values": {k: v for k, v in values.items() if v or not sparse}}
        for ((_, label), ref), values in sorted(sums.items(), key=lambda item: (item[0][0][0], str(item[0][1])))
    ]
