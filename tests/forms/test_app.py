"""The app says what it needs before it starts, and leaves nothing behind when it ends."""

import socket

import pytest

from attrib_ds.errors import NotSupported, Unavailable
from attrib_ds.forms.workbench import _check_packages, _usable_port, run_app


@pytest.mark.parametrize(
    ("installed", "message"),
    [
        ({"voila": None, "ipywidgets": "8.1.9"}, r"needs Voilà: pip install 'attrib-ds\[app\]'"),
        ({"voila": "0.5.11", "ipykernel": None, "ipywidgets": "8.1.9"}, r"ipykernel.*'attrib-ds\[app\]'"),
        (
            {"voila": "0.5.11", "ipykernel": "7.1.0", "ipywidgets": "7.7.1"},
            "needs ipywidgets 8.1 or later, .* installed: 7.7.1",
        ),
        ({"voila": "0.5.11", "ipykernel": "7.1.0", "ipywidgets": "8.0.7"}, "installed: 8.0.7"),
    ],
)
def test_packages_that_show_nothing_are_refused(installed, message):
    with pytest.raises(NotSupported, match=message):
        _check_packages(installed)


@pytest.mark.parametrize("release", ["8.1.0", "8.2b1", "10.0"])
def test_later_releases_are_taken(release):
    _check_packages({"voila": "0.5.11", "ipykernel": "7.1.0", "ipywidgets": release})


def test_a_port_in_use_is_told_before_anything_starts():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(Unavailable, match=f"--port: {port} cannot be used .*pass another --port"):
            run_app(port=port, opens_browser=False)


def test_port_0_is_a_free_one_that_can_be_told():
    assert _usable_port(0) > 0
