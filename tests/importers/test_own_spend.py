"""Tables of spend as pipelines and ad platforms write them, put on the nodes of touchpoints."""

import warnings

import pytest

import attrib_ds as at
from attrib_ds.commands.cli import main
from attrib_ds.errors import InputWarning, InvalidRequest
from attrib_ds.importers.own_spend import read_all, read_spend

SPRING, AUGUST, BRAND = "google/cpc/Spring", "newsletter/email/August", "google/cpc/Brand"
SOCIAL, BING = "facebook/paid_social/Spring", "bing/cpc/Spring"


def tree(*campaigns):
    """Return the types of campaigns and of the nodes above them."""
    above = {campaign.rpartition("/")[0]: "integration" for campaign in campaigns}
    return above | dict.fromkeys(campaigns, "campaign")


def spent(file, *campaigns, **options):
    """Return node, amount, currency and day of each row, and what was said."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        spend, rejected = read_spend(file, nodes=tree(*campaigns), **options)
    assert rejected.empty
    rows = spend.reindex(columns=["node_id", "spend", "currency", "date"]).astype(object)
    return rows.where(rows.notna(), None).to_numpy().tolist(), " ".join(str(each.message) for each in caught)


@pytest.mark.few(4)
@pytest.mark.parametrize(
    ("text", "currency"),
    [
        ("Kampagne;Tag;Kosten (EUR)\nSpring;01.03.2025;40,00\n", "EUR"),
        (
            "campaign.name,segments.date,metrics.cost_micros,customer.currency_code\n"
            "Spring,2025-03-01,40000000,EUR\n",
            "EUR",
        ),
        (
            "customer_id,date,account_name,currency_code,campaign_id,campaign_name,spend,clicks,impressions\n"
            "111,2025-03-01,Shop,EUR,9,Spring,40.00,12,300\n",
            "EUR",
        ),
        ('Campaign name,Day,Amount spent (EUR),Impressions\nSpring,2025-03-01,"40.00",300\n', "EUR"),
        ("Campaña;Día;Coste\nSpring;01/03/2025;40,00\nSpring;31/03/2025;0,00\n", None),
        ("Campagne;Jour;Dépenses\nSpring;01/03/2025;40,00\nSpring;31/03/2025;0,00\n", None),
        ("c1,c2,c3\nSpring,2025-03-01,40.00\nAugust,2025-03-02,0.00\n", None),
        ("a1|a2|a3|a4|a5\n2025-03-01|Spring|40.00|EUR|1200\n", "EUR"),
        ("TimePeriod,CampaignName,Spend,Account\n2025-03-01,Spring,40,Shop\n", None),
        ("campaign,day,cost\nSpring,45717,40\n", None),
        ("node_path,d,cost_usd\ngoogle / cpc / Spring,2025-03-01,40.00\n", "USD"),
        ("month_start,date,campaign,cost,cost_per_click\n2025-03-01,2025-03-01,Spring,40.00,0.5\n", None),
    ],
)
def test_columns_are_found_by_the_names_of_nodes(text, currency, write):
    rows, said = spent(write("spend.csv", text), SPRING, AUGUST)
    assert rows[0] == [SPRING, 40.0, currency, "2025-03-01"]
    assert sum(row[1] for row in rows) == 40.0
    assert "Microsoft" not in said
    assert ("metrics.cost_micros divided by 1,000,000" in said) == ("micros" in text)


def test_amounts_are_divided_only_where_the_name_says_so(write):
    rows, _ = spent(write("spend.csv", "campaign,day,spend\nSpring,2025-03-01,40000000\n"), SPRING)
    assert rows == [[SPRING, 40_000_000.0, None, "2025-03-01"]]


def test_two_amounts_are_refused_unless_one_was_converted(write):
    with pytest.raises(InvalidRequest, match="two columns that may be the spend, 'cost' and 'spend'"):
        spent(write("spend.csv", "campaign,day,cost,spend\nSpring,2025-03-01,40,44\n"), SPRING)
    text = "campaign,day,cost,cost_micros,cost_usd,currency,cost_per_click\n"
    rows, _ = spent(write("spend.csv", f"{text}Spring,2025-03-01,40,40000000,44,EUR,1\n"), SPRING)
    assert rows == [[SPRING, 40.0, "EUR", "2025-03-01"]]


@pytest.mark.few(4)
@pytest.mark.parametrize(
    ("name", "node"),
    [
        ("google_ads", SPRING),
        ("Google Ads", SPRING),
        ("facebook_ads", SOCIAL),
        ("Meta", SOCIAL),
        ("Microsoft Advertising", BING),
        *((name, f"{name.lower()}/paid/Spring") for name in ("LinkedIn", "TikTok", "Pinterest", "Snapchat")),
        *((name, f"{name.lower()}/paid/Spring") for name in ("Reddit", "Amazon", "Criteo", "Quora")),
    ],
)
def test_the_platform_tells_campaigns_of_one_name_apart(name, node, write):
    text = (
        "date_day,platform,account_name,campaign_name,clicks,impressions,spend\n"
        f"2025-03-01,{name},Shop,Spring,12,300,40.00\n2025-03-02,AdWords,Shop,Brand,12,300,2.50\n"
    )
    rows, said = spent(write("spend.csv", text), SPRING, SOCIAL, BING, BRAND, node)
    assert rows == [[node, 40.0, None, "2025-03-01"], [BRAND, 2.5, None, "2025-03-02"]]
    assert not said


@pytest.mark.parametrize(
    ("text", "node"),
    [
        ("Gregorian date,Campaign,Spend\n2025-03-01,Spring,40\n", BING),
        ("stat_time_day,campaign_name,spend\n2025-03-01 00:00:00,Spring,40\n", "tiktok/paid/Spring"),
        (
            "Campaign Group Name,Campaign Name,Date,Total Spent\nB2B,Spring,2025-03-01,40\n",
            "linkedin/paid/Spring",
        ),
        ("Kampagne,Tag,Kosten,Impr.\nSpring,2025-03-01,40,5\n", SPRING),
    ],
)
def test_what_only_a_platform_writes_tells_it(text, node, write):
    rows, said = spent(write("spend.csv", text), SPRING, BING, "tiktok/paid/Spring", "linkedin/paid/Spring")
    assert rows == [[node, 40.0, None, "2025-03-01"]]
    assert "report" in said


def test_where_two_formats_fit_the_content_decides(write):
    text = "Campaign,Cost,Impr.,stat_time_day\nSpring,40,5,2025-03-01\nAugust,2,5,2025-03-02\n"
    rows, said = spent(write("spend.csv", text), SPRING, AUGUST)
    assert [row[:2] for row in rows] == [[SPRING, 40.0], [AUGUST, 2.0]]
    assert not said


def test_a_name_of_two_nodes_is_put_on_neither(write):
    text = "campaign,date,cost\nSpring,2025-03-01,40\n"
    with pytest.raises(InvalidRequest, match=rf"'Spring' with 40.00 \({SOCIAL} or {SPRING}\)"):
        spent(write("spend.csv", text), SPRING, SOCIAL)
    rows, said = spent(
        write("spend.csv", text + "Brand,2025-03-01,7\nWinter,2025-03-01,3\n"), SPRING, SOCIAL, BRAND
    )
    assert [row[:2] for row in rows] == [["Spring", 40.0], [BRAND, 7.0], ["Winter", 3.0]]
    assert f"'Spring' with 40.00 ({SOCIAL} or {SPRING})" in said
    assert "without a touchpoint, which get rows of their own: 'Winter' with 3.00" in said


def test_a_campaign_of_another_platform_is_put_on_no_node(write):
    text = (
        "platform,campaign,medium,date,cost\nbing,Brand,cpc,2025-03-01,40\ngoogle,Brand,video,2025-03-01,2\n"
    )
    rows, said = spent(write("spend.csv", text + "google,Brand,cpc,2025-03-01,3\n"), BRAND, BING)
    assert [row[0] in {BRAND, BING} for row in rows] == [False, False, True]
    assert "with 40.00" in said


def test_spend_of_a_source_stands_at_the_source(write):
    text = "month,source,spent,currency\n2025-08-01,google,19.50,EUR\n2025-08-01,podcast,100.00,EUR\n"
    rows, said = spent(write("spend.csv", text), SPRING, BRAND)
    # The spend of a month has no day.
    assert rows == [["google", 19.5, "EUR", None], ["podcast", 100.0, "EUR", None]]
    assert "spend of whole sources: 'google' with 19.50" in said
    assert "'podcast' with 100.00" in said


def test_campaigns_belong_to_the_medium_where_touchpoints_have_no_campaigns(write):
    text = "date,source,medium,campaign,cost\n2025-03-01,google,cpc,Spring,40\n2025-03-01,google,video,Spring,2\n"
    with pytest.warns(InputWarning, match="'google/video/Spring' with 2.00"):
        spend, _ = read_spend(write("spend.csv", text), nodes={"google/cpc": "integration", "tv": "channel"})
    assert spend["node_id"].tolist() == ["google/cpc", "google/video/Spring"]


def test_ids_of_campaigns_and_signs_for_nothing(write):
    text = "date,campaign_id,campaign_name,cost\n2025-03-01,90010001.0,Spring,40\n2025-03-02,90010001.0,Spring,--\n"
    rows, _ = spent(write("spend.csv", text), "google/cpc/90010001", AUGUST)
    assert [row[:2] for row in rows] == [["google/cpc/90010001", 40.0], ["google/cpc/90010001", 0.0]]


def test_a_day_that_reads_both_ways_is_refused(write):
    with pytest.raises(InvalidRequest, match="dayfirst"):
        spent(write("spend.csv", "campaign,day,cost\nSpring,03/04/2025,40\n"), SPRING)


def test_rows_of_two_tables_count_once_if_they_are_equal(write):
    first = write("first.csv", "campaign,day,cost\nSpring,2025-03-01,40\nAugust,2025-03-01,5\n")
    second = write("second.csv", "day;campaign_name;spend\n2025-03-01;Spring;40.00\n2025-03-02;Spring;7.00\n")
    with pytest.warns(InputWarning, match="1 row of the same node and day in several files"):
        spend, _ = read_all([first, second], tree(SPRING, AUGUST))
    assert spend.groupby("node_id")["spend"].sum().to_dict() == {SPRING: 47.0, AUGUST: 5.0}
    second = write("second.csv", "day;campaign_name;spend\n2025-03-01;Spring;44.00\n")
    with pytest.raises(InvalidRequest, match=r"40.00 on 2025-03-01 in first.csv and 44.00 in second.csv"):
        read_all([first, second], tree(SPRING, AUGUST))


@pytest.mark.slow
def test_the_command_reads_the_same(write, capsys):
    clicks = write("clicks.csv", "user,source,medium,campaign,date\nann,google,cpc,Spring,2025-03-01\n")
    orders = write("orders.csv", "order_id,user,date,value,currency\n1,ann,2025-03-02,100,EUR\n")
    spend = write("spend.csv", "Kampagne;Tag;Kosten (EUR)\nSpring;01.03.2025;40,00\n")
    journeys = at.read_journeys(clicks, orders, spend=spend)
    credits = at.attribute(journeys.paths(), "linear").set_index("node_id")
    assert credits.loc[SPRING, "roas"] == 2.5
    paths = write("paths.csv", "path,conversions,value,currency\ngoogle/cpc/Spring,1,100,EUR\n")
    for files in (["--touchpoints", str(clicks), "--conversions", str(orders)], ["--paths", str(paths)]):
        assert main(["attribute", *files, "--spend", str(spend)]) == 0
        assert "2.50" in capsys.readouterr().out
