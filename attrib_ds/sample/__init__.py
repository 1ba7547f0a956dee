"""The shipped sample data: six months of a fictional outdoor-goods shop."""

from pathlib import Path


def files() -> dict[str, Path]:
    """Return the Parquet files of the sample data by resource name.

    Returns
    -------
    dict of str to Path
        ``nodes``, ``interactions``, ``hits``, ``events`` and ``spend``, in the order to load them.

    Examples
    --------
    >>> list(files())
    ['nodes', 'interactions', 'hits', 'events', 'spend']
    """
    folder = Path(__file__).parent
    names = ("nodes", "interactions", "hits", "events", "spend")
    return {name: folder / f"{name}.parquet" for name in names}
