"""Forms: fields, calls, generated code and error messages."""

import inspect
import io
import re
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
from support.widget_tree import shown, walk

import attrib_ds
from attrib_ds import (
    attribute,
    connect,
    conversion_paths,
    create_event_type,
    event,
    forms,
    interaction,
    interaction_insights,
    list_user_events,
    models,
    node,
    sample_project,
    search_interactions,
    search_users,
    user,
)
from attrib_ds.errors import InvalidRequest
from attrib_ds.forms.form import write_call, write_program
from attrib_ds.forms.form_fields import form_fields
from attrib_ds.forms.workbench import workbench

EXPORTS = Path(__file__).parents[1] / "importers" / "data" / "exports"


@pytest.fixture(scope="module")
def shop():
    with sample_project() as project:
        yield project


def executed(form, result, **names):
    """Run the code of a form as a user who copied it, and return one of its variables."""
    exec(form.code, names)
    return names[result]


#: Functions that each form calls.
FUNCTIONS = {
    "search": [search_interactions],
    "insights": [interaction_insights],
    "attribution": [conversion_paths, attribute],
    "users": [search_users],
    "export": [attrib_ds.export_users],
    "send_events": [attrib_ds.send_events],
    "conversions": [attrib_ds.send_conversions],
    "states": [attrib_ds.update_states],
    "campaigns": [attrib_ds.list_campaigns],
    "create_campaign": [attrib_ds.create_campaign],
    "outlays": [attrib_ds.create_outlays],
}

VALUES = {
    "search": {
        "where": (interaction("geo.countryCode") == "FR") & interaction("startDate").between(
            "2025-02-01T00:00:00Z", "2025-05-01T00:00:00Z"
        ),
        "nodes": ~(node("channel") == "Direct"),
        "since": "2025-01-15T08:30:00Z",
        "columns": ["_id", "startDate", "geo.city"],
        "sort": "-startDate",
        "limit": 7,
        "filtered": None,
    },
    "insights": {"group_by": "geo.countryCode", "interval": "month", "bots": None, "timezone": "Europe/Paris"},
    "attribution": {
        "event_type": "order",
        "statistic": "turnover",
        "models": ["last_touch", "linear"],
        "level": "channel",
        "lookback": "7D",
        "where": interaction("duration") > 10,
        "audience": user("eventCount") >= 1,
        "confidence": 0.9,
    },
}  # fmt: skip


def test_credits_are_asked_in_words(shop):
    form = forms.attribution(shop)
    asked = {name: form.control(name).input for name in ("event_type", "statistic")}
    assert [box.value for box in asked.values()] == ["Order", "Turnover"]
    assert asked["statistic"].options[0] == "Number of conversions"
    assert {"Items", "Turnover"} < set(asked["statistic"].options)
    assert form.value["event_type"] == "order"
    asked["event_type"].value, asked["statistic"].value = "Lead", "Number of conversions"
    assert form.value["event_type"] == "lead"
    assert form.control("statistic").value == "event-count"
    # What is typed without a label counts as it is.
    asked["event_type"].value = "order"
    assert form.value["event_type"] == "order"


@pytest.mark.few(8)
@pytest.mark.slow
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_form_has_a_control_for_each_argument_of_its_functions(name, shop):
    """Only files, frames and mappings, which are for code, have no control."""
    fields = {argument for function in FUNCTIONS[name] for argument in form_fields(function)}
    arguments = {
        argument for function in FUNCTIONS[name] for argument in inspect.signature(function).parameters
    }
    assert fields <= arguments
    form = getattr(forms, name)(shop)
    controlled = {argument for argument in arguments if _has_control(form, argument)}
    assert fields - controlled <= {"project", "paths", "to", "chunks", "journal", "spend", "sql"}
    assert {"where", "event_type", "path"} & arguments <= controlled


def _has_control(form, argument):
    try:
        form.control(argument)
    except InvalidRequest:
        return False
    return True


@pytest.mark.slow
@pytest.mark.parametrize("name", VALUES)
def test_values_are_returned_as_set(name, shop):
    form = getattr(forms, name)(shop)
    form.value = VALUES[name]
    assert form.value == {**form.value, **VALUES[name]}
    assert form.error is None


@pytest.mark.large
@pytest.mark.slow
@pytest.mark.parametrize("name", VALUES)
def test_the_code_returns_the_result_of_the_form(name, shop):
    form = getattr(forms, name)(shop)
    form.value = VALUES[name]
    result = form.run()
    assert len(result) > 0
    again = executed(
        form, {"search": "interactions", "insights": "counts"}.get(name, "credits"), project=shop
    )
    pd.testing.assert_frame_equal(result, again)


def files(folder):
    (folder / "visits.csv").write_text("user,channel,date\nu,search,2025-01-01\nu,email,2025-01-02\n")
    (folder / "orders.csv").write_text("user,date,value\nu,2025-01-03,30\n")
    (folder / "events.csv").write_text("data.user.email,eventDate\nann@example.com,2025-01-31T12:00:00Z\n")
    (folder / "states.csv").write_text("id,storageKey,value\n6774887f3fd0b1876c000000,confirmed,1\n")
    (folder / "costs.csv").write_text(
        "campaignId,amount,startDate,endDate\n6774887f3fd0b1876c000000,12.5,2025-03-01T00:00:00Z,2025-03-31T00:00:00Z\n"
    )


#: Values and a file for each form, and a variable that its code leaves.
PASTED = {
    "search": (VALUES["search"], {}, "interactions"),
    "insights": (VALUES["insights"], {}, "counts"),
    "live": (None, {}, "visits"),
    "overview": (None, {}, "credits"),
    "attribution": (VALUES["attribution"], {}, "credits"),
    "filters": (interaction("duration") > 10, {}, "predicate"),
    "users": ({"where": user("interactionCount") > 20}, {}, "users"),
    "export": ({"path": "users.csv", "columns": ["_id"]}, {}, "file"),
    "send_events": ({"event_type": "lead", "dry_run": True}, {"events": "events.csv"}, "sent"),
    "conversions": (
        {"email": "data.user.email", "date": "eventDate", "id": "eventDate", "event_type": "deal"},
        {"conversions": "events.csv"},
        "sent",
    ),
    "states": ({"dry_run": True}, {"updates": "states.csv"}, "updated"),
    "campaigns": ({"vendor_id": "newsletter"}, {}, "campaigns"),
    "create_campaign": (
        {"vendor_id": "newsletter", "campaign_slug": "may", "name": "May"},
        {},
        "campaign_id",
    ),
    "outlays": ({"vendor_id": "newsletter", "dry_run": True}, {"frame": "costs.csv"}, "recorded"),
    "connection": ({"project_id": "my-shop", "path": "my.duckdb"}, {}, "project"),
    "own_files": (
        {"models": ["linear"]},
        {"touchpoints": "visits.csv", "conversions": "orders.csv"},
        "credits",
    ),
}


#: Runs the code of each form in its folder, with no name but its own, and prints what fails.
PASTE = """
import os, pathlib, traceback
for file in sorted(pathlib.Path.cwd().glob("*/pasted.py")):
    os.chdir(file.parent)
    try:
        exec(file.read_text(), {})
        print("ran", file.parent.name)
    except Exception:
        print("failed", file.parent.name, traceback.format_exc())
"""


@pytest.mark.large
@pytest.mark.slow
def test_the_code_runs_where_it_is_pasted(shop, tmp_path):
    """In a new process, in the folder of the files that were chosen, without any other line."""
    for name in forms.__all__:
        folder = tmp_path / name
        folder.mkdir()
        files(folder)
        form = getattr(forms, name)(*([] if name in ("connection", "own_files") else [shop]))
        value, chosen, result = PASTED[name]
        for argument, file in chosen.items():
            upload(form.control(argument), file, (folder / file).read_bytes())
        if value is not None:
            form.value = value
        assert "import attrib_ds as at\n" in form.code
        assert "from attrib_ds import" not in form.code
        (folder / "pasted.py").write_text(f"{form.code}\nassert {result} is not None\n", encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-c", PASTE], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [f"ran {name}" for name in sorted(forms.__all__)], done.stdout


@pytest.mark.large
@pytest.mark.slow
def test_the_code_of_own_files_reads_them_by_name(tmp_path):
    files(tmp_path)
    form = forms.own_files()
    for argument, file in PASTED["own_files"][1].items():
        upload(form.control(argument), file, (tmp_path / file).read_bytes())
    assert form.code.splitlines()[2] == (
        "journeys = at.read_journeys(touchpoints='visits.csv', conversions='orders.csv')"
    )
    menus = {
        widget.description: widget.value
        for widget in walk(form.control("columns").widget)
        if hasattr(widget, "options")
    }
    assert menus["Person"] == "user (as found)"
    assert menus["Channel or campaign"] == "channel (as found)"
    assert menus["Currency"] == "none (as found)"
    form.value = {"models": ["linear"]}
    # One order of 30: half of it to each of two visits.
    assert form.run()["value"].tolist() == [15, 15]


@pytest.mark.slow
def test_a_column_that_was_not_found_can_be_chosen(tmp_path):
    (tmp_path / "visits.csv").write_text("user,ad,date\nu,7,2025-01-01\n")
    (tmp_path / "orders.csv").write_text("user,date\nu,2025-01-03\n")
    form = forms.own_files()
    form.value = {"touchpoints": tmp_path / "visits.csv", "conversions": tmp_path / "orders.csv"}
    button(form.widget, "Credit").click()
    # In the words of the page, not of the call.
    problem = "has no column that looks like &#x27;Channel or campaign&#x27;"
    assert problem in shown(form)
    assert "choose at &#x27;Channel or campaign&#x27;" in shown(form)
    assert "Visits: visits.csv" in shown(form)
    labelled(form.widget, "Channel or campaign").value = "ad"
    assert "reading=at.Reading(columns={'node': 'ad'})" in form.code
    # What failed for want of a column is made again at once.
    assert form.result["node_id"].unique().tolist() == ["7"]


@pytest.mark.slow
def test_a_doubt_is_decided_with_the_mouse_and_spend_gives_returns(tmp_path):
    visits = "email,utm_source,utm_medium,utm_campaign,date\na@x.example,google,cpc,Spring,03/04/2025\n"
    (tmp_path / "orders.csv").write_text("email,date,revenue,currency\na@x.example,2025-04-05,90.00,EUR\n")
    (tmp_path / "spend.csv").write_text(
        "utm_source,utm_medium,utm_campaign,spend,currency\ngoogle,cpc,Spring,30.00,EUR\n"
    )
    form = forms.own_files()
    upload(form.control("touchpoints"), "visits.csv", visits.encode())
    upload(form.control("conversions"), "orders.csv", (tmp_path / "orders.csv").read_bytes())
    assert form.result is None
    # In the words of the page, with the choices that it has.
    problem = shown(form)
    assert "3 April 2025 with the day first and 4 March 2025 with the month first" in problem
    assert "choose at &#x27;Dates such as 03/04/2025&#x27;" in problem
    assert "dayfirst" not in problem.split("<pre")[0]
    labelled(form.widget, "Dates such as 03/04/2025").value = "day first"
    assert form.result["conversions"].tolist() == [1, 1]
    assert "reading=at.Reading(dayfirst=True)" in form.code
    upload(form.control("spend"), "spend.csv", (tmp_path / "spend.csv").read_bytes())
    # 90 of value for 30 of spend.
    assert form.run()["roas"].tolist() == [3, 3]
    assert "How the files are read" in shown(form)


@pytest.mark.large
@pytest.mark.slow
def test_a_column_of_devices_is_found_and_can_be_chosen(tmp_path):
    (tmp_path / "visits.csv").write_text(
        "user_id,anonymous_id,browser,channel,date\n,a,x,search,2025-01-01\nu,a,y,tv,2025-01-02\n"
    )
    (tmp_path / "orders.csv").write_text("user_id,date\nu,2025-01-03\n")
    form = forms.own_files()
    form.value = {"touchpoints": tmp_path / "visits.csv", "conversions": tmp_path / "orders.csv"}
    assert labelled(form.widget, "Device").value == "anonymous_id (as found)"
    form.value = {"models": ["linear"]}
    # The visit without a user has the device of the user.
    assert form.run()["conversions"].tolist() == [0.5, 0.5]
    labelled(form.widget, "Device").value = "browser"
    assert "reading=at.Reading(columns={'device': 'browser'})" in form.code


def test_files_show_their_first_rows_and_then_the_credits(tmp_path):
    orders = (EXPORTS / "shopify.csv").read_bytes()
    form = forms.own_files()
    visits = b"email,channel,date\nanna@example.com,search,2025-01-01\n"
    upload(form.control("touchpoints"), "visits.csv", visits)
    assert "Visits, first rows of visits.csv" in shown(form)
    assert form.result is None
    assert form.error is None
    upload(form.control("conversions"), "orders.csv", orders)
    read = form.results["journeys"]
    assert form.result["conversions"].sum() == 2 * len(read.events) > 0
    assert f"Read 1 visit and {len(read.events)} conversion" in shown(form)
    # What was understood stands beside the result.
    assert "1 voided left out" in shown(form).split('class="attrib-notes"')[1]


@pytest.mark.slow
def test_files_of_spend_give_returns(tmp_path):
    (tmp_path / "visits.csv").write_text("user,source,medium,campaign,date\nu,google,cpc,Spring,2025-01-01\n")
    (tmp_path / "orders.csv").write_text("user,date,value,currency\nu,2025-01-03,100,EUR\n")
    form = forms.own_files()
    form.value = {"touchpoints": tmp_path / "visits.csv", "conversions": tmp_path / "orders.csv"}
    assert "roas" not in form.run().columns
    upload(form.control("spend"), "spend.csv", b"Kampagne;Tag;Kosten (EUR)\nSpring;01.03.2025;40,00\n")
    assert form.result["roas"].unique().tolist() == [2.5]
    assert "spend='spend.csv'" in form.code
    assert "Spend, first rows of spend.csv" in shown(form)
    assert labelled(form.widget, "Spend").value == "Kosten (EUR) (as found)"
    labelled(form.widget, "Campaign or channel of the spend").value = "Tag"
    credits = form.run()
    assert credits.loc[credits["node_id"] == "google/cpc/Spring", "roas"].isna().all()
    for name in ("a.csv", "b.csv"):
        (tmp_path / name).write_text(f"campaign,day,cost\nSpring,2025-01-0{len(name)},20\n")
    form.value = {"spend": [tmp_path / "a.csv", tmp_path / "b.csv"], "columns": None}
    assert form.control("spend").source == repr([str(tmp_path / "a.csv"), str(tmp_path / "b.csv")])


def menus(form):
    choice = form.control("columns").widget
    return {part.description: part.value for part in walk(choice) if hasattr(part, "options")}


VISITS = "who,channel,seen\nu,search,2025-01-01\n,tv,2025-01-01\n"
SALES = "order_id,who,bought,total,refunded\n1,u,2025-01-03,100.00,12.75\n2,u,2025-01-04,50.25,0\n"


def test_menus_numbers_and_rejected_rows_are_those_of_the_result(tmp_path):
    spend = "channel,day,cost,currency\nsearch,2025-01-01,37.50,EUR\n"
    form = forms.own_files()
    form.value = {"currency": "EUR"}
    for argument, text in (("touchpoints", VISITS), ("conversions", SALES), ("spend", spend)):
        upload(form.control(argument), f"{argument}.csv", text.encode())
    # 87.25 and 50.25, since the refund is subtracted.
    assert form.result["value"].tolist() == [137.5, 137.5]
    found = menus(form)
    assert found["Person"] == found["Person who converted"] == "who (as found)"
    assert (found["Value"], found["Refunds"]) == ("total (as found)", "refunded (as found)")
    (table,) = (part for part in walk(form.widget) if type(part).__name__ == "ITable")
    digits = re.findall(r"minimumFractionDigits: (\d)", repr(table.get_state()))
    titles = [title for title in table.df.columns if title not in ("Model", "Channel or campaign")]
    assert dict(zip(titles, digits, strict=True)) == {
        "Conversions": "1", "Value, EUR": "2", "CPA, EUR": "2", "ROAS": "2", "Share, %": "1", "Spend, EUR": "2",
    }  # fmt: skip
    assert "&#x27;How the files were read&#x27; lists the rejected rows" in shown(form)
    assert "Rejected rows: 1</caption>" in shown(form)
    # What is chosen stays when the file is read again.
    labelled(form.widget, "Refunds").value = "total"
    form.run()
    assert menus(form)["Refunds"] == "total"


def test_a_workbook_that_is_chosen_twice_has_both_tables(tmp_path):
    with pd.ExcelWriter(tmp_path / "shop.xlsx") as book:
        for sheet, text in (("Orders", SALES), ("Visits", VISITS)):
            pd.read_csv(io.StringIO(text)).to_excel(book, sheet_name=sheet, index=False)
    form = forms.own_files()
    for argument in ("touchpoints", "conversions"):
        upload(form.control(argument), "shop.xlsx", (tmp_path / "shop.xlsx").read_bytes())
    assert form.results["journeys"].counts == {"interactions": 1, "events": 2}
    assert labelled(form.widget, "Time").options[1:] == ("who", "channel", "seen")
    assert menus(form)["Time of the conversion"] == "bought (as found)"


def test_what_no_file_shows_is_said_in_words_of_the_page(tmp_path):
    form = forms.own_files()
    upload(form.control("touchpoints"), "visits.csv", b"")
    assert "Visits: &#x27;visits.csv&#x27; is empty; export it again" in shown(form)
    upload(form.control("touchpoints"), "visits.csv", VISITS.replace("who", "user").encode())
    strangers = SALES.replace("who", "user").replace("u,", "U-7,")
    upload(form.control("conversions"), "orders.csv", strangers.encode())
    notes = shown(form).split('class="attrib-notes"')[1].split("</div>")[0]
    assert "choose at &#x27;Person&#x27; and &#x27;Person who converted&#x27;" in notes
    assert "Reading" not in notes


def test_columns_are_chosen_by_file(tmp_path):
    (tmp_path / "visits.csv").write_text("who,channel,date\nu,search,2025-01-01\n")
    (tmp_path / "orders.csv").write_text("user,buyer,date\nv,u,2025-01-03\n")
    form = forms.own_files()
    form.value = {"touchpoints": tmp_path / "visits.csv", "conversions": tmp_path / "orders.csv"}
    labelled(form.widget, "Person").value = "who"
    assert form.value["columns"] == {"user": "who", "conversion_user": "user"}
    labelled(form.widget, "Person who converted").value = "buyer"
    assert form.value["columns"] == {"user": "who", "conversion_user": "buyer"}
    assert "buyer" not in labelled(form.widget, "Person").options
    assert form.run()["node_id"].unique().tolist() == ["search"]


def test_statuses_and_sources_of_orders_are_chosen(tmp_path):
    (tmp_path / "visits.csv").write_text("user,channel,date\nu,search,2025-01-01\n")
    (tmp_path / "orders.csv").write_text(
        "order_id,user,date,revenue,status,utm_source,utm_medium\n1,u,2025-01-03,100,paid,news,email\n"
        "2,u,2025-01-04,50,pending,,\n3,u,2025-01-05,25,cancelled,,\n"
    )
    form = forms.own_files()
    sources = form.control("order_sources")
    assert sources.widget.layout.display == "none"
    form.value = {"touchpoints": tmp_path / "visits.csv", "conversions": tmp_path / "orders.csv"}
    boxes = {
        status: labelled(form.widget, f"{status} (1 row)") for status in ("paid", "pending", "cancelled")
    }
    assert {status: box.value for status, box in boxes.items()} == {
        "paid": True, "pending": True, "cancelled": False,
    }  # fmt: skip
    form.value = {"models": ["last_touch"]}
    assert form.run()["value"].sum() == 150.0
    # Notes name the choices of the page.
    assert "add it with &#x27;Count the sources that orders carry&#x27;" in shown(form)
    boxes["pending"].value, boxes["cancelled"].value = False, True
    assert form.run()["value"].sum() == 125.0
    assert "statuses={'pending': False, 'cancelled': True}" in form.code
    boxes["pending"].value = True
    assert form.value["statuses"] == {"cancelled": True}
    assert sources.widget.layout.display == ""
    labelled(form.widget, "Count the sources that orders carry").value = True
    # The order of 100 was its own last visit.
    credits = form.run().set_index("node_id")["value"]
    assert credits[credits > 0].to_dict() == {"news/email": 175.0}
    assert "order_sources=True" in form.code


def test_refunds_can_be_left_out_and_orders_with_a_source_need_no_visits(tmp_path):
    orders = tmp_path / "orders.csv"
    orders.write_text(
        "order_id,user,date,revenue,refunded,utm_source,utm_medium\n1,u,2025-01-03,100,30,news,email\n"
    )
    form = forms.own_files()
    form.value = {"touchpoints": orders, "models": ["linear"]}
    button(form.widget, "Credit").click()
    assert form.result.set_index("node_id")["value"].to_dict() == {"news/email": 70.0}
    (tmp_path / "visits.csv").write_text("user,channel,date\nu,search,2025-01-01\n")
    form.value = {"touchpoints": tmp_path / "visits.csv", "conversions": orders}
    refunds = labelled(form.widget, "Refunds")
    assert refunds.value == "refunded (as found)"
    refunds.value = "(none)"
    assert form.run()["value"].tolist() == [100.0]
    assert "columns={'refund': []}" in form.code
    refunds.value = "revenue"
    form.value = {"columns": {"refund": []}}
    assert refunds.value == "(none)"


def test_the_only_id_of_a_table_is_that_of_its_users(tmp_path):
    (tmp_path / "visits.csv").write_text("client_id,channel,date\na,tv,2025-01-02\n")
    form = forms.own_files()
    form.value = {"touchpoints": tmp_path / "visits.csv"}
    assert labelled(form.widget, "Person").value == "client_id (as found)"
    assert labelled(form.widget, "Device").value == "none (as found)"
    # The columns of a file that is not chosen yet are hidden.
    groups = [part for part in walk(form.widget) if "attrib-columns-found" in part._dom_classes]
    assert [group.layout.display for group in groups] == ["", "none", "none"]


def test_a_button_shows_and_hides_the_code(shop):
    form = forms.search(shop)
    parts = [part for part in walk(form.widget) if "attrib-disclosure" in part._dom_classes]
    (code,) = (part for part in parts if part.children[0].description == "▸ Code")
    toggle, content = code.children
    for is_open, arrow, display in ((True, "▾", ""), (False, "▸", "none")):
        toggle.value = is_open
        assert (toggle.description, content.layout.display) == (f"{arrow} Code", display)


def test_the_search_form_returns_the_result_of_the_function(shop):
    form = forms.search(shop)
    form.value = VALUES["search"]
    pd.testing.assert_frame_equal(form.run(), search_interactions(shop, **VALUES["search"]))


def test_the_code_opens_a_project_that_has_an_address(tmp_path):
    file = tmp_path / "shop.duckdb"
    with connect("my-shop", path=file) as project:
        code = forms.insights(project).code
    names = {}
    exec(code, names)
    assert names["counts"]["sessionCount"].tolist() == [0]
    names["project"].close()


@pytest.mark.slow
def test_imported_models_run_in_generated_code(shop):
    paths = conversion_paths(shop, event_type="order", level="channel")
    chosen = [models.TimeDecay(half_life="3D"), "linear", models.Markov(order=2)]
    code = write_program([write_call(attribute, "paths", {"models": repr(chosen)}, result="credits")])
    assert code.startswith("import attrib_ds as at\n\ncredits = at.attribute(")
    names = {"paths": paths}
    exec(code, names)
    pd.testing.assert_frame_equal(names["credits"], attribute(paths, models=chosen))


def test_names_in_strings_are_neither_qualified_nor_imported():
    query = {"query": repr("TimeDecay(7), pd.DataFrame(), it's")}
    call = write_call(search_users, "shop", query, result="users")
    assert call == 'users = at.search_users(shop, query="TimeDecay(7), pd.DataFrame(), it\'s")'
    assert write_program([call]) == f"import attrib_ds as at\n\n{call}"


def test_a_required_argument_is_asked_for_after_a_press_and_not_before(shop):
    form = forms.export(shop)
    with pytest.raises(InvalidRequest, match="^path is required$"):
        _ = form.code
    assert "required" not in shown(form)
    button(form.widget, "Export").click()
    # Beside the button, and below the field.
    assert shown(form).count("File is required") == 2
    assert "attrib-invalid" in form.control("path").widget._dom_classes
    form.value = {"path": "users.csv"}
    assert "File is required" not in shown(form)
    assert "attrib-invalid" not in form.control("path").widget._dom_classes


def test_an_error_is_shown_in_the_form_and_raised(shop):
    form = forms.search(shop)
    form.value = {"limit": -4}
    with pytest.raises(InvalidRequest, match="limit: -4"):
        form.run()
    assert 'role="alert"' in shown(form)
    assert "Limit: -4" in shown(form)
    assert isinstance(form.error, InvalidRequest)
    form.value = {"limit": 4}
    assert "Limit: -4" not in shown(form)
    assert len(form.run()) == 4


def test_a_button_shows_an_error_and_works_again_afterwards(shop):
    form = forms.search(shop)
    form.value = {"limit": -4}
    button(form.widget, "Search").click()
    assert "Limit: -4" in shown(form)
    assert form.result is None
    form.value = {"limit": 2}
    button(form.widget, "Search").click()
    assert len(form.result) == 2
    assert downloads(form).labels == ["CSV", "Excel", "Python"]


def test_text_that_cannot_be_parsed_is_reported_at_once(shop):
    form = forms.search(shop)
    form.control("limit").input.value = "many"
    assert "Limit: &#x27;many&#x27; is not a number" in shown(form)
    form.control("limit").input.value = "3"
    assert "is not a number" not in shown(form)
    assert form.value["limit"] == 3


def test_an_unexpected_failure_is_not_swallowed(shop):
    form = forms.search(shop)
    object.__setattr__(form._steps[0], "function", broken)
    form._controls["broken"] = {}
    with pytest.raises(ZeroDivisionError):
        form.run()
    assert "ZeroDivisionError" in shown(form)


def broken(project, **arguments):
    return 1 / 0


def test_an_unknown_argument_is_refused(shop):
    with pytest.raises(InvalidRequest, match="did you mean 'limit'"):
        forms.search(shop).value = {"limits": 3}


PREDICATES = [
    interaction("geo.countryCode") == "FR",
    ~(interaction("geo.countryCode") == "FR"),
    interaction("duration") >= 12.5,
    interaction("isBot") == False,  # noqa: E712
    interaction("startDate").between("2025-01-01T00:00:00Z", "2025-02-01T12:30:00Z"),
    interaction("geo.city").isin(["Paris, Texas", "Lyon"]),
    interaction("hitCount").not_in([1, 2]),
    interaction("referrer").is_null(),
    (interaction("geo.city") == "Lyon")
    & ~((interaction("duration") > 5) | interaction("referrer").is_empty()),
    node("channel").starts_with("Dir"),
    user("fields.email").matches(r".*@example\.com"),
    user("fields.age", operator_type="number") > 30,
    user("metrics.turnover.sum").between(1, 2.5),
    event("eventType").isin(["order"]),
    event("event.price", operator_type="number") < 3,
]


@pytest.mark.parametrize("predicate", PREDICATES, ids=repr)
def test_a_filter_holds_any_predicate(predicate):
    form = forms.filters(kind=predicate.kind)
    form.value = predicate
    assert form.value == predicate
    assert executed(form, "predicate") == predicate
    assert form.error is None


def test_a_filter_counts_matching_interactions(shop):
    form = forms.filters(shop)
    form.value = interaction("geo.countryCode") == "FR"
    expected = search_interactions(shop, where=form.value)
    assert form.run() == len(expected) > 0
    assert f"{len(expected):,} interactions" in shown(form)


def test_a_filter_is_built_with_buttons(shop):
    form = forms.filters(shop)
    assert form.value is None
    button(form.widget, "Add condition").click()
    field, operator = (labelled(form.widget, label) for label in ("Field", "Operator"))
    field.value = "geo.countryCode"
    operator.value = "equals"
    assert "geo.countryCode: the condition has no value" in shown(form)
    value = labelled(form.widget, "Value")
    countries = interaction_insights(shop, group_by="geo.countryCode", sort="-sessionCount")["group"]
    assert list(value.options) == countries.dropna().tolist()
    value.value = "FR"
    assert form.value == (interaction("geo.countryCode") == "FR")
    button(form.widget, "Add group").click()
    labelled(form.widget, "Group").value = ("OR", False)
    button(form.widget, "Remove", last=True).click()
    assert form.value == (interaction("geo.countryCode") == "FR")
    button(form.widget, "Remove").click()
    assert form.value is None


def test_operators_and_inputs_follow_the_type_of_the_field():
    form = forms.filters()
    button(form.widget, "Add condition").click()
    field = labelled(form.widget, "Field")
    field.value = "isBot"
    operator = labelled(form.widget, "Operator")
    assert [name for _, name in operator.options] == [
        "equals", "notEquals", "in", "notIn", "isNotEmpty", "isEmpty", "isNotNull", "isNull",
    ]  # fmt: skip
    field.value = "duration"
    operator.value = "between"
    assert [widget.description for widget in inputs(form.widget)] == ["From", "To"]
    operator.value = "isNull"
    assert inputs(form.widget) == []
    field.value = "duratoin"
    assert "did you mean &#x27;duration&#x27;" in shown(form)


def test_a_predicate_of_another_kind_is_refused():
    with pytest.raises(InvalidRequest, match=r"a predicate on node is not allowed; allowed: interaction"):
        forms.filters().value = node("channel") == "x"


def test_events_are_sent_from_a_csv_file(tmp_path, monkeypatch):
    path = tmp_path / "shop.duckdb"
    with connect("my-shop", path=path) as project:
        create_event_type(project, "order", name="Order")
        form = forms.send_events(project)
        content = b"eventDate,data.user.email\n2025-01-31T12:00:00Z,ann@example.com\n2025-02-01T12:00:00Z,bob@example.com\n"
        upload(form.control("events"), "orders.csv", content)
        form.value = {"event_type": "order"}
        assert form.run()["status"].tolist() == ["processed", "processed"]
        assert "2 processed" in shown(form)
        people = search_users(project, columns=["_id", "eventCount"])
        assert people["eventCount"].tolist() == [1, 1]
        assert len(list_user_events(project, people["_id"][0])) == 1
    monkeypatch.chdir(tmp_path)
    (tmp_path / "orders.csv").write_bytes(content)
    names = {}
    exec(form.code, names)
    # Without nonces, sending the same rows again creates two more events.
    assert names["sent"]["status"].tolist() == ["processed", "processed"]
    names["project"].close()


def test_conversions_are_sent_from_the_columns_of_a_csv_file(tmp_path, monkeypatch):
    with connect("my-shop", path=":memory:") as project:
        form = forms.conversions(project)
        content = b"Deal,Contact,Closed,Amount\n17,ann@example.com,2025-01-31,90\n18,bob,2025-02-01,40\n"
        upload(form.control("conversions"), "deals.csv", content)
        columns = {"email": "Contact", "date": "Closed", "id": "Deal", "value": "Amount"}
        form.value = columns | {"currency": "EUR", "event_type": "deal"}
        sent = form.run()
        assert sent["status"].tolist() == ["processed", "rejected"]
        assert "1 processed, 1 rejected" in shown(form)
        assert sent["error"][1].startswith("Contact in row 1: expected an email address")
        monkeypatch.chdir(tmp_path)
        (tmp_path / "deals.csv").write_bytes(content)
        again = executed(form, "sent", project=project)
        assert again["status"].tolist() == ["processed", "rejected"]
        assert search_users(project, columns=["eventCount"])["eventCount"].tolist() == [1]


def test_a_file_that_is_not_csv_is_reported(shop):
    form = forms.send_events(shop)
    upload(form.control("events"), "empty.csv", b"")
    assert "Events: &#x27;empty.csv&#x27; is not a CSV file" in shown(form)
    upload(form.control("events"), "orders.csv", b"eventDate\n2025-01-31T12:00:00Z\n")
    assert len(form.control("events").value) == 1


def test_users_are_exported(shop, tmp_path):
    form = forms.export(shop)
    form.value = {
        "path": str(tmp_path / "users.csv"),
        "columns": ["_id", "interactionCount"],
        "where": user("interactionCount") > 20,
    }
    file = form.run()
    expected = search_users(shop, columns=["_id", "interactionCount"], where=user("interactionCount") > 20)
    assert pd.read_csv(file)["interactionCount"].tolist() == expected["interactionCount"].tolist()
    assert downloads(form).files["users.csv"].content() == file.read_bytes()


def test_empty_lines_and_blanks_are_no_answers(shop):
    columns = forms.export(shop).control("columns")
    columns.input.value = "_id\n\n  interactionCount \n \n"
    assert columns.value == ["_id", "interactionCount"]


def test_a_connection_opens_a_project_and_shows_no_key(tmp_path):
    form = forms.connection()
    form.value = {"project_id": "my-shop", "path": str(tmp_path / "shop.duckdb")}
    with form.run() as project:
        assert project.project_id == "my-shop"
    assert "at.connect(" in form.code
    with pytest.raises(InvalidRequest):
        form.value = {"project_id": "My Shop"}
        form.run()
    assert "Project: " in shown(form)


@pytest.mark.large
@pytest.mark.slow
def test_the_workbench_switches_projects(tmp_path, monkeypatch):
    monkeypatch.setenv("ATTRIB_DS_HOME", str(tmp_path))
    connect("bakery").close()
    bench = workbench()
    button(bench.widget, "Open the sample").click()
    assert bench.project.project_id == "sample-shop"
    button(bench.widget, "← Start").click()
    assert labelled(bench.widget, "Project").options == ("bakery",)
    button(bench.widget, "Open").click()
    assert bench.project.project_id == "bakery"
    assert "bakery" in shown(bench)
    bench.project.close()


@pytest.mark.slow
def test_the_workbench_makes_a_form_when_its_page_is_shown(shop):
    bench = workbench()
    bench.open(shop)
    assert list(bench.forms) == ["Overview"]
    assert f"<h1>{shop.project_id}</h1>" in shown(bench)
    assert repr(bench.show("Users")) == "<Form of search_users; .value, .code, .run()>"
    assert list(bench.forms) == ["Overview", "Users"]


def test_forms_that_read_run_when_they_are_shown_and_those_that_write_do_not(shop):
    for name in ("search", "insights", "users", "campaigns"):
        form = getattr(forms, name)(shop)
        assert form.result is None
        form._repr_mimebundle_()
        assert len(form.result) > 0, name
        assert form.error is None
    for name in ("export", "send_events", "conversions", "states", "create_campaign", "outlays"):
        form = getattr(forms, name)(shop)
        form.start()
        assert form.result is None
        assert form.error is None
        assert f"before you press {form._action}." in shown(form)
        assert "attrib-stale" not in form._output._dom_classes


def test_a_form_runs_as_soon_as_it_is_complete(shop):
    form = forms.campaigns(shop)
    form.value = {"vendor_id": None}
    form.start()
    assert form.result is None
    assert "as soon as the fields are filled in" in shown(form)
    form.value = {"vendor_id": "newsletter"}
    assert len(form.result) > 0


def test_a_result_of_other_values_is_marked(shop):
    form = forms.search(shop)
    form.value = {"limit": 3}
    form.run()
    assert "attrib-stale" not in form._output._dom_classes
    form.value = {"limit": 4}
    assert "attrib-stale" in form._output._dom_classes
    assert "Changed since this result. Press Search." in shown(form)
    form.value = {"limit": 3}
    assert "attrib-stale" not in form._output._dom_classes
    assert "Changed since" not in shown(form)
    form.value = {"limit": 4}
    form.run()
    assert "attrib-stale" not in form._output._dom_classes


def test_credits_are_shown_in_words_with_units_by_what_was_asked(shop):
    form = forms.attribution(shop)
    form.run()
    tables = [part for part in walk(form.widget) if type(part).__name__ == "ITable"]
    titles = list(tables[0].df.columns)
    assert titles[:6] == [
        "Model", "Channel or campaign", "Conversions", "Value, EUR", "CPA, EUR", "ROAS",
    ]  # fmt: skip
    assert set(tables[0].df["Model"]) == {"Last touch", "Linear"}
    assert 'alt="Credited value in EUR by node and model"' in shown(form)
    form.value = {"statistic": "event-count"}
    form.run()
    assert 'alt="Credited conversions by node and model"' in shown(form)


@pytest.mark.few(2)
@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "value", "titles"),
    [
        (
            "insights",
            {"group_by": "geo.countryCode", "interval": "month"},
            ["Country code", "Month", "Visits", "Hits", "Duration (seconds)", "Not complete"],
        ),
        ("insights", {}, ["Visits", "Hits", "Duration (seconds)"]),
        ("search", {"columns": ["startDate", "geo.city"], "limit": 3}, ["Id", "Start date (UTC)", "City"]),
        (
            "attribution",
            {"confidence": 0.9},
            ["Model", "Node name", "Conversions", "Value", "Currency", "Share (0 to 1)"],
        ),
    ],
)
def test_tables_are_headed_by_words_with_units(name, value, titles, shop):
    form = getattr(forms, name)(shop)
    form.value = value
    result = form.run()
    table = [part for part in walk(form.widget) if type(part).__name__ == "ITable"][-1]
    assert list(table.df.columns)[: len(titles)] == titles
    assert not [title for title in table.df.columns if re.search("[._]|[a-z][A-Z]", title)]
    if "Not complete" in titles:
        assert set(table.df["Not complete"]) == {"no"}
    # The files keep the names of the service.
    assert len(table.df) == len(result)


def test_every_control_has_a_label(shop):
    for name in FUNCTIONS:
        form = getattr(forms, name)(shop)
        for widget in walk(form.widget):
            if hasattr(widget, "description") and hasattr(widget, "value"):
                assert widget.description or type(widget).__name__ == "HTML", widget


@pytest.mark.slow
def test_every_visible_argument_has_help_in_words(shop):
    for name in FUNCTIONS:
        for control in getattr(forms, name)(shop)._by_argument().values():
            help_line = control.form_field.summary
            assert help_line, control.form_field.name
            assert len(help_line) < 260, control.form_field.name


def test_a_form_displays_itself(shop):
    form = forms.insights(shop)
    bundle = form._repr_mimebundle_()
    assert "application/vnd.jupyter.widget-view+json" in bundle
    # What is shown where there are no widgets says what to do.
    assert "form.run()" in bundle["text/html"]
    assert form._mime_() == ("text/html", bundle["text/html"])
    assert repr(form) == "<Form of interaction_insights; .value, .code, .run()>"


def button(widget, label, *, last=False):
    buttons = [part for part in walk(widget) if type(part).__name__ == "Button" and part.description == label]
    return buttons[-1 if last else 0]


def downloads(form):
    return next(part for part in walk(form.widget) if type(part).__name__ == "Downloads")


def labelled(widget, label):
    return next(part for part in walk(widget) if getattr(part, "description", None) == label)


def inputs(widget):
    return [
        part for part in walk(widget) if getattr(part, "description", "") in ("Value", "Values", "From", "To")
    ]


def upload(control, name, content):
    file = {
        "name": name, "type": "text/csv", "size": len(content), "content": memoryview(content),
        "last_modified": pd.Timestamp("2025-01-01", tz="UTC").to_pydatetime(),
    }  # fmt: skip
    widget = next(part for part in walk(control.widget) if type(part).__name__ == "FileUpload")
    # By name in ipywidgets 7, in a tuple in ipywidgets 8.
    widget.set_trait("value", {name: file} if isinstance(widget.value, dict) else (file,))


def test_the_names_of_forms_are_functions_on_repeated_access():
    for _ in range(2):
        for name in forms.__all__:
            assert inspect.isfunction(getattr(forms, name)), name
