"""How the documentation is built: ``sphinx-build -W docs docs/_build/html``."""

from __future__ import annotations

import shutil
from importlib.metadata import version as version_of
from pathlib import Path

HERE = Path(__file__).parent

project = "attrib_ds"
author = "The attrib_ds developers"
project_copyright = author
release = version = version_of("attrib-ds")

extensions = ["myst_nb", "numpydoc", "sphinx.ext.autodoc", "sphinx.ext.autosummary", "sphinx.ext.mathjax"]
exclude_patterns = ["_build"]

html_theme = "furo"
html_title = "attrib_ds"
# Nothing is loaded from another host, mathematics apart.
html_static_path: list[str] = []

autosummary_generate = True
autodoc_typehints = "none"  # numpydoc's sections say it in words
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False

myst_enable_extensions = ["dollarmath", "colon_fence"]
myst_heading_anchors = 3
nb_execution_mode = "force"
nb_execution_timeout = 240
nb_execution_raise_on_error = True
nb_merge_streams = True
# Widgets would need scripts of another host; notebooks show pictures of them instead.
nb_ipywidgets_js: dict[str, dict[str, str]] = {}

# Notebooks live beside the package, where people look for them; a build reads copies, from which other
# pages are one folder nearer.
shutil.rmtree(HERE / "notebooks", ignore_errors=True)
(HERE / "notebooks").mkdir()
for notebook in (HERE.parent / "notebooks").glob("*.ipynb"):
    copied = notebook.read_text(encoding="utf-8").replace("](../docs/", "](../")
    (HERE / "notebooks" / notebook.name).write_text(copied, encoding="utf-8")
