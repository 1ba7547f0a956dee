"""A service that answers wrongly: each call ends with a documented error, soon and within bounded memory."""

import gzip
import itertools
import json
import re
import struct
import time as real_time
import warnings
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from support.law_examples import examples
from support.scripted_service import Reply, page

import attrib_ds as at
from attrib_ds import errors
from attrib_ds.transports.http.answers import ARROW
from attrib_ds.transports.http.configuration import Remote
from attrib_ds.transports.http.credentials import protect_key
from attrib_ds.transports.http.session import Timeouts
from attrib_ds.transports.http.transport import Options, open_http

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
RECORDS = b"{" + b'"data":[' + b'{"_id":"a"},' * 10_000

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
        arrow(pa.table({"_id": [ID, ID]}).replace_schema_metadata({"total": "9" * 10_000, b"\xff": "1"})),
        "more than once",
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
    "JSON: an object that is no page": (Reply(body=b'{"data":[]}'), "has no total"),
    "JSON: a page without its total": (page({"_id": ID}, total=None), "has no total"),
    "JSON: a count beyond all numbers": (Reply(body=b'{"data":[],"count":1e999999999,"total":0}'), "cannot be read"),
    "JSON: a total of ten thousand digits": (Reply(body=b'{"data":[],"count":0,"total":' + b"9" * 10_000 + b"}"), "cannot be read"),
    "JSON: an endless text in an error": (endless(b"x" * MIB, head=b'{"message":"', status=400), "HTTP 400"),
    "Arrow: numbers for ids": (arrow(pa.table({"_id": [1, 2]})), "_id as int64; expected string"),
    "Arrow: text for instants": (
        arrow(pa.table({"_id": [ID], "startDate": ["2025-01-01T00:00:00Z"]})), "startDate as string"
    ),
    "Arrow: numbers for instants": (arrow(pa.table({"_id": [ID], "startDate": [5]})), "startDate as int64"),
    "JSON: a total below its records": (page({"_id": ID}, {"_id": "b"}, total=1), "its total 1"),
    "JSON: a total below zero": (page(total=-5), "its total -5"),
    "JSON: another offset than requested": (page({"_id": ID}, offset=5, total=90), "its offset 5"),
    "JSON: more records than requested": (page(*({"_id": str(n)} for n in range(50))), "more than the 40 records"),
    "JSON: an id twice": (page({"_id": ID}, {"_id": "b"}, {"_id": ID}), "'0{24}' more than once"),
    "JSON: no id": (page({"_id": None}, {"_id": "b"}), "1 of 2 records without _id"),
    "error: an endless body": (endless(b"x" * MIB, status=500), "HTTP 500"),
    "error: an endless redirect": (endless(b"x" * MIB, status=302, headers={"Location": "/"}), "it has moved"),
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
def search(open_shop):
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
@pytest.mark.slow
def test_attacks_end_in_an_error_that_names_them(search, service, attack):
    reply, words = ATTACKS[attack]
    service.script = [reply]
    before, start = resident(), real_time.monotonic()
    with pytest.raises(errors.AttribError, match=words) as caught:
        search()
    assert real_time.monotonic() - start < 20
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


@pytest.mark.slow
@settings(
    max_examples=examples(60),
    deadline=None,
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
        warnings.simplefilter("ignore", errors.UnknownFields)
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


@pytest.mark.slow
@settings(
    max_examples=examples(200), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    changes=st.lists(st.tuples(st.integers(0, 4_000), st.integers(0, 255)), min_size=1, max_size=8),
    keep=st.integers(0, 4_000),
)
def test_any_damage_to_an_arrow_stream_is_an_answer_or_an_error(search, service, time, changes, keep):
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
        found = search()
    except errors.AttribError:
        return
    repr(found)
