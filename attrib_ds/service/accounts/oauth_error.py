"""Errors of the token route, with the codes of RFC 6749, section 5.2."""

from __future__ import annotations

from typing import Literal

Code = Literal[
    "invalid_request", "invalid_client", "invalid_grant", "invalid_scope", "unsupported_grant_type"
]


class OAuthError(Exception):
    """A rejected token request; handled by the token route.

    Parameters
    ----------
    code : str
        Error code of RFC 6749.
    description : str
        What is wrong, without any content of the request.
    """

    def __init__(self, code: Code, description: str) -> None:
        super().__init__(description)
        self.code = code
        self.description = description
