"""Locations of the shop's visitors: cities with their networks."""

from __future__ import annotations

import numpy as np
import pandas as pd

# Country, state, city, latitude, longitude, zipcode, weight.
_CITIES = (
    ("FR", "Île-de-France", "Paris", 48.8566, 2.3522, "75001", 16),
    ("FR", "Auvergne-Rhône-Alpes", "Lyon", 45.7640, 4.8357, "69001", 8),
    ("FR", "Auvergne-Rhône-Alpes", "Grenoble", 45.1885, 5.7245, "38000", 6),
    ("FR", "Auvergne-Rhône-Alpes", "Annecy", 45.8992, 6.1294, "74000", 3),
    ("FR", "Occitanie", "Toulouse", 43.6047, 1.4442, "31000", 5),
    ("FR", "Pays de la Loire", "Nantes", 47.2184, -1.5536, "44000", 4),
    ("DE", "Berlin", "Berlin", 52.5200, 13.4050, "10115", 8),
    ("DE", "Bayern", "München", 48.1351, 11.5820, "80331", 8),
    ("DE", "Hamburg", "Hamburg", 53.5511, 9.9937, "20095", 4),
    ("DE", "Nordrhein-Westfalen", "Köln", 50.9375, 6.9603, "50667", 4),
    ("BE", "Bruxelles-Capitale", "Bruxelles", 50.8503, 4.3517, "1000", 6),
    ("BE", "Vlaanderen", "Gent", 51.0543, 3.7174, "9000", 4),
    ("CH", "Zürich", "Zürich", 47.3769, 8.5417, "8001", 3),
    ("CH", "Genève", "Genève", 46.2044, 6.1432, "1201", 2),
    ("GB", "England", "London", 51.5074, -0.1278, "EC1A", 6),
    ("GB", "England", "Manchester", 53.4808, -2.2426, "M1", 4),
    ("ES", "Comunidad de Madrid", "Madrid", 40.4168, -3.7038, "28001", 4),
    ("ES", "Cataluña", "Barcelona", 41.3874, 2.1686, "08001", 4),
    ("NL", "Noord-Holland", "Amsterdam", 52.3676, 4.9041, "1012", 1),
    ("IT", "Lombardia", "Milano", 45.4642, 9.1900, "20121", 1),
)

# The two networks of a country, the larger one first.
_NETWORKS = {
    "FR": (("AS3215", "Orange S.A."), ("AS12322", "Free SAS")),
    "DE": (("AS3320", "Deutsche Telekom AG"), ("AS3209", "Vodafone GmbH")),
    "BE": (("AS5432", "Proximus NV"), ("AS6848", "Telenet BV")),
    "CH": (("AS3303", "Swisscom (Schweiz) AG"), ("AS6730", "Sunrise GmbH")),
    "GB": (("AS2856", "British Telecommunications PLC"), ("AS5607", "Sky UK Limited")),
    "ES": (("AS3352", "Telefonica de Espana S.A.U."), ("AS12479", "Orange Espagne SA")),
    "NL": (("AS1136", "KPN B.V."), ("AS33915", "Vodafone Libertel B.V.")),
    "IT": (("AS3269", "Telecom Italia S.p.A."), ("AS30722", "Vodafone Italia S.p.A.")),
}

#: The last place: the data centre of the crawlers.
_DATA_CENTRE = ("US", "Virginia", "Ashburn", 39.0438, -77.4874, "20147", 0)
_CRAWLER_NETWORK = ("AS15169", "Google LLC")


def places() -> pd.DataFrame:
    """Return the locations of visits.

    Returns
    -------
    DataFrame
        Two rows per city, one per network, then the data centre of the crawlers: the ``geo.`` and ``asn.``
        columns of an interaction, ``share`` (0 to 1, sum 1), ``winter_offset``
        (minutes, as browsers report it).

    Examples
    --------
    >>> places()["geo.countryCode"].iloc[[0, -1]].tolist()
    ['FR', 'US']
    """
    rows = []
    for city in _CITIES:
        rows += [
            _place(city, network, share)
            for network, share in zip(_NETWORKS[city[0]], (0.65, 0.35), strict=True)
        ]
    rows.append(_place(_DATA_CENTRE, _CRAWLER_NETWORK, 0.0))
    locations = pd.DataFrame(rows)
    locations["share"] /= locations["share"].sum()
    return locations


def timezone_offset(winter_offset: pd.Series[int], days: pd.Series[int]) -> np.ndarray[tuple[int], np.dtype]:
    """Return the UTC offset that a browser reports on a day; summer time starts on 30 March.

    Examples
    --------
    >>> timezone_offset(pd.Series([-60, -60]), pd.Series([87, 88])).tolist()
    [-60.0, -120.0]
    """
    return (winter_offset - 60 * (days >= 88)).to_numpy(dtype=np.float64)


def _place(
    city: tuple[str, str, str, float, float, str, int], network: tuple[str, str], share: float
) -> dict[str, object]:
    country, state, name, latitude, longitude, zipcode, weight = city
    return {
        "geo.countryCode": country,
        "geo.state": state,
        "geo.city": name,
        "geo.latitude": latitude,
        "geo.longitude": longitude,
        "geo.zipcode": zipcode,
        "asn.asnId": network[0],
        "asn.asnName": network[1],
        "share": weight * share,
        "winter_offset": {"GB": 0, "US": 300}.get(country, -60),
    }
