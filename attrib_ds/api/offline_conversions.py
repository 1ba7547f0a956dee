"""Send the conversions of a CRM or another system, from its own columns."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from attrib_ds.api.events import create_event_type, get_event_type, send_events
from attrib_ds.contract.identifiers import code_of
from attrib_ds.display import counted, worth
from attrib_ds.errors import AttribError, Conflict, InvalidRequest, NotFound, closest, warn
from attrib_ds.project import Project, takes_project
from attrib_ds.records.currencies import warn_of_missing
from attrib_ds.records.frames import TEXT, Frame, read_frame, read_rows
from attrib_ds.sending import conversion_cells

#: Key of the id in the data of events; that of offline interactions has the same name.
_ID: Final = "externalId"


@takes_project
def send_conversions(
    project: Project,
    conversions: Frame,
    *,
    email: str,
    date: str,
    id: str,
    value: str | None = None,
    currency: str | None = None,
    event_type: str = "order",
    statistic: str = "turnover",
    fields: Mapping[str, str] | None = None,
    dayfirst: bool | None = None,
    decimal: str | None = None,
    dry_run: bool = False,
) -> pd.DataFrame:
    """Send the deals of a CRM, or the orders of a shop, as events.

    Each row is one conversion of the user with its email address. Name the columns of your file; the others
    are not sent. The event type is created if the project does not have it. Sending a file again, or a longer
    version of it, stores each conversion once, by its id.

    Parameters
    ----------
    project : Project
        From :func:`attrib_ds.connect`.
    conversions : DataFrame
        One row per conversion.
    email : str
        Column with email addresses, in any case. They are sent in lower case, because users are matched in
        lower case. A conversion without one, or with a placeholder such as ``(not set)``, is stored, but has
        no touchpoints.
    date : str
        Column with the dates of the conversions (datetime or str, UTC without an offset). A day without a
        time, such as ``"2025-01-31"`` or a column of midnights without a time zone, stands for its end in the
        project's time zone, so that touchpoints of that day count.
    id : str
        Column with the id of each conversion (text or whole number), unique within the event type: 17 and
        ``"17"`` are the same.
    value : str, optional
        Column with the values.
    currency : str, optional
        Column with the currency of each value, or one for all: a code of ISO 4217, such as ``"EUR"``, or a
        sign of one currency, such as €. By default, and in empty cells, the project's currency.
    event_type : str, default "order"
        Reference of the event type.
    statistic : str, default "turnover"
        Key of the value in the event type, for ``conversion_paths(..., statistic=...)``.
    fields : mapping of str to str, optional
        Further properties of the events, by their ``ingestionKey``, with the names of their columns:
        ``{"product": "Product name"}``.
    dayfirst : bool, optional
        Whether dates such as 03/04/2025 begin with the day (true) or the month (false). By default their rows
        are rejected.
    decimal : {".", ","}, optional
        Decimal mark of numbers in text. By default a number such as 99,90 or 1,030.50 decides for its column;
        a column with only numbers such as 1.000 is refused.
    dry_run : bool, default False
        Only check the rows: nothing is stored, and no event type is created.

    Returns
    -------
    DataFrame
        One row per row of ``conversions``, with its index: ``status``, ``id`` of the event, ``error`` (str).
        ``processed``: the event is stored. ``rejected``: the row is not, for the reason in ``error``; correct
        it and send the file again. Other statuses are those of :func:`attrib_ds.send_events`. In a dry run
        ``valid`` or ``rejected``.

    Raises
    ------
    InvalidRequest
        If a column is missing, an id is missing or occurs twice (``details`` lists the rows), or the event
        type lacks a field, requires another one, or is archived, or the decimal mark of a column is unclear;
        nothing is sent then.
    AttribError
        If the service fails before anything was stored; ``partial`` is the frame so far.

    Warns
    -----
    InputWarning
        If conversions have no email address, with their number and value.
    UnknownCurrency
        If some values have no currency beside others that have one.

    Notes
    -----
    A conversion that was sent before with other values is ``rejected``, and keeps the first ones; correct it
    with :func:`attrib_ds.update_statistics`.

    Examples
    --------
    >>> import pandas as pd
    >>> import attrib_ds as at
    >>> deals = pd.DataFrame({"Deal": [17, 18], "Contact": ["anna@example.com", "nobody"],
    ...     "Closed": ["2025-01-31", "2025-02-01"], "Amount": [900.0, 450.0]})
    >>> with at.connect("my-shop", path=":memory:") as shop:
    ...     sent = at.send_conversions(shop, deals, email="Contact", date="Closed", id="Deal",
    ...                                value="Amount", currency="EUR", event_type="deal")
    >>> sent["status"].tolist()
    ['processed', 'rejected']
    >>> sent["error"][1]
    "Contact in row 1: expected an email address, got text 'nobody'"
    """
    table = read_frame("conversions", conversions)
    code = _code(table, value, currency)
    named = {"email": email, "date": date, "id": id, "value": value}
    named |= {"currency": None if code else currency}
    named |= {f"fields[{key!r}]": name for key, name in (fields or {}).items()}
    rows = _rows(table, {argument: name for argument, name in named.items() if name is not None})
    cells = conversion_cells.Cells(rows, table.index.tolist())
    ids = cells.read(id, conversion_cells.identifier, required=True)
    cells.report_repeated(id, ids)
    if not dry_run:
        cells.refuse_problems()

    existing = _existing_fields(project, event_type)
    if existing is None:
        columns = _new_columns(table, email, value, statistic, fields or {})
    else:
        columns = _matching_columns(existing, event_type, email, value, statistic, fields or {})
    in_days = conversion_cells.dates(table[date], ZoneInfo(project.timezone()), dayfirst=dayfirst)
    data = {"eventDate": cells.read(date, in_days, required=True), f"data.{_ID}": ids}
    for column in columns:
        reader = conversion_cells.reader(column.kind, table[column.name], decimal=decimal)
        data[f"data.{column.key}"] = cells.read(column.name, reader)
    codes: Sequence[str | None] = [None] * len(rows)
    amounts = [None] * len(rows) if value is None else data[f"data.{columns[1].key}"]
    if value is not None and currency is not None:
        _require_money(columns[1], event_type)
        codes = [code] * len(rows) if code else cells.read(currency, conversion_cells.currency)
    is_fit = np.array([problem is None for problem in cells.problems], dtype=bool)
    if value is not None and currency is not None:
        data |= _money(f"data.{columns[1].key}", amounts, codes, is_fit)
    results = pd.DataFrame({"status": "rejected", "id": None, "error": cells.problems}, dtype=TEXT)
    results.index = table.index
    _warn_of_nobody(email, data[f"data.{columns[0].key}"], amounts, codes, is_fit)
    if existing is None and (dry_run or not is_fit.any()):
        return results.assign(status=results["status"].mask(is_fit, "valid"))
    if existing is None:
        _create(project, event_type, columns)
    events = pd.DataFrame(data, dtype=object)[is_fit]
    # Problems that the check of a service finds, and those of events that it has trashed.
    names = {"eventDate": date, "nonce": id}
    names |= {f"data{mark}{column.key}": column.name for column in columns for mark in "./"}

    def with_sent(sent: pd.DataFrame) -> pd.DataFrame:
        places = zip(sent.index, sent["error"], strict=True)
        errors = [None if pd.isna(error) else cells.in_words(place, error, names) for place, error in places]
        merged = results.reset_index(drop=True)
        merged.loc[sent.index] = sent.assign(error=pd.Series(errors, index=sent.index, dtype=TEXT))
        return merged.set_axis(table.index)

    try:
        key = [f"data.{_ID}"]
        return with_sent(
            send_events(project, events, event_type=event_type, nonce_columns=key, dry_run=dry_run)
        )
    except AttribError as error:
        if error.partial is not None:
            error.partial = with_sent(error.partial)
        raise


@dataclass(frozen=True)
class _Column:
    """A column of the file: the key of its values in the data of events, its name and its type."""

    key: str
    name: str
    kind: str


def _code(conversions: pd.DataFrame, value: str | None, currency: str | None) -> str | None:
    """Return the currency of all values, if it is not a column."""
    if currency is not None and value is None:
        raise InvalidRequest("currency: needs value=, the column of the values")
    return None if currency in conversions.columns else code_of(currency)


def _rows(conversions: pd.DataFrame, named: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return the cells of the named columns."""
    columns = [str(name) for name in conversions.columns]
    for argument, name in named.items():
        if name not in columns:
            raise InvalidRequest(
                f"{argument}: there is no column {name!r}{closest(str(name), columns)}; the columns are: "
                f"{', '.join(columns)}"
            )
    used = list(dict.fromkeys(named.values()))
    return read_rows(conversions[used], required=used, argument="conversions")


def _money(
    key: str, amounts: Sequence[Any], codes: Sequence[str | None], is_fit: NDArray[np.bool_]
) -> dict[str, Any]:
    """Return the columns of amounts; a number alone is in the currency of the project, with a warning."""
    worth, units = (pd.Series(cells, dtype=object) for cells in (amounts, codes))
    is_alone = units.isna() & worth.notna()
    lost = worth[is_alone & is_fit & (worth != 0)]
    if len(lost) and units[is_fit].notna().any():
        warn_of_missing("conversions", len(lost), float(lost.sum()), used="the currency of the project")
    return {
        key: worth.where(is_alone).tolist(),
        f"{key}.amount": worth.mask(is_alone).tolist(),
        f"{key}.currency": units.mask(worth.isna()).tolist(),
    }


def _warn_of_nobody(
    email: str,
    addresses: Sequence[str | None],
    amounts: Sequence[Any],
    codes: Sequence[str | None],
    is_fit: Iterable[bool],
) -> None:
    """Warn of conversions that are stored without a user."""
    rows = zip(addresses, amounts, codes, is_fit, strict=True)
    lost = [(code, amount) for address, amount, code, fits in rows if fits and address is None]
    if lost:
        verb = "is" if len(lost) == 1 else "are"
        said = counted(len(lost), "rows")
        warn(f"conversions: {said} without {email!r}{worth(lost)} {verb} unattributed")


def _existing_fields(project: Project, event_type: str) -> list[dict[str, Any]] | None:
    """Return the fields of the event type; None if there is no such type."""
    try:
        found = get_event_type(project, event_type)
    except NotFound:
        return None
    if pd.notna(found["archivedAt"]):
        raise InvalidRequest(
            f"event_type: {event_type!r} is archived; restore it with restore_event_type, or name another"
        )
    fields: list[dict[str, Any]] = json.loads(found["fields"]) if pd.notna(found["fields"]) else []
    return fields


def _new_columns(
    conversions: pd.DataFrame, email: str, value: str | None, statistic: str, fields: Mapping[str, str]
) -> list[_Column]:
    """Return the columns of the file with the types of their new fields."""
    columns = [_Column("email", email, "email")]
    if value is not None:
        columns.append(_Column(statistic, value, "currency"))
    return [*columns, *(_Column(key, name, _kind_of(conversions[name])) for key, name in fields.items())]


def _kind_of(column: pd.Series[Any]) -> str:
    """Return the type of the field that holds a column."""
    if pd.api.types.is_bool_dtype(column):
        return "boolean"
    if pd.api.types.is_numeric_dtype(column):
        return "number"
    return "date" if pd.api.types.is_datetime64_any_dtype(column) else "string"


def _create(project: Project, event_type: str, columns: Sequence[_Column]) -> None:
    fields: list[dict[str, Any]] = [
        {"type": "string", "entity": "event", "storageKey": _ID},
        *(
            {
                "type": column.kind,
                "entity": "user" if column.kind == "email" else "event",
                "storageKey": column.key,
                "optional": True,
            }
            for column in columns
        ),
    ]
    name = event_type.replace("-", " ").replace("_", " ").capitalize()
    try:
        create_event_type(project, event_type, name=name, fields=fields)
    except Conflict:
        # Another process has created it meanwhile.
        return


def _matching_columns(
    existing: Sequence[Mapping[str, Any]],
    event_type: str,
    email: str,
    value: str | None,
    statistic: str,
    fields: Mapping[str, str],
) -> list[_Column]:
    """Return the columns of the file with the fields of an existing event type."""
    by_key = {key: field for field in existing if (key := field.get("ingestionKey", field.get("storageKey")))}
    kinds = {key: (field.get("entity"), field.get("type")) for key, field in by_key.items()}
    emails = [key for key, kind in kinds.items() if kind == ("user", "email")]
    if not emails:
        raise _lacking("email", event_type, "field of users of the type email")
    columns = [_Column("email" if "email" in emails else emails[0], email, "email")]
    if value is not None:
        metrics = [key for key, kind in kinds.items() if kind in {("event", "number"), ("event", "currency")}]
        names = {key: str(by_key[key].get("storageKey")) for key in metrics}
        found = [key for key in metrics if names[key] == statistic]
        if not found:
            raise _lacking("statistic", event_type, f"statistic {statistic!r}", ", ".join(names.values()))
        columns += [_Column(key, value, str(kinds[key][1])) for key in found]
    for key, name in fields.items():
        if key not in by_key:
            raise _lacking("fields", event_type, f"field {key!r}", ", ".join(by_key))
        columns.append(_Column(key, name, kinds[key][1] or "string"))
    given = {_ID, *(column.key for column in columns)}
    required = [
        key
        for key, field in by_key.items()
        if field.get("optional") is False and field.get("type") != "state" and key not in given
    ]
    if required:
        example = ", ".join(f"{key!r}: '…'" for key in required)
        raise InvalidRequest(
            f"event_type: {event_type!r} also requires {', '.join(required)}; name their columns with "
            f"fields={{{example}}}, or send the conversions as another event type"
        )
    return columns


def _lacking(argument: str, event_type: str, what: str, others: str = "") -> InvalidRequest:
    known = f" (it has: {others})" if others else ""
    return InvalidRequest(
        f"{argument}: the event type {event_type!r} has no {what}{known}; add it with update_event_type, or "
        "send the conversions as another event type"
    )


def _require_money(column: _Column, event_type: str) -> None:
    if column.kind != "currency":
        raise InvalidRequest(
            f"currency: {column.key!r} of the event type {event_type!r} is a number without a currency; "
            "leave currency out"
        )
