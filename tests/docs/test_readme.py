"""The README's Python runs as it is written."""

import re
from pathlib import Path

import matplotlib.pyplot as plt
import pytest

README = Path(__file__).parents[2] / "README.md"
BLOCKS = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), flags=re.DOTALL)


@pytest.mark.slow
def test_python_blocks_run():
    for code in BLOCKS:
        names: dict[str, object] = {}
        exec(compile(code, str(README), "exec"), names)
        assert len(names["credits"]) > 0, code
        plt.close("all")


def test_ten_lines_of_python():
    (first, *_) = BLOCKS
    assert len([line for line in first.splitlines() if line.strip()]) <= 10


def test_pictures_and_links_are_there():
    text = README.read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#]+)\)", text):
        assert (README.parent / target).exists(), target
