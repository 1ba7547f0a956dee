"""Exports of users: the rows, the cells, the two kinds of files."""

from __future__ import annotations

import csv
import gc
import hashlib
import io
import json
import sys
import tempfile
from contextlib import closing
from datetime import UTC, datetime
from decimal import Decimal
from functools import partial
from pathlib import Path

import openpyxl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.service_records import hex_id, order, send, table, visit
from support.sql_project import ANNA, BEN, CARL, DORA, fill

from attrib_ds.contract.users import OutputFormat, Transformer
from attrib_ds.errors import InvalidRequest, NotFound, NotSupported, Unavailable
from attrib_ds.filters import user
from attrib_ds.service import Service
from attrib_ds.service.users import exports
from attrib_ds.service.users.exports import cell_text, csv_pieces, transformation, write_xlsx


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    opened = Service.open("shop", tmp_path_factory.mktemp("exports") / "shop.duckdb")
    fill(opened)
    yield opened
    opened.close()


def exported(service, *columns, format="csv", transformers=(), **arguments):  # noqa: A002
    """Return the bytes of an export."""
    answer = send(
        service, "export_users", path="users", columns=list(columns), format=format, transformers=list(transformers),
        **arguments,
    )  # fmt: skip
    with closing(answer.value) as file:
        return b"".join(file.pieces)


def lines(content, **options):
    return list(csv.reader(io.StringIO(content.decode(), newline=""), **options))


def sheet(content):
    """Return the rows of the first sheet of an XLSX file."""
    return [list(row) for row in openpyxl.load_workbook(io.BytesIO(content)).active.values]


def test_csv_matches_counts_by_hand(service):
    columns = [
        "eventCount",
        "_id",
        "fields.email",
        "metrics.turnover.sum",
        "lastEventDate",
        "eventTypesCount.lead",
    ]
    content = exported(service, *columns)
    assert lines(content) == [  # R262, G-121
        columns,
        ["2", ANNA, "anna@example.org", "150.0", "2025-02-02T10:00:00.000Z", "0"],
        ["1", BEN, "ben@shop.example", "40.0", "2025-01-11T10:00:00.000Z", "0"],
        ["1", CARL, "", "", "2025-01-06T10:00:00.000Z", "1"],
        ["0", DORA, "", "", "", "0"],
    ]
    assert content.count(b"\r\n") == content.count(b"\n") == 5
    assert content.endswith(b"\r\n")


def test_xlsx_holds_the_same(service):
    columns = ["eventCount", "_id", "fields.email", "metrics.turnover.sum", "lastEventDate"]
    assert sheet(exported(service, *columns, format="XLSX")) == [
        columns,
        [2, ANNA, "anna@example.org", 150, datetime(2025, 2, 2, 10)],
        [1, BEN, "ben@shop.example", 40, datetime(2025, 1, 11, 10)],
        [1, CARL, None, None, datetime(2025, 1, 6, 10)],
        [0, DORA, None, None, None],
    ]


@pytest.mark.parametrize(
    "criteria",
    [
        {},
        {"where": user("eventCount") >= 1},
        {"where": user("fields.email").contains("example")},
        {"audience": {"type": "event", "eventType": "order", "operator": "greaterThanOrEquals", "value": 1}},
        {
            "where": user("eventCount") > 1,
            "audience": {"type": "interaction", "operator": "equals", "value": 2},
        },
        {"where": user("eventCount") > 99},
    ],
)
def test_r261_rows_are_the_users_that_a_search_returns(service, criteria):
    found = send(service, "search_users", fields=["_id", "interactionCount"], **criteria).read().to_pylist()
    expected = [
        ["_id", "interactionCount"],
        *([record["_id"], str(record["interactionCount"])] for record in found),
    ]
    assert lines(exported(service, "_id", "interactionCount", **criteria)) == expected
    assert sheet(exported(service, "_id", "interactionCount", format="xlsx", **criteria)) == [
        expected[0], *([row["_id"], row["interactionCount"]] for row in found)
    ]  # fmt: skip


def test_an_audience_selects_users_by_its_id(service):
    condition = {
        "type": "counters",
        "field": "eventCount",
        "operator": "equals",
        "operatorType": "number",
        "value": 2,
    }
    created = send(service, "create_audience", name="Twice", condition=condition)
    audience_id = created.value if isinstance(created.value, str) else created.read()["_id"][0].as_py()
    assert lines(exported(service, "_id", audience=audience_id)) == [["_id"], [ANNA]]
    assert lines(exported(service, "audienceIds", audience=audience_id)) == [["audienceIds"], [audience_id]]
    send(service, "delete_audience", id=audience_id)
    with pytest.raises(NotFound):
        exported(service, "_id", audience=audience_id)


def test_unknown_keys_are_refused_by_their_position(service):
    with pytest.raises(InvalidRequest) as refused:
        exported(service, "_id", "fields.emial")
    assert refused.value.field == "columns/1"
    assert "did you mean 'fields.email'" in refused.value.message


def test_objects_are_json_and_columns_may_repeat(service):
    (_, first, *_) = lines(
        exported(service, "eventTypesCount", "_id", "eventTypesCount", "mostProbableLocation")
    )
    assert json.loads(first[0]) == json.loads(first[2]) == {"order": 2}
    assert first[1] == ANNA
    place = json.loads(first[3]) if first[3] else {}
    assert place.get("source") in {None, "interaction-based"}


def test_delimiter_and_encoding(service):
    content = exported(service, "_id", "eventCount", delimiter=";", encoding="utf-8-bom")
    assert content.startswith(b"\xef\xbb\xbf_id;eventCount\r\n")
    assert not exported(service, "_id").startswith(b"\xef\xbb\xbf")


@pytest.mark.parametrize("key", ["eventCount", "fields.email", "metrics.turnover.sum", "vendorUserIds"])
def test_only_dates_are_truncated(service, key):
    """G-123."""
    changes = [{"type": "case", "key": key, "level": "upper"}, {"type": "date", "key": key, "level": "day"}]
    with pytest.raises(
        InvalidRequest, match=f"^transformers/1/key: '{key}' is not a date, .*firstEventDate, "
    ):
        exported(service, key, transformers=changes)


def test_a_field_of_dates_is_truncated(service):
    born = {"type": "date", "entity": "user", "storageKey": "born", "optional": True}
    send(service, "create_event_type", reference="birth", name="Birth", fields=[born])
    changes = [{"type": "date", "key": "fields.born", "level": "year"}]
    assert lines(exported(service, "fields.born", transformers=changes))[0] == ["fields.born"]


def test_transformers_are_applied_in_their_order(service):
    changes = [
        {"type": "date", "key": "lastEventDate", "level": "month"},
        {"type": "number", "key": "metrics.turnover.sum", "level": 2},
        {"type": "case", "key": "fields.email", "level": "upper"},
        {"type": "hash", "key": "fields.email"},
    ]
    columns = ["lastEventDate", "metrics.turnover.sum", "fields.email"]
    hashed = hashlib.sha256(b"ANNA@EXAMPLE.ORG").hexdigest()
    got = lines(exported(service, *columns, transformers=changes))
    assert got[1] == ["2025-02-01T00:00:00.000Z", "150.00", hashed]
    # What is missing stays missing.
    assert got[4] == ["", "", ""]
    other_way = lines(exported(service, "fields.email", transformers=[changes[3], changes[2]]))
    assert other_way[1] == [hashlib.sha256(b"anna@example.org").hexdigest().upper()]
    assert sheet(exported(service, *columns, transformers=changes, format="xlsx"))[1] == [
        datetime(2025, 2, 1), 150, hashed
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("level", "expected"),
    [
        # A Wednesday.
        ("year", (2025, 1, 1)), ("semester", (2025, 7, 1)), ("quarter", (2025, 10, 1)), ("month", (2025, 12, 1)),
        ("week", (2025, 12, 29)), ("day", (2025, 12, 31)), ("hour", (2025, 12, 31, 23)),
        ("minute", (2025, 12, 31, 23, 59)), ("second", (2025, 12, 31, 23, 59, 58)),
    ],
)  # fmt: skip
def test_dates_are_truncated_in_utc(level, expected):
    change = transformation(Transformer(type="date", key="createdAt", level=level))
    assert change(datetime(2025, 12, 31, 23, 59, 58, 999_999, tzinfo=UTC)) == datetime(*expected, tzinfo=UTC)


def test_halves_of_a_year_begin_in_january_and_july():
    semester = transformation(Transformer(type="date", key="createdAt", level="semester"))
    quarter = transformation(Transformer(type="date", key="createdAt", level="quarter"))
    months = [datetime(2025, month, 15, tzinfo=UTC) for month in range(1, 13)]
    assert [semester(item).month for item in months] == [1] * 6 + [7] * 6
    assert [quarter(value).month for value in months] == [1] * 3 + [4] * 3 + [7] * 3 + [10] * 3


@pytest.mark.parametrize(
    ("kind", "level", "cell", "expected"),
    [
        ("number", 0, 2.5, "3"), ("number", 0, -2.5, "-3"), ("number", 1, 0.25, "0.3"), ("number", 2, 7, "7.00"),
        ("number", 2, 1e300, f"{Decimal(repr(1e300)):f}.00"), ("number", 2, "1.005", "1.005"), ("number", 2, True, "true"),
        ("number", 2, float("inf"), "inf"), ("case", "upper", "straße", "STRASSE"), ("case", "lower", "ÆØÅ", "æøå"),
        ("case", "upper", 5, "5"), ("case", "upper", ["a", "b"], "A|B"), ("date", "day", "2025-01-31T10:00:00Z", "2025-01-31T10:00:00Z"),
        ("join", "; ", ["a", 1], "a; 1"), ("join", "; ", "a", "a"), ("join", "", ["a", "b"], "ab"),
        ("hash", None, "a", "ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb"), ("hash", None, None, ""),
    ],
)  # fmt: skip
def test_transformers(kind, level, cell, expected):
    key = "eventCount"
    assert cell_text(transformation(Transformer(type=kind, key=key, level=level))(cell)) == expected


RISKY = {
    "=1+1": "'=1+1", "+1+1": "'+1+1", "-1+1": "'-1+1", "@SUM(A1)": "'@SUM(A1)", "\tx": "'\tx", "\rx": "'\rx",
    "=": "'=", "-": "'-", "+": "'+", "+4712345678;x": "'+4712345678;x", "+47 12 34 56 78": "'+47 12 34 56 78",
    "-1e5x": "'-1e5x", "+012345": "+012345", "=HYPERLINK(\"https://x\")": "'=HYPERLINK(\"https://x\")",
    "+33612345678": "+33612345678", "-12.5": "-12.5", "+1e6": "+1e6", "-.5": "-.5", "12": "12", "a=1": "a=1",
    " =1": " =1", "": "", "+1234567890123456": "+1234567890123456", "-١": "'-١",
}  # fmt: skip


@pytest.mark.parametrize("text", RISKY)
def test_g122_text_that_a_spreadsheet_would_calculate(text):
    _, *rows = lines(b"".join(csv_pieces(["a", "b"], [[(text, 1)]], OutputFormat(type="csv"))))
    assert rows == [[RISKY[text], "1"]]
    as_it_is = OutputFormat(type="csv", sanitizeFormulas=False)
    assert lines(b"".join(csv_pieces(["a", "b"], [[(text, 1)]], as_it_is)))[1] == [text, "1"]


def test_lists_are_made_harmless_as_they_are_written():
    content = b"".join(csv_pieces(["a", "b"], [[(["=1", "x"], -1.5)]], OutputFormat(type="csv")))
    assert lines(content)[1] == ["'=1|x", "-1.5"]


@settings(max_examples=60)
@given(
    rows=st.lists(
        st.tuples(*[st.text(st.characters(exclude_categories=["Cs"]), max_size=8)] * 2), max_size=5
    ),
    delimiter=st.sampled_from([",", ";", "\t", "|"]),
)
def test_csv_reads_back_whatever_it_holds(rows, delimiter):
    form = OutputFormat(type="csv", delimiter=delimiter, sanitizeFormulas=False)
    content = b"".join(csv_pieces(["a", "b"], [rows], form))
    assert lines(content, delimiter=delimiter) == [["a", "b"], *map(list, rows)]


def test_empty_lines_differ_from_no_lines():
    content = b"".join(csv_pieces(["a"], [[(None,), ("x",)]], OutputFormat(type="csv")))
    assert content == b'a\r\n""\r\nx\r\n'


def test_xlsx_holds_text_as_text_and_numbers_as_numbers():
    cells = ["=1+1", "+47", "-1", "@x", "https://example.org", "007", "çay 💡", True, 1.5, 10**15, Decimal("2.50"),
             ["a", "b"], float("inf"), datetime(1850, 1, 2, tzinfo=UTC)]  # fmt: skip
    with closing(write_xlsx([f"c{number}" for number in range(len(cells))], [[cells]])) as file:
        workbook = openpyxl.load_workbook(io.BytesIO(file.read()))
    row = next(workbook.active.iter_rows(min_row=2))
    assert [cell.value for cell in row] == [
        *cells[:9], "1000000000000000", 2.5, "a|b", "inf", "1850-01-02T00:00:00.000Z"
    ]  # fmt: skip
    assert {cell.data_type for cell in row} == {"s", "b", "n"}


def test_xlsx_has_bounds_that_csv_has_not(service, monkeypatch):
    with pytest.raises(
        InvalidRequest, match=r"longer than the 32,767 characters of a cell; csv has no such limit"
    ):
        write_xlsx(["a"], [[("x" * 32_768,)]])
    write_xlsx(["a"], [[("x" * 32_767,)]]).close()
    with pytest.raises(InvalidRequest, match="1,048,576 users, more than the 1,048,575 rows"):
        exports.check_xlsx(1_048_576)
    exports.check_xlsx(1_048_575)
    monkeypatch.setattr(exports, "MOST_ROWS", 3)
    with pytest.raises(InvalidRequest, match="4 users, more than the 3 rows of a sheet; csv"):
        exported(service, "_id", format="xlsx")
    assert len(lines(exported(service, "_id"))) == 5


def test_a_missing_library_is_named(service, monkeypatch):
    monkeypatch.setitem(sys.modules, "xlsxwriter", None)
    with pytest.raises(NotSupported, match=r"pip install 'attrib-ds\[excel\]'"):
        exported(service, "_id", format="xlsx")
    assert exported(service, "_id").startswith(b"_id")


def test_nothing_is_left_of_an_xlsx_file_that_fails(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    def rows():
        yield [("a",)]
        raise OSError(28, "No space left on device")

    with pytest.raises(Unavailable, match="cannot be written: No space left on device"):
        write_xlsx(["a"], rows())
    write_xlsx(["a"], [[("a",)]]).close()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device that is always full")
# The zip file inside the workbook cannot be closed.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_workbook_that_stays_in_a_buffer_is_not_written(monkeypatch):
    """Closing a file writes what it buffers, and fails again."""
    monkeypatch.setattr(tempfile, "TemporaryFile", partial(open, "/dev/full", "r+b", 1_000_000))
    with pytest.raises(Unavailable, match="cannot be written: No space left on device"):
        write_xlsx(["a"], [[("a",)]])
    gc.collect()


def test_values_of_fields_are_the_current_ones(tmp_path):
    """The latest value stands for all (G-105); what a field holds keeps its kind."""

    def entry(kind, current, day):
        return {"type": kind, "raw": current, "current": current, "date": f"2025-01-{day:02}T00:00:00Z"}

    users = [
        {"age": entry("number", 41.5, 1), "tags": entry("string", ["a", "b"], 1),
         "born": entry("date", "2001-02-03T00:00:00+01:00", 1)},
        {"age": entry("number", 42.5, 2), "member": entry("boolean", True, 2),
         "home": entry("location", {"city": "Oslo"}, 2)},
    ]  # fmt: skip
    with closing(Service.open("shop", tmp_path / "shop.duckdb")) as service:
        events = [
            order(number, user=json.dumps(user), eventDate=f"2025-01-0{number}T00:00:00Z")
            for number, user in enumerate(users, 1)
        ]
        rejected = send(service, "load_records", resource="events", source=table(*events)).read()
        assert rejected.num_rows == 0, rejected.to_pylist()
        columns = ["fields.age", "fields.tags", "fields.born", "fields.member", "fields.home"]
        assert lines(exported(service, *columns))[1] == [
            "42.5", "a|b", "2001-02-02T23:00:00.000Z", "true", '{"city":"Oslo"}'
        ]  # fmt: skip
        assert sheet(exported(service, *columns, format="xlsx"))[1] == [
            42.5, "a|b", datetime(2001, 2, 2, 23), True, '{"city":"Oslo"}'
        ]  # fmt: skip


@pytest.mark.slow
def test_many_users_come_in_pieces(tmp_path):
    with closing(Service.open("shop", tmp_path / "shop.duckdb")) as service:
        visits = table(*(visit(number, userId=hex_id(number)) for number in range(1, 5_001)))
        send(service, "load_records", resource="interactions", source=visits)
        answer = send(service, "export_users", path="u", columns=["_id"], format="csv", transformers=[])
        with closing(answer.value) as file:
            pieces = list(file.pieces)
        assert len(pieces) > 2
        assert [row[0] for row in lines(b"".join(pieces))[1:]] == [
            hex_id(number) for number in range(1, 5_001)
        ]
        # A project that is closed while nobody reads lets go of its file.
        abandoned = send(service, "export_users", path="u", columns=["_id"], format="csv", transformers=[])
        next(abandoned.value.pieces)
        abandoned.value.close()
        abandoned.value.close()
    assert Path(tmp_path / "shop.duckdb").exists()
