"""The page on money and time says what is so."""

import inspect
import re
from pathlib import Path

import attrib_ds as at

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "money-and-time.md"


def test_its_choices_are_those_of_both_functions_and_have_their_defaults():
    table = PAGE.read_text(encoding="utf-8").split("| Choice |")[1].split("```")[0]
    rows = re.findall(r"^\| `(\w+)` \| ([^|]+) \|", table, flags=re.MULTILINE)
    assert [name for name, _ in rows] == ["lookback", "node_lookbacks", "precedence", "reset", "anchor"]
    for function in (at.conversion_paths, at.Paths.from_frames):
        parameters = inspect.signature(function).parameters
        for name, told in rows:
            default = parameters[name].default
            assert told in (
                f'`"{default}"`',
                "none" if default is None else "",
                "off" if default is None else "",
            )
