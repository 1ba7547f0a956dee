"""The page on installation says what pyproject.toml allows and what the tests run on."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "reference" / "installation.md").read_text(encoding="utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
ENVIRONMENTS = {
    "lowest": "lowest releases",
    "sagemaker-4.4": "SageMaker Distribution 4.4",
    "fabric-2.0": "Microsoft Fabric 2.0",
    "colab": "Google Colab",
}


def pins_of(name):
    text = (ROOT / "tests" / "environments" / f"{name}.txt").read_text(encoding="utf-8")
    return dict(re.findall(r"^([\w.-]+)==([\w.]+)", text, re.MULTILINE)), text


def test_each_set_of_pins_has_a_row():
    assert {path.stem for path in (ROOT / "tests" / "environments").glob("*.txt")} == set(ENVIRONMENTS)


def test_rows_are_the_pins():
    for name in ENVIRONMENTS:
        pins, text = pins_of(name)
        release = re.search(r"on Python (3\.\d+)", text)[1]
        cells = [release, *(pins[package] for package in ("pandas", "numpy", "pyarrow", "ipywidgets"))]
        assert f"| {ENVIRONMENTS[name]} | {' | '.join(cells)} |" in PAGE, name


def test_the_lowest_pins_are_the_lower_bounds():
    pins, _ = pins_of("lowest")
    for requirement in PROJECT["dependencies"]:
        package, bound = re.match(r"([\w-]+)(?:\[\w+\])?>=([\d.]+)", requirement).groups()
        assert (pins[package] + ".").startswith(bound + "."), requirement


def test_bounds_are_those_of_the_package():
    lower = dict(
        re.match(r"([\w-]+)(?:\[\w+\])?>=([\d.]+)", each).groups() for each in PROJECT["dependencies"]
    )
    for package, name in [
        ("pandas", "pandas"),
        ("numpy", "NumPy"),
        ("pyarrow", "pyarrow"),
        ("scipy", "SciPy"),
        ("matplotlib", "matplotlib"),
        ("duckdb", "DuckDB"),
        ("ipywidgets", "ipywidgets"),
    ]:
        assert re.search(rf"{name}\s{re.escape(lower[package])}\b", PAGE), package
