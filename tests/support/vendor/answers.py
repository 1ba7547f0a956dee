"""Write records, refusals and answers to writes in the form that a variation chooses."""

import io
import json
from datetime import datetime, timedelta, timezone
from fnmatch import fnmatchcase
from http import HTTPStatus
from string import Template
from zlib import crc32

import pandas as pd
from starlette.responses import Response
from support.vendor.world import SERVICE

LOGIN = (
    "<!DOCTYPE html>\n<html><head><title>Sign in</title></head><body><form method=post></form></body></html>"
)
XLSX = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"


def date_text(moment, style):
    """Write a date-time in one of the forms of RFC 3339."""
    if style == "mixed":
        style = ("z", "offset", "lower", "nanoseconds", "plain")[int(moment.timestamp()) % 5]
    text = f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03}"
    east = moment.astimezone(timezone(timedelta(hours=5, minutes=30)))
    forms = {"z": f"{text}Z", "lower": f"{text}z".lower(), "nanoseconds": f"{text}000000Z", "naive": text}
    return forms.get(style) or (east if style == "offset" else moment).isoformat()


def json_text(value, variation):
    """Write JSON with dates in the chosen form."""
    return json.dumps(value, ensure_ascii=False, default=lambda date: date_text(date, variation.dates))


def json_response(value, variation, status=200, headers=None):
    """Answer with JSON."""
    return Response(json_text(value, variation), status, headers, "application/json; charset=utf-8")


def shaped(kind, record, variation):
    """Return a record as this service has it: with other, additional or missing properties."""
    mark, record = crc32(str(record.get("_id") or record.get("id") or record).encode()), dict(record)
    if record.get("type") == "session" and variation.duration != "exact":
        exact = record.pop("duration")
        other = {"off": {"duration": exact + 0.001}, "whole": {"duration": int(exact)}}
        record |= other.get(variation.duration, {})
    if kind == "events":
        types, metrics = record.pop("types"), record["metrics"].values()
        kept = [metric for metric in metrics if variation.builtins or metric["key"] in types]
        form = {"values": lambda v: v, "metric": lambda v: {"raw": v, "current": v}}.get(
            variation.event_object
        )
        record |= {"event": {k: form(v) for k, v in record["event"].items()} if form else {}}
        record |= {"event": [], "user": []} if variation.event_object == "list" else {}
        record |= {"metrics": [shaped("metrics", metric, variation) for metric in kept]}
    essential, hidden = SERVICE["essential"][kind], {}
    for pattern in variation.missing if mark % variation.missing_every == 0 else ():
        names = [name for name in record if name not in essential or not pattern.endswith("*")]
        hidden |= dict.fromkeys(name for name in names if fnmatchcase(f"{kind}.{name}", pattern))
    if variation.missing_as == "absent":
        record = {name: value for name, value in record.items() if name not in hidden}
    else:
        record |= hidden
    return extended(record, mark, kind) if variation.extra else record


def extended(record, mark=0, kind=None):
    """Add unknown fields, the same names with different types, to a record and its nested objects."""
    objects = {*SERVICE["vocabulary"]["nested"], *(["data"] if kind == "metrics" else [])} - {"values"}
    record = {k: extended(v, mark) if k in objects and isinstance(v, dict) else v for k, v in record.items()}
    mixed = (7, "seven", [1, "a", {"b": None}], {"deep": {"er": [True]}}, None, 1.5, True)[mark % 7]
    others = {"__v": 0, "xMixed": mixed, "x.dotted name": "x", "xObject": {}, "xList": []}
    return record | others | {"tags": ["a", 1]}


def refusal(status, message, form, headers=None):
    """Answer an error in one of the forms that services have."""
    media, text = SERVICE["errors"][form]
    values = {"status": status, "message": message, "title": HTTPStatus(status).phrase}
    if "json" in media:
        values |= {name: json.dumps(str(value))[1:-1] for name, value in values.items()}
    return Response(Template(text).substitute(values), status, headers, media)


def written(status, form, record, id_, variation):
    """Answer a write: with its record, with its id in one of several forms, or without either."""
    values = {"record": json_text(record, variation), "id": json.dumps(id_), "id_text": id_}
    media = "text/plain" if form in ("text", "plain", "empty") else "application/json"
    return Response(Template(SERVICE["writes"][form]).substitute(values), status, media_type=media)


def exported(columns, rows, kind, filename, variation):
    """Answer with a file of rows, CSV or XLSX, or with what comes in its place."""
    if variation.export in ("login", "json", "empty"):
        others = {"login": (LOGIN, "text/html"), "json": ('{"status": "pending"}', "application/json")}
        text, media = others.get(variation.export, ("", None))
        return Response(text, media_type=media)
    columns = columns if variation.export == "file" else [f"column {n}" for n, _ in enumerate(columns)]
    cells = [[cell(value, variation) for value in row] for row in rows]
    table, buffer = pd.DataFrame(cells, columns=columns, dtype=object), io.BytesIO()
    dialect = {"bom": {"encoding": "utf-8-sig"}, "semicolon": {"sep": ";"}}.get(variation.export_dialect, {})
    if kind == "xlsx":
        table.to_excel(buffer, index=False)
    else:
        table.to_csv(buffer, index=False, lineterminator="\r\n", **dialect)
    default = {"csv": "text/csv", "xlsx": XLSX}[kind]
    media = default if variation.export_type is None else variation.export_type
    headers = {"Content-Disposition": f'attachment; filename="{filename}.{kind}"'}
    return Response(buffer.getvalue(), 200, headers, media or None)


def cell(value, variation):
    """Write a value into a cell: the current one of a field, lists joined, dates as text."""
    if isinstance(value, list):
        return ", ".join(str(cell(member, variation)) for member in value)
    if isinstance(value, dict):
        return cell(value["current"], variation) if "current" in value else json_text(value, variation)
    text = date_text(value, variation.dates) if isinstance(value, datetime) else value
    return "" if text is None else text
