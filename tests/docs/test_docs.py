"""The documentation: complete, its links lead somewhere."""

import re
from pathlib import Path

import function_tables

import attrib_ds
from attrib_ds.commands.cli import make_parser

ROOT = Path(__file__).parents[2]
PAGES = [
    page
    for page in sorted(
        [
            ROOT / "README.md",
            ROOT / "CHANGELOG.md",
            ROOT / "CONTRIBUTING.md",
            ROOT / "SECURITY.md",
            *ROOT.glob("docs/**/*.md"),
        ]
    )
    if not {"_build", "notebooks", "generated"} & set(page.parts)
]


def named(page):
    return str(page.relative_to(ROOT))


def test_the_reference_lists_every_public_name_once():
    text = (ROOT / "docs/reference/functions.md").read_text(encoding="utf-8")
    listed = function_tables.ROW.findall(text)
    namespaces = {"admin", "errors", "experiments", "forms", "hits", "models", "plots", "simulation"}
    inside = [f"{space}.{name}" for space in namespaces for name in getattr(attrib_ds, space).__all__]
    methods = [name for name in listed if name.startswith("Paths.")]
    names = [name for name in listed if name not in methods]
    assert sorted(names) == sorted([*(set(attrib_ds.__all__) - namespaces), *inside])
    with_example = [
        name for name, method in vars(attrib_ds.Paths).items() if "Examples" in (method.__doc__ or "")
    ]
    assert {f"Paths.{name}" for name in with_example if name[0] != "_"} <= set(methods)
    assert text == function_tables.written(text), "run python tools/function_tables.py"


def test_pages_are_plain_markdown():
    for page in PAGES:
        assert not re.search(r"^(```|:::)\{", page.read_text(encoding="utf-8"), re.MULTILINE), page


def test_the_reference_lists_every_command():
    text = (ROOT / "docs/reference/command-line.md").read_text(encoding="utf-8")
    actions = next(each for each in make_parser()._actions if each.choices and "demo" in each.choices)
    for command in actions.choices:
        assert re.search(rf"`(attrib-ds )?{command}\b", text), command


def test_rows_of_a_table_have_the_cells_of_its_header():
    for page in PAGES:
        for table in re.findall(r"(?:^\|.*\n)+", page.read_text(encoding="utf-8"), re.MULTILINE):
            cells = {len(re.findall(r"(?<!\\)\|", row)) for row in table.splitlines()}
            assert len(cells) == 1, f"{page}: {table[:80]}"


def test_links_lead_somewhere():
    for page in PAGES:
        text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
        for target in re.findall(r"\]\(([^)\s]+)\)", text):
            if re.match(r"[a-z]+:", target):
                continue
            file, _, anchor = target.partition("#")
            found = (page.parent / file).resolve() if file else page
            assert found.exists(), target
            if anchor:
                headings = re.findall(r"^#+ (.+)$", found.read_text(encoding="utf-8"), re.MULTILINE)
                assert anchor in {slug(each) for each in headings}, target


def slug(heading):
    return re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-")
