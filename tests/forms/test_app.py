"""The app says which packages it needs before it starts."""

import pytest

from attrib_ds.errors import NotSupported
from attrib_ds.forms.workbench import _check_packages


@pytest.mark.parametrize(
    ("installed", "message"),
    [
        ({"voila": None, "ipywidgets": "8.1.9"}, r"needs Voilà: pip install 'attrib-ds\[app\]'"),
        ({"voila": "0.5.11", "ipywidgets": "7.7.1"}, "needs ipywidgets 8.1 or later, .* installed: 7.7.1"),
        ({"voila": "0.5.11", "ipywidgets": "8.0.7"}, "installed: 8.0.7"),
    ],
)
def test_packages_that_show_nothing_are_refused(installed, message):
    with pytest.raises(NotSupported, match=message):
        _check_packages(installed)


@pytest.mark.parametrize("release", ["8.1.0", "8.2b1", "10.0"])
def test_later_releases_are_taken(release):
    _check_packages({"voila": "0.5.11", "ipywidgets": release})
