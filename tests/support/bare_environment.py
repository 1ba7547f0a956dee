"""Runs a script as in an environment that has the package, the named extras and nothing else.

``python bare_environment.py SCRIPT [EXTRA ...]``: other packages are hidden.
"""

import importlib.metadata
import runpy
import sys

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name


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


def main():
    """Hide the other packages and run the script."""
    script, *extras = sys.argv[1:]
    hide_others(extras)
    sys.argv = [script]
    runpy.run_path(script, run_name="__main__")


if __name__ == "__main__":
    main()
