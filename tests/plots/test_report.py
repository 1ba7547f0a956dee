"""A report answers first; its numbers are those of an independent computation."""

import json
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from attrib_ds import Paths, attribute, errors, models, report
from attrib_ds.plots.overview import Measure, Overview, Period, in_words
from attrib_ds.plots.report import _chart, first_page, page

#: Ends of the axes of charts, and powers of ten of them.
ROUND = (1, 2, 3, 4, 5, 6, 8, 10)
MODELS = ["first_touch", "linear", "last_touch"]
#: Ads: 3 of 5 conversions, 60 EUR for 20 EUR; mail: 1, 10 USD; one in EUR is unattributed.
CREDITS = pd.DataFrame(
    [
        ("ads", "Ads", 3.0, 60.0, "EUR", 20.0, 3.0),
        ("mail", "Mail", 1.0, 10.0, "USD", None, None),
        ("radio", "Radio", 0.0, 0.0, "EUR", 5.0, 0.0),
        (None, None, 1.0, 1500.0, "EUR", None, None),
    ],
    columns=["node_id", "node_name", "conversions", "value", "currency", "spend", "roas"],
).assign(model="linear", share=[0.6, 0.2, 0.0, 0.2], cpa=[20 / 3, None, None, None])


def test_a_number_has_one_rounding_in_a_report(tmp_path):
    rows = pd.DataFrame({"path": ["ads", "mail > ads"], "n": [51.45, 51.45], "value": [61.45, 61.45]})
    paths = Paths.from_sequences(rows, path="path", conversions="n", value="value", currency="EUR")
    credits = attribute(paths, ["first_touch", "last_touch"])
    html = report(credits, tmp_path / "report.html", paths=paths).read_text(encoding="utf-8")
    shown = re.sub("<(script|svg|style).*?</\\1>", "", html, flags=re.DOTALL)
    # Conversions have one decimal, small amounts of money two.
    assert {*re.findall(r"\b51\b[.0-9]*", shown)} == {"51.5"}
    assert {*re.findall(r"\b61\b[.0-9]*", shown)} == {"61.45"}
    assert {*re.findall(r"\b1[02]2\b[.0-9]*", shown)} == {"102.9", "122.90"}


def test_a_workbook_has_no_noise_of_computation():
    rows = pd.DataFrame({"path": ["a > b > c", "b > c > a", "c > b > a"], "n": [6, 6, 6.0]})
    paths = Paths.from_sequences(rows, path="path", conversions="n")
    credits = attribute(paths, "linear").assign(conversions=[5.9999999, 6.0000001, 5.9999999999])
    assert Overview.of(credits).frames()["Credit"]["Conversions"].tolist() == [6.0, 6.0, 6.0]


@pytest.mark.parametrize(("models", "said"), [(2, "Both models agree"), (3, "All 3 models agree")])
def test_models_that_agree_are_counted(models, said):
    paths = Paths.from_sequences(pd.DataFrame({"path": ["a"], "n": [1.0]}), path="path", conversions="n")
    assert said in Overview.of(attribute(paths, MODELS[:models])).sentences[1]


def journeys():
    """Return 15 days of journeys drawn at random: touchpoints and conversions."""
    draws = np.random.default_rng(7)
    start = pd.Timestamp("2025-03-03", tz="UTC")

    def dates(number):
        return (start + pd.to_timedelta(draws.integers(0, 15 * 24 * 60, number), unit="min")).astype(
            "datetime64[us, UTC]"
        )

    touchpoints = pd.DataFrame(
        {
            "user_id": draws.integers(0, 90, 240).astype(str),
            "node_id": draws.choice(["search", "mail", "radio", "<b>tv</b>"], 240),
            "date": dates(240),
        }
    ).drop_duplicates(["user_id", "date"])
    conversions = pd.DataFrame(
        {
            "event_id": [f"e{number}" for number in range(80)],
            "user_id": draws.integers(0, 120, 80).astype(str),
            "date": dates(80),
            "value": draws.integers(-20, 200, 80).astype(float),
            "currency": "EUR",
        }
    )
    return touchpoints, conversions


def by_hand(touchpoints, conversions):
    """Return one row per conversion with its ordered nodes, without the package."""
    rows = []
    for order in conversions.itertuples():
        own = touchpoints[touchpoints["user_id"] == order.user_id]
        own = own[(own["date"] <= order.date) & (own["date"] > order.date - pd.Timedelta("30D"))]
        rows.append(
            {
                "day": order.date.normalize(),
                "value": order.value,
                "nodes": own.sort_values("date")["node_id"].tolist(),
            }
        )
    return pd.DataFrame(rows)


@pytest.fixture(scope="module")
def drawn():
    touchpoints, conversions = journeys()
    paths = Paths.from_frames(touchpoints, conversions)
    return Overview.of(attribute(paths, MODELS), paths), by_hand(touchpoints, conversions)


def test_credits_and_their_range_are_those_of_rules_applied_by_hand(drawn):
    overview, rows = drawn
    paths = rows[rows["nodes"].str.len() > 0]
    for node in ("search", "mail", "radio", "<b>tv</b>"):
        parts = {
            "first_touch": paths["nodes"].map(lambda nodes, node=node: nodes[0] == node),
            "last_touch": paths["nodes"].map(lambda nodes, node=node: nodes[-1] == node),
            "linear": paths["nodes"].map(lambda nodes, node=node: nodes.count(node) / len(nodes)),
        }
        for model, part in parts.items():
            shown = overview.of_model(model).loc[node]
            assert shown["Conversions"] == pytest.approx(part.sum())
            assert shown["Value, EUR"] == pytest.approx((part * paths["value"]).sum())
            assert shown["Share, %"] == pytest.approx(100 * part.sum() / 80)
        assert overview.roles.loc[node, ["opens", "closes"]].tolist() == [
            parts["first_touch"].sum(),
            parts["last_touch"].sum(),
        ]
        between = paths["nodes"].map(lambda nodes, node=node: node in nodes[1:-1])
        assert overview.roles.loc[node, "assists"] == between.sum()
    assert overview.of_model("linear").loc["", "Conversions"] == (rows["nodes"].str.len() == 0).sum()


def test_the_period_is_compared_with_the_one_before_it(drawn):
    overview, rows = drawn
    period = overview.period
    # 15 days hold a week twice, and no longer period.
    assert (period.days, period.step, period.last) == (7, 1, rows["day"].max().tz_localize(None))
    age = (rows["day"].max() - rows["day"]).dt.days
    for frame, newest in ((period.now, 0), (period.before, 7)):
        for place in range(7):
            own = rows[age == newest + 6 - place]
            assert frame["conversions"].tolist()[place] == len(own)
            assert frame["value"].tolist()[place] == pytest.approx(own["value"].sum())
    linear = rows[age < 7]["nodes"].map(lambda nodes: nodes.count("mail") / max(len(nodes), 1)).sum()
    assert overview.lead == "linear"
    assert period.by_node.loc["mail", "now"] == pytest.approx(linear)


def test_a_report_of_some_days_is_of_the_last_that_the_data_cover():
    touchpoints = pd.DataFrame(
        {
            "user_id": ["u", "v", "z"],
            "node_id": ["tv", "mail", "tv"],
            "date": pd.to_datetime(["2025-01-01T10:00Z", "2025-01-15T10:00Z", "2025-01-20T10:00Z"]),
        }
    )
    orders = pd.DataFrame(
        {
            "event_id": ["1", "2", "3"],
            "user_id": ["u", "v", "w"],
            "date": pd.to_datetime(["2025-01-02T10:00Z", "2025-01-16T10:00Z", "2025-01-16T10:00Z"]),
            "value": [10.0, 20.0, 40.0],
            "currency": "EUR",
        }
    )
    spend = pd.DataFrame(
        {"node_id": ["tv", "mail"], "date": ["2025-01-01", "2025-01-21"], "spend": [90.0, 5.0]}
    )
    paths = Paths.from_frames(touchpoints, orders).with_spend(spend)
    credits = attribute(paths, ["linear", "last_touch"])
    week = Overview.of(credits, paths, days=7)
    # No order is of the last five days, on which there were a visit and spend.
    assert week.span == "Conversions from 15 Jan 2025 to 21 Jan 2025, 7 days."
    assert week.sentences[0] == "2 conversions worth 60 EUR: under Linear, the credit goes to mail (1, 50 %)."
    assert week.roles.index.tolist() == ["mail"]
    assert week.of_model("last_touch").loc["mail", ["Value, EUR", "Spend, EUR"]].tolist() == [20.0, 5.0]
    assert week.across("Spend, EUR").sum().tolist() == [5.0, 5.0]
    assert week.paths["conversions"].sum() == 2
    assert week.period.now["conversions"].tolist() == [0, 2, 0, 0, 0, 0, 0]
    assert week.period.before["conversions"].sum() == 0
    assert f">{week.span}</p>" in page(week, title="Week")
    assert week.frames()["Overview"]["answer"][0] == week.span
    whole = Overview.of(credits, paths)
    assert whole.span == "Conversions from 2 Jan 2025 to 21 Jan 2025."
    assert whole.sentences[0].startswith("3 conversions worth 70 EUR")
    # A model with settings has no name to compute it by.
    own = Overview.of(attribute(paths, {"linear": models.TimeDecay("3D")}), paths, days=7)
    assert own.sentences[0].startswith("3 conversions worth 70 EUR")
    assert own.span.startswith("Charts over time and changes cover conversions from 15 Jan 2025 to 21 Jan")


def test_lags_are_those_of_the_first_and_the_last_visit():
    date = pd.to_datetime(["2025-01-01", "2025-01-09", "2025-01-10", "2025-01-01"], utc=True)
    touchpoints = pd.DataFrame({"user_id": ["u", "u", "v", "w"], "node_id": list("abab"), "date": date})
    end = pd.Timestamp("2025-01-10T12:00", tz="UTC")
    orders = pd.DataFrame({"event_id": list("xyz"), "user_id": ["u", "v", "nobody"], "date": end})
    paths = Paths.from_frames(touchpoints, orders)
    lags = Overview.of(attribute(paths, "linear"), paths).lags
    assert lags["first"].tolist() == [0.5, 0.5, 0.5, 1.0, 1.0, 1.0]
    assert lags["last"].tolist() == [0.5, 1.0, 1.0, 1.0, 1.0, 1.0]


def test_values_spend_and_returns_stand_beside_conversions():
    overview = Overview.of(CREDITS)
    shown = {
        each.title: [each.text(number) for number in overview.numbers[each.title]]
        for each in overview.measures
    }
    assert list(overview.names.values()) == ["Ads", "Mail", "Radio", "unattributed"]
    assert shown == {
        "Conversions": ["3.0", "1.0", "0.0", "1.0"],
        "Share, %": ["60.0", "20.0", "0.0", "20.0"],
        "Value, EUR": ["60", "", "0", "1,500"],
        "Value, USD": ["", "10.00", "", ""],
        "Spend, EUR": ["20.00", "", "5.00", ""],
        "CPA, EUR": ["6.67", "", "", ""],
        "ROAS": ["3.00", "", "0.00", ""],
    }
    counts = CREDITS.assign(value=CREDITS["conversions"], currency=None).drop(
        columns=["spend", "cpa", "roas"]
    )
    assert [each.title for each in Overview.of(counts).measures] == ["Conversions", "Share, %"]


def test_sentences_say_what_brought_the_conversions_and_what_cannot_be_told():
    assert Overview.of(CREDITS).sentences == [
        "5 conversions worth 1,560 EUR and 10 USD: under Linear, the most credit goes to Ads (3, 60 %) and Mail "
        "(1, 20 %).",
        "Only Linear was used; other models may divide the conversions differently.",
        "These data cannot tell how many of the conversions would have happened anyway: models only divide them. "
        "1 (20 %) had no known visit before.",
    ]
    assert Overview.of(CREDITS[:0]).sentences == ["No conversions."]
    assert Overview.of(CREDITS[:1].assign(value=3.0, currency=None)).sentences[0] == (
        "3 conversions: under Linear, the credit goes to Ads (3, 100 %)."
    )


def test_the_leading_model_is_the_one_in_the_middle_and_the_disagreement_is_explained():
    sequences = pd.DataFrame({"path": ["tv > mail > search", "search"], "n": [6, 2]})
    paths = Paths.from_sequences(sequences, path="path", conversions="n")
    overview = Overview.of(attribute(paths, MODELS), paths)
    # Shares of tv, mail and search: 6, 0 and 2 of 8; 0, 0 and 8; 2, 2 and 4. The medians are 2, 0 and 4.
    assert overview.lead == "linear"
    assert overview.reason == (
        "Linear is shown first, because its credit is nearest to the middle of the 3 models."
    )
    assert overview.sentences[1] == (
        "Models disagree most about search: 2 under First touch, 8 under Last touch. It opens 2 journeys and "
        "closes 8, so models that favour the last visit give it more credit. Test it before you move its budget."
    )
    chosen = Overview.of(attribute(paths, MODELS), paths, lead="first_touch")
    assert chosen.reason == "First touch is shown first, because it was chosen."
    with pytest.raises(errors.InvalidRequest, match="lead"):
        Overview.of(attribute(paths, MODELS), lead="linaer")


def test_a_lookback_that_cuts_off_known_visits_says_so():
    date = pd.to_datetime(["2025-01-01", "2025-05-01"], utc=True)
    touchpoints = pd.DataFrame({"user_id": ["u", "v"], "node_id": ["fair", "fair"], "date": date})
    deals = pd.DataFrame(
        {"event_id": list("xyz"), "user_id": ["u", "v", "w"], "date": pd.Timestamp("2025-05-02", tz="UTC")}
    )
    paths = Paths.from_frames(touchpoints, deals)
    assert (
        Overview.of(attribute(paths, "linear"), paths)
        .sentences[2]
        .endswith(
            "2 (66.7 %) had no known visit in the 30 days before. Of these, 1 had earlier visits, which a longer "
            "lookback would credit."
        )
    )


def test_names_stay_text_and_the_page_needs_no_network(drawn):
    overview, _ = drawn
    html = page(overview, title="A & <i>B</i>", notes=["<u>"])
    assert "<h1>A &amp; &lt;i&gt;B&lt;/i&gt;</h1>" in html
    assert "<b>tv" not in html
    assert "&lt;b&gt;tv&lt;/b&gt;" in html
    assert not re.search(r'\s(src|href|style|on\w+)="', html)
    # One script runs and one holds data, in which a name cannot end it.
    (data,) = re.findall(r'<script type="application/json" id="numbers">(.*?)</script>', html)
    numbers = json.loads(data)
    assert "<b>tv</b>" in numbers["names"]
    assert "<" not in data
    place = numbers["names"].index("mail")
    assert numbers["models"] == ["First touch", "Linear", "Last touch"]
    assert numbers["numbers"][1][0][place] == pytest.approx(
        overview.of_model("linear").loc["mail", "Conversions"]
    )
    assert "<script" not in first_page(overview)


def test_a_report_is_a_page_or_a_workbook(tmp_path):
    pytest.importorskip("xlsxwriter")
    paths = Paths.from_sequences(
        pd.DataFrame({"path": ["a > b", "b"], "n": [3, 2]}), path="path", conversions="n"
    )
    credits = attribute(paths, ["first_touch", "linear"])
    assert "b (3.5, 70&nbsp;%)" in report(credits, tmp_path / "r.html", paths=paths, lead="linear").read_text(
        "utf-8"
    )
    sheets = pd.read_excel(
        report(credits, tmp_path / "new" / "r.xlsx", paths=paths, lead="linear"), sheet_name=None
    )
    assert list(sheets) == ["Overview", "Credit", "Conversions by model", "Paths", "All credits"]
    assert sheets["Credit"][["node", "Conversions", "opens", "closes"]].to_numpy().tolist() == [
        ["b", 3.5, 2, 5],
        ["a", 1.5, 3, 0],
    ]
    with pytest.raises(errors.InvalidRequest, match=r"r.pdf.*\.html or \.xlsx"):
        report(credits, tmp_path / "r.pdf")
    with pytest.raises(errors.InvalidRequest, match="days: 0"):
        report(credits, tmp_path / "r.html", paths=paths, days=0)
    for without in (None, paths):
        with pytest.raises(errors.InvalidRequest, match="days: needs paths with dates"):
            report(credits, tmp_path / "r.html", paths=without, days=7)


def test_a_report_of_more_days_than_the_paths_cover_says_so(tmp_path):
    """Orders of 3 and 9 January cover 7 days; of 400 days only these are reported."""
    date = pd.to_datetime(["2025-01-03T10:00Z", "2025-01-09T10:00Z"])
    visits = pd.DataFrame({"user_id": "u", "node_id": ["a", "b"], "date": date - pd.Timedelta(hours=1)})
    paths = Paths.from_frames(visits, pd.DataFrame({"event_id": ["1", "2"], "user_id": "u", "date": date}))
    credits = attribute(paths, "last_touch")
    with pytest.warns(errors.InputWarning, match="days: the paths cover 7 days, from 3 Jan .* not 400 days"):
        overview = Overview.of(credits, paths, days=400)
    assert overview.span == "Conversions from 3 Jan 2025 to 9 Jan 2025, 7 days."
    over_time = overview.frames()["Over time"]
    assert [str(day) for day in over_time["date"]] == [f"2025-01-0{day}" for day in range(3, 10)]
    assert over_time["conversions"].tolist() == [1, 0, 0, 0, 0, 0, 1]


def test_a_workbook_has_numbers_alone_in_columns_of_numbers(tmp_path):
    """Three sequences in another order than by frequency; a bound without a limit is an empty cell."""
    pytest.importorskip("xlsxwriter")
    frame = pd.DataFrame({"path": ["a", "b", "c"], "n": [1, 3, 2]})
    paths = Paths.from_sequences(frame, path="path", conversions="n")
    credits = attribute(paths, "linear").assign(cpa=2.0, cpa_high=np.inf)
    sheets = pd.read_excel(report(credits, tmp_path / "r.xlsx", paths=paths), sheet_name=None)
    assert sheets["Paths"].to_dict("list") == {"path": ["b", "c", "a"], "conversions": [3, 2, 1]}
    assert sheets["All credits"]["cpa"].tolist() == [2.0] * 3
    assert sheets["All credits"]["cpa_high"].isna().all()


@pytest.mark.parametrize(
    ("most", "top"),
    [*zip(ROUND, ROUND, strict=True), (7, 8), (9, 10), (11, 20), (57, 60), (0.3, 1), (1_000, 1_000)],
)
def test_a_chart_ends_at_the_next_round_amount(most, top):
    """Days have no conversion but the last, whose amount is at most that of the chart's highest line."""
    days = pd.date_range("2025-03-03", periods=2)
    amounts = pd.DataFrame({"conversions": [0.0, most], "value": [0.0, -most]})
    none, by_node = amounts.head(0), pd.DataFrame({"now": [], "before": []})
    period = Period(2, days[0], days[1], 1, amounts, none, by_node)
    for column, ends, y in (("conversions", {0, top / 2, top}, "10.0"), ("value", {-top, 0}, "128.0")):
        html = _chart("Amount", "", period, column)
        ticks = re.findall(r'text-anchor="end">([^<]+)</text>', html)[: len(ends)]
        assert {float(tick.replace(",", "").replace("−", "-")) for tick in ticks} == ends
        last = re.search(r'<polyline class="line" points=".* 470.0,([0-9.]+)"', html)[1]
        assert (last == y) == (most == pytest.approx(top))


def test_a_node_of_the_days_before_alone_is_in_the_report():
    """Search brings an order on each of the first two days, and mail on each of the last two."""
    date = pd.date_range("2025-01-01T10:00Z", periods=4, freq="D")
    users, nodes = ["a", "b", "c", "d"], ["search", "search", "mail", "mail"]
    paths = Paths.from_frames(
        pd.DataFrame({"user_id": users, "node_id": nodes, "date": date}),
        pd.DataFrame({"event_id": users, "user_id": users, "date": date}),
    )
    overview = Overview.of(attribute(paths, ["last_touch", "linear"]), paths, days=2)
    assert overview.period.by_node.T.to_dict("list") == {"mail": [2.0, 0.0], "search": [0.0, 2.0]}
    assert "\N{MINUS SIGN}2.0</td><td>0.0</td><td>2.0" in page(overview, title="Report")
    assert overview.frames()["Credit"]["2 days before"].tolist() == [0.0, 2.0]


def test_rolled_up_credits_have_no_roles_of_other_nodes():
    touchpoints, conversions = journeys()
    paths = Paths.from_frames(touchpoints, conversions)
    credits = attribute(paths, ["last_touch", "linear"])
    rolled = credits.assign(node_id=credits["node_id"].mask(credits["node_id"].notna(), "all"))
    overview = Overview.of(rolled, paths)
    assert (len(overview.roles), len(overview.period.by_node)) == (0, 0)
    assert "How journeys open" not in page(overview, title="Report")


def test_a_report_without_conversions_says_so(tmp_path):
    rows = pd.DataFrame({"path": ["a"], "n": [0], "lost": [3]})
    paths = Paths.from_sequences(rows, path="path", conversions="n", nulls="lost")
    text = report(attribute(paths, "linear"), tmp_path / "r.html", paths=paths).read_text("utf-8")
    assert "No conversions." in text
    assert "<table" not in text
    pytest.importorskip("xlsxwriter")
    sheets = pd.read_excel(report(attribute(paths, "linear"), tmp_path / "r.xlsx"), sheet_name=None)
    assert sheets["Overview"]["answer"].tolist() == ["No conversions.", "There is no credit."]
    assert sheets["Credit"].empty


def test_models_have_names_in_words():
    assert in_words("last_non_direct") == "Last non-direct"
    assert in_words("time_decay(half_life=3D)") == "Time decay (half life = 3D)"
    assert in_words("my_own (v2)") == "my_own (v2)"


@pytest.fixture(scope="module")
def twins():
    """Paths of two currencies and none, with spend, through two campaigns of one name; and their credits."""
    touchpoints, conversions = journeys()
    names = {"search": "Search", "mail": "spring", "radio": "spring", "<b>tv</b>": "<b>tv</b>"}
    tree = pd.DataFrame({"node_id": list(names), "name": list(names.values()), "type": "campaign"})
    conversions["currency"] = ["EUR", "eur", "USD", None] * 20
    with pytest.warns(errors.UnknownCurrency, match="20 rows with a value but no currency"):
        paths = Paths.from_frames(touchpoints, conversions)
    paths = replace(paths, nodes=tree.assign(parent_id=None))
    spend = pd.DataFrame(
        {"node_id": ["mail", "search", "mail"], "spend": [30.0, 20.0, 4.0], "currency": ["EUR", "EUR", "USD"]}
    )
    paths = paths.with_spend(spend)
    with pytest.warns(errors.UnknownCurrency, match="cannot be compared"):
        return paths, attribute(paths, MODELS)


def of_functions(paths, credits, name):
    """Return a column of credits by its title in a report, the node and the model, and the roles of nodes."""
    measure, _, unit = name.partition(", ")
    if measure in ("Opens", "Assists", "Closes"):
        return paths.roles().set_index("node_id")[measure.lower()]
    unit = unit.removeprefix("spend in ")
    unit = "" if measure == "Share" else unit
    of_unit = credits["currency"].fillna("in no currency") == unit
    rows = credits[of_unit] if unit else credits
    column = {"Share": "share"}.get(measure, measure.lower())
    sums = rows.groupby([rows["node_id"].fillna(""), "model"])[column].sum(min_count=1)
    return 100 * sums if measure == "Share" else sums


def test_every_number_of_the_page_is_that_of_the_function_for_it(twins):
    paths, credits = twins
    overview = Overview.of(credits, paths)
    data = json.loads(re.search(r'id="numbers">(.*?)</script>', page(overview, title="Report"), re.S)[1])
    assert sorted(data["names"]) == ["<b>tv</b>", "Search", "spring (mail)", "spring (radio)", "unattributed"]
    titles = [each["title"] for each in data["measures"]]
    assert titles == [
        "Conversions", "Share, %", "Value, EUR", "Value, USD", "Value, in no currency", "Spend, EUR", "Spend, USD", "CPA, EUR", "CPA, USD",
        "ROAS, spend in EUR", "ROAS, spend in USD",
    ]  # fmt: skip
    keys = list(overview.names)
    for model, by_measure in zip(MODELS, data["numbers"], strict=True):
        for title, numbers in zip(titles, by_measure, strict=True):
            expected = of_functions(paths, credits, title)
            wanted = [expected.get((key, model), np.nan) for key in keys]
            shown = [np.nan if number is None else number for number in numbers]
            assert shown == pytest.approx(wanted, nan_ok=True), (title, model)
    for each in data["fixed"][:3]:
        expected = of_functions(paths, credits, each["title"]).reindex(keys)
        shown = [np.nan if number is None else number for number in each["numbers"]]
        assert shown == pytest.approx(expected.tolist(), nan_ok=True), each["title"]


def test_every_number_of_the_workbook_is_that_of_the_function_for_it(twins, tmp_path):
    pytest.importorskip("xlsxwriter")
    paths, credits = twins
    overview = Overview.of(credits, paths)
    keys = {name: key for key, name in overview.names.items()}
    sheets = pd.read_excel(report(credits, tmp_path / "r.xlsx", paths=paths), sheet_name=None)
    credit = sheets["Credit"].set_index(sheets["Credit"]["node"].map(keys))
    titles = [*(each.title for each in overview.measures), "opens", "assists", "closes"]
    for title in titles:
        expected = of_functions(paths, credits, title if "," in title else title.capitalize())
        if expected.index.nlevels > 1:
            expected = expected.xs(overview.lead, level="model")
        assert credit[title].tolist() == pytest.approx(
            expected.reindex(credit.index).tolist(), nan_ok=True
        ), title
    for title in ("Conversions", "Value, EUR", "Value, USD", "Value, in no currency"):
        sheet = sheets[f"{title.replace(', ', ' ')} by model"]
        expected = of_functions(paths, credits, title)
        for model in MODELS:
            wanted = [expected.get((keys[node], model), np.nan) for node in sheet["node"]]
            assert sheet[in_words(model)].tolist() == pytest.approx(wanted, nan_ok=True), (title, model)
    counts = paths.summary(top=None).groupby("path")["conversions"].sum()
    shown = sheets["Paths"].fillna({"path": ""}).set_index("path")["conversions"]
    assert shown.to_dict() == counts[shown.index].to_dict()
    assert shown.min() >= counts.drop(shown.index).max()
    assert any("spring (mail)" in path for path in shown.index)
    every = sheets["All credits"]
    assert every["conversions"].tolist() == pytest.approx(credits["conversions"].tolist())
    dates = paths.to_pandas().drop_duplicates("event_id")["event_date"].dt.tz_localize(None)
    both = overview.period.last - pd.Timedelta(days=2 * overview.period.days - 1)
    assert sheets["Over time"]["conversions"].sum() == (dates >= both).sum()


def test_a_number_has_one_rounding_on_a_page():
    """Browsers round halves away from zero, and show all digits of large amounts."""
    credits = CREDITS.assign(conversions=[0.25, 0.25, 0.0, 0.0], value=[12_345_678_912.0, 2.5, 0.0, 0.0])
    overview = Overview.of(credits)
    text = page(overview, title="Report")
    assert "Ads (0.3, 50&nbsp;%)" in text
    assert "12,345,678,912 EUR and 2.50 USD" in text
    data = json.loads(re.search(r'id="numbers">(.*?)</script>', text, re.S)[1])
    assert 12_345_678_912 in data["numbers"][0][2]
    assert [Measure("", decimals=1).text(amount) for amount in (0.25, -0.25, 1.05, -0.04)] == [
        "0.3", "\N{MINUS SIGN}0.3", "1.1", "0.0",
    ]  # fmt: skip
