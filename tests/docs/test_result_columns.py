"""The table of result columns is that of the schema, and columns of credits are those of results."""

import pandas as pd
import result_columns

import attrib_ds as at


def test_the_page_is_generated():
    text = result_columns.PAGE.read_text(encoding="utf-8")
    assert text == result_columns.written(), "run python tools/result_columns.py"


def test_dtypes_of_credits_are_as_listed():
    days = pd.to_datetime(["2025-01-01", "2025-01-02"], utc=True)
    touchpoints = pd.DataFrame({"user_id": ["a", "a"], "node_id": ["mail", "ads"], "date": days})
    orders = pd.DataFrame(
        {"event_id": ["1"], "user_id": ["a"], "date": days[1:], "value": [9.0], "currency": "EUR"}
    )
    spend = pd.DataFrame({"node_id": ["ads"], "spend": [3.0], "currency": ["EUR"], "date": ["2025-01-02"]})
    paths = at.Paths.from_frames(touchpoints, orders)
    frames = {
        "`attribute`": at.attribute(paths, "linear", confidence=0.95, spend=spend),
        "`credit_series`, besides those of `attribute`": at.credit_series(paths, "linear", interval="day"),
        "`Paths.roles`": paths.roles(),
    }
    for key, (table, dtype, *_) in result_columns.meanings().items():
        column = key.partition("/")[2].split(",")[0]
        if table in frames:
            assert str(frames[table][column].dtype) == dtype, key
