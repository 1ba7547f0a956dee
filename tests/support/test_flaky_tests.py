"""A failed test is tried once more, alone, before it fails the run."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
#: Fails when it runs after another test, or always.
WITH_COMPANY = "def test_{name}(seen):\n    seen.append('{name}')\n    assert len(seen) == 1\n"
ALWAYS = "def test_{name}():\n    raise AssertionError\n"
CONFTEST = (
    "import pytest\n"
    "from support.flaky_tests import pytest_sessionfinish, pytest_terminal_summary\n"
    "@pytest.fixture(scope='session')\n"
    "def seen():\n"
    "    return []\n"
)


@pytest.fixture
def run(tmp_path):
    (tmp_path / "conftest.py").write_text(CONFTEST, encoding="utf-8")
    (tmp_path / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")

    def run(tests, *options):
        file = tmp_path / "test_it.py"
        file.write_text("\n".join(text.format(name=name) for name, text in tests.items()), encoding="utf-8")
        return subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options],
            cwd=tmp_path,
            # Importing every plug-in takes longer than these tests.
            env={**os.environ, "PYTHONPATH": str(TESTS), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
            capture_output=True,
            text=True,
            check=False,
        )

    return run


def test_what_passes_alone_is_named_and_does_not_fail_the_run(run):
    finished = run({"first": WITH_COMPANY, "second": WITH_COMPANY, "third": WITH_COMPANY})
    assert finished.returncode == 0, finished.stdout
    assert "FLAKY test_it.py::test_second\nFLAKY test_it.py::test_third\n" in finished.stdout
    assert "1 passed, 2 flaky" in finished.stdout


@pytest.mark.large
@pytest.mark.slow
def test_three_flaky_tests_fail_the_run(run):
    finished = run(dict.fromkeys(("a", "b", "c", "d"), WITH_COMPANY), "-p", "xdist", "-n", "1", "test_it.py")
    assert finished.returncode == 1
    assert "3 flaky tests fail the run" in finished.stdout


@pytest.mark.slow
def test_what_fails_alone_fails_the_run(run):
    finished = run({"first": WITH_COMPANY, "second": WITH_COMPANY, "wrong": ALWAYS})
    assert finished.returncode == 1
    assert "FLAKY test_it.py::test_second\n" in finished.stdout
    assert "FAILED test_it.py::test_wrong" in finished.stdout
    assert "1 failed, 1 passed, 1 flaky" in finished.stdout


@pytest.mark.slow
def test_nothing_is_tried_again_where_the_first_failure_stops_the_run(run):
    finished = run({"first": WITH_COMPANY, "second": WITH_COMPANY}, "-x")
    assert finished.returncode == 1
    assert "FLAKY" not in finished.stdout
