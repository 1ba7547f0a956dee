"""Background threads end before the interpreter, also those whose owner is gone."""

import subprocess
import sys
import textwrap

import pytest

PROGRAM = """
    import os, threading, time
    from attrib_ds.service.store.threads import start_thread

    class Owner:
        def __init__(self):
            self.stopped = threading.Event()

        def stop(self):
            self.stopped.set()

    def work(owner):
        owner.stopped.wait(60)
        time.sleep(0.2)
        os.write(1, b"ended\\n")

    def drop():
        time.sleep(0.2)
        os.write(1, b"dropped\\n")

    owner = Owner()
    start_thread(owner, lambda: work(owner), name="waits")
    start_thread(Owner(), drop, name="without an owner")
"""


@pytest.mark.slow
def test_threads_are_stopped_and_joined_at_exit():
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(PROGRAM)], capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, sorted(done.stdout.split()), done.stderr) == (0, ["dropped", "ended"], "")
