"""Conversions of a CRM are sent from its own columns, once, and problems name these columns."""

from datetime import UTC, datetime, timedelta

import pandas as pd
import pytest

import attrib_ds as at

COLUMNS = {
    "email": "Contact",
    "date": "Closed",
    "id": "deal_id",
    "value": "Amount",
    "currency": "Unit",
    "event_type": "deal",
}


@pytest.fixture
def shop():
    with at.connect("my-shop", path=":memory:", timezone="Europe/Paris") as shop:
        yield shop


@pytest.fixture(scope="module")
def declared():
    """A project with event types that deals do not fit."""
    email = {"type": "email", "entity": "user", "storageKey": "email"}
    count = {"type": "number", "entity": "event", "storageKey": "n", "optional": True}
    with at.connect("my-shop", path=":memory:") as project:
        at.create_event_type(project, "call", name="Call")
        at.create_event_type(project, "lead", name="Lead", fields=[email, count])
        at.create_event_type(project, "archived", name="Archived")
        at.admin.archive_event_type(project, "archived")
        yield project


def deals(**columns):
    rows = {
        "deal_id": ["D-1", "D-2"],
        "Contact": ["anna@example.com", "ben@example.com"],
        "Closed": ["2025-01-31T12:00:00Z", "2025-02-01T12:00:00Z"],
        "Amount": [900.5, 450.0],
        "Unit": ["EUR", "USD"],
        "Owner": ["Kim", "Lou"],
    }
    return pd.DataFrame({**rows, **columns})


def test_a_file_becomes_events_of_the_users_with_their_values(shop):
    sent = at.send_conversions(shop, deals(), fields={"owner": "Owner"}, **COLUMNS)
    assert sent["status"].tolist() == ["processed", "processed"]
    assert sent["error"].isna().all()
    event = at.get_event(shop, sent["id"][0])
    assert event["eventDate"] == pd.Timestamp("2025-01-31T12:00:00Z")
    assert event[["event.owner", "event.externalId"]].tolist() == ["Kim", "D-1"]
    assert event[["statistics.turnover.amount", "statistics.turnover.currency"]].tolist() == [900.5, "EUR"]
    users = at.search_users(shop, columns=["fields.email", "eventTypesCount.deal"])
    assert sorted(users["fields.email"]) == ["anna@example.com", "ben@example.com"]
    paths = at.conversion_paths(shop, event_type="deal", statistic="turnover")
    credits = at.attribute(paths, "linear").set_index("currency")
    assert credits["value"].to_dict() == {"EUR": 900.5, "USD": 450.0}


def test_the_address_of_a_user_does_not_take_the_case_of_the_file(shop):
    at.send_conversions(shop, deals(), **COLUMNS)
    loud = deals(Contact=[" ANNA@EXAMPLE.COM ", "Ben@Example.com"])
    again = at.send_conversions(shop, loud, **COLUMNS)
    # The address is that of the first file, so nothing differs.
    assert again["status"].tolist() == ["processed", "processed"]
    at.send_conversions(shop, loud.assign(deal_id=["D-3", "D-4"]), **COLUMNS)
    users = at.search_users(shop, columns=["fields.email", "eventTypesCount.deal"])
    assert sorted(users["fields.email"]) == ["anna@example.com", "ben@example.com"]
    assert users["eventTypesCount.deal"].tolist() == [2, 2]


def test_a_file_that_is_sent_again_with_further_rows_stores_each_conversion_once(shop):
    first = at.send_conversions(shop, deals(), **COLUMNS)
    longer = pd.concat([deals(), deals().assign(deal_id=["D-3", "D-4"])], ignore_index=True)
    again = at.send_conversions(shop, longer, **COLUMNS)
    assert again["status"].tolist() == ["processed"] * 4
    assert again["id"].tolist()[:2] == first["id"].tolist()
    assert at.search_users(shop, columns=["eventCount"])["eventCount"].sum() == 4


def test_ids_are_the_same_as_numbers_and_as_text(shop):
    for ids in ([17, 18], ["17", "18"], [17.0, 18.0]):
        assert (at.send_conversions(shop, deals(deal_id=ids), **COLUMNS)["status"] == "processed").all()
    assert at.search_users(shop, columns=["eventCount"])["eventCount"].sum() == 2


def test_a_row_that_was_rejected_can_be_corrected(shop):
    wrong = at.send_conversions(shop, deals(Contact=["anna@example.com", "ben"]), **COLUMNS)
    assert wrong["status"].tolist() == ["processed", "rejected"]
    assert at.list_trashed_events(shop).empty
    assert at.send_conversions(shop, deals(), **COLUMNS)["status"].tolist() == ["processed", "processed"]


@pytest.mark.parametrize(
    ("column", "cell", "problem"),
    [
        ("Contact", "ben", "expected an email address, got text 'ben'"),
        ("Contact", 900, "expected an email address, got number 900"),
        (
            "Closed",
            "01/02/2025",
            "expected a date such as '2025-01-31' or '2025-01-31T12:00:00Z'; it is 1 February 2025 with "
            "dayfirst=True and 2 January 2025 with dayfirst=False; no row has a day above 12, so pass "
            "dayfirst=True or dayfirst=False, got text '01/02/2025'",
        ),
        ("Closed", None, "expected a value, got nothing"),
        ("Closed", "1970-01-01", "expected a date from 1990 to 24 hours ahead, got text '1970-01-01'"),
        ("Amount", "n/a", "expected a number, got text 'n/a'"),
        ("Amount", True, "expected a number, got flag True"),
        ("Amount", "1,25.00", "expected a number, got text '1,25.00'"),
        ("Amount", 1e30, "expected a number with at most 18 digits before and 6 after"),
        (
            "Unit",
            "Euro",
            "expected a currency of ISO 4217, such as 'EUR'; the sign € means 'EUR', but $, ¥ and kr mean several",
        ),
        ("Owner", 900, "expected text, got number 900"),
    ],
)
@pytest.mark.few(7)
@pytest.mark.slow
def test_a_problem_names_the_column_and_the_row_of_the_file(shop, column, cell, problem):
    at.create_event_type(
        shop,
        "deal",
        name="Deal",
        fields=[
            {"type": "email", "entity": "user", "storageKey": "email", "optional": True},
            {"type": "currency", "entity": "event", "storageKey": "turnover"},
            {"type": "message", "entity": "event", "storageKey": "owner"},
        ],
    )
    frame = deals().astype(object)
    frame.loc[1, column] = cell
    frame.index = [2, 3]
    for dry_run in (True, False):
        sent = at.send_conversions(shop, frame, fields={"owner": "Owner"}, dry_run=dry_run, **COLUMNS)
        assert sent["status"].tolist() == ["valid" if dry_run else "processed", "rejected"]
        assert sent["error"][3].startswith(f"{column} in row 3: {problem}")
    assert at.list_trashed_events(shop).empty


def test_values_may_be_text_and_spaces_are_left_out(shop):
    frame = deals(
        Amount=["900.50", " 450 "], Unit=[" eur", "USD"], Contact=[" anna@example.com ", "ben@x.org"]
    )
    at.send_conversions(shop, frame, **COLUMNS)
    values = at.attribute(at.conversion_paths(shop, event_type="deal", statistic="turnover"), "linear")
    assert values.set_index("currency")["value"].to_dict() == {"EUR": 900.5, "USD": 450.0}


@pytest.mark.large
@pytest.mark.slow
def test_one_currency_stands_for_all_values_and_the_projects_by_default(shop):
    at.send_conversions(shop, deals(), **COLUMNS | {"currency": "CHF"})
    at.send_conversions(shop, deals(), **COLUMNS | {"currency": None, "event_type": "sale"})
    for event_type, currency in (("deal", "CHF"), ("sale", "EUR")):
        paths = at.conversion_paths(shop, event_type=event_type, statistic="turnover")
        credits = at.attribute(paths, "linear")
        assert credits[["value", "currency"]].to_numpy().tolist() == [[1350.5, currency]]


@pytest.mark.parametrize(
    "days",
    [
        ["2025-01-31", "2025-02-01"],
        ["2025-01-31 00:00:00", "2025-02-01T00:00"],
        pd.to_datetime(["2025-01-31", "2025-02-01"]),
        [datetime(2025, 1, 31).date(), datetime(2025, 2, 1).date()],
    ],
)
def test_a_day_stands_for_its_end_in_the_projects_time_zone(shop, days):
    sent = at.send_conversions(shop, deals(Closed=days), **COLUMNS)
    dates = [at.get_event(shop, id)["eventDate"] for id in sent["id"]]
    assert dates == [
        pd.Timestamp("2025-01-31T22:59:59.999Z"),
        pd.Timestamp("2025-02-01T22:59:59.999Z"),
    ]


def test_instants_keep_their_time(shop):
    mixed = pd.to_datetime(["2025-01-31 00:00", "2025-02-01 08:30"])
    zoned = pd.to_datetime(["2025-01-31", "2025-02-01"]).tz_localize("America/New_York")
    dates = {}
    for name, column in (("mixed", mixed), ("zoned", zoned)):
        sent = at.send_conversions(shop, deals(Closed=column), **COLUMNS | {"event_type": name})
        dates[name] = [f"{at.get_event(shop, id)['eventDate']:%d %H:%M}" for id in sent["id"]]
    assert dates == {"mixed": ["31 00:00", "01 08:30"], "zoned": ["31 05:00", "01 05:00"]}


def test_a_date_of_the_future_is_rejected(shop):
    expected_close = (datetime.now(UTC) + timedelta(days=30)).isoformat()
    sent = at.send_conversions(shop, deals(Closed=["2025-01-31", expected_close]), **COLUMNS)
    assert sent["status"].tolist() == ["processed", "rejected"]
    assert "from 1990 to 24 hours ahead" in sent["error"][1]


@pytest.mark.parametrize(
    ("ids", "problem"),
    [
        (["D-1", "D-1"], "deal_id in row 1: 'D-1' is also in row 0"),
        (["D-1", None], "deal_id in row 1: expected a value, got nothing"),
        (["D-1", " "], "deal_id in row 1: expected a value, got nothing"),
        (["D-1", 9.5], "deal_id in row 1: expected text, got number 9.5"),
    ],
)
def test_rows_that_their_ids_do_not_identify_are_refused_together(shop, ids, problem):
    frame = deals(deal_id=pd.Series(ids, dtype=object))
    with pytest.raises(at.errors.InvalidRequest) as refusal:
        at.send_conversions(shop, frame, **COLUMNS)
    assert str(refusal.value).startswith(problem)
    assert "nothing was sent" in str(refusal.value)
    assert refusal.value.details == [{"row": 1, "problem": problem}]
    assert at.list_event_types(shop).empty
    checked = at.send_conversions(shop, frame, dry_run=True, **COLUMNS)
    assert checked["error"].tolist()[1] == problem


def test_a_conversion_with_other_values_keeps_the_first_ones(shop):
    first = at.send_conversions(shop, deals(), **COLUMNS)
    again = at.send_conversions(shop, deals(Amount=[901.0, 450.0]), **COLUMNS)
    assert again["status"].tolist() == ["rejected", "processed"]
    assert again["error"][0].startswith("deal_id in row 0: was sent before with other values")
    updates = pd.DataFrame({"id": first["id"][:1], "storageKey": "turnover", "value": 901.0})
    assert at.update_statistics(shop, updates)["status"].tolist() == ["updated"]


def test_a_dry_run_stores_nothing_and_declares_nothing(shop):
    checked = at.send_conversions(shop, deals(), dry_run=True, **COLUMNS)
    assert checked["status"].tolist() == ["valid", "valid"]
    assert at.list_event_types(shop).empty
    at.send_conversions(shop, deals(), **COLUMNS)
    assert at.send_conversions(shop, deals(), dry_run=True, **COLUMNS)["status"].tolist() == ["valid"] * 2


def test_a_file_without_a_valid_row_declares_nothing(shop):
    sent = at.send_conversions(shop, deals(Contact="nobody"), **COLUMNS)
    assert sent["status"].tolist() == ["rejected", "rejected"]
    assert at.list_event_types(shop).empty
    assert at.send_conversions(shop, deals().iloc[:0], **COLUMNS).columns.tolist() == [
        "status",
        "id",
        "error",
    ]


@pytest.mark.large
@pytest.mark.slow
def test_the_fields_of_an_existing_event_type_are_used():
    with at.sample_project() as shop:
        with pytest.raises(at.errors.InvalidRequest, match="also requires orderNumber, items; name their"):
            at.send_conversions(shop, deals(), **COLUMNS | {"event_type": "order"})
        fields = {"orderNumber": "deal_id", "items": "Amount"}
        sent = at.send_conversions(shop, deals(), fields=fields, **COLUMNS | {"event_type": "order"})
        assert sent["status"].tolist() == ["processed", "processed"]


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"email": "Mail"}, "email: there is no column 'Mail'; the columns are: deal_id, Contact"),
        ({"id": "deal_ids"}, r"id: there is no column 'deal_ids' \(did you mean 'deal_id'\?\)"),
        ({"currency": "Euro"}, "currency: there is no column 'Euro'"),
        ({"value": None}, "currency: needs value="),
        ({"fields": {"owner": "Who"}}, r"fields\['owner'\]: there is no column 'Who'"),
        ({"event_type": "archived"}, "event_type: 'archived' is archived; restore it"),
        ({"event_type": "call"}, "email: the event type 'call' has no field of users of the type email"),
        (
            {"event_type": "lead"},
            r"statistic: the event type 'lead' has no statistic 'turnover' \(it has: n\)",
        ),
        ({"event_type": "lead", "statistic": "n"}, "currency: 'n' of the event type 'lead' is a number"),
        (
            {"event_type": "lead", "value": None, "currency": None, "fields": {"x": "Owner"}},
            "has no field 'x'",
        ),
    ],
)
def test_arguments_that_do_not_fit_are_refused_before_anything_is_sent(declared, changes, problem):
    with pytest.raises(at.errors.InvalidRequest, match=problem):
        at.send_conversions(declared, deals(), **COLUMNS | changes)
    assert at.search_users(declared, columns=["_id"]).empty


def test_it_is_not_a_list_of_rows(shop):
    with pytest.raises(at.errors.InvalidRequest, match="conversions: must be a DataFrame, got list"):
        at.send_conversions(shop, [{}], **COLUMNS)


def test_the_frame_stays_as_it_was_and_its_index_comes_back(shop):
    frame = deals().set_index(pd.Index(["a", "a"]))
    before = frame.copy(deep=True)
    sent = at.send_conversions(shop, frame, **COLUMNS)
    pd.testing.assert_frame_equal(frame, before)
    assert sent.index.tolist() == ["a", "a"]


def test_a_failure_of_the_service_keeps_the_rows_of_the_file(shop):
    at.send_conversions(shop, deals(), **COLUMNS)
    send = shop.transport.send

    class Failing:
        address, timezone = shop.transport.address, shop.transport.timezone

        def send(self, operation, request):
            if operation.name.startswith("create_event"):
                raise at.errors.ServiceFailure("the service failed")
            return send(operation, request)

    failing = at.Project("my-shop", Failing())
    frame = deals(deal_id=["D-3", "D-4"], Contact=["nobody", "ben@example.com"])
    with pytest.raises(at.errors.ServiceFailure) as failure:
        at.send_conversions(failing, frame, **COLUMNS)
    assert failure.value.partial["status"].tolist() == ["rejected", "failed"]
    assert failure.value.partial["error"][0].startswith("Contact in row 0")


@pytest.mark.parametrize("dry_run", [True, False])
def test_what_only_the_service_knows_to_be_wrong_is_said_in_the_files_columns_too(shop, dry_run):
    email = {"type": "email", "entity": "user", "storageKey": "email"}
    page = {"type": "url", "entity": "event", "storageKey": "page"}
    at.create_event_type(shop, "deal", name="Deal", fields=[email, page])
    columns = COLUMNS | {"value": None, "currency": None}
    sent = at.send_conversions(shop, deals(), fields={"page": "Owner"}, dry_run=dry_run, **columns)
    expected = "expected a URL, got text 'Kim'" if dry_run else "'Kim' is not of the type 'url'"
    assert sent["error"][0].startswith(f"Owner in row 0: {expected}")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("written", "options", "expected"),
    [
        ("2025-05-12 10:00", {}, "2025-05-12T10:00:00Z"),
        ("2025-05-12 10:00:05 +0200", {}, "2025-05-12T08:00:05Z"),
        ("12.05.2025", {"dayfirst": True}, "2025-05-12T21:59:59.999Z"),
        ("05/12/2025 10:00", {"dayfirst": False}, "2025-05-12T10:00:00Z"),
    ],
)
def test_dates_are_read_as_in_own_files(shop, written, options, expected):
    sent = at.send_conversions(shop, deals(Closed=written), **COLUMNS, **options)
    assert sent["error"].isna().all()
    assert at.get_event(shop, sent["id"][0])["eventDate"] == pd.Timestamp(expected)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("amounts", "options", "expected"),
    [
        (["900,00", "1.450,50"], {}, [900.0, 1450.5]),
        (["1,450.50", "7"], {}, [1450.5, 7.0]),
        (["1.451", "7"], {"decimal": ","}, [1451.0, 7.0]),
        # With three decimals, 7 would be 7.000, or 1.450 would be 1.45.
        (["1.450", "7"], {}, [1450.0, 7.0]),
    ],
)
def test_amounts_are_read_as_in_own_files(shop, amounts, options, expected):
    sent = at.send_conversions(shop, deals(Amount=amounts), **COLUMNS, **options)
    assert sent["error"].isna().all()
    found = [at.get_event(shop, id)["statistics.turnover.amount"] for id in sent["id"]]
    assert found == expected


def test_an_amount_that_may_be_in_thousands_is_refused(shop):
    with pytest.raises(at.errors.InvalidRequest, match="in the column 'Amount', '1.451'.*decimal=','"):
        at.send_conversions(shop, deals(Amount=["1.451", "7"]), **COLUMNS)
    sent = at.send_conversions(shop, deals(Amount=["99.9", "7"]), **COLUMNS, decimal=",")
    assert sent["error"].dropna().tolist() == ["Amount in row 0: expected a number, got text '99.9'"]


def test_the_sign_of_a_currency_is_its_code(shop):
    sent = at.send_conversions(shop, deals(Unit=["€", "eur"]), **COLUMNS)
    assert at.get_event(shop, sent["id"][0])["statistics.turnover.currency"] == "EUR"
    all_alike = COLUMNS | {"currency": "€"}
    sent = at.send_conversions(shop, deals(deal_id=["D-5", "D-6"]), **all_alike)
    assert at.get_event(shop, sent["id"][0])["statistics.turnover.currency"] == "EUR"


@pytest.mark.parametrize("address", [None, " ", "(not set)", "undefined", "guest@shop.invalid"])
def test_g250_an_address_that_stands_for_nobody_is_no_user(shop, address):
    said = "conversions: 1 row without 'Contact', worth 450.00 USD, is unattributed"
    with pytest.warns(at.errors.InputWarning, match=said):
        sent = at.send_conversions(shop, deals(Contact=["anna@example.com", address]), **COLUMNS)
    assert sent["status"].tolist() == ["processed", "processed"]
    users = at.search_users(shop, columns=["fields.email", "eventTypesCount.deal"])
    assert users["fields.email"].dropna().tolist() == ["anna@example.com"]
