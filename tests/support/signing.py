"""A client that signs as the specification says, step by step, and a clock that tests set."""

import base64
import json

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

TOKEN_URL = "http://127.0.0.1:8000/auth/oidc/token"
NOON = 1_750_000_000.0


class Clock:
    """Tells the time that a test has set."""

    def __init__(self, now: float) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def service_account(email: str = "robot@shop.example") -> tuple[dict, rsa.RSAPublicKey]:
    """Make the content of a key file, and its public half."""
    private = rsa.generate_private_key(public_exponent=65_537, key_size=2_048)
    form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    key = {"clientId": "client-1", "serviceAccountEmail": email, "privateKeyId": "key-1"}
    return {**key, "privateKey": private.private_bytes(*form).decode()}, private.public_key()


def base64url(data: bytes) -> str:
    return base64.b64encode(data).decode().replace("+", "-").replace("/", "_").rstrip("=")


def signed(header: dict, payload: dict, private_key: str) -> str:
    """Build a JWT by hand, step by step as the specification writes it."""
    parts = [base64url(json.dumps(part).encode()) for part in (header, payload)]
    signing_input = ".".join(parts)
    key = serialization.load_pem_private_key(private_key.encode(), password=None)
    signature = key.sign(signing_input.encode(), padding.PKCS1v15(), hashes.SHA256())
    return f"{signing_input}.{base64url(signature)}"


def header_of(key, **changes):
    return {"kid": key.privateKeyId, "alg": "RS256", "typ": "JWT", **changes}


def payload_of(key, now, **changes):
    claims = {
        "iss": key.clientId,
        "sub": key.serviceAccountEmail,
        "aud": TOKEN_URL,
        "scope": "full_access",
        "exp": int(now) + 300,
    }
    return {name: value for name, value in {**claims, **changes}.items() if value is not ...}
