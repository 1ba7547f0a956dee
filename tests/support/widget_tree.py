"""Looks at widgets as they are shown, without a browser."""


def walk(widget):
    yield widget
    for child in getattr(widget, "children", ()):
        yield from walk(child)


def shown(form):
    """The HTML of a form."""
    return "\n".join(widget.value for widget in walk(form.widget) if type(widget).__name__ == "HTML")
