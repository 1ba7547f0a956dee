"""A report says its result first, lists its sections, and shows values beside conversions."""

import re

import pandas as pd
import pytest

from attrib_ds import Paths, attribute
from attrib_ds.plots.report import headline, summary, write_report

#: Ads: 3 of 5 conversions, 60 EUR for 20 EUR; mail: 1, 10 USD; one in EUR is unattributed.
CREDITS = pd.DataFrame(
    [
        ("ads", "Ads", 3.0, 60.0, "EUR", 20.0, 3.0),
        ("mail", "Mail", 1.0, 10.0, "USD", None, None),
        ("radio", "Radio", 0.0, 0.0, "EUR", 5.0, 0.0),
        (None, None, 1.0, 1500.0, "EUR", None, None),
    ],
    columns=["node_id", "node_name", "conversions", "value", "currency", "spend", "roas"],
).assign(model="linear")


def test_the_headline_has_the_total_the_value_and_the_largest_node():
    assert headline(CREDITS, "linear") == (
        "5 conversions worth 1,560 EUR and 10 USD. Ads has the most credit under linear: 3 (60 %). "
        "Unattributed: 1 (20 %)."
    )
    counts = CREDITS.assign(value=CREDITS["conversions"], currency=None)
    assert headline(counts[:1], "linear") == "3 conversions. Ads has the most credit under linear: 3 (100 %)."
    assert headline(counts[3:], "linear") == "1 conversion. Unattributed: 1 (100 %)."
    assert headline(counts[:0], "linear") == "No conversions."
    assert headline(CREDITS[:1].assign(currency=None), "linear").startswith("3 conversions worth 60.")


def test_values_spend_and_returns_stand_beside_conversions():
    assert summary(CREDITS, "linear").to_dict("list") == {
        "node": ["Ads", "Mail", "Radio", "unattributed"],
        "conversions": ["3.0", "1.0", "0.0", "1.0"],
        "share": ["60.0%", "20.0%", "0.0%", "20.0%"],
        "value (EUR)": ["60", "", "0", "1,500"],
        "value (USD)": ["", "10", "", ""],
        "spend (EUR)": ["20", "", "5", ""],
        "CPA (EUR)": ["6.67", "", "", ""],
        "ROAS (EUR)": ["3.00", "", "0.00", ""],
    }


def test_conversions_that_are_only_counted_have_no_value():
    counts = CREDITS.assign(value=CREDITS["conversions"], currency=None).drop(columns=["spend", "roas"])
    assert summary(counts, "linear").columns.tolist() == ["node", "conversions", "share"]


@pytest.mark.slow
def test_its_contents_lead_to_its_sections(tmp_path):
    rows = pd.DataFrame({"path": ["a > b", "b"], "n": [3, 2], "worth": [30.0, 50.0]})
    paths = Paths.from_sequences(rows, path="path", conversions="n", value="worth")
    credits = attribute(paths, ["first_touch", "linear"])
    page = write_report(tmp_path, credits, paths, title="A & B").page.read_text(encoding="utf-8")
    linked = re.findall(r'<li><a href="#([\w-]+)">([^<]+)</a></li>', page)
    headed = re.findall(r'<section id="([\w-]+)"><h2>([^<]+)</h2>', page)
    assert linked == headed
    assert linked[0][1] == "Conversions and value by node under linear"
    text = "5 conversions worth 80. b has the most credit under linear: 3.5 (70 %)."
    assert f'<p class="headline">{text}</p>' in page
    assert page.index("headline") < page.index("<nav") < page.index("<section")


def test_a_report_without_conversions_says_so(tmp_path):
    rows = pd.DataFrame({"path": ["a"], "n": [0], "lost": [3]})
    paths = Paths.from_sequences(rows, path="path", conversions="n", nulls="lost")
    credits = attribute(paths, "linear")
    page = write_report(tmp_path, credits[:0], paths, title="Quiet").page.read_text(encoding="utf-8")
    assert "No conversions." in page
    assert "<nav" not in page
