"""Use a backend without a screen; draw and close every figure that a test leaves open."""

import matplotlib
import pandas as pd
import pytest
from matplotlib import pyplot

from attrib_ds.records.frames import TEXT


@pytest.fixture(autouse=True)
def _figures():
    before = matplotlib.get_backend()
    matplotlib.use("Agg")
    settings = dict(matplotlib.rcParams)
    yield
    for number in pyplot.get_fignums():
        # Warnings are errors, so a warning about a glyph, a layout or a locator fails the test.
        pyplot.figure(number).draw_without_rendering()
    pyplot.close("all")
    assert dict(matplotlib.rcParams) == settings
    matplotlib.use(before)


@pytest.fixture
def credit():
    """Build a frame of credits from some columns; the others are empty, as in ``attribute``."""

    def build(**columns):
        frame = pd.DataFrame({"model": "linear", "currency": "EUR", "value": float("nan"), **columns})
        if "node_name" not in frame:
            frame["node_name"] = frame["node_id"]
        if "conversions" not in frame:
            frame["conversions"] = 1.0
        if "share" not in frame:
            frame["share"] = frame["conversions"] / frame["conversions"].sum()
        texts = ["model", "node_id", "node_name", "currency"]
        return frame.astype(dict.fromkeys(texts, TEXT))

    return build
