"""A server's word that a job of a tenant's namespace may run: signed over the very object and what it asks for.

An annotation anybody with rights on the object can write; the signature only the server can make. It holds for one object (its
UID) and for its spec as it was admitted, but for `suspend`, which is its owner's own.
"""

from typing import Any, Final

import msgspec
from joserfc import jwk, jws
from joserfc.errors import JoseError

from windlass.wire.identity import ALGORITHM
from windlass.wire.kube.names import RELEASE, Document

TYPE: Final = "windlass-release"
"""In the header: no token passes for a release, and no release for a token."""


def payload(job: Document) -> bytes:
    spec = {name: value for name, value in job.get("spec", {}).items() if name != "suspend"}
    return msgspec.json.encode([job["metadata"]["uid"], spec], order="sorted")


def is_released(job: Document, public_key: str) -> bool:
    """`public_key` is the `x` of an Ed25519 key, as a JWK has it."""
    text = job["metadata"].get("annotations", {}).get(RELEASE, "")
    if not text:
        return False
    try:
        signed: Any = jws.deserialize_compact(text, _key(public_key), algorithms=[ALGORITHM])
    except (JoseError, ValueError):
        return False
    return signed.headers().get("typ") == TYPE and bytes(signed.payload) == payload(job)


def check_key(public_key: str) -> None:
    """ValueError when it is none."""
    try:
        _key(public_key)
    except (JoseError, ValueError) as exc:
        raise ValueError("expected the public key that `windlass doctor` shows on the server") from exc


def _key(public_key: str) -> jwk.OKPKey:
    return jwk.OKPKey.import_key({"kty": "OKP", "crv": "Ed25519", "x": public_key})
