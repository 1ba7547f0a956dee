"""Sheets of Excel files: chosen by name, and named in errors."""

from zipfile import ZipFile

import pandas as pd
import pytest

import attrib_ds as at
from attrib_ds.commands.cli import main
from attrib_ds.errors import InputWarning, InvalidRequest

VISITS = pd.DataFrame({"user": ["u"], "channel": ["Ads"], "date": ["2025-01-01"]})
ORDERS = pd.DataFrame({"order_id": [1], "user": ["u"], "order_date": ["2025-01-02"], "value": [30.0]})
SPEND = pd.DataFrame({"channel": ["Ads"], "spend": [10.0]})
NOTES = pd.DataFrame({"note": ["numbers of January"]})


@pytest.fixture(scope="module")
def book(tmp_path_factory):
    file = tmp_path_factory.mktemp("books") / "january.xlsx"
    sheets = {"Notes": NOTES, "Visits": VISITS, "Orders": ORDERS, "Empty": NOTES[[]], "Spend": SPEND}
    with pd.ExcelWriter(file) as writer:
        for name, frame in sheets.items():
            frame.to_excel(writer, sheet_name=name, index=False)
    return file


def test_sheets_are_chosen_by_name(book):
    journeys = at.read_journeys(book, book, reading=at.Reading(sheet="Visits", conversion_sheet="Orders"))
    assert at.attribute(journeys.paths(), "linear")["value"].tolist() == [30.0]


def test_the_title_of_a_sheet_may_leave_the_currency_open(tmp_path):
    file = tmp_path / "orders.xlsx"
    title = pd.DataFrame([["Sums are in CZK or EUR"], [None]])
    with pd.ExcelWriter(file) as writer:
        title.to_excel(writer, index=False, header=False)
        ORDERS.to_excel(writer, index=False, startrow=2)
    with pytest.raises(InvalidRequest, match="the text around the rows of orders.xlsx names several"):
        at.read_journeys(VISITS, file)


def test_the_command_takes_sheets(book, capsys):
    files = [f"--{name}={book}" for name in ("touchpoints", "conversions", "spend")]
    sheets = ["--sheet", "Visits", "--conversion-sheet", "Orders", "--spend-sheet", "Spend"]
    assert main(["attribute", *files, *sheets, "--models", "linear", "--currency", "EUR"]) == 0
    assert "3.00" in capsys.readouterr().out.split("Return on ad spend")[-1]


def test_an_unknown_sheet_is_named_with_those_that_exist(book):
    expected = (
        r"sheet: 'january.xlsx' has no sheet 'Visit' \(did you mean 'Visits'\?\); "
        "sheets: Notes, Visits, Orders, Empty, Spend"
    )
    with pytest.raises(InvalidRequest, match=expected):
        at.read_journeys(book, ORDERS, reading=at.Reading(sheet="Visit"))


def test_a_sheet_without_columns_that_fit_names_one_that_has_them(book):
    with pytest.raises(
        InvalidRequest, match="the sheet 'Visits' has columns that fit: pass reading=Reading.sheet='Visits'.$"
    ):
        at.read_journeys(book, ORDERS)
    expected = "the sheets 'Visits', 'Orders' have columns that fit: pass reading=Reading.conversion_sheet='Visits'.$"
    with pytest.raises(InvalidRequest, match=expected):
        at.read_journeys(VISITS, book)


def test_an_empty_sheet_is_named(book):
    with pytest.raises(InvalidRequest, match="the sheet 'Empty' of 'january.xlsx' is empty; sheets: Notes, "):
        at.read_journeys(book, ORDERS, reading=at.Reading(sheet="Empty"))


def test_only_workbooks_have_sheets(tmp_path):
    VISITS.to_csv(tmp_path / "visits.csv", index=False)
    for touchpoints, name in ((VISITS, "touchpoints"), (tmp_path / "visits.csv", "'visits.csv'")):
        with pytest.raises(InvalidRequest, match=f"sheet: {name} is not a workbook"):
            at.read_journeys(touchpoints, ORDERS, reading=at.Reading(sheet="Visits"))


def test_one_sheet_is_not_read_as_both_tables(book, tmp_path):
    expected = (
        "conversion_sheet: touchpoints and conversions are both the sheet 'Visits' of 'january.xlsx'; pass "
        "another one; sheets: Notes, Visits, Orders, Empty, Spend"
    )
    with pytest.raises(InvalidRequest, match=expected):
        at.read_journeys(book, book, reading=at.Reading(sheet="Visits", conversion_sheet="Visits"))
    with pd.ExcelWriter(tmp_path / "two.xlsx") as writer:
        VISITS.to_excel(writer, sheet_name="Visits", index=False)
        ORDERS.to_excel(writer, sheet_name="Orders", index=False)
    with pytest.warns(InputWarning, match="touchpoints are the sheet 'Visits', the conversions 'Orders'"):
        journeys = at.read_journeys(tmp_path / "two.xlsx", str(tmp_path / "two.xlsx"))
    assert len(journeys.events) == len(ORDERS)


@pytest.mark.parametrize("part", ["[Content_Types].xml", "xl/workbook.xml", "xl/worksheets/sheet2.xml"])
def test_a_damaged_workbook_is_named(book, tmp_path, part):
    with ZipFile(book) as whole, ZipFile(tmp_path / "damaged.xlsx", "w") as damaged:
        for name in whole.namelist():
            damaged.writestr(name, b"<cut" if name == part else whole.read(name))
    with pytest.raises(InvalidRequest, match="touchpoints: 'damaged.xlsx' is not a workbook: "):
        at.read_journeys(tmp_path / "damaged.xlsx", ORDERS, reading=at.Reading(sheet="Visits"))


@pytest.mark.filterwarnings("ignore:orders.xlsx has 1 conversion without a user")
def test_cells_of_text_stay_text(tmp_path):
    """Ids above 2^53 beside an empty cell, and zeros before an id, which numbers lose."""
    file = tmp_path / "orders.xlsx"
    people = ["1746438084460688362", "1746438084460688363", "007", None]
    visits = pd.DataFrame({"user": people[:3], "channel": ["a", "b", "c"], "date": "2025-01-01"})
    orders = pd.DataFrame(
        {"order_id": ["1", "2", "3", "4"], "user": people, "date": "2025-01-02", "value": 1.0}
    )
    orders.to_excel(file, index=False)
    credits = at.attribute(at.read_journeys(visits, file).paths(), "linear")
    assert credits.groupby("node_id")["conversions"].sum().to_dict() == {"a": 1.0, "b": 1.0, "c": 1.0}
