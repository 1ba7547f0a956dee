"""Small MMDB files in the form of MaxMind's published databases GeoLite2-City and GeoLite2-ASN."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mmdb_writer import MMDBWriter
from netaddr import IPSet

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

PARIS = {
    "city": {"geoname_id": 2_988_507, "names": {"de": "Paris (D)", "en": "Paris"}},
    "continent": {"code": "EU", "names": {"en": "Europe"}},
    "country": {"iso_code": "FR", "names": {"en": "France"}},
    "location": {"accuracy_radius": 20, "latitude": 48.8566, "longitude": 2.3522},
    "postal": {"code": "75001"},
    "registered_country": {"iso_code": "US", "names": {"en": "United States"}},
    "subdivisions": [
        {"iso_code": "IDF", "names": {"en": "Île-de-France"}},
        {"iso_code": "75", "names": {"en": "Paris"}},
    ],
}
#: A network of which the country alone is known.
NORWAY = {"continent": {"code": "EU"}, "country": {"iso_code": "NO", "names": {"en": "Norway"}}}
ORANGE = {"autonomous_system_number": 3215, "autonomous_system_organization": "Orange"}

#: Columns of hits from 203.0.113.0/24 and from 2001:db8::/32, by the files of :func:`write_geo` and
#: :func:`write_asn`.
IN_PARIS = {
    "geo.countryCode": "FR",
    "geo.state": "Île-de-France",
    "geo.city": "Paris",
    "geo.latitude": 48.8566,
    "geo.longitude": 2.3522,
    "geo.zipcode": "75001",
}
OF_ORANGE = {"asn.asnId": "AS3215", "asn.asnName": "Orange"}


def write_geo(file: Path, *, ip_version: int = 6) -> Path:
    """Write a database of places."""
    networks = {"203.0.113.0/24": PARIS, "198.51.100.0/24": NORWAY}
    if ip_version == 6:
        networks["2001:db8::/32"] = PARIS
    return write(file, networks, kind="GeoLite2-City", ip_version=ip_version)


def write_asn(file: Path) -> Path:
    """Write a database of networks."""
    return write(file, {"203.0.113.0/24": ORANGE, "2001:db8::/32": ORANGE}, kind="GeoLite2-ASN")


def write(file: Path, networks: Mapping[str, Any], *, kind: str, ip_version: int = 6) -> Path:
    """Write a database with a record for each network."""
    writer = MMDBWriter(
        ip_version,
        kind,
        ipv4_compatible=ip_version == 6,
        languages=["en"],
        float_type="f64",
    )
    for network, record in networks.items():
        writer.insert_network(IPSet([network]), record)
    writer.to_db_file(str(file))
    return file


def damage(file: Path) -> None:
    """Overwrite the records of a database in place; open readers have the file mapped into memory."""
    data = bytearray(file.read_bytes())
    # Sixteen zero bytes are before the records, the mark is after them.
    start, end = data.find(b"\x00" * 16) + 16, data.rfind(b"\xab\xcd\xefMaxMind.com")
    data[start:end] = b"\xff" * (end - start)
    with file.open("r+b") as opened:
        opened.write(data)
