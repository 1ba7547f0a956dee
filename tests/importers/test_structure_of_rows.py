"""What rows tell by their structure: lines of orders, taxes, codes, negations, and the person that meets most."""

import json

import pandas as pd
import pytest

import attrib_ds as at
from attrib_ds import scratch
from attrib_ds.errors import InvalidRequest, RejectedRows
from attrib_ds.importers.content.rows import class_of
from attrib_ds.importers.reading import Reading
from attrib_ds.importers.tables.own_table import OwnTable

pytestmark = pytest.mark.filterwarnings("ignore::attrib_ds.errors.InputWarning")

VISITS = "email,time,source,medium,campaign\nann@x.example,2025-08-20,google,cpc,Spring\nbob@x.example,2025-08-21,meta,paid,\n"
#: Order, email and day of three orders.
ORDERS = ("7,ann@x.example,2025-09-03", "8,bob@x.example,2025-09-14", "9,ann@x.example,2025-09-25")


@pytest.fixture
def read(tmp_path):
    """Read conversions from text beside visits and spend; return values by id, and the journeys."""

    def read_text(orders, visits=VISITS, spend=None, **options):
        paths = {}
        for name, text in {"visits.csv": visits, "orders.csv": orders, "spend.csv": spend}.items():
            if text is not None:
                paths[name] = tmp_path / name
                paths[name].write_text(text, encoding="utf-8")
        given = {} if spend is None else {"spend": paths["spend.csv"]}
        journeys = at.read_journeys(paths["visits.csv"], paths.get("orders.csv"), **given, **options)
        amount = next(name for name in journeys.events if name.startswith("statistics.revenue"))
        return dict(zip(journeys.events["event.sourceId"], journeys.events[amount], strict=True)), journeys

    return read_text


def last_touches(journeys):
    """Return the value of each last touch before a conversion."""
    credits = at.attribute(journeys.paths(), "last_touch").dropna(subset="node_id")
    return credits[credits["value"] > 0].set_index("node_id")["value"].to_dict()


def table(header, *rows):
    return "\n".join([header, *rows])


@pytest.mark.parametrize(
    ("word", "state"),
    [
        ("niet betaald", "unpaid"), ("non payé", "unpaid"), ("Не проведён", "unpaid"), ("Unpaid", "unpaid"),
        ("ei maksettu", "unpaid"), ("未払い", "unpaid"), ("Not shipped", "pending"), ("not refunded", "done"),
        ("Invoice paid", "done"), ("Order complete", "done"), ("Paid, not shipped", "pending"),
        ("Partially reversed", "partly refunded"), ("Delvis återbetald", "partly refunded"),
    ],
)  # fmt: skip
def test_a_denied_state_is_its_opposite(word, state):
    assert class_of("status", word) == state


@pytest.mark.parametrize(
    ("header", "yes", "no", "count"),
    [
        ("Проведён", "Да", "Нет", 2),
        ("Bezahlt", "ja", "nein", 2),
        ("paid", "1", "0", 2),
        ("Shipped", "yes", "no", 3),
    ],
)
def test_columns_of_yes_and_no_are_named_by_a_state(read, header, yes, no, count):
    rows = [f"{order},10,{answer}" for order, answer in zip(ORDERS, (yes, no, yes), strict=True)]
    values, _ = read(table(f"order_id,email,date,total,{header}", *rows))
    assert len(values) == count


class TestLines:
    HEADER = "order_id,email,date,product,amount"
    LINES = (
        "7,ann@x.example,2025-09-03,cup,10.50", "7,ann@x.example,2025-09-03,dish,20.00",
        "8,bob@x.example,2025-09-14,cup,10.50",
    )  # fmt: skip

    def test_lines_of_other_products_are_added_up(self, read):
        values, journeys = read(table(self.HEADER, *self.LINES))
        assert values == {"7": 30.5, "8": 10.5}
        assert "3 rows of 2 conversions, whose lines are added up" in journeys.notes[0]

    def test_a_total_that_lines_repeat_counts_once(self, read):
        orders = zip(ORDERS, ("30.50", "12.25", "99.00"), strict=True)
        rows = [f"{order},{each},{total}" for order, total in orders for each in ("cup", "dish")]
        values, _ = read(table("order_id,email,date,product,amount", *rows))
        assert values == {"7": 30.5, "8": 12.25, "9": 99.0}

    @pytest.mark.parametrize(
        ("columns", "first", "other", "total"),
        [
            ("SKU Selling Price,SKU Total Price,Shipping Value,Total Value", "10,10,4,34", "20,20,4,34", 34),
            ("Line amount,Total,Shipping", "10,34,4", "20,34,4", 34),
            ("Amount,Order Total,Versand,MwSt", "10,41,4,7", "20,41,4,7", 41),
            ("Amount,Discount,Shipping,Order Total", "10,5,4,29", "20,5,4,29", 29),
            ("Amount,Total Value,Shipping", "10,34,4", "20,34,0", 34),
            ("Line price,Order amount,Shipping,Total", "10,30,4,34", "20,30,4,34", 34),
            ("Line amount,Total,Shipping", "10,11,4", "20,22,4", 33),
        ],
    )
    def test_a_total_with_shipping_goes_before_the_sum_of_its_lines(self, read, columns, first, other, total):
        rows = [f"{ORDERS[0]},cup,{first}", f"{ORDERS[0]},dish,{other}"]
        text = table(f"order_id,email,date,product,{columns}", *rows)
        assert read(text)[0] == {"7": total}

    def test_amounts_of_lines_are_what_is_added_up_by_choice(self, read):
        rows = [f"{ORDERS[0]},cup,10,4,34", f"{ORDERS[0]},dish,20,4,34"]
        text = table("order_id,email,date,product,Amount,Shipping,Total Value", *rows)
        assert read(text, reading=Reading(aggregate=True))[0] == {"7": 30}

    def test_a_row_that_stands_twice_counts_once(self, read):
        values, journeys = read(table(self.HEADER, self.LINES[2], self.LINES[2]))
        assert values == {"8": 10.5}
        assert "2 rows of 1 conversion; the amount of each counts once" in journeys.notes[0]

    def test_lines_with_ids_of_their_own_need_one_order_whose_amounts_differ(self, read):
        header = "order_id,email,date,ticket,amount"
        alike = ("7,ann@x.example,2025-09-03,T1,35", "7,ann@x.example,2025-09-03,T2,35")
        other = ("8,bob@x.example,2025-09-14,T3,35", "8,bob@x.example,2025-09-14,T4,22.50")
        assert read(table(header, *alike, *other))[0] == {"7": 70.0, "8": 57.5}
        with pytest.raises(InvalidRequest, match="aggregate the rows of a conversion"):
            read(table(header, *alike))

    def test_lines_of_one_status_with_ids_of_their_own_are_no_states(self, read):
        tickets = ("7,ann@x.example,2025-09-03,T1,10.50,paid", "7,ann@x.example,2025-09-03,T2,10.50,paid")
        text = table("order_id,email,date,ticket,amount,status", *tickets)
        with pytest.raises(InvalidRequest, match="aggregate the rows of a conversion"):
            read(text)
        assert read(text, reading=at.Reading(aggregate=True))[0] == {"7": 21.0}

    @pytest.mark.parametrize(
        "rows",
        [
            [
                f"{line},9"
                for line in ("7,ann@x.example,2025-09-03,cup,10.50", "7,bob@x.example,2025-09-03,cup,10.50")
            ],
            ["7,ann@x.example,2025-09-03,cup,10.50,9", "7,ann@x.example,2025-09-23,dish,20.00,9"],
        ],
    )
    def test_rows_of_other_people_or_days_are_refused(self, read, rows):
        with pytest.raises(InvalidRequest, match="more than distinct values of 'order_id'"):
            read(table(f"{self.HEADER},shop", *rows))

    def test_a_price_beside_quantities_may_be_that_of_a_piece(self, read):
        rows = [f"{line},{count}" for line, count in zip(self.LINES, (2, 1, 3), strict=True)]
        with pytest.raises(InvalidRequest, match="may be the price of a line or of a piece, beside 'Menge'"):
            read(table("order_id,email,date,product,Preis,Menge", *rows))
        values, _ = read(table("order_id,email,date,product,Einzelpreis,Menge", *rows))
        assert values == {"7": 41.0, "8": 31.5}


@pytest.mark.parametrize(
    ("net", "tax"), [("Beløb ekskl. moms", "Moms"), ("Kwota netto", "Podatek"), ("first", "second")]
)
def test_a_column_at_a_rate_of_tax_is_no_amount(read, net, tax):
    rows = [
        f"{order},{amount}"
        for order, amount in zip(ORDERS, ("80.00,20.00", "124.40,31.10", "9.60,2.40"), strict=True)
    ]
    values, _ = read(table(f"order_id,email,date,{net},{tax}", *rows))
    assert values == {"7": 80.0, "8": 124.4, "9": 9.6}


def test_two_amounts_without_a_relation_are_refused(read):
    rows = [
        f"{order},{amount}"
        for order, amount in zip(ORDERS, ("84.10,121.35", "230.00,77.90", "15.25,64.00"), strict=True)
    ]
    with pytest.raises(InvalidRequest, match="may be the value, 'order_value' and 'order_amount'"):
        read(table("order_id,email,date,order_value,order_amount", *rows))


@pytest.mark.parametrize(
    ("header", "cell", "value", "currency"),
    [
        ("Total (JPY)", '"1,500"', 1500.0, "JPY"),
        ("Total (JPY)", '"1,500.00"', 1500.0, "JPY"),
        ("Сума, грн", '"1 250,50"', 1250.5, "UAH"),
    ],
)
def test_the_currency_in_a_header_tells_how_amounts_are_read(read, header, cell, value, currency):
    values, journeys = read(table(f'order_id,email,date,"{header}"', f"{ORDERS[0]},{cell}"))
    assert values == {"7": value}
    assert journeys.events["statistics.revenue.currency"].tolist() == [currency]


def test_a_header_with_two_currencies_is_refused_unless_the_user_says_which(read):
    orders = table("order_id,email,date,Total USD (EUR)", f"{ORDERS[0]},12.50")
    with pytest.raises(
        InvalidRequest, match="names several currencies; say with currency='EUR' or currency='USD'"
    ):
        read(orders)
    assert read(orders, currency="USD")[1].events["statistics.revenue.currency"].tolist() == ["USD"]


def test_numbers_without_decimals_show_that_others_have_thousands(read):
    values, _ = read(table("order_id,email,date,total", f'{ORDERS[0]},"2,400"', f"{ORDERS[1]},800"))
    assert values == {"7": 2400.0, "8": 800.0}
    with pytest.raises(InvalidRequest, match="'2,401' may be in thousands or have three decimals"):
        read(table("order_id,email,date,total", f'{ORDERS[0]},"2,401"', f"{ORDERS[1]},800"))


@pytest.mark.parametrize(("sign", "mark"), [("₪", ","), ("€", "."), ("$", ",")])
def test_amounts_with_a_sign_have_no_three_decimals(read, sign, mark):
    def written(sign, *amounts):
        rows = [f'{order},"{sign}{amount}"' for order, amount in zip(ORDERS, amounts, strict=False)]
        return table("order_id,email,date,total", *rows)

    amounts = (f"24{mark}501", f"6{mark}250")
    assert read(written(sign, *amounts))[0] == {"7": 24501.0, "8": 6250.0}
    # Dinars have a thousand fils.
    for unclear in (("BHD ", *amounts), ("dinar ", *amounts), (sign, "24.501", "6,250")):
        with pytest.raises(InvalidRequest, match="may be in thousands or have three decimals"):
            read(written(*unclear))


def test_the_table_of_a_report_stands_below_a_short_one(read):
    orders = [f"{at},ann@x.example,2025-09-14,{at}.5" for at in range(7, 15)]
    rows = table("order_id,email,date,total", *orders)
    expected = {str(at): at + 0.5 for at in range(7, 15)}
    summary = "Topic,Id,Registered\nSpring,824,3\n"
    for above in (f"Report\n{summary}Details\n", f"{summary}\n", "Account,123\nHolder,Ann\n\n"):
        assert read(above + rows)[0] == expected
    # A cell too many in one row, and a short table below, change nothing.
    longer = rows.replace("\n8,", "\n8,8,")
    with pytest.warns(RejectedRows, match="5 cells where the header has 4"):
        assert read(f"{longer}\n\nTotal,rows\n8.0,4\n")[0].keys() == {*expected} - {"8"}


def test_a_sheet_saved_as_a_page_has_letters_above_and_numbers_beside(read):
    header, *rows = table("order_id,email,date,total", *(f"{order},9.5" for order in ORDERS)).split("\n")
    lines = [",A,B,C,D", f"1,{header}", *(f"{at},{row}" for at, row in enumerate(rows, start=2))]
    cells = "".join(f"<tr><th>{'</td><td>'.join(line.split(','))}</td></tr>" for line in lines)
    assert read(f"<table>{cells}</table>")[0] == {"7": 9.5, "8": 9.5, "9": 9.5}


def test_dollars_beside_dates_that_begin_with_the_month_are_american(read):
    rows = ('7,ann@x.example,9/28/2025,"$1,200.00"', "8,bob@x.example,9/3/2025,$80.50")
    _, journeys = read(table("order_id,email,date,total", *rows))
    assert journeys.events["statistics.revenue.currency"].tolist() == ["USD", "USD"]
    assert "amounts in $ are read as USD" in journeys.notes[0]


def test_lines_above_a_header_are_said(read):
    rows = table("Totals are in CHF or EUR", "order_id,email,date,total", f"{ORDERS[0]},10")
    _, journeys = read(rows, currency="CHF")
    assert "1 line above the header left out, such as 'Totals are in CHF or EUR'" in journeys.notes[0]


def test_text_below_the_rows_may_leave_the_currency_open(read):
    rows = [f"{order},{number}.50" for number, order in enumerate(ORDERS)]
    for note in ("All sums are in PLN or EUR", "All sums are in PLN or EUR,,,"):
        orders = table("order_id,email,date,total", *rows, note)
        with pytest.raises(
            InvalidRequest, match="the text around the rows .* currency='PLN' or currency='EUR'"
        ):
            read(orders)
        _, journeys = read(orders, currency="PLN")
        assert "1 note below the table left out, such as 'All sums are in PLN or EUR'" in journeys.notes[0]


def test_a_credit_beside_sales_is_a_refund(read):
    rows = [f"{order},{kind},{5 + at}.50,{of}" for at, (order, kind, of) in
            enumerate(zip(ORDERS, ("sale", "sale", "credit"), ("", "", "7"), strict=True))]  # fmt: skip
    assert read(table("txn id,email,date,type,total,first txn", *rows))[0] == {"7": -2.0, "8": 6.5}


def test_an_amount_given_back_is_known_by_the_words_of_its_kind(read):
    rows = [f"{order},20.50,{back}" for order, back in zip(ORDERS, ("0.00", "4.50", "0.00"), strict=True)]
    values, _ = read(table("order_id,email,date,total,Teruggestort totaal", *rows))
    assert values == {"7": 20.5, "8": 16.0, "9": 20.5}
    assert read(table("order_id,email,date,total,Chargeback fee", *rows))[0]["8"] == 20.5


def test_the_state_of_an_order_is_not_its_source(read):
    rows = [f"{order},10.50,{word},{state}" for order, word, state in
            zip(ORDERS, ("Google", "Facebook", "Google"), ("Paid", "Shipped", "Paid"), strict=True)]  # fmt: skip
    _, journeys = read(
        None, visits=table("order_id,email,date,total,Where did you find us?,Order step", *rows)
    )
    assert {"Google", "Facebook"} <= {*journeys.nodes["name"]}


def test_mails_that_nobody_saw_are_no_touchpoints(read):
    clicks = table("email,time,event_type,mailing", "ann@x.example,2025-08-20,email_clicked,May",
                   "ann@x.example,2025-08-29,email_sent,June", "bob@x.example,2025-08-30,email_opened,June")  # fmt: skip
    _, journeys = read(table("order_id,email,date,total", f"{ORDERS[0]},10.50"), visits=clicks)
    assert last_touches(journeys) == {"May": 10.5}
    assert "events of mails that nobody saw left out: email_sent" in journeys.notes[0]


def test_rows_of_a_test_mode_do_not_count(read):
    rows = [f"{order},{mode},10.50" for order, mode in zip(ORDERS, ("LIVE", "TEST", "LIVE"), strict=True)]
    assert read(table("order_id,email,date,Mode,total", *rows))[0] == {"7": 10.5, "9": 10.5}


def test_a_total_with_its_tax_goes_before_the_goods(read):
    rows = [f"{order},{20 + number}.50,4.00,{24 + number}.50" for number, order in enumerate(ORDERS)]
    values, _ = read(table("order_id,email,date,total_goods_wt,total_postage,total_paid_tax_incl", *rows))
    assert values == {"7": 24.5, "8": 25.5, "9": 26.5}


def test_a_list_of_one_word_is_the_word_and_an_empty_list_is_nothing(read):
    visits = [
        {"email": f"{who}@x.example", "time": "2025-08-20T10:00:00Z", "groups": [], "labels": [word]}
        for who, word in (("ann", "spring"), ("bob", "summer"), ("cas", "spring"))
    ]
    _, journeys = read(table("order_id,email,date,total", f"{ORDERS[0]},10.50"), visits=json.dumps(visits))
    assert last_touches(journeys) == {"spring": 10.5}


def test_links_of_mails_are_no_pages_and_counts_have_no_zone(read):
    """1756722600 is 2025-09-01 10:30 in UTC, wherever the reader lived."""
    clicks = [
        {"email": f"{who}@x.example", "time": 1756722600 + at, "timezone": "Europe/Paris", "campaign_name": name,
         "url": "https://shop.example/sale"}
        for at, (who, name) in enumerate((("ann", "May"), ("bob", "June"), ("ann", "June")))
    ]  # fmt: skip
    _, journeys = read(table("order_id,email,date,total", f"{ORDERS[0]},10.50"), visits=json.dumps(clicks))
    assert last_touches(journeys) == {"June": 10.5}
    assert f"{journeys.interactions['startDate'].min():%d %H:%M}" == "01 10:30"


def test_deals_count_at_their_end_and_open_ones_do_not(read):
    rows = (
        "D-1,ann@x.example,Vendida,01/08/2025,14/09/2025,10",
        "D-2,bob@x.example,Em andamento,02/08/2025,,20",
    )
    values, journeys = read(table("id,email,Estado,Data de criação,Data de fechamento,Valor", *rows))
    assert values == {"D-1": 10.0}
    assert f"{journeys.events['eventDate'][0]:%Y-%m-%d}" == "2025-09-14"


def test_a_log_of_states_has_one_order_at_its_first_instant(read):
    rows = ("1,7,created,2025-09-01 10:00", "2,7,paid,2025-09-01 10:05", "3,8,created,2025-09-02 10:00",
            "4,8,cancelled,2025-09-02 11:00")  # fmt: skip
    orders = table(
        "log_id,order_id,status,changed_at,email,total", *(f"{row},ann@x.example,120" for row in rows)
    )
    values, journeys = read(orders)
    assert values == {"7": 120.0}
    assert f"{journeys.events['eventDate'][0]:%H:%M}" == "10:00"


def test_codes_that_tell_rows_apart_are_their_ids(read):
    rows = [f"{order.replace('7,', 'A-7,')},10.50" for order in ORDERS]
    values, _ = read(table("Buchungszeichen,email,date,total", *rows))
    assert [*values] == ["A-7", "8", "9"]


def test_credit_notes_reduce_the_invoice_that_they_name(read):
    rows = ("F-1,Fatura,,ann@x.example,2025-09-03,100", "N-1,Nota de crédito,F-1,ann@x.example,2025-09-05,30")
    values, _ = read(table("Documento,Tipo,Doc. origem,email,date,Total c/ IVA", *rows))
    assert values == {"F-1": 70.0}


@pytest.mark.parametrize(
    ("refunded", "expected"), [(1250, {"ch_2": 80.0}), (250, {"ch_1": 10.0, "ch_2": 80.0})]
)
def test_a_flag_of_refund_leaves_out_what_was_given_back_whole(tmp_path, refunded, expected):
    beside = {"currency": "eur", "livemode": True, "customer": "ann@x.example", "created": 1756900000}
    charges = [
        {"id": "ch_1", "amount": 1250, "amount_refunded": refunded, "refunded": True, **beside},
        {"id": "ch_2", "amount": 8000, "amount_refunded": 0, "refunded": False, **beside},
    ]
    (tmp_path / "visits.csv").write_text(VISITS, encoding="utf-8")
    (tmp_path / "charges.json").write_text(json.dumps({"object": "list", "data": charges}))
    events = at.read_journeys(tmp_path / "visits.csv", tmp_path / "charges.json").events
    assert dict(zip(events["event.sourceId"], events["statistics.revenue.amount"], strict=True)) == expected


def test_people_are_those_of_the_columns_that_meet_most():
    at_time, count = "2025-09-03 10:00", 20
    visits = pd.DataFrame(
        {
            "user_id": range(1, 21),
            "mail": [f"p{n}@x.example" for n in range(count)],
            "date": at_time,
            "source": "google",
        }
    )
    # One of twenty numbers of customers is a number of visitors by chance.
    orders = pd.DataFrame(
        {
            "order_id": range(count),
            "user_id": range(20, 40),
            "contact": visits["mail"],
            "date": "2025-09-05",
            "total": 5,
        }
    )
    journeys = at.read_journeys(visits, orders)
    assert (journeys.columns["touchpoints"]["user"], journeys.columns["conversions"]["user"]) == (
        "mail",
        "contact",
    )


def test_publishers_and_placements_are_below_their_network(read):
    visits = "device,time,network,publisher,placement\nd1,2025-08-20,awin,blog-a,top\nd2,2025-08-21,awin,blog-b,foot\n"
    _, journeys = read(
        table("order_id,device,date,total", "7,d1,2025-09-03,10", "8,d2,2025-09-04,20"), visits=visits
    )
    assert {"awin/blog-a/top", "awin/blog-b/foot"} <= {*journeys.nodes["_id"]}


class TestOneFile:
    TOUCH = {"utm_source": "google", "utm_medium": "cpc"}

    def last_touches(self, path):
        return last_touches(at.read_journeys(path))

    def test_events_of_purchases_are_conversions(self, tmp_path):
        rows = [
            {"event": "pageview", "time": "2025-08-01T08:00:00Z", "user": "u1", **self.TOUCH},
            {
                "event": "purchase",
                "time": "2025-08-01T09:00:00Z",
                "user": "u1",
                "order_id": "O-1",
                "revenue": 9.5,
            },
        ]
        (tmp_path / "events.jsonl").write_text("\n".join(map(json.dumps, rows)))
        assert self.last_touches(tmp_path / "events.jsonl") == {"google/cpc": 9.5}

    def test_a_file_has_a_list_of_each(self, tmp_path):
        whole = {
            "visits": [{"id": "a1", "time": "2025-08-01T08:00:00Z", "contact": "c1", **self.TOUCH}],
            "orders": [{"number": "N1", "time": "2025-08-02T08:00:00Z", "contact": "c1", "total": 9.5}],
        }
        (tmp_path / "dump.json").write_text(json.dumps(whole))
        assert self.last_touches(tmp_path / "dump.json") == {"google/cpc": 9.5}

    def test_orders_have_lists_of_their_touches(self, tmp_path):
        touches = [
            {"at": f"2025-08-0{day}T08:00:00Z", "source": name, "medium": "cpc"}
            for day, name in ((1, "bing"), (2, "google"))
        ]
        order = {
            "order_id": "N1",
            "ordered_at": "2025-08-05T08:00:00Z",
            "customer_email": "a@x.example",
            "total": 9.5,
        }
        (tmp_path / "orders.json").write_text(json.dumps([{**order, "touches": touches}]))
        assert self.last_touches(tmp_path / "orders.json") == {"google/cpc": 9.5}

    def test_a_click_stands_beside_its_sale(self, tmp_path):
        rows = table(
            "transaction,click_time,sale_time,customer,publisher,sale_amount",
            "T1,2025-08-01 08:00,2025-08-01 09:00,c1,blog,9.50",
        )
        (tmp_path / "sales.csv").write_text(rows)
        assert self.last_touches(tmp_path / "sales.csv") == {"blog": 9.5}


def test_spend_has_a_column_for_each_month(read):
    orders = table("order_id,email,date,total", f"{ORDERS[0]},10")
    visits = "email,time,channel\nann@x.example,2025-08-20,google\nbob@x.example,2025-08-21,meta\n"
    _, journeys = read(
        orders, visits, "channel;July 2025;August 2025\ngoogle;100,00;200,50\nmeta;50,00;70,00\n"
    )
    assert journeys.spend.groupby("node_id")["spend"].sum().to_dict() == {"google": 300.5, "meta": 120.0}


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("written", "at_hour"),
    [
        ("3.9.2025 klo 9.05", 9), ("3.9.2025 г. 19:30", 19), ("13/9/2025 5:30 μ.μ.", 17),
        ("13/9/2025 12:20 π.μ.", 0), ("13/9/2025 4:00 π.μ.", 4), ("13/9/2025 5:30 ΜΜ", 17),
    ],
)  # fmt: skip
def test_languages_have_their_own_words_beside_a_clock(read, written, at_hour):
    _, journeys = read(table("order_id;email;date;total", f"7;ann@x.example;{written};10"))
    assert journeys.events["eventDate"].dt.hour.tolist() == [at_hour]


def test_a_named_date_that_cannot_be_read_is_shown(read):
    expected = (
        "'soon' in the column 'Дата' of orders.csv cannot be read as a date; write dates as '2025-01-31'"
    )
    with pytest.raises(InvalidRequest, match=expected):
        read(table("order_id,email,Дата,total", "7,ann@x.example,soon,10"))
    with pytest.raises(InvalidRequest, match="'soon' in the column 'Sale day'"):
        read(table("order_id,email,Sold For,Sale day", "7,ann@x.example,$10.00,soon"))


@pytest.mark.parametrize(
    "contact", ["Ann Lee <Ann@x.example>", "Lee, Ann (ann@x.example)", "<ann@x.example>"]
)
def test_an_address_beside_a_name_is_the_person(read, contact):
    _, journeys = read(table("order_id;Customer;date;total", f"7;{contact};2025-09-03;10"))
    assert last_touches(journeys) == {"google/cpc/Spring": 10.0}


def test_braces_and_case_of_a_guid_do_not_count(read):
    guid = "6f9619ff-8b86-d011-b42d-00c04fc964ff"
    visits = f"CustomerGuid,time,channel\n{guid},2025-08-20,Search\n"
    orders = table("order_id,CustomerGuid,date,total", f"7,{{{guid.upper()}}},2025-09-03,10")
    assert last_touches(read(orders, visits)[1]) == {"Search": 10.0}


@pytest.mark.parametrize("offer", ["Angebot", "Quote", "Devis", "Proforma invoice", "Lieferschein"])
def test_offers_beside_invoices_are_left_out(read, offer):
    rows = [f"{order},{kind},10" for order, kind in zip(ORDERS, ("Rechnung", offer, "Rechnung"), strict=True)]
    values, journeys = read(table("order_id,email,date,Art,total", *rows))
    assert [*values] == ["7", "9"]
    assert f"1 {offer} left out" in journeys.notes[0]


def test_special_offers_are_a_category_of_sales(read):
    rows = [
        f"{order},{kind},10" for order, kind in zip(ORDERS, ("Angebot", "Neuheit", "Neuheit"), strict=True)
    ]
    assert len(read(table("order_id,email,date,category,total", *rows))[0]) == 3


@pytest.mark.parametrize("name", ["default_channel", "Enquiry Source", "Kontaktweg"])
def test_a_word_before_a_level_does_not_hide_it(read, name):
    visits = f"email,time,{name}\nann@x.example,2025-08-20,Walk-in\nbob@x.example,2025-08-21,Radio\n"
    _, journeys = read(table("order_id,email,date,total", f"{ORDERS[0]},10"), visits)
    assert last_touches(journeys) == {"Walk-in": 10.0}


@pytest.mark.parametrize("name", ["data_source", "payment_channel"])
def test_a_level_of_something_else_is_no_channel(read, name):
    visits = f"email,time,{name}\nann@x.example,2025-08-20,Walk-in\nbob@x.example,2025-08-21,Radio\n"
    with pytest.raises(InvalidRequest, match="no column that looks like the node"):
        read(table("order_id,email,date,total", f"{ORDERS[0]},10"), visits)


def test_the_last_word_of_a_name_is_the_currency_of_its_amounts(read):
    _, journeys = read(table("order_id,email,date,GrossGBP", f"{ORDERS[0]},10.50"))
    assert journeys.events["statistics.revenue.currency"].tolist() == ["GBP"]


def test_times_of_six_digits_beside_days_are_no_ids(read):
    visits = "KDNR|DATUM|ZEIT|KANAL\n00041|20250903|080000|Mail\n00041|20250903|120000|Messe\n"
    rows = ("0815|RECHNUNG|20250903|93000|00041|1.234,50", "0815|GUTSCHRIFT|20250909|100000|00041|234,50-")
    values, journeys = read(table("AUFTRNR|BELEGART|DATUM|ZEIT|KDNR|BETRAG", *rows), visits)
    assert values == {"0815": 1000.0}
    assert last_touches(journeys) == {"Mail": 1000.0}


def test_the_order_of_a_transaction_is_dated_by_its_sale(tmp_path):
    header = (
        "Transaction ID,Order Reference,Click Date,Transaction Date,Publisher Name,Customer ID,Sale Amount"
    )
    rows = ("881,W-1,2025-07-01 09:00,2025-07-04 18:00,Blog,51,100.00", "882,W-2,2025-07-02 10:00,2025-07-02 11:00,Club,52,5.50")  # fmt: skip
    (tmp_path / "sales.csv").write_text(table(header, *rows))
    events = at.read_journeys(tmp_path / "sales.csv").events
    assert dict(zip(events["event.sourceId"], events["eventDate"].dt.day, strict=True)) == {
        "W-1": 4,
        "W-2": 2,
    }


def test_the_last_of_two_touches_is_next_to_its_deal(tmp_path):
    header = "lead_id,email,first_touch_source,first_touch_date,last_touch_source,last_touch_date,won_date,deal_value"
    rows = ("L1,a@x.example,Google,2025-01-10,Fair,2025-02-01,2025-02-10,50", "L2,b@x.example,Mail,2025-01-11,Radio,2025-02-02,2025-02-11,60")  # fmt: skip
    (tmp_path / "leads.csv").write_text(table(header, *rows))
    assert {*at.read_journeys(tmp_path / "leads.csv").interactions["nodeId"]} == {"Fair", "Radio"}


def test_people_have_lists_of_visits_and_of_orders(tmp_path):
    def visit(day, source):
        return {"at": f"2025-11-{day:02}T10:00:00Z", "utm_source": source, "utm_medium": "cpc"}

    order = {"number": "H1", "placed_at": "2025-11-03T09:00:00Z", "total": 12.9}
    people = [
        {"id": "p1", "email": "ann@x.example", "visits": [visit(1, "google")], "orders": [order]},
        {"id": "p2", "email": "bob@x.example", "visits": [visit(2, "bing"), visit(4, "meta")], "orders": []},
        {
            "id": "p3",
            "email": "cy@x.example",
            "visits": [],
            "orders": [{**order, "number": "H2", "total": 5}],
        },
    ]
    for name, whole in (("people.json", {"people": people}), ("list.json", people)):
        (tmp_path / name).write_text(json.dumps(whole))
        journeys = at.read_journeys(tmp_path / name)
        assert len(journeys.interactions) == 3
        assert last_touches(journeys) == {"google/cpc": 12.9}


def test_words_of_ascii_tell_languages_with_alike_letters_apart(tmp_path):
    visits = "Dato;Klokkeslett;Kundekort;Kanal;Kampanje\n05.10.2025;09:00;93311;SMS;Høstsalg\n"
    (tmp_path / "visits.csv").write_bytes(visits.encode("cp1252"))
    (tmp_path / "orders.csv").write_text("Kvitteringsnr;Dato;Kundekort;Sum\n41;07.10.2025;93311;10,50\n")
    journeys = at.read_journeys(tmp_path / "visits.csv", tmp_path / "orders.csv")
    assert last_touches(journeys) == {"SMS/Høstsalg": 10.5}


def test_a_sheet_of_notes_is_not_taken(tmp_path):
    touches = pd.DataFrame({"email": ["a@x.example"], "date": ["2025-04-20"], "channel": ["Fair"]})
    deals = pd.DataFrame(
        {"deal_id": ["D-9"], "email": ["a@x.example"], "date": ["2025-05-03"], "value": [24.0]}
    )
    sheets = {
        "Read me": pd.DataFrame({"Made for the review": ["see below"]}),
        "Touches": touches,
        "Deals": deals,
    }
    with pd.ExcelWriter(tmp_path / "crm.xlsx") as writer:
        for name, frame in sheets.items():
            frame.to_excel(writer, sheet_name=name, index=False)
    journeys = at.read_journeys(tmp_path / "crm.xlsx", tmp_path / "crm.xlsx")
    assert last_touches(journeys) == {"Fair": 24.0}


def test_a_column_of_event_times_is_no_kind_of_row(read):
    values, journeys = read(
        table("order_id,email,event_time,amount", "7,ann@x.example,2025-09-03 08:15:00,10.50")
        + "\n8,bob@x.example,2025-09-14 09:00:00,20"
    )
    assert values == {"7": 10.5, "8": 20.0}
    assert "counted" not in " ".join(journeys.notes)


def test_an_abbreviated_channel_is_the_node(read):
    visits = "visitor,seen_at,chan\nann@x.example,2025-08-20,seo\nann@x.example,2025-08-21,sea\n"
    _, journeys = read(table("order_id,email,date,amount", "7,ann@x.example,2025-09-03,10.50"), visits)
    assert last_touches(journeys) == {"sea": 10.5}


def test_a_word_for_undone_rows_in_a_column_of_unknown_words_is_said(read):
    rows = [f"{order},{word},5.50" for order, word in zip(ORDERS, ("Zorg", "Blip", "storniert"), strict=True)]
    values, journeys = read(table("order_id,email,date,wert2,amount", *rows))
    assert len(values) == 3
    assert "wert2 storniert counted" in journeys.notes[0]


def test_an_arabic_shop(read):
    text = table(
        "رقم الطلب,تاريخ الطلب,البريد الإلكتروني,تكلفة الشحن,إجمالي الطلب,العملة,حالة الطلب",
        "7,2025-09-03 08:15:00,ann@x.example,25.00,373.75,SAR,تم التنفيذ",
        "8,2025-09-04 09:00:00,bob@x.example,25.00,230.00,SAR,ملغي",
        "9,2025-09-07 20:10:00,ann@x.example,0.00,1150.00,SAR,قيد التنفيذ",
    )
    assert read(text)[0] == {"7": 373.75, "9": 1150.0}


def test_what_is_said_of_a_table_may_be_part_of_what_was_said_before():
    table = OwnTable(
        scratch.open_database(), pd.DataFrame({"id": [7]}), "conversions", Reading().formats("conversions")
    )
    for said in ("12 refunds subtracted", "2 refunds subtracted", "2 refunds subtracted"):
        table.say(said)
    assert table.note == f"{table.name}: 12 refunds subtracted; 2 refunds subtracted"
