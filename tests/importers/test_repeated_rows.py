"""Rows of conversions that repeat another one exactly."""

import warnings

import pandas as pd
import pytest

import attrib_ds as at
from attrib_ds.commands.cli import main
from attrib_ds.errors import InputWarning

VISITS = pd.DataFrame({"user": ["u", "u"], "channel": ["Ads", "Ads"], "date": ["2025-01-01"] * 2})
ORDERS = pd.DataFrame(
    {"user": ["u", "u", "v"], "date": ["2025-01-02"] * 3, "value": [5.0, 5.0, 5.0], "note": ["a", "b", "a"]}
)


def test_an_export_pasted_twice_is_warned_of(tmp_path, capsys):
    pasted = pd.concat([ORDERS, ORDERS])
    expected = (
        "conversions has 3 rows without an id that repeat another one exactly, and counts each of them.*"
        r"drop them.*columns=\{'conversion': COLUMN\}"
    )
    with pytest.warns(InputWarning, match=expected):
        journeys = at.read_journeys(VISITS, pasted)
    assert len(journeys.events) == 6
    VISITS.to_csv(tmp_path / "visits.csv", index=False)
    pasted.to_csv(tmp_path / "orders.csv", index=False)
    files = ["--touchpoints", str(tmp_path / "visits.csv"), "--conversions", str(tmp_path / "orders.csv")]
    assert main(["attribute", *files, "--models", "linear"]) == 0
    assert "orders.csv has 3 rows without an id that repeat" in capsys.readouterr().err


@pytest.mark.filterwarnings("ignore:visits.csv. 1 repeated header left out")
def test_a_header_between_two_copies_does_not_hide_them(tmp_path):
    lines = [f"{user},{channel},2025-01-01\n" for user in "uvw" for channel in ("Ads", "Search")]
    visits = tmp_path / "visits.csv"
    visits.write_text("".join(["user,channel,date\n", *lines] * 2))
    with pytest.warns(InputWarning, match="every row of visits.csv occurs 2 times or more"):
        at.read_journeys(visits, ORDERS)
    # The second copy was made later.
    visits.write_text("".join(["user,channel,date\n", *lines, *lines, "x,Ads,2025-01-02\n"]))
    with pytest.warns(InputWarning, match="every row of visits.csv but 1 occurs 2 times or more"):
        at.read_journeys(visits, ORDERS)
    visits.write_text("".join(["user,channel,date\n", *lines, *lines[:5]]))
    with warnings.catch_warnings():
        warnings.simplefilter("error", InputWarning)
        at.read_journeys(visits, ORDERS)


def test_a_flagged_log_counts_its_conversions_only():
    log = pd.concat([VISITS, VISITS.head(1)]).assign(converted=[0, 0, 1])
    with warnings.catch_warnings():
        warnings.simplefilter("error", InputWarning)
        at.read_journeys(log)
    with pytest.warns(InputWarning, match="has 1 row without an id that repeats"):
        at.read_journeys(pd.concat([log, log.tail(1)]))


def test_rows_that_differ_in_any_column_or_have_an_id_are_no_repetitions():
    with warnings.catch_warnings():
        warnings.simplefilter("error", InputWarning)
        at.read_journeys(VISITS, ORDERS)
        at.read_journeys(VISITS, ORDERS.drop(columns="note").assign(order_id=[1, 2, 3]))


def test_rejected_rows_are_not_said_to_count():
    orders = pd.concat([ORDERS, pd.DataFrame({"user": ["v", "v"], "date": ["soon"] * 2, "value": [5.0] * 2})])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", InputWarning)
        assert len(at.read_journeys(VISITS, orders).events) == 3


def test_repeated_lines_that_are_added_up_are_counted():
    lines = pd.concat([ORDERS, ORDERS.head(1)]).assign(order_id=[1, 1, 2, 1])
    expected = "conversions has 1 row that repeats another one exactly, which is added up too"
    with pytest.warns(InputWarning, match=expected):
        journeys = at.read_journeys(VISITS, lines, reading=at.Reading(aggregate=True))
    assert journeys.events["statistics.revenue"].tolist() == [15.0, 5.0]
    with warnings.catch_warnings():
        warnings.simplefilter("error", InputWarning)
        at.read_journeys(
            VISITS, lines.head(3).assign(value=[1.0, 2.0, 3.0]), reading=at.Reading(aggregate=True)
        )
