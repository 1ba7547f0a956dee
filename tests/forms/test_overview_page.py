"""The first page of a project: its numbers are those of the functions, and the address holds what it shows."""

import re

import ibis
import pandas as pd
import pytest
from support.widget_tree import shown

from attrib_ds import (
    attribute,
    connect,
    conversion_paths,
    create_event_type,
    forms,
    funnel,
    interaction,
    page_insights,
)
from attrib_ds.errors import InvalidRequest
from attrib_ds.forms.workbench import _READING, _WRITING, workbench

ASKED = {"event_type": "order", "statistic": "turnover", "level": "channel"}


@pytest.fixture
def shop(sample):
    return sample


@pytest.mark.slow
def test_credits_are_those_of_the_last_whole_days(shop):
    page = forms.overview(shop)
    page.state = {"period": "4 weeks", "model": "Linear", "beside": "First touch"}
    paths = conversion_paths(shop, **ASKED, since="2025-06-03", until="2025-06-30")
    pd.testing.assert_frame_equal(page.run(), attribute(paths, ["linear", "first_touch"]))
    assert "3 Jun 2025 to 30 Jun 2025" in shown(page)
    # The 28 days before, summed without the report.
    before = conversion_paths(shop, **ASKED, since="2025-05-06", until="2025-06-02").conversions
    total = before.count().to_pyarrow().as_py()
    assert f"the 4 weeks before: {total}<" in page._answers.html
    assert "What the spend brought back" in page._answers.html


@pytest.mark.slow
def test_days_before_the_first_conversions_are_no_period(shop):
    page = forms.overview(shop)
    page.state = {"period": "26 weeks"}
    page.run()
    assert "before:" not in page._answers.html
    page.state = {"period": "From … to …", "since": "2025-02-01", "until": "2025-02-28"}
    page.run()
    assert "the 4 weeks before: " in page._answers.html
    page.state = {"since": "2025-03-01"}
    page.refresh()
    assert "From: 2025-03-01 is after 2025-02-28" in shown(page)
    assert page._answers.is_stale


@pytest.mark.slow
def test_a_filter_keeps_conversions_and_says_how_many(shop):
    page = forms.overview(shop)
    page.state = {"only": "Country", "value": "FR"}
    credits = page.run()
    # Each user's last visit with a country, by DuckDB alone.
    visits = shop.tables().interactions
    last = ibis.row_number().over(group_by=visits.userId, order_by=visits.startDate.desc())
    country = visits["geo.countryCode"]
    visits = visits.filter(country != "").mutate(country=country, place=last)
    french = visits.filter((visits.place == 0) & (visits.country == "FR")).userId
    period = conversion_paths(shop, **ASKED, since="2025-04-08", until="2025-06-30").conversions
    kept, total = period.filter(period.user_id.isin(french)).count(), period.count()
    kept, total = (number.to_pyarrow().as_py() for number in (kept, total))
    assert 0 < kept < total
    assert f"Only people whose last visit has country FR: {kept} of {total} conversions." in shown(page)
    assert credits.loc[credits["model"] == "linear", "conversions"].sum() == pytest.approx(kept)
    # Nobody knows what was spent on people in France.
    assert "What the spend brought back" not in page._answers.html


def test_a_channel_keeps_the_conversions_with_a_visit_of_it(shop):
    page = forms.overview(shop)
    page.state = {"only": "Channel", "value": "Email", "model": "First touch"}
    credits = page.run()
    rows = conversion_paths(shop, **ASKED, since="2025-04-08", until="2025-06-30").to_pandas()
    with_email = rows[rows["node_name"] == "Email"]["event_id"].nunique()
    assert credits.loc[credits["model"] == "first_touch", "conversions"].sum() == pytest.approx(with_email)


@pytest.mark.slow
def test_pages_and_the_funnel_are_those_of_the_functions(shop):
    page = forms.overview(shop)
    page.state = {
        "period": "4 weeks",
        "funnel": "/ > /products/* > order",
        "only": "Device",
        "value": "mobile",
    }
    page.run()
    period = {"since": "2025-06-03", "until": "2025-06-30"}
    mobile = {**period, "where": interaction("userAgent.device.type") == "mobile"}
    tables = re.findall("<tbody>(.*?)</tbody>", page._answers.html)[-3:]
    pages, entries, steps = (
        [[re.sub("<.*?>", "", cell) for cell in row.split("</td>")] for row in table.split("</tr>")[:-1]]
        for table in tables
    )
    expected = page_insights(shop, **mobile, sort="-views", limit=10)
    assert [row[:2] for row in pages] == [
        [path, f"{views:,}"] for path, views in zip(expected["page"], expected["views"], strict=True)
    ]
    expected = page_insights(shop, **mobile, group_by="channel", sort="-entries", limit=10)
    assert [row[:2] for row in entries] == expected[["group", "page"]].to_numpy().tolist()
    expected = funnel(shop, ["/", "/products/*", "order"], **mobile)
    assert [int(row[2]) for row in steps] == expected["count"].tolist()
    assert page.state["funnel"] == "/ > /products/* > order"
    assert "steps=['/', '/products/*', 'order']" in page.code
    page.state = {"funnel": "/ > Order"}
    page.run()
    assert "Funnel: steps/1: &#x27;Order&#x27; is not allowed" in shown(page)
    assert "How far users get" not in page._answers.html


@pytest.mark.slow
def test_a_changed_menu_shows_other_numbers_at_once(shop):
    page = forms.overview(shop)
    page.start()
    weeks = page._answers.html
    page._inputs["period"].value = "7 days"
    assert page._answers.html != weeks
    assert not page._answers.is_stale
    # Half a period is none: it waits for both days.
    days = page._answers.html
    page._inputs["period"].value = "From … to …"
    assert page._answers.html == days


def test_a_project_without_conversions_says_what_to_do():
    with connect("my-shop", path=":memory:") as project:
        page = forms.overview(project)
        page.start()
        assert "send those of a shop or a CRM on the page Send conversions" in shown(page)
        create_event_type(project, "order", name="Order")
        page = forms.overview(project)
        page.start()
        assert page.error is not None


@pytest.mark.large
@pytest.mark.slow
def test_a_part_opens_the_credits_that_made_it(shop):
    bench = workbench()
    bench.open(shop)
    overview = bench.forms["Overview"]
    bench.show("Overview")._open_part("How journeys open and close")
    form = bench.forms["Credits"]
    since = {"since": "2025-04-08", "until": "2025-06-30"}
    assert form.value == {**ASKED, **since, "models": ["first_touch", "last_touch"]}
    assert form.result is not None
    overview.state = {"only": "Country", "value": "FR"}
    overview.run()
    overview._open_part("Credited conversions, Last touch")
    assert bench.forms["Credits"].value == {**ASKED, **since, "models": ["last_touch", "linear"]}
    assert "These are the conversions of everyone, not of FR alone." in shown(bench)


@pytest.mark.large
@pytest.mark.slow
def test_an_address_shows_the_same_again(tmp_path, monkeypatch):
    bench = workbench("sample=1&page=Overview&period=4 weeks&only=Device&value=mobile")
    assert bench.forms["Overview"].state["value"] == "mobile"
    assert "Only people whose last visit has device mobile" in shown(bench)
    bench.show("Users")
    bench.forms["Users"].value = {"limit": 7}
    bench.forms["Users"].run()
    again = workbench(bench._address.query)
    assert len(again.forms["Users"].result) == 7
    again.start_page()
    assert again._address.query == ""
    for each in (bench, again):
        each.project.close()


@pytest.mark.few(2)
@pytest.mark.parametrize("query", ["in=other", "in=../other", "in=bakery&page=Nowhere", "sample=", "in"])
def test_an_address_opens_nothing_but_what_is_there(query, tmp_path, monkeypatch):
    monkeypatch.setenv("ATTRIB_DS_HOME", str(tmp_path / "home"))
    connect("bakery").close()
    connect("other", path=tmp_path / "other.duckdb").close()
    assert workbench(query).project is None
    assert [file.name for file in (tmp_path / "home").glob("*.duckdb")] == ["bakery.duckdb"]


def test_values_of_an_address_that_make_no_sense_are_left_out(tmp_path, monkeypatch):
    monkeypatch.setenv("ATTRIB_DS_HOME", str(tmp_path))
    connect("bakery").close()
    bench = workbench("in=bakery&page=Users&limit=many&other=1")
    assert bench.project.project_id == "bakery"
    bench.project.close()


def test_pages_that_look_are_apart_from_pages_that_change():
    assert not set(_READING) & set(_WRITING)
    bench = workbench()
    assert [list(tabs.options) for tabs in bench._tabs] == [list(_READING), list(_WRITING)]


def test_an_unknown_name_is_refused(shop):
    page = forms.overview(shop)
    with pytest.raises(InvalidRequest, match="did you mean 'period'"):
        page.state = {"periods": "7 days"}
    with pytest.raises(InvalidRequest, match="period: '3 days' is not allowed"):
        page.state = {"period": "3 days"}
