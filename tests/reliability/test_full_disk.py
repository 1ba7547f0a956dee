"""Without room, or without the right to write, a project says so, loses nothing and goes on by itself."""

import json
import os
import subprocess
import sys
import tempfile
from contextlib import closing
from pathlib import Path

import pytest
from support.order_events import declare_order, order
from support.service_records import send

from attrib_ds.service import Service

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there are no such limits")
HERE = Path(__file__).parent
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE.parent), str(HERE.parents[1])])}


@pytest.mark.large
@pytest.mark.slow
@pytest.mark.parametrize(
    ("room", "size"),
    [
        # The log cannot grow: small events are refused.
        (60_000, 2_000),
        # The log can, and the file cannot take it over: that ends the database, which is opened again.
        (9_000_000, 900_000),
    ],
)
def test_a_full_disk_is_told_and_got_over(tmp_path, room, size):
    command = [sys.executable, str(HERE / "full_disk.py"), str(tmp_path), str(room), str(size)]
    done = subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT, timeout=120, check=True)
    told = json.loads(done.stdout)
    assert told["failures"]
    for failure in told["failures"]:
        assert failure.startswith("Unavailable: ")
        assert "the disk is full; free some space, then try again" in failure
    assert told["lost"] == []
    assert told["findings"] == []
    assert all("wait: " in line for line in done.stderr.splitlines())


@pytest.mark.large
@pytest.mark.slow
def test_every_route_that_writes_answers_503_while_the_disk_is_full(tmp_path):
    command = [sys.executable, str(HERE / "full_disk_routes.py"), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT, timeout=120, check=True)
    told = json.loads(done.stdout)
    assert len(told) == 15
    for name, statuses in told.items():
        assert statuses["full"] == [503, "5"], name
        assert statuses["before"] == statuses["after"], name
        assert statuses["before"][0] in {200, 201, 202}, name
    assert "Traceback" not in done.stderr


READ_AS_NOBODY = """
import os, sys
from attrib_ds.service import Service
from attrib_ds.errors import AttribError
os.setuid(65534)
try:
    Service.open("shop", sys.argv[1])
except AttribError as error:
    print(type(error).__name__, error)
"""


@pytest.mark.large
@pytest.mark.slow
@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can become another user"
)
def test_a_folder_that_cannot_be_written_is_told(tmp_path):
    file = tmp_path / "shop.duckdb"
    Service.open("shop", file).close()
    depth = len(tmp_path.relative_to(tempfile.gettempdir()).parts)
    for folder in (tmp_path, *tmp_path.parents)[:depth]:
        folder.chmod(0o755)
    file.chmod(0o644)
    before = file.read_bytes()
    command = [sys.executable, "-c", READ_AS_NOBODY, str(file)]
    done = subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT, timeout=60, check=True)
    assert done.stdout.startswith("Unavailable")
    assert "is not writable, or another program has it open; change the permissions" in done.stdout
    assert file.read_bytes() == before
    with closing(Service.open("shop", file)) as service:
        declare_order(service)
        assert send(service, "create_event_sync", **order("n1")).value


@pytest.mark.large
@pytest.mark.slow
def test_a_backup_without_room_leaves_nothing(tmp_path):
    code = (
        "import resource, sys; from attrib_ds import connect; from attrib_ds.api.admin import back_up; from attrib_ds.errors import AttribError; "
        "project = connect('shop', path=sys.argv[1] + '/shop.duckdb'); "
        "resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, resource.RLIM_INFINITY))\n"
        "try: back_up(project, sys.argv[1] + '/copy.duckdb')\n"
        "except AttribError as error: print(type(error).__name__, error)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))\n"
        "print(back_up(project, sys.argv[1] + '/copy.duckdb').name)"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT, timeout=60, check=True)
    first, second = done.stdout.splitlines()[0], done.stdout.splitlines()[-1]
    assert first.startswith("Unavailable")
    assert "the disk is full" in done.stdout
    assert second == "copy.duckdb"
    assert not list(tmp_path.glob(".*"))
