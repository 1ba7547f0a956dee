"""Writes docs/conformance.md: every rule, the tests that check it, and over which transports they run.

Run as ``python tools/conformance_table.py`` after rules or tests have changed.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
HERE = ROOT / "tests" / "conformance"
TARGET = ROOT / "docs" / "conformance.md"
_IDS = re.compile(r"^test_((?:r\d{3}_)+)")
_OPENING = """# Conformance

Every rule of the interface, with the tests that check it. A test speaks to the service through one function,
`send`, and runs twice: against the embedded service and over a real HTTP server. Rules about HTTP alone, such
as those of tokens, are marked **HTTP**. A rule is *kept* when all its tests pass, and *open* while one of them
is expected to fail.

{summary}

This page is written by `python tools/conformance_table.py`; a test fails when it is out of date.
"""


@dataclass(frozen=True)
class Check:
    """One test: where it is, whether HTTP alone has what it checks, and why it is expected to fail."""

    name: str
    file: str
    http_only: bool
    open: str


def sections() -> dict[str, dict[str, str]]:
    """Return what each rule says, by section and id."""
    found: dict[str, dict[str, str]] = {}
    for line in (HERE / "rules.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("# "):
            found[line[2:]] = rules = {}
        elif line:
            id, text = line.split(" ", 1)
            rules[id] = text
    return found


def checks() -> dict[str, list[Check]]:
    """Return the tests of each rule, by its id."""
    found: dict[str, list[Check]] = defaultdict(list)
    for path in sorted(HERE.glob("test_*.py")):
        module = ast.parse(path.read_text(encoding="utf-8"))
        of_module = [each.value for each in module.body if _is_marks(each)]
        for function in module.body:
            if not isinstance(function, ast.FunctionDef):
                continue
            named = _IDS.match(function.name)
            marks = [ast.unparse(each) for each in (*function.decorator_list, *of_module)]
            expected = [each for each in marks if "mark.xfail" in each]
            is_http = any("http_only" in each for each in marks)
            check = Check(function.name, path.name, is_http, expected[0] if expected else "")
            for id in named[1].upper().strip("_").split("_") if named else ():
                found[id].append(check)
    return dict(found)


def _is_marks(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == "pytestmark"


def transports(found: list[Check]) -> str:
    """Say over which transports a rule is checked."""
    if not found:
        return "none"
    return "**HTTP**" if all(each.http_only for each in found) else "both"


def page() -> str:
    """Return the page."""
    tests = checks()
    rules = {id: text for each in sections().values() for id, text in each.items()}
    both = [id for id in rules if transports(tests.get(id, [])) == "both"]
    is_open = [id for id in rules if any(each.open for each in tests.get(id, []))]
    count = len({each for found in tests.values() for each in found})
    summary = (
        f"{len(rules)} rules, {count} tests: {len(both)} rules are checked over both transports, "
        f"{len(rules) - len(both)} over HTTP alone; {len(is_open) or 'none'} "
        f"{'are' if len(is_open) > 1 else 'is'} open."
    )
    parts = [_OPENING.format(summary=summary)]
    for title, of_section in sections().items():
        rows = [_row(id, text, tests.get(id, [])) for id, text in of_section.items()]
        head = f"## {title}\n\n| Rule | What it says | Over | State | Tests |\n|---|---|---|---|---|\n"
        parts.append(head + "\n".join(rows) + "\n")
    return "\n".join(parts)


def _row(id: str, text: str, found: list[Check]) -> str:
    names = defaultdict(list)
    for each in found:
        names[each.file].append(_IDS.sub("", each.name).replace("_", " "))
    shown = "<br>".join(
        f"[{file}](../tests/conformance/{file}): {'; '.join(texts)}" for file, texts in names.items()
    )
    state = "*open*" if any(each.open for each in found) else "kept"
    return f"| {id} | {text.replace('|', chr(92) + '|')} | {transports(found)} | {state} | {shown} |"


if __name__ == "__main__":
    TARGET.write_text(page(), encoding="utf-8")
