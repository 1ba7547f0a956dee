"""What was read from users' own files: paths, counts, columns and rejected rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

    from attrib_ds.attribution.paths.paths import Paths
    from attrib_ds.importers.own_columns import Named


@dataclass(frozen=True)
class FilePaths:
    """Paths read from files.

    Attributes
    ----------
    paths : Paths
        Paths to attribute.
    counts : dict of str to int
        Number of rows read, by kind.
    columns : dict of str to dict
        The columns used, by kind and role.
    rejected : DataFrame
        ``file`` (str), ``row`` (Int64, from 0, without the header), ``reason`` (str).
    """

    paths: Paths
    counts: dict[str, int]
    columns: dict[str, dict[str, Named]]
    rejected: pd.DataFrame
