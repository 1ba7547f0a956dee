"""The notebooks: one question each, asked first and answered last, and no code that belongs in the package."""

import ast
import json
import re
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted(ROOT.glob("notebooks/*.ipynb"))


def cells_of(notebook, kind):
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    return ["".join(each["source"]) for each in cells if each["cell_type"] == kind]


def functions_in(code):
    defined = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
    return [each for each in ast.walk(ast.parse(code)) if isinstance(each, defined)]


def test_the_first_cell_asks_and_the_last_words_answer():
    for notebook in NOTEBOOKS:
        texts = cells_of(notebook, "markdown")
        assert re.match(r"# .+\?\n", texts[0]), notebook
        assert texts[-1].startswith("## Answer\n"), notebook


def test_no_function_is_longer_than_five_lines():
    for notebook in NOTEBOOKS:
        for code in cells_of(notebook, "code"):
            for each in functions_in(code):
                assert each.end_lineno - each.lineno < 5, each.name


def test_cells_are_numbered_and_no_error_is_stored():
    for notebook in NOTEBOOKS:
        stored = json.loads(notebook.read_text(encoding="utf-8"))
        number = notebook.stem[:2]
        assert [each["id"] for each in stored["cells"]] == [
            f"{number}-{place:02d}" for place in range(len(stored["cells"]))
        ], notebook
        # Outputs of a cell that was never run are not compared with anything.
        code = [each for each in stored["cells"] if each["cell_type"] == "code"]
        assert [each["execution_count"] for each in code] == list(range(1, len(code) + 1)), notebook
        assert "nbval-ignore-output" not in {tag for each in code for tag in each["metadata"].get("tags", ())}
        kinds = [each["output_type"] for cell in stored["cells"] for each in cell.get("outputs", [])]
        assert "error" not in kinds, notebook


def test_the_readme_lists_every_notebook_with_its_question():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    listed = dict(re.findall(r"^\| \[[^\]]+\]\(notebooks/([\w-]+)\.ipynb\) \| (.+) \|$", text, re.MULTILINE))
    asked = {
        each.stem: cells_of(each, "markdown")[0].splitlines()[0].removeprefix("# ") for each in NOTEBOOKS
    }
    assert listed == asked


def test_links_lead_somewhere():
    for notebook in NOTEBOOKS:
        for text in cells_of(notebook, "markdown"):
            for target in re.findall(r"\]\(([^)#\s]+)\)", text):
                assert (notebook.parent / target).exists(), target


@pytest.mark.large
@pytest.mark.slow
def test_a_notebook_has_what_its_reader_has(monkeypatch, tmp_path):
    (tmp_path / "kernel").mkdir()
    code = "print('os' in globals())\nimport importlib.util, os\nprint(importlib.util.find_spec('pytest'), os.listdir())"
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code)])
    monkeypatch.setenv("PYTHONSTARTUP", str(ROOT / "tests/support/bare_kernel.py"))
    monkeypatch.setenv("NOTEBOOK_EXTRAS", "")
    monkeypatch.setenv("NOTEBOOK_FOLDER", str(tmp_path / "kernel"))
    NotebookClient(notebook, kernel_name="python3").execute()
    assert [output.text for output in notebook.cells[0].outputs] == ["False\nNone []\n"]
