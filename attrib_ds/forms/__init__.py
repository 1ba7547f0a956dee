"""Forms for notebooks: controls that make a call, and the code of that call.

Each form displays itself, and has ``.value``, ``.code`` and ``.run()``. They need the extra ``[widgets]``.
"""

from __future__ import annotations

try:
    import ipywidgets as _  # noqa: F401
except ImportError as error:
    raise ImportError("the forms need ipywidgets: pip install 'attrib-ds[widgets]'") from error

from attrib_ds.forms.attribution import attribution
from attrib_ds.forms.connection import connection
from attrib_ds.forms.interactions import insights, search
from attrib_ds.forms.predicates import filters
from attrib_ds.forms.sending import send_events
from attrib_ds.forms.users import export

__all__ = ["attribution", "connection", "export", "filters", "insights", "search", "send_events"]
