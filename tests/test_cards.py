"""What projects, paths and models look like in a notebook."""

import pandas as pd
import pytest

from attrib_ds import Paths, connect, interaction
from attrib_ds.attribution.models import TimeDecay
from attrib_ds.cards import card


def test_everything_is_escaped():
    assert card("<b>", {"<i>": "a & b"}, note="<u>") == (
        "<div><b>&lt;b&gt;</b><table><tr>"
        '<th style="text-align: left">&lt;i&gt;</th><td>a &amp; b</td></tr></table><div>&lt;u&gt;</div></div>'
    )


def test_a_project_says_where_it_is():
    with connect("my-shop", path=":memory:") as shop:
        assert "<td>my-shop</td>" in shop._repr_html_()
        assert "<td>:memory:</td>" in shop._repr_html_()


def test_paths_say_how_they_were_made_without_computing_them():
    touchpoints = pd.DataFrame(
        {"user_id": ["u"], "node_id": ["n"], "date": pd.to_datetime(["2025-01-01"], utc=True)}
    )
    conversions = pd.DataFrame(
        {"event_id": ["e"], "user_id": ["u"], "date": pd.to_datetime(["2025-01-02"], utc=True)}
    )
    shown = Paths.from_frames(touchpoints, conversions, lookback="7D")._repr_html_()
    assert ">lookback</th><td>7D</td>" in shown


@pytest.mark.parametrize(("value", "told"), [
    (TimeDecay("3D"), (">half_life</th><td>&#x27;3D&#x27;</td>", "Halve the credit")),
    (interaction("geo.city") == "Lyon", ("geo.city equals &quot;Lyon&quot;",)),
])  # fmt: skip
def test_models_and_predicates_say_what_they_are(value, told):
    for each in told:
        assert each in value._repr_html_()
