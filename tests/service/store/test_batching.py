"""Work of many threads that one of them does."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from attrib_ds.errors import InvalidRequest, ServiceFailure, Unavailable
from attrib_ds.service.store.batching import Batcher


class Slow:
    """Holds up the first group until others wait, so that these are one group."""

    def __init__(self, answer):
        self.groups = []
        self.is_begun, self.may_end = threading.Event(), threading.Event()
        self._answer = answer

    def __call__(self, group):
        self.groups.append(list(group))
        if len(self.groups) == 1:
            self.is_begun.set()
            self.may_end.wait(30)
        return self._answer(group)


def bring(answer, first, others):
    """Bring one piece of work and, while it is done, others; return what became of each and the groups."""
    slow = Slow(answer)
    batcher = Batcher(slow)

    def outcome(work):
        try:
            return batcher.submit(work)
        except Exception as error:  # noqa: BLE001
            return error

    with ThreadPoolExecutor(len(others) + 1) as pool:
        running = pool.submit(outcome, first)
        assert slow.is_begun.wait(30)
        waiting = [pool.submit(outcome, other) for other in others]
        while len(batcher._queue) < len(others):
            time.sleep(0.001)
        slow.may_end.set()
        results = [running.result(30), *(future.result(30) for future in waiting)]
    assert batcher.submit(first) == results[0]
    return results, slow.groups


def test_concurrent_items_run_as_one_batch():
    results, groups = bring(lambda group: [10 * value for value in group], 1, [2, 3, 4])
    assert results == [10, 20, 30, 40]
    assert groups[0] == [1]
    assert sorted(groups[1]) == [2, 3, 4]


def test_an_error_of_one_is_its_own():
    def answer(group):
        return [InvalidRequest("two") if value == 2 else value for value in group]

    results, groups = bring(answer, 1, [2, 3])
    assert (results[0], results[2]) == (1, 3)
    assert isinstance(results[1], InvalidRequest)
    assert len(groups) == 3


@pytest.mark.parametrize("failure", [ServiceFailure("broken"), ZeroDivisionError()])
def test_items_of_a_failed_batch_run_one_by_one(failure):
    def answer(group):
        if 2 in group:
            raise failure
        return list(group)

    results, groups = bring(answer, 1, [2, 3])
    assert (results[0], results[2]) == (1, 3)
    assert results[1] is failure
    assert sorted(groups[2:4]) == [[2], [3]]


def test_who_cannot_work_at_all_is_not_asked_again():
    def answer(group):
        if group != [1]:
            raise Unavailable("closed")
        return list(group)

    results, groups = bring(answer, 1, [2, 3])
    assert all(isinstance(result, Unavailable) for result in results[1:])
    assert len(groups) == 3
