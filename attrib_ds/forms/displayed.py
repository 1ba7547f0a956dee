"""What notebooks show for an object that is a widget, and where they cannot show widgets."""

from __future__ import annotations

from typing import Any, Final

_WITHOUT_WIDGETS: Final = (
    "<p>This form needs Jupyter widgets: open the notebook in JupyterLab, Voilà, VS Code or Colab, and run "
    "the cell. Elsewhere, such as in marimo or a script, set <code>form.value</code>, call "
    "<code>form.run()</code> and read <code>form.code</code>.</p>"
)


class Displayed:
    """Shows its attribute ``widget`` in a notebook, and says what to do where widgets cannot be shown."""

    widget: Any

    def _repr_mimebundle_(self, **options: Any) -> dict[str, Any]:
        texts = {"text/html": _WITHOUT_WIDGETS, "text/plain": repr(self)}
        if hasattr(self.widget, "_repr_mimebundle_"):
            return {**self.widget._repr_mimebundle_(**options), **texts}
        # ipywidgets 7 displays a widget itself, and has no bundle.
        view = {"version_major": 2, "version_minor": 0, "model_id": self.widget.model_id}
        return {"application/vnd.jupyter.widget-view+json": view, **texts}

    def _mime_(self) -> tuple[str, str]:
        """Return what marimo shows, which has no Jupyter widgets."""
        return "text/html", _WITHOUT_WIDGETS
