"""The page on the architecture says what is so, and its picture shows the import rules of today."""

import ast
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import layers
import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "attrib_ds"
TEXT = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
TITLES = ("One search", "One event", "One hit")
JOURNEYS = {title: TEXT.split(f"## {title}\n")[1].split("\n## ")[0] for title in TITLES}
FILES = sorted(set(re.findall(r"`([\w/]+\.(?:py|js))`", TEXT)) - {"tools/layers.py"})
FOLDERS = sorted(set(re.findall(r"`([\w/]+/)`", TEXT)))
#: A file followed by one of its names: `project.py` `Project.send`.
NAMES = sorted(set(re.findall(r"`([\w/]+\.(?:py|js))`\s+`([\w.]+)`", TEXT)))


def names_of(statements, prefix=""):
    """Return the names that statements define, with those of methods behind their classes."""
    names = set()
    for statement in statements:
        match statement:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                names.add(prefix + statement.name)
            case ast.ClassDef():
                names |= {statement.name, *names_of(statement.body, f"{statement.name}.")}
            case ast.AnnAssign(target=ast.Name(id=name)):
                names.add(prefix + name)
    return names


def test_files_exist():
    for file in FILES:
        assert (PACKAGE / file).is_file(), file


def test_folders_exist():
    for folder in FOLDERS:
        assert (PACKAGE / folder).is_dir() or (ROOT / folder).is_dir(), folder


@pytest.mark.slow
def test_names_are_defined_in_their_files():
    for file, name in NAMES:
        text = (PACKAGE / file).read_text(encoding="utf-8")
        if file.endswith(".js"):
            assert f"function {name}(" in text, (file, name)
        else:
            assert name in names_of(ast.parse(text).body), (file, name)


def test_a_journey_has_twelve_lines_that_each_name_a_file_and_a_function():
    for title in JOURNEYS:
        lines = re.findall(r"^(\d+)\. ((?:.+\n)(?:   +.+\n)*)", JOURNEYS[title], re.MULTILINE)
        assert [int(number) for number, _ in lines] == list(range(1, 13)), title
        for _, text in lines:
            assert re.search(r"`[\w/]+\.(?:py|js)`\s+`[\w.]+`", text), text


def test_the_picture_is_current():
    """Drawn again by ``python tools/layers.py``."""
    assert layers.TARGET.read_text(encoding="utf-8") == layers.draw(layers.read_layers())


def test_the_picture_shows_the_layers_from_top_to_bottom():
    svg = ElementTree.parse(layers.TARGET)
    heights = {
        text.text: float(text.attrib["y"])
        for text in svg.iter("{http://www.w3.org/2000/svg}text")
        if text.attrib["class"] == "name"
    }
    order = ["commands/", "api/", "project.py", "transports/", "http/", "store/", "attribution/", "errors.py"]
    assert sorted(order, key=heights.__getitem__) == order
    folders = {f"{path.parent.name}/" for path in PACKAGE.glob("*/__init__.py")}
    assert folders <= set(heights)


def test_texts_of_the_picture_stay_in_their_boxes():
    svg = ElementTree.parse(layers.TARGET)
    space = "{http://www.w3.org/2000/svg}"
    boxes = [
        [float(box.attrib[name]) for name in ("x", "y", "width", "height")]
        for box in svg.iter(f"{space}rect")
        if box.attrib["class"].startswith("box")
    ]
    texts = [text for text in svg.iter(f"{space}text") if text.attrib["class"] in ("name", "purpose")]
    assert len(texts) > 60
    for text in texts:
        x, y = float(text.attrib["x"]), float(text.attrib["y"])
        around = [box for box in boxes if box[0] < x < box[0] + box[2] and box[1] < y < box[1] + box[3]]
        left, _, width, _ = min(around, key=lambda box: box[2] * box[3])
        # A monospaced letter of 13 pixels is 7.9 wide; prose of 12 pixels at most 6.5 on average.
        letter = 7.9 if text.attrib["class"] == "name" else 6.5
        assert x + letter * len(text.text) <= left + width, text.text
