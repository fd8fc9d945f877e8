"""Ids and chance from the operating system."""

import secrets

import uuid_utils


class SystemIds:
    def uuid7(self) -> str:
        return str(uuid_utils.uuid7())

    def token(self) -> str:
        return secrets.token_urlsafe(32)

    def jitter(self) -> float:
        return secrets.randbits(53) / (1 << 53)
