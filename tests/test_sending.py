"""Rows sent one by one: what the service says of each, and what stops all."""

import numpy as np
import pandas as pd
import pytest

from attrib_ds.errors import Conflict, InvalidRequest, NotFound, ServiceFailure, Unavailable
from attrib_ds.sending import read_rows, send_rows


def outcomes(*answers):
    """Send one row per answer, an id or an error."""

    def send(row):
        if isinstance(row["answer"], Exception):
            raise row["answer"]
        return "created", row["answer"]

    rows = [{"answer": answer} for answer in answers]
    result = send_rows(pd.RangeIndex(len(rows)), rows, send)
    return [tuple(None if pd.isna(cell) else cell for cell in row) for row in result.itertuples(index=False)]


def test_a_refused_row_does_not_stop_the_others():
    assert outcomes("1", InvalidRequest("a"), NotFound("b"), Conflict("c"), "2") == [
        ("created", "1", None),
        ("rejected", None, "a"),
        ("rejected", None, "b"),
        ("rejected", None, "c"),
        ("created", "2", None),
    ]


def test_a_failing_service_stops_the_rest_and_what_was_sent_is_told():
    assert outcomes("1", InvalidRequest("a"), Unavailable("busy", request_id="r1"), "2", "3") == [
        ("created", "1", None),
        ("rejected", None, "a"),
        ("failed", None, "busy (request r1)"),
        ("unsent", None, None),
        ("unsent", None, None),
    ]


def test_a_failure_before_anything_was_sent_is_raised():
    with pytest.raises(ServiceFailure, match="broken"):
        outcomes(InvalidRequest("a"), ServiceFailure("broken"), "1")


def test_what_is_no_error_of_the_package_is_not_hidden():
    with pytest.raises(ZeroDivisionError):
        outcomes("1", ZeroDivisionError())


def test_cells_are_plain_values_and_missing_ones_are_left_out():
    frame = pd.DataFrame(
        {
            "date": ["x", None, pd.NaT, pd.NA],
            "n": [1.0, np.nan, 2.0, 3.0],
            "share": [0.5, 1.0, np.nan, np.inf],
            "o.flag": pd.array([True, None, False, True], dtype="boolean"),
            "o.list": [[1], [], None, np.nan],
        }
    )
    rows = read_rows(frame, required=["date", "n"], optional=["share"], objects=["o"])
    assert rows == [
        {"date": "x", "n": 1, "share": 0.5, "o": {"flag": True, "list": [1]}},
        {"share": 1.0, "o": {"list": []}},
        {"n": 2, "o": {"flag": False}},
        {"n": 3, "share": float("inf"), "o": {"flag": True}},
    ]
    kinds = [type(rows[0][name]) for name in ("n", "share")] + [type(rows[0]["o"]["flag"])]
    assert kinds == [int, float, bool]
