import inspect

import pytest

from attrib_ds import plots


def test_public_names_are_sorted_and_callable():
    assert plots.__all__ == sorted(plots.__all__)
    assert all(callable(getattr(plots, name)) for name in plots.__all__)


@pytest.mark.parametrize("name", plots.__all__)
def test_only_the_frame_is_positional_and_axes_are_returned(name):
    frame, *rest = inspect.signature(getattr(plots, name)).parameters.values()
    assert frame.kind is frame.POSITIONAL_OR_KEYWORD
    assert all(parameter.kind is parameter.KEYWORD_ONLY for parameter in rest)
    assert rest[-1].name == "ax"
    assert inspect.signature(getattr(plots, name)).return_annotation == "Axes"
