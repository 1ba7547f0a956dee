"""What is tried again, how long is waited, and how each call ends when the service answers wrongly."""

import gzip
import itertools
import json
import re
import struct
import sys
import time as real_time
import warnings
from datetime import UTC, datetime
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from support.law_examples import examples
from support.scripted_service import RESET, Reply, page

import attrib_ds as at
from attrib_ds import errors
from attrib_ds.transports.http.answers import ARROW
from attrib_ds.transports.http.configuration import Remote
from attrib_ds.transports.http.credentials import protect_key
from attrib_ds.transports.http.session import AttemptFailed, Clock, RetryPolicy, Session, Timeouts
from attrib_ds.transports.http.transport import Options, open_http

TOO_MANY = {"statusCode": 429, "message": "Too Many Requests", "error": "Too Many Requests"}
EMPTY = page()


def search(shop):
    return shop.send("search_interactions").total


def create(shop):
    """Send what must not be sent twice."""
    return shop.send("create_campaign", vendor_id="ads", campaign_slug="spring", name="Spring").value


def http_date(time, seconds):
    """Return an instant by the clock of the service, which this machine's need not follow."""
    moment = datetime.fromtimestamp(time.seconds + time.ahead + seconds, UTC)
    return moment.strftime("%a, %d %b %Y %H:%M:%S GMT")


def test_seconds_of_retry_after_are_waited(shop, service, time):
    service.script = [Reply(429, TOO_MANY, {"Retry-After": "12"}), EMPTY]
    assert search(shop) == 0
    assert time.slept == [pytest.approx(12)]


@pytest.mark.parametrize(
    ("status", "headers", "waits"),
    [
        (429, {"RateLimit-Reset": "30"}, 30),
        (429, {"RateLimit-Reset": "30", "Retry-After": "12"}, 12),
        (429, {"RateLimit-Reset": "1764500000"}, 0.5),
        (503, {"RateLimit-Reset": "30"}, 0.5),
    ],
)
def test_a_rate_limit_without_retry_after_is_waited_for(shop, service, time, status, headers, waits):
    service.script = [Reply(status, TOO_MANY, headers), EMPTY]
    assert search(shop) == 0
    assert time.slept == [pytest.approx(waits)]


@pytest.mark.parametrize("waits", ["121", "86400", "999999999999999999"])
def test_nobody_waits_longer_than_a_request_is_tried(shop, service, time, waits):
    service.script = [Reply(429, TOO_MANY, {"Retry-After": waits, "X-Request-Id": "r-1"})]
    with pytest.raises(
        errors.TooManyRequests, match=r"the service asks to wait [\d,]+ s \(request r-1\)"
    ) as caught:
        search(shop)
    # urllib3 reads six hours at most.
    assert caught.value.retry_after == min(float(waits), 21_600)
    assert time.slept == []
    assert len(service.asked) == 1


def test_what_is_refused_for_its_number_is_sent_again_though_it_is_not_safe(shop, service, time):
    service.script = [Reply(429, TOO_MANY, {"Retry-After": "1"}), Reply(body={"id": "7"})]
    assert create(shop) == "7"


@pytest.mark.parametrize("status", [500, 502, 503, 504])
def test_failures_of_the_service_pass(shop, service, time, status):
    service.script = [
        Reply(status, {"message": "no"}),
        Reply(status, b"<h1>no</h1>", media="text/html"),
        EMPTY,
    ]
    assert search(shop) == 0
    # Full jitter, of which the clock of the tests draws the most: 0.5 s, then twice as much. A gateway that
    # waits in vain gets a smaller page at once.
    assert time.slept == ([] if status == 504 else [0.5, 1.0])
    sizes = [json.loads(asked.body)["limit"] for asked in service.asked]
    assert sizes == ([10_000, 5_000, 2_500] if status == 504 else [10_000] * 3)


@pytest.mark.parametrize("status", [500, 502, 503, 504])
def test_one_record_is_asked_for_again(shop, service, time, status):
    service.script = [Reply(status, {"message": "no"}), Reply(404, {"message": "no"})]
    with pytest.raises(errors.NotFound):
        at.get_interaction(shop, ID)
    assert time.slept == [0.5]


@pytest.mark.parametrize("media", ["application/json", "application/problem+json"])
def test_a_read_that_takes_too_long_is_not_sent_again(shop, service, time, media):
    details = [{"type": "deadline-exceeded", "seconds": 30}]
    body = {"statusCode": 503, "message": "the request takes longer than 30 seconds; ask for less at once"}
    service.script = [
        Reply(503, body | {"details" if media == "application/json" else "errors": details}, media=media)
    ]
    with pytest.raises(errors.Unavailable, match="ask for less at once") as caught:
        search(shop)
    assert caught.value.details == details
    assert len(service.asked) == 1
    assert time.slept == []


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        (Reply(500, {"message": "Internal server error"}), errors.ServiceFailure),
        (Reply(502, b"<title>Bad Gateway</title>", media="text/html"), errors.Unavailable),
        (Reply(503, {"message": "later"}), errors.Unavailable),
        (RESET, errors.Unavailable),
    ],
)
def test_what_may_have_been_carried_out_is_not_sent_twice(shop, service, time, reply, kind):
    service.script = [reply]
    with pytest.raises(kind, match="the request may have been carried out") as caught:
        create(shop)
    assert isinstance(caught.value, kind)
    assert caught.value.is_unknown
    assert len(service.asked) == 1
    assert time.slept == []


@pytest.mark.parametrize(
    "reply", [RESET, Reply(body=EMPTY.body, cut=10), Reply(body=EMPTY.body, cut=10, after="reset")]
)
def test_broken_connections_are_tried_again_where_that_is_safe(shop, service, time, reply):
    service.script = [reply, reply, EMPTY]
    assert search(shop) == 0
    assert len(service.asked) == 3


def test_a_service_that_stays_broken_is_given_up(shop, service, time):
    service.script = [RESET]
    with pytest.raises(
        errors.Unavailable, match=r"/interactions/search: the connection was interrupted \(Connection reset"
    ):
        search(shop)
    assert len(service.asked) == 6
    assert time.slept == [0.5, 1.0, 2.0, 4.0, 8.0]


@pytest.mark.slow
def test_silence_in_the_middle_of_a_body_is_a_timeout(open_shop, service, time):
    shop = open_shop(read_timeout=0.2)
    service.script = [Reply(body=EMPTY.body, cut=10, after="silence"), EMPTY]
    assert search(shop) == 0
    # A write that was answered is not sent again, whatever becomes of the answer.
    service.script = [Reply(body={"id": "7"}, cut=2, after="silence")]
    asked = len(service.asked)
    create(shop)
    assert len(service.asked) == asked + 1


def test_a_service_that_is_not_there_is_tried_for_everything(open_shop, service, time):
    shop = open_shop(retry_policy=RetryPolicy(attempts=3))
    service.close()
    with pytest.raises(errors.Unavailable, match="no connection .*check the address") as caught:
        create(shop)
    assert "not known" not in str(caught.value)
    assert time.slept == [0.5, 1.0]


@pytest.mark.parametrize("status", [400, 401, 403, 404, 405, 409, 501])
def test_refusals_are_not_tried_again(shop, service, time, status):
    service.script = [Reply(status, {"message": "no"})]
    with pytest.raises(errors.AttribError):
        search(shop)
    # A refused token is renewed once.
    assert len(service.asked) == (2 if status == 401 else 1)
    assert time.slept == []


def test_the_time_for_all_attempts_is_bounded(open_shop, service, time):
    shop = open_shop(retry_policy=RetryPolicy(attempts=100, seconds=60))
    service.script = [Reply(503, {"message": "later"}, {"Retry-After": "25"})]
    with pytest.raises(errors.Unavailable) as caught:
        search(shop)
    assert sum(time.slept) <= 60
    assert len(service.asked) == 3
    assert caught.value.retry_after == 25


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("12", 12),
        (30, 30),
        (-3_600, 0),
        ("soon", 1),
        ("-1", 1),
        ("1.5", 1),
        ("9" * 5_000, 1),
    ],
)
def test_retry_after_is_waited_for_where_it_is_one(open_shop, service, time, text, seconds):
    shop = open_shop(retry_policy=RetryPolicy(first_wait=1))
    header = text if isinstance(text, str) else http_date(time, text)
    service.script = [Reply(503, {}, {"Retry-After": header}), EMPTY]
    assert search(shop) == 0
    assert sum(time.slept) == pytest.approx(seconds)


class Terminal:
    def __init__(self, *, is_watched=True):
        self.told = []
        self.isatty = lambda: is_watched
        self.write = self.told.append
        self.flush = lambda: None


@pytest.mark.parametrize(
    ("seconds", "is_watched", "is_told"), [(12, True, True), (12, False, False), (1, True, False)]
)
def test_a_long_wait_is_told_to_who_looks_on(shop, service, monkeypatch, seconds, is_watched, is_told):
    terminal = Terminal(is_watched=is_watched)
    monkeypatch.setattr(sys, "stderr", terminal)
    service.script = [Reply(429, TOO_MANY, {"Retry-After": str(seconds)}), EMPTY]
    search(shop)
    told = [text for text in terminal.told if "waiting" in text]
    message = "search_interactions: Too Many Requests; send fewer requests"
    assert told == ([f"attrib-ds: waiting 12 s: {message}\n"] if is_told else [])


def test_a_notebook_is_looked_at(shop, service, monkeypatch):
    stream = type("OutStream", (Terminal,), {"__module__": "ipykernel.iostream"})(is_watched=False)
    monkeypatch.setattr(sys, "stderr", stream)
    service.script = [Reply(503, {"message": "later"}, {"Retry-After": "30"}), EMPTY]
    search(shop)
    assert any("waiting 30 s: search_interactions: later" in text for text in stream.told)


def test_jitter_draws_from_nothing_to_a_bound_that_doubles(time):
    draws = iter([0.0, 0.5, 1.0, 0.25, 1.0])
    clock = Clock(monotonic=lambda: time.seconds, sleep=time.sleep, random=lambda: next(draws))
    session = Session(Timeouts(), RetryPolicy(attempts=5, first_wait=2, longest_wait=6), clock)

    def attempt():
        raise AttemptFailed(errors.Unavailable("no"), "always", reached_service=False)

    with pytest.raises(errors.Unavailable):
        session.retry(attempt, is_safe=False)
    session.close()
    assert time.slept == [2.0, 6.0, 1.5]


ID = "0" * 24
MIB = 2**20


#: What a terminal obeys, or what hides the text after it: C0, DEL, C1, overrides of direction.
CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def arrow_bytes(table, **options):
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, **options) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def arrow(table, **options):
    return Reply(body=arrow_bytes(table, **options), media=ARROW)


def with_offsets(*offsets):
    """A column of ids whose offsets point anywhere."""
    ids = pa.table({"_id": [ID, "1" * 24]})
    content = arrow_bytes(ids)
    place = content.rindex(struct.pack("<3i", 0, 24, 48))
    return Reply(body=content[:place] + struct.pack("<3i", *offsets) + content[place + 12 :], media=ARROW)


def not_unicode():
    content = arrow_bytes(pa.table({"_id": [ID]})).replace(ID.encode(), b"\xff" * 24)
    return Reply(body=content, media=ARROW)


def claiming(size):
    """An Arrow message whose metadata claims this many bytes of body."""
    content = bytearray(arrow_bytes(pa.table({"_id": [f"{n:024x}" for n in range(1_000)]})))
    messages = pa.ipc.MessageReader.open_stream(pa.BufferReader(bytes(content)))
    *_, batch = messages
    place = content.index(struct.pack("<q", batch.body.size))
    content[place : place + 8] = struct.pack("<q", size)
    return Reply(body=bytes(content), media=ARROW)


def endless(chunk, head=b"", **options):
    return Reply(body=lambda: itertools.chain([head], itertools.repeat(chunk)), **options)


def chunked(*, line):
    """A chunked body whose chunk sizes are lines like this."""
    return Reply(body=lambda: itertools.repeat(line), headers={"Transfer-Encoding": "chunked"})


def bomb(layers=1):
    packed = zeros = b" " * (64 * MIB)
    for _ in range(layers):
        packed = gzip.compress(packed, 9)
    assert len(packed) * 100 < len(zeros)
    return packed


GZIP = {"Content-Encoding": "gzip"}


ATTACKS = {
    "Arrow: offsets beyond the data": (with_offsets(0, 2**30, 2**31 - 1), "cannot be read"),
    "Arrow: offsets below zero": (with_offsets(-(2**31), 24, 48), "cannot be read"),
    "Arrow: offsets that go back": (with_offsets(0, 48, 24), "cannot be read"),
    "Arrow: text that is not UTF-8": (not_unicode(), "cannot be read"),
    "Arrow: a batch of an exbibyte": (claiming(2**60), "cannot be read|at most"),
    "Arrow: a batch below zero": (claiming(-8), "cannot be read"),
    "Arrow: a dictionary for expansion": (
        arrow(pa.table({"_id": pa.array([ID]), "type": pa.array(["x"]).dictionary_encode()})),
        "type as dictionary",
    ),
    "Arrow: a row of nulls that takes no bytes": (
        arrow(pa.table({"type": pa.nulls(2**30)})),
        "more than the 40 records",
    ),
    "Arrow: a total of ten thousand digits": (
        arrow(pa.table({"_id": [ID, None]}).replace_schema_metadata({"total": "9" * 10_000, b"\xff": "1"})),
        "1 of 2 records without _id",
    ),
    "Arrow: more rows than requested": (
        arrow(pa.table({"_id": [f"{n:024x}" for n in range(50)]})),
        "more than the 40 records",
    ),
    "JSON: endless blanks": (endless(b" " * MIB), "larger than|truncated"),
    "JSON: an endless list": (endless(b'{"_id":"a"},' * 50_000, head=b'{"data":['), "larger than"),
    "JSON: an endless text": (endless(b"a" * MIB, head=b'{"data":[{"_id":"'), "larger than"),
    "JSON: nested too deeply": (Reply(body=b'{"data":' + b"[" * 10**6), "cannot be read"),
    "JSON: a bomb of gzip": (Reply(body=lambda: [bomb()] * 20, headers=GZIP), "larger than"),
    "JSON: fewer records than counted": (page({"_id": ID}, count=7), "its count is 7"),
    "JSON: a count beyond all numbers": (Reply(body=b'{"data":[],"count":1e999999999,"total":0}'), "cannot be read"),
    "JSON: a total of ten thousand digits": (Reply(body=b'{"data":[],"count":0,"total":' + b"9" * 10_000 + b"}"), "cannot be read"),
    "JSON: an endless text in an error": (endless(b"x" * MIB, head=b'{"message":"', status=400), "HTTP 400"),
    "Arrow: numbers for ids": (arrow(pa.table({"_id": [1, 2]})), "_id as int64; expected string"),
    "Arrow: text for instants": (
        arrow(pa.table({"_id": [ID], "startDate": ["2025-01-01T00:00:00Z"]})), "startDate as string"
    ),
    "Arrow: numbers for instants": (arrow(pa.table({"_id": [ID], "startDate": [5]})), "startDate as int64"),
    "JSON: another offset than requested": (page({"_id": ID}, offset=5, total=90), "its offset 5"),
    "JSON: more records than requested": (page(*({"_id": str(n)} for n in range(50))), "more than the 40 records"),
    "JSON: no id": (page({"_id": None}, {"_id": "b"}), "1 of 2 records without _id"),
    "error: an endless body": (endless(b"x" * MIB, status=500), "HTTP 500"),
    "error: an endless redirect": (endless(b"x" * MIB, status=302, headers={"Location": "/"}), "it redirects to"),
    "error: a page that is costly to search": (Reply(400, b"<title" * 150_000, media="text/html"), "HTTP 400"),
    "error: escape sequences": (
        Reply(400, {"message": "\x1b]0;owned\x07\x9b2J\u202egnp", "requestId": "\x1b[2J"}),
        r"\\x1b\]0;owned\\x07\\x9b2J\\u202egnp",
    ),
    "error: escape sequences in a header": (
        Reply(302, b"", {"Location": "/\x9b2J\x1b[31m"}), r"\\x9b2J"
    ),
    "media type: escape sequences": (Reply(body=b"no", media="a/\x1b[31m\x9b"), "a/"),
}  # fmt: skip


#: Attacks on limits that an endless list, an endless text and a bomb meet too.
SLOW = {"JSON: endless blanks"}


@pytest.fixture
def hostile_search(open_shop):
    shop = open_shop(retry_policy=at_once())
    return lambda: at.search_interactions(shop, limit=40)


def at_once():
    from attrib_ds.transports.http.session import RetryPolicy

    return RetryPolicy(attempts=1)


def resident():
    """Bytes of memory of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4_096


@pytest.mark.parametrize(
    "attack", [pytest.param(name, marks=pytest.mark.slow) if name in SLOW else name for name in ATTACKS]
)
@pytest.mark.few(21)
@pytest.mark.slow
def test_attacks_end_in_an_error_that_names_them(hostile_search, service, attack):
    reply, words = ATTACKS[attack]
    service.script = [reply]
    before, start = resident(), real_time.process_time()
    with pytest.raises(errors.AttribError, match=words) as caught:
        hostile_search()
    assert real_time.process_time() - start < 20
    assert resident() - before < 700 * MIB
    assert not CONTROL.search(f"{caught.value}{caught.value!r}{caught.value.args}")


@pytest.mark.slow
def test_a_body_that_drips_ends_with_its_time(service, key, time):
    def drip():
        yield b"["
        while not service.released.wait(0.05):
            yield b" "

    service.script = [Reply(body=drip)]
    options = Options(clock=time.clock(), timeouts=Timeouts(body=0.5), retry_policy=at_once())
    with (
        at.Project("shop", open_http(Remote(url=service.url, key=protect_key(key)), options=options)) as shop,
        pytest.raises(errors.Unavailable, match=r"not complete within 0\.5 s"),
    ):
        at.search_interactions(shop, limit=40)


@pytest.mark.slow
@pytest.mark.parametrize("seconds", ["9" * 400, "1e400", "-1", "true", '"soon"'])
def test_any_lifetime_of_a_token_is_bounded(open_shop, service, seconds):
    token = f'{{"access_token": "t", "token_type": "Bearer", "expires_in": {seconds}}}'
    service.tokens = [Reply(body=token.encode()), Reply(body=token.encode())]
    service.script = [page()]
    shop = open_shop()
    assert at.search_interactions(shop, limit=40).empty
    service.time.seconds += 86_401
    assert at.search_interactions(shop, limit=40).empty
    assert len(service.asked_tokens) == 2


def test_fewer_outcomes_than_events_are_an_error(shop, service):
    service.script = [Reply(body=[{"id": "7"}])]
    event = {"projectId": "shop", "userData": {"vendorUserId": "u"}, "rawEventDate": "2025-01-01T00:00:00Z"}
    events = [event | {"eventTypeId": "e", "nonce": f"nonce-{number}", "data": {}} for number in range(2)]
    with pytest.raises(errors.ServiceFailure, match="1 outcomes of 2 events"):
        shop.send("create_events", events=events)


def test_a_short_page_is_completed(open_shop, service):
    """A service with a smaller maximum page size loses no records."""
    records = [{"_id": f"{n:024x}", "startDate": f"2025-01-01T00:00:{n:02}.000Z"} for n in range(30)]

    def answer(asked):
        body = json.loads(asked.body)
        since = body.get("since", "")
        left = [record for record in records if record["startDate"] >= since]
        return page(*left[body.get("offset", 0) :][:10], total=len(left), offset=body.get("offset", 0))

    service.script = [answer]
    found = at.search_interactions(open_shop(), sort="startDate", limit=25)
    assert found["_id"].tolist() == [record["_id"] for record in records[:25]]


def test_a_thousand_unknown_fields_are_kept_and_named_safely(open_shop, service):
    service.script = [page({"_id": ID} | {f"new-{number}\x9b": 1 for number in range(5_000)})]
    with pytest.warns(errors.UnknownFields) as caught:
        found = at.search_interactions(open_shop(), limit=40)
    assert len(str(caught[0].message)) < 2_500
    assert not CONTROL.search(str(caught[0].message))
    assert sum(name.startswith("new-") for name in found.columns) == 1_000


texts = st.text(max_size=20)
numbers = st.one_of(st.integers(), st.floats(), st.sampled_from([10**400, True, None, "7", -0.0]))


values = st.recursive(
    st.one_of(texts, numbers, st.none()),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)


names = st.sampled_from(
    ["data", "count", "total", "offset", "limit", "_id", "startDate", "geo", "userData", "hitCount", "message",
     "details", "errors", "error", "requestId", "statusCode", "eventId", "attribute"]
) | texts  # fmt: skip


records = st.dictionaries(names, values, max_size=5)


bodies = st.one_of(
    st.binary(max_size=200),
    st.builds(lambda value: json.dumps(value).encode(), st.one_of(values, records)),
    st.builds(
        lambda records, others: json.dumps(others | {"data": records}).encode(),
        st.lists(records, max_size=4),
        records,
    ),
)


headers = st.dictionaries(
    st.sampled_from(
        ["Retry-After", "Content-Encoding", "Location", "X-Request-Id", "Date", "Set-Cookie", "Content-Range"]
    ),
    st.one_of(
        st.sampled_from(["gzip", "br", "chunked", "0", "-1", "9" * 5_000, "Fri, 31 Dec 9999 23:59:59 GMT",
                         "Mon, 01 Jan 0001 00:00:00 +9999", "http://[", "//"]),
        st.text(st.characters(min_codepoint=32, max_codepoint=255), max_size=20),
    ),
    max_size=3,
)  # fmt: skip


media = st.sampled_from(["application/json", ARROW, "text/html", "text/plain", ""])
statuses = st.sampled_from([200, 201, 204, 301, 304, 400, 401, 404, 409, 410, 418, 429, 500, 503, 599])


@pytest.mark.large
@pytest.mark.slow
@settings(
    max_examples=examples(60),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(status=statuses, body=bodies, headers=headers, media=media)
@example(status=200, body=b'{"total":1e3,"data":[{"_id":"a"}]}', headers={}, media="application/json")
def test_any_response_is_an_answer_or_an_error(open_shop, service, time, status, body, headers, media):
    service.script = [Reply(status, body, headers, media)]
    service.tokens = []
    time.seconds += 1_000
    shop = open_shop(retry_policy=at_once())
    with warnings.catch_warnings():
        for category in (errors.UnknownFields, errors.InputWarning):
            warnings.simplefilter("ignore", category)
        for call in (
            lambda: at.search_interactions(shop, limit=40),
            lambda: at.get_interaction(shop, ID),
            lambda: at.list_campaigns(shop, "0" * 24),
            lambda: shop.send("get_settings"),
        ):
            caught = None
            try:
                call()
            except errors.AttribError as error:
                caught = error
            assert not CONTROL.search(str(caught))


@pytest.mark.large
@pytest.mark.slow
@settings(max_examples=examples(200), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    changes=st.lists(st.tuples(st.integers(0, 4_000), st.integers(0, 255)), min_size=1, max_size=8),
    keep=st.integers(0, 4_000),
)
def test_any_damage_to_an_arrow_stream_is_an_answer_or_an_error(hostile_search, service, time, changes, keep):
    rows = range(20)
    content = bytearray(
        arrow_bytes(
            pa.table(
                {
                    "_id": [f"{row:024x}" for row in rows],
                    "startDate": pa.array([row * 10**12 for row in rows], pa.timestamp("us", "UTC")),
                    "hitCount": list(rows),
                    "isBot": [row % 2 == 0 for row in rows],
                    "geo.city": [None if row % 3 else "Oslo" for row in rows],
                }
            )
        )
    )
    for place, byte in changes:
        content[place % len(content)] = byte
    service.script = [Reply(body=bytes(content[: max(keep, len(content) - keep)]), media=ARROW)]
    time.seconds += 1_000
    try:
        found = hostile_search()
    except errors.AttribError:
        return
    repr(found)


DATE = "2025-01-31T12:00:00Z"
ROWS = pd.DataFrame({"eventDate": DATE, "data.orderId": range(600), "data.amount": 1.5})
REFUSED_LONG = Reply(429, {"message": "Too Many Requests"}, {"Retry-After": "300"})


#: Transient failures; the last one carries the request out without answering.
TRANSIENT = {
    "reset": RESET,
    "slow": REFUSED_LONG,
    "busy": Reply(503, {"message": "later"}),
    "broken": Reply(500, {"message": "Internal server error"}),
    "cut": Reply(body=[{"id": "x"}], cut=3),
    "html": Reply(502, b"<title>Bad Gateway</title>", media="text/html"),
    "silent": Reply(body=[{"id": "x"}], cut=3, after="silence"),
}


class Store:
    """Stores events of batches, one per nonce, and answers as scripted."""

    def __init__(self):
        self.ids = {}
        self.requests = []
        self.replies = {}

    def __call__(self, request):
        events = json.loads(request.body)
        events = events if isinstance(events, list) else events["events"]
        self.requests.append(len(events))
        reply = self.replies.get(len(self.requests))
        if reply is not None and reply.status not in (429, 503):
            self.answer(events)
        return reply or Reply(202, body=self.answer(events))

    def answer(self, events):
        for event in events:
            self.ids.setdefault(event["nonce"], f"e{len(self.ids)}")
        return [{"statusCode": 202, "id": self.ids[event["nonce"]]} for event in events]


@pytest.fixture
def store(service):
    service.script = [Store()]
    return service.script[0]


def send(shop):
    return at.send_events(shop, ROWS, event_type="order", nonce_columns=["data.orderId"], wait=False)


@pytest.mark.slow
@pytest.mark.parametrize("kind", TRANSIENT)
def test_each_row_is_stored_once_when_the_service_is_back(open_shop, store, kind):
    store.replies = {2: TRANSIENT[kind]}
    sent = send(open_shop(retry_policy=RetryPolicy(attempts=1), read_timeout=0.3))
    assert sent["status"].tolist() == ["accepted"] * 500 + ["failed"] * 100
    again = send(open_shop())
    assert again["status"].tolist() == ["accepted"] * 600
    assert store.requests == [500, 100, 500, 100]
    assert again["id"].is_unique
    assert len(store.ids) == 600


@pytest.mark.slow
@pytest.mark.parametrize("kind", TRANSIENT)
def test_if_nothing_was_accepted_the_error_has_the_frame(open_shop, store, kind):
    store.replies = {1: TRANSIENT[kind]}
    with pytest.raises(errors.AttribError) as caught:
        send(open_shop(retry_policy=RetryPolicy(attempts=1), read_timeout=0.3))
    assert caught.value.partial["status"].tolist() == ["failed"] * 500 + ["unsent"] * 100
    again = send(open_shop())
    assert again["status"].tolist() == ["accepted"] * 600
    assert len(store.ids) == 600


def test_no_request_is_spent_on_asking_whether_batches_are_supported(shop, store):
    send(shop)
    assert store.requests == [500, 100]
