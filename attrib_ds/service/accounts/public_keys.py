"""Check the public key of a pair that a client has made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key

from attrib_ds.errors import InvalidRequest
from attrib_ds.keys.key_files import key_id_of, to_pem

_FEWEST_BITS: Final = 2_048
#: Checking a signature takes longer with more bits and with a larger exponent.
_MOST_BITS: Final = 4_096
_EXPONENT: Final = 65_537


@dataclass(frozen=True)
class CheckedPublicKey:
    """A public key that may be registered.

    Parameters
    ----------
    key_id : str
        From :func:`attrib_ds.keys.key_files.key_id_of`.
    pem : str
        The key in PEM, without anything that the client put around it.
    """

    key_id: str
    pem: str


def checked_public_key(pem: str) -> CheckedPublicKey:
    """Return an RSA key of 2,048 to 4,096 bits.

    Raises
    ------
    InvalidRequest
        If it is something else; the message does not show it, since it may be a private key.

    Examples
    --------
    >>> from attrib_ds.keys.key_files import make_key_pair
    >>> pair = make_key_pair()
    >>> checked_public_key(pair.public).key_id == pair.key_id
    True
    """
    try:
        key = load_pem_public_key(pem.encode())
    except (ValueError, UnsupportedAlgorithm):
        key = None
    if (
        not isinstance(key, RSAPublicKey)
        or not _FEWEST_BITS <= key.key_size <= _MOST_BITS
        or key.public_numbers().e != _EXPONENT
    ):
        raise InvalidRequest(
            f"public_key: is not allowed; expected an RSA public key of {_FEWEST_BITS:,} to {_MOST_BITS:,} "
            f"bits with the exponent {_EXPONENT}, in PEM",
            field="public_key",
        )
    return CheckedPublicKey(key_id_of(key), to_pem(key))
