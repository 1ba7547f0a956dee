"""Exporting users (R256 to R262)."""

import csv
import io
import zipfile
from xml.etree import ElementTree

import pytest
from conformance.shop import hex_id, table, uuid

USERS = [hex_id(0x20 + number) for number in range(3)]
COLUMNS = ["_id", "fields.firstName", "eventTypesCount.order", "metrics.turnover.sum", "firstEventDate"]
REQUIRED = ["filename", "exporterDataConfig", "outputFormatConfig", "transformerConfig"]
_CELL = "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}"


@pytest.fixture(scope="module")
def records():
    """Three users, with one, two and three orders of 10 each."""
    events = [
        {
            "_id": uuid(10 * number + index),
            "userId": user,
            "eventType": "order",
            "eventDate": f"2025-01-0{1 + number}T10:20:30Z",
            "user.firstName": name,
            "statistics.turnover.amount": 10.0,
            "statistics.turnover.currency": "EUR",
        }
        for number, (user, name) in enumerate(zip(USERS, ["Anna", 'Ben, "B"', "=1+1"], strict=True))
        for index in range(number + 1)
    ]
    return {"events": table(*events)}


def body_of(columns=COLUMNS, kind="csv", **parts):
    data = {"columns": list(columns), **parts.pop("data", {})}
    usual = {
        "filename": "our users",
        "exporterDataConfig": data,
        "outputFormatConfig": {"type": kind},
        "transformerConfig": [],
    }
    return {name: value for name, value in {**usual, **parts}.items() if value is not ...}


def ask(project, *columns, **parts):
    return project.send("export_users", body=body_of(columns or COLUMNS, **parts))


def rows(project, *columns, **parts):
    """Return the rows of a CSV file, of which the first is the header."""
    return list(csv.reader(io.StringIO(ask(project, *columns, **parts).ok().decode(), newline="")))


def test_r262_an_unknown_audience_is_not_found(service):
    """G-231: as for a search."""
    assert ask(service, data={"audience": hex_id(0x99)}).status == 404
    unknown = {"type": "audience", "operator": "in", "value": [hex_id(0x99)]}
    assert ask(service, data={"audience": unknown}).status == 404


def test_r256_four_members_are_required(service):
    for missing in REQUIRED:
        assert ask(service, **{missing: ...}).status == 400, missing
        assert ask(service, **{missing: None}).status == 400, missing


def test_r256_transformers_are_optional(service):
    assert ask(service, transformerConfig=[]).status == 200


def test_r256_the_file_needs_a_name(service):
    for filename in ["", "a/b", "a\\b", "x" * 129, "a\nb", 5]:
        assert ask(service, filename=filename).status == 400, filename


def test_r257_the_answer_is_a_csv_file(service):
    reply = ask(service)
    assert reply.headers["Content-Type"].startswith("text/csv")
    assert "our users.csv" in reply.headers["Content-Disposition"]
    assert reply.body.startswith(",".join(COLUMNS).encode() + b"\r\n")


def test_r257_the_answer_is_a_workbook(service):
    for kind in ["xlsx", "XLSX"]:
        reply = ask(service, kind=kind)
        assert "our users.xlsx" in reply.headers["Content-Disposition"], kind
        with zipfile.ZipFile(io.BytesIO(reply.ok())) as archive:
            sheet = next(name for name in archive.namelist() if name.startswith("xl/worksheets/"))
            found = list(ElementTree.fromstring(archive.read(sheet)).iter(f"{_CELL}row"))
        cells = [["".join(cell.itertext()) for cell in row] for row in found]
        assert cells[0] == COLUMNS, kind
        shown = [
            (id, name, int(float(orders)), float(turnover)) for id, name, orders, turnover, _ in cells[1:]
        ]
        assert [(id, orders, turnover) for id, _, orders, turnover in shown] == [
            (USERS[0], 1, 10.0),
            (USERS[1], 2, 20.0),
            (USERS[2], 3, 30.0),
        ], kind
        assert [name for _, name, *_ in shown[:2]] == ["Anna", 'Ben, "B"'], kind


def test_r257_another_format_is_refused(service):
    for kind in ["pdf", "", "CSVX", None]:
        assert ask(service, kind=kind).status == 400, kind


def test_r258_an_unknown_column_is_refused(service):
    for key in ["nonsense", "fields.shoeSize", "metrics.turnover", "eventTypesCount.refund"]:
        assert ask(service, "_id", key).status == 400, key


def test_r258_columns_are_keys(service):
    columns = ["_id", "eventCount", "eventTypesCount.order", "lastEventDate", "metrics.turnover.sum"]
    found = rows(service, *columns)[1:]
    assert [record[:4] for record in found] == [
        [USERS[0], "1", "1", "2025-01-01T10:20:30.000Z"],
        [USERS[1], "2", "2", "2025-01-02T10:20:30.000Z"],
        [USERS[2], "3", "3", "2025-01-03T10:20:30.000Z"],
    ]
    assert [float(record[4]) for record in found] == [10, 20, 30]


MANY = {"type": "eventTypesCount", "field": "order", "operator": "greaterThan", "value": 1}
FEW = {"type": "counters", "field": "eventCount", "operator": "lessThan", "value": 3}


def test_r259_filters_and_an_audience_select_the_rows(service):
    assert rows(service, "_id", data={"filters": MANY})[1:] == [[USERS[1]], [USERS[2]]]
    assert rows(service, "_id", data={"filters": MANY, "audience": FEW})[1:] == [[USERS[1]]]
    audience = service.send("create_audience", body={"name": "Few", "condition": FEW}).ok()["_id"]
    assert rows(service, "_id", data={"audience": audience})[1:] == [[USERS[0]], [USERS[1]]]
    assert ask(service, data={"filters": {"type": "nonsense"}}).status == 400


def test_r260_a_transformer_has_type_key_and_level(service):
    for key, kind, level, expected in [
        ("firstEventDate", "date", "month", "2025-01"),
        ("firstEventDate", "date", "day", "2025-01-01"),
        ("metrics.turnover.sum", "number", 1, "10.0"),
        ("fields.firstName", "case", "upper", "ANNA"),
    ]:
        transformers = [{"type": kind, "key": key, "level": level}]
        ((_, value), *_) = rows(service, "_id", key, transformerConfig=transformers)[1:]
        assert value.startswith(expected), (key, kind)


def test_r260_another_transformer_is_refused(service):
    for wrong in [
        {"type": "rotate", "key": "_id", "level": 1},
        {"type": "date", "key": "lastEventDate", "level": "day"},
        {"type": "date", "key": "firstEventDate", "level": "fortnight"},
        {"type": "date", "level": "day"},
        {"key": "firstEventDate", "level": "day"},
        "date",
    ]:
        assert ask(service, transformerConfig=[wrong]).status == 400, wrong


def test_r261_the_rows_are_the_users_that_a_search_finds(service):
    for filters in [None, MANY, FEW]:
        page = service.send("search_users", body={"fields": [], "filters": filters}).ok()
        assert [id for (id,) in rows(service, "_id", data={"filters": filters})[1:]] == [
            record["_id"] for record in page["data"]
        ], filters


def test_r262_columns_are_in_the_given_order(service):
    for columns in [COLUMNS, COLUMNS[::-1], COLUMNS[2:] + COLUMNS[:2]]:
        header, first, *_ = rows(service, *columns)
        assert header == columns, columns
        values = dict(zip(header, first, strict=True))
        assert (values["_id"], values["fields.firstName"], values["eventTypesCount.order"]) == (
            USERS[0],
            "Anna",
            "1",
        ), columns
