"""What is tried again, how long is waited, and what is told when it was in vain."""

import threading
from datetime import UTC, datetime, timedelta

import pytest
from support.scripted_service import RESET, Reply, page

from attrib_ds import errors
from attrib_ds.transports.http.clock import Clock
from attrib_ds.transports.http.pace import Pace
from attrib_ds.transports.http.retrying import AttemptFailed, Retrying, RetryPolicy, parse_retry_after

TOO_MANY = {"statusCode": 429, "message": "Too Many Requests", "error": "Too Many Requests"}
EMPTY = page()


def search(shop):
    return shop.send("search_interactions").total


def create(shop):
    """Send what must not be sent twice."""
    return shop.send("create_campaign", vendor_id="ads", campaign_slug="spring", name="Spring").value


def http_date(time, seconds):
    moment = datetime.fromtimestamp(time.seconds + time.ahead + seconds, UTC)
    return moment.strftime("%a, %d %b %Y %H:%M:%S GMT")


def test_seconds_of_retry_after_are_waited(shop, service, time):
    service.script = [Reply(429, TOO_MANY, {"Retry-After": "12"}), EMPTY]
    assert search(shop) == 0
    assert time.slept == [pytest.approx(12)]


def test_a_date_of_retry_after_is_waited_for(shop, service, time):
    service.date = time.seconds + time.ahead
    service.script = [Reply(503, {}, {"Retry-After": http_date(time, 30)}), EMPTY]
    assert search(shop) == 0
    assert time.slept == [pytest.approx(30, abs=1)]


def test_a_date_of_retry_after_is_read_by_the_clock_of_the_service(shop, service, time):
    # The service is an hour behind: its date is long past by the clock of this machine.
    service.date = time.seconds + time.ahead - 3_600
    service.script = [Reply(429, TOO_MANY, {"Retry-After": http_date(time, -3_600 + 20)}), EMPTY]
    assert search(shop) == 0
    assert time.slept == [pytest.approx(20, abs=1)]


@pytest.mark.parametrize("waits", ["121", "86400", "999999999999999999"])
def test_nobody_waits_longer_than_a_request_is_tried(shop, service, time, waits):
    service.script = [Reply(429, TOO_MANY, {"Retry-After": waits, "X-Request-Id": "r-1"})]
    with pytest.raises(
        errors.TooManyRequests, match=r"the service asks to wait [\d,]+ s \(request r-1\)"
    ) as caught:
        search(shop)
    assert caught.value.retry_after == float(waits[:12])
    assert time.slept == []
    assert len(service.asked) == 1


def test_no_retry_after_locks_a_project_for_good(shop, service, time):
    service.script = [Reply(429, TOO_MANY, {"Retry-After": "1000000000"}), EMPTY]
    with pytest.raises(errors.TooManyRequests, match="asks to wait 1,000,000,000 s"):
        search(shop)
    # In the pause, calls fail without a request; they do not make it longer either.
    for _ in range(1_000):
        with pytest.raises(errors.TooManyRequests, match="try again in"):
            search(shop)
    assert len(service.asked) == 1
    time.seconds += 301
    assert search(shop) == 0
    assert time.slept == []


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


def test_after_a_refusal_all_workers_wait_and_then_go_one_by_one(time):
    pace = Pace(time.clock())
    assert [pace.turn(within=60) for _ in range(3)] == [0, 0, 0]
    pace.slow_down(10)
    pace.slow_down(8)
    assert [pace.turn(within=60) for _ in range(3)] == pytest.approx([10, 10.05, 10.1])
    time.seconds += 11
    pace.slow_down(1)
    # Refused again: half as fast.
    assert [pace.turn(within=60) for _ in range(2)] == pytest.approx([1, 1.1])
    for _ in range(40):
        pace.speed_up()
    time.seconds += 5
    assert [pace.turn(within=60) for _ in range(3)] == [0, 0, 0]


def test_a_worker_learns_from_the_refusal_of_another(open_shop, service, time):
    shop = open_shop(retry_policy=RetryPolicy(attempts=1))
    service.script = [Reply(429, TOO_MANY, {"Retry-After": "40"}), EMPTY]
    with pytest.raises(errors.TooManyRequests):
        search(shop)
    assert time.slept == []
    search(shop)
    assert time.slept == [pytest.approx(40)]


def test_a_worker_does_not_wait_for_others_longer_than_for_itself(open_shop, service, time):
    shop = open_shop()
    service.script = [Reply(429, TOO_MANY, {"Retry-After": "300"}), EMPTY]
    for _ in range(2):
        with pytest.raises(errors.TooManyRequests) as caught:
            search(shop)
    assert caught.value.retry_after == pytest.approx(300, abs=1)
    assert len(service.asked) == 1


def test_a_retry_takes_its_turn_behind_the_refusal_of_another(time):
    pace = Pace(time.clock())
    retrying = Retrying(clock=time.clock(), pace=pace, retry_policy=RetryPolicy())

    def attempt():
        if time.slept:
            return "done"
        # Another worker is asked to wait 40 s while this one fails, which alone would wait half a second.
        pace.slow_down(40)
        raise AttemptFailed(errors.Unavailable("no"), "always", reached_service=False)

    assert retrying.run(attempt, is_safe=True) == "done"
    assert time.slept == [pytest.approx(40)]


def test_the_wait_is_told_once_to_who_looks_on(time, monkeypatch, capsys):
    told = []

    class Terminal:
        def isatty(self):
            return True

        def write(self, text):
            told.append(text)

        def flush(self):
            pass

    monkeypatch.setattr("sys.stderr", Terminal())
    pace = Pace(time.clock())
    pace.wait(12.4, "Too Many Requests; ask less often")
    time.seconds -= 12.4
    pace.wait(12.5, "Too Many Requests; ask less often")
    pace.wait(0.5, "a short one")
    assert told == ["attrib-ds: waiting 12 s: Too Many Requests; ask less often\n"]


def test_nothing_is_written_where_nobody_looks_on(time, capsys):
    Pace(time.clock()).wait(12, "Too Many Requests")
    assert capsys.readouterr().err == ""
    assert time.slept == [12]


def test_a_notebook_is_looked_at(time, monkeypatch):
    told = []
    stream = type("OutStream", (), {"__module__": "ipykernel.iostream", "isatty": lambda self: False})
    stream.write = lambda self, text: told.append(text)
    stream.flush = lambda self: None
    monkeypatch.setattr("sys.stderr", stream())
    Pace(time.clock()).wait(30, "later")
    assert told == ["attrib-ds: waiting 30 s: later\n"]


def test_jitter_draws_from_nothing_to_a_bound_that_doubles(time):
    draws = iter([0.0, 0.5, 1.0, 0.25, 1.0])
    clock = Clock(
        monotonic=lambda: time.seconds, wall=lambda: 0.0, sleep=time.sleep, random=lambda: next(draws)
    )
    retrying = Retrying(
        clock=clock, pace=Pace(clock), retry_policy=RetryPolicy(attempts=5, first_wait=2, longest_wait=6)
    )

    def attempt():
        raise AttemptFailed(errors.Unavailable("no"), "always", reached_service=False)

    with pytest.raises(errors.Unavailable):
        retrying.run(attempt, is_safe=False)
    assert time.slept == [2.0, 6.0, 1.5]


@pytest.mark.parametrize("text", ["", "soon", "-1", "1.5", "١٢", None, "Thu, 99 Jan 2026 00:00:00 GMT"])
def test_a_retry_after_that_is_none_is_not_one(text):
    assert parse_retry_after(text, now=0) is None


def test_a_retry_after_in_the_past_is_now():
    now = datetime.now(UTC)
    past = (now - timedelta(hours=1)).strftime("%a, %d %b %Y %H:%M:%S GMT")
    assert parse_retry_after(past, now=now.timestamp()) == 0


def test_workers_that_are_refused_together_come_back_one_by_one(open_shop, service, time):
    together, refused = threading.Barrier(8), threading.Semaphore(8)

    def answer(asked):
        if refused.acquire(blocking=False):
            together.wait(30)
            return Reply(429, TOO_MANY, {"Retry-After": "5"})
        return EMPTY

    service.script = [answer]
    shop = open_shop()
    workers = [threading.Thread(target=search, args=(shop,)) for _ in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert len(service.asked_tokens) == 1
    assert len(service.asked) == 16
    assert sum(time.slept) >= 5
