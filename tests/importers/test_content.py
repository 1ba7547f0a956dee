"""Files that no list names are read by what they hold, and those that read both ways are refused."""

import gzip
import io
import json
from contextlib import nullcontext

import duckdb
import pandas as pd
import pytest
from support.own_files import read_files

import attrib_ds as at
from attrib_ds.errors import InputWarning, InvalidRequest
from attrib_ds.importers import formats
from attrib_ds.importers.content import evidence
from attrib_ds.records import sources, written_values

pytestmark = pytest.mark.filterwarnings("ignore::attrib_ds.errors.InputWarning")

VISITS = "email,timestamp,channel\nann@x.example,2025-08-20T08:00:00Z,Search\nbob@x.example,2025-08-21T08:00:00Z,Mail\n"


@pytest.fixture
def read(tmp_path):
    """Read conversions from text or bytes, beside two visits; return values by id, and the journeys."""

    def read_file(content, name="orders.csv", visits=VISITS, **options):
        (tmp_path / "visits.csv").write_text(visits, encoding="utf-8")
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        journeys = read_files(tmp_path / "visits.csv", path, **options)
        events = journeys.events
        amount = next(
            name for name in events.columns if name in {"statistics.revenue", "statistics.revenue.amount"}
        )
        return dict(zip(events["event.sourceId"], events[amount], strict=True)), journeys

    return read_file


def instants_of(*texts, dayfirst=None):
    moments = written_values.moments(texts, dayfirst=dayfirst)
    return [None if moments[text][0] is None else f"{moments[text][0]:%Y-%m-%d %H:%M:%S}" for text in texts]


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["Wed Sep 03 2025 08:15:00 GMT+0200 (CEST)"], ["2025-09-03 06:15:00"]),
        (["Wed Sep 03 08:15:00 CEST 2025"], ["2025-09-03 06:15:00"]),
        (["3 sept. 2025", "20 août 2025 08:00"], ["2025-09-03 00:00:00", "2025-08-20 08:00:00"]),
        (["3 de septiembre de 2025, 18:00"], ["2025-09-03 18:00:00"]),
        (["9/24/25 8:15 PM", "9/3/25 12:05 AM"], ["2025-09-24 20:15:00", "2025-09-03 00:05:00"]),
        (["24/03/2025", "03/04/2025"], ["2025-03-24 00:00:00", "2025-04-03 00:00:00"]),
        (["03.04.2025 08:15", "5. 4. 2025"], ["2025-04-03 08:15:00", "2025-04-05 00:00:00"]),
        (["4 березня 2025, 21:00", "31 Juli 2025"], ["2025-03-04 21:00:00", "2025-07-31 00:00:00"]),
        (["20250903T081500Z"], ["2025-09-03 08:15:00"]),
        (["Mar-14-25", "Sep/3/2025 8:15 PM"], ["2025-03-14 00:00:00", "2025-09-03 20:15:00"]),
        (["Sep 3, 2025, 8:15:00 AM"], ["2025-09-03 08:15:00"]),
        (
            ["Mar 3, 2025 @ 10:22:05.123", "Mar 4, 2025 | 8:05 PM"],
            ["2025-03-03 10:22:05", "2025-03-04 20:05:00"],
        ),
        (
            ["3 марта 2025 г. в 10:22", "3 de março de 2025 às 9:05"],
            ["2025-03-03 10:22:00", "2025-03-03 09:05:00"],
        ),
        (
            ["Monday, 03-Mar-25 10:22:05 GMT", "Mon Mar  3 11:22:05 2025"],
            ["2025-03-03 10:22:05", "2025-03-03 11:22:05"],
        ),
        (
            ["Mon Mar 3 10:22:05 2025 +0100", "Mon Mar 03 10:22:05 +0000 2025"],
            ["2025-03-03 09:22:05", "2025-03-03 10:22:05"],
        ),
        (["2025-Mar-03 10:22", "2025. március 3. 10:22"], ["2025-03-03 10:22:00"] * 2),
        (["2025-03-03-10.22.05.123456", "20250305-0001"], ["2025-03-03 10:22:05", None]),
        (["03-SEP-25 06.00.00.000000 PM"], ["2025-09-03 18:00:00"]),
        (["20/Aug/2025:10:00:00 +0200"], ["2025-08-20 08:00:00"]),
        (["2025年9月3日 18:00"], ["2025-09-03 18:00:00"]),
        (["03/04/2025", "05/06/2025"], [None, None]),
        (["03-04-05"], [None]),
        (["24/03/2025", "03/24/2025"], [None, None]),
        (["2025/02/30", "2025/02/01 15:04 PM", "Feb 2025"], [None, None, None]),
    ],
)
def test_the_values_of_a_column_decide_how_its_instants_are_read(texts, expected):
    assert instants_of(*texts) == expected


def test_a_way_of_writing_in_one_row_of_many_is_found():
    texts = [f"2025-01-01T{each // 60:02d}:{each % 60:02d}:00Z" for each in range(1_200)]
    assert instants_of("3 sept. 2025", *texts)[:2] == ["2025-09-03 00:00:00", "2025-01-01 00:00:00"]


def test_columns_are_known_by_rows_of_each_kind():
    connection = duckdb.connect()
    rows = pd.DataFrame({"kind": ["sale", "fee"] * 1_000, "mail": [None, "ann@x.example"] * 1_000})
    table = sources.open_source(connection, rows, argument="conversions")
    column = evidence.profiled(connection, table)["mail"]
    assert 300 < column.filled < column.rows < 2_000
    assert column.holds("email")


def test_a_header_without_a_line_break_is_a_table_without_rows(tmp_path):
    clicks, orders = tmp_path / "clicks.csv", tmp_path / "orders.csv"
    clicks.write_text("user,channel,date\nu,tv,2025-01-01\n")
    orders.write_text("order_id,user,date")
    with pytest.warns(InputWarning, match="orders.csv has no conversions"):
        assert at.read_journeys(clicks, orders).events.empty


@pytest.mark.parametrize(
    "written",
    ["45903.75", "1756922400", "1756922400000", "1756922400000000", "1756922400000000000", "1756922400.0"],
)
def test_numbers_stand_for_instants(read, written):
    _, journeys = read(f"when,who,amount\n{written},ann@x.example,10\n")
    assert journeys.events["eventDate"].tolist() == [pd.Timestamp("2025-09-03 18:00", tz="UTC")]


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        # Amounts below zero are refunds of an earlier sale.
        (["$12.00", "($4.50)"], [7.5]),
        (["1.234,50", "20,00-"], [1214.5]),
        (["1’234.50 CHF", "5.00 CHF"], [1234.5, 5.0]),
        (["1 234,50 zł", "99,00 zł"], [1234.5, 99.0]),
        (["12,800円", "980円"], [12800.0, 980.0]),
        (["€ 1.020,00", "€ 12,50"], [1020.0, 12.5]),
    ],
)
def test_amounts_have_signs_codes_and_brackets(read, cells, expected):
    lines = "".join(f'{at},ann@x.example,2025-09-0{at + 1},"{cell}"\n' for at, cell in enumerate(cells))
    values, _ = read(f"order,mail,date,total\n{lines}")
    assert list(values.values()) == expected


def test_an_index_is_dropped_and_a_refund_subtracted(read):
    text = (
        ",order,e-mail address,bought at,paid\n0,17,ann@x.example,1756722600,$12.00\n"
        "1,17,ann@x.example,1756809000,($4.50)\n"
    )
    values, journeys = read(text)
    assert values == {"17": 7.5}
    assert any("1 refund subtracted" in note for note in journeys.notes)


def test_a_german_file_with_a_cancelled_order(read):
    text = (
        "Auftrag;Kunde;Datum;Summe;Zustand\n7;ann@x.example;03.09.2025 08:15;1.020,00;bezahlt\n"
        "8;bob@x.example;04.09.2025 09:00;30,00;storniert\n"
    )
    values, journeys = read(text)
    assert values == {"7": 1020.0}
    assert any("1 storniert left out" in note for note in journeys.notes)
    assert read(text, statuses={"storniert": True})[0] == {"7": 1020.0, "8": 30.0}


VISITS_OF_NUMBERS = "VS;Zdroj;Datum\n701;Seznam;01.08.2025\n702;Mail;02.08.2025\n703;Mail;03.08.2025\n"


def test_people_are_the_numbers_that_both_files_share(read):
    paid = "Account:;8001;;;\nPeriod:;August;;;\nbooking;posted on;nb;paid;note\n"
    text = f"{paid}B1;03.08.2025;701;10,50;a\nB2;04.08.2025;702;20,50;b\nB3;05.08.2025;703;30,50;c\n"
    _, journeys = read(f"{text}B4;06.08.2025;701;40,50;d\n", visits=VISITS_OF_NUMBERS)
    assert journeys.columns["touchpoints"]["user"] == "VS"
    assert journeys.columns["conversions"]["user"] == "nb"
    # Numbers that do not repeat may be those of rows.
    with pytest.raises(InvalidRequest, match="no column that looks like the user"):
        read(text, visits=VISITS_OF_NUMBERS)


@pytest.mark.parametrize("amount", ["30.00", "-30.00"])
def test_what_is_withdrawn_beside_what_is_paid_in_is_a_refund(read, amount):
    text = (
        "Receipt No.,email,date,Paid In,Withdrawn,Linked Transaction ID\n1,ann@x.example,2025-09-01,80.00,,\n"
        f"2,bob@x.example,2025-09-02,30.00,,\n3,bob@x.example,2025-09-03,,{amount},2\n"
    )
    assert read(text)[0] == {"1": 80.0, "2": 0.0}


@pytest.mark.parametrize("names", ["Джерело,Канал", "Quelle,Kanal", "source,channel"])
@pytest.mark.parametrize(
    ("words", "node"),
    [(("Ads", "Story"), "Google/Ads"), (("cpc", "email"), "Google/cpc")],
    ids=["own", "media"],
)
def test_a_channel_beside_a_source_is_below_it(read, names, words, node):
    visits = (
        f"email,date,{names},form\nann@x.example,2025-08-01,Google,{words[0]},one\n"
        f"bob@x.example,2025-08-02,Mail,{words[1]},two\nbob@x.example,2025-08-03,Mail,{words[1]},one\n"
    )
    with pytest.warns(InputWarning, match="columns that are not used: form"):
        _, journeys = read("id,email,date,total\n1,ann@x.example,2025-09-01,80.00\n", visits=visits)
    assert journeys.interactions["nodeId"][0] == node


def test_a_first_and_a_last_source_with_their_instants_are_two_touchpoints(read):
    leads = (
        "email,First touch date,First touch source,Last touch date,Last touch source\n"
        "ann@x.example,2025-08-01,Search,2025-08-09,Mail\nbob@x.example,2025-08-02,Tv,2025-08-02,Tv\n"
    )
    orders = "id,email,date,total\n1,ann@x.example,2025-09-01,80.00\n"
    _, journeys = read(orders, visits=leads)
    visits = journeys.interactions
    days = visits["startDate"].dt.strftime("%m-%d")
    assert sorted(zip(days, visits["nodeId"], strict=True)) == [
        ("08-01", "Search"),
        ("08-02", "Tv"),
        ("08-09", "Mail"),
    ]
    # A reading that is used again reads alike.
    _, again = read(orders, visits=leads, columns=journeys.reading.columns)
    assert len(again.interactions) == 3


@pytest.mark.parametrize(
    ("column", "word"), [("Canceled?", "Canceled"), ("Storno", "x"), ("Cancelled", "by phone")]
)
def test_a_column_of_cancelled_rows_is_blank_in_the_others(read, column, word):
    text = (
        f"id,email,date,total,Amount Paid Online,{column}\n1,ann@x.example,2025-09-01,80.00,80,\n"
        f"2,bob@x.example,2025-09-02,45.00,45,{word}\n3,bob@x.example,2025-09-03,30.00,30,\n"
    )
    values, journeys = read(text)
    assert values == {"1": 80.0, "3": 30.0}
    assert any("1 " in note and "left out" in note for note in journeys.notes)
    assert not any("Amount Paid Online" in note for note in journeys.notes)


def test_an_authorization_beside_its_capture_is_one_payment(read):
    text = (
        "order_id,email,date,kind,amount\n4001,ann@x.example,2025-09-01,authorization,50\n"
        "4001,ann@x.example,2025-09-02,capture,50\n4002,bob@x.example,2025-09-03,sale,30\n"
        "4002,bob@x.example,2025-09-04,refund,10\n4003,bob@x.example,2025-09-03,sale,5\n"
        "4003,bob@x.example,2025-09-04,void,5\n,,2025-09-05,payout,95\n"
    )
    for aggregate in (False, True):
        assert read(text, aggregate=aggregate)[0] == {"4001": 50.0, "4002": 20.0}


@pytest.mark.parametrize(
    ("header", "cells", "left"),
    [
        ("Cancelled", ",checked,", [10, 30]),
        ("Cancelled", "✗,✓,✗", [10, 30]),
        ("キャンセル", ",○,", [10, 30]),
        ("Cancelled at", "0000-00-00 00:00:00,2025-09-04 10:00,-", [10, 30]),
        ("Cancelled", ",a mark,yes", [10, 20]),
        ("AB test", "a,b,a", [10, 20, 30]),
    ],
)
def test_a_flag_may_be_a_mark_and_what_is_neither_yes_nor_no_is_said(read, header, cells, left):
    lines = [
        f"{id},ann@x.example,2025-09-0{id},{id}0,{cell}" for id, cell in enumerate(cells.split(","), start=1)
    ]
    rows = "\n".join([f"order_id,email,date,total,{header}", *lines])
    doubt = pytest.warns(InputWarning, match="'Cancelled' do not say .*: a mark in 1 row")
    with doubt if "a mark" in cells else nullcontext():
        values, _ = read(rows)
    assert [*values.values()] == left
    if "a mark" in cells:
        assert [*read(rows, statuses={"a mark": False})[0].values()] == [10]


@pytest.mark.parametrize(
    "dump",
    [
        "--\nCOPY public.orders (id, email, total, note, created_at) FROM stdin;\n"
        "7\tann@x.example\t80.00\t\\N\t2025-09-03 12:00:00+00\n8\tbob@x.example\t9.50\ta\\tb\t2025-09-04 12:00:00+00\n"
        "\\.\n",
        "CREATE TABLE `orders` (\n `id` int(11) NOT NULL,\n `email` text,\n `total` decimal(10,2) DEFAULT '0.00',\n"
        " `note` text,\n `created_at` datetime,\n PRIMARY KEY (`id`)\n);\nINSERT INTO `orders` VALUES\n"
        "(7,'ann@x.example',80.00,NULL,'2025-09-03 12:00:00'),(8,'bob@x.example',9.50,'a;\\'b','2025-09-04 12:00:00');\n",
        "INSERT [dbo].[orders] ([id], [email], [total], [created_at]) VALUES (7, N'ann@x.example', CAST(80.00 AS "
        "Decimal(10, 2)), CAST(N'2025-09-03T12:00:00.000' AS DateTime))\nGO\nINSERT [dbo].[orders] ([id], [email], "
        "[total], [created_at]) VALUES (8, N'bob@x.example', 9.5, N'2025-09-04T12:00:00')\nGO\n",
    ],
)
def test_a_dump_of_a_database_is_a_table(read, dump):
    values, journeys = read(dump, name="orders.sql")
    assert values == {"7": 80, "8": 9.5}
    assert [f"{at:%d %H}" for at in journeys.events["eventDate"]] == ["03 12", "04 12"]


@pytest.mark.parametrize("name", ["{{{}}}", "[{}]", "<{}>", "%{{{}}}", "${}", "{{{{{}}}}}"])
def test_names_of_columns_may_be_placeholders(read, name):
    header = ",".join(map(name.format, ("order_id", "email", "created_at", "total")))
    assert read(f"{header}\n7,ann@x.example,2025-09-03,9.50\n")[0] == {"7": 9.5}


def test_tests_and_cancelled_orders_are_left_out_and_what_remains_counts(read):
    text = (
        "id,email,created_at,test,cancelled_at,total_price,current_total_price\n"
        "1,ann@x.example,2025-09-01,true,,999,999\n2,ann@x.example,2025-09-01,false,2025-09-02,999,999\n"
        "3,bob@x.example,2025-09-01,false,,80,50\n"
    )
    assert read(text)[0] == {"3": 50.0}


@pytest.mark.few(3)
@pytest.mark.parametrize(
    "header", ["Währung", "Devise", "Moneda", "Valuta", "ccy", "curr", "currency_iso", "c9"]
)
def test_a_column_of_codes_is_the_currency(read, header):
    text = f"order_id,email,date,total,{header}\n1,ann@x.example,2025-09-01,100,EUR\n2,bob@x.example,2025-09-01,5000,JPY\n"
    events = read(text)[1].events
    assert events["statistics.revenue.currency"].tolist() == ["EUR", "JPY"]


def test_prices_are_no_times_of_day(read):
    text = "id,email,date,price,quantity\n1,ann@x.example,2025-09-03,19.99,3\n2,bob@x.example,2025-09-04,0.10,1\n"
    values, journeys = read(text)
    assert values == {"1": 59.97, "2": 0.1}
    assert journeys.columns["conversions"]["date"] == "date"


def test_columns_without_a_known_name(read):
    text = "c1,c2,c3,c4\nx1,ann@x.example,2025-09-03T18:00:00Z,20.50\nx2,bob@x.example,2025-09-04T18:00:00Z,7.00\n"
    values, journeys = read(text)
    assert values == {"x1": 20.5, "x2": 7.0}
    assert journeys.columns["conversions"]["user"] == "c2"


def test_people_are_the_columns_whose_values_meet(read):
    visits = "hit,who,at,channel\n1,1001,2025-08-20T08:00:00Z,Search\n2,1002,2025-08-21T08:00:00Z,Mail\n"
    text = "no,kd,day,worth\nA,1001.0,2025-09-03,5.50\nB,1002.0,2025-09-04,6.50\n"
    _, journeys = read(text, visits=visits)
    assert sorted(journeys.users["user_id"]) == ["1001", "1002"]


@pytest.mark.few(3)
@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        ("Währung;Kunde;Datum;Betrag;Händler\nEUR;ann@x.example;03.09.2025;5,00;Müller\n", "cp1252"),
        ("Référence;Client;Date;Total;Société\nV-1;ann@x.example;03.09.2025;5,00;Été réglé\n", "mac_roman"),
        ("Numer zamówienia;E-mail;Data złożenia;Wartość;x\n1;ann@x.example;03.09.2025;5,00;ą\n", "cp1250"),
        ("Sipariş no;E-posta;Tarih;Tutar;Ürün\n1;ann@x.example;03.09.2025;5,00;ışık\n", "cp1254"),
        ("注文番号;メール;注文日時;金額;商品\n1;ann@x.example;2025/09/03;5.00;本\n", "cp932"),
        ("订单编号;邮箱;下单时间;金额;商品\n1;ann@x.example;2025-09-03;5.00;书\n", "gb18030"),
        ("no,email,date,total\n1,ann@x.example,2025-09-03,£5.00\n", "cp1252"),
        ("no,email,date,total\n1,ann@x.example,2025-09-03,€5.00\n", "mac_roman"),
        ("no,email,date,total,item\n1,ann@x.example,2025-09-03,5.00 €,Café\n", "cp1252"),
        ("Währung;Kunde;Datum;Betrag;Händler\nEUR;ann@x.example;03.09.2025;5,00;Müller\n", "utf-16"),
    ],
)
def test_encodings_are_those_in_which_the_words_are_words(read, text, encoding):
    values, journeys = read(text.encode(encoding))
    assert list(values.values()) == [5.0]
    assert encoding == "utf-16" or any(f"read as {encoding}" in note for note in journeys.notes)


ROWS = "id,email,date,total\n1,ann@x.example,2025-09-03,5.50\n2,bob@x.example,2025-09-04,6.50\n"
PSQL = (
    " id |     email     |    date    | total \n----+---------------+------------+-------\n"
    "  1 | ann@x.example | 2025-09-03 |  5.50\n  2 | bob@x.example | 2025-09-04 |  6.50\n(2 rows)\n"
)
MYSQL = (
    "+----+---------------+------------+-------+\n| id | email         | date       | total |\n"
    "+----+---------------+------------+-------+\n|  1 | ann@x.example | 2025-09-03 |  5.50 |\n"
    "|  2 | bob@x.example | 2025-09-04 |  6.50 |\n+----+---------------+------------+-------+\n2 rows in set\n"
)
SQLCMD = (
    "id email         date       total\n-- ------------- ---------- -----\n 1 ann@x.example 2025-09-03  5.50\n"
    " 2 bob@x.example 2025-09-04  6.50\n\n(2 rows affected)\n"
)
PAGE = "<html><table><tr><th>id</th><th>email</th><th>date</th><th>total</th></tr>" + "".join(
    f"<tr><td>{at}</td><td>{who}@x.example</td><td>2025-09-0{at + 2}</td><td>{at + 4}.50</td></tr>"
    for at, who in ((1, "ann"), (2, "bob"))
)
UNDER_A_KEY = json.dumps({"meta": {"page": 1}, "data": pd.read_csv(io.StringIO(ROWS)).to_dict("records")})
NOTED = "sep=,\n" + ROWS + "id,email,date,total\nTotal,,,12.00\nPrices with taxes\n"
W3C = "#Version: 1.0\n#Fields: id email date total\n1 ann@x.example 2025-09-03 5.50\n2 bob@x.example 2025-09-04 6.50\n"


@pytest.mark.few(3)
@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("orders.txt", ROWS),
        ("orders", ROWS),
        ("orders.dat", ROWS.replace(",", "|")),
        ("orders.xls", ROWS.replace(",", "\t")),
        ("orders.bin", gzip.compress(ROWS.encode(), mtime=0)),
        ("orders.csv", ROWS.replace("\n", "\r")),
        ("orders.out", PSQL),
        ("orders.txt", MYSQL),
        ("orders.rpt", SQLCMD),
        ("orders.xls", PAGE),
        ("orders.json", UNDER_A_KEY),
        ("orders.csv", NOTED),
        ("orders.log", W3C),
    ],
)
def test_a_file_is_what_it_holds(read, name, content):
    values, journeys = read(content, name=name)
    assert values == {"1": 5.5, "2": 6.5}
    assert journeys.rejected.empty


STATES = "Bestellung,Kontakt,Bestellt am,Summe,Zahlstatus\n"
PENDING, PAID, REFUNDED = (
    f"B-1,ann@x.example,2025-09-03,50,{state}\n" for state in ("offen", "bezahlt", "erstattet")
)


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ([PENDING, PAID], {"B-1": 50.0}),
        ([PAID, PENDING], {"B-1": 50.0}),
        ([PAID, REFUNDED, "B-2,bob@x.example,2025-09-03,5,bezahlt\n"], {"B-2": 5.0}),
        ([REFUNDED, PAID, "B-2,bob@x.example,2025-09-03,5,bezahlt\n"], {"B-2": 5.0}),
    ],
)
def test_g263_the_latest_state_of_a_record_counts_in_any_order(read, lines, expected):
    assert read(STATES + "".join(lines))[0] == expected


def test_g263_states_without_an_order_are_refused(read):
    with pytest.raises(InvalidRequest, match="'B-1' has several rows with different statuses"):
        read(STATES + PAID + PAID.replace("bezahlt", "fehlgeschlagen"))


SHOP = ["Name", "Email", "Financial Status", "Lineitem name", "Total", "Created at"]


@pytest.mark.parametrize(("states", "worth"), [(("pending", "paid"), 50.0), (("paid", "refunded"), 0.0)])
def test_g263_exports_of_a_shop_given_together(states, worth):
    """The order of the files does not matter, and an order in both counts once."""
    visits = pd.DataFrame({"email": ["a@x.example"], "channel": ["Ads"], "date": ["2025-09-01"]})
    row = ["#1", "a@x.example", "", "Shirt", "50", "2025-09-03"]
    same = ["#2", "a@x.example", "paid", "Shirt", "7", "2025-09-03"]
    files = [pd.DataFrame([[*row[:2], state, *row[3:]], same], columns=SHOP) for state in states]
    for each in (files, files[::-1]):
        events = at.read_journeys(visits, each).events
        assert events["statistics.revenue"].sum() == worth + 7


class TestRefused:
    """What reads both ways stays refused, for this reason and with a way on."""

    def test_days_without_a_proof(self, read):
        with pytest.raises(
            InvalidRequest, match="3 September 2025 with dayfirst=True and 9 March 2025 with dayfirst=F"
        ):
            read("id,email,date,total\n1,ann@x.example,03/09/2025,5\n2,bob@x.example,04/10/2025,6\n")

    def test_days_that_contradict_each_other(self, read):
        with pytest.raises(InvalidRequest, match="begins with the day and .* with the month"):
            read("id,email,date,total\n1,ann@x.example,13/09/2025,5\n2,bob@x.example,09/13/2025,6\n")

    def test_years_of_two_digits_that_may_be_days(self, read):
        with pytest.raises(InvalidRequest, match="write the year with four digits"):
            read("id,email,date,total\n1,ann@x.example,03-04-05,5\n")

    def test_a_decimal_mark_that_no_value_shows(self, read):
        with pytest.raises(InvalidRequest, match="'1.250' may be in thousands or have three decimals"):
            read("id;email;date;total\n1;ann@x.example;2025-09-03;1.250\n2;bob@x.example;2025-09-03;3.125\n")

    def test_both_decimal_marks(self, read):
        with pytest.raises(InvalidRequest, match="has a decimal comma and .* a decimal point"):
            read("id;email;date;total\n1;ann@x.example;2025-09-03;1,25\n2;bob@x.example;2025-09-03;3.12\n")

    def test_a_currency_beside_none(self, read):
        with pytest.raises(InvalidRequest, match="two currencies: '€100' has one, and '50' has none"):
            read("id,email,date,total\n1,ann@x.example,2025-09-03,€100\n2,bob@x.example,2025-09-03,50\n")

    def test_two_currencies_beside_none(self, read):
        with pytest.raises(InvalidRequest, match="two currencies, EUR and GBP, and others"):
            read(
                "id,email,date,total\n1,ann@x.example,2025-09-03,€100\n2,bob@x.example,2025-09-03,50\n"
                "3,bob@x.example,2025-09-03,£5\n"
            )

    def test_dollars_of_no_country_beside_euros(self, read):
        with pytest.raises(InvalidRequest, match="two currencies"):
            read("id,email,date,total\n1,ann@x.example,2025-09-03,€100\n2,bob@x.example,2025-09-03,$50\n")

    @pytest.mark.parametrize(("amount", "choice"), [("100", "or"), ("100,00 kr", "or"), ("100", "eller")])
    def test_a_choice_of_currencies_above_the_rows(self, read, amount, choice):
        row = f"ann@x.example;2025-09-03;{amount}"
        text = f"# Totals in SEK {choice} DKK\nid;email;date;Monto\n1;{row}\n2;{row}\n"
        with pytest.raises(InvalidRequest, match="say with currency='SEK' or currency='DKK'"):
            read(text)
        assert read(text, currency="DKK")[0] == {"1": 100.0, "2": 100.0}

    def test_two_amounts_without_a_name(self, read):
        with pytest.raises(InvalidRequest, match="two columns that may be the value, 'c4' and 'c5'"):
            read(
                "c1,c2,c3,c4,c5\nx,ann@x.example,2025-09-03,100.00,84.03\ny,bob@x.example,2025-09-03,50.00,42.02\n"
            )

    def test_two_instants_without_a_name(self, read):
        text = "c1,c2,c3,c4\nx,ann@x.example,2025-09-03,2025-09-05\ny,bob@x.example,2025-09-04,2025-09-05\n"
        said = "two columns that may be the date, 'c3' and 'c4'; say which with .*'conversion_date': 'c3'"
        with pytest.raises(InvalidRequest, match=said):
            read(text)
        # The advice is followed as it stands.
        _, journeys = read(text, columns={"conversion_date": "c3"})
        assert journeys.columns["conversions"]["date"] == "c3"

    def test_sums_without_people(self, read):
        with pytest.raises(InvalidRequest, match="no column"):
            read("day,sessions,total\n2025-09-03,100,84.03\n2025-09-04,50,42.02\n")

    def test_ids_that_lost_digits(self, read):
        with pytest.raises(InvalidRequest, match="last digits are lost"):
            read(
                "id,user,date,total\n1,1.002003004005006e+17,2025-09-03,5\n",
                visits=VISITS.replace("email", "user"),
            )

    def test_touchpoints_without_a_channel(self, read):
        with pytest.raises(InvalidRequest, match="no column that looks like the node"):
            read(ROWS, visits="email,visited_at,page_views\nann@x.example,2025-08-20T08:00:00Z,4\n")


def test_an_entry_of_formats_is_checked():
    with pytest.raises(ValueError, match="'X': spend needs a platform"):
        formats.Format("X", "spend", ["a"])
    with pytest.raises(ValueError, match="role 'usr' is unknown"):
        formats.Format("X", "conversions", ["a"], roles={"usr": "a", "date": "b"})


def test_what_was_left_out_is_said(read):
    with pytest.warns(InputWarning, match="1 repeated header left out, 1 total left out, 1 note below"):
        read(NOTED)


ORDER = {"order_id": "7", "email": "ann@x.example", "order_date": "2025-09-03T08:00:00Z", "total": "12.50"}
OTHER = {"order_id": "8", "email": "bob@x.example", "order_date": "2025-09-04T08:00:00Z", "total": "30"}


def of_columns(rows):
    return {name: {str(at): row[name] for at, row in enumerate(rows)} for name in rows[0]}


@pytest.mark.few(3)
@pytest.mark.parametrize(
    "content",
    [
        of_columns([ORDER, OTHER]),
        {name: [ORDER[name], OTHER[name]] for name in ORDER},
        {"columns": [*ORDER], "index": [0, 1], "data": [[*ORDER.values()], [*OTHER.values()]]},
        {
            "meta": [{"name": name, "type": "String"} for name in ORDER],
            "data": [[*ORDER.values()], [*OTHER.values()]],
        },
        [[*ORDER], [*ORDER.values()], [*OTHER.values()]],
        {
            "schema": {"fields": [{"name": name, "type": "STRING"} for name in ORDER]},
            "rows": [{"f": [{"v": cell} for cell in row.values()]} for row in (ORDER, OTHER)],
            "totalRows": "2",
        },
        {
            "schema": {"fields": [{"name": name, "type": "string"} for name in ORDER]},
            "data": [ORDER, OTHER],
        },
        {
            "took": 3,
            "hits": {"total": {"value": 2}, "hits": [{"_id": "a", "_source": ORDER}, {"_source": OTHER}]},
        },
        {
            "data": [{"type": "order", "attributes": ORDER}, {"type": "order", "attributes": OTHER}],
            "included": [{}],
        },
        {"orders": {"edges": [{"node": ORDER}, {"node": OTHER}]}},
        {"-Nx1": ORDER, "-Nx2": OTHER},
        [
            {**ORDER, "total": {"$numberDecimal": "12.50"}, "_id": {"$oid": "1"}},
            {**OTHER, "_id": {"$oid": "2"}},
        ],
        [
            {**ORDER, "order_date": {"$date": {"$numberLong": "1756886400000"}}},
            {**OTHER, "order_date": {"$date": "2025-09-04T08:00:00Z"}},
        ],
        [{"_airbyte_raw_id": "a", "_airbyte_data": json.dumps(ORDER)}, {"_airbyte_data": json.dumps(OTHER)}],
    ],
)
def test_tables_in_json_of_any_shape(read, content):
    values, journeys = read(json.dumps(content), name="orders.json")
    assert values == {"7": 12.5, "8": 30}
    assert journeys.events["eventDate"].min().isoformat() == "2025-09-03T08:00:00+00:00"


def test_members_of_objects_in_cells_are_columns(read):
    values, journeys = read(
        "Event Time,Event Name,Event Value,Customer User ID\n"
        '2025-09-03 08:00:00,af_add_to_cart,"{""af_content"": ""x""}",ann@x.example\n'
        '2025-09-03 09:00:00,af_purchase,"{""af_order_id"": ""a-1"", ""af_revenue"": 27.4}",ann@x.example\n'
        '2025-09-04 09:00:00,af_purchase,"{""af_order_id"": ""a-2"", ""af_revenue"": 8}",bob@x.example\n'
    )
    assert values == {"a-1": 27.4, "a-2": 8}
    assert "1 af_add_to_cart left out" in journeys.notes[0]


def test_a_workbook_in_xml(read):
    def row(*cells):
        return (
            "<Row>"
            + "".join(f'<Cell{at}><Data ss:Type="String">{cell}</Data></Cell>' for at, cell in cells)
            + "</Row>"
        )

    rows = [
        row(("", "Order ID"), ("", "Coupon"), ("", "Email"), ("", "Order date"), ("", "Total"), ("", "Note")),
        row(("", "7"), ("", "x"), ("", "ann@x.example"), ("", "2025-09-03"), ("", "12.50"), ("", "-")),
        row(("", "8"), (' ss:Index="3"', "bob@x.example"), ("", "2025-09-04"), ("", "30")),
    ]
    other = "<Worksheet><Table><Row><Cell><Data>1</Data></Cell><Cell><Data>2</Data></Cell></Row></Table></Worksheet>"
    content = (
        '<?xml version="1.0"?><Workbook xmlns:ss="urn:schemas-microsoft-com:office:spreadsheet">'
        f"<Worksheet><Table>{''.join(rows)}</Table></Worksheet>{other}</Workbook>"
    )
    assert read(content, name="orders.xml")[0] == {"7": 12.5, "8": 30}


def test_row_names_of_r_have_no_header(read):
    values, _ = read(
        '"order_id";"email";"date";"coupon";"total"\n"1";"A";"ann@x.example";14MAR2025:16:20:11;NA;12,50\n'
        '"2";"B";"bob@x.example";15MAR2025:16:20:11;"NA";30,25\n'
    )
    assert values == {"A": 12.5, "B": 30.25}
    assert instants_of("14MAR2025:16:20:11", "02SEP25") == ["2025-03-14 16:20:11", "2025-09-02 00:00:00"]


def test_a_decimal_comma_without_quotation_marks_is_no_row_name(read):
    with pytest.raises(InvalidRequest, match="orders.csv has no"):
        read(
            "order_id,email,date,total\n7,ann@x.example,2025-09-03,12,50\n8,bob@x.example,2025-09-04,30,25\n"
        )


def test_types_below_the_header_name_the_zone(read):
    values, journeys = read(
        "order_id\temail\tordered\ttotal\nUInt64\tString\tDateTime('Europe/Paris')\tDecimal(10, 2)\n"
        "7\tann@x.example\t2025-09-03 08:00:00\t12.50\n",
        name="orders.tsv",
    )
    assert values == {"7": 12.5}
    assert journeys.events["eventDate"].min().isoformat() == "2025-09-03T06:00:00+00:00"


@pytest.mark.parametrize(
    ("zones", "expected"),
    [
        (["Europe/Berlin", "PST"], ["2025-09-03T06:00:00+00:00", "2025-09-03T16:00:00+00:00"]),
        (["Europe/Berlin", "Nowhere"], ["2025-09-03T08:00:00+00:00"] * 2),
    ],
)
def test_a_column_of_zones_beside_the_times_says_what_they_are(read, zones, expected):
    lines = [f"{at},ann@x.example,2025-09-03 08:00:00,{zone},5" for at, zone in enumerate(zones)]
    _, journeys = read("\n".join(["order_id,email,date,timezone,total", *lines]))
    assert sorted(at.isoformat() for at in journeys.events["eventDate"]) == expected
    apart = [line.replace(":00,", ":00,coupon,") for line in lines]
    _, others = read("\n".join(["order_id,email,date,coupon,timezone,total", *apart]))
    assert {at.isoformat() for at in others.events["eventDate"]} == {"2025-09-03T08:00:00+00:00"}


def test_refunds_belong_to_the_sale_that_they_refer_to(read):
    values, journeys = read(
        "Transaktionscode;Zugehöriger Transaktionscode;Typ;E-Mail;Datum;Brutto\n"
        "A1;;Zahlung;ann@x.example;03.09.2025 08:00;50,00\nB2;A1;Rückzahlung;ann@x.example;13.09.2025 08:00;-20,00\n"
        "C3;;Zahlung;bob@x.example;04.09.2025 08:00;10,00\nD4;;Auszahlung;;14.09.2025 08:00;-40,00\n"
    )
    assert values == {"A1": 30, "C3": 10}
    assert "1 refund subtracted" in journeys.notes[0]


def test_a_return_of_a_transaction_type_is_a_refund(read):
    values, _ = read(
        "Datum;Bestell-ID;Transaktionstyp;Betrag;E-Mail\n03.09.2025 08:00;A1;Zahlung;50,00;ann@x.example\n"
        "13.09.2025 08:00;A1;Rückgabe;-50,00;ann@x.example\n04.09.2025 08:00;C3;Zahlung;10,00;bob@x.example\n"
    )
    assert values == {"A1": 0, "C3": 10}


def test_what_the_buyer_pays_counts_beside_what_is_left_of_it(read):
    values, _ = read(
        "ID,Date,Email,Gross amount,Net amount\n7,2025-09-03,ann@x.example,50.00,48.50\n"
        "8,2025-09-04,bob@x.example,20.00,19.20\n"
    )
    assert values == {"7": 50, "8": 20}


def test_an_order_counts_with_what_is_paid_and_what_is_left_to_pay(read):
    lines = ["7,50.00,50.00,0.00", "8,20.00,15.00,5.00", "9,70.00,40.00,30.00", "10,35.00,35.00,0.00"]
    rows = [f"{line},2025-09-03,ann@x.example" for line in lines]
    values, _ = read("\n".join(["Order Id,Order Total,Total Paid,Balance,Date,Email", *rows]))
    assert values == {"7": 50, "8": 20, "9": 70, "10": 35}


def test_seconds_since_1970_are_no_kinds(read):
    _, journeys = read(
        "event_id,event_timestamp_ms,purchased_at_ms,email,price\n7,1756886400500,1756886400000,ann@x.example,5\n"
        "8,1756972800500,1756972800000,bob@x.example,6\n"
    )
    assert not any("counted" in note for note in journeys.notes)


def test_refunds_without_ids_are_no_conversions(read):
    _, journeys = read(
        "Typ;E-Mail;Datum;Brutto\nZahlung;ann@x.example;23.09.2025 08:00;50,00\n"
        "Rückzahlung;ann@x.example;24.09.2025 08:00;20,00\n"
    )
    assert len(journeys.events) == 1


@pytest.mark.few(3)
@pytest.mark.parametrize(
    ("status", "counts"),
    [
        ("Unpaid", False), ("nicht bezahlt", False), ("Nieopłacone", False), ("未入金", False), ("Incomplete", False),
        ("返品", False), ("Pending", True), ("Faturada", True), ("Entregue", True), ("新規受付", True),
    ],
)  # fmt: skip
def test_statuses_of_languages(read, status, counts):
    values, journeys = read(
        f"order_id,email,date,total,status\n7,ann@x.example,2025-09-03,12.50,Paid\n8,bob@x.example,2025-09-04,30,{status}\n"
    )
    assert ("8" in values) == counts
    assert counts or f"1 {status} left out" in journeys.notes[0]


def test_a_reason_for_an_end_leaves_its_row_out(read):
    values, _ = read(
        "Verkaufsbeleg;Auftraggeber;Belegdatum;Nettowert;Stornogrund\n7;ann@x.example;03.09.2025;12,50;\n"
        "8;bob@x.example;04.09.2025;30,00;zu teuer\n"
    )
    assert values == {"7": 12.5}


def test_codes_of_statuses_are_told(read):
    lines = "order_id,email,date,total,status\n7,ann@x.example,2025-09-03,12.50,10\n8,bob@x.example,2025-09-04,30,90\n"
    with pytest.warns(InputWarning, match=r"10 in 1, 90 in 1 rows.*statuses=\{'10': False\}"):
        assert read(lines)[0] == {"7": 12.5, "8": 30}
    assert read(lines, statuses={"90": False})[0] == {"7": 12.5}


def test_amounts_that_are_nothing_are_told(read):
    with pytest.warns(
        InputWarning, match=r"2 of 2 conversions in orders.csv have no amount or one of 0 in 'total'"
    ):
        read("order_id,email,date,total\n7,ann@x.example,2025-09-03,0.00\n8,bob@x.example,2025-09-04,\n")


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ("amountNet,amountTotal", 12), ("Wartość zamówienia,Kwota zapłacona", 10), ("小計,支払合計", 12),
        ("Bestellwert,Betrag bezahlt", 10), ("net,gross", 12),
    ],
)  # fmt: skip
def test_the_total_goes_before_the_net_and_the_order_before_the_payment(read, columns, expected):
    values, _ = read(f"order_id,email,date,{columns}\n7,ann@x.example,2025-09-03,10.00,12.00\n")
    assert values == {"7": expected}


def test_two_ways_of_writing_the_same_instants_are_no_doubt(read):
    values, _ = read(
        "order_id,email,erstellt,created,total\n7,ann@x.example,2025-09-03 08:00:00+00:00,1756886400,12.50\n"
    )
    assert values == {"7": 12.5}


def test_a_named_status_counts_though_most_of_its_words_are_not_known(read):
    text = (
        "Référence,Date de commande,E-mail,Total,Statut\n"
        "1,2025-09-03,ann@x.example,10.50,Bon à tirer\n"
        "2,2025-09-04,bob@x.example,20.50,Bleu\n"
        "3,2025-09-05,bob@x.example,40.50,Annulé\n"
        "4,2025-09-06,ann@x.example,80.50,Devis envoyé\n"
        "5,2025-09-07,ann@x.example,160.50,Rouge\n"
    )
    # Cancelled orders and quotations do not count.
    assert read(text)[0] == {"1": 10.5, "2": 20.5, "5": 160.5}


NESTED = {
    "meta": {"created": "2025-09-01"},
    "customers": [{"id": "c1", "name": "Ann"}, {"id": "c2", "name": "Bob"}],
    "orders": [
        {
            "orderNumber": "A-1",
            "customerEmail": "ann@x.example",
            "createdAt": "2025-09-03T08:00:00Z",
            "paymentState": "Paid",
            "totalPrice": {"centAmount": 5000, "currencyCode": "EUR", "fractionDigits": 2},
            "refunds": [{"id": 1, "total": "-12.50"}, {"id": 2, "total": "-2.50"}],
        },
        {
            "orderNumber": "A-2",
            "customerEmail": "bob@x.example",
            "createdAt": "2025-09-04T08:00:00Z",
            "paymentState": "Failed",
            "totalPrice": {"centAmount": 700, "currencyCode": "EUR", "fractionDigits": 2},
            "refunds": [],
        },
    ],
}


def test_of_several_lists_that_of_orders_is_read_less_the_refunds_in_it(read):
    # 50.00 - 12.50 - 2.50; the payment of A-2 failed.
    assert read(json.dumps(NESTED), "orders.json")[0] == {"A-1": 35.0}


def test_two_lists_that_may_be_the_orders_are_refused(read):
    twice = {"a": NESTED["orders"], "b": NESTED["orders"]}
    with pytest.raises(InvalidRequest, match="several lists that may be the conversions: 'a', 'b'"):
        read(json.dumps(twice), "orders.json")


def test_orders_below_their_customers_and_in_xml_are_rows(read):
    row = {"order_id": "7", "date": "2025-09-03T08:00:00Z", "total": "9.50"}
    people = [{"email": "ann@x.example", "orders": [row, {**row, "order_id": "8", "total": "1.00"}]}]
    assert read(json.dumps(people), "orders.json")[0] == {"7": 9.5, "8": 1.0}
    xml = """<?xml version="1.0"?><shop><order nummer="7" status="betald"><kund><email>ann@x.example</email></kund>
    <orderdatum>2025-09-03T08:00:00Z</orderdatum><summa valuta="SEK">1067,49</summa><rader><rad antal="1"/></rader></order>
    <order nummer="8" status="makulerad"><kund><email>bob@x.example</email></kund>
    <orderdatum>2025-09-03T09:00:00Z</orderdatum><summa valuta="SEK">1,00</summa></order></shop>"""
    assert read(xml, "orders.xml")[0] == {"7": 1067.49}


def test_rows_below_the_ids_of_people_have_them(tmp_path):
    clicks = {
        "t": {
            "uid0aa": {"-Oa": {"ts": 1755676800000, "channel": "Search"}},
            "uid1bb": {"-Ob": {"ts": 1755763200000, "channel": "Mail"}},
        }
    }
    (tmp_path / "visits.json").write_text(json.dumps(clicks))
    orders = pd.DataFrame({"order_id": ["1"], "uid": ["uid0aa"], "date": ["2025-09-01"], "total": [5.0]})
    read = at.read_journeys(tmp_path / "visits.json", orders)
    assert read.events["userId"].isin(read.interactions["userId"]).all()


@pytest.mark.few(3)
@pytest.mark.parametrize(
    ("here", "there"),
    [
        (["+46701740605", "+46701740606"], ["070-174 06 05", "070-174 06 06"]),
        (["(202) 555-0143", "(303) 555-0144"], ["+12025550143", "+13035550144"]),
        (["0049 30 1234567", "0049 40 7654321"], ["030/1234567", "040/7654321"]),
        (["+55 11 91234-5678", "+55 21 98765-4321"], ["(11) 91234-5678", "(21) 98765-4321"]),
        (["12025550143", "13035550144"], ["(202) 555-0143", "(303) 555-0144"]),
    ],
)
def test_numbers_of_telephones_are_people_however_they_are_written(here, there):
    clicks = pd.DataFrame({"tel": here, "channel": ["Search", "Mail"], "date": ["2025-08-20", "2025-08-21"]})
    orders = pd.DataFrame(
        {"order_id": ["1"], "Kunde mobil": there[:1], "date": ["2025-09-01"], "total": [5.0]}
    )
    read = at.read_journeys(clicks, orders)
    owner = read.interactions.set_index("nodeId")["userId"]
    assert read.events["userId"].tolist() == [owner["Search"]]
    assert owner["Search"] != owner["Mail"]


BOX = """┌─────────────────┬─────────────────────┬─────────┐
│     account     │     visited_at      │ channel │
│     varchar     │      timestamp      │ varchar │
├─────────────────┼─────────────────────┼─────────┤
│ ann@x.example   │ 2025-08-20 08:00:00 │ Search  │
{}│ bob@x.example   │ 2025-08-21 08:00:00 │ Mail    │
└─────────────────┴─────────────────────┴─────────┘
"""
SPOOL = """SQL> SELECT * FROM c;

ACCOUNT         VISITED_AT           CHANNEL
--------------- -------------------- -------
ann@x.example   2025-08-20 08:00:00  Search

ACCOUNT         VISITED_AT           CHANNEL
--------------- -------------------- -------
bob@x.example   2025-08-21 08:00:00  Mail

2 rows selected.
"""
RECORDS = """-[ RECORD 1 ]-------------------
account    | ann@x.example
visited_at | 2025-08-20 08:00:00
channel    | Search
-[ RECORD 2 ]-------------------
account    | bob@x.example
visited_at | 2025-08-21 08:00:00
channel    | Mail
"""
LINES = """*************************** 1. row ***************************
   account: ann@x.example
visited_at: 2025-08-20 08:00:00
   channel: Search
*************************** 2. row ***************************
   account: bob@x.example
visited_at: 2025-08-21 08:00:00
   channel: Mail
2 rows in set (0.00 sec)
"""


@pytest.mark.parametrize("text", [BOX.format(""), SPOOL, RECORDS, LINES])
def test_printouts_are_read_in_any_frame(text, tmp_path):
    (tmp_path / "visits.txt").write_text(text, encoding="utf-8")
    orders = pd.DataFrame({"email": ["ann@x.example"], "date": ["2025-09-01"], "total": [5.0]})
    read = at.read_journeys(tmp_path / "visits.txt", orders)
    assert read.interactions["nodeId"].tolist() == ["Search", "Mail"]
    assert read.rejected.empty


def test_a_printout_without_some_rows_is_refused(tmp_path):
    (tmp_path / "visits.txt").write_text(
        BOX.format("│       ·         │          ·          │    ·    │\n"), encoding="utf-8"
    )
    orders = pd.DataFrame({"email": ["ann@x.example"], "date": ["2025-09-01"], "total": [5.0]})
    with pytest.raises(InvalidRequest, match="leaves out rows"):
        at.read_journeys(tmp_path / "visits.txt", orders)


def test_the_rows_of_one_payment_are_one_conversion(read):
    head = "Psp Reference,Shopper email,Booking Date,Record Type,Main Amount\n"
    rows = [
        ("P1", "10:00", "Received", 50), ("P1", "10:01", "Authorised", 50), ("P1", "11:00", "SentForSettle", 50),
        ("P1", "12:00", "Settled", 50), ("P2", "10:00", "Received", 20), ("P2", "10:01", "Refused", 20),
        ("P3", "10:00", "Received", 30), ("P3", "10:01", "Authorised", 30), ("P3", "13:00", "Refunded", -5),
    ]  # fmt: skip
    text = "".join(
        f"{id_},ann@x.example,2025-09-03 {at_}:00,{kind},{amount}\n" for id_, at_, kind, amount in rows
    )
    assert read(head + text)[0] == {"P1": 50.0, "P3": 25.0}


def test_a_deal_that_is_neither_won_nor_lost_is_left_out(read):
    text = (
        "deal_id,email,date,amount,stage\n1,ann@x.example,2025-09-03,10,Won\n"
        "2,ann@x.example,2025-09-03,20,Lost\n3,ann@x.example,2025-09-03,40,Negotiation\n"
    )
    assert read(text)[0] == {"1": 10.0}


def test_g249_pending_rows_and_awaited_payments_count(read):
    text = (
        "order_id,email,date,total,{}\n1,ann@x.example,2025-09-03,10,paid\n2,ann@x.example,2025-09-03,20,pending\n"
        "3,ann@x.example,2025-09-03,40,Awaiting payment\n"
    )
    for column in ("payment_status", "status"):
        assert read(text.format(column))[0] == {"1": 10.0, "2": 20.0, "3": 40.0}


def test_of_two_dates_the_creation_counts_and_is_told(read):
    text = (
        "order_id,email,created_at,paid_at,total\n"
        "1,ann@x.example,2025-09-03T08:00:00Z,2025-09-05T08:00:00Z,10\n"
    )
    with pytest.warns(InputWarning, match="the date is created_at, not paid_at"):
        _, journeys = read(text)
    assert journeys.events["eventDate"].dt.day.tolist() == [3]


@pytest.mark.few(3)
@pytest.mark.parametrize(
    ("plain", "later"),
    [
        ("Fecha", "Fecha de pago"),
        ("date_add", "date_in_status"),
        ("Data", "Data płatności"),
        ("Date", "Date de livraison"),
        ("Datum", "Betaaldatum"),
        ("Data", "Data di scadenza"),
        ("Date Scheduled", "Start Time"),
        ("Date", "Check-in Date"),
    ],
)
def test_a_plain_date_goes_before_those_of_what_follows(read, plain, later):
    text = f"order_id,email,{later},{plain},total\n1,ann@x.example,2025-09-13 08:00,2025-09-03,10\n"
    with pytest.warns(InputWarning, match=f"the date is {plain}, not {later}"):
        _, journeys = read(text)
    assert journeys.events["eventDate"].dt.day.tolist() == [3]


@pytest.mark.parametrize("name", ["Fecha de pago", "支払日", "Zahlungsdatum", "Start Time", "paid_at"])
def test_the_only_date_counts_whatever_it_is_of(read, name):
    text = f"order_id,email,{name},total\n1,ann@x.example,2025-09-13,10\n"
    assert read(text)[1].events["eventDate"].dt.day.tolist() == [13]


@pytest.mark.parametrize(
    "asked",
    [
        "How did you hear about us?",
        "Wie sind Sie auf uns aufmerksam geworden?",
        "¿Cómo nos conoció?",
        "Откуда вы о нас узнали?",
        "איך הגעת אלינו?",
        "Hur hörde du talas om oss?",
    ],
)
def test_the_answer_to_a_survey_is_a_source(asked, tmp_path):
    assert evidence.weight("question", asked) > 0
    answers = pd.DataFrame(
        {
            "Timestamp": ["2025-08-20 08:00:00", "2025-08-21 08:00:00", "2025-08-22 08:00:00"],
            "Email Address": ["ann@x.example", "bob@x.example", "eve@x.example"],
            asked: ["Podcast", "A friend", "Podcast"],
            "Rating": ["4", "5", "4"],
        }
    )
    orders = pd.DataFrame({"email": ["ann@x.example"], "date": ["2025-09-01"], "total": [5.0]})
    assert at.read_journeys(answers, orders).interactions["nodeId"].tolist() == [
        "Podcast",
        "A friend",
        "Podcast",
    ]


def test_members_of_a_campaign_are_touchpoints():
    members = pd.DataFrame(
        {
            "Kontakt-ID": ["0035A1", "0035A2", "0035A3"],
            "Kampagnenname": ["Webinar", "Messe", "Webinar"],
            "Datum der ersten Reaktion": ["04.02.2025", "05.02.2025", "24.02.2025"],
        }
    )
    deals = pd.DataFrame({"Kontakt-ID": ["0035A1"], "Schlusstermin": ["25.03.2025"], "Betrag": [5.0]})
    assert at.read_journeys(members, deals).interactions["nodeId"].tolist() == ["Webinar", "Messe", "Webinar"]


def test_japanese_in_euc_is_not_chinese(tmp_path):
    text = "会員番号,日時,参照元,キャンペーン\n7037,2025-08-20 08:00:00,google,指名検索\n7038,2025-08-21 08:00:00,google,新規の会員\n"
    (tmp_path / "visits.csv").write_bytes(text.encode("euc_jp"))
    orders = pd.DataFrame({"会員番号": ["7037"], "date": ["2025-09-01"], "total": [5.0]})
    with pytest.warns(InputWarning, match="read as euc_jp"):
        read = at.read_journeys(tmp_path / "visits.csv", orders)
    assert read.nodes["name"].str.contains("指名検索").any()


def test_refunds_share_the_number_of_the_order_that_counts(read):
    text = (
        "transaction_no,order_no,email,created_at,total\nT1,O1,ann@x.example,2025-09-03T08:00:00Z,50\n"
        "T2,O2,bob@x.example,2025-09-03T09:00:00Z,20\nT3,O1,ann@x.example,2025-09-04T08:00:00Z,-10\n"
    )
    assert read(text)[0] == {"O1": 40.0, "O2": 20.0}


@pytest.mark.parametrize(
    ("name", "level"),
    [
        ("Nome da campanha", "campaign"),
        ("Campagnenaam", "campaign"),
        ("キャンペーン名", "campaign"),
        ("canal.midia", "medium"),
        ("Zdroj", "source"),
        ("유입경로", "source"),
        ("المصدر", "source"),
        ("来源类型", "medium"),
        ("推广计划", "campaign"),
        ("Kampaň", "campaign"),
        ("Кампания", "campaign"),
        ("מקור הגעה", "source"),
        ("Źródło zamówienia", "source"),
        ("Origen del cliente", "source"),
        ("Herkunft der Bestellung", "source"),
        ("订单来源", "source"),
        ("Canal de entrada", "node"),
        ("ym:s:lastsignUTMSource", "source"),
    ],
)
def test_levels_have_names_in_other_languages(name, level):
    assert evidence.names_level(level, name)


def test_visits_and_orders_may_be_two_lists_of_one_file(tmp_path):
    visits = [{"email": "ann@x.example", "timestamp": "2025-08-20T08:00:00Z", "channel": "Search"}]
    orders = [
        {"order_id": "1", "email": "ann@x.example", "created_at": "2025-09-03T08:00:00Z", "total": "5.00"}
    ]
    path = tmp_path / "export.json"
    path.write_text(json.dumps({"visits": visits, "orders": orders}))
    read = at.read_journeys(path, path)
    assert read.interactions["nodeId"].tolist() == ["Search"]
    assert read.events["statistics.revenue"].tolist() == [5.0]


def test_two_amounts_that_agree_are_one(read):
    head = "order_id,email,date,amount authorized,amount submitted for settlement,status\n"
    text = head + "1,ann@x.example,2025-09-03,60.00,60.00,settled\n2,bob@x.example,2025-09-04,50.00,,voided\n"
    assert read(text)[0] == {"1": 60.0}
    with pytest.raises(InvalidRequest, match="two columns that may be the value"):
        read(text.replace("60.00,60.00", "60.00,40.00"))


def test_parameters_without_an_address_tell_where_a_visit_came_from():
    visits = pd.DataFrame(
        {
            "customer": ["ann7", "bob8"],
            "date": ["2025-08-20T08:00:00Z", "2025-08-21T08:00:00Z"],
            "query": [
                "utm_source=google&utm_medium=cpc&utm_campaign=Spring",
                "utm_source=news&utm_medium=email",
            ],
        }
    )
    orders = pd.DataFrame({"customer": ["ann7"], "date": ["2025-09-01"], "total": [5.0]})
    read = at.read_journeys(visits, orders)
    assert read.interactions["nodeId"].tolist() == ["google/cpc/Spring", "news/email"]


def test_a_wide_sign_of_yen_is_one(read):
    assert read('order_id,email,date,total\n1,ann@x.example,2025-09-03,"￥1,200.50"\n')[0] == {"1": 1200.5}


def test_g249_pending_orders_of_known_exports_count(read):
    head = "order_id,date,status,order_total,order_currency,billing_email\n"
    states = ("completed", "on-hold", "pending", "failed")
    lines = [
        f"{at},2025-09-03 08:00:00,{state},{10 * at},GBP,ann@x.example" for at, state in enumerate(states, 1)
    ]
    values, journeys = read(head + "\n".join(lines))
    assert values == {"1": 10, "2": 20, "3": 30}
    assert "1 failed left out, 1 on-hold counted, 1 pending counted" in journeys.notes[0]


STRIPE = [
    {"id": "ch_1", "amount": 4990, "amount_refunded": 990, "currency": "eur", "receipt_email": "ann@x.example",
     "created": "2025-09-03T08:00:00Z", "livemode": True, "payment_intent": "pi_1"},
    {"id": "ch_2", "amount": 4990, "amount_refunded": 0, "currency": "jpy", "receipt_email": "bob@x.example",
     "created": "2025-09-03T08:00:00Z", "livemode": True, "payment_intent": "pi_2"},
]  # fmt: skip


def test_amounts_of_services_of_payments_are_in_minor_units(read):
    values, journeys = read(json.dumps({"object": "list", "data": STRIPE}), "orders.json")
    # 49.90 less 9.90 euros; yen have no minor unit.
    assert values == {"pi_1": 40.0, "pi_2": 4990.0}
    assert "amount is in minor units" in journeys.notes[0]


@pytest.mark.parametrize(("written", "expected"), [("EUR 49,90", 49.9), ("EUR 50,90", 4990.0)])
def test_a_text_with_the_decimals_tells_that_amounts_are_in_minor_units(read, written, expected):
    head = "order_id,email,date,total,currency,description\n"
    lines = [
        f'{at},ann@x.example,2025-09-0{at},{total},EUR,"Plan, {text}"'
        for at, total, text in ((1, 4990, written), (2, 1250, "EUR 12,50"), (3, 990, "EUR 9,90"))
    ]
    assert read(head + "\n".join(lines))[0]["1"] == expected


def test_the_sum_to_pay_goes_before_that_of_the_goods(read):
    head = "注文番号,email,注文日時,商品合計金額,送料合計,請求金額\n"
    assert read(head + "1,ann@x.example,2025-09-03 08:00:00,13495,660,14155\n")[0] == {"1": 14155.0}
    assert evidence.weight("value", "Do zapłaty") > 0
    assert evidence.weight("value", "Bruttowert") > evidence.weight("value", "Nettowert")


ORDERS = {"customer": ["ann7"], "order_date": ["2025-09-01"], "total": [5.0]}


@pytest.mark.parametrize(
    ("visits", "nodes"),
    [
        (
            {
                "customer": ["ann7", "bob8"],
                "installed_at": ["2025-08-20T08:00:00Z", "2025-08-21T08:00:00Z"],
                "network": ["Organic", "Apple Search Ads"],
                "campaign": [None, "Brand"],
            },
            ["Organic", "Apple Search Ads//Brand"],
        ),
        (
            {
                "customer": ["ann7", "bob8"],
                "Scanned At (UTC)": ["2025-08-20 08:00:00", "2025-08-21 08:00:00"],
                "Code Name": ["Poster", "Flyer"],
                "Folder": ["Spring", "Spring"],
            },
            ["Poster", "Flyer"],
        ),
        (
            {
                "customer": ["ann7", "bob8"],
                "How did you hear about us?": ["Podcast", "A friend"],
                "Start Date (UTC)": ["2025-08-20 08:00:00", "2025-08-21 08:00:00"],
                "Submit Date (UTC)": ["2025-08-20 08:03:00", "2025-08-21 08:03:00"],
            },
            ["Podcast", "A friend"],
        ),
    ],
)
def test_what_tells_where_a_person_came_from(visits, nodes):
    read = at.read_journeys(pd.DataFrame(visits), pd.DataFrame(ORDERS)).interactions
    assert read["nodeId"].tolist() == nodes
    minute = 3 if "Submit Date (UTC)" in visits else 0
    assert read["startDate"].dt.strftime("%H:%M").tolist() == [f"08:{minute:02}"] * 2


def test_where_a_library_runs_is_not_a_channel():
    visits = pd.DataFrame(
        {
            "userId": ["ann7", "ann7"],
            "channel": ["client", "client"],
            "type": ["page", "page"],
            "timestamp": ["2025-08-20T08:00:00Z", "2025-08-20T08:01:00Z"],
            "context.campaign.source": ["news", None],
            "context.campaign.medium": ["email", None],
            "context.page.url": ["https://shop.example/", "https://shop.example/docs"],
            "context.page.referrer": [None, "https://shop.example/"],
        }
    )
    read = at.read_journeys(visits, pd.DataFrame({**ORDERS, "customer": ["ann7"]}))
    assert read.interactions["nodeId"].tolist() == ["news/email"]


def test_events_of_a_session_are_one_touchpoint():
    visits = pd.DataFrame(
        {
            "user_id": ["ann7", "ann7"],
            "event_type": ["[Amplitude] Page Viewed"] * 2,
            "event_time": ["2025-08-20 08:00:00", "2025-08-20 08:01:00"],
            "session_id": [1755676800000] * 2,
            "event_properties.[Amplitude] Page Path": ["/", "/pricing"],
            "event_properties.utm_source": ["news", None],
            "event_properties.utm_medium": ["email", None],
            "event_properties.referrer": ["EMPTY", None],
        }
    )
    orders = pd.DataFrame({"user_id": ["ann7"], "order_date": ["2025-09-01"], "total": [5.0]})
    assert at.read_journeys(visits, orders).interactions["nodeId"].tolist() == ["news/email"]


def test_campaigns_belong_to_their_marketing_channel():
    visits = pd.DataFrame(
        {
            "customer": ["ann7", "bob8"],
            "time": ["2025-08-20T08:00:00Z", "2025-08-21T08:00:00Z"],
            "Marketing Channel": ["Paid Search", "Natural Search"],
            "Campaign Name": ["Brand", None],
        }
    )
    spend = pd.DataFrame({"day": ["2025-08-20"], "campaign": ["Brand"], "cost": [3.5]})
    read = at.read_journeys(visits, pd.DataFrame(ORDERS), spend=spend)
    assert read.interactions["nodeId"].tolist() == ["Paid Search/Brand", "Natural Search"]
    assert read.paths().spend["node_id"].tolist() == ["Paid Search/Brand"]


@pytest.mark.parametrize(
    ("columns", "ids"),
    [
        ("Event ID,Order #", ["7,101", "7,102", "7,103"]),
        ("Product ID,Ticket ID", ["7,101", "7,102", "8,103"]),
        ("Opportunity Name,Opportunity ID", ["Ann - New,101", "Ann - New,102", "Bob,103"]),
    ],
)
def test_ids_are_those_of_orders_not_of_what_is_bought(read, columns, ids):
    rows = [f"ann@x.example,2025-09-0{day},{day}0,{each}" for day, each in enumerate(ids, 1)]
    values, _ = read("\n".join([f"email,date,total,{columns}", *rows]))
    assert values == {"101": 10.0, "102": 20.0, "103": 30.0}


@pytest.mark.parametrize(
    "amount", ["payment_fee", "Order units", "Valeur commande", "costs.payment_fee.value"]
)
def test_an_amount_is_no_id(read, amount):
    rows = [f"{day},ann@x.example,2025-09-0{day},0,{day}0" for day in (1, 2, 3)]
    values, _ = read("\n".join([f"id,email,date,{amount},grand_total", *rows]))
    assert values == {"1": 10.0, "2": 20.0, "3": 30.0}


@pytest.mark.parametrize("amount", ["order_value", "Sale"])
def test_equal_amounts_are_not_one_conversion(read, amount):
    rows = [f"ann@x.example,2025-09-0{day},{value}" for day, value in enumerate((50, 70, 50), 1)]
    values, _ = read("\n".join([f"email,date,{amount}", *rows]))
    assert list(values.values()) == [50, 70, 50]


def test_two_ways_of_writing_the_same_amounts_are_no_doubt(read):
    names = "costs.gross.display,costs.gross.major_value"
    values, _ = read(f"id,email,date,{names}\n1,ann@x.example,2025-09-01,£45.00,45.00\n")
    assert values == {"1": 45.0}


def test_rows_without_an_id_beside_a_name_that_repeats_count_as_they_are(read):
    text = (
        "Opportunity Name,email,date,total\nAnn - New,ann@x.example,2025-09-01,10\n"
        "Ann - New,ann@x.example,2025-09-02,20\nBob,bob@x.example,2025-09-02,30\n"
    )
    with pytest.warns(InputWarning, match="rows count without an id, as Opportunity Name repeats"):
        _, journeys = read(text)
    assert sorted(journeys.events["statistics.revenue"]) == [10.0, 20.0, 30.0]


ITEMS = (
    "code,email,date,item,itemPrice,totalPrice\nA,ann@x.example,2025-09-01 10:00,Tea,4.50,12.00\n"
    "A,ann@x.example,2025-09-01 10:00,Mug,7.50,12.00\nB,ann@x.example,2025-09-02 10:00,Tea,4.50,{b}\n"
    "B,ann@x.example,2025-09-02 10:00,Pot,25.50,30.00\nC,bob@x.example,2025-09-03 10:00,Tea,4.50,4.50\n"
)


def test_the_total_that_rows_of_items_repeat_counts_once(read):
    with pytest.warns(InputWarning, match="5 rows of 3 conversions; the totalPrice of each counts once"):
        values, _ = read(ITEMS.format(b="30.00"))
    assert values == {"A": 12.0, "B": 30.0, "C": 4.5}


def test_rows_of_items_with_unlike_totals_are_refused(read):
    with pytest.raises(InvalidRequest, match="2 rows more than distinct values of 'code'"):
        read(ITEMS.format(b="20.00"))


@pytest.mark.parametrize(
    ("made", "changed"),
    [
        ("date_add", "date_upd"),
        ("Дата создания", "Дата изменения"),
        ("Rendelés dátuma", "Utolsó módosítás"),
        ("İşlem Tarihi", "Hakediş Tarihi"),
        ("주문일시", "수정일시"),
        ("Datum objednávky", "Datum změny"),
        ("original_timestamp", "uuid_ts"),
        ("timestamp", "_fivetran_synced"),
        ("created_at", "_airbyte_extracted_at"),
    ],
)
def test_a_date_of_change_goes_behind_that_of_the_order(made, changed):
    assert evidence.weight("date", made) > 0 > evidence.weight("date", changed)


def test_an_id_of_an_event_is_not_a_kind_of_row():
    assert evidence.weight("kind", "event_name") > 0 > evidence.weight("kind", "event_id")


@pytest.mark.parametrize(
    ("gross", "net"),
    [
        ("Valor com impostos", "Valor sem impostos"),
        ("Betrag", "Betrag ohne MwSt"),
    ],
)
def test_an_amount_without_tax_goes_behind_that_with_it(gross, net):
    assert evidence.weight("value", gross) > evidence.weight("value", net)


@pytest.mark.parametrize(
    ("header", "first", "second", "codes"),
    [
        ("Währung", "Euro", "US-Dollar", ["EUR", "USD"]),
        ("Валюта", "грн", "Євро", ["UAH", "EUR"]),
        ("Waluta", "złoty polski", "zł", ["PLN", "PLN"]),
        ("Devise", "Franc suisse", "€", ["CHF", "EUR"]),
        ("通貨", "円", "米ドル", ["JPY", "USD"]),
        ("c9", "Pound Sterling", "Euro", ["GBP", "EUR"]),
        ("Land", "FR", "FR", None),
        ("Stage", "Won", "Won", None),
    ],
)
def test_a_column_of_names_and_signs_is_the_currency(read, header, first, second, codes):
    """Short words are currencies only if their column is called so."""
    text = f"order_id,email,date,total,{header}\n1,ann@x.example,2025-09-01,100,{first}\n2,bob@x.example,2025-09-01,50,{second}\n"
    events = read(text)[1].events
    of_rows = events.get("statistics.revenue.currency")
    assert (None if of_rows is None else of_rows.tolist()) == codes


@pytest.mark.parametrize("word", ["kr", "Dollar", "$"])
def test_a_word_of_several_currencies_is_refused_in_their_column(read, word):
    text = f"order_id,email,date,total,Währung\n1,ann@x.example,2025-09-01,100,{word}\n"
    with pytest.raises(InvalidRequest, match="Währung is not a currency of ISO 4217"):
        read(text)
    assert read(text, currency="SEK")[1].events["statistics.revenue.currency"].tolist() == ["SEK"]


@pytest.mark.parametrize("encoding", ["cp1252", "mac_roman"])
@pytest.mark.parametrize("mark", ["’", "\u00a0"])
def test_an_apostrophe_or_a_blank_between_thousands_tells_the_code_page(read, encoding, mark):
    text = f"id;email;date;total\n1;ann@x.example;2025-09-01 10:00;2{mark}400.00\n2;bob@x.example;2025-09-01 11:00;80.00\n"
    assert read(text.encode(encoding))[0] == {"1": 2400.0, "2": 80.0}


def test_numbers_of_cards_meet_with_and_without_blanks(read):
    visits = "Kart No,Kanal,Tarih\n6034 7700 1311 8803,SMS,03.10.2025 00:45\n6034 7700 1385 8805,App,04.10.2025 00:45\n"
    orders = "No,Sadakat Kart No,Tarih,Tutar\nF1,6034770013118803,08.10.2025 16:21,12.50\nF2,6034-7700-1200-8800,09.10.2025 16:21,2.50\n"
    values, journeys = read(orders, visits=visits)
    assert values == {"F1": 12.5, "F2": 2.5}
    assert journeys.paths().to_pandas()["node_id"].dropna().tolist() == ["SMS"]


def test_columns_may_be_the_names_of_fields_in_xml(read):
    rows = "".join(
        f'<row><field name="id">{n}</field><field name="email">{who}@x.example</field>'
        f'<field name="created_at">2025-09-0{n} 10:00:00</field><field name="total">{n}.50</field>'
        '<field name="note" xsi:nil="true" /></row>'
        for n, who in enumerate(("ann", "bob"), 1)
    )
    text = f'<resultset xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance">{rows}</resultset>'
    assert read(text, name="orders.xml")[0] == {"1": 1.5, "2": 2.5}


@pytest.mark.parametrize(
    ("header", "state", "other", "values"),
    [
        ("Бюджет", "Успешно реализовано", "Закрыто и не реализовано", {"1": 450.0}),
        ("Budget", "Gewonnen", "Verloren", {"1": 450.0}),
        ("Budget", "bezahlt", "storniert", {"1": None}),
    ],
)
def test_the_budget_is_the_value_of_deals_only(tmp_path, header, state, other, values):
    """Of a lead, it is what somebody wrote in a form."""
    (tmp_path / "deals.csv").write_text(
        f"id,email,created at,status,{header},utm_source,utm_medium\n"
        f"1,ann@x.example,2025-09-01 10:00,{state},450,google,cpc\n"
        f"2,bob@x.example,2025-09-02 10:00,{other},800,google,cpc\n"
    )
    events = at.read_journeys(tmp_path / "deals.csv").events
    amounts = events.get("statistics.revenue", pd.Series([None] * len(events)))
    assert dict(zip(events["event.sourceId"], amounts, strict=True)) == values


def test_ids_of_the_sales_of_refunds_are_no_statuses(read, recwarn):
    text = "order_id,type,created_at,email,amount,refunded_transaction_id\n" + "".join(
        f"b{n},{kind},2025-09-0{n}T08:00:00Z,ann@x.example,{amount},{of}\n"
        for n, kind, amount, of in (
            (1, "sale", "9.50", ""),
            (2, "sale", "8.50", ""),
            (3, "credit", "8.50", "b2"),
        )
    )
    assert sum(read(text)[0].values()) == 9.5
    assert not any("do not say which rows are paid" in str(each.message) for each in recwarn)


SUMS = [
    "Date,Session source / medium,Sessions,Transactions,Purchase revenue",
    "Tag,Quelle,Sitzungen,Transaktionen,Umsatz",
    "Fecha,Fuente,Sesiones,Compras,Ingresos",
]


@pytest.mark.parametrize("header", SUMS)
def test_sums_by_day_and_source_have_no_people(header, tmp_path):
    rows = [
        (day, source, 90 + day, day % 3, f"{day}.50")
        for day in range(3, 9)
        for source in ("google / cpc", "x / email")
    ]
    text = "\n".join([header, *(f"2025-03-0{day},{','.join(map(str, of))}" for day, *of in rows)])
    (tmp_path / "report.csv").write_text(text + "\n", encoding="utf-8")
    with pytest.raises(InvalidRequest, match="one row per visit or contact"):
        at.read_journeys(tmp_path / "report.csv")


def test_addresses_of_networks_are_people_only_if_someone_says_so(tmp_path):
    visits, orders = tmp_path / "log.csv", tmp_path / "orders.csv"
    visits.write_text(
        "at,link,ip_address\n2025-08-20 08:00,bio,198.51.100.20\n2025-08-21 08:00,flyer,198.51.100.21\n"
    )
    orders.write_text("id,ip,total,date\n1,198.51.100.20,5.50,2025-09-03\n2,198.51.100.21,6.50,2025-09-04\n")
    with pytest.raises(InvalidRequest, match="only IP addresses") as refused:
        at.read_journeys(visits, orders)
    named = {"user": "ip_address", "conversion_user": "ip"}
    assert str(named) in str(refused.value)
    journeys = at.read_journeys(visits, orders, reading=at.Reading(columns=named))
    assert len(journeys.users) == 2
