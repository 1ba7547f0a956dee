"""Users and interactions as files, and results as workbooks."""

import csv
import gc
import json
from contextlib import closing
from datetime import UTC, datetime, timedelta, timezone

import openpyxl
import pandas as pd
import pytest
from conftest import hexadecimal
from support.limited_files import full_disk

import attrib_ds as at
from attrib_ds import connect, export_users, load, search_users, user
from attrib_ds.commands.cli import main
from attrib_ds.contract import Answer, File
from attrib_ds.errors import InvalidRequest, NotFound, ServiceFailure, Unavailable
from attrib_ds.project import Project
from attrib_ds.service import Service

ANNA, BEN, CARL = (hexadecimal(number) for number in (10, 11, 12))


def lines(file):
    with file.open(encoding="utf-8", newline="") as text:
        return list(csv.reader(text))


@pytest.mark.slow
def test_a_csv_file_of_users(shop, tmp_path):
    written = export_users(
        shop,
        tmp_path / "users.csv",
        columns=["_id", "eventCount", "metrics.turnover.sum"],
        where=user("eventCount") >= 1,
    )
    assert written == tmp_path / "users.csv"
    # Anna ordered for 90 and left a lead, Ben ordered for 40, Carl for 20.
    assert lines(written) == [
        ["_id", "eventCount", "metrics.turnover.sum"],
        [ANNA, "2", "90.0"],
        [BEN, "1", "40.0"],
        [CARL, "1", "20.0"],
    ]
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["users.csv"]


def test_an_xlsx_file_of_users(shop, tmp_path):
    written = export_users(
        shop,
        str(tmp_path / "Users.XLSX"),
        columns=["firstEventDate", "_id"],
        transformers=[{"type": "case", "key": "_id", "level": "upper"}],
        where=user("eventCount") > 1,
    )
    rows = [list(row) for row in openpyxl.load_workbook(written).active.values]
    assert [row[1] for row in rows] == ["_id", ANNA.upper()]
    assert rows[1][0].isoformat() == "2025-01-06T10:00:00"


def test_rows_are_those_of_the_search(shop, tmp_path):
    found = search_users(shop, columns=["_id"], where=user("interactionCount") >= 1)
    written = export_users(shop, tmp_path / "u.csv", columns=["_id"], where=user("interactionCount") >= 1)
    assert [row[0] for row in lines(written)[1:]] == found["_id"].tolist() != []


def test_the_format_may_be_named(shop, tmp_path):
    assert lines(export_users(shop, tmp_path / "users.txt", columns=["_id"], format="csv"))[0] == ["_id"]
    with pytest.raises(
        InvalidRequest, match=r"^format: the name 'users.txt' does not end with .csv, .xlsx or .parquet"
    ):
        export_users(shop, tmp_path / "users.txt", columns=["_id"])
    with pytest.raises(InvalidRequest, match="is not the name of a file"):
        export_users(shop, "/", columns=["_id"])
    with pytest.raises(InvalidRequest, match="^columns"):
        export_users(shop, tmp_path / "u.csv", columns=[])
    with pytest.raises(NotFound):
        export_users(shop, tmp_path / "u.csv", columns=["_id"], audience=hexadecimal(99))


class _BreaksOff(Service):
    """A service whose files break off, as when a connection does."""

    def send(self, operation, request):
        answer = super().send(operation, request)

        def pieces():
            yield next(answer.value.pieces)
            raise ServiceFailure("the connection broke off")

        return Answer(value=File(pieces(), answer.value.close))


def test_what_breaks_off_leaves_nothing(tmp_path):
    file = tmp_path / "users.csv"
    file.write_text("of yesterday", encoding="utf-8")
    with closing(_BreaksOff.open("my-shop", ":memory:")) as service, pytest.raises(ServiceFailure):
        export_users(Project("my-shop", service), file, columns=["_id"])
    assert file.read_text(encoding="utf-8") == "of yesterday"
    assert list(tmp_path.iterdir()) == [file]


def test_a_folder_that_is_not_there(shop, tmp_path):
    with pytest.raises(InvalidRequest, match=r"path: the folder '.*nowhere' does not exist"):
        export_users(shop, tmp_path / "nowhere" / "users.csv", columns=["_id"])


@pytest.mark.large
@pytest.mark.slow
@pytest.mark.parametrize("ending", ["csv", "xlsx"])
# The zip file inside a failed XLSX file cannot be closed.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_full_disk_leaves_the_file_of_yesterday(shop, tmp_path, ending):
    file = tmp_path / f"users.{ending}"
    file.write_text("of yesterday", encoding="utf-8")
    with full_disk(room=0), pytest.raises(Unavailable, match="cannot be written: File too large"):
        export_users(shop, file, columns=["_id"])
    gc.collect()
    assert file.read_text(encoding="utf-8") == "of yesterday"
    assert list(tmp_path.iterdir()) == [file]


@pytest.fixture
def own_shop(own_home):
    visits = {"userId": [ANNA, BEN], "nodeId": ["ads", "ads"], "startDate": ["2025-01-01T00:00:00Z"] * 2}
    import pandas as pd

    with connect("my-shop") as project:
        load(project, interactions=pd.DataFrame(visits))
    return "my-shop"


def test_the_command_writes_files(own_shop, tmp_path, capsys):
    file = tmp_path / "users.csv"
    where = {"type": "fields", "field": "_id", "operator": "equals", "operatorType": "string", "value": BEN}
    where |= {
        "type": "counters",
        "field": "interactionCount",
        "operator": "equals",
        "operatorType": "number",
        "value": 1,
    }
    upper = {"type": "case", "key": "_id", "level": "upper"}
    arguments = ["export", own_shop, str(file), "--columns", "_id, interactionCount", "--delimiter", ";"]
    assert main([*arguments, "--where", json.dumps(where), "--transform", json.dumps(upper)]) == 0
    assert capsys.readouterr().out == f"Wrote {file}\n"
    expected = f"_id;interactionCount\r\n{ANNA.upper()};1\r\n{BEN.upper()};1\r\n"
    assert file.read_bytes() == expected.encode()
    assert main(["export", own_shop, str(tmp_path / "users.xlsx"), "--columns", "_id"]) == 0
    assert [row[0] for row in openpyxl.load_workbook(tmp_path / "users.xlsx").active.values] == [
        "_id",
        ANNA,
        BEN,
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--columns", "_idd"], "columns/0"),
        (["--columns", "_id", "--where", "{"], "--where"),
        (["--columns", "_id", "--where", '{"type": "x"}'], "type"),
        (["--columns", "_id", "--transform", "[]"], "transformers/0"),
    ],
)
def test_failures_of_the_command(own_shop, tmp_path, capsys, arguments, message):
    assert main(["export", own_shop, str(tmp_path / "u.csv"), *arguments]) == 1
    told = capsys.readouterr()
    assert told.err.startswith("attrib-ds: ")
    assert told.err.count("\n") == 1
    assert message in told.err
    assert not (tmp_path / "u.csv").exists()


def test_the_command_makes_no_project(own_home, tmp_path, capsys):
    assert main(["export", "my-shop", str(tmp_path / "u.csv"), "--columns", "_id"]) == 1
    assert "there is no project 'my-shop'" in capsys.readouterr().err


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
    # Workbooks have no infinity.
    assert cells(path)["Sheet1"][1:] == [[1, None]]


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
