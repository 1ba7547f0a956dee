"""Content negotiation: the media type that a client prefers."""

from __future__ import annotations

from contextlib import suppress


def prefers(accept: str, media: str) -> bool:
    """Return whether a client accepts a media type explicitly and at least as gladly as JSON.

    Parameters
    ----------
    accept : str
        ``Accept`` header; empty if there is none.
    media : str
        Media type in lower case.

    Returns
    -------
    bool
        Wildcards are ignored: a client that accepts anything gets JSON.

    Examples
    --------
    >>> prefers("application/json;q=0.9, application/problem+json", "application/problem+json")
    True
    >>> prefers("*/*", "application/problem+json")
    False
    """
    weights: dict[str, float] = {}
    for item in accept.lower().split(","):
        name, *parameters = (part.strip() for part in item.split(";"))
        weights[name] = 1.0
        for parameter in parameters:
            if parameter.startswith("q="):
                weights[name] = 0.0
                with suppress(ValueError):
                    weights[name] = float(parameter.removeprefix("q="))
    return weights.get(media, 0.0) > 0 and weights[media] >= weights.get("application/json", 0.0)
