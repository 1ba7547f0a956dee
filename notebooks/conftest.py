"""Cells print the same on a slow machine as on a fast one, and without Spark what does not need Spark."""

import importlib.util
import shutil

import pytest

HAS_SPARK = importlib.util.find_spec("pyspark") is not None and shutil.which("java") is not None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item):
    if "spark" in item.cell.metadata.get("tags", ()) and not HAS_SPARK:
        item.options["check"] = False
    with pytest.MonkeyPatch.context() as patch:
        # The kernel starts with the first cell. A bar shows where a cell takes more than a second.
        patch.setenv("TQDM_DISABLE", "1")
        return (yield)
