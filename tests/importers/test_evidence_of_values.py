"""What values tell: constant columns, sums, prices of lines, calendars, signs by country, requests, archives."""

import gzip
import io
import json
from zipfile import ZipFile

import pandas as pd
import pytest
from support.own_files import read_files

from attrib_ds.errors import InvalidRequest
from attrib_ds.importers.content import evidence, rows
from attrib_ds.records import written_values

pytestmark = pytest.mark.filterwarnings("ignore::attrib_ds.errors.InputWarning")

PEOPLE = [f"{name}@x.example" for name in ("ann", "bob", "cleo", "dan", "eve")]
VISITS = pd.DataFrame(
    {"email": PEOPLE, "date": "2025-03-01 10:00:00", "channel": ["Search", "Mail"] * 2 + ["Mail"]}
)


def orders(**columns):
    frame = {"order_id": [f"R{at}" for at in range(5)], "email": PEOPLE, "order_date": "2025-03-02 08:00:00"}
    return pd.DataFrame(frame | columns)


def values_of(journeys):
    events = journeys.events
    column = next(each for each in ("statistics.revenue.amount", "statistics.revenue") if each in events)
    return dict(zip(events["event.sourceId"], events[column], strict=True))


def written(tmp_path, frame, name):
    frame.to_csv(tmp_path / name, index=False)
    return tmp_path / name


def test_the_address_of_a_host_in_every_row_is_not_the_person():
    """A calendar lists its own user beside the one who was invited."""
    booked = orders(total=[10.5] * 5).rename(columns={"email": "Invitee Email"})
    booked.insert(0, "User Email", "host@x.example")
    for files in ((VISITS, booked), (booked.assign(utm_source="google", utm_medium="cpc"),)):
        journeys = read_files(*files)
        assert journeys.columns["conversions"]["user"] == "Invitee Email"
        assert journeys.events["userId"].nunique() == 5


def test_a_node_that_is_the_same_in_all_rows_gives_way_to_publishers_and_answers():
    for column, answers in (("Affiliate", "ab"), ("How did you hear about us?", ["friend", "radio"])):
        found = [answers[at % 2] for at in range(5)]
        visits = VISITS.assign(channel="Partners").assign(**{column: found})
        journeys = read_files(visits, orders(total=[10.5] * 5))
        assert journeys.columns["touchpoints"]["node"] == column
    # Another word that differs by row tells nothing of where people came from.
    journeys = read_files(VISITS.assign(channel="Partners", city=[*"abaab"]), orders(total=[10.5] * 5))
    assert journeys.columns["touchpoints"]["node"] == "channel"


def test_the_only_column_of_amounts_is_the_value():
    fees = orders(**{"Fee (USD)": [10.5, 20, 30, 40, 50]})
    journeys = read_files(VISITS, fees)
    assert sum(values_of(journeys).values()) == 150.5
    assert {*journeys.events["statistics.revenue.currency"]} == {"USD"}
    # Two of them are still a question.
    fees["Processing fee"] = [1.5, 2, 3, 4, 5]
    assert read_files(VISITS, fees).columns["conversions"].get("value") is None


def test_zeros_in_every_row_are_no_amounts():
    journeys = read_files(VISITS, orders(Received=[5.5, 6, 7, 8, 9], Given=["0.00"] * 5))
    assert journeys.columns["conversions"]["value"] == "Received"


def test_what_is_paid_and_what_is_due_make_the_total():
    total = [100.5, 200, 300, 400, 500]
    paid = [100.5, 0, 120, 400, 0]
    due = [0, 200, 180, 0, 500]
    frame = orders(**{"Grand Total": total, "Amount Paid": paid, "Left": due})
    assert read_files(VISITS, frame).columns["conversions"]["value"] == "Grand Total"
    with pytest.raises(InvalidRequest, match="'Grand Total' and 'Amount Paid'"):
        read_files(VISITS, frame.assign(Left=[1, 2, 3, 4, 5]))


def test_a_refund_of_the_whole_value_leaves_the_order_out():
    frame = orders(order_total=[10.5, 20, 30, 40, 50], total_refunded=[None, 20, 5, None, None])
    journeys = read_files(VISITS, frame)
    assert values_of(journeys) == {"R0": 10.5, "R2": 25, "R3": 40, "R4": 50}
    assert "1 refunded in whole left out" in journeys.notes[-1] + journeys.notes[0]


def test_a_product_with_one_price_in_orders_of_one_row_and_of_several_is_a_line():
    tickets = pd.DataFrame({
        "order_id": ["R0", "R0", "R1", "R2", "R2", "R3", "R4"],
        "ticket_id": [f"T{at}" for at in range(7)],
        "ticket": ["Front", "Front", "Front", "Back", "Back", "Back", "Back"],
        "email": [PEOPLE[at] for at in (0, 0, 1, 2, 2, 3, 4)],
        "order_date": "2025-03-02 08:00:00",
        "total_paid": [35.5, 35.5, 35.5, 22.5, 22.5, 22.5, 22.5],
    })  # fmt: skip
    expected = {"R0": 71, "R1": 35.5, "R2": 45, "R3": 22.5, "R4": 22.5}
    assert values_of(read_files(VISITS, tickets)) == expected


def test_the_number_of_an_order_beside_that_of_its_lines_is_the_id():
    lines = pd.DataFrame({
        "Shop order number": [f"10{at}" for at in range(6)],
        "Order number": ["R0", "R1", "R2", "R3", "R4", "R4"],
        "email": [*PEOPLE, PEOPLE[-1]],
        "order_date": "2025-03-02 08:00:00",
        "product": [*"abcdef"],
        "amount": [10.5, 20, 30, 40, 50, 60],
    })  # fmt: skip
    assert values_of(read_files(VISITS, lines)) == {"R0": 10.5, "R1": 20, "R2": 30, "R3": 40, "R4": 110}


def test_a_column_given_twice_is_read_once_and_with_other_values_refused(tmp_path):
    text = "order_id,email,order_date,currency,amount,currency\n"
    text += "".join(f"R{at},{who},2025-03-02,EUR,{at}.5,EUR\n" for at, who in enumerate(PEOPLE))
    (tmp_path / "orders.csv").write_text(text)
    visits = written(tmp_path, VISITS, "visits.csv")
    assert {*read_files(visits, tmp_path / "orders.csv").events["statistics.revenue.currency"]} == {"EUR"}
    (tmp_path / "orders.csv").write_text(text.replace(",amount,currency", ",amount,amount"))
    with pytest.raises(InvalidRequest, match="two columns 'amount' with other values"):
        read_files(visits, tmp_path / "orders.csv")


@pytest.mark.parametrize(
    ("text", "day"),
    [
        ("2568-03-05 16:50", "2025-03-05 16:50"),
        ("25/03/2568", "2025-03-25"),
        ("114/03/05 10:11", "2025-03-05 10:11"),
        ("民國114年3月5日", "2025-03-05"),
        ("令和7年3月5日", "2025-03-05"),
        ("R7.3.5 10:20", "2025-03-05 10:20"),
        ("1404/03/05", None),
        ("114.3.5", None),
    ],
)
def test_years_of_other_calendars(text, day):
    """2568 is a year of Thailand, 114 one of Taiwan, and R7 one of Japan; 1404 of Iran has other months."""
    at, _ = written_values.moments([text], dayfirst=None)[text]
    assert at == (None if day is None else pd.Timestamp(day).to_pydatetime())


def test_a_sign_of_several_currencies_is_that_of_the_country_of_the_rows(tmp_path):
    for mark, country, code in (("$", "US", "USD"), ("kr", "Sverige", "SEK")):
        frame = orders(**{f"Total ({mark})": [10.5, 20, 30, 40, 50]})
        journeys = read_files(VISITS.assign(country=country), frame)
        assert {*journeys.events["statistics.revenue.currency"]} == {code}
    frame = orders(**{"Total ($)": [10.5, 20, 30, 40, 50]})
    # Those of Singapore may have paid in dollars of the United States.
    for countries in (["US"] * 4 + ["CA"], ["Norway"] * 5, ["Singapore"] * 5):
        journeys = read_files(VISITS.assign(country=countries), frame)
        assert "statistics.revenue.currency" not in journeys.events


def test_a_code_in_the_name_comes_before_the_order_of_dates():
    frame = orders(**{"Total (CAD)": ["$10.5", "$20", "$30", "$40", "$50"], "order_date": ["03/25/2025"] * 5})
    journeys = read_files(VISITS.assign(date="03/24/2025"), frame)
    assert {*journeys.events["statistics.revenue.currency"]} == {"CAD"}
    assert not any("USD" in note for note in journeys.notes)


def test_the_other_file_tells_the_zone():
    visits = VISITS.rename(columns={"date": "Date (IST)"})
    frame = orders(total=["₹ 1,25,000.00"] * 5)
    journeys = read_files(visits, frame)
    assert journeys.interactions["startDate"].iloc[0] == pd.Timestamp("2025-03-01 04:30", tz="UTC")
    with pytest.raises(InvalidRequest, match="IST is the time of several places"):
        read_files(visits, orders(total=[10.5] * 5))


def test_a_day_beside_its_instant_in_another_zone_gives_way(tmp_path):
    visits = VISITS.drop(columns="date").assign(
        event_date="2025-03-01", event_datetime="2025-03-01T01:00:00+09:00"
    )
    journeys = read_files(visits, orders(total=[10.5] * 5))
    assert journeys.interactions["startDate"].iloc[0] == pd.Timestamp("2025-02-28 16:00", tz="UTC")


def test_requests_in_json_are_an_access_log(tmp_path):
    def request(at, address, uri, agent="Mozilla/5.0 (X11)", status=200):
        return {"ts": at, "request": {"remote_ip": address, "method": "GET", "host": "shop.example", "uri": uri,
                "headers": {"User-Agent": [agent]}}, "status": status}  # fmt: skip

    lines = [
        request(1756720800.5, "203.0.113.5", "/?utm_source=mail&utm_medium=email"),
        request(1756720801.5, "203.0.113.5", "/a.css"),
        request(1756720860.5, "203.0.113.5", "/thanks", status=404),
        request(1756720920.5, "203.0.113.5", "/thanks"),
        request(1756720930.5, "198.51.100.9", "/thanks", agent="Mozilla/5.0 (compatible; Googlebot/2.1)"),
    ]
    file = tmp_path / "log.json"
    file.write_text("\n".join(map(json.dumps, lines)))
    journeys = read_files(file, conversion_page="/thanks")
    assert len(journeys.interactions) == 1
    assert journeys.events["eventDate"].tolist() == [pd.Timestamp("2025-09-01 10:02:00.5", tz="UTC")]
    # Ids of people are better than networks.
    known = [each | {"customer_id": PEOPLE[at]} for at, each in enumerate(lines)]
    file.write_text("\n".join(map(json.dumps, known)))
    assert read_files(file, orders(total=[10.5] * 5)).columns["touchpoints"]["user"] == "customer_id"


def test_the_only_file_in_an_archive_is_read(tmp_path):
    content = VISITS.to_csv(index=False).encode()
    for name, inside in (("visits.csv", content), ("visits.csv.gz", gzip.compress(content))):
        file = io.BytesIO()
        with ZipFile(file, "w") as archive:
            archive.writestr(f"export/{name}", inside)
        (tmp_path / "export.zip").write_bytes(file.getvalue())
        assert len(read_files(tmp_path / "export.zip", orders(total=[10.5] * 5)).interactions) == 5
    with ZipFile(tmp_path / "export.zip", "a") as archive:
        archive.writestr("other.csv", content)
    with pytest.raises(InvalidRequest, match="archive"):
        read_files(tmp_path / "export.zip", orders(total=[10.5] * 5))


def test_mails_are_told_by_abbreviations_and_by_what_was_sent():
    log = pd.DataFrame({
        "email": PEOPLE, "at": "2025-03-01 10:00:00", "statusType": ["SNT", "OPN", "CLK", "OPN", "CLK"],
        "subject": ["Spring", "Spring", "Sale", "Sale", "Sale"],
    })  # fmt: skip
    journeys = read_files(log, orders(total=[10.5] * 5))
    assert len(journeys.interactions) == 4
    assert journeys.columns["touchpoints"]["node"] == "subject"


@pytest.mark.parametrize(
    ("of", "word", "name"),
    [
        ("status", "Ködyrelse", None),
        ("status", "Черновик", "undone"),
        ("status", "Neapmaksāts", "unpaid"),
        ("status", "Konverteret", "done"),
        ("status", "Delvist refunderet", "partly refunded"),
        ("status", "Ложный", "undone"),
        ("status", "PND", "pending"),
        ("status", "Berlin", None),
        ("mail", "Poslano", "unseen"),
        ("mail", "คลิกแล้ว", "seen"),
    ],
)
def test_statuses_of_public_translations(of, word, name):
    assert rows.class_of(of, word) == name


def test_names_of_columns_of_public_translations():
    assert evidence.weight("conversion", "Číslo faktury") == 6
    assert evidence.names_level("source", "Campaign Source")
    assert evidence.names_level("medium", "Mezzo Campagna")
    assert evidence.weight("value", "Antal") <= 0
