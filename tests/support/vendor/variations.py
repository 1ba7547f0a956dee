"""How services that keep the specification may differ: `Variation`, and `VARIATIONS` by name.

Records, refusals, answers to writes and files are written in the form that a variation chooses.
"""

import io
import json
import tomllib
from datetime import datetime, timedelta, timezone
from fnmatch import fnmatchcase
from functools import partial
from http import HTTPStatus
from itertools import product
from pathlib import Path
from string import Template
from zlib import crc32

import pandas as pd
import pydantic
from starlette.responses import Response
from support.vendor.world import SERVICE

EAST, FORMS = timezone(timedelta(hours=5, minutes=30)), SERVICE["dates"]
WRITES = [name for name in SERVICE["operations"] if name.startswith(("create", "update"))]
TABLE = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))


def _kind(name, **types):
    """Return a class of the options, and of their defaults, in a table of the file."""
    options = {key: (types.get(key, object), value) for key, value in TABLE.pop(name.lower()).items()}
    return pydantic.create_model(name, __config__={"extra": "forbid"}, **options)


def _combinations(name, each=None, each_fault=None):
    """Return the rows of a family by name."""
    options = each or each_fault
    rows = [dict(zip(options, values, strict=True)) for values in product(*options.values())]
    return {name.format(**row): row if each else {"faults": [row]} for row in rows}


Fault = _kind("Fault")
Variation = _kind("Variation", faults=list[Fault])
FAMILIES = [_combinations(**family) for family in TABLE.pop("families")]
VARIATIONS = {"plain": Variation()}
VARIATIONS |= {name: Variation(**row) for rows in (TABLE, *FAMILIES) for name, row in rows.items()}


def date_text(moment, form):
    """Write a date-time in one of the forms of RFC 3339."""
    form = list(FORMS)[int(moment.timestamp()) % len(FORMS)] if form == "mixed" else form
    day, time = f"{moment:%Y-%m-%d %H:%M:%S.%f}".split()
    return FORMS[form].format(day=day, time=time, east=moment.astimezone(EAST).isoformat())


def json_text(value, variation):
    """Write JSON with dates in the chosen form."""
    return json.dumps(value, ensure_ascii=False, default=lambda date: date_text(date, variation.dates))


def answered(form, values, variation, status=200, headers=None):
    """Answer with a form of bodies: a content type and a text that mentions values."""
    media, text = form
    if media == "application/json":
        media, text = variation.json_type, variation.json_start + text
    quoted = {f"{name}_json": json_text(value, variation) for name, value in values.items()}
    return Response(Template(text).substitute(values | quoted), status, headers, media or None)


def refusal(status, message, form, variation, headers=None):
    """Answer an error in one of the forms that services have."""
    values = {"status": status, "message": message, "title": HTTPStatus(status).phrase}
    return answered(SERVICE["bodies"][form], values, variation, status, headers)


def shaped(kind, record, variation):
    """Return a record as this service has it: with other, additional or missing properties."""
    mark, form = crc32(str(record.get("_id") or record.get("id") or record).encode()), variation.event_object
    if record.get("type") == "session":
        lengths = {"exact": record["duration"], "whole": int(record["duration"])}
        lengths |= {"off": record["duration"] + 0.001, "absent": "~"}
        record = record | {"duration": lengths[variation.duration]}
    if kind == "events":
        values = {name: value["raw"] for name, value in record["event"].items()}
        forms = {"metric": record["event"], "values": values, "empty": {}, "list": []}
        metrics = [
            one for key, one in record["~metrics"].items() if variation.builtins or key in record["~types"]
        ]
        record = record | {
            "metrics": [shaped("metrics", one, variation) for one in metrics],
            "event": forms[form],
        }
        record["user"] = [] if form == "list" else record["user"]
    record = {name: value for name, value in record.items() if name[0] != "~" and value != "~"}
    for pattern in variation.missing if mark % variation.missing_every == 0 else ():
        kept = SERVICE["records"][kind]["essential"] if pattern.endswith("*") else ()
        hidden = [n for n in record if n not in kept and fnmatchcase(f"{kind}.{n}", pattern)]
        record |= dict.fromkeys(hidden)
        if variation.missing_as == "absent":
            record = {name: value for name, value in record.items() if name not in hidden}
    return extended(record, mark, kind) if variation.extra else record


def extended(record, mark=0, kind=None):
    """Add unknown fields, the same names with different types, to a record and its nested objects."""
    objects = [*SERVICE["vocabulary"]["nested"], "data" if kind == "metrics" else ""]
    record = {k: extended(v, mark) if k in objects and isinstance(v, dict) else v for k, v in record.items()}
    mixed = (7, "seven", [1, "a", {"b": None}], {"deep": {"er": [True]}}, None, 1.5, True)[mark % 7]
    others = {"__v": 0, "xMixed": mixed, "x.dotted name": "x", "xObject": {}, "xList": []}
    return record | others | {"tags": ["a", 1]}


def exported(columns, rows, kind, filename, variation):
    """Answer with a file of rows, CSV or XLSX, or with what comes in its place."""
    if variation.export in SERVICE["exports"]:
        return answered(SERVICE["exports"][variation.export], {}, variation)
    columns = columns if variation.export == "file" else [f"column {n}" for n, _ in enumerate(columns)]
    cells = [[cell(value, variation) for value in row] for row in rows]
    table, buffer = pd.DataFrame(cells, columns=columns, dtype=object), io.BytesIO()
    csv = partial(table.to_csv, **SERVICE["dialects"][variation.export_dialect])
    {"csv": csv, "xlsx": table.to_excel}[kind](buffer, index=False)
    media = SERVICE["media"][kind] if variation.export_type == "of the file" else variation.export_type
    headers = {"Content-Disposition": f'attachment; filename="{filename}.{kind}"'}
    return Response(buffer.getvalue(), 200, headers, media or None)


def cell(value, variation):
    """Write a value into a cell: the current one of a field, lists joined, objects and dates as text."""
    if isinstance(value, list):
        return ", ".join(str(cell(member, variation)) for member in value)
    value = value["current"] if isinstance(value, dict) and "current" in value else value
    return json_text(value, variation).strip('"') if isinstance(value, dict | datetime) else value
