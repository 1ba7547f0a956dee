"""What notebooks show for an object that is a widget, and where they cannot show widgets."""

from __future__ import annotations

from typing import Any, ClassVar, Final

_WITHOUT_WIDGETS: Final = (
    "<p>This form needs Jupyter widgets: open the notebook in JupyterLab, Voilà, VS Code or Colab, and run "
    "the cell. Elsewhere, such as in marimo or a script, {instead}.</p>"
)


class Displayed:
    """Shows its attribute ``widget`` in a notebook, and says what to do where widgets cannot be shown.

    Attributes
    ----------
    widget : ipywidgets.Widget
        The widget to display.
    instead : str
        What to do without widgets, as HTML.
    """

    widget: Any
    instead: ClassVar[str] = (
        "set <code>form.value</code>, call <code>form.run()</code> and read <code>form.code</code>"
    )

    def _repr_mimebundle_(self, **options: Any) -> dict[str, Any]:
        texts = {"text/html": self._without_widgets(), "text/plain": repr(self)}
        if hasattr(self.widget, "_repr_mimebundle_"):
            return {**self.widget._repr_mimebundle_(**options), **texts}
        # ipywidgets 7 displays a widget itself, and has no bundle.
        view = {"version_major": 2, "version_minor": 0, "model_id": self.widget.model_id}
        return {"application/vnd.jupyter.widget-view+json": view, **texts}

    def _mime_(self) -> tuple[str, str]:
        """Return what marimo shows, which has no Jupyter widgets."""
        return "text/html", self._without_widgets()

    def _without_widgets(self) -> str:
        return _WITHOUT_WIDGETS.format(instead=self.instead)
