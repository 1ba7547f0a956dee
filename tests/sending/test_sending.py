"""Rows that are sent: what the service says of each, and what stops all."""

import signal
import threading

import numpy as np
import pandas as pd
import pytest

from attrib_ds.errors import Conflict, InvalidRequest, NotFound, ServiceFailure, Unavailable
from attrib_ds.records.frames import read_rows
from attrib_ds.sending.delivery import _work_concurrently, send_rows

INDEX = pd.RangeIndex(12)


def rows(told):
    return [tuple(None if pd.isna(cell) else cell for cell in row) for row in told.itertuples(index=False)]


def workers():
    return [thread for thread in threading.enumerate() if thread.name.startswith("attrib-ds-sending")]


def outcomes(*answers, **ways):
    """Send one row per answer, an id or an error."""

    def send(positions):
        (position,) = positions
        if isinstance(answers[position], Exception):
            raise answers[position]
        return [("created", answers[position], None)]

    return rows(send_rows(pd.RangeIndex(len(answers)), send, **ways))


@pytest.mark.parametrize("keys", [None, [1] * 5, range(5)])
def test_a_refused_row_does_not_stop_the_others(keys):
    assert outcomes("1", InvalidRequest("a"), NotFound("b"), Conflict("c"), "2", keys=keys) == [
        ("created", "1", None),
        ("rejected", None, "a"),
        ("rejected", None, "b"),
        ("rejected", None, "c"),
        ("created", "2", None),
    ]


@pytest.mark.parametrize("keys", [None, [1] * 5])
def test_a_failing_service_stops_the_rest_and_what_was_sent_is_told(keys):
    assert outcomes("1", InvalidRequest("a"), Unavailable("busy", request_id="r1"), "2", "3", keys=keys) == [
        ("created", "1", None),
        ("rejected", None, "a"),
        ("failed", None, "busy (request r1)"),
        ("unsent", None, None),
        ("unsent", None, None),
    ]


@pytest.mark.parametrize("keys", [None, [1] * 3])
def test_a_failure_before_anything_was_sent_is_raised(keys):
    with pytest.raises(ServiceFailure, match="broken") as caught:
        outcomes(InvalidRequest("a"), ServiceFailure("broken"), "1", keys=keys)
    assert rows(caught.value.partial) == [
        ("rejected", None, "a"),
        ("failed", None, "broken"),
        ("unsent", None, None),
    ]


@pytest.mark.parametrize("keys", [None, [1, 2, 1, 2]])
def test_what_is_found_is_not_sent(keys):
    def find(position):
        if position == 3:
            raise Conflict("two of them")
        return ("present", "p", None) if position % 2 else None

    advanced = []
    told = send_rows(
        INDEX[:4],
        lambda positions: [("created", str(positions[0]), None)],
        keys=keys,
        find=find,
        advance=advanced.append,
    )
    assert rows(told) == [
        ("created", "0", None),
        ("present", "p", None),
        ("created", "2", None),
        ("rejected", None, "two of them"),
    ]
    assert advanced == [1] * 4


@pytest.mark.parametrize("keys", [None, [1] * 12, range(12)])
def test_an_interrupt_ends_the_run_and_leaves_no_thread(keys):
    sent = []

    def send(positions):
        sent.extend(positions)
        if len(sent) > 3:
            raise KeyboardInterrupt
        return [("created", "1", None)]

    with pytest.raises(KeyboardInterrupt) as caught:
        send_rows(INDEX, send, keys=keys)
    (note,) = caught.value.__notes__
    assert note.endswith("of 12 rows were answered; the same call sends the rest")
    assert not workers()
    assert keys == range(12) or len(sent) == 4


@pytest.mark.parametrize("keys", [None, [1, 2]])
def test_what_is_no_error_of_the_package_is_not_hidden(keys):
    with pytest.raises(ZeroDivisionError):
        outcomes("1", ZeroDivisionError(), keys=keys)


def test_without_keys_rows_are_sent_in_their_order_by_one_thread():
    sent = []

    def send(positions):
        sent.append((list(positions), threading.current_thread() is threading.main_thread()))
        return [("created", str(position), None) for position in positions]

    told = send_rows(INDEX[:5], send, size=2)
    assert sent == [([0, 1], True), ([2, 3], True), ([4], True)]
    assert told["id"].tolist() == list("01234")


def test_rows_of_one_key_keep_their_order_and_the_others_do_not_wait():
    order = []
    meet, last_of_another = threading.Barrier(3, timeout=30), threading.Event()

    def send(positions):
        (row,) = positions
        if row < 3:
            meet.wait()
        if row == 0:
            assert last_of_another.wait(30)
        order.append(row)
        if row == 11:
            last_of_another.set()
        return [("sent", str(row), None)]

    told = send_rows(INDEX, send, keys=[row % 3 for row in INDEX])
    assert told["id"].tolist() == [str(row) for row in INDEX]
    for key in range(3):
        assert [row for row in order if row % 3 == key] == [key, key + 3, key + 6, key + 9]


@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_reaches_workers_between_two_requests():
    meet, is_over, told = threading.Barrier(2, timeout=30), threading.Event(), []

    def work(part):
        meet.wait()
        if part == [0]:
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
        told.append(is_over.wait(timeout=30))

    with pytest.raises(KeyboardInterrupt):
        _work_concurrently(work, [[0], [1]], is_over)
    assert told == [True, True]
    assert not workers()


def test_each_row_of_a_request_has_an_outcome_of_its_own():
    def send(positions):
        if 4 in positions:
            raise AssertionError("sent after a failure")
        failing = [Conflict("taken"), ServiceFailure("late")] if 2 in positions else []
        return [("sent", str(row), None) for row in positions[len(failing) :]] + failing

    assert rows(send_rows(INDEX[:6], send, size=2)) == [
        ("sent", "0", None),
        ("sent", "1", None),
        ("rejected", None, "taken"),
        ("failed", None, "late"),
        ("unsent", None, None),
        ("unsent", None, None),
    ]


def test_a_request_that_fails_as_a_whole_tells_so_of_each_row():
    def send(positions):
        if 2 in positions:
            raise InvalidRequest("too much")
        return [("sent", str(row), None) for row in positions]

    told = rows(send_rows(INDEX[:5], send, size=2))
    assert [status for status, _, _ in told] == ["sent", "sent", "rejected", "rejected", "sent"]


def test_cells_are_plain_values_and_missing_ones_are_left_out():
    frame = pd.DataFrame(
        {
            "date": ["x", None, pd.NaT, pd.NA],
            "n": [1.0, np.nan, 2.0, 3.0],
            "share": [0.5, 1.0, np.nan, np.inf],
            "o.flag": pd.array([True, None, False, True], dtype="boolean"),
            "o.list": [[1], [], None, np.nan],
        }
    )
    rows = read_rows(frame, required=["date", "n"], optional=["share"], objects=["o"])
    assert rows == [
        {"date": "x", "n": 1, "share": 0.5, "o": {"flag": True, "list": [1]}},
        {"share": 1.0, "o": {"list": []}},
        {"n": 2, "o": {"flag": False}},
        {"n": 3, "share": float("inf"), "o": {"flag": True}},
    ]
    kinds = [type(rows[0][name]) for name in ("n", "share")] + [type(rows[0]["o"]["flag"])]
    assert kinds == [int, float, bool]
