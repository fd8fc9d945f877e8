"""The signing key of this installation, in a file that only its owner reads, and the tokens it signs.

Made on first use: written aside, synced, then linked into place, so that two starters end up with one key and a crash leaves
either none or a whole one.
"""

import json
import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from joserfc import jwk, jws, jwt
from joserfc.errors import JoseError

from windlass.core.errors import Invalid
from windlass.wire.identity import ALGORITHM, AUDIENCE, ISSUER
from windlass.wire.kube.release import TYPE

KEY_FILE: Final = "signing-key.json"
_PRIVATE: Final = 0o600
_FOREIGN_BITS: Final = 0o077


class KeyDirectory:
    def __init__(self, directory: Path) -> None:
        self._path = directory / KEY_FILE

    def public_keys(self) -> tuple[dict[str, Any], ...]:
        """What a verifier needs, as JWKs; never the private part."""
        return (self._key().as_dict(private=False),)

    def issue(
        self, *, subject: str, tenant: str, roles: Sequence[str], token_id: str, now: float, lifetime_seconds: int
    ) -> str:
        """A token for `subject` of `tenant`; `now` is wall time, as tokens are read by others' clocks."""
        key = self._key()
        issued_at = int(now)
        claims = {
            "iss": ISSUER,
            "aud": AUDIENCE,
            "sub": subject,
            "tenant": tenant,
            "roles": list(roles),
            "jti": token_id,
            "iat": issued_at,
            "exp": issued_at + lifetime_seconds,
        }
        return jwt.encode({"alg": ALGORITHM, "kid": key.kid}, claims, key, algorithms=[ALGORITHM])

    def public_key(self) -> str:
        """For whoever checks releases."""
        return str(self._key().as_dict(private=False)["x"])

    def sign(self, payload: bytes) -> str:
        """A release: see `wire.kube.release`. Reads a file: call it in a thread."""
        return jws.serialize_compact({"alg": ALGORITHM, "typ": TYPE}, payload, self._key(), algorithms=[ALGORITHM])

    def _key(self) -> jwk.OKPKey:
        if not self._path.exists():
            self._make()
        return self._load()

    def _make(self) -> None:
        key = jwk.OKPKey.generate_key("Ed25519", {"use": "sig", "alg": ALGORITHM}, auto_kid=True)
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        aside = self._path.with_name(f".{KEY_FILE}.{os.getpid()}")
        descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, _PRIVATE)
        try:
            with os.fdopen(descriptor, "w") as file:
                json.dump(key.as_dict(private=True), file)
                file.flush()
                os.fsync(file.fileno())
            os.link(aside, self._path)
        except FileExistsError:
            pass  # another starter was first: its key is the key
        finally:
            aside.unlink(missing_ok=True)

    def _load(self) -> jwk.OKPKey:
        if stat.S_IMODE(self._path.stat().st_mode) & _FOREIGN_BITS:
            raise Invalid(
                f"{self._path} may be read by others", code="key-mode", hint=f"chmod 600 {self._path}, or remove it"
            )
        try:
            key = jwk.OKPKey.import_key(json.loads(self._path.read_text()))
        except (ValueError, TypeError, KeyError, JoseError) as exc:
            raise Invalid(f"{self._path} holds no signing key", code="key-damaged", hint="remove it") from exc
        if key.curve_name != "Ed25519" or not key.is_private:
            raise Invalid(f"{self._path} holds no Ed25519 private key", code="key-damaged", hint="remove it")
        return key
