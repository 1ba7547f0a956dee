"""Each notebook runs in the environment that its first cell names, in an empty folder."""

import importlib.util
import shutil
import tempfile
from pathlib import Path

import pytest
import support.no_iri_grammar  # noqa: F401
from support.page_scripts import ROOT, named_extras

HAS_SPARK = importlib.util.find_spec("pyspark") is not None and shutil.which("java") is not None

#: Removed when the tests end; each notebook has a folder in it.
_FOLDERS = tempfile.TemporaryDirectory(prefix="notebooks-")


#: nbval is not loaded as a plugin, since it costs each start of pytest a second; these are its options.
_OPTIONS = {
    "nbdime": False,
    "nbval_cell_timeout": 2000.0,
    "nbval_current_env": False,
    "nbval_kernel_name": None,
    "nbval_kernel_startup_timeout": 60.0,
    "nbval_lax": False,
    "nbval_sanitize_with": str(ROOT / "notebooks/sanitize.cfg"),
}


def pytest_collect_file(file_path, parent):
    """Collect the cells of notebooks."""
    if file_path.suffix != ".ipynb":
        return None
    from nbval.plugin import IPyNbFile

    vars(parent.config.option).update(_OPTIONS)
    return IPyNbFile.from_parent(parent, path=file_path)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item):
    if "spark" in item.cell.metadata.get("tags", ()):
        item.options["check"] = HAS_SPARK
        # Java logs there as it starts.
        item.parent.skip_compare = (*item.parent.skip_compare, "stderr")
    with pytest.MonkeyPatch.context() as patch:
        # The kernel starts with the first cell.
        patch.setenv("PYTHONSTARTUP", str(ROOT / "tests/support/bare_kernel.py"))
        patch.setenv("NOTEBOOK_EXTRAS", " ".join(named_extras(item.path)))
        folder = Path(_FOLDERS.name) / item.path.stem
        folder.mkdir(exist_ok=True)
        patch.setenv("NOTEBOOK_FOLDER", str(folder))
        # A bar shows where a cell takes more than a second.
        patch.setenv("TQDM_DISABLE", "1")
        return (yield)


#: Runs with the README's tests; the others are slow, and CI runs them apart.
_FIRST = "01-first-look.ipynb"


def pytest_collection_modifyitems(items):
    for item in items:
        if item.path.suffix == ".ipynb" and item.path.name != _FIRST:
            item.add_marker(pytest.mark.slow)
