"""Background threads end before the interpreter, also those whose owner is gone."""

import os
import subprocess
import sys
import textwrap
import warnings

import pytest

from attrib_ds.errors import Unavailable
from attrib_ds.service.store.threads import Batches

PROGRAM = """
    import atexit, os, threading
    from attrib_ds.service.store.threads import start_thread

    class Owner:
        def __init__(self):
            self.stopped = threading.Event()

        def stop(self):
            self.stopped.set()

    def work(owner):
        owner.stopped.wait(60)
        sum(range(200_000))
        os.write(1, b"ended\\n")

    def drop():
        is_over.wait(60)
        sum(range(200_000))
        os.write(1, b"dropped\\n")

    owner = Owner()
    is_over = threading.Event()
    # Called before what ends the threads, which was registered earlier.
    atexit.register(is_over.set)
    start_thread(owner, lambda: work(owner), name="waits")
    start_thread(Owner(), drop, name="without an owner")
"""


@pytest.mark.large
@pytest.mark.slow
def test_threads_are_stopped_and_joined_at_exit():
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(PROGRAM)], capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, sorted(done.stdout.split()), done.stderr) == (0, ["dropped", "ended"], "")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_process_refuses_what_its_parent_goes_on_with():
    batches = Batches(lambda items: items, name="answers")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # other threads may exist at the fork
        pid = os.fork()
    if not pid:
        try:
            with pytest.raises(Unavailable, match="before this process was forked"):
                batches.submit(1)
            os._exit(7)
        finally:
            os._exit(1)
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 7
    assert batches.submit(2).result(5) == 2
