"""The public names, and what importing them costs."""

import subprocess
import sys

import pytest

import attrib_ds


def test_all_is_sorted_and_complete():
    assert attrib_ds.__all__ == sorted(attrib_ds.__all__)
    listed = {name for names in attrib_ds._HOMES.values() for name in names} | {"errors", "forms", "plots"}
    assert set(attrib_ds.__all__) == listed
    assert set(attrib_ds.__all__) <= set(dir(attrib_ds))


@pytest.mark.parametrize("name", attrib_ds.__all__)
def test_every_name_is_there_and_documented(name):
    value = getattr(attrib_ds, name)
    assert value.__doc__
    assert value.__doc__.strip().splitlines()[0].endswith((".", "::"))


def test_unknown_names_are_attribute_errors():
    with pytest.raises(AttributeError, match="has no attribute 'search_interaction'"):
        attrib_ds.search_interaction  # noqa: B018


def test_importing_the_package_loads_nothing_slow():
    slow = [
        "ibis",
        "duckdb",
        "pandas",
        "matplotlib",
        "pydantic",
        "scipy",
        "requests",
        "ipywidgets",
        "fastapi",
        "pyspark",
    ]
    code = f"import sys, attrib_ds; print([name for name in {slow} if name in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_filters_load_without_the_engine():
    code = "import sys, attrib_ds; attrib_ds.interaction('type') == 'session'; print('ibis' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "False"


def test_the_command_knows_no_service_before_it_opens_a_project():
    code = "import sys, attrib_ds.commands.cli; print([name for name in sys.modules if name.startswith('attrib_ds.service')])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
