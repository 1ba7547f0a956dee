"""Every decision code that the package, its tests or its pages cite can be looked up in docs/decisions/."""

import re
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[2]
DECISIONS = ROOT / "docs/decisions"
INDEX = (DECISIONS / "index.md").read_text(encoding="utf-8")
PAGES = sorted(DECISIONS.glob("**/*.md"))
SUFFIXES = {".py", ".md", ".txt", ".toml", ".ipynb"}


def headings(page: Path) -> list[str]:
    return re.findall(r"^#+ (G-\d{3}): \S", page.read_text(encoding="utf-8"), re.MULTILINE)


def cited(text: str) -> set[str]:
    """The codes in a text; of a range such as "G-068 to G-072", every one."""
    codes = set(re.findall(r"G-\d{3}", text))
    for first, last in re.findall(r"G-(\d{3}) to G-(\d{3})", text):
        codes |= {f"G-{number:03}" for number in range(int(first), int(last) + 1)}
    return codes


def test_every_cited_decision_has_one_heading() -> None:
    count = Counter(code for page in PAGES for code in headings(page))
    citations = {
        (code, str(file.relative_to(ROOT)))
        for folder in ("attrib_ds", "tests", "docs", "notebooks")
        for file in (ROOT / folder).rglob("*")
        if file.suffix in SUFFIXES and "_build" not in file.parts
        for code in cited(file.read_text(encoding="utf-8"))
    }
    assert len(citations) > 200
    assert sorted((code, file) for code, file in citations if not count[code]) == []
    assert sorted(code for code in count if count[code] > 1) == []


def test_the_package_gives_reasons_instead_of_codes() -> None:
    package = ROOT / "attrib_ds"
    citing = [
        str(file.relative_to(ROOT))
        for file in sorted(package.rglob("*"))
        if file.suffix in {".py", ".pyi", ".js"}
        and re.search(r"\b(G-\d{3}|R\d{3})\b", file.read_text(encoding="utf-8"))
    ]
    assert citing == []


def test_the_index_lists_every_page() -> None:
    listed = set(re.findall(r"\]\(([^)]+\.md)\)", INDEX))
    assert listed == {page.relative_to(DECISIONS).as_posix() for page in PAGES} - {"index.md"}


def test_the_index_lists_the_codes_of_each_page() -> None:
    for page, codes in re.findall(r"^\| \[[^\]]+\]\(([^)]+)\) \| (.+) \|$", INDEX, re.MULTILINE):
        assert cited(codes) == set(headings(DECISIONS / page)), page
