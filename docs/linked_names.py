"""Sphinx extension: links public names in inline code to their pages in the reference.

Pages write ``at.search_interactions`` as plain Markdown, which reads well everywhere. A name without ``at.``
is linked unless it is also an everyday word of the field.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Any

from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.transforms import SphinxTransform

import attrib_ds

if TYPE_CHECKING:
    from sphinx.application import Sphinx

_NAMESPACES = ("admin", "errors", "experiments", "forms", "hits", "models", "plots")
_WORDS = frozenset({"event", "interaction", "node", "user"})
#: Pages of the functions themselves, and of the code behind them, where functions share their names.
_LEFT_ALONE = ("reference/generated/", "architecture")
_CODE = re.compile(r"(?P<module>at\.|attrib_ds\.)?(?P<name>\w+(\.\w+)*)(?P<call>\(.*\))?", re.DOTALL)


@cache
def public_names() -> frozenset[str]:
    """Return the public names, those of namespaces with a dot."""
    inside = (f"{space}.{name}" for space in _NAMESPACES for name in getattr(attrib_ds, space).__all__)
    return frozenset({*attrib_ds.__all__, *inside}) - set(_NAMESPACES)


def find_name(code: str) -> str | None:
    """Return the public name, or the method of one, that inline code consists of; None for other code.

    Examples
    --------
    >>> find_name("at.event"), find_name("admin.delete_user"), find_name("Paths.from_frames(visits, orders)")
    ('event', 'admin.delete_user', 'Paths.from_frames')
    >>> find_name("event"), find_name("credits.attrs"), find_name("attribute(paths).columns")
    (None, None, None)
    """
    match = _CODE.fullmatch(code)
    if match is None:
        return None
    name = match["name"]
    owner = name.rpartition(".")[0]
    if name in public_names():
        return name if match["module"] or match["call"] or name not in _WORDS else None
    return name if owner in public_names() and owner[0].isupper() else None


class LinkedNames(SphinxTransform):
    """Turns inline code that is a public name into a link."""

    default_priority = 400

    def apply(self, **_: Any) -> None:
        """Change the page that is read."""
        if self.env.docname.startswith(_LEFT_ALONE):
            return
        for literal in list(self.document.findall(nodes.literal)):
            name = find_name(literal.astext())
            if name is None or isinstance(literal.parent, nodes.reference | pending_xref | nodes.title):
                continue
            link = pending_xref(
                "",
                literal.deepcopy(),
                refdoc=self.env.docname,
                refdomain="py",
                reftype="obj",
                reftarget=f"attrib_ds.{name}",
                refexplicit=True,
                refwarn=True,
            )
            literal.replace_self(link)


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the extension."""
    app.add_transform(LinkedNames)
    return {"parallel_read_safe": True}
