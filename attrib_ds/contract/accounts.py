"""The request for an access token."""

from typing import Annotated, Final, TypeAlias

from pydantic import Field

from attrib_ds.contract.request import Request
from attrib_ds.contract.rule import choice, text

JWT_BEARER: Final = "urn:ietf:params:oauth:grant-type:jwt-bearer"

GrantType: TypeAlias = Annotated[str, choice(JWT_BEARER)]
ClientId: TypeAlias = Annotated[str, text(expected="the clientId of a key", shortest=1)]
Assertion: TypeAlias = Annotated[str, text(expected="a signed JWT", shortest=1)]


class ExchangeToken(Request):
    """Exchange a signed assertion for an access token."""

    grant_type: GrantType
    client_id: ClientId
    assertion: Assertion = Field(repr=False)
