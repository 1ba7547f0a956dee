"""The page on sending frames says what is so."""

import re
from pathlib import Path

import attrib_ds as at

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "sending-frames.md"


def test_the_functions_are_those_that_can_only_check():
    named = {name for name in at.__all__ if "dry_run" in getattr(getattr(at, name), "__annotations__", {})}
    first = PAGE.read_text(encoding="utf-8").split("```")[0]
    listed = {name for name in re.findall(r"`(\w+)`", first) if hasattr(at, name)}
    assert listed == named - {"send_conversions"}
