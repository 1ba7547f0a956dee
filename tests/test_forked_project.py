"""A project that was opened before a fork refuses at once in the child; computations go on in both processes."""

import os
import subprocess
import sys
import textwrap

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")]

FORK = """
    import gc, os, sys, warnings
    import attrib_ds as at
    warnings.simplefilter("ignore", DeprecationWarning)  # other threads exist at the fork

    def refused(call):
        try:
            call()
        except at.errors.Unavailable as error:
            assert "connect() in the process" in str(error) and "spawn" in str(error), error
        else:
            raise AssertionError("not refused")

    def forked(child):
        pid = os.fork()
        if not pid:
            child()
            sys.exit(7)  # runs finalizers, unlike os._exit
        _, status = os.waitpid(pid, 0)
        assert os.waitstatus_to_exitcode(status) == 7
"""

EMBEDDED = """
    STORE = "attrib_ds.service.store.store"
    shop = at.connect("shop", path=sys.argv[1])
    at.create_event_type(shop, "before", name="n")

    def child():
        refused(lambda: at.list_nodes(shop))
        refused(lambda: at.search_interactions(shop))
        refused(lambda: at.create_event_type(shop, "child", name="n"))
        refused(shop.tables)
        # Below the handle too: the service holds the database open.
        store = next(each for each in gc.get_objects() if (type(each).__module__, type(each).__name__) == (STORE, "Store"))
        refused(lambda: store.write(print))
        refused(lambda: store.cursor().__enter__())
        shop.close()
        store.close()

    forked(child)
    at.create_event_type(shop, "after", name="n")
    shop.close()
    with at.connect("shop", path=sys.argv[1]) as shop:
        assert len(at.list_event_types(shop)) == 2
"""

REMOTE = """
    shop = at.connect("shop", url="http://127.0.0.1:9")
    forked(lambda: (refused(lambda: at.list_nodes(shop)), shop.close()))
"""

COMPUTATION = """
    import pandas as pd
    counted = pd.DataFrame({"path": ["search > email"], "n": [2]})

    def credited():
        paths = at.Paths.from_sequences(counted, path="path", conversions="n")
        return at.attribute(paths, "linear")["conversions"].tolist()

    def child():
        assert credited() == [1, 1]

    child()
    forked(child)
    child()
"""


@pytest.mark.large
@pytest.mark.parametrize("body", [EMBEDDED, REMOTE], ids=["embedded", "remote"])
def test_a_forked_child_is_refused_at_once(tmp_path, body):
    run(body, tmp_path)


def test_a_forked_child_computes_after_its_parent_has(tmp_path):
    run(COMPUTATION, tmp_path)


def run(body, folder):
    code = textwrap.dedent(FORK) + textwrap.dedent(body)
    command = [sys.executable, "-c", code, str(folder / "shop.duckdb")]
    finished = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert finished.returncode == 0, finished.stderr
