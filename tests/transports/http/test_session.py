"""What is tried again, how long is waited, and what is told when it was in vain."""

import sys
from datetime import UTC, datetime, timedelta

import pytest
from support.scripted_service import RESET, Reply, page

from attrib_ds import errors
from attrib_ds.transports.http.session import AttemptFailed, Clock, RetryPolicy, Session, Timeouts

TOO_MANY = {"statusCode": 429, "message": "Too Many Requests", "error": "Too Many Requests"}
EMPTY = page()


def search(shop):
    return shop.send("search_interactions").total


def create(shop):
    """Send what must not be sent twice."""
    return shop.send("create_campaign", vendor_id="ads", campaign_slug="spring", name="Spring").value


def http_date(seconds):
    moment = datetime.now(UTC) + timedelta(seconds=seconds)
    return moment.strftime("%a, %d %b %Y %H:%M:%S GMT")


def test_seconds_of_retry_after_are_waited(shop, service, time):
    service.script = [Reply(429, TOO_MANY, {"Retry-After": "12"}), EMPTY]
    assert search(shop) == 0
    assert time.slept == [pytest.approx(12)]


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
    # Full jitter, of which the clock of the tests draws the most: 0.5 s, then twice as much.
    assert time.slept == [0.5, 1.0]


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
        (Reply(body={"id": "7"}, cut=4), errors.Unavailable),
    ],
)
def test_what_may_have_been_carried_out_is_not_sent_twice(shop, service, time, reply, kind):
    service.script = [reply]
    with pytest.raises(kind, match="the request may have been carried out") as caught:
        create(shop)
    assert isinstance(caught.value, kind)
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
    service.script = [Reply(body={"id": "7"}, cut=2, after="silence")]
    with pytest.raises(errors.Unavailable, match=r"no response within 0.2 s.*may have been carried out"):
        create(shop)


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
    header = text if isinstance(text, str) else http_date(text)
    service.script = [Reply(503, {}, {"Retry-After": header}), EMPTY]
    assert search(shop) == 0
    assert sum(time.slept) == pytest.approx(seconds, abs=2 if header != text else 0)


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
    assert told == (["attrib-ds: waiting 12 s: Too Many Requests; send fewer requests\n"] if is_told else [])


def test_a_notebook_is_looked_at(shop, service, monkeypatch):
    stream = type("OutStream", (Terminal,), {"__module__": "ipykernel.iostream"})(is_watched=False)
    monkeypatch.setattr(sys, "stderr", stream)
    service.script = [Reply(503, {"message": "later"}, {"Retry-After": "30"}), EMPTY]
    search(shop)
    assert any("waiting 30 s: later" in text for text in stream.told)


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
