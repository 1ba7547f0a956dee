"""How the documentation is built; CONTRIBUTING.md has the command."""

from __future__ import annotations

import re
import shutil
import sys
from importlib.metadata import version as version_of
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sphinx.application import Sphinx

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

project = "attrib_ds"
author = "The attrib_ds developers"
project_copyright = author
release = version = version_of("attrib-ds")

extensions = [
    "linked_names",
    "myst_nb",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx_copybutton",
    "sphinx_external_toc",
]
external_toc_path = "_toc.yml"
# autosummary lists the pages that it generates
suppress_warnings = ["etoc.toctree"]
exclude_patterns = ["_build", "_templates"]
templates_path = ["_templates"]

html_theme = "furo"
html_title = "attrib_ds"
# Nothing is loaded from another host, mathematics apart.
html_static_path = ["_static"]
html_css_files = ["site.css"]
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
copybutton_selector = "div:not(.highlight-output) > div.highlight > pre"

# Public names are attributes of the package, whichever file defines them: `models.TimeDecay`.
add_module_names = False
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

# Notebooks live beside the package, where people look for them. A build reads copies in this folder,
# one folder nearer to other pages.
shutil.rmtree(HERE / "notebooks", ignore_errors=True)
(HERE / "notebooks").mkdir()
for notebook in (HERE.parent / "notebooks").glob("*.ipynb"):
    copied = notebook.read_text(encoding="utf-8").replace("](../docs/", "](../")
    (HERE / "notebooks" / notebook.name).write_text(copied, encoding="utf-8")


# A page for each name in the tables of functions, with its docstring. The page of a class has its methods.
tables = (HERE / "reference/functions.md").read_text(encoding="utf-8")
names = re.findall(r"^\| `(?![A-Z]\w*\.)([\w.]+)` \|", tables, re.MULTILINE)
listed = "".join(f"   {name}\n" for name in names)
(HERE / "reference/pages.rst").write_text(
    "Pages of all functions\n======================\n\n.. currentmodule:: attrib_ds\n\n"
    f".. autosummary::\n   :toctree: generated\n   :nosignatures:\n\n{listed}",
    encoding="utf-8",
)


def shorten_links(_app: Sphinx, _docname: str, source: list[str]) -> None:
    """Let links to notebooks lead to the copies."""
    source[0] = re.sub(r"\]\(\.\./((?:\.\./)*notebooks/)", r"](\1", source[0])


def setup(app: Sphinx) -> None:
    """Register the change of links."""
    app.connect("source-read", shorten_links)
