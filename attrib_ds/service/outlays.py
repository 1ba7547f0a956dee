"""Creates, updates and reads outlays of custom campaigns, and the exchange rates that convert them."""

from typing import Any

import ibis.expr.types as ir
import pyarrow as pa
from duckdb import DuckDBPyConnection as Connection
from ibis.backends.duckdb import Backend

from attrib_ds import errors, instants, schema
from attrib_ds.contract import Answer
from attrib_ds.contract import campaigns as contract
from attrib_ds.records.sources import literal
from attrib_ds.service.campaigns import Integration, find, find_campaign, require
from attrib_ds.service.store import tables
from attrib_ds.service.store.store import Store, writes


def list_outlays(store: Store, request: contract.ListOutlays) -> Answer:
    """Return one page of a campaign's outlays; none for an unknown campaign.

    Returns either deleted outlays or, by default, those that are not.
    """
    since, until = request.since, request.until
    conditions = {
        "campaignId = ?": lambda connection: _campaign(connection, request),
        "(deletedAt IS NOT NULL) = ?": bool(request.deleted),
        # The end of the period is exclusive.
        "endDate > ?": since,
        "startDate <= ?": until,
        "?": since is None or until is None or since <= until,
    }
    sort = tables.sorting(request, "startDate", {"amount": "amount.amount"})
    return store.page("outlays", conditions, schema.OUTLAY, request, sort=sort)


def get_outlay(store: Store, request: contract.GetOutlay) -> Answer:
    """Return one outlay of the campaign; outlays of other campaigns are not found."""
    with store.read() as backend:
        values = [_campaign(backend.con, request), request.outlayId]
        relation = "outlays WHERE campaignId = ? AND _id = ? AND deletedAt IS NULL"
        return tables.read_one(backend.con, relation, values, schema.OUTLAY, _unknown(request))


def _campaign(connection: Connection, request: contract.OutlaysRequest) -> str:
    """Return the id of the campaign, or text that is none."""
    integration = find(connection, request.vendorId)
    return (integration and find_campaign(connection, integration, request.parentCampaignId)) or ""


@writes
def create_outlay(connection: Connection, store: Store, request: contract.CreateOutlay) -> str:
    """Create an outlay in the currency of its integration and return its id.

    Raises
    ------
    InvalidRequest
        If there is no such integration or campaign.
    """
    integration = require(connection, request.vendorId, argument="vendor_id")
    campaign = _require_campaign(connection, integration, request.parentCampaignId, argument="campaign_id")
    now = instants.now()
    outlay = {
        "_id": store.ids.new(),
        "projectId": request.projectId,
        "integrationId": integration.id,
        "campaignId": campaign,
        "amount.amount": request.amount,
        "amount.currency": integration.currency,
        "startDate": request.startDate,
        "endDate": request.endDate,
        "country": request.country,
        "region": request.region,
        "createdAt": now,
        "updatedAt": now,
    }
    tables.insert_record(connection, "outlays", outlay)
    return str(outlay["_id"])


@writes
def update_outlay(connection: Connection, _: Store, request: contract.UpdateOutlay) -> int:
    """Update an outlay; return 1 if a stored value changed, else 0.

    Raises
    ------
    NotFound
        If the campaign has no such outlay.
    InvalidRequest
        If the period would be empty, or the new campaign does not exist.
    """
    integration, stored = _find(connection, request)
    campaign = request.campaignId
    if campaign is not None:
        campaign = _require_campaign(connection, integration, campaign, argument="new_campaign_id")
    requested = {
        "campaignId": campaign,
        "amount.amount": request.amount,
        "amount.currency": integration.currency if request.amount is not None else None,
        "startDate": request.startDate,
        "endDate": request.endDate,
        "country": request.country,
        "region": request.region,
    }
    changes = tables.changes_of(stored, requested)
    _check_period({**stored, **changes}, changed="startDate" if "startDate" in changes else "endDate")
    if changes:
        changes["updatedAt"] = instants.now()
        tables.update_record(connection, "outlays", "_id", request.outlayId, changes)
    return int(bool(changes))


@writes
def delete_outlay(connection: Connection, _: Store, request: contract.DeleteOutlay) -> int:
    """Mark an outlay as deleted; return 1.

    Raises
    ------
    NotFound
        If the campaign has no such outlay, or it is already deleted.
    """
    _find(connection, request)
    now = instants.now()
    tables.update_record(connection, "outlays", "_id", request.outlayId, {"deletedAt": now, "updatedAt": now})
    return 1


def _find(connection: Connection, request: contract.GetOutlay) -> tuple[Integration, dict[str, Any]]:
    """Return an outlay that is not deleted, and its integration."""
    integration = find(connection, request.vendorId)
    query = "SELECT * FROM outlays WHERE _id = ? AND campaignId = ? AND deletedAt IS NULL"
    stored = tables.read_record(connection, query, request.outlayId, _campaign(connection, request))
    if integration is None or stored is None:
        raise errors.NotFound(_unknown(request))
    return integration, stored


def _require_campaign(connection: Connection, integration: Integration, text: str, *, argument: str) -> str:
    campaign = find_campaign(connection, integration, text)
    if campaign is None:
        raise errors.InvalidRequest(
            f"{argument}: {integration.vendor_id!r} has no campaign {text!r}; list_campaigns returns the ids "
            "and slugs"
        )
    return campaign


def _check_period(outlay: dict[str, Any], *, changed: str) -> None:
    start, end = outlay["startDate"], outlay["endDate"]
    if start >= end:
        field = "start_date" if changed == "startDate" else "end_date"
        raise errors.InvalidRequest(
            f"{field}: the outlay would go from {instants.format(start)} to {instants.format(end)}; it must "
            "end after it starts"
        )


def _unknown(request: contract.GetOutlay) -> str:
    return f"outlay_id: the campaign {request.parentCampaignId!r} has no outlay {request.outlayId!r}"


def in_project_currency(backend: Backend, metrics: ir.Table, currency: str) -> ir.Table:
    """Add a column with the amounts of metrics in the project's currency.

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
        currency; null without a rate, and for metrics that are not amounts. An amount could not be converted
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
    return tables.sql_table(
        backend, in_project_currency_query(str(backend.compile(metrics)), literal(currency))
    )


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


def set_rates(store: Store, request: contract.SetRates) -> Answer:
    """Set exchange rates from dates on; return the number of rates that changed.

    A rate of the same currency and date is replaced, or removed if the new one is null; other rates stay.

    Raises
    ------
    InvalidRequest
        If a rate is for the project's currency, which is always 1.
    """
    for position, entry in enumerate(request.rates):
        if entry.currency == store.meta.currency:
            raise errors.InvalidRequest(
                f"rates/{position}/currency: {entry.currency!r} is the currency of the project, which needs "
                "no rate; allowed: another currency"
            )
    # The last rate of a currency and date wins.
    requested = {
        (entry.currency, instants.naive(entry.date)): None if entry.rate is None else float(entry.rate)
        for entry in request.rates
    }

    def write(connection: Connection) -> int:
        rows = connection.execute("SELECT currency, date, rate FROM rates").fetchall()
        before = {(currency, date): rate for currency, date, rate in rows}
        changed = {key: rate for key, rate in requested.items() if before.get(key) != rate}
        if changed:
            columns = {"currency": pa.string(), "date": pa.timestamp("us")}
            keys = pa.Table.from_pylist([dict(zip(columns, key, strict=True)) for key in changed])
            with tables.arrow_view(connection, keys.cast(pa.schema(columns))) as view:
                connection.execute(
                    f"DELETE FROM rates USING {view} AS new "
                    "WHERE rates.currency = new.currency AND rates.date = new.date"
                )
            records = [
                {"currency": currency, "date": date, "rate": rate}
                for (currency, date), rate in changed.items()
                if rate is not None
            ]
            tables.insert_records(connection, "rates", records)
        return len(changed)

    return Answer(value=store.write(write))


def list_rates(store: Store, request: contract.ListRates) -> Answer:
    """Return one page of rates, by currency, then by date."""
    conditions, sort = {"currency = ?": request.currency}, {"currency": 1}
    return store.page("rates", conditions, schema.RATE, request, sort=sort, ties="date")
