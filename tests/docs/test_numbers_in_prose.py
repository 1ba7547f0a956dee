"""Numbers in the text of notebooks are those of the outputs and the code around them."""

import json
import re
from html.parser import HTMLParser

import pytest
from support.page_scripts import notebooks

_NUMBER = re.compile(r"(?<![\w.])\d[\d,]*(?:\.\d+)?(?!\w)")
_IN_CODE = re.compile(r"\d[\d_]*(?:\.\d+)?")
#: Numbers that no output holds, each with its reason.
EXCEPTIONS = {
    "06-what-ads-cause": {"80"},  # the default probability of plan_holdout
}


class Text(HTMLParser):
    """The text of HTML."""

    def __init__(self):
        super().__init__()
        self.parts = []

    def handle_data(self, data):
        self.parts.append(data)


def values(pattern, text):
    return {float(found.rstrip(",").replace(",", "").replace("_", "")) for found in pattern.findall(text)}


def shown(cell):
    """Return the text that the outputs of a cell show."""
    parts = []
    for output in cell.get("outputs", ()):
        parts.append("".join(output.get("text", "")))
        for kind, content in output.get("data", {}).items():
            if kind == "text/html":
                page = Text()
                page.feed("".join(content))
                parts.append(" ".join(page.parts))
            elif kind == "text/plain":
                parts.append("".join(content))
    return " ".join(parts)


def sections(cells):
    """Number each cell by the headings of second level before it."""
    number = 0
    for cell in cells:
        if cell["cell_type"] == "markdown" and re.search(r"^## ", "".join(cell["source"]), re.MULTILINE):
            number += 1
        yield number, cell


def prose(cell):
    text = "".join(cell["source"])
    return re.sub(r"```.*?```|`[^`]*`|\]\([^)]*\)", " ", text, flags=re.DOTALL)


@pytest.mark.parametrize("notebook", notebooks(), ids=lambda path: path.stem)
def test_numbers_in_text_are_in_the_outputs_around(notebook):
    cells = list(sections(json.loads(notebook.read_text(encoding="utf-8"))["cells"]))
    known = []  # of a cell of code: its section, and the numbers of its source and outputs
    for section, cell in cells:
        if cell["cell_type"] == "code":
            known.append((section, values(_NUMBER, shown(cell)) | values(_IN_CODE, "".join(cell["source"]))))
    for section, cell in cells:
        if cell["cell_type"] != "markdown":
            continue
        is_answer = "".join(cell["source"]).startswith("## Answer") or section == 0
        around = set().union(*(numbers for place, numbers in known if is_answer or abs(place - section) <= 1))
        for found in _NUMBER.findall(prose(cell)):
            number = found.rstrip(",").replace(",", "")
            if number in EXCEPTIONS.get(notebook.stem, ()):
                continue
            digits = len(number.partition(".")[2])
            rounded = {round(value * scale, digits) for value in around for scale in (1, 100)}
            assert float(number) in rounded, f"{found} in {cell['id']} is in no output around it"
