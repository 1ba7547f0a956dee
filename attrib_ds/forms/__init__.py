"""Forms for notebooks: controls that call a public function and show the code of the call.

Each form displays itself and has ``.value``, ``.code`` and ``.run()``. Forms need the extra ``[widgets]``.
"""

from __future__ import annotations

from typing import Any

import lazy_loader as lazy

from attrib_ds.errors import NotSupported

_load, __dir__, __all__ = lazy.attach_stub(__name__, __file__)


def __getattr__(name: str) -> Any:
    try:
        return _load(name)
    except ModuleNotFoundError as error:
        if error.name != "ipywidgets":
            raise
        raise NotSupported("forms need ipywidgets: pip install 'attrib-ds[widgets]'") from error
