"""Writes docs/conformance.md: every rule with its tests and the transports they run over.

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

Every rule of the interface, with its tests. Each test runs twice: against the embedded service and against a
real HTTP server. Rules that only exist over HTTP, such as those about tokens, are marked **HTTP**. A rule is
*kept* if all its tests pass, and *open* if one of them is expected to fail.

{summary}

`python tools/conformance_table.py` writes this page, and a test fails when it is out of date.
"""


@dataclass(frozen=True)
class Check:
    """A test of a rule: its name and file, whether it runs over HTTP only, and its xfail mark."""

    name: str
    file: str
    http_only: bool
    open: str


def sections() -> dict[str, dict[str, str]]:
    """Return the text of each rule, by section and id."""
    by_section: dict[str, dict[str, str]] = {}
    for line in (HERE / "rules.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("# "):
            by_section[line[2:]] = rules = {}
        elif line:
            id, text = line.split(" ", 1)
            rules[id] = text
    return by_section


def package_rules() -> list[tuple[str, str, str]]:
    """Return what the package promises beyond the interface: the file of its test, its name, and the text."""
    lines = (HERE / "package_rules.txt").read_text(encoding="utf-8").splitlines()
    return [(*line.split(" ", 1)[0].split("::"), line.split(" ", 1)[1]) for line in lines]


def checks() -> dict[str, list[Check]]:
    """Return the tests of each rule, by its id."""
    by_rule: dict[str, list[Check]] = defaultdict(list)
    for path in sorted(HERE.glob("test_*.py")):
        module = ast.parse(path.read_text(encoding="utf-8"))
        module_marks = [statement.value for statement in module.body if _is_marks(statement)]
        for function in module.body:
            if not isinstance(function, ast.FunctionDef):
                continue
            named = _IDS.match(function.name)
            marks = [ast.unparse(mark) for mark in (*function.decorator_list, *module_marks)]
            expected = [mark for mark in marks if "mark.xfail" in mark]
            is_http = any("http_only" in mark for mark in marks)
            check = Check(function.name, path.name, is_http, expected[0] if expected else "")
            for id in named[1].upper().strip("_").split("_") if named else ():
                by_rule[id].append(check)
    return dict(by_rule)


def _is_marks(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == "pytestmark"


def transports(tests: list[Check]) -> str:
    """Return the transports that a rule is checked over."""
    if not tests:
        return "none"
    return "**HTTP**" if all(test.http_only for test in tests) else "both"


def page() -> str:
    """Return the page."""
    tests = checks()
    rules = {id: text for section in sections().values() for id, text in section.items()}
    both = [id for id in rules if transports(tests.get(id, [])) == "both"]
    is_open = [id for id in rules if any(test.open for test in tests.get(id, []))]
    count = len({test for of_rule in tests.values() for test in of_rule})
    summary = (
        f"{len(rules)} rules, {count} tests: {len(both)} rules are checked over both transports, "
        f"{len(rules) - len(both)} over HTTP only; {len(is_open) or 'none'} "
        f"{'are' if len(is_open) > 1 else 'is'} open."
    )
    parts = [_OPENING.format(summary=summary)]
    for title, of_section in sections().items():
        rows = [_row(id, text, tests.get(id, [])) for id, text in of_section.items()]
        head = f"## {title}\n\n| Rule | Text | Transports | State | Tests |\n|---|---|---|---|---|\n"
        parts.append(head + "\n".join(rows) + "\n")
    rows = [
        f"| {text} | [{Path(file).name}](../{file}): {_words(name)} |" for file, name, text in package_rules()
    ]
    parts.append("## Beyond the interface\n\n| Rule | Test |\n|---|---|\n" + "\n".join(rows) + "\n")
    return "\n".join(parts)


def _words(name: str) -> str:
    return name.removeprefix("test_").replace("_", " ")


def _row(id: str, text: str, tests: list[Check]) -> str:
    names = defaultdict(list)
    for test in tests:
        names[test.file].append(_IDS.sub("", test.name).replace("_", " "))
    links = "<br>".join(
        f"[{file}](../tests/conformance/{file}): {'; '.join(texts)}" for file, texts in names.items()
    )
    state = "*open*" if any(test.open for test in tests) else "kept"
    return f"| {id} | {text.replace('|', chr(92) + '|')} | {transports(tests)} | {state} | {links} |"


if __name__ == "__main__":
    TARGET.write_text(page(), encoding="utf-8")
