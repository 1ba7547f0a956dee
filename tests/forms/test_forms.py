"""Forms: fields, calls, generated code and error messages."""

from __future__ import annotations

import inspect

import pandas as pd
import pytest

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
from attrib_ds.forms.form_fields import form_fields
from attrib_ds.forms.generated_code import write_call, write_imports
from attrib_ds.forms.workbench import workbench


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
    "export": [attrib_ds.export_users],
    "send_events": [attrib_ds.send_events],
    "conversions": [attrib_ds.send_conversions],
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
    assert fields - controlled <= {"project", "paths", "to", "chunks", "journal", "spend"}
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
    call = write_call("attribute", "paths", {"models": repr(chosen)}, result="credits")
    code = f"{write_imports(call)}\n\n{call}"
    assert code.startswith("from attrib_ds import attribute, models\n")
    names = {"paths": paths}
    exec(code, names)
    pd.testing.assert_frame_equal(names["credits"], attribute(paths, models=chosen))


def test_names_in_strings_are_neither_qualified_nor_imported():
    call = write_call("search_users", "shop", {"query": repr("TimeDecay(7), models.Markov, it's")})
    assert call == 'search_users(shop, query="TimeDecay(7), models.Markov, it\'s")'
    assert write_imports(call) == "from attrib_ds import search_users"


def test_a_missing_required_argument_is_named_and_there_is_no_code(shop):
    form = forms.export(shop)
    with pytest.raises(InvalidRequest, match="^path is required$"):
        _ = form.code
    assert "path is required" in shown(form)


def test_an_error_is_shown_in_the_form_and_raised(shop):
    form = forms.search(shop)
    form.value = {"limit": -4}
    with pytest.raises(InvalidRequest, match="limit: -4"):
        form.run()
    assert 'role="alert"' in shown(form)
    assert "limit: -4" in shown(form)
    assert isinstance(form.error, InvalidRequest)
    form.value = {"limit": 4}
    assert "limit: -4" not in shown(form)
    assert len(form.run()) == 4


def test_a_button_shows_an_error_and_works_again_afterwards(shop):
    form = forms.search(shop)
    form.value = {"limit": -4}
    button(form.widget, "Search").click()
    assert "limit: -4" in shown(form)
    assert form.result is None
    form.value = {"limit": 2}
    button(form.widget, "Search").click()
    assert len(form.result) == 2
    assert "Save as CSV" in shown(form)


def test_text_that_cannot_be_parsed_is_reported_at_once(shop):
    form = forms.search(shop)
    form.control("limit").widget.value = "many"
    assert "limit: &#x27;many&#x27; is not a number" in shown(form)
    form.control("limit").widget.value = "3"
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
    with connect("my-shop", path=":memory:") as project:
        create_event_type(project, "order", name="Order")
        form = forms.send_events(project)
        content = b"eventDate,data.user.email\n2025-01-31T12:00:00Z,ann@example.com\n2025-02-01T12:00:00Z,bob@example.com\n"
        upload(form.control("events"), "orders.csv", content)
        form.value = {"event_type": "order"}
        monkeypatch.chdir(tmp_path)
        (tmp_path / "orders.csv").write_bytes(content)
        assert "pd.read_csv('orders.csv')" in form.code
        assert form.run()["status"].tolist() == ["processed", "processed"]
        assert "2 processed" in shown(form)
        people = search_users(project, columns=["_id", "eventCount"])
        assert people["eventCount"].tolist() == [1, 1]
        assert len(list_user_events(project, people["_id"][0])) == 1
        # Without nonces, sending the same rows again creates two more events.
        again = executed(form, "sent", project=project)
        assert again["status"].tolist() == ["processed", "processed"]


def test_conversions_are_sent_from_the_columns_of_a_csv_file(tmp_path, monkeypatch):
    with connect("my-shop", path=":memory:") as project:
        form = forms.conversions(project)
        content = b"Deal,Contact,Closed,Amount\n17,ann@example.com,2025-01-31,90\n18,bob,2025-02-01,40\n"
        upload(form.control("conversions"), "deals.csv", content)
        columns = {"email": "Contact", "date": "Closed", "id": "Deal", "value": "Amount"}
        form.value = columns | {"currency": "EUR", "event_type": "deal"}
        assert form.run()["status"].tolist() == ["processed", "rejected"]
        assert "1 processed, 1 rejected" in shown(form)
        assert "Contact in row 1: expected an email address" in shown(form)
        monkeypatch.chdir(tmp_path)
        (tmp_path / "deals.csv").write_bytes(content)
        again = executed(form, "sent", project=project)
        assert again["status"].tolist() == ["processed", "rejected"]
        assert search_users(project, columns=["eventCount"])["eventCount"].tolist() == [1]


def test_a_file_that_is_not_csv_is_reported(shop):
    form = forms.send_events(shop)
    upload(form.control("events"), "empty.csv", b"")
    assert "events: &#x27;empty.csv&#x27; is not a CSV file" in shown(form)
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
    assert 'download="users.csv"' in shown(form)


def test_empty_lines_and_blanks_are_no_answers(shop):
    columns = forms.export(shop).control("columns")
    columns.widget.value = "_id\n\n  interactionCount \n \n"
    assert columns.value == ["_id", "interactionCount"]


def test_a_connection_opens_a_project_and_shows_no_key(tmp_path):
    form = forms.connection()
    form.value = {"project_id": "my-shop", "path": str(tmp_path / "shop.duckdb")}
    with form.run() as project:
        assert project.project_id == "my-shop"
    assert "connect(" in form.code
    with pytest.raises(InvalidRequest):
        form.value = {"project_id": "My Shop"}
        form.run()
    assert "project_id" in shown(form)


@pytest.mark.slow
def test_the_workbench_switches_projects(tmp_path, monkeypatch):
    monkeypatch.setenv("ATTRIB_DS_HOME", str(tmp_path))
    connect("bakery").close()
    bench = workbench()
    choice = labelled(bench.widget, "Project")
    assert choice.options == ("The sample shop", "bakery", "Another project …")
    button(bench.widget, "Open").click()
    first = bench.project
    assert first.project_id == "sample-shop"
    choice.value = "bakery"
    button(bench.widget, "Open").click()
    assert bench.project.project_id == "bakery"
    assert "bakery" in shown(bench)
    bench.project.close()


def test_every_control_has_a_label(shop):
    for name in FUNCTIONS:
        form = getattr(forms, name)(shop)
        for widget in walk(form.widget):
            if hasattr(widget, "description") and hasattr(widget, "value"):
                assert widget.description or type(widget).__name__ == "HTML", widget


def test_a_form_displays_itself(shop):
    form = forms.insights(shop)
    assert "application/vnd.jupyter.widget-view+json" in form._repr_mimebundle_()
    assert repr(form) == "<Form of interaction_insights; .value, .code, .run()>"


def walk(widget):
    yield widget
    for child in getattr(widget, "children", ()):
        yield from walk(child)


def shown(form):
    return "\n".join(widget.value for widget in walk(form.widget) if type(widget).__name__ == "HTML")


def button(widget, label, *, last=False):
    buttons = [part for part in walk(widget) if type(part).__name__ == "Button" and part.description == label]
    return buttons[-1 if last else 0]


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
    control.widget.value = (file,)


def test_the_names_of_forms_are_functions_on_repeated_access():
    for _ in range(2):
        for name in forms.__all__:
            assert inspect.isfunction(getattr(forms, name)), name
