"""Gives each example on the sample project a copy of it: it is loaded once, which takes more than a second."""

import functools
import shutil
import tempfile

import pytest

import attrib_ds
from attrib_ds import connect, sample_project

#: Removed when the tests end.
_FOLDERS = tempfile.TemporaryDirectory(prefix="samples-")
#: These show the project itself.
_SHOWN = (".sample_project", ".write_opening")


@functools.cache
def _loaded():
    folder = tempfile.mkdtemp(dir=_FOLDERS.name)
    sample_project(f"{folder}/sample-shop.duckdb").close()
    return folder


def copied_sample():
    folder = shutil.copytree(_loaded(), tempfile.mkdtemp(dir=_FOLDERS.name), dirs_exist_ok=True)
    return connect("sample-shop", path=f"{folder}/sample-shop.duckdb")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    with pytest.MonkeyPatch.context() as patch:
        if item.get_closest_marker("sample_example") and not item.name.endswith(_SHOWN):
            patch.setattr(attrib_ds, "sample_project", copied_sample)
        return (yield)
