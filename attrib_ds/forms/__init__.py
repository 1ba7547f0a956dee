"""Forms for notebooks: controls that make a call, and the code of that call.

Each form displays itself, and has ``.value``, ``.code`` and ``.run()``. They need the extra ``[widgets]``.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from attrib_ds.errors import NotSupported

if TYPE_CHECKING:
    from attrib_ds.forms.connecting import connection
    from attrib_ds.forms.crediting import attribution
    from attrib_ds.forms.interactions import insights, search
    from attrib_ds.forms.predicates import filters
    from attrib_ds.forms.sending import send_events
    from attrib_ds.forms.users import export

__all__ = ["attribution", "connection", "export", "filters", "insights", "search", "send_events"]

#: Where each form is; their modules load on use, because they need widgets.
_HOME_OF = {
    "attribution": "crediting",
    "connection": "connecting",
    "export": "users",
    "filters": "predicates",
    "insights": "interactions",
    "search": "interactions",
    "send_events": "sending",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'attrib_ds.forms' has no attribute {name!r}")
    try:
        module = importlib.import_module(f"attrib_ds.forms.{_HOME_OF[name]}")
    except ModuleNotFoundError as error:
        if error.name != "ipywidgets":
            raise
        raise NotSupported("forms need ipywidgets: pip install 'attrib-ds[widgets]'") from error
    return getattr(module, name)


def __dir__() -> list[str]:
    return __all__
