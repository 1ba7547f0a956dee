"""The models as a person chooses them: a name, one line of meaning, a page that explains it."""

from __future__ import annotations

from typing import Final

from attrib_ds.forms.controls import Option

_RULES: Final = "https://en.wikipedia.org/wiki/Attribution_(marketing)"
_MARKOV: Final = "https://doi.org/10.1016/j.ijresmar.2016.03.001"
_SHAPLEY: Final = "https://arxiv.org/abs/1804.05327"

#: Every named model but those that need milestones, which a form cannot ask for.
MODEL_OPTIONS: Final = (
    Option("first_touch", "First touch", "Everything goes to what brought people in.", _RULES),
    Option("last_touch", "Last touch", "Everything goes to the last visit before the conversion.", _RULES),
    Option("last_non_direct", "Last non-direct", "As last touch, but direct visits are skipped.", _RULES),
    Option("linear", "Linear", "Every visit on the way gets the same share.", _RULES),
    Option(
        "time_decay", "Time decay", "Recent visits get more: half as much for each 7 days before.", _RULES
    ),
    Option(
        "position_based", "Position based", "40 % to the first, 40 % to the last, the rest between.", _RULES
    ),
    Option("markov", "Markov chain", "Learned from paths: what is lost if a channel is removed.", _MARKOV),
    Option("linear_ramp", "Linear ramp", "Each visit gets more than the one before.", _RULES, False),
    Option("j_shaped", "J-shaped", "20 % to the first, 60 % to the last, the rest between.", _RULES, False),
    Option("inverse_j", "Inverse J", "60 % to the first, 20 % to the last, the rest between.", _RULES, False),
    Option(
        "participation", "Participation", "Everyone on the way gets it all; the sum exceeds 100 %.", "", False
    ),
    Option("shapley", "Shapley", "Distinct channels on the way share equally.", _SHAPLEY, False),
    Option(
        "conversion_rate_shapley",
        "Conversion-rate Shapley",
        "Learned from paths: what a channel adds to the conversion rate of every combination.",
        _SHAPLEY,
        False,
    ),
    Option("markov_2", "Markov chain, order 2", "Remembers the last two visits.", _MARKOV, False),
    Option(
        "fractribution",
        "Fractribution",
        "Learned from paths: the conversion rate that a path loses without a visit.",
        "https://github.com/google/fractribution",
        False,
    ),
    Option(
        "discrete_hazard",
        "Discrete hazard",
        "Estimates the conversions that would not have happened without a channel.",
        "https://doi.org/10.6339/23-JDS1101",
        False,
    ),
)
