"""The dtype of text columns, the same for every frame this package returns."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pandas as pd


def _text_dtype() -> Any:
    try:
        return pd.StringDtype(na_value=np.nan)
    except TypeError:  # pandas 2.2
        return pd.StringDtype("pyarrow_numpy")


#: Text with NaN where it is missing: ``str`` on pandas 3. On pandas 2, ``"str"`` means objects, with the text
#: "None" where it is missing.
TEXT: Final = _text_dtype()
