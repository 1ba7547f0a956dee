"""Docstrings of the public names: numpydoc, with every parameter, and an example."""

import importlib
import inspect

from numpydoc.docscrape import FunctionDoc

import attrib_ds

FUNCTIONS = [name for name in attrib_ds.__all__ if inspect.isfunction(getattr(attrib_ds, name))]
PLOTS = [f"plots.{name}" for name in importlib.import_module("attrib_ds.plots").__all__]
METHODS = [
    "Paths.from_frames",
    "Paths.from_sequences",
    "Paths.to_pandas",
    "Paths.summary",
    "Paths.lengths",
    "Paths.lags",
]


def find(dotted):
    found = attrib_ds
    for part in dotted.split("."):
        found = getattr(found, part)
    return found


def test_every_parameter_is_described():
    for name in [*FUNCTIONS, *PLOTS, *METHODS]:
        function = find(name)
        document = FunctionDoc(function)
        described = [each for parameter in document["Parameters"] for each in parameter.name.split(", ")]
        parameters = [each for each in inspect.signature(function).parameters if each not in ("self", "cls")]
        assert sorted(described) == sorted(parameters), name
        assert document["Returns"], name


def test_every_function_has_a_summary_of_one_sentence_and_an_example():
    for name in FUNCTIONS:
        document = FunctionDoc(find(name))
        (first,) = document["Summary"][:1]
        assert first.endswith("."), name
        assert len(first) < 80, name
        if name not in ("interaction", "node", "user", "event"):
            assert document["Examples"], name
