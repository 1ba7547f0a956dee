"""Marketing attribution for analysts: interactions, events and credited nodes as DataFrames.

The public names are listed in ``__init__.pyi``; each is imported when it is first used.
"""

import lazy_loader as lazy

_import, __dir__, __all__ = lazy.attach_stub(__name__, __file__)


def __getattr__(name: str) -> object:
    if name != "__version__":
        return _import(name)
    # Reading the metadata takes longer than importing the package.
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("attrib-ds")
    except PackageNotFoundError:
        return "unknown"
