"""Writes the table of all result columns, ``docs/reference/result-columns.md``.

Names and dtypes of records come from the schema; ``result_columns.tsv`` adds units, meanings, and the
columns of credits. Without arguments it writes the page; with ``--check`` it fails if it is out of date.
"""

from __future__ import annotations

import sys
from pathlib import Path

from attrib_ds import schema

PAGE = Path(__file__).parents[1] / "docs/reference/result-columns.md"
MEANINGS = Path(__file__).with_suffix(".tsv")
#: Records that functions return, and the function.
FRAMES = {
    "INTERACTION": "search_interactions",
    "HIT": "list_hits",
    "USER": "search_users",
    "EVENT": "search_events",
    "METRIC": "list_user_metrics",
    "NODE": "list_nodes",
    "CAMPAIGN": "list_campaigns",
    "OUTLAY": "list_outlays",
    "INTERACTION_INSIGHT": "interaction_insights",
    "PAGE_INSIGHT": "page_insights",
    "FUNNEL_STEP": "funnel",
}
_DTYPES = {
    "string": "str",
    "double": "float64",
    "int64": "Int64",
    "bool": "boolean",
    "timestamp[us, tz=UTC]": "datetime64[us, UTC]",
    "decimal128(24, 6)": "float64",
}
_HEAD = """# Result columns

Each table has one row per column. Text is `str`, instants are UTC. `<key>` stands for a key of an event type.
Columns of the service keep their names (`startDate`). Columns of this package are in snake_case (`node_id`).
`python tools/result_columns.py` writes this page.
"""


def meanings() -> dict[str, tuple[str, str, str, str]]:
    """Return table, dtype, unit and meaning of each listed column."""
    lines = MEANINGS.read_text(encoding="utf-8").splitlines()[1:]
    rows = [line.split("\t") for line in lines]
    return {f"{table}/{column}": (table, dtype, unit, text) for table, column, dtype, unit, text in rows}


def columns_of(resource: str) -> dict[str, str]:
    """Return dtype by column of a record; columns below one name are one row."""
    found = {}
    for field in getattr(schema, resource):
        head, _, rest = field.name.partition(".")
        name = f"{head}.*" if rest and head in {"userAgent", "firstPageUrl", "pageUrl"} else field.name
        found.setdefault(name, _DTYPES.get(str(field.type), "object"))
    return found


def written() -> str:
    """Return the page."""
    known = meanings()
    parts = [_HEAD]
    titles = dict.fromkeys(table for table, *_ in known.values() if table not in FRAMES and table != "*")
    for title in titles:
        rows = {key.partition("/")[2]: value for key, value in known.items() if value[0] == title}
        lines = [f"| `{name}` | {dtype} | {unit} | {text} |" for name, (_, dtype, unit, text) in rows.items()]
        parts.append(_table(title, lines))
    for resource, function in FRAMES.items():
        lines = []
        for name, dtype in columns_of(resource).items():
            _, _, unit, text = known.get(f"{resource}/{name}") or known[f"*/{name}"]
            lines.append(f"| `{name}` | {dtype} | {unit} | {text} |")
        parts.append(_table(f"`{function}`", lines))
    return "\n".join(parts)


def _table(title: str, lines: list[str]) -> str:
    head = ["| Column | Dtype | Unit | Meaning |", "|---|---|---|---|"]
    return "\n".join([f"## {title}", "", *head, *lines, ""])


def main() -> int:
    """Write or check the page."""
    text = written()
    if "--check" in sys.argv:
        return int(not PAGE.exists() or PAGE.read_text(encoding="utf-8") != text)
    PAGE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
