"""Keeps what currencies are worth in the project's own, and converts amounts by it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from attrib_ds import schema
from attrib_ds.contract import Answer
from attrib_ds.errors import InvalidRequest
from attrib_ds.records.sources import literal
from attrib_ds.service.interactions.selection import rows_of
from attrib_ds.service.store.batches import insert_records, lent, naive
from attrib_ds.service.store.records import read_page

if TYPE_CHECKING:
    import duckdb
    import ibis.expr.types as ir
    from ibis.backends.duckdb import Backend

    from attrib_ds.contract.rates import ListRates, SetRates
    from attrib_ds.service.store.store import Store


def in_project_currency(backend: Backend, metrics: ir.Table, currency: str) -> ir.Table:
    """Add the amounts of metrics in the currency of the project (G-065, G-116).

    An amount in another currency is worth what the latest rate says that is from the metric's date or
    before. The rows stay as they are, none is added or left out.

    Parameters
    ----------
    backend : ibis.backends.duckdb.Backend
        From :meth:`Store.read`.
    metrics : ibis.Table
        Rows of the table ``metrics``, or a join with it that kept its columns ``date`` (of the metric),
        ``amount`` and ``currency``.
    currency : str
        The project's: ``store.meta.currency``.

    Returns
    -------
    ibis.Table
        The same rows and columns, and ``converted`` (DECIMAL(24, 6)): exact where the currency is the
        project's own; null where there is no rate, and for metrics that are no amounts. Amounts that
        cannot be converted are those whose ``amount`` is not null and ``converted`` is.

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
    return rows_of(backend, rated(str(backend.compile(metrics)), literal(currency)))


def rated(metrics: str, currency: str) -> str:
    """Return the query of what :func:`in_project_currency` returns, of metrics in SQL too.

    Parameters
    ----------
    metrics : str
        The query of the metrics.
    currency : str
        The project's, as an expression.

    Returns
    -------
    str
        SQL.
    """
    amount = "amount::DECIMAL(24, 6)"
    # What is beyond all amounts is null like what has no rate.
    product = "try_cast(amount::DOUBLE * rate AS DECIMAL(24, 6))"
    return (
        f"SELECT told.*, CASE WHEN told.currency = {currency} THEN {amount} ELSE {product} END AS converted "
        f"FROM ({metrics}) AS told ASOF LEFT JOIN rates "
        "ON told.currency = rates.currency AND told.date >= rates.date"
    )


def set_rates(store: Store, request: SetRates) -> Answer:
    """Set what currencies are worth from dates on, and answer how many rates that has changed.

    A rate of the same currency and date is replaced, or removed by a null one; the other ones stay.

    Raises
    ------
    InvalidRequest
        If a rate is of the project's own currency, which is always 1.
    """
    for position, each in enumerate(request.rates):
        if each.currency == store.meta.currency:
            raise InvalidRequest(
                f"rates/{position}/currency: {each.currency!r} is the currency of the project, which is not "
                "converted; allowed: another currency",
                field=f"rates/{position}/currency",
            )
    # Of two rates of one currency and date the last one counts.
    asked = {
        (each.currency, naive(each.date)): None if each.rate is None else float(each.rate)
        for each in request.rates
    }

    def write(connection: duckdb.DuckDBPyConnection) -> int:
        held = connection.execute("SELECT currency, date, rate FROM rates").fetchall()
        before = {(currency, date): rate for currency, date, rate in held}
        changed = {key: rate for key, rate in asked.items() if before.get(key) != rate}
        if changed:
            columns = {"currency": pa.string(), "date": pa.timestamp("us")}
            keys = pa.Table.from_pylist([dict(zip(columns, key, strict=True)) for key in changed])
            with lent(connection, keys.cast(pa.schema(columns))) as rows:
                connection.execute(
                    f"DELETE FROM rates USING {rows} AS new "
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
    """Answer one page of the rates, by currency, then by date."""
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
