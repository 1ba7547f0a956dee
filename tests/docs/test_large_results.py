"""The page on large results names the searches that have an export."""

import re
from pathlib import Path

import attrib_ds as at

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "large-results.md"


def test_the_functions_are_those_that_have_an_export():
    first = PAGE.read_text(encoding="utf-8").split("```")[0]
    searches = {name.replace("export_", "search_") for name in at.__all__ if name.startswith("export_")}
    assert set(re.findall(r"`(\w+)`", first)) == searches
