"""Results become workbooks that open without errors, and say what they said."""

from datetime import UTC, datetime, timedelta, timezone

import openpyxl
import pandas as pd
import pytest

import attrib_ds as at


def cells(path):
    book = openpyxl.load_workbook(path)
    return {sheet.title: [[cell.value for cell in row] for row in sheet.iter_rows()] for sheet in book}


def test_instants_with_a_zone_are_written_in_utc(tmp_path):
    midnight = pd.Timestamp("2025-01-31", tz="Europe/Paris")
    frame = pd.DataFrame(
        {
            "start": [midnight],
            "mixed": pd.Series([datetime(2025, 1, 1, tzinfo=timezone(timedelta(hours=2)))], dtype=object),
        }
    )
    at.to_excel(frame, tmp_path / "times.xlsx")
    expected = [["start", "mixed"], [datetime(2025, 1, 30, 23), datetime(2024, 12, 31, 22)]]
    assert cells(tmp_path / "times.xlsx") == {"Sheet1": expected}
    assert frame["start"].dt.tz is not None
    assert frame["mixed"][0].tzinfo is not UTC


def test_text_stays_text(tmp_path):
    texts = ["=1+1", "+1", "@x", "https://example.com", "007", None]
    at.to_excel({"Names": pd.DataFrame({"=name": texts})}, tmp_path / "names.xlsx")
    sheet = openpyxl.load_workbook(tmp_path / "names.xlsx")["Names"]
    assert [sheet.cell(row, 1).value for row in range(1, 8)] == ["=name", *texts]
    assert {sheet.cell(row, 1).data_type for row in range(1, 7)} == {"s"}
    assert sheet.freeze_panes == "A2"


def test_an_index_with_a_meaning_and_levels_of_columns_become_plain_columns(tmp_path):
    rows = pd.DataFrame(
        {"week": ["2025-W01", "2025-W01"], "node": ["Ads", "Mail"], "roas": [2.0, None], "value": [4.0, 1.0]}
    )
    table = rows.pivot(index="week", columns="node", values=["roas", "value"])
    zoned = pd.DataFrame({"n": [1]}, index=pd.DatetimeIndex(["2025-01-01"], tz="Europe/Paris"))
    at.to_excel(
        {"Table": table, "Zoned": zoned, "Twice": pd.DataFrame([[1, 2]], columns=["a", "a"])},
        tmp_path / "t.xlsx",
    )
    assert cells(tmp_path / "t.xlsx") == {
        "Table": [
            ["week", "roas Ads", "roas Mail", "value Ads", "value Mail"],
            ["2025-W01", 2.0, None, 4.0, 1.0],
        ],
        "Zoned": [["index", "n"], [datetime(2024, 12, 31, 23), 1]],
        "Twice": [["a", "a"], [1, 2]],
    }


def test_missing_and_infinite_numbers(tmp_path):
    frame = pd.DataFrame({"count": pd.array([1, None], dtype="Int64"), "cpa": [float("inf"), float("nan")]})
    path = at.to_excel(frame, str(tmp_path / "numbers.XLSX"))
    assert path == tmp_path / "numbers.XLSX"
    assert cells(path)["Sheet1"][1:] == [[1, "inf"]]


@pytest.mark.parametrize(
    ("frames", "name", "message"),
    [
        ({}, "a.xlsx", "frames: is empty; allowed: one DataFrame or more"),
        ([pd.DataFrame()], "a.xlsx", "frames: must be a DataFrame, got list"),
        ({"a": [1]}, "a.xlsx", "frames\\['a'\\]: must be a DataFrame, got list"),
        ({"a/b": pd.DataFrame()}, "a.xlsx", "frames: a sheet cannot have the name 'a/b'"),
        ({"x" * 32: pd.DataFrame()}, "a.xlsx", "allowed: 1 to 31 characters"),
        ({"a": pd.DataFrame(), "A": pd.DataFrame()}, "a.xlsx", "a sheet cannot have the name 'A'"),
        ({"'a": pd.DataFrame()}, "a.xlsx", "apostrophes at the ends"),
        (pd.DataFrame({"n": range(1_048_576)}), "a.xlsx", "has 1,048,576 rows and 1 columns; a sheet holds"),
        (pd.DataFrame(), "a.csv", "path: 'a.csv' must end in .xlsx"),
    ],
)
def test_what_no_workbook_can_hold_is_refused(tmp_path, monkeypatch, frames, name, message):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(at.errors.InvalidRequest, match=message):
        at.to_excel(frames, name)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_not_there_is_named(tmp_path):
    with pytest.raises(at.errors.Unavailable, match=r"path: .*nowhere.* cannot be written"):
        at.to_excel(pd.DataFrame({"n": [1]}), tmp_path / "nowhere" / "a.xlsx")
