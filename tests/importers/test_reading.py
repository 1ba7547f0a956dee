"""How files are understood is shown, can be changed, and is kept for the next files of the kind."""

import json
import warnings
from pathlib import Path

import pandas as pd
import pytest

import attrib_ds as at
from attrib_ds.commands.cli import main
from attrib_ds.errors import InvalidRequest

VISITS = "Kunde;Quelle;Datum;Notiz\nanna;google;24/03/2025;a b\nben;bing;01/04/2025;\n"
ORDERS = "Kunde;Bestellt am;Summe;Waehrung\nanna;03.04.2025;1.020,00;EUR\nanna;05.04.2025;30,00;EUR\n"
#: No day above 12: read alone, they are refused.
MAY = "Kunde;Quelle;Datum;Notiz\nanna;google;03/04/2025;a b\nben;bing;01/04/2025;\n"


@pytest.fixture
def files(tmp_path):
    for name, text in {"visits.csv": VISITS, "orders.csv": ORDERS, "may.csv": MAY}.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


def by_column(preview, file):
    return preview[preview["file"] == file].set_index("column")


def test_each_column_is_shown_with_its_role_and_what_shows_it(files):
    preview = at.preview_files(files / "visits.csv", files / "orders.csv")
    visits, orders = by_column(preview, "visits.csv"), by_column(preview, "orders.csv")
    assert visits["role"].to_dict() == {"Kunde": "user", "Quelle": "node", "Datum": "date", "Notiz": ""}
    assert orders["role"].to_dict() == {
        "Kunde": "user",
        "Bestellt am": "date",
        "Summe": "value",
        "Waehrung": "currency",
    }
    assert visits.loc["Datum", ["read_as", "evidence"]].tolist() == ["day first", "24/03/2025"]
    assert visits.loc["Datum", "before"] == "24/03/2025; 01/04/2025"
    assert visits.loc["Datum", "after"] == "2025-03-24 00:00:00 UTC; 2025-04-01 00:00:00 UTC"
    assert orders.loc["Bestellt am", ["read_as", "evidence"]].tolist() == ["day first", "written with dots"]
    assert orders.loc["Bestellt am", "alternative"] == "Reading(dayfirst={'conversions': False})"
    assert orders.loc["Summe", ["read_as", "evidence"]].tolist() == ["decimal comma", "1.020,00"]
    # A conversion of a day counts at its end.
    assert orders.loc["Bestellt am", "after"] == "2025-04-03 23:59:59 UTC; 2025-04-05 23:59:59 UTC"
    assert orders.loc["Summe", "after"] == "1020.0; 30.0"
    assert orders.loc["Waehrung", "evidence"] == "EUR"
    # Anna, the only one who bought, has visits.
    assert orders.loc["Kunde", "evidence"] == "100% of the people of the conversions have touchpoints"


def test_what_is_not_clear_is_a_row_with_the_readings_that_answer_it(files):
    preview = at.preview_files(files / "may.csv", files / "orders.csv")
    (doubt,) = preview[preview["read_as"] == "not clear"].to_dict("records")
    assert (doubt["file"], doubt["column"], doubt["role"]) == ("may.csv", "Datum", "date")
    assert "3 April 2025" in doubt["evidence"]
    assert "4 March 2025" in doubt["evidence"]
    # The dates of the orders are clear, and stay as they are.
    first, second = "Reading(dayfirst={'touchpoints': True})", "Reading(dayfirst={'touchpoints': False})"
    assert doubt["alternative"] == f"{first} or {second}"
    # The other file is shown as well.
    assert by_column(preview, "orders.csv").loc["Summe", "role"] == "value"
    chosen = at.preview_files(
        files / "may.csv", files / "orders.csv", reading=at.Reading(dayfirst={"touchpoints": False})
    )
    assert by_column(chosen, "may.csv").loc["Datum", "after"].startswith("2025-03-04")


def test_two_doubts_are_shown_at_once(files):
    (files / "dates.csv").write_text("Kunde;Bestellt am;Summe\nanna;03/04/2025;1.000\n", encoding="utf-8")
    preview = at.preview_files(files / "may.csv", files / "dates.csv")
    doubts = preview.loc[preview["read_as"] == "not clear", "evidence"]
    # The visits have the days of the first one, the orders those of the last one.
    found = [("dayfirst" in doubt, "decimal" in doubt) for doubt in doubts]
    assert found == [(True, False), (False, True), (True, False)]


@pytest.mark.filterwarnings("ignore:conversions. the date is order_date")
def test_another_column_is_named_that_may_have_the_role():
    clicks = pd.DataFrame({"user_id": ["u"], "channel": ["tv"], "date": ["2025-01-01"]})
    orders = pd.DataFrame(
        {"user_id": ["u"], "order_date": ["2025-01-03"], "invoice_date": ["2025-01-09"], "revenue": [3.5]}
    )
    preview = by_column(at.preview_files(clicks, orders), "conversions")
    other = preview.loc["order_date", "alternative"]
    assert other == "Reading(columns={'conversion_date': 'invoice_date'})"
    chosen = at.preview_files(clicks, orders, reading=at.Reading(columns={"conversion_date": "invoice_date"}))
    assert by_column(chosen, "conversions").loc["invoice_date", ["role", "evidence"]].tolist() == [
        "date",
        "as chosen",
    ]


def test_the_reading_that_was_found_reads_the_same_and_the_next_files(files):
    read = at.read_journeys(files / "visits.csv", files / "orders.csv")
    assert read.reading == at.preview_files(files / "visits.csv", files / "orders.csv").attrs["reading"]
    # Editors on Windows put a mark of the encoding before the text.
    kept = at.Reading.from_json("\ufeff" + read.reading.to_json())
    assert kept == read.reading
    again = at.read_journeys(files / "visits.csv", files / "orders.csv", reading=kept)
    pd.testing.assert_frame_equal(again.events, read.events)
    pd.testing.assert_frame_equal(again.interactions, read.interactions)
    with pytest.raises(InvalidRequest, match=r"pass reading=Reading\(dayfirst=True\)"):
        at.read_journeys(files / "may.csv", files / "orders.csv")
    may = at.read_journeys(files / "may.csv", files / "orders.csv", reading=kept)
    assert may.interactions["startDate"].dt.strftime("%d %B").tolist() == ["01 April", "03 April"]


def test_a_column_that_was_renamed_is_told_with_the_closest(files):
    kept = at.read_journeys(files / "visits.csv", files / "orders.csv").reading
    (files / "orders.csv").write_text(ORDERS.replace("Summe", "Summen"), encoding="utf-8")
    with pytest.raises(InvalidRequest, match=r"no column 'Summe' \(did you mean 'Summen'\?\)"):
        at.read_journeys(files / "visits.csv", files / "orders.csv", reading=kept)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"day_first": true}', "'day_first' is not allowed (did you mean 'dayfirst'?)"),
        ("{", "not JSON"),
        ("[]", "an object of JSON"),
        ('{"columns": {"kunde": "x"}}', "columns: 'kunde' is not allowed"),
        ('{"decimal": {"orders": ","}}', "decimal: 'orders' is not allowed"),
    ],
)
def test_what_is_no_reading_is_refused(text, message):
    with pytest.raises(InvalidRequest) as caught:
        at.Reading.from_json(text)
    assert message in str(caught.value)


def test_the_command_explains_keeps_and_uses_a_reading(files, capsys):
    paths = ["--touchpoints", str(files / "visits.csv"), "--conversions", str(files / "orders.csv")]
    assert main(["attribute", *paths, "--explain"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "  Datum = date: day first (24/03/2025)" in lines
    assert "  Bestellt am = date: day first (written with dots); or --no-dayfirst" in lines
    assert "      1.020,00; 30,00 -> 1020.0; 30.0" in lines
    assert main(["attribute", *paths, "--out", str(files / "report"), "--models", "linear"]) == 0
    kept = json.loads((files / "report" / "reading.json").read_text(encoding="utf-8"))
    assert kept["columns"]["value"] == "Summe"
    capsys.readouterr()
    paths[1] = str(files / "may.csv")
    assert main(["attribute", *paths, "--explain"]) == 1
    assert "pass --dayfirst or --no-dayfirst" in capsys.readouterr().out
    reading = ["--reading", str(files / "report" / "reading.json")]
    assert main(["attribute", *paths, *reading, "--models", "linear"]) == 0
    # Both orders, of 1,020 and 30, follow the click of 3 April.
    assert "1,050" in capsys.readouterr().out
    assert main(["attribute", *paths, "--reading", str(files / "none.json")]) != 0


def test_a_preview_of_two_months_of_page_views_tells_where_they_came_from():
    pages = pd.DataFrame(
        {
            "anonymous_id": ["a", "a"],
            "timestamp": ["2025-01-01T10:00:00Z", "2025-01-01T10:05:00Z"],
            "url": ["https://shop.example/?utm_source=bing&utm_medium=cpc", "https://shop.example/cart"],
            "referrer": ["https://www.bing.com/", "https://shop.example/"],
        }
    )
    orders = pd.DataFrame({"anonymous_id": ["a"], "date": ["2025-01-02T10:00:00Z"], "order_id": ["1"]})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        preview = at.preview_files(pages, orders)
        reading = preview.attrs["reading"]
        again = at.read_journeys(pages, orders, reading=reading)
    rows = by_column(preview, "touchpoints")
    assert rows["role"].to_dict() == {
        "anonymous_id": "user",
        "timestamp": "date",
        "url": "page",
        "referrer": "referrer",
        "": "",
    }
    assert rows.loc["", ["read_as", "evidence"]].tolist() == ["file", "1 visit from 2 page views"]
    assert again.interactions["nodeId"].tolist() == ["bing/cpc"]


def test_spend_is_shown_and_kept_with_the_rest(tmp_path):
    clicks = pd.DataFrame(
        {
            "email": ["a@x.example", "b@x.example"],
            "utm_source": "google",
            "utm_medium": "cpc",
            "utm_campaign": ["Spring", "Brand"],
            "date": ["2025-03-20T10:00:00Z", "2025-03-21T10:00:00Z"],
        }
    )
    orders = pd.DataFrame(
        {"email": ["a@x.example"], "date": ["2025-04-01"], "revenue": [90.0], "currency": ["EUR"]}
    )
    (tmp_path / "spend.csv").write_text(
        "Kampagne;Tag;Kosten (EUR)\nSpring;24.03.2025;1.040,00\nBrand;25.03.2025;2,50\n", encoding="utf-8"
    )
    preview = at.preview_files(clicks, orders, spend=tmp_path / "spend.csv")
    spend = by_column(preview, "spend.csv")
    assert spend["role"].to_dict() == {"Kampagne": "node", "Tag": "date", "Kosten (EUR)": "spend"}
    assert spend.loc["Kosten (EUR)", ["read_as", "evidence"]].tolist() == [
        "decimal comma",
        "1.040,00, currency EUR",
    ]
    reading = preview.attrs["reading"]
    assert reading.columns["spend_node"] == "Kampagne"
    assert reading.columns["spend"] == "Kosten (EUR)"
    # Read alone, these amounts may have three decimals.
    (tmp_path / "spend.csv").write_text(
        "Kampagne;Tag;Kosten (EUR)\nSpring;03.04.2025;1.000\n", encoding="utf-8"
    )
    with pytest.raises(InvalidRequest, match="may be in thousands"):
        at.read_journeys(clicks, orders, spend=tmp_path / "spend.csv")
    read = at.read_journeys(clicks, orders, spend=tmp_path / "spend.csv", reading=reading)
    assert read.spend[["node_id", "spend"]].to_numpy().tolist() == [["google/cpc/Spring", 1000.0]]


@pytest.mark.parametrize("name", ["shopify", "woocommerce", "stripe"])
def test_the_reading_of_a_known_export_reads_it_again(name):
    visits = pd.DataFrame(
        {
            "email": ["anna@example.com", "x@example.com"],
            "utm_source": ["google", "bing"],
            "visited": ["2024-12-01", "2024-12-24"],
        }
    )
    orders = Path(__file__).parent / "data" / "exports" / f"{name}.csv"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        read = at.read_journeys(visits, orders)
        again = at.read_journeys(visits, orders, reading=at.Reading.from_json(read.reading.to_json()))
    assert len(read.events)
    pd.testing.assert_frame_equal(again.events, read.events)
    pd.testing.assert_frame_equal(again.interactions, read.interactions)


def test_an_answer_for_one_file_leaves_the_other(files):
    (files / "american.csv").write_text("user,channel,date\nu,tv,03/25/2025\nu,mail,04/02/2025\n")
    (files / "open.csv").write_text("user,date,revenue\nu,05/04/2025,3.50\n")
    preview = at.preview_files(files / "american.csv", files / "open.csv")
    (doubt,) = preview[preview["read_as"] == "not clear"].to_dict("records")
    first, second = "Reading(dayfirst={'conversions': True})", "Reading(dayfirst={'conversions': False})"
    assert doubt["alternative"] == f"{first} or {second}"
    reading = at.Reading(dayfirst={"conversions": True})
    read = at.read_journeys(files / "american.csv", files / "open.csv", reading=reading)
    assert read.interactions["startDate"].dt.strftime("%d %B").tolist() == ["25 March", "02 April"]
    assert read.events["eventDate"].dt.strftime("%d %B").tolist() == ["05 April"]


@pytest.mark.parametrize(
    "written", ["2025-03-01T10:00:00", "2025-03-01 10:00:00", "2025-03-01T10:00:00.000Z"]
)
def test_an_instant_of_iso_8601_is_called_so(written):
    clicks = pd.DataFrame({"user": ["u"], "channel": ["tv"], "date": [written]})
    orders = pd.DataFrame({"user": ["u"], "date": ["2025-03-05"], "revenue": [5.0]})
    assert by_column(at.preview_files(clicks, orders), "touchpoints").loc["date", "read_as"] == (
        "year, month, day"
    )


def test_a_day_and_its_clock_are_told_apart():
    clicks = pd.DataFrame({"user": ["u"], "channel": ["tv"], "date": ["2025-03-01"], "time": ["10:00"]})
    orders = pd.DataFrame({"user": ["u"], "date": ["2025-03-05"], "time": ["15:00"], "revenue": [5.0]})
    preview = at.preview_files(clicks, orders)
    assert preview.loc[preview["column"] == "time", ["read_as", "alternative"]].to_numpy().tolist() == [
        ["time of day", ""],
        ["time of day", ""],
    ]
    assert set(preview.loc[preview["column"] == "date", "alternative"]) == {""}


def test_an_alternative_of_visits_leaves_the_date_of_conversions():
    clicks = pd.DataFrame(
        {"user_id": ["u"], "channel": ["tv"], "date": ["2025-01-01"], "started_at": ["2025-01-02"]}
    )
    orders = pd.DataFrame({"user_id": ["u"], "order_date": ["2025-01-03"], "revenue": [3.5]})
    other = by_column(at.preview_files(clicks, orders), "touchpoints").loc["date", "alternative"]
    columns = {"date": "started_at", "conversion_date": "order_date"}
    assert other == f"Reading(columns={columns})"
    read = at.read_journeys(clicks, orders, reading=at.Reading(columns=columns))
    assert read.interactions["startDate"].dt.day.tolist() == [2]


def test_the_flag_of_a_single_file_is_shown_and_kept():
    visits = pd.DataFrame(
        {
            "user": ["u", "u"],
            "channel": ["tv", "tv"],
            "date": ["2025-01-01", "2025-01-02"],
            "converted": [0, 1],
        }
    )
    preview = at.preview_files(visits)
    assert "flag" in set(preview.loc[preview["column"] == "converted", "role"])
    assert preview.attrs["reading"].columns["flag"] == "converted"


def test_a_page_that_tells_of_conversions_is_known_to_the_preview(capsys, tmp_path):
    pages = pd.DataFrame(
        {
            "user": ["a", "a"],
            "timestamp": ["2025-01-01T10:00:00Z", "2025-01-01T10:05:00Z"],
            "url": ["https://shop.example/?utm_source=bing&utm_medium=cpc", "https://shop.example/thanks"],
            "referrer": ["https://www.bing.com/", "https://shop.example/"],
        }
    )
    with pytest.warns(at.errors.InputWarning):
        preview = at.preview_files(pages, conversion_page="/thanks")
    assert "not clear" not in set(preview["read_as"])
    path = tmp_path / "pages.csv"
    pages.to_csv(path, index=False)
    command = ["attribute", "--touchpoints", str(path), "--conversion-page", "/thanks", "--explain"]
    assert main(command) == 0
    printed = capsys.readouterr()
    assert "?" not in [line.strip()[:1] for line in printed.out.splitlines()]
    assert "attrib-ds: pages.csv: 1 visit from 2 page views\n" in printed.err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dayfirst": "no"}, "dayfirst: 'no' is not allowed; allowed: True, False or None"),
        ({"dayfirst": {"conversions": "false"}}, "dayfirst: 'false' is not allowed"),
        ({"decimal": ";"}, "decimal: ';' is not allowed; allowed: '.' or ','"),
        ({"encoding": 5}, "encoding: 5 is not allowed"),
        ({"aggregate": "no"}, "aggregate: 'no' is not allowed; allowed: True or False"),
        ({"ignore_case": None}, "ignore_case: None is not allowed"),
        ({"sheet": 1}, "sheet: 1 is not allowed"),
        ({"columns": "user"}, "columns: 'user' is not allowed"),
        ({"columns": {"user": 3}}, "columns: {'user': 3} is not allowed"),
    ],
)
def test_what_says_nothing_about_files_is_refused_at_once(options, message):
    with pytest.raises(InvalidRequest) as caught:
        at.Reading(**options)
    assert message in str(caught.value)


@pytest.mark.parametrize("reading", [{"dayfirst": True}, "reading.json"])
@pytest.mark.parametrize("function", [at.read_journeys, at.preview_files])
def test_something_else_is_not_taken_for_a_reading(function, reading, files):
    with pytest.raises(InvalidRequest, match=r"reading: .* is not allowed; allowed: a Reading"):
        function(files / "visits.csv", files / "orders.csv", reading=reading)


@pytest.mark.filterwarnings("ignore::attrib_ds.errors.InputWarning")
def test_every_question_is_asked_first_with_all_answers():
    clicks = pd.DataFrame({"user": ["u"], "channel": ["tv"], "date": ["2025-03-01"]})
    orders = pd.DataFrame(
        {
            "user": ["u", "u"],
            "bestellt": ["03/04/2025", "05/04/2025"],
            "order_no": ["A", "B"],
            "x1": ["1.50", "2.50"],
            "x2": ["7.50", "8.50"],
            "status": ["paid", "cancelled"],
        }
    )
    preview = at.preview_files(clicks, orders)
    doubts = preview.iloc[:2]
    assert doubts["read_as"].tolist() == ["not clear", "not clear"]
    assert doubts["file"].tolist() == ["conversions", "conversions"]
    assert doubts["alternative"].tolist() == [
        "Reading(columns={'value': 'x1'}) or Reading(columns={'value': 'x2'})",
        "Reading(dayfirst={'conversions': True}) or Reading(dayfirst={'conversions': False})",
    ]
    # The columns that are clear are shown.
    rows = by_column(preview.iloc[2:], "conversions")
    assert rows.loc[["user", "order_no", "x1", "status"], "role"].tolist() == [
        "user",
        "conversion",
        "",
        "status",
    ]
    assert rows.loc["status", "evidence"] == "1 cancelled left out"
    assert rows.loc["order_no", "evidence"] == "2 different values"
    assert preview.attrs["reading"].columns.get("value") is None


def test_the_decimals_that_are_not_clear_name_their_file_and_column():
    clicks = pd.DataFrame({"user": ["u"], "channel": ["tv"], "date": ["2025-03-01"]})
    orders = pd.DataFrame({"user": ["u"], "date": ["2025-03-05"], "amount": ["1.500"]})
    doubt = at.preview_files(clicks, orders).iloc[0]
    assert doubt[["file", "column", "role"]].tolist() == ["conversions", "amount", "value"]


def test_a_missing_person_may_be_one_of_the_columns_and_a_renamed_one_the_closest(files):
    clicks = pd.DataFrame(
        {"wer": ["ann7", "bob8"], "channel": ["tv", "tv"], "date": ["2025-03-01", "2025-03-02"]}
    )
    orders = pd.DataFrame({"user": ["x"], "date": ["2025-03-05"], "revenue": [5.0]})
    doubt = at.preview_files(clicks, orders).iloc[0]
    assert doubt["alternative"].startswith("Reading(columns={'user': 'wer'})")
    kept = at.Reading(columns={"value": "Summe"})
    (files / "orders.csv").write_text(ORDERS.replace("Summe", "Summen"), encoding="utf-8")
    renamed = at.preview_files(files / "visits.csv", files / "orders.csv", reading=kept).iloc[0]
    assert renamed["alternative"] == "Reading(columns={'value': 'Summen'})"


@pytest.mark.filterwarnings("ignore::attrib_ds.errors.InputWarning")
def test_cents_and_prices_times_quantities_are_shown():
    clicks = pd.DataFrame({"user": ["u"], "channel": ["tv"], "date": ["2025-03-01"]})
    orders = pd.DataFrame({"user": ["u"], "date": ["2025-03-05"], "total_cents": ["1250"]})
    row = by_column(at.preview_files(clicks, orders), "conversions").loc["total_cents"]
    assert row[["evidence", "after"]].tolist() == ["divided by 100", "12.5"]
    orders = pd.DataFrame({"user": ["u"], "date": ["2025-03-05"], "price": [2.5], "quantity": [3]})
    row = by_column(at.preview_files(clicks, orders), "conversions").loc["price"]
    assert row[["read_as", "after"]].tolist() == ["number × quantity", "7.5"]


def test_columns_of_a_reading_without_their_file_are_told():
    clicks = pd.DataFrame({"user": ["u"], "channel": ["tv"], "date": ["2025-03-01"]})
    orders = pd.DataFrame({"user": ["u"], "date": ["2025-03-05"], "revenue": [5.0]})
    with pytest.warns(at.errors.InputWarning, match="names columns for spend, which no file has"):
        at.read_journeys(clicks, orders, reading=at.Reading(columns={"spend": "cost"}))
