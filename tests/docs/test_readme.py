"""The README is short, and what it links to is there."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
SCRIPTS = [f"docs/how-to/{name}" for name in ("weekly-report", "segments", "crm-conversions", "questions")]


@pytest.mark.parametrize("page", ["README", *SCRIPTS])
def test_the_first_block_has_at_most_ten_lines(page):
    first = re.search(
        r"```python\n(.*?)```", (ROOT / page).with_suffix(".md").read_text(encoding="utf-8"), re.DOTALL
    )[1]
    assert len([line for line in first.splitlines() if line.strip()]) <= 10


def test_pictures_and_links_are_there():
    text = README.read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#]+)\)", text):
        assert (README.parent / target).exists(), target
