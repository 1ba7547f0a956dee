"""Stores exchange rates and converts amounts to the project's currency."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from attrib_ds import schema
from attrib_ds.contract import Answer
from attrib_ds.errors import InvalidRequest
from attrib_ds.instants import naive
from attrib_ds.records.sources import literal
from attrib_ds.service.store.sql_tables import sql_table
from attrib_ds.service.store.table_access import arrow_view, insert_records, read_page

if TYPE_CHECKING:
    import duckdb
    import ibis.expr.types as ir
    from ibis.backends.duckdb import Backend

    from attrib_ds.contract.rates import ListRates, SetRates
    from attrib_ds.service.store.store import Store


def in_project_currency(backend: Backend, metrics: ir.Table, currency: str) -> ir.Table:
    """Add a column with the amounts of metrics in the project's currency (G-065, G-116).

    The rate is the latest one that is not after the metric's date. Rows are neither added nor removed.

    Parameters
    ----------
    backend : ibis.backends.duckdb.Backend
        From :meth:`Store.read`.
    metrics : ibis.Table
        Rows of the table ``metrics``, or of a join that keeps its columns ``date``, ``amount`` and
        ``currency``.
    currency : str
        Currency of the project: ``store.meta.currency``.

    Returns
    -------
    ibis.Table
        The same rows and columns, and ``converted`` (DECIMAL(24, 6)): exact for amounts in the project's
        currency; null without a rate, and for metrics that are no amounts. An amount could not be converted
        if ``amount`` is not null and ``converted`` is.

    Examples
    --------
    >>> from attrib_ds.service.store.store import Store
    >>> store = Store.open(":memory:", "shop")
    >>> put = "INSERT INTO rates VALUES ('NOK', '2025-01-01', 0.085)"
    >>> _ = store.write(lambda connection: connection.execute(put).fetchall())
    >>> paid = "VALUES ('2025-02-01', 5, 'EUR'), ('2025-02-01', 200, 'NOK')"
    >>> put = f"INSERT INTO metrics (date, amount, currency) {paid}"
    >>> _ = store.write(lambda connection: connection.execute(put).fetchall())
    >>> with store.read() as backend:
    ...     converted = in_project_currency(backend, backend.table("metrics"), store.meta.currency)
    ...     sorted(map(str, converted.to_pyarrow()["converted"].to_pylist()))
    ['17.000000', '5.000000']
    >>> store.close()
    """
    return sql_table(backend, in_project_currency_query(str(backend.compile(metrics)), literal(currency)))


def in_project_currency_query(metrics: str, currency: str) -> str:
    """Return the query of :func:`in_project_currency`, for metrics in SQL.

    Parameters
    ----------
    metrics : str
        The query of the metrics.
    currency : str
        SQL expression of the project's currency.

    Returns
    -------
    str
        SQL.
    """
    amount = "amount::DECIMAL(24, 6)"
    # An amount out of range is null, like one without a rate.
    product = "try_cast(amount::DOUBLE * rate AS DECIMAL(24, 6))"
    return (
        f"SELECT metrics.*, "
        f"CASE WHEN metrics.currency = {currency} THEN {amount} ELSE {product} END AS converted "
        f"FROM ({metrics}) AS metrics ASOF LEFT JOIN rates "
        "ON metrics.currency = rates.currency AND metrics.date >= rates.date"
    )


def set_rates(store: Store, request: SetRates) -> Answer:
    """Set exchange rates from dates on; return the number of rates that changed.

    A rate of the same currency and date is replaced, or removed if the new one is null; other rates stay.

    Raises
    ------
    InvalidRequest
        If a rate is for the project's currency, which is always 1.
    """
    for position, entry in enumerate(request.rates):
        if entry.currency == store.meta.currency:
            raise InvalidRequest(
                f"rates/{position}/currency: {entry.currency!r} is the currency of the project, which needs "
                "no rate; allowed: another currency",
                field=f"rates/{position}/currency",
            )
    # The last rate of a currency and date wins.
    requested = {
        (entry.currency, naive(entry.date)): None if entry.rate is None else float(entry.rate)
        for entry in request.rates
    }

    def write(connection: duckdb.DuckDBPyConnection) -> int:
        rows = connection.execute("SELECT currency, date, rate FROM rates").fetchall()
        before = {(currency, date): rate for currency, date, rate in rows}
        changed = {key: rate for key, rate in requested.items() if before.get(key) != rate}
        if changed:
            columns = {"currency": pa.string(), "date": pa.timestamp("us")}
            keys = pa.Table.from_pylist([dict(zip(columns, key, strict=True)) for key in changed])
            with arrow_view(connection, keys.cast(pa.schema(columns))) as view:
                connection.execute(
                    f"DELETE FROM rates USING {view} AS new "
                    "WHERE rates.currency = new.currency AND rates.date = new.date"
                )
            records = [
                {"currency": currency, "date": date, "rate": rate}
                for (currency, date), rate in changed.items()
                if rate is not None
            ]
            insert_records(connection, "rates", records)
        return len(changed)

    return Answer(value=store.write(write))


def list_rates(store: Store, request: ListRates) -> Answer:
    """Return one page of rates, by currency, then by date."""
    with store.read() as backend:
        return read_page(
            backend,
            "rates WHERE currency = coalesce(?, currency)",
            [request.currency],
            schema.RATE,
            sort="currency",
            descending=False,
            ties="date",
            offset=request.offset,
            limit=request.limit,
        )
