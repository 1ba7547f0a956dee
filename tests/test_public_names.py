"""The public names, and what importing them costs."""

import subprocess
import sys
from importlib.metadata import version

import pytest

import attrib_ds

NAMESPACES = ["admin", "errors", "experiments", "forms", "hits", "models", "plots", "simulation"]


def test_completion_shows_public_names_only():
    assert dir(attrib_ds) == sorted(attrib_ds.__all__)
    assert set(NAMESPACES) <= set(attrib_ds.__all__)
    assert len(attrib_ds.__all__) <= 82


def test_completion_in_a_namespace_shows_public_names_only():
    for namespace in NAMESPACES:
        module = getattr(attrib_ds, namespace)
        assert dir(module) == sorted(module.__all__), namespace
        for name in module.__all__:
            assert getattr(module, name).__doc__, namespace
            assert getattr(module, name).__module__.startswith("attrib_ds."), namespace


def test_experiments_and_models_are_where_the_documentation_says():
    assert set(attrib_ds.experiments.__all__) == {
        "Effects",
        "assign",
        "create_holdout",
        "delete_holdout",
        "holdout_effects",
        "list_holdouts",
        "list_opportunities",
        "plan_holdout",
    }
    assert {"LastNonDirect", "Markov", "Shapley", "TimeDecay"} <= set(attrib_ds.models.__all__)


def test_every_name_is_there_and_documented():
    for name in attrib_ds.__all__:
        value = getattr(attrib_ds, name)
        assert value.__doc__, name
        assert value.__doc__.strip().splitlines()[0].endswith((".", "::")), name


def test_the_version_is_that_of_the_distribution():
    assert attrib_ds.__version__ == version("attrib-ds")


def test_unknown_names_are_attribute_errors():
    with pytest.raises(AttributeError, match="No attrib_ds attribute search_interaction"):
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


@pytest.mark.slow
def test_filters_load_without_the_engine():
    code = "import sys, attrib_ds; attrib_ds.interaction('type') == 'session'; print('ibis' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "False"


def test_wrong_usage_loads_nothing_slow():
    slow = ["duckdb", "ibis", "matplotlib", "numpy", "pandas", "pyarrow", "pydantic", "requests"]
    code = f"""import sys
from attrib_ds.commands.cli import main
try:
    main(["keys", "create", "--scop"])
except SystemExit as stop:
    print(stop.code, [name for name in {slow} if name in sys.modules])"""
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "2 []"
