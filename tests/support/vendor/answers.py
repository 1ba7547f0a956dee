"""Write records, refusals and answers to writes in the form that a variation chooses."""

import csv
import io
import json
from datetime import datetime, timedelta, timezone
from fnmatch import fnmatchcase
from http import HTTPStatus
from zlib import crc32

import xlsxwriter
from starlette.responses import Response

ESSENTIAL = {
    "interactions": {"_id", "type", "startDate", "userId", "nodeId"}, "hits": {"id", "sessionId", "serverDate"},
    "raw_events": {"_id", "eventType", "nonce", "data"}, "events": {"_id", "userId", "eventDate", "eventType"},
    "metrics": {"_id", "eventId", "key", "type", "data"}, "trashed_events": {"_id", "errors"}, "users": {"_id"},
    "event_types": {"_id", "reference", "fields"}, "campaigns": {"id", "campaignSlug", "name"},
    "outlays": {"_id", "campaignId", "amount", "startDate", "endDate"}, "insights": {"sessionCount", "group", "interval"},
    "event_insights": {"identifier", "interval", "values"},
}  # fmt: skip
NESTED = {"geo", "asn", "userAgent", "browser", "firstPageUrl", "pageUrl", "amount", "mostProbableLocation", "expirationPolicy"}
LOGIN = "<!DOCTYPE html>\n<html><head><title>Sign in</title></head><body><form method=post>Password</form></body></html>"


def date_text(moment, style):
    """Write a date-time in one of the forms of RFC 3339."""
    if style == "mixed":
        style = ("z", "offset", "lower", "nanoseconds", "plain")[int(moment.timestamp()) % 5]
    if style == "offset":
        return moment.astimezone(timezone(timedelta(hours=5, minutes=30))).isoformat(timespec="milliseconds")
    if style == "plain":
        return moment.isoformat()
    text = moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{moment.microsecond // 1000:03}"
    return {"z": f"{text}Z", "lower": f"{text}z".lower(), "nanoseconds": f"{text}000000Z", "naive": text}[style]


def written_dates(value, style):
    """Replace the date-times in nested records by text."""
    if isinstance(value, datetime):
        return date_text(value, style)
    if isinstance(value, dict):
        return {key: written_dates(member, style) for key, member in value.items()}
    return [written_dates(member, style) for member in value] if isinstance(value, list) else value


def shaped(kind, record, variation):
    """Return a record as this service has it: with other or missing properties, its dates still instants."""
    mark = crc32(str(record.get("_id") or record.get("id") or record).encode())
    record = dict(record)
    if record.get("type") == "session" and variation.duration != "exact" and "duration" in record:
        exact = record.pop("duration")
        other = {"off": {"duration": exact + 0.001}, "whole": {"duration": int(exact)}, "absent": {}}
        record |= other[variation.duration]
    if kind == "events":
        record.pop("declared")
        metrics = [m for m in record["metrics"].values() if variation.builtins or m["key"] in record["event"] or m["type"] == "state"]
        record["metrics"] = [shaped("metrics", metric, variation) for metric in metrics]
        forms = {"values": lambda v: v, "metric": lambda v: {"raw": v, "current": v}}
        record["event"] = {k: forms[variation.event_object](v) for k, v in record["event"].items()} if variation.event_object != "empty" else {}  # fmt: skip
    if mark % variation.missing_every == 0:
        for name in list(record):
            for pattern in variation.missing:
                optional = name not in ESSENTIAL[kind] or not pattern.endswith("*")
                if optional and fnmatchcase(f"{kind}.{name}", pattern) and name in record:
                    record |= {name: None}
                    if variation.missing_as == "absent":
                        del record[name]
    return extended(record, mark, kind) if variation.extra else record


def extended(record, mark=0, kind=None):
    """Add unknown fields, the same names with different types, to a record and its nested objects."""
    objects = NESTED | ({"data"} if kind == "metrics" else set())
    record = {k: extended(v, mark) if k in objects and isinstance(v, dict) else v for k, v in record.items()}
    mixed = (7, "seven", [1, "a", {"b": None}], {"deep": {"er": [True]}}, None, 1.5, True)[mark % 7]
    return record | {"__v": 0, "xMixed": mixed, "x.dotted name": "x", "xObject": {}, "xList": [], "tags": ["a", 1]}


def json_response(value, variation, status=200, headers=None):
    """Answer with JSON."""
    text = json.dumps(written_dates(value, variation.dates), ensure_ascii=False)
    return Response(text, status, headers, "application/json; charset=utf-8")


def refusal(status, message, form, headers=None):
    """Answer an error in one of the forms that services have."""
    title = HTTPStatus(status).phrase
    plain = {"statusCode": status, "message": message} | ({} if status == 401 else {"error": title})
    bodies = {
        "json": plain,
        "sentences": plain | {"message": [message]},
        "nested": {"error": {"code": status, "message": message, "status": title.upper()}},
        "list": {"errors": [{"title": title, "detail": message, "message": message}]},
        "problem": {"type": "about:blank", "title": title, "status": status, "detail": message},
        "text": message,
        "html": f"<html><head><title>{status} {title}</title></head><body><h1>{title}</h1><hr>{message}</body></html>",
        "empty": "",
    }
    types = {"text": "text/plain", "html": "text/html", "empty": None, "problem": "application/problem+json"}
    body = bodies[form] if isinstance(bodies[form], str) else json.dumps(bodies[form])
    return Response(body, status, headers, types.get(form, "application/json"))


def written(status, form, record, id_, variation):
    """Answer a write: with its record, with its id in one of several forms, or without either."""
    bodies = {
        "record": record, "envelope": {"data": record}, "id": {"id": id_}, "_id": {"_id": id_}, "bare": id_,
        "modified": {"modifiedCount": 1}, "true": True, "null": None, "object": {},
    }  # fmt: skip
    if form in ("text", "empty"):
        return Response("OK" if form == "text" else b"", status, media_type="text/plain" if form == "text" else None)
    return json_response(bodies[form], variation, status)


def exported(columns, rows, kind, filename, variation):
    """Answer with a file of rows: CSV or XLSX, or what comes in its place."""
    if variation.export in ("login", "empty"):
        return Response(LOGIN if variation.export == "login" else b"", media_type="text/html" if variation.export == "login" else None)
    if variation.export == "json":
        return json_response({"status": "pending", "url": None}, variation)
    columns = columns if variation.export == "file" else [f"old {name}" for name in columns]
    rows = [[cell(value, variation.dates) for value in row] for row in rows]
    buffer = io.BytesIO()
    if kind == "xlsx":
        with xlsxwriter.Workbook(buffer, {"in_memory": True}) as workbook:
            sheet = workbook.add_worksheet()
            for index, row in enumerate([columns, *rows]):
                sheet.write_row(index, 0, row)
        media = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
    else:
        text, dialect = io.StringIO(newline=""), variation.export_dialect
        quoting = csv.QUOTE_ALL if dialect == "quoted" else csv.QUOTE_MINIMAL
        csv.writer(text, delimiter=";" if dialect == "semicolon" else ",", quoting=quoting).writerows([columns, *rows])
        buffer.write(text.getvalue().encode("utf-8-sig" if dialect == "bom" else "utf-8"))
        media = "text/csv"
    media = media if variation.export_type is None else variation.export_type or None
    return Response(buffer.getvalue(), 200, {"Content-Disposition": f'attachment; filename="{filename}.{kind}"'}, media)


def cell(value, style):
    """Write a value into a cell: the current one of a field, lists joined, dates as text."""
    if isinstance(value, list):
        return ", ".join(str(cell(member, style)) for member in value)
    if isinstance(value, dict):
        return cell(value["current"], style) if "current" in value else json.dumps(written_dates(value, style))
    return "" if value is None else date_text(value, style) if isinstance(value, datetime) else value
