"""Runs scripts as in an environment that has the package, the named extras and nothing else.

``python bare_environment.py [EXTRA ...]`` hides other packages, and reads folders from standard input. Each folder's
``page.py`` runs in a process of its own, which is forked from this one, so that large libraries are imported once. Its
exit code is printed, and what it prints is in the files ``output`` and ``errors`` beside the folder.
"""

import importlib
import importlib.metadata
import os
import runpy
import signal
import sys
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

#: What takes most of the time to import, and starts no thread.
_LARGE = (
    "ibis.backends.duckdb",
    "matplotlib.pyplot",
    "pandas",
    "pyarrow.parquet",
    "pydantic",
    "scipy.sparse",
    "sqlglot",
)
#: Seconds that one page may take.
_DEADLINE = 280


def needed(package: str, extras: frozenset[str], seen: set[tuple[str, frozenset[str]]]) -> set[str]:
    """Return the names of all packages that a package with these extras installs."""
    name = canonicalize_name(package)
    if (name, extras) in seen:
        return set()
    seen.add((name, extras))
    try:
        lines = importlib.metadata.requires(package) or []
    except importlib.metadata.PackageNotFoundError:
        return set()
    found = {name}
    for requirement in map(Requirement, lines):
        marker = requirement.marker
        if marker is None or any(marker.evaluate({"extra": extra}) for extra in ("", *extras)):
            found |= needed(requirement.name, frozenset(requirement.extras), seen)
    return found


class Hiding:
    """A finder of modules that does not find those of hidden packages."""

    def __init__(self, finder, hidden):
        self._finder = finder
        self._hidden = hidden

    def __getattr__(self, name):
        return getattr(self._finder, name)

    def find_spec(self, name, path=None, target=None):
        """Find a module as the wrapped finder does."""
        if name.partition(".")[0] in self._hidden:
            return None
        return self._finder.find_spec(name, path, target)


def hide_others(extras, tools=()):
    """Hide every package that neither the package with these extras nor the tools need."""
    kept = set().union(*(needed(name, frozenset(extras), set()) for name in ("attrib-ds", *tools)))
    hidden = {
        module
        for module, packages in importlib.metadata.packages_distributions().items()
        if module not in sys.modules and not kept & {canonicalize_name(each) for each in packages}
    }
    sys.meta_path[:] = [Hiding(finder, hidden) for finder in sys.meta_path]
    for loaded in [name for name in sys.modules if name.partition(".")[0] in hidden]:
        del sys.modules[loaded]


def run_page(folder):
    """Run the page of a folder in this process, there."""
    signal.alarm(_DEADLINE)
    os.chdir(folder)
    os.environ["ATTRIB_DS_HOME"] = str(folder / "home")
    os.environ["XDG_CONFIG_HOME"] = str(folder.parent / "config")
    for stream, file in ((0, os.devnull), (1, "../output"), (2, "../errors")):
        os.dup2(os.open(file, os.O_RDWR | os.O_CREAT, 0o600), stream)
    sys.argv = ["page.py"]
    runpy.run_path("page.py", run_name="__main__")


def main():
    """Hide the other packages and run the scripts."""
    hide_others(sys.argv[1:])
    for module in _LARGE:
        importlib.import_module(module)
    for line in sys.stdin:
        process = os.fork()
        if process == 0:
            run_page(Path(line.rstrip("\n")))
            return
        print(os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]), flush=True)


if __name__ == "__main__":
    main()
