"""Rows of tables in dumps of databases: blocks of COPY, and statements of INSERT."""

import re
from collections.abc import Iterator
from typing import Any, Final

#: Where a dump has its rows.
_COPY: Final = re.compile(r"^COPY (\S+) \((.*)\) FROM stdin;\n(.*?)^\\\.$", re.MULTILINE | re.DOTALL)
_INSERT: Final = re.compile(
    r"^(?:INSERT|REPLACE)\s+(?:IGNORE\s+)?(?:INTO\s+)?(\S+?)\s*(?:\(([^()]*)\)\s*)?VALUES\s*(?=\()",
    re.MULTILINE | re.IGNORECASE,
)
_CREATE: Final = re.compile(
    r"^CREATE TABLE (?:IF NOT EXISTS )?(\S+?)\s*\(([^;]*);", re.MULTILINE | re.IGNORECASE
)
_TOKEN: Final = re.compile(r"'(?:[^'\\]|''|\\.)*'|[(),;]|[^\s'(),;]+", re.DOTALL)
_PLAIN: Final = re.compile(r"[-+]?[\d.]+(e[-+]?\d+)?|true|false", re.IGNORECASE)
_NO_COLUMN: Final = re.compile(
    r"\s*(primary|unique|foreign|constraint|key|index|fulltext|check)\b", re.IGNORECASE
)
_ESCAPED: Final = {"t": "\t", "n": "\n", "r": "\r", "0": ""}


def is_dump(text: str) -> bool:
    """Return whether text is the start of a dump."""
    return _INSERT.search(text) is not None or re.search(r"^COPY .*\) FROM stdin;$", text, re.M) is not None


def tables_of(text: str) -> dict[str, list[dict[str, Any]]]:
    r"""Return the rows of the tables of a dump.

    Examples
    --------
    >>> tables_of("COPY public.orders (id, note) FROM stdin;\n7\t\\N\n8\ta\\tb\n\\.\n")
    {'orders': [{'id': '7', 'note': None}, {'id': '8', 'note': 'a\tb'}]}
    >>> tables_of("CREATE TABLE o (id int(11), who text);\nINSERT INTO o VALUES (7,'O''Hara'),(8,NULL);")
    {'o': [{'id': '7', 'who': "O'Hara"}, {'id': '8', 'who': None}]}
    """
    columns = {_plain(name): [*_columns(body)] for name, body in _CREATE.findall(text)}
    tables: dict[str, list[dict[str, Any]]] = {}
    for name, listed, lines in _COPY.findall(text):
        names = [*map(_plain, listed.split(","))]
        rows = [[_cell(cell) for cell in line.split("\t")] for line in lines.splitlines()]
        tables.setdefault(_plain(name), []).extend(dict(zip(names, row, strict=False)) for row in rows)
    for found in _INSERT.finditer(text):
        table = _plain(found[1])
        names = [*map(_plain, found[2].split(","))] if found[2] else columns.get(table, [])
        rows = [*_tuples(text, found.end())]
        tables.setdefault(table, []).extend(dict(zip(names, row, strict=False)) for row in rows)
    return {name: rows for name, rows in tables.items() if rows and rows[0]}


def _plain(name: str) -> str:
    """Return a name without its schema and quotation marks."""
    return name.strip().rpartition(".")[2].strip('`"[] ')


def _columns(body: str) -> Iterator[str]:
    """Yield the names of the columns in a statement that creates a table."""
    while (inner := re.sub(r"'[^']*'|\([^()]*\)", "", body)) != body:
        body = inner
    for part in body.partition(")")[0].split(","):
        if part.strip() and not _NO_COLUMN.match(part):
            yield _plain(part.split()[0])


def _cell(text: str) -> str | None:
    return None if text == "\\N" else _unescaped(text)


def _unescaped(text: str) -> str:
    return re.sub(r"\\(.)", lambda found: _ESCAPED.get(found[1], found[1]), text, flags=re.DOTALL)


def _tuples(text: str, start: int) -> Iterator[list[str | None]]:
    """Yield the lists of values of a statement; of a call of a function, its first literal."""
    row: list[str | None] = []
    depth, value = 0, None
    for found in _TOKEN.finditer(text, start):
        mark = found[0]
        if mark == "(":
            depth += 1
            row, value = ([], None) if depth == 1 else (row, value)
        elif mark in {",", ")"}:
            if depth == 1:
                row.append(value)
                value = None
            depth -= mark == ")"
            if mark == ")" and not depth:
                yield row
        elif not depth:
            return
        elif value is None and mark[0] == "'":
            value = _unescaped(mark[1:-1].replace("''", "'"))
        elif value is None and _PLAIN.fullmatch(mark):
            value = mark
