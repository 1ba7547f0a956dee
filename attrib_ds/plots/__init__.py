"""Plots of credits, paths and insights; each draws on one matplotlib ``Axes`` and returns it.

Without ``ax`` a plot creates a figure, sized for its content and matplotlib's ``font.size``. With ``ax`` it
draws there and leaves the figure's size and layout unchanged; ``layout="constrained"`` keeps long names
inside. Texts and lines are light on dark figures, such as those of the style ``"dark_background"``.
"""

import lazy_loader as lazy

__getattr__, __dir__, __all__ = lazy.attach_stub(__name__, __file__)
