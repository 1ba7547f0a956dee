"""Errors of the service, in the words of this package."""

import pickle

import pandas as pd
import pytest
from support.scripted_service import TOKEN, Reply

from attrib_ds import errors, get_interaction, search_interactions, send_events
from attrib_ds.contract import OPERATIONS

ID = "5f0c0ffee0ddba11ad0be123"


def failing(shop, service, reply, operation="search_interactions", **arguments):
    service.script = [reply]
    with pytest.raises(errors.AttribError) as caught:
        shop.send(operation, **arguments)
    return caught.value


@pytest.mark.few(20)
@pytest.mark.slow
@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, errors.InvalidRequest),
        (401, errors.Unauthorized),
        (403, errors.Forbidden),
        (404, errors.NotFound),
        (405, errors.NotSupported),
        (409, errors.Conflict),
        (410, errors.NotFound),
        (413, errors.InvalidRequest),
        (418, errors.InvalidRequest),
        (422, errors.InvalidRequest),
        (429, errors.TooManyRequests),
        (500, errors.ServiceFailure),
        (501, errors.NotSupported),
        (502, errors.Unavailable),
        (503, errors.Unavailable),
        (504, errors.Unavailable),
        (599, errors.ServiceFailure),
    ],
)
@pytest.mark.parametrize(
    "body", [{"message": "no"}, b"", b"<html>no</html>", b"null", b"\xff\xfe", [1], {"message": 3}]
)
def test_each_status_is_an_error_of_its_own_that_pickles(shop, service, status, kind, body):
    error = failing(shop, service, Reply(status, body))
    assert type(error) is kind
    assert error.__context__ is None
    back = pickle.loads(pickle.dumps(error))
    assert (str(back), back.request_id, back.retry_after) == (str(error), error.request_id, error.retry_after)
    assert error.request_id


def test_messages_name_arguments_of_python(shop, service):
    details = [
        {
            "field": "/projection/0",
            "attribute": "projection/0",
            "problem": "'x' is not allowed",
            "got": "'x'",
        },
        {"field": "/limit", "attribute": "limit", "problem": "-1 is not allowed"},
    ]
    message = "/projection/0: 'x' is not allowed; allowed: a, b; /limit: -1 is not allowed"
    body = {
        "statusCode": 400,
        "message": message,
        "error": "Bad Request",
        "details": details,
        "requestId": "r-9",
    }
    error = failing(shop, service, Reply(400, body))
    assert error.message == "columns/0: 'x' is not allowed; allowed: a, b; limit: -1 is not allowed"
    assert (error.field, error.request_id) == ("columns/0", "r-9")
    assert [each["field"] for each in error.details] == ["columns/0", "limit"]
    assert str(error).endswith("(request r-9)")


def test_fields_are_found_in_messages_alone(shop, service):
    body = {"statusCode": 400, "message": "/nodeData/vendorId: there is no 'ads'"}
    error = failing(
        shop,
        service,
        Reply(400, body),
        "create_offline_interaction",
        date="2025-01-31T12:00:00Z",
        user_data={"email": "a@b.c"},
        node_data={"vendorId": "ads"},
    )
    assert (error.message, error.field) == ("node_data/vendorId: there is no 'ads'", "node_data/vendorId")


@pytest.mark.parametrize(
    "message", ["Note: this is no field", "https://x.example: is down", "no: /limit: x", ": "]
)
def test_other_messages_stay_as_they_are(shop, service, message):
    error = failing(shop, service, Reply(400, {"message": message}))
    assert (error.message, error.field) == (f"search_interactions: {message}", None)


def test_messages_of_other_services(shop, service):
    assert (
        failing(shop, service, Reply(400, {"message": ["a is wrong", "b too"]})).message
        == "search_interactions: a is wrong; b too"
    )
    page = b"<html><head><TITLE>502 Bad\n Gateway &amp; more</TITLE></head></html>"
    error = failing(shop, service, Reply(502, page, media="text/html"))
    where = f"{service.url}/api/v1/projects/shop/interactions/search"
    assert error.message == f"HTTP 502 from {where}: 502 Bad Gateway & more"
    problem = {"title": "Conflict", "detail": "the slug is taken"}
    error = failing(shop, service, Reply(409, problem, media="application/problem+json"))
    assert error.message.endswith(": the slug is taken")


LONG = "x" * 5_000


@pytest.mark.parametrize(
    "body",
    [
        {"message": LONG},
        {"message": [LONG] * 50, "errors": {"sort": [LONG]}},
        {"errors": {LONG: [LONG] * 9}},
        LONG.encode(),
        f"<html><title>{LONG}</title>".encode(),
        {"message": "no", "details": [{"attribute": LONG, "problem": LONG}]},
    ],
)
def test_what_a_service_says_is_bounded(shop, service, body):
    error = failing(shop, service, Reply(403, body, headers={"X-Request-Id": LONG}))
    assert len(str(error)) < 1_000


def test_what_the_token_route_says_is_bounded(shop, service):
    service.tokens = [Reply(400, dict.fromkeys(("error", "error_description", "message"), LONG))]
    with pytest.raises(errors.Unauthorized) as caught:
        shop.send("search_interactions")
    assert len(str(caught.value)) < 600


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"detail": [{"loc": ["body", "sort"], "msg": "too big"}]}, ": body/sort: too big"),
        ({"Message": "closed"}, ": closed"),
        (
            b"<?xml version='1.0'?><Error><Code>7</Code><Message>shop &lt;1&gt; closed</Message></Error>",
            ": 7 shop <1> closed",
        ),
        ({"errors": {"sort": ["too big"], "offset": "too small"}}, ": sort: too big; offset: too small"),
        ({"secret": "abc"}, "/search"),
        ({"sort": ["too big"], "secret": "abc"}, ": sort: too big"),
        ({"code": 7, "errorMessage": "too big"}, ": too big"),
        ({"odata.error": {"message": {"lang": "en", "value": "too big"}}}, ": lang: en; value: too big"),
        ({"errors": {"body": {"sort": ["too big"]}}}, ": body: sort: too big"),
        (
            {"message": "Validation failed", "errors": {"sort": ["too big"]}},
            "search_interactions: Validation failed (sort: too big)",
        ),
        ({"statusCode": 400, "message": "moon", "error": "Bad Request"}, "search_interactions: moon"),
        ({"message": "columns: moon is unknown"}, "columns: moon is unknown"),
    ],
)
def test_what_a_service_says_is_shown_in_every_form(shop, service, body, words):
    message = failing(shop, service, Reply(400, body)).message
    assert message.endswith(words) if words[0] in ":/" else message == words


@pytest.mark.parametrize(
    ("location", "advice"),
    [
        (
            "https://new.example{path}?x=1",
            "it has moved to https://new.example{path}; pass url='https://new.example'",
        ),
        ("/login", "it redirects to {url}/login, which is not followed; check url= and the key"),
        ("{path}/", "it redirects to {url}{path}/, which is not followed; check url= and the key"),
        ("", "it redirects to an unnamed address; check url="),
    ],
)
def test_a_redirect_says_what_to_do(shop, service, location, advice):
    places = {"path": "/api/v1/projects/shop/interactions/search", "url": service.url}
    error = failing(shop, service, Reply(307, b"", {"Location": location.format(**places)}))
    assert error.message.endswith(advice.format(**places))


def test_a_method_that_is_not_allowed_names_routes(shop, service):
    error = failing(shop, service, Reply(405, {"message": "Method Not Allowed"}), "get_interaction", id=ID)
    advice = "check url=, or give the path of this operation in routes="
    assert error.message == f"get_interaction: Method Not Allowed; {advice}"


def test_a_path_that_is_not_there_names_what_to_do(shop, service):
    page = Reply(404, b"<title>Not Found</title>", media="text/html")
    error = failing(shop, service, page)
    assert error.message.endswith(": Not Found; check url=, or give the path of this operation in routes=")
    error = failing(shop, service, Reply(404, {"message": "id: there is none"}), "get_interaction", id=ID)
    assert error.message == "id: there is none"
    assert error.field == "id"


def test_a_trashed_event_keeps_its_id_and_what_is_wrong(shop, service):
    wrong = [{"type": "missing-field", "field": {"ingestionKey": "mail"}, "value": None}]
    message = "/data/mail: missing; the event type requires it; the event was stored as trashed, as 'e-1'"
    refused = Reply(400, {"statusCode": 400, "message": message, "eventId": "e-1", "errors": wrong})
    # Of one that does not take many at once.
    service.script = [lambda asked: Reply(404, b"") if asked.path.endswith("/batch") else refused]
    sent = send_events(shop, pd.DataFrame({"nonce": ["1"]}), event_type="order")
    assert sent[["status", "id"]].to_numpy().tolist() == [["trashed", "e-1"]]
    assert sent["error"].item().startswith("data/mail: missing; the event type requires it;")
    error = failing(shop, service, refused, "create_event", event_type="order", nonce="1", data={})
    assert error.details == [{**wrong[0], "eventId": "e-1"}]
    assert error.field == "data/mail"


def test_the_service_may_repeat_a_token_and_no_error_does(shop, service):
    def echo(asked):
        told = asked.headers["Authorization"]
        return Reply(400, {"message": f"no: {told}", "details": [{"got": told}]}, {"X-Request-Id": told[7:]})

    service.script = [echo]
    error = failing(shop, service, echo)
    assert TOKEN not in repr((error.message, error.details, error.request_id, str(error), error.args))
    assert "[secret]" in error.message


def test_only_an_embedded_project_does_some_things(shop, service):
    for name, arguments in (
        ("anonymise_expired", {}),
        ("load_records", {"resource": "nodes", "source": pd.DataFrame()}),
    ):
        with pytest.raises(
            errors.NotSupported, match=rf"{name}: not available for a remote project; connect\(…, path=…"
        ):
            shop.send(name, **arguments)
    with pytest.raises(errors.NotSupported, match="sync"):
        shop.tables()
    assert OPERATIONS["load_records"].base == "embedded"
    assert not service.asked


def test_a_closed_project_says_so(shop, service):
    shop.close()
    shop.close()
    with pytest.raises(errors.Unavailable, match="the project is closed"):
        search_interactions(shop)


def test_requests_are_checked_before_they_are_sent(shop, service):
    with pytest.raises(errors.InvalidRequest, match="id: 'x' is not allowed"):
        get_interaction(shop, "x")
    assert not service.asked
    assert not service.asked_tokens
