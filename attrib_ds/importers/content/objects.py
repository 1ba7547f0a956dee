"""Rows in JSON of any shape: tables below keys, columns of values, rows beside a schema, wrapped values."""

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

import duckdb
import msgspec

from attrib_ds.importers.content import evidence
from attrib_ds.records import sources
from attrib_ds.records.sources import ROW, Source, quoted

Rows = list[dict[str, Any]]

_DEEPEST: Final = 3
#: Keys beside the rows of an answer.
_BESIDE: Final = frozenset(
    ["included", "aggregations", "aggs", "facets", "errors", "warnings", "links", "_shards", "schema", "meta"]
)
#: Ends of names under which databases write one value with its type.
_TYPED: Final = re.compile(
    r"(\.(\$(oid|date|numberDecimal|numberLong|numberInt|numberDouble|uuid)"
    r"|(string|integer|double|timestamp|boolean|reference)Value))+$"
)
_SAMPLE: Final = 100


def decoded(text: bytes) -> Any:
    """Return a value of JSON, None if the text is none."""
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return None


def tables_in(whole: Any) -> list[Rows]:
    """Return the tables in a value of JSON; none if it is a row itself.

    Examples
    --------
    >>> tables_in({"fields": [{"name": "id"}, {"name": "sum"}], "rows": [[1, 2.5]]})
    [[{'id': 1, 'sum': 2.5}]]
    >>> tables_in({"id": {"0": 7, "1": 8}, "sum": {"0": 2.5, "1": 3}})
    [[{'id': 7, 'sum': 2.5}, {'id': 8, 'sum': 3}]]
    """
    if isinstance(whole, list) and whole:
        names, *rows = whole
        return [_with_names(names, rows)] if _names(names) and _fit(rows, len(names)) else []
    return [] if not isinstance(whole, dict) or _is_record(whole) else list(_below(whole, _DEEPEST))


def _below(value: dict[str, Any], depth: int) -> Iterator[Rows]:
    """Yield the tables in an object, or below its keys."""
    found = _of_schema(value) or _of_columns(value) or _of_ids(value)
    if found:
        yield found
        return
    for name, each in value.items():
        if name in _BESIDE:
            continue
        if isinstance(each, list) and each and all(isinstance(row, dict) for row in each):
            yield each
        elif isinstance(each, dict) and depth:
            yield from _below(each, depth - 1)


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


def _of_ids(value: dict[str, Any]) -> Rows | None:
    """Return rows that are members of an object under their ids, which become a column."""
    rows = [*value.values()]
    if len(rows) < 2 or not all(isinstance(row, dict) and len(row) > 1 for row in rows):
        return None
    if not all(re.search(r"\d", name) for name in value) or not {*rows[0]} & {*rows[-1]}:
        return None
    name = "Unnamed: 0" if all(each.isdigit() for each in value) else "key"
    return [{name: each, **row} for each, row in value.items()]


def unwrapped(connection: duckdb.DuckDBPyConnection, source: Source) -> Source:
    """Return a table without the wrappers of typed values, and with the members of objects in its cells."""
    for column in [name for name, kind in source.types.items() if kind == "VARCHAR"]:
        if _has_objects(connection, source, column):
            source = sources.with_members(connection, source, column)
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


def _has_objects(connection: duckdb.DuckDBPyConnection, source: Source, column: str) -> bool:
    """Return whether the first values of a column are objects of JSON."""
    name = quoted(column)
    sample = f"SELECT {name} AS cell FROM {source.relation} WHERE {name} <> '' LIMIT {_SAMPLE}"
    is_object = "CASE WHEN cell[1] = '{' THEN json_valid(cell) ELSE false END"
    ((found,),) = connection.execute(
        f"SELECT coalesce(bool_and({is_object}), false) FROM ({sample})"
    ).fetchall()
    return bool(found)
