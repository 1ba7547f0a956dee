"""Copies rates of currencies."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attrib_ds.mirroring.copying import whole

if TYPE_CHECKING:
    from attrib_ds.mirroring.copying import Copying


def copy_rates(copying: Copying) -> None:
    """Copy rates; those that the source has no longer are taken away here too."""
    rates = copying.listed("list_rates").to_pylist()
    held = whole(copying.mirror, "list_rates").to_pylist()
    kept = {(each["currency"], each["date"]) for each in rates}
    gone = [{**each, "rate": None} for each in held if (each["currency"], each["date"]) not in kept]
    if rates or gone:
        copying.mirror.send("set_rates", rates=[*rates, *gone])
