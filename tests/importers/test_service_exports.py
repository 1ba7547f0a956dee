"""Exports of other services as they come: what is read, what is left out, and the credits computed by hand."""

import csv
import warnings
from collections import Counter
from datetime import datetime
from pathlib import Path

import pandas as pd
import pytest
from support.own_files import read_files

import attrib_ds as at
from attrib_ds.commands.cli import main
from attrib_ds.errors import InvalidRequest

EXPORTS = Path(__file__).parent / "data" / "exports"
ORDERS = ["anna 01-05T09 90", "ben 01-05T10 30", "carla 01-08T11 1200"]
GOOGLE, FACEBOOK, MAIL = "google/cpc/spring", "facebook/paid_social/launch", "newsletter/email/weekly"
CLICKS = [
    f"anna 01-02T09 {GOOGLE}",
    f"anna 01-04T09 {MAIL}",
    f"ben 01-03T10 {FACEBOOK}",
    f"carla 01-05T08 {GOOGLE}",
    f"carla 01-06T08 {FACEBOOK}",
    f"carla 01-07T08 {GOOGLE}",
    f"dan 01-08T08 {MAIL}",
]
#: Touchpoints and conversions of each pair of files, read by eye: user, day and hour, node or value.
CASES = {
    "shopify": (
        CLICKS,
        [*ORDERS[:3], "dan 01-10T11 15", "eve 01-11T11 10"],
        "1 voided left out, 1 partially_refunded counted, 1 pending counted",
    ),
    "squarespace": (CLICKS, [ORDERS[0], ORDERS[2]], "1 REFUNDED left out, 1 PENDING counted"),
    "woocommerce": (
        CLICKS,
        [*ORDERS, "dan 01-10T12 30"],
        "1 Cancelled left out, 1 Failed left out, 1 Pending payment counted",
    ),
    "stripe": (CLICKS, ORDERS, "2 with Captured false left out, 1 Failed left out, 1 Refunded left out"),
    "magento": (CLICKS, ORDERS, "3 rows of 4; 1 canceled left out"),
    "stripe_balance": (
        CLICKS,
        ["anna 01-05T09 70", *ORDERS[1:]],
        "1 payout left out, description Refund counted; the date is created_utc",
    ),
    "paypal": (CLICKS, ORDERS, "3 rows of 5; 1 General Withdrawal left out, 1 Denied left out"),
    "pipedrive": (
        CLICKS,
        ["anna 01-05T09 12000", "carla 01-08T09 8000"],
        "2 rows of 4; 1 Lost left out, 1 Open left out",
    ),
    "hubspot": (
        [
            "5011 02-20T09 Paid Search",
            "5011 03-01T09 Email Marketing",
            "5013 02-22T09 Organic Search",
            "5014 02-25T09 Direct Traffic",
            "5013 03-02T09 Paid Social",
        ],
        ["5011 03-05T10 12000", "5013 03-09T10 8000"],
        "1 Closed Lost (Sales Pipeline) left out, 1 Contract Sent (Sales Pipeline) left out",
    ),
    "salesforce": (
        ["a 02-20T00 Webinar", "a 03-01T00 Trade fair", "b 02-20T00 Webinar", "c 03-01T00 Trade fair"],
        ["a 03-05T23 12000", "c 03-09T23 8000"],
        "1 Closed Lost left out, 1 Negotiation/Review left out",
    ),
    "ga4_exploration": (
        [
            "1 01-02T09 google / cpc",
            "1 01-05T09 newsletter / email",
            "2 01-03T10 facebook / paid_social",
            "3 01-05T08 google / cpc",
            "3 01-08T11 facebook / paid_social",
            "4 01-09T11 (direct) / (none)",
        ],
        ["1 01-05T09 90", "3 01-08T11 1200"],
        "2 transactions from 6 rows; 1 line above the header left out",
    ),
    "matomo": (
        ["a 01-02T09 organic-search/Google", "a 01-05T09 direct", "b 01-03T10 organic-social/Facebook"],
        ["a 01-05T09 90", "b 01-03T10 30"],
        "Matomo visits: 3 visits",
    ),
    "appsflyer": (
        [
            "1 01-02T09 googleadwords_int/spring",
            "1 01-01T09 Facebook Ads/launch",
            "2 01-04T09 Facebook Ads/launch",
            "1 00-31T09 tiktokglobal_int/launch",
        ],
        ["1 01-03T09 30", "1 01-05T09 60", "3 01-06T10 10"],
        "3 conversions from 4 events",
    ),
    "umami": (
        [
            f"1 01-02T09 {GOOGLE}",
            "1 01-05T09 referral/news.example",
            "2 01-03T09 direct",
            "3 01-04T09 referral/news.example",
        ],
        ["1 01-05T09 0", "2 01-03T09 0"],
        "2 conversions, visits with a view of /thank-you",
    ),
    "access": (
        [
            f"1 01-02T09 {GOOGLE}",
            "1 01-05T09 referral/news.example",
            "1 01-05T10 direct",
            "2 01-03T09 referral/news.example",
        ],
        ["1 01-05T10 0", "2 01-03T09 0"],
        "2 conversions, visits with a view of /thank-you",
    ),
}
FILES = {
    "hubspot": ("hubspot_contacts.csv", "hubspot_deals.csv"),
    "salesforce": ("salesforce_members.csv", "salesforce_opportunities.csv"),
    "access": ("access.log", None),
} | {name: (f"{name}.csv", None) for name in ("ga4_exploration", "matomo", "appsflyer", "umami")}


def credits_by_hand(touches, conversions):
    """Return credited conversions and value by model and node, in plain Python."""
    credited = {model: Counter() for model in ("first_touch", "last_touch", "linear")}
    earned = {model: Counter() for model in credited}
    for conversion in conversions:
        user, time, value = conversion.split(" ")
        path = sorted(each.split(" ", 2)[1:] for each in touches if each.split(" ")[0] == user)
        nodes = [node for at_time, node in path if at_time <= time] or ["unattributed"]
        shares = {"first_touch": nodes[:1], "last_touch": nodes[-1:], "linear": nodes}
        for model, earners in shares.items():
            for node in earners:
                credited[model][node] += 1 / len(earners)
                earned[model][node] += float(value) / len(earners)
    return credited, earned


def quiet(*arguments, **options):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        journeys = read_files(*arguments, **options)
    return journeys, " | ".join(str(warning.message) for warning in caught)


def files_of(name):
    touchpoints, conversions = FILES.get(name, ("clicks.csv", f"{name}.csv"))
    return EXPORTS / touchpoints, conversions and EXPORTS / conversions


@pytest.mark.few(2)
@pytest.mark.parametrize("name", CASES)
def test_an_export_is_read_as_it_comes(name):
    touches, conversions, said = CASES[name]
    page = "/thank-you" if name in {"umami", "access"} else None
    journeys, warned = quiet(*files_of(name), conversion_page=page, currency="EUR")
    assert journeys.rejected.empty
    assert said in " | ".join(journeys.notes)
    assert said in warned
    credits = at.attribute(journeys.paths(), ["first_touch", "last_touch", "linear"])
    credited, earned = credits_by_hand(touches, conversions)
    for row in credits.itertuples():
        node = "unattributed" if pd.isna(row.node_id) else row.node_id
        assert row.conversions == pytest.approx(credited[row.model][node])
        assert page is not None or row.value == pytest.approx(earned[row.model][node])
    assert credits.groupby("model")["conversions"].sum().round(9).eq(len(conversions)).all()


@pytest.mark.few(2)
@pytest.mark.parametrize("name", ["shopify", "appsflyer", "access"])
def test_the_command_reads_the_same(name, capsys):
    touchpoints, conversions = files_of(name)
    arguments = ["attribute", "--touchpoints", str(touchpoints), "--models", "linear"]
    arguments += [] if conversions is None else ["--conversions", str(conversions)]
    arguments += ["--conversion-page", "/thank-you"] if name == "access" else []
    assert main(arguments) == 0
    printed = capsys.readouterr()
    assert CASES[name][2] in printed.err
    assert f"{len(CASES[name][1])} conversions." in printed.out


#: What a report spends on the campaign of a click, and on a campaign without one.
REPORTS = {
    "google": {GOOGLE: 1010.5, "google/autumn": 40.0},
    "meta": {FACEBOOK: 75.25},
    "microsoft": {"microsoft/spring": 12.0, "microsoft/autumn": 3.0},
    "linkedin": {"linkedin/launch": 40.0},
    "tiktok": {"tiktok/launch": 15.0},
    "pinterest": {"pinterest/launch": 10.0},
}


def test_reports_of_ad_platforms_are_spend():
    reports = [EXPORTS / f"{name}_ads.csv" for name in REPORTS]
    journeys, said = quiet(*files_of("shopify"), spend=reports)
    expected = {node: spend for report in REPORTS.values() for node, spend in report.items()}
    assert journeys.spend.groupby("node_id")["spend"].sum().to_dict() == expected
    assert set(journeys.spend["currency"]) == {"EUR"}
    assert "google_ads.csv: Google Ads report; 2 lines above the header left out" in said
    assert "2 totals left out" in said
    assert "'google/autumn' with 40.00" in said
    credits = at.attribute(journeys.paths(), "linear").set_index("node_id")
    # Half of Anna's 90 and two thirds of Carla's 1,200 for 1,010.50.
    assert credits.loc[GOOGLE, "roas"] == pytest.approx(845 / 1010.5)
    assert credits.loc[FACEBOOK, "roas"] == pytest.approx(430 / 75.25)


def test_reports_by_day_give_returns_by_period(tmp_path):
    reports = [EXPORTS / "tiktok_ads.csv", EXPORTS / "pinterest_ads.csv"]
    meta = EXPORTS / "meta_ads.csv"
    daily = tmp_path / "meta.csv"
    daily.write_text(meta.read_text().replace("2025-01-31", "2025-01-01"))
    journeys, _ = quiet(*files_of("shopify"), spend=[*reports, daily])
    by_day = journeys.spend.groupby("date")["spend"].sum()
    assert by_day.to_dict() == {"2025-01-01": 75.25, "2025-01-02": 8.0 + 4.0, "2025-01-03": 7.0 + 6.0}
    series = at.credit_series(journeys.paths(), "linear", interval="day")
    assert series.groupby("day")["spend"].sum()[list(by_day.index)].tolist() == by_day.tolist()
    # A row for a month has no day, and one file without days leaves all without.
    journeys, _ = quiet(*files_of("shopify"), spend=[*reports, meta])
    assert "date" not in journeys.spend
    assert journeys.spend["spend"].sum() == 25 + 75.25


def test_campaigns_are_spent_on_their_source_where_touchpoints_have_no_campaigns(tmp_path):
    clicks = pd.DataFrame({"email": ["anna@example.com"] * 2, "time": ["2025-01-02", "2025-01-03"]})
    clicks["channel"] = ["Google Ads", "meta"]
    reports = [EXPORTS / "google_ads.csv", EXPORTS / "meta_ads.csv"]
    journeys, _ = quiet(clicks, EXPORTS / "shopify.csv", spend=reports)
    assert journeys.spend.groupby("node_id")["spend"].sum().to_dict() == {"Google Ads": 1050.5, "meta": 75.25}


@pytest.mark.parametrize("name", ["google_ads", "meta_ads", "plausible"])
def test_a_summary_is_called_that(name):
    with pytest.raises(InvalidRequest, match=f"touchpoints: {name}.csv is a summary .*no people"):
        at.read_journeys(EXPORTS / f"{name}.csv", EXPORTS / "shopify.csv")


@pytest.mark.few(2)
@pytest.mark.parametrize(
    "total", ["Overall total", "Deleted items total", "Total : campagnes", "Total: Account"]
)
def test_rows_of_totals_are_left_out(total, tmp_path):
    clicks = pd.DataFrame({"user": ["u"], "channel": ["Brand"], "date": ["2025-01-01"]})
    orders = pd.DataFrame({"order_id": ["1"], "user": ["u"], "date": ["2025-01-02"], "value": [5.0]})
    rows = f"Campaign,Currency code,Clicks,Spend,Avg. CPC\nBrand,EUR,1,2.0,2\n{total},EUR,1,2.0,2\n"
    (tmp_path / "spend.csv").write_text(rows)
    with pytest.warns(at.errors.InputWarning, match="1 row of totals left out"):
        journeys = at.read_journeys(clicks, orders, spend=tmp_path / "spend.csv")
    assert journeys.spend["spend"].sum() == 2.0


def test_any_table_of_sums_is_called_a_summary():
    totals = pd.DataFrame({"channel": ["tv"], "date": ["2025-01-01"], "Sessions": [5], "Clicks": [3]})
    with pytest.raises(
        InvalidRequest, match=r"a summary: it has sums \(Sessions, Clicks\) and no column of people"
    ):
        at.read_journeys(totals, EXPORTS / "shopify.csv")


@pytest.mark.filterwarnings("ignore:touchpoints.*columns that are not used")
def test_conversions_are_not_taken_for_touchpoints():
    with pytest.raises(InvalidRequest, match=r"shopify.csv .*pass the conversions in a file of their own"):
        at.read_journeys(EXPORTS / "shopify.csv")


def test_matomo_visits_lead_to_orders_of_another_table():
    orders = pd.DataFrame({"visitor_id": ["a1"], "date": ["2025-01-05T10:00:00Z"], "value": [5.0]})
    named = {"device": "visitorId", "conversion_user": "visitor_id"}
    journeys, _ = quiet(
        EXPORTS / "matomo.csv", orders, columns={"user": "visitorId", "conversion_user": "visitor_id"}
    )
    assert named["device"] in journeys.columns["touchpoints"].values()
    credits = at.attribute(journeys.paths(), "first_touch")
    assert credits.loc[credits["conversions"] > 0, "node_id"].tolist() == ["organic-search/Google"]


def test_a_workbook_may_have_lines_of_title(tmp_path):
    rows = [
        ["Campaign report", None, None],
        ["January 2025", None, None],
        ["Campaign", "Currency code", "Cost"],
        ["spring", "EUR", 12.5],
    ]
    pd.DataFrame(rows).to_excel(tmp_path / "report.xlsx", header=False, index=False)
    journeys, _ = quiet(*files_of("shopify"), spend=tmp_path / "report.xlsx")
    assert journeys.spend[["node_id", "spend"]].to_numpy().tolist() == [[GOOGLE, 12.5]]


@pytest.mark.few(2)
@pytest.mark.parametrize(
    "stage", ["Abgeschlossen und gewonnen", "Fermée gagnée", "Clôturée/Gagnée", "Cerrada ganada", "Won"]
)
@pytest.mark.parametrize("name", ["hubspot", "salesforce"])
def test_stages_may_be_in_another_language(name, stage, tmp_path):
    touchpoints, deals = files_of(name)
    (tmp_path / "deals.csv").write_text(deals.read_text().replace("Closed Won", stage), encoding="utf-8")
    journeys, said = quiet(touchpoints, tmp_path / "deals.csv")
    assert "left out" in said
    assert len(journeys.events) == 2
    assert journeys.events["statistics.revenue.amount"].sum() == 20000


@pytest.mark.parametrize(
    ("name", "header"),
    [
        (
            "hubspot",
            "Datensatz-ID,Deal-Name,Deal-Phase,Abschlussdatum,-,Betrag,Währung,-,Zugeordnete Kontakt-IDs",
        ),
        (
            "salesforce",
            "Opportunity-Name,Opportunity-ID,Phase,Betrag,Betrag Währung,Schlussdatum,-,-,Kontakt-ID",
        ),
    ],
)
def test_headers_of_deals_may_be_german(name, header, tmp_path):
    touchpoints, deals = files_of(name)
    frame = pd.read_csv(deals, dtype=str)
    frame.columns = header.split(",")
    frame.drop(columns="-").to_csv(tmp_path / "deals.csv", index=False)
    journeys, said = quiet(touchpoints, tmp_path / "deals.csv")
    assert "left out" in said
    assert len(journeys.events) == 2
    assert journeys.events["statistics.revenue.amount"].sum() == 20000


def test_refunds_that_are_rows_of_paypal_and_woocommerce_are_subtracted_once(tmp_path):
    header, *rows = (EXPORTS / "paypal.csv").read_text().splitlines()
    refund = rows[0].replace("90.00", "-90.00").replace("4XA", "4XR")
    rows += [refund.replace("Express Checkout Payment", "Payment Refund")]
    without = [line.rpartition(",")[0] for line in (header, *rows)]
    (tmp_path / "paypal.csv").write_text("\n".join(without))
    journeys, said = quiet(EXPORTS / "clicks.csv", tmp_path / "paypal.csv")
    assert "1 refund subtracted" in said
    assert journeys.events["statistics.revenue.amount"].sum() == 1320 - 90

    header, *rows = (EXPORTS / "woocommerce.csv").read_text().splitlines()
    refund = rows[2].replace("72,", "99,").replace(",20,50,", ",0,-20,")
    lines = [f"{header},Order Type", *(f"{row},shop_order" for row in rows), f"{refund},shop_order_refund"]
    (tmp_path / "woo.csv").write_text("\n".join(lines))
    journeys, said = quiet(EXPORTS / "clicks.csv", tmp_path / "woo.csv")
    assert "1 refunds, which Order Refund Amount has left out" in said
    assert journeys.events["statistics.revenue.amount"].sum() == 1320 + 30


def test_signs_for_nothing_and_headers_in_other_languages_are_spend(tmp_path):
    google = (EXPORTS / "google_ads.csv").read_text().replace('"1,500",40.00', '"1,500", --')
    (tmp_path / "google.csv").write_text(google)
    french = (EXPORTS / "meta_ads.csv").read_text()
    for english, other in {
        "Reporting starts": "Début des rapports",
        "Reporting ends": "Fin des rapports",
        "Campaign name": "Nom de la campagne",
        "Amount spent": "Montant dépensé",
    }.items():
        french = french.replace(english, other)
    (tmp_path / "meta.csv").write_text(french.replace("2025-01-31", "2025-01-01"), encoding="utf-8")
    journeys, _ = quiet(*files_of("shopify"), spend=[tmp_path / "google.csv", tmp_path / "meta.csv"])
    spent = journeys.spend.groupby("node_id")["spend"].sum()
    assert spent.to_dict() == {GOOGLE: 1010.5, "google/autumn": 0.0, FACEBOOK: 75.25}
    assert journeys.rejected.empty
    journeys, _ = quiet(*files_of("shopify"), spend=tmp_path / "meta.csv")
    assert journeys.spend["date"].tolist() == ["2025-01-01"]


def test_every_format_is_described_whole():
    from attrib_ds.importers.formats import known_formats

    for each in known_formats():
        assert each.holds in {"touchpoints", "conversions", "spend", "summary", "events"}
        assert set(each.roles) <= {
            *(
                "user",
                "device",
                "node",
                "date",
                "time",
                "conversion",
                "value",
                "currency",
                "page",
                "referrer",
                "spend",
                "campaign",
            )
        }
        assert (each.holds in {"summary", "events"}) == bool(each.advice)


def test_the_fixtures_are_what_the_readme_lists():
    text = (EXPORTS / "README.md").read_text(encoding="utf-8")
    for file in EXPORTS.iterdir():
        assert file.name == "README.md" or f"`{file.name}`" in text


def test_the_clicks_are_those_of_the_table():
    with (EXPORTS / "clicks.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    read = [
        f"{row['email'].split('@')[0].lower()} {datetime.fromisoformat(row['time']):%m-%dT%H} "
        f"{row['utm_source']}/{row['utm_medium']}/{row['utm_campaign']}"
        for row in rows
    ]
    assert read == CLICKS


@pytest.mark.parametrize("name", ["umami.csv", "access.log"])
def test_views_of_pages_need_the_page_of_a_conversion(name, capsys):
    with pytest.raises(InvalidRequest, match=f"{name} has views of pages; .*conversion_page='/thank-you'"):
        at.read_journeys(EXPORTS / name)
    assert main(["attribute", "--touchpoints", str(EXPORTS / name)]) == 1
    assert "such as --conversion-page '/thank-you'" in capsys.readouterr().err
