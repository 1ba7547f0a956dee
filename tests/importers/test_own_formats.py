"""How users' own files are written: encodings, decimal marks, flags, signs of currencies, upper and lower case."""

import warnings

import pandas as pd
import pytest
from support.own_files import read_files

from attrib_ds import Reading, attribute, errors, read_ga4, read_journeys
from attrib_ds.importers.own_paths import read_sequences
from attrib_ds.importers.own_spend import read_spend
from attrib_ds.importers.reading import Formats

CLICKS = pd.DataFrame({"user": ["u"], "channel": ["tv"], "date": ["2025-01-01"]})
ORDER = {"order_id": ["1"], "user": ["u"], "date": ["2025-01-02"]}


def values(**columns):
    """Return the values of orders by id."""
    length = max(map(len, columns.values()))
    orders = {"order_id": list(range(length)), "user": ["u"] * length, "date": ["2025-01-02"] * length}
    options = {
        name: columns.pop(name) for name in ("decimal", "currency") if isinstance(columns.get(name), str)
    }
    events = read_files(CLICKS, pd.DataFrame(orders | columns), **options).events
    events = events.sort_values("event.sourceId")
    return events[next(name for name in events.columns if name.startswith("statistics.revenue"))].tolist()


class TestEncoding:
    @pytest.fixture
    def files(self, tmp_path):
        def write(encoding):
            (tmp_path / "clicks.csv").write_bytes(
                "user;channel;date\nu;Köln;2025-01-01\nu;Bonn;2025-01-01\n".encode(encoding)
            )
            (tmp_path / "orders.csv").write_text("order_id,user,date\n1,u,2025-01-02\n", encoding="utf-8")
            return tmp_path / "clicks.csv", tmp_path / "orders.csv"

        return write

    @pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
    def test_unicode_is_read(self, files, encoding):
        assert read_journeys(*files(encoding)).interactions["nodeId"].tolist() == ["Bonn", "Köln"]

    @pytest.mark.slow
    def test_another_encoding_is_known_by_its_words_and_can_be_given(self, files):
        paths = files("cp1252")
        with pytest.warns(errors.InputWarning, match="clicks.csv: read as cp1252, not UTF-8"):
            assert read_journeys(*paths).interactions["nodeId"].tolist() == ["Bonn", "Köln"]
        # The other file is UTF-8, and read as such.
        journeys = read_journeys(*paths, reading=Reading(encoding="cp1252"))
        assert sorted(journeys.interactions["nodeId"]) == ["Bonn", "Köln"]
        with pytest.warns(errors.RejectedRows, match="1 row .*not UTF-8 text"):
            assert read_journeys(*paths, reading=Reading(encoding="utf-8")).interactions[
                "nodeId"
            ].tolist() == ["Bonn"]
        with pytest.raises(errors.InvalidRequest, match="encoding: 'windows' is not allowed"):
            read_journeys(*paths, reading=Reading(encoding="windows"))


class TestDecimalMark:
    @pytest.mark.parametrize("texts", [["1.000", "2.500"], ["1,000"], ["12", "-1.251"]])
    def test_numbers_that_may_be_thousands_or_decimals_are_refused(self, texts):
        with pytest.raises(errors.InvalidRequest, match=r"value: in the column 'revenue'.*decimal=','"):
            values(revenue=texts)

    @pytest.mark.few(3)
    @pytest.mark.parametrize(
        ("texts", "decimal", "expected"),
        [
            (["1.000", "2.500"], ".", [1.0, 2.5]),
            (["1.000", "2.500"], ",", [1000.0, 2500.0]),
            (["1,000", "7"], ".", [1000.0, 7.0]),
            (["1,000", "7"], ",", [1.0, 7.0]),
        ],
    )
    def test_the_mark_can_be_given(self, texts, decimal, expected):
        assert values(revenue=texts, decimal=decimal) == expected

    @pytest.mark.few(2)
    @pytest.mark.slow
    @pytest.mark.parametrize("separator", [" ", "\u00a0", "\u202f", "\u2009", "'", "\u2019"])
    def test_spaces_and_apostrophes_separate_thousands(self, separator):
        texts = [f"1{separator}010,50", f"12{separator}345{separator}678", "20,00"]
        assert values(revenue=texts) == [1010.5, 12345678.0, 20.0]
        assert values(revenue=[f"1{separator}010.50", "20"]) == [1010.5, 20.0]

    @pytest.mark.few(3)
    @pytest.mark.parametrize("text", ["1 01", "1 0100", "1'010 500", "1 010.500,5"])
    def test_other_groups_of_digits_are_no_numbers(self, text):
        with pytest.raises(errors.InvalidRequest, match="revenue is not a number"):
            values(revenue=[text], decimal=",")

    def test_only_a_point_and_a_comma_are_marks(self):
        with pytest.raises(errors.InvalidRequest, match="decimal: ';' is not allowed"):
            values(revenue=["1"], decimal=";")

    def test_counts_with_commas_are_in_thousands(self, tmp_path):
        (tmp_path / "paths.csv").write_text('path,conversions\na,"1,200"\nb,5\n')
        paths = read_sequences(tmp_path / "paths.csv").paths
        assert attribute(paths, "linear")["conversions"].tolist() == [1200.0, 5.0]
        (tmp_path / "paths.csv").write_text("path,conversions\na,1.201\nb,5\n")
        with pytest.raises(errors.InvalidRequest, match="conversions: in the column 'conversions'"):
            read_sequences(tmp_path / "paths.csv")
        paths = read_sequences(tmp_path / "paths.csv", formats=Formats(decimal=",")).paths
        assert attribute(paths, "linear")["conversions"].tolist() == [1201.0, 5.0]


class TestFlags:
    @pytest.mark.few(3)
    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("yes", "no"),
        [
            ("yes", "no"),
            ("Y", "N"),
            ("TRUE", "false"),
            ("t", "f"),
            ("1", "0"),
            ("1.0", ""),
            ("ja", "nein"),
            (True, False),
        ],
    )
    def test_words_for_yes_and_no(self, tmp_path, yes, no):
        clicks = pd.DataFrame(
            {"user": ["u", "u"], "channel": ["tv", "ad"], "date": ["2025-01-01", "2025-01-02"]}
        )
        journeys = read_journeys(clicks.assign(conversion=[no, yes]))
        assert journeys.events["eventDate"].dt.day.tolist() == [2]
        wide = pd.DataFrame({"T_1": ["a", "b"], "T_2": None, "conv_flag": [no, yes]})
        wide.to_csv(tmp_path / "wide.csv", index=False)
        credits = attribute(read_sequences(tmp_path / "wide.csv").paths, "linear")
        assert credits.set_index("node_id")["conversions"].to_dict() == {"b": 1.0}

    @pytest.mark.parametrize("other", ["2", "maybe"])
    def test_other_words_are_refused(self, tmp_path, other):
        expected = f"flag: '{other}' in the column .* is not a yes or no; .*'flag': COLUMN"
        with pytest.raises(errors.InvalidRequest, match=expected):
            read_journeys(CLICKS.assign(conversion=other))
        (tmp_path / "wide.csv").write_text(f"T_1,T_2,conv_flag\na,b,{other}\n")
        with pytest.raises(errors.InvalidRequest, match=expected):
            read_sequences(tmp_path / "wide.csv")


class TestCurrencies:
    def test_signs_of_one_currency_and_lower_case_are_codes(self):
        orders = pd.DataFrame(
            {
                "order_id": list("abcd"),
                "user": "u",
                "date": "2025-01-02",
                "value": "5",
                "currency": ["€", "eur", "£", "GBP"],
            }
        )
        events = read_journeys(CLICKS, orders).events.sort_values("event.sourceId")
        assert events["statistics.revenue.currency"].tolist() == ["EUR", "EUR", "GBP", "GBP"]

    def test_other_words_are_rejected(self):
        orders = pd.DataFrame(ORDER | {"value": ["5"]})
        both = pd.concat([orders.assign(currency="EUR"), orders.assign(order_id="2", currency="$")])
        with pytest.warns(errors.RejectedRows, match=r"currency is not a currency of ISO 4217.*: '\$'"):
            journeys = read_journeys(CLICKS, both)
        assert journeys.events["statistics.revenue.currency"].tolist() == ["EUR"]

    @pytest.mark.parametrize(("given", "expected"), [("eur", "EUR"), ("€", "EUR"), ("chf", "CHF")])
    def test_the_currency_of_all_values(self, given, expected):
        journeys = read_journeys(CLICKS, pd.DataFrame(ORDER | {"value": ["5"]}), currency=given)
        assert journeys.events["statistics.revenue.currency"].tolist() == [expected]

    def test_a_sign_of_several_currencies_is_refused(self, tmp_path):
        (tmp_path / "spend.csv").write_text("channel,cost\ntv,5\n")
        for read in (
            lambda: read_journeys(CLICKS, pd.DataFrame(ORDER | {"value": ["5"]}), currency="$"),
            lambda: read_spend(tmp_path / "spend.csv", currency="$"),
        ):
            with pytest.raises(errors.InvalidRequest, match=r"currency: '\$' is not allowed; expected"):
                read()


class TestCase:
    VISITS = pd.DataFrame(
        {
            "user": ["u", "u", "u", "v"],
            "date": "2025-01-01",
            "utm_source": ["Google", "google", "google", "bing"],
            "utm_medium": ["cpc", "CPC", "cpc", "cpc"],
            "utm_campaign": ["spring", "spring", "Spring", None],
        }
    )
    ORDERS = pd.DataFrame(ORDER)

    def nodes(self, **options):
        return sorted(set(read_files(self.VISITS, self.ORDERS, **options).interactions["nodeId"]))

    def test_names_that_differ_by_case_are_one_with_a_warning(self):
        expected = r"'google' \(2\), 'Google' \(1\); 'cpc' \(3\), 'CPC' \(1\); 'spring' \(2\), 'Spring' \(1\)"
        with pytest.warns(errors.InputWarning, match=f"{expected}.*ignore_case=False"):
            assert self.nodes() == ["bing/cpc", "google/cpc/spring"]

    def test_they_can_be_kept_apart(self):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert self.nodes(ignore_case=False) == [
                *("Google/cpc/spring", "bing/cpc", "google/CPC/spring", "google/cpc/Spring")
            ]

    @pytest.mark.slow
    def test_levels_of_other_names_and_single_columns(self):
        visits = self.VISITS.rename(columns={"utm_source": "kanal", "utm_medium": "art"})
        with pytest.warns(errors.InputWarning):
            journeys = read_journeys(visits, self.ORDERS, reading=Reading(columns={"node": ["kanal", "art"]}))
        assert sorted(set(journeys.interactions["nodeId"])) == ["bing/cpc", "google/cpc"]
        with pytest.warns(errors.InputWarning, match="'google'"):
            journeys = read_journeys(visits, self.ORDERS, reading=Reading(columns={"node": "kanal"}))
        assert sorted(set(journeys.interactions["nodeId"])) == ["bing", "google"]

    def test_encodings_of_an_accent_are_one_spelling(self):
        # U+00E9, and e with U+0301, as macOS writes it.
        visits = self.VISITS[:3].assign(utm_source=["caf\u00e9", "cafe\u0301", "cafe\u0301"])
        with pytest.warns(errors.InputWarning):
            journeys = read_journeys(visits, self.ORDERS, reading=Reading(columns={"node": "utm_source"}))
        assert set(journeys.interactions["nodeId"]) == {"cafe\u0301"}

    def test_spend_has_the_spelling_of_the_touchpoints(self, tmp_path):
        (tmp_path / "spend.csv").write_text("channel,cost\nTV,5\nRadio,7\n")
        spend, _ = read_spend(tmp_path / "spend.csv", nodes={"tv": "channel", "Radio": "channel"})
        assert spend["node_id"].tolist() == ["tv", "Radio"]
        with pytest.warns(errors.InputWarning, match="'TV' with 5"):
            spend, _ = read_spend(
                tmp_path / "spend.csv", nodes={"tv": "channel", "Radio": "channel"}, ignore_case=False
            )
        assert spend["node_id"].tolist() == ["TV", "Radio"]

    def test_spend_without_touchpoints_is_named(self, tmp_path):
        (tmp_path / "spend.csv").write_text("channel,cost\nsaerch,5\nemail,7.5\nAll,12.5\nTotal,12.5\n")
        said = r"'saerch' with 5.00 \(did you mean 'search'\?\), 'All' with 12.50 \(the sum of the others"
        with (
            pytest.warns(errors.InputWarning, match=said),
            pytest.warns(errors.InputWarning, match="1 row of totals left out"),
        ):
            spend, _ = read_spend(tmp_path / "spend.csv", nodes={"search": "channel", "email": "channel"})
        assert spend["spend"].sum() == 25

    def test_the_columns_of_nodes_in_a_file_of_spend_can_be_named(self, tmp_path):
        (tmp_path / "spend.csv").write_text("medium,where,cost\nm,tv,5\n")
        spend, _ = read_spend(tmp_path / "spend.csv", columns={"node": "medium", "spend_node": "where"})
        assert spend["node_id"].tolist() == ["tv"]
        (tmp_path / "spend.csv").write_text("where,cost\ntv,5\n")
        with pytest.raises(errors.InvalidRequest, match="'spend_node': COLUMN"):
            read_spend(tmp_path / "spend.csv", columns={"node": "kanal"})


class TestOrderLines:
    def read(self, **columns):
        length = max(len(column) for column in columns.values())
        lines = pd.DataFrame({"user": ["u"] * length, "date": ["2025-01-02"] * length} | columns)
        return read_journeys(CLICKS, lines, reading=Reading(aggregate=True))

    def revenue(self, journeys):
        events = journeys.events.sort_values("event.sourceId")
        return dict(zip(events["event.sourceId"], events["statistics.revenue"], strict=True))

    def test_a_price_is_multiplied_with_its_quantity(self):
        journeys = self.read(
            order_id=["a", "a", "b"], price=["19.99", "0.10", "5.00"], quantity=["3", "3", "1"]
        )
        assert self.revenue(journeys) == {"a": 60.27, "b": 5.0}
        assert journeys.columns["conversions"]["quantity"] == "quantity"

    def test_a_total_is_not(self):
        journeys = self.read(order_id=["a"], total=["40.00"], price=["20.00"], quantity=["2"])
        assert self.revenue(journeys) == {"a": 40.0}

    @pytest.mark.large
    @pytest.mark.slow
    def test_columns_with_other_names_are_multiplied_if_both_are_named(self):
        lines = pd.DataFrame(ORDER | {"Preis": ["2.50"], "Menge": ["4"]})
        for columns, expected in [
            ({"value": "Preis", "quantity": "Menge"}, 10.0),
            ({"value": "Preis"}, 2.5),
        ]:
            journeys = read_journeys(CLICKS, lines, reading=Reading(columns=columns))
            assert self.revenue(journeys) == {"1": expected}

    @pytest.mark.slow
    def test_a_price_without_a_quantity_rejects_the_whole_order(self):
        with pytest.warns(errors.RejectedRows, match="2 rows"):
            journeys = self.read(
                order_id=["a", "a", "b"], price=["1.00", "2.00", "3.00"], quantity=["1", None, "2"]
            )
        assert self.revenue(journeys) == {"b": 6.0}
        assert sorted(journeys.rejected["reason"]) == [
            "another row of the conversion a cannot be read",
            "quantity is missing",
        ]

    def test_lines_of_several_days_are_one_conversion_on_the_first(self):
        journeys = self.read(order_id=["a", "a"], price=["1.50", "2.00"], date=["2025-01-04", "2025-01-03"])
        assert self.revenue(journeys) == {"a": 3.5}
        assert journeys.events["eventDate"].dt.day.tolist() == [3]

    def test_lines_in_several_currencies_are_refused(self):
        with pytest.raises(errors.InvalidRequest, match="rows of conversion 'a' .* in several currencies"):
            self.read(order_id=["a", "a"], price=["1.50", "2.00"], currency=["EUR", "USD"])


class TestQuietWeek:
    def test_orders_without_rows_are_no_conversions(self, tmp_path):
        (tmp_path / "orders.csv").write_text("order_id,user,date,revenue,currency\n")
        with pytest.warns(errors.InputWarning, match=r"orders\.csv has no conversions"):
            journeys = read_journeys(CLICKS, tmp_path / "orders.csv")
        assert journeys.counts == {"interactions": 1, "events": 0}
        assert attribute(journeys.paths(), "linear")["conversions"].sum() == 0

    def test_no_touchpoint_is_flagged(self):
        with pytest.warns(errors.InputWarning):
            assert read_journeys(CLICKS.assign(conversion="no")).counts["events"] == 0

    def test_order_lines_without_rows(self):
        lines = pd.DataFrame({**ORDER, "price": ["1.00"], "quantity": ["1"]}).iloc[:0]
        with pytest.warns(errors.InputWarning):
            assert read_journeys(CLICKS, lines, reading=Reading(aggregate=True)).counts["events"] == 0

    @pytest.mark.slow
    def test_spend_without_rows(self, tmp_path):
        (tmp_path / "spend.csv").write_text("channel,cost,currency\n")
        with pytest.warns(errors.InputWarning, match=r"spend\.csv has no rows"):
            spend, rejected = read_spend(tmp_path / "spend.csv")
        assert (len(spend), len(rejected)) == (0, 0)
        paths = read_journeys(CLICKS, pd.DataFrame(ORDER)).paths()
        assert attribute(paths, "linear", spend=spend)["conversions"].tolist() == [1.0]


def test_a_missing_column_of_conversions_is_named_with_its_own_option():
    with pytest.raises(errors.InvalidRequest, match=r"'conversion_date': COLUMN"):
        read_journeys(CLICKS, pd.DataFrame({"user": ["u"], "x": ["2"]}))
    with pytest.raises(errors.InvalidRequest, match=r"'conversion_user': COLUMN"):
        read_journeys(CLICKS, pd.DataFrame({"x": ["v"], "date": ["2025-01-02"]}))
    with pytest.raises(errors.InvalidRequest, match="no column 'wann'"):
        read_journeys(
            CLICKS.rename(columns={"date": "wann"}),
            pd.DataFrame({"user": ["u"], "am": ["2025-01-02"]}),
            reading=Reading(columns={"date": "wann"}),
        )


def test_the_only_column_of_people_or_instants_needs_no_common_name():
    journeys = read_journeys(CLICKS, pd.DataFrame({"x": ["u"], "y": ["2025-01-02"]}))
    assert journeys.columns["conversions"] == {"user": "x", "date": "y"}
    assert journeys.interactions["userId"].tolist() == journeys.events["userId"].tolist()


def test_values_of_an_export_in_no_currency_are_left_out():
    def event(number, **ecommerce):
        return {
            "event_timestamp": 1735725600000000 + number,
            "event_name": "purchase",
            "user_pseudo_id": "1.2",
            "ecommerce": {"transaction_id": f"T-{number}", "purchase_revenue": 5.0},
            "event_params": [
                {"key": "ga_session_id", "value": {"int_value": 1735725600}},
                {"key": "currency", "value": {"string_value": ecommerce["currency"]}},
            ],
        }

    export = pd.DataFrame([event(1, currency="usd"), event(2, currency="points")])
    with pytest.warns(errors.UnknownCurrency, match="1 conversion without a value.*'points'"):
        events = read_ga4(export).events.sort_values("event.sourceId")
    assert events["statistics.revenue.currency"].fillna("").tolist() == ["USD", ""]
    assert events["statistics.revenue.amount"].fillna(0).tolist() == [5.0, 0.0]
