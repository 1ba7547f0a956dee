"""Gives listed metrics numbers instead of JSON text."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from attrib_ds.records.typed_values import number, parse, typed


def typed_metrics(metrics: pa.Table) -> pa.Table:
    """Return states and statistics with their values in columns instead of as JSON text.

    Parameters
    ----------
    metrics : pyarrow.Table
        In the schema of the resource.

    Returns
    -------
    pyarrow.Table
        ``data.raw`` and ``data.current`` are numbers; amounts of money have ``.amount`` and ``.currency``.
    """
    columns: dict[str, Any] = {}
    for name in metrics.column_names:
        if name in {"data.raw", "data.current"}:
            values = [parse(text) for text in metrics[name].to_pylist()]
            money = [value if isinstance(value, dict) else {} for value in values]
            currencies = [typed(each.get("currency"), pa.string()) for each in money]
            columns[name] = pa.array([number(value) for value in values], pa.float64())
            columns[f"{name}.amount"] = pa.array([number(each.get("amount")) for each in money], pa.float64())
            columns[f"{name}.currency"] = pa.array(currencies, pa.string())
        else:
            columns[name] = metrics[name]
    return pa.table(columns)
