"""Users as files, from Python and from the command."""

import csv
import gc
import json
from contextlib import closing

import openpyxl
import pytest
from conftest import hexadecimal
from support.limited_files import full_disk

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
