"""Rows in JSON of any shape: tables below keys, columns of values, rows beside a schema, wrapped values."""

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final
from xml.etree import ElementTree

import duckdb
import msgspec
import pyarrow as pa

from attrib_ds.errors import warn
from attrib_ds.importers.content import evidence
from attrib_ds.records import sources, written_values
from attrib_ds.records.sources import ROW, Source, quoted

Rows = list[dict[str, Any]]

_DEEPEST: Final = 3
#: Ends of names under which databases write one value with its type.
_TYPED: Final = re.compile(
    r"(\.(\$(oid|date|numberDecimal|numberLong|numberInt|numberDouble|uuid)"
    r"|(string|integer|double|timestamp|boolean|reference)Value))+$"
)
_SAMPLE: Final = 100
#: Roles whose names speak for a table, by the argument that it is given as.
_ROLES: Final = {
    "touchpoints": ("user", "date", "node", "source", "medium", "campaign"),
    "conversions": ("user", "date", "conversion", "value", "status"),
    "spend": ("date", "spend", "campaign"),
}


def decoded(text: bytes) -> Any:
    """Return a value of JSON, None if the text is none."""
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return None


def tables_in(whole: Any, argument: str = "") -> dict[str, Rows]:
    """Return the tables in a value of JSON by the keys above them; none if it is a row itself.

    Touchpoints may be lists in rows of conversions. Of several lists in a row, the rows are in the one that
    fits the argument.

    Examples
    --------
    >>> tables_in({"fields": [{"name": "id"}, {"name": "sum"}], "rows": [[1, 2.5]]})
    {'': [{'id': 1, 'sum': 2.5}]}
    >>> tables_in({"id": {"0": 7, "1": 8}, "sum": {"0": 2.5, "1": 3}})
    {'': [{'id': 7, 'sum': 2.5}, {'id': 8, 'sum': 3}]}
    >>> tables_in({"visits": {"ann1": {"p1": {"t": 1}}, "bob2": {"p2": {"t": 2}}}})
    {'visits': [{'key': 'ann1', 'key 2': 'p1', 't': 1}, {'key': 'bob2', 'key 2': 'p2', 't': 2}]}
    """
    if _are_rows(whole):
        return {"": _spread(whole, argument)}
    if isinstance(whole, list) and whole:
        names, *rows = whole
        return {"": _with_names(names, rows)} if _names(names) and _fit(rows, len(names)) else {}
    return (
        {}
        if not isinstance(whole, dict) or _is_record(whole)
        else dict(_below(whole, "", _DEEPEST, argument))
    )


def _below(value: dict[str, Any], path: str, depth: int, argument: str) -> Iterator[tuple[str, Rows]]:
    """Yield the tables in an object, or below its keys."""
    found = _of_schema(value) or _of_columns(value) or _of_ids(value)
    if found:
        yield path, found
        return
    for name, each in value.items():
        below = f"{path}.{name}" if path else name
        if name in evidence.WORDS["beside"]:
            continue
        if _are_rows(each):
            yield below, _spread(each, argument)
        elif isinstance(each, dict) and depth:
            yield from _below(each, below, depth - 1, argument)


def _are_rows(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(row, dict) for row in value)


def has_parts(row: Any, argument: str) -> bool:
    """Return whether the rows of an argument are in a list in an object, which is none itself."""
    return isinstance(row, dict) and _spread([row], argument) != [row]


def _parts_of(rows: Rows) -> dict[str, Rows]:
    """Return the lists of objects with an instant in rows, by their key."""
    parts: dict[str, Rows] = {}
    for row in rows[:_SAMPLE]:
        for name, each in row.items():
            if _are_rows(each) and _has_instants(each):
                parts.setdefault(name, []).extend(each)
    return parts


def _spread(rows: Rows, argument: str) -> Rows:
    """Return the rows in the lists of objects without an instant, or with touches, beside what they say."""
    parts = _parts_of(rows)
    name, *others = likely(parts, argument) if len(parts) > 1 else parts or [""]
    keys = {key for part in parts.get(name, [])[:_SAMPLE] for key, _ in _leaves(part)}
    levels = ("source", "medium", "node") if argument == "touchpoints" else ()
    of_touches = any(evidence.names_level(level, key) for level in levels for key in keys)
    if not name or others or (_has_instants(rows) and not of_touches):
        return rows
    # Beside several lists, an id is that of the person.
    ids = {each: f"person.{each}" for each in ("id", "_id", "key", "number") if len(parts) > 1}
    spread: Rows = []
    for row in rows:
        kept = [each for each in row if each not in parts]
        kept = [each for each in kept if not (of_touches and _has_instants([{each: row[each]}]))]
        for part in row.get(name) or []:
            called = {each: f"{name}.parent.{each}" if each in part else each for each in kept} | ids
            spread.append({**{called[each]: row[each] for each in kept}, **part})
    return spread


def _leaves(row: dict[str, Any], depth: int = _DEEPEST) -> Iterator[tuple[str, Any]]:
    """Yield the values in an object and in those below it, apart from lists, by dotted names."""
    for name, value in row.items():
        if isinstance(value, dict) and depth:
            yield from ((f"{name}.{below}", each) for below, each in _leaves(value, depth - 1))
        elif not isinstance(value, list | dict):
            yield name, value


def _has_instants(rows: Rows) -> bool:
    return any(_is_instant(*leaf) for row in rows[:_SAMPLE] for leaf in _leaves(row))


def _is_instant(name: str, value: Any) -> bool:
    if isinstance(value, str) and written_values.looks_like_instant(value):
        return True
    name, text = _TYPED.sub("", name), str(value)
    is_count = len(text) > 9 and written_values.count_since_1970(text) is not None
    return is_count and evidence.weight("date", name.rpartition(".")[2]) > 0


def likely(tables: dict[str, Rows], argument: str) -> dict[str, Rows]:
    """Return the tables that speak most for what a file is given as: by instants, and names of columns."""
    dated = {path: rows for path, rows in tables.items() if _has_instants(rows)} or tables
    points = {}
    for path, rows in dated.items():
        names = {_TYPED.sub("", name) for row in rows[:_SAMPLE] for name, _ in _leaves(row)}
        points[path] = sum(
            any(evidence.weight(role, name) > 0 or evidence.names_level(role, name) for name in names)
            for role in _ROLES.get(argument, ())
        )
    return {path: rows for path, rows in dated.items() if points[path] == max(points.values())}


def _is_record(value: dict[str, Any]) -> bool:
    """Return whether an object is a row itself, whose lists are its parts."""
    return any(
        "@" in str(each) or evidence.weight("user", name) > 0
        for name, each in value.items()
        if not isinstance(each, list | dict)
    )


def _of_schema(value: dict[str, Any]) -> Rows | None:
    """Return rows that are lists of cells beside a list of the names of their columns."""
    members = [
        *value.values(),
        *(each for part in value.values() if isinstance(part, dict) for each in part.values()),
    ]
    lists = [each for each in members if isinstance(each, list) and each]
    for names in filter(None, map(_names, lists)):
        for rows in lists:
            cells = [_cells(row) for row in rows]
            if _fit(cells, len(names)):
                return _with_names(names, cells)
    return None


def _names(value: Any) -> list[str] | None:
    """Return the names of columns in a list of them, or of objects that describe them."""
    if not isinstance(value, list) or len(value) < 2:
        return None
    given = [each.get("name") if isinstance(each, dict) else each for each in value]
    names = [name for name in given if isinstance(name, str) and name]
    return names if len({*names}) == len(value) else None


def _cells(row: Any) -> Any:
    """Return the cells of a row, which BigQuery and Google's charts put into objects of their own."""
    for rows, cell in (("f", "v"), ("c", "v")):
        if isinstance(row, dict) and isinstance(row.get(rows), list):
            return [each.get(cell) if isinstance(each, dict) else each for each in row[rows]]
    return row


def _fit(rows: Sequence[Any], length: int) -> bool:
    return bool(rows) and all(isinstance(row, list) and len(row) == length for row in rows)


def _with_names(names: Sequence[str], rows: Sequence[Sequence[Any]]) -> Rows:
    described = [each if isinstance(each, str) else each["name"] for each in names]
    return [dict(zip(described, row, strict=True)) for row in rows]


def _of_columns(value: dict[str, Any]) -> Rows | None:
    """Return rows of an object whose members are columns: lists of cells, or cells by their row."""
    columns = [*value.values()]
    if len(columns) < 2 or any(name.isdigit() for name in value):
        return None
    if all(isinstance(each, list) and len(each) == len(columns[0]) > 1 for each in columns):
        cells = columns
    elif all(isinstance(each, dict) and each and each.keys() == columns[0].keys() for each in columns):
        if not all(number.isdigit() for number in columns[0]):
            return None
        cells = [[*each.values()] for each in columns]
    else:
        return None
    if any(isinstance(cell, dict) for each in cells for cell in each):
        return None
    return _with_names([*value], [list(row) for row in zip(*cells, strict=True)])


def _of_ids(value: dict[str, Any], level: int = 1) -> Rows | None:
    """Return rows that are members of an object under their ids, or of lists or objects there."""
    parts = [*value.values()]
    has_digits = sum(bool(re.search(r"\d", name)) for name in value)
    are_alike = all(isinstance(part, dict) and part.keys() == parts[0].keys() for part in parts)
    are_rows = len(parts) > 1 and are_alike and len(parts[0]) > 1 and _has_instants(parts)
    if not parts or (level == 1 and 2 * has_digits < len(value) and not are_rows):
        return None
    name = "key" if level == 1 else f"key {level}"
    if all(map(_are_rows, parts)) and len(parts) > 1:
        return [{name: key, **row} for key, rows in value.items() for row in rows]
    if not all(isinstance(part, dict) and part for part in parts):
        return None
    if level <= _DEEPEST and all(isinstance(each, dict) for part in parts for each in part.values()):
        deeper = [_of_ids(part, level + 1) for part in parts]
        if all(deeper):
            return [{name: key, **row} for key, rows in zip(value, deeper, strict=True) for row in rows or ()]
    if level == 1 and (len(parts) < 2 or any(len(part) < 2 for part in parts)):
        return None
    if not {*parts[0]} & {*parts[-1]}:
        return None
    name = "Unnamed: 0" if level == 1 and all(each.isdigit() for each in value) else name
    return [{name: key, **row} for key, row in value.items()]


def of_xml(text: str) -> dict[str, Any] | None:
    """Return the elements of XML as objects, with attributes as members; None of text that is none.

    Examples
    --------
    >>> of_xml("<orders><order id='7'><sum unit='EUR'>2,50</sum></order><order id='8'/></orders>")
    {'orders': {'order': [{'id': '7', 'sum': {'unit': 'EUR', 'sum': '2,50'}}, {'id': '8'}]}}
    >>> of_xml("<set><row><field name='id'>7</field><field name='sum'>2,50</field></row></set>")
    {'set': {'row': {'id': '7', 'sum': '2,50'}}}
    """
    text = re.sub(r"^\s*<\?xml.*?\?>", "", text)
    if "<!DOCTYPE" in text or "<!ENTITY" in text:
        return None
    try:
        root = ElementTree.fromstring(text)  # noqa: S314  (without entities)
    except ElementTree.ParseError:
        return None
    return {_plain(root.tag): _object_of(root)}


def _plain(name: str) -> str:
    return name.rpartition("}")[2]


def _cells_of(row: ElementTree.Element) -> dict[str, Any]:
    """Return the cells of a row whose elements have the columns as attributes; none of other elements."""
    names = [cell.get("name") for cell in row]
    are_cells = len(names) > 1 and len({*names}) == len(names) and not any(map(len, row))
    cells = {name: (cell.text or "").strip() or None for name, cell in zip(names, row, strict=True) if name}
    return cells if are_cells and len(cells) == len(names) else {}


def _object_of(element: ElementTree.Element) -> Any:
    members: dict[str, Any] = {_plain(name): value for name, value in element.attrib.items()}
    parts: dict[str, list[Any]] = {}
    for part in element:
        parts.setdefault(_plain(part.tag), []).append(_cells_of(part) or _object_of(part))
    members |= {name: found if len(found) > 1 else found[0] for name, found in parts.items()}
    text = (element.text or "").strip()
    if not members:
        return text or None
    return {**members, _plain(element.tag): text} if text else members


def unwrapped(connection: duckdb.DuckDBPyConnection, source: Source) -> Source:
    """Return a table without the wrappers of typed values, and with the members of objects in its cells."""
    texts = [name for name, kind in source.types.items() if kind == "VARCHAR"]
    are_objects = (
        "bool_and(CASE WHEN {0}[1] = '{{' THEN json_valid({0}) ELSE false END) FILTER ({0} <> '')".format
    )
    sample = f"(FROM {source.relation} WHERE {{}} LIMIT {_SAMPLE})".format
    listed = ", ".join(map(are_objects, map(quoted, texts))) or "count(*)"
    found = connection.execute(f"SELECT {listed} FROM {sample('true')}").fetchall()[0]
    source = _without_lists(connection, source, texts, sample("true"))
    for column, has_objects in zip(texts, found, strict=False):
        if has_objects is None and source.rows > _SAMPLE:
            # Its first values stand further below.
            name = quoted(column)
            where = f"{name} <> ''"
            (has_objects,) = connection.execute(
                f"SELECT {are_objects(name)} FROM {sample(where)}"
            ).fetchall()[0]
        if not has_objects:
            continue
        source = sources.with_members(connection, source, column)
    for column in [name for name in source.columns if evidence.weight("refund", name) > 0]:
        source = _with_sums(connection, source, column)
    parts: dict[str, list[str]] = {}
    for name in source.columns:
        parts.setdefault(_TYPED.sub("", name) or name, []).append(name)
    if all(names == [name] for name, names in parts.items()):
        return source
    columns = ", ".join(
        quoted(name)
        if names == [name]
        else f"coalesce({', '.join(map(source.text, names))}) AS {quoted(name)}"
        for name, names in parts.items()
    )
    query = f"SELECT {quoted(ROW)}, {columns} FROM {source.relation}"
    return sources.selected(connection, source, query)


def _without_lists(
    connection: duckdb.DuckDBPyConnection, source: Source, texts: Sequence[str], sample: str
) -> Source:
    """Return a table in which the only word of a list stands for it, and empty lists are missing."""
    are_lists = "bool_or(starts_with({0}, '['))".format
    listed = ", ".join(map(are_lists, map(quoted, texts))) or "count(*)"
    found = connection.execute(f"SELECT {listed} FROM {sample}").fetchall()[0]
    is_one = "starts_with({0}, '[') AND TRY(json_array_length({0})) < 2 AND "
    is_one += "coalesce(TRY(json_type({0}, '$[0]')), '') NOT IN ('OBJECT', 'ARRAY')"
    one = f"CASE WHEN {is_one} THEN TRY(json_extract_string({{0}}, '$[0]')) ELSE {{0}} END AS {{0}}".format
    parts = [one(quoted(name)) for name, has_lists in zip(texts, found, strict=False) if has_lists]
    query = f"SELECT * REPLACE ({', '.join(parts)}) FROM {source.relation}"
    return sources.selected(connection, source, query) if parts else source


def _with_sums(connection: duckdb.DuckDBPyConnection, source: Source, column: str) -> Source:
    """Return a table in which the sums of refunds stand for the lists of them in a column."""
    text = source.text(column)
    lists = connection.execute(
        f"SELECT {quoted(ROW)}, {text} FROM {source.relation} WHERE {text}[1] = '[' AND json_valid({text})"
    ).fetchall()
    if not lists:
        return source
    sums = [(row, _given_back(decoded(each.encode()))) for row, each in lists]
    if any(amount is None for _, amount in sums):
        warn(f"the amounts of the refunds in {column!r} are not known, and are not subtracted")
        return source
    connection.register(
        "sums", pa.table({"place": [row for row, _ in sums], "amount": [each for _, each in sums]})
    )
    query = (
        f"SELECT * EXCLUDE (place, amount) REPLACE (CAST(amount AS VARCHAR) AS {quoted(column)}) "
        f"FROM {source.relation} LEFT JOIN sums ON {quoted(ROW)} = place ORDER BY {quoted(ROW)}"
    )
    source = sources.selected(connection, source, query)
    connection.unregister("sums")
    return source


def _given_back(value: Any) -> float | None:
    """Return the sum of the amounts of refunds in JSON; None if they are not known.

    Examples
    --------
    >>> _given_back([{"id": 5, "total": "-2.50"}, {"transactions": [{"amount": "4.00"}]}])
    6.5
    """
    if isinstance(value, list):
        parts = [_given_back(each) for each in value]
        return None if None in parts else sum(filter(None, parts), start=0.0)
    if not isinstance(value, dict):
        try:
            return abs(float(value))
        except (TypeError, ValueError):
            return None
    points = {name: max(evidence.weight(role, name) for role in ("value", "refund")) for name in value}
    named = [name for name in sorted(points, key=lambda name: -points[name]) if points[name] > 0]
    lists = [each for name, each in value.items() if _are_rows(each) and "line" not in name]
    for each in [*(value[name] for name in named), *lists]:
        if (amount := _given_back(each)) is not None:
            digits = value.get("fractionDigits", 2)
            return amount / 10**digits if "centAmount" in value else amount
    return None
