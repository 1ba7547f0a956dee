"""A few cases of a test run for every change, and the others before a release."""

import os
import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).parents[1]
MANY = (
    "import pytest\n"
    "@pytest.mark.few(2)\n"
    "@pytest.mark.parametrize('number', range(6))\n"
    "def test_many(number): pass\n"
    "@pytest.mark.few(2)\n"
    "@pytest.mark.parametrize('letter', 'a')\n"
    "def test_one(letter): pass\n"
)
CONFTEST = (
    "import pytest\n"
    "from support.few_cases import keep_few_cases\n"
    "@pytest.hookimpl(tryfirst=True)\n"
    "def pytest_collection_modifyitems(items): keep_few_cases(items)\n"
)


def _collected(folder, chosen):
    (folder / "test_it.py").write_text(MANY, encoding="utf-8")
    (folder / "conftest.py").write_text(CONFTEST, encoding="utf-8")
    (folder / "pytest.ini").write_text("[pytest]\nmarkers =\n few\n slow\n large\n", encoding="utf-8")
    finished = subprocess.run(
        [sys.executable, "-m", "pytest", "--co", "-q", "-p", "no:cacheprovider", "-m", chosen],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(TESTS), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    return [line.partition("::")[2] for line in finished.stdout.splitlines() if "::" in line]


def test_every_case_is_run_by_one_of_both(tmp_path):
    assert _collected(tmp_path, "not slow") == ["test_many[0]", "test_many[3]", "test_one[a]"]
    assert _collected(tmp_path, "large") == ["test_many[1]", "test_many[2]", "test_many[4]", "test_many[5]"]
