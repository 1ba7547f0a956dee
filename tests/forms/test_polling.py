"""When a page's ticks read, and in which thread."""

import asyncio
import subprocess
import sys
import threading

import pytest

from attrib_ds.errors import TooManyRequests
from attrib_ds.forms.live_page import Polling

SECONDS = 5.0


class Page:
    """What is read, and what is shown and where; the kernel's loop runs while the test awaits."""

    def __init__(self, *outcomes):
        self.outcomes = list(outcomes)
        self.shown = []
        self.readers = []
        self.may_read = threading.Event()
        self.may_read.set()
        self.now = 0.0
        self.took = 0.0
        self.polling = Polling(self.read, self.show, seconds=SECONDS, clock=lambda: self.now)

    def read(self):
        self.readers.append(threading.current_thread())
        assert self.may_read.wait(30)
        self.now += self.took
        outcome = self.outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def show(self, outcome):
        self.shown.append(outcome)
        assert threading.current_thread() is threading.main_thread()

    async def has_begun(self):
        while not self.readers:
            await asyncio.sleep(0.001)

    async def has_shown(self, count):
        while len(self.shown) < count:
            await asyncio.sleep(0.001)


def running(test):
    asyncio.run(asyncio.wait_for(test, 30))


def test_a_thread_reads_and_the_kernels_thread_shows():
    async def test():
        page = Page("numbers")
        page.polling.tick()
        await page.has_shown(1)
        assert page.shown == ["numbers"]
        assert threading.main_thread() not in page.readers

    running(test())


def test_ticks_during_a_read_and_too_soon_after_it_read_nothing():
    async def test():
        page = Page("first", "second")
        page.may_read.clear()
        for _ in range(5):
            page.polling.tick()
        # The kernel goes on meanwhile.
        await asyncio.sleep(0)
        page.may_read.set()
        await page.has_shown(1)
        page.now = 2.4
        page.polling.tick()
        assert len(page.readers) == 1
        # A tick may come a little earlier than its period.
        page.now = 4.9
        page.polling.tick()
        await page.has_shown(2)
        assert page.shown == ["first", "second"]

    running(test())


@pytest.mark.parametrize(
    ("outcomes", "took", "early", "late"),
    [
        (["numbers"], 2.0, 17.4, 17.6),  # ten times as long, less half a period
        ([ValueError()], 3.0, 10.4, 10.6),  # two periods after it failed, less half a period
        ([ValueError(), ValueError()], 0.0, 17.4, 17.6),
        ([ValueError()] * 12, 0.0, 57.4, 57.6),  # a minute at most
        ([ValueError()] * 12 + ["numbers"], 0.0, 2.4, 2.6),
        ([TooManyRequests("busy", retry_after=300.0)], 0.0, 297.4, 297.6),
    ],
)
def test_slow_reads_and_failures_are_further_apart(outcomes, took, early, late):
    page = Page(*outcomes, "last")
    page.took = took
    for _ in outcomes:
        page.now += 1_000
        started = page.now
        page.polling.tick()
    assert page.shown == outcomes
    for moment, count in ((early, 0), (late, 1)):
        page.now = started + moment
        page.polling.tick()
        assert len(page.shown) == len(outcomes) + count


def test_without_a_kernel_reading_is_not_in_a_thread():
    page = Page("numbers")
    page.polling.tick()
    assert page.shown == ["numbers"]
    assert page.readers == [threading.main_thread()]


def test_a_kernel_that_ends_during_a_read_leaves_no_error(recwarn):
    page = Page("numbers")
    page.may_read.clear()

    async def test():
        page.polling.tick()
        await page.has_begun()

    running(test())
    page.may_read.set()
    page.readers[0].join(30)
    assert page.shown == []


ENDING = """
import asyncio, atexit, threading
from attrib_ds.forms.live_page import Polling

started, is_over = threading.Event(), threading.Event()

def read():
    started.set()
    is_over.wait(60)
    sum(range(200_000))
    print("read", flush=True)

async def main():
    Polling(read, print, seconds=5.0).tick()
    started.wait()
    # Called before what waits for the thread, which is registered by now.
    atexit.register(is_over.set)

asyncio.run(main())
"""


@pytest.mark.large
@pytest.mark.slow
def test_a_process_that_ends_waits_for_the_read_under_way():
    """A thread that comes back from DuckDB to an interpreter that has gone aborts the process."""
    done = subprocess.run([sys.executable, "-c", ENDING], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "read\n", "")
