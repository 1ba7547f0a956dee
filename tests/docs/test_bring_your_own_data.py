"""The page on bringing data says what is so."""

import re
from pathlib import Path

import attrib_ds as at

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "bring-your-own-data.md"


def test_it_names_every_reader():
    first = PAGE.read_text(encoding="utf-8").split("```")[0]
    readers = {name for name in at.__all__ if name.startswith("read_")}
    assert readers == set(re.findall(r"`(read_\w+)`", first))
