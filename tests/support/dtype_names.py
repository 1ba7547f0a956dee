"""Names of dtypes that do not depend on the release of pandas."""

import pandas as pd

from attrib_ds.records.frames import TEXT


def dtype_names(frame: pd.DataFrame) -> dict[str, str]:
    """Return the dtype of each column by name; text is ``str``, which pandas 2.2 calls ``string``."""
    return {name: "str" if dtype == TEXT else str(dtype) for name, dtype in frame.dtypes.items()}
