"""Nothing in users' files is silently zero, doubled or lost, and errors lead on."""

import warnings

import pandas as pd
import pytest
from support.own_files import read_files

import attrib_ds as at
from attrib_ds.commands.attribution import as_options
from attrib_ds.commands.cli import main
from attrib_ds.errors import InputWarning, InvalidRequest, RejectedRows

CLICKS = pd.DataFrame(
    {"user": ["u", "v"], "channel": ["search", "email"], "date": ["2025-01-01", "2025-01-02"]}
)
DAYS = ["2025-01-03", "2025-01-04"]


def orders(**columns):
    return pd.DataFrame({"order_id": ["1", "2"], "user": ["u", "v"], "date": DAYS} | columns)


def earned(conversions, **options):
    credits = at.attribute(read_files(CLICKS, conversions, **options).paths(), "linear")
    return credits["value"].sum()


class TestAmounts:
    @pytest.mark.few(2)
    @pytest.mark.parametrize(
        "name",
        [
            "order_total",
            "total_amount",
            "Grand Total",
            "sales",
            "net_sales",
            "deal_amount",
            "total_revenue",
            "gross",
            "Umsatz",
            "Amount Paid",
            "revenue_eur",
            "Total (EUR)",
            "order_amount",
            "Betrag",
        ],
    )
    def test_common_names_of_amounts_are_known(self, name):
        assert earned(orders(**{name: [10.0, 20.5]})) == 30.5

    @pytest.mark.few(2)
    @pytest.mark.parametrize(
        "name",
        ["Bestellwert", "paid_amount", "purchase_value", "basket_value", "Total incl. VAT", "Deal size"],
    )
    def test_more_names_of_amounts_are_known(self, name):
        assert earned(orders(**{name: [10.0, 20.5]})) == 30.5

    def test_a_gross_amount_with_taxes_in_its_name_is_the_value(self):
        assert earned(orders(**{"worth incl. tax": [10.0, 20.5], "tax": [1.0, 2.0]})) == 30.5

    def test_amounts_below_zero_are_refunds(self):
        with pytest.warns(InputWarning, match="1 refunds without their sale left out"):
            assert len(at.read_journeys(CLICKS, orders(value=[10.0, -4.0])).events) == 1
        with pytest.warns(InputWarning, match="1 refunds subtracted"):
            events = at.read_journeys(CLICKS, orders(value=[10.0, -4.0], user=["u", "u"])).events
        assert events["statistics.revenue"].tolist() == [6.0]

    @pytest.mark.few(2)
    @pytest.mark.parametrize(
        ("cells", "worth", "currency"),
        [
            (["€1,010.50", "€ -20.00"], 1010.5, "EUR"),
            (["1.010,50 €", "20,00 €"], 1030.5, "EUR"),
            (["20.50 CHF", "10 CHF"], 30.5, "CHF"),
            (["$20.50", "$10"], 30.5, None),
        ],
    )
    @pytest.mark.filterwarnings("ignore:.*refunds without their sale")
    def test_amounts_may_have_the_sign_of_their_currency(self, cells, worth, currency):
        credits = at.attribute(at.read_journeys(CLICKS, orders(total=cells)).paths(), "linear")
        assert credits["value"].sum() == worth
        assert {*credits["currency"].dropna()} == {currency} - {None}

    def test_amounts_with_several_signs_are_not_added_up(self):
        events = at.read_journeys(CLICKS, orders(total=["€10", "£20"])).events
        assert events["statistics.revenue.currency"].tolist() == ["EUR", "GBP"]

    def test_the_currency_at_the_end_of_a_name_counts(self):
        events = at.read_journeys(CLICKS, orders(**{"Total (CHF)": [10.0, 20.5]})).events
        assert events["statistics.revenue.currency"].tolist() == ["CHF", "CHF"]

    def test_numbers_that_may_be_the_value_are_named(self):
        unknown = orders(points=[10, 20], zip=["10115", "20095"], quantity=[1, 2], note=["a", "b"])
        with pytest.warns(
            InputWarning, match=r"numbers: points\. Name the value with reading=Reading\(columns=\{'value'"
        ):
            at.read_journeys(CLICKS, unknown)
        assert earned(unknown, columns={"value": "points"}) == 30

    def test_the_only_amount_with_decimals_is_the_value(self):
        assert earned(orders(outcome=[10.0, 20.5], zip=["10115", "20095"])) == 30.5

    def test_conversions_without_any_number_are_fine(self):
        at.read_journeys(CLICKS, orders(note=["a", "b"]))

    def test_refunds_beside_the_amounts_are_subtracted(self):
        refunded = orders(total=["10", "20.5"], amount_refunded=["0.00", "5"])
        assert earned(refunded) == 25.5
        # Some services write them below zero; a refund that is no number rejects its row.
        for cells, worth in ((["0", "5"], 25.5), (["", "-5"], 25.5)):
            own = refunded.assign(amount_refunded=cells)
            assert earned(own, columns={"refund": "amount_refunded"}) == worth
        # 20.5 less 30 is -9.5, and 10 less 0 is 10.
        own = refunded.assign(amount_refunded=["0", "30"])
        with pytest.warns(InputWarning, match=r"1 row with an amount below 0 \(total less amount_refunded\)"):
            assert earned(own, columns={"refund": "amount_refunded"}) == 0.5
        own = refunded.assign(amount_refunded=["?", "5"])
        with pytest.warns(RejectedRows, match=r"amount_refunded is not a number: '\?'"):
            worth = earned(own, columns={"refund": "amount_refunded"})
        assert worth == 15.5

    def test_rows_with_a_flag_of_refunds_are_left_out(self):
        with pytest.warns(InputWarning, match="1 row of 2; 1 Refunded left out"):
            assert earned(orders(total=[10, 20], Refunded=["yes", "no"])) == 20

    @pytest.mark.few(2)
    @pytest.mark.parametrize("cells", [[0.0, 0.0], ["No", "false"], ["0,00", None], ["-", "$0.00"]])
    def test_no_refunds_are_not_named(self, cells):
        with warnings.catch_warnings():
            warnings.simplefilter("error", InputWarning)
            at.read_journeys(CLICKS, orders(total=[10, 20], refunded=cells))


class TestLines:
    def test_rows_without_an_amount_are_lines_of_the_conversion_that_has_one(self):
        lines = pd.DataFrame(
            {"order_id": ["1", "1", "2"], "user": ["u", "u", "v"], "date": [DAYS[0], None, DAYS[1]]}
        )
        lines["total"] = [10.0, None, 20.0]
        with pytest.warns(InputWarning, match="2 conversions from 3 rows"):
            journeys = at.read_journeys(CLICKS, lines)
        assert (len(journeys.events), len(journeys.rejected)) == (2, 0)

    def test_a_name_with_numbers_is_the_id_of_orders(self):
        lines = pd.DataFrame({"Name": ["#1", "#1", "#2"], "user": ["u", "u", "v"], "date": [*DAYS, DAYS[1]]})
        with pytest.warns(InputWarning, match=r"2 conversions from 3 rows; .* another row \(Name\)"):
            journeys = at.read_journeys(CLICKS, lines.assign(Total=[10.0, None, 20.0]))
        assert len(journeys.events) == 2
        with pytest.raises(InvalidRequest, match="distinct values of 'Name'"):
            at.read_journeys(CLICKS, lines.assign(Total=[10.0, 10.0, 20.0]))
        people = lines.assign(Name=["Ann", "Ann", "Bob"], Total=[10.0, 5.0, 20.0])
        assert len(at.read_journeys(CLICKS, people).events) == 3

    def test_conversions_without_an_amount_stay(self):
        assert len(at.read_journeys(CLICKS, orders(total=[10.0, None])).events) == 2

    @pytest.mark.parametrize(("name", "is_named"), [("order_total", True), ("amount", False)])
    def test_the_total_of_a_single_order_is_not_added_up_in_silence(self, name, is_named):
        lines = pd.DataFrame({"order_id": ["1", "1", "2"], "user": "u", "date": DAYS[0], name: [95, 95, 30]})
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", InputWarning)
            assert len(at.read_journeys(CLICKS, lines, reading=at.Reading(aggregate=True)).events) == 2
        messages = [str(each.message) for each in caught]
        assert "repeats another one exactly" in messages[0]
        assert ["is the same in all rows" in message for message in messages[1:]] == [True] * is_named

    def test_totals_in_every_line_are_not_added_up_in_silence(self):
        lines = pd.concat([orders(total=[10.0, 20.0])] * 2)
        with (
            pytest.warns(InputWarning, match="'total' is the same in all rows of each conversion"),
            pytest.warns(InputWarning, match="2 rows that repeat others exactly"),
        ):
            assert earned(lines, aggregate=True) == 60.0

    def test_a_table_is_not_touchpoints_and_conversions(self, tmp_path):
        CLICKS.to_csv(tmp_path / "all.csv", index=False)
        CLICKS.to_csv(tmp_path / "copy.csv", index=False)
        for rows, copy in (
            (CLICKS, CLICKS),
            (CLICKS, CLICKS.copy()),
            (tmp_path / "all.csv", tmp_path / "all.csv"),
            (tmp_path / "all.csv", tmp_path / "copy.csv"),
        ):
            with pytest.raises(InvalidRequest, match="conversions: the same as the touchpoints"):
                at.read_journeys(rows, copy)

    def test_touchpoints_that_were_pasted_twice_are_named(self):
        clicks = pd.concat([CLICKS, CLICKS.assign(channel="tv")])
        with pytest.warns(InputWarning, match="every row of touchpoints occurs 2 times or more"):
            at.read_journeys(pd.concat([clicks, clicks]), orders())
        at.read_journeys(pd.concat([clicks, clicks.tail(2)]), orders())

    def test_spend_counts_once(self):
        spend = pd.DataFrame({"channel": ["search", "email"], "date": DAYS, "spend": [10.0, 5.0]})
        with pytest.raises(InvalidRequest, match="spend: two of the files are the same"):
            at.read_journeys(CLICKS, orders(), spend=[spend, spend.copy()])
        with pytest.warns(InputWarning, match="1 row of the same node and day in several files"):
            journeys = at.read_journeys(CLICKS, orders(), spend=[spend, spend.head(1)])
        assert journeys.spend["spend"].tolist() == [10.0, 5.0]
        with pytest.warns(InputWarning, match="1 row of the same node and amount in several files, without"):
            at.read_journeys(
                CLICKS, orders(), spend=[each.drop(columns="date") for each in (spend, spend[:1])]
            )
        at.read_journeys(CLICKS, orders(), spend=[spend.head(1), spend.tail(1)])


class TestPeople:
    def test_people_in_one_cell_share_their_touchpoints(self):
        deals = pd.DataFrame({"deal_id": ["1"], "user": ["u;v"], "date": DAYS[:1], "value": [10.0]})
        with pytest.warns(InputWarning, match="1 cell has several users, such as 'u;v'"):
            paths = at.read_journeys(CLICKS, deals).paths()
        credits = at.attribute(paths, "linear").set_index("node_id")
        assert credits["value"].to_dict() == {"search": 5.0, "email": 5.0}

    def test_people_in_one_cell_of_touchpoints_share_them(self):
        with pytest.warns(InputWarning, match="1 cell has several users, such as 'u;v'"):
            paths = at.read_journeys(CLICKS.assign(user=["u;v", "w"]), orders()).paths()
        assert at.attribute(paths, "linear").set_index("node_id")["conversions"]["search"] == 2.0

    def test_guests_without_an_account_are_known_by_their_addresses(self):
        people = {"customer_id": ["0", "0"], "email": ["u@example.com", "v@example.com"]}
        clicks, bought = (rows.drop(columns="user").assign(**people) for rows in (CLICKS, orders()))
        credits = at.attribute(at.read_journeys(clicks, bought).paths(), "last_touch").set_index("node_id")
        assert credits["conversions"].to_dict() == {"search": 1.0, "email": 1.0}

    def test_a_word_for_nobody_is_no_person(self):
        clicks, bought = CLICKS.assign(user=["(not set)", "v"]), orders(user=["(not set)", "v"])
        with (
            pytest.warns(at.errors.RejectedRows, match="user is a placeholder: '\\(not set\\)'"),
            pytest.warns(
                InputWarning, match=r"conversions has 1 conversion without a user in 'user'.* is unattributed"
            ),
        ):
            journeys = at.read_journeys(clicks, bought)
        credits = at.attribute(journeys.paths(), "linear")
        assert credits.set_index("node_name")["conversions"].to_dict() == {"email": 1.0, "unattributed": 1.0}

    def test_a_table_without_addresses_is_the_one_that_is_named(self):
        clicks = CLICKS.rename(columns={"user": "email"})
        with pytest.raises(InvalidRequest, match="conversions: conversions has no column .* the user"):
            at.read_journeys(clicks, orders(user=["x", "y"]).rename(columns={"user": "Buyer"}))

    def test_addresses_beside_other_ids_are_said_to_fit_nobody(self):
        with pytest.warns(
            InputWarning, match="no user of a conversion, such as 'u', .* in 'email' and 'user', or"
        ):
            at.read_journeys(CLICKS.rename(columns={"user": "email"}).assign(email="u@example.com"), orders())

    def test_an_id_with_a_semicolon_of_its_own_is_one_person(self):
        clicks = CLICKS.assign(user=["a;b", "a"])
        credits = at.attribute(at.read_journeys(clicks, orders(user=["a;b", "a"])).paths(), "linear")
        assert credits.set_index("node_id")["conversions"].to_dict() == {"search": 1.0, "email": 1.0}

    def test_addresses_match_in_any_case(self):
        clicks = CLICKS.drop(columns="user").assign(Email=["U@example.com", "v@example.com"])
        bought = orders().drop(columns="user").assign(customer_email=["u@Example.com", "V@example.com"])
        assert at.attribute(at.read_journeys(clicks, bought).paths(), "linear")["node_id"].notna().all()

    def test_a_column_that_both_tables_have_goes_before_addresses(self):
        clicks, bought = CLICKS.assign(email="x@example.com"), orders(email=["y@example.com"] * 2)
        assert at.read_journeys(clicks, bought).columns["touchpoints"]["user"] == "user"

    def test_an_empty_column_is_no_person(self):
        clicks = CLICKS.assign(user=["x", "y"]).rename(columns={"user": "who"}).assign(**{"Device ID": None})
        with pytest.raises(InvalidRequest, match="no column that looks like the user; columns: .*Device ID"):
            at.read_journeys(clicks, orders())


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("column", "values", "said"),
    [
        ("payment_status", ["paid", "failed"], "1 row of 2; 1 failed left out"),
        ("Stage", ["Closed Won", "Closed Lost"], "1 row of 2; 1 Closed Lost left out"),
        ("captured", [True, False], "1 row of 2; 1 with captured false left out"),
        ("status", ["Refunded", "paid"], "1 row of 2; 1 Refunded left out"),
        ("status", ["paid", "pending"], "2 rows of 2; 1 pending counted"),
        ("is_paid", [True, False], "1 row of 2; 1 with is_paid false left out"),
        ("Zustand", ["bezahlt", "storniert"], "1 row of 2; 1 storniert left out"),
        ("Metric", ["Placed Order", "Opened Email"], "each Metric counted: Opened Email, Placed Order"),
    ],
)
def test_g249_rows_that_were_undone_are_left_out_and_said(column, values, said):
    with pytest.warns(InputWarning, match=said):
        journeys = at.read_journeys(CLICKS, orders(**{column: values}))
    assert len(journeys.events) == 2 - ("left out" in said)


def test_a_state_of_a_country_is_no_status():
    at.read_journeys(CLICKS, orders(state=["CA", "NY"], status=["complete", "paid"]))


def test_nodes_that_differ_by_punctuation_are_named():
    clicks = CLICKS.assign(channel=["Paid Search", "paid_search"])
    with pytest.warns(InputWarning, match="'Paid Search' and 'paid_search'"):
        at.read_journeys(clicks, orders())


class TestAdjustments:
    @pytest.fixture
    def journeys(self):
        return at.read_journeys(CLICKS, orders(value=[10.0, 20.0]), currency="EUR")

    def test_ids_of_no_conversion_are_counted(self, journeys):
        refunds = pd.DataFrame({"event_id": ["1", "nine"], "date": DAYS, "value": [-10.0, -5.0]})
        with pytest.warns(
            InputWarning, match="no conversion has the event_id of 1 of 2 rows, such as 'nine'"
        ):
            journeys.paths(adjustments=refunds)

    def test_the_turnover_itself_is_no_adjustment(self, journeys):
        turnover = pd.DataFrame({"event_id": ["1", "2"], "date": DAYS, "value": [10.0, 20.0]})
        with pytest.warns(
            InputWarning, match="each value equals the value of its conversion, which then counts twice"
        ):
            journeys.paths(adjustments=turnover)

    def test_renewals_at_the_price_of_the_order_say_nothing(self, journeys):
        renewals = pd.DataFrame(
            {
                "event_id": ["1", "2", "2"],
                "date": ["2025-02-01", "2025-02-02", "2025-03-02"],
                "value": [10.0, 20.0, 20.0],
            }
        )
        assert at.attribute(journeys.paths(adjustments=renewals), "linear")["value"].sum() == 80.0

    def test_a_statistic_is_no_adjustment_of_itself(self, sample):
        with pytest.raises(InvalidRequest, match="'turnover' is the statistic"):
            at.conversion_paths(sample, event_type="order", statistic="turnover", adjustments=["turnover"])

    def test_refunds_say_nothing(self, journeys):
        refunds = pd.DataFrame({"event_id": ["1", "2"], "date": DAYS, "value": [-10.0, -5.0]})
        assert at.attribute(journeys.paths(adjustments=refunds), "linear")["value"].sum() == 15.0


@pytest.mark.parametrize("credit", [at.attribute, at.credit_series])
def test_spend_of_nodes_that_do_not_exist_is_named(credit):
    paths = at.read_journeys(CLICKS, orders(value=[10.0, 20.0]), currency="EUR").paths()
    spend = pd.DataFrame({"node_id": ["serch", "email"], "date": DAYS, "spend": [1.0, 2.0]})
    with pytest.warns(InputWarning, match=r"get no credit: 'serch' \(did you mean 'search'\?\)"):
        credit(paths, "linear", spend=spend)
    credit(paths, "linear", spend=spend[spend["node_id"] == "email"])


def test_a_filter_that_leaves_conversions_without_touchpoints_is_named(sample):
    few = at.conversion_paths(sample, event_type="order", where=at.interaction("geo.countryCode") == "DE")
    with pytest.warns(
        InputWarning, match="unattributed: 1,140 of 1,446 conversions: where=interaction.*not conversions"
    ):
        at.attribute(few, "linear")
    all_of_them = at.conversion_paths(sample, event_type="order", where=at.user("_id").is_not_null())
    at.attribute(all_of_them, "linear")


class TestErrorsThatLeadOn:
    def test_a_header_below_is_found(self):
        rows = [["Report", "", ""], ["2025", "", ""], ["user", "channel", "date"], ["u", "tv", "2025-01-01"]]
        with pytest.raises(InvalidRequest, match="row 2 looks like the header"):
            at.read_journeys(pd.DataFrame(rows, columns=["A", "B", "C"]), orders())

    @pytest.mark.parametrize(
        ("columns", "reader"),
        [
            (["event_timestamp", "event_name", "user_pseudo_id", "event_params"], "GA4 events; .*read_ga4"),
            (
                ["event_id", "domain_userid", "collector_tstamp", "etl_tstamp"],
                "Snowplow events; .*read_snowplow",
            ),
            (["idVisit", "visitorId", "actionDetails"], "Matomo visits; .*read_matomo"),
        ],
    )
    def test_events_have_a_reader(self, columns, reader):
        with pytest.raises(InvalidRequest, match=reader):
            at.read_journeys(pd.DataFrame([["x"] * len(columns)], columns=columns), orders())

    def test_ambiguous_dates_are_told_beside_other_faults(self):
        clicks = pd.DataFrame({"user": [None, "u"], "channel": "tv", "date": ["2025-01-01", "3/1/2025"]})
        with pytest.raises(
            InvalidRequest,
            match=r"row 1: date .*'3/1/2025'; .* pass reading=Reading.dayfirst=True. or reading=Reading.dayfirst=False",
        ):
            at.read_journeys(clicks, orders())

    def test_ten_columns_are_named_at_most_the_closest_first(self):
        clicks = pd.DataFrame([[0] * 31], columns=[*(f"x{number}" for number in range(30)), "the_user"])
        with pytest.raises(InvalidRequest, match=r"user; columns: the_user, (\w+, ){8}\w+ and 21 others"):
            at.read_journeys(clicks, orders())

    def test_a_folder_of_the_machine_is_not_shown(self, tmp_path):
        (tmp_path / "mine.csv").write_text("a,b\n1,2\n")
        with pytest.raises(InvalidRequest) as caught:
            at.read_journeys(tmp_path / "mine.csv", orders())
        assert str(tmp_path) not in str(caught.value)
        assert "touchpoints: mine.csv has no column" in str(caught.value)

    def test_each_interface_has_its_own_words(self, tmp_path, capsys):
        (tmp_path / "mine.csv").write_text("wer,channel,date\nw,tv,3/1/2025\n")
        (tmp_path / "orders.csv").write_text("order_id,user,date\n1,u,2025-01-02\n")
        files = ["--touchpoints", str(tmp_path / "mine.csv"), "--conversions", str(tmp_path / "orders.csv")]
        assert main(["attribute", *files]) == 1
        printed = capsys.readouterr().err
        assert "name it with --user COLUMN" in printed
        assert "columns=" not in printed
        assert main(["attribute", *files, "--user", "wer", "--conversion-user", "user"]) == 1
        assert "pass --dayfirst or --no-dayfirst" in capsys.readouterr().err
        with pytest.raises(InvalidRequest) as caught:
            at.read_journeys(tmp_path / "mine.csv", tmp_path / "orders.csv")
        assert "--" not in str(caught.value)


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("columns={'user': COLUMN, 'conversion_user': COLUMN}", "--user COLUMN --conversion-user COLUMN"),
        ("columns={'value': 'order worth'}", "--value 'order worth'"),
        ("pass decimal='.' or decimal=','", "pass --decimal '.' or --decimal ','"),
        ("pass conversion_sheet='Orders'", "pass --conversion-sheet 'Orders'"),
        ("ignore_case=False keeps them apart", "--no-ignore-case keeps them apart"),
        ('such as currency="EUR"', "such as --currency EUR"),
    ],
)
def test_arguments_are_options_in_the_command(message, expected):
    assert as_options(message) == expected


def test_no_warning_without_a_reason():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        at.read_journeys(CLICKS, orders(value=[10.0, 20.0], currency=["EUR", "EUR"]))


@pytest.mark.few(3)
@pytest.mark.parametrize(
    ("page", "users"),
    [
        ("/#/thanks", ["a"]),
        ("https://shop.example/?x=1#/thanks/", ["a"]),
        ("/", ["b", "d"]),
        ("/p/[1]", ["c"]),
        ("/p/*", ["c"]),
        ("/?", ["b", "d"]),
        ("/nothing*", []),
    ],
)
def test_a_page_is_the_same_in_a_file_and_in_hits(page, users):
    urls = {"a": "/?utm_source=x#/thanks", "b": "/#top", "c": "/p/[1]", "d": "", "e": "/q", "f": None}
    rows = [
        {"user": user, "channel": "x", "date": "2025-01-01T10:00:00Z", "page": f"https://shop.example{url}"}
        for user, url in urls.items()
    ]
    rows[-1]["page"] = None
    hits = pd.DataFrame(rows[:-1]).rename(columns={"user": "trackerId", "page": "pageUrl"})
    if users:
        with pytest.warns(InputWarning, match=f"{len(users)} conversions?, views of"):
            journeys = at.read_journeys(pd.DataFrame(rows), conversion_page=page)
        assert len(journeys.events) == len(users)
    with at.connect("shop", path=":memory:") as shop:
        at.load(shop, hits=hits[["trackerId", "date", "pageUrl"]])
        counts = at.page_insights(shop, page=page)
        assert counts["users"].sum() == len(users)


def test_a_page_of_conversions_is_a_path_as_in_hits():
    rows = [{"user": "a", "channel": "x", "date": "2025-01-01T10:00:00Z", "page": "/thanks"}]
    with pytest.raises(
        InvalidRequest, match=r"conversion_page: 'thanks' is not allowed; expected the path of a page"
    ):
        at.read_journeys(pd.DataFrame(rows), conversion_page="thanks")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"1,u,2025-01-03,30\n2,v,2025-01-04,40\n", "'2025-01-03' looks like a value; if the header"),
    ],
)
def test_what_is_wrong_with_a_file_is_named(content, said, tmp_path):
    (tmp_path / "orders.csv").write_bytes(content)
    with pytest.raises(InvalidRequest, match=said):
        at.read_journeys(CLICKS, tmp_path / "orders.csv")


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("o.csv", b"PK\x03\x04\x14\0\xff", "a workbook or an archive; name it .xlsx if it is a workbook"),
        ("o.xls", b"\xd0\xcf\x11\xe0\xa1\xb1\0", r"an old workbook \(.xls\) or one with a password; save it"),
        (
            "o.xlsx",
            b"\xd0\xcf\x11\xe0\xa1\xb1\0",
            r"an old workbook \(.xls\) or one with a password; save it",
        ),
        ("o.csv", b"%PDF-1.7\n\xe2\xe3", "a PDF document; export the table as CSV"),
        ("o.csv", b"\xef\xbb\xbf\n<!DOCTYPE html><html>", "a web page or XML; export the table as CSV"),
        ("o.xls", b"<html><table><tr><td>1</td></tr>", "a web page or XML; export the table as CSV"),
    ],
)
def test_a_file_with_the_name_of_another_kind_is_named(name, content, said, tmp_path):
    (tmp_path / name).write_bytes(content)
    for load in (lambda file: at.read_journeys(CLICKS, file), lambda file: at.read_journeys(file, CLICKS)):
        with pytest.raises(InvalidRequest, match=f"s: '{name}' is {said}"):
            load(tmp_path / name)
    with (
        at.connect("shop", path=":memory:") as shop,
        pytest.raises(InvalidRequest, match=f"'{name}' is {said}"),
    ):
        at.load(shop, events=tmp_path / name)


@pytest.mark.few(3)
@pytest.mark.parametrize("cell", ["u/v", "u & v", "u, v", "u;v"])
def test_people_in_one_cell_may_be_written_with_any_sign(cell):
    with pytest.warns(InputWarning, match="1 cell has several users"):
        assert earned(orders(user=[cell, "v"], revenue=[30, 40])) == 70


def test_a_slash_alone_makes_no_two_people():
    clicks = CLICKS.assign(user=["a/u", "v"])
    with warnings.catch_warnings():
        warnings.simplefilter("error", InputWarning)
        at.read_journeys(clicks, orders(user=["a/u", "v"], revenue=[30, 40]))


def test_conversions_before_every_touchpoint_are_named():
    with pytest.warns(InputWarning, match="all conversions are before the first touchpoint .2025-01-01 "):
        at.read_journeys(CLICKS, orders(date=["2024-06-01", "2024-06-02"]))


def test_ids_that_pandas_made_floats_are_the_same_ids():
    clicks = CLICKS.assign(user=["10", "7"])
    credits = at.attribute(at.read_journeys(clicks, orders(user=["10.0", "7"])).paths(), "linear")
    assert credits.set_index("node_id")["conversions"].to_dict() == {"search": 1.0, "email": 1.0}


def test_ids_that_a_spreadsheet_rounded_are_named():
    ids = {"user": ["1.23E+12", "1,2e+15"], "order_id": ["5E+11", "1.5e12"]}
    with pytest.warns(InputWarning) as caught:
        at.read_journeys(CLICKS.assign(user=["1.23E+12", "12e45"]), orders(**ids))
    said = [str(each.message).split(":")[0] for each in caught if "rounded" in str(each.message)]
    assert said == [
        "touchpoints has 1 row with an id such as 1.23E+12 in 'user'",
        "conversions has 2 rows with an id such as 1,2e+15 in 'user'",
        "conversions has 2 rows with an id such as 1.5e12 in 'order_id'",
    ]


def test_swapped_tables_are_named():
    said = r"touchpoints looks like conversions \({}\), and conversions like touchpoints \(channel\)"
    with pytest.raises(InvalidRequest, match="^touchpoints: " + said.format("order_id, total")):
        at.read_journeys(orders(total=[10, 20]), CLICKS)
    with pytest.raises(InvalidRequest, match=said.format("order_id, total")):
        at.read_journeys(orders(total=[10, 20], utm_source="x"), CLICKS)
    with warnings.catch_warnings():
        warnings.simplefilter("error", InputWarning)
        # Touchpoints may have ids of events and amounts, and conversions a source.
        at.read_journeys(CLICKS.assign(event_id=["1", "2"]), orders(source="x")[["user", "date", "source"]])
        at.read_journeys(CLICKS.assign(value=1), orders(source="x"))


def test_the_command_says_that_conversions_have_no_value(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    CLICKS[:1].to_csv("clicks.csv", index=False)
    for columns in ({}, {"total": [10, 20]}):
        orders(**columns).to_csv("orders.csv", index=False)
        main(
            ["attribute", "--touchpoints", "clicks.csv", "--conversions", "orders.csv", "--models", "linear"]
        )
        printed = capsys.readouterr().out
        assert printed.startswith("Read 1 touchpoint, 2 conversions.")
        assert ("Conversions have no value: no column of amounts" in printed) != bool(columns)


def test_rejected_rows_are_told_in_options_of_the_command(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    CLICKS.to_csv("clicks.csv", index=False)
    orders(date=["3/1/2025", "2025-01-04"]).to_csv("orders.csv", index=False)
    main(["attribute", "--touchpoints", "clicks.csv", "--conversions", "orders.csv", "--models", "linear"])
    assert "pass --dayfirst or --no-dayfirst" in capsys.readouterr().err
    assert "dayfirst=" not in (tmp_path / "unreadable-rows.csv").read_text()
