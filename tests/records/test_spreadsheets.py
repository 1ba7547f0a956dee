"""Text in spreadsheets stays text, whoever chose it."""

import io
from datetime import datetime
from zoneinfo import ZoneInfo

import openpyxl
import pandas as pd

from attrib_ds.records.written_files import csv_text, escaped, read_sheet, write_excel

PARIS = ZoneInfo("Europe/Paris")
FORMULAS = [
    *("=1+1", "+1+1", "-1+1", "@SUM(A1)", "\t=1", "\r=1", "\n=1", '=HYPERLINK("https://example.com","x")'),
    *(
        "\uff1d1+1",
        "\uff0b1+1",
        "\uff0d1+1",
        "\uff20SUM(A1)",
        "\uff0d1",
        "-\uff11",
        "\ufeff=1",
        "\ufeff\ufeff\t=1",
    ),
]
PLAIN = [
    "email",
    "",
    "1=1",
    " =1",
    "-3.5",
    "+4915112345678",
    "-1e-3",
    "+1",
    "\ufeffemail",
    "\ufeff-1",
    "\ufeff",
]


def test_formulas_get_an_apostrophe():
    for text in FORMULAS:
        assert escaped(text) == f"'{text}", text


def test_other_text_is_kept():
    for text in PLAIN:
        assert escaped(text) == text, text


def test_every_text_column_and_header_of_a_csv_is_escaped():
    for dtype in ["object", "str", "category"]:
        frame = pd.DataFrame({"=cmd": pd.Series(["=1+1", None], dtype=dtype), "share": [-0.5, None]})
        assert csv_text(frame) == "'=cmd,share\n'=1+1,-0.5\n,\n", dtype


def test_two_columns_of_one_name_are_both_escaped():
    frame = pd.DataFrame([["=1", "=2"]], columns=["name", "name"])
    assert csv_text(frame) == "name,name\n'=1,'=2\n"


def test_a_frame_with_an_index_of_its_own_is_not_changed():
    frame = pd.DataFrame({"name": ["=1"], "date": pd.to_datetime(["2025-01-02T03:04:05Z"])}, index=[7])
    before = frame.copy()
    assert csv_text(frame) == "name,date\n'=1,2025-01-02 03:04:05+00:00\n"
    pd.testing.assert_frame_equal(frame, before)


def test_workbooks_hold_text_as_text_and_instants_in_utc():
    frame = pd.DataFrame(
        {
            "name": ["=1+1", "https://example.com", "12"],
            "date": pd.to_datetime(["2025-01-02T03:04:05Z"] * 3).tz_convert("Europe/Paris"),
            # As rows of other programs have them; the name of a column may be a number.
            2025: pd.Series([datetime(2025, 1, 2, 4, 4, 5, tzinfo=PARIS), None, 1.5], dtype=object),
        }
    )
    file = io.BytesIO()
    write_excel({"credits": frame, "more": frame.head(0)}, file)
    book = openpyxl.load_workbook(file)
    assert book.sheetnames == ["credits", "more"]
    cells = [row[0] for row in book["credits"].iter_rows(min_row=2)]
    assert [(cell.value, cell.data_type, cell.hyperlink) for cell in cells] == [
        (text, "s", None) for text in frame["name"]
    ]
    assert book["credits"]["B2"].value == datetime(2025, 1, 2, 3, 4, 5)
    assert [book["credits"][f"C{row}"].value for row in (1, 2, 3, 4)] == [
        "2025",
        datetime(2025, 1, 2, 3, 4, 5),
        None,
        1.5,
    ]


def test_lines_of_a_title_above_the_header_are_left_out(tmp_path):
    book = openpyxl.Workbook()
    for line in (["Orders of May"], [], ["order", "mail", "value"], ["1", "anna@example.com", 10]):
        book.active.append(line)
    book.save(tmp_path / "orders.xlsx")
    rows = read_sheet(tmp_path / "orders.xlsx", argument="conversions")
    assert rows.astype(str).to_dict("records") == [{"order": "1", "mail": "anna@example.com", "value": "10"}]
