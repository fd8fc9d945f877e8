"""Where an engine listens, read from a DOCKER_HOST-like text; the first thing `engine` and `finding` need."""

import ssl
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from msgspec import Struct

from windlass.core.errors import Fault, Invalid


class Address(Struct, frozen=True, kw_only=True):
    """A unix socket, or a host and port with or without TLS."""

    text: str
    """As written, for people."""
    socket: str = ""
    host: str = ""
    port: int = 0
    certificates: str = ""
    """Directory with ca.pem, cert.pem and key.pem, as the docker command keeps them. Empty: no TLS."""

    @property
    def is_local(self) -> bool:
        return bool(self.socket)

    @property
    def base(self) -> str:
        """The URL requests start with. Over a socket the host is a word the engine never looks at."""
        if self.socket:
            return "http://engine"
        return f"{'https' if self.certificates else 'http'}://{self.host}:{self.port}"

    def tls(self) -> ssl.SSLContext | None:
        if not self.certificates:
            return None
        directory = Path(self.certificates)
        try:
            context = ssl.create_default_context(cafile=str(directory / "ca.pem"))
            context.load_cert_chain(directory / "cert.pem", directory / "key.pem")
        except OSError as exc:
            raise _unusable(self.text, f"its certificates in {directory} cannot be read: {exc}") from exc
        return context


def parse_address(text: str, environ: Mapping[str, str] | None = None) -> Address:
    """`unix:///path`, a bare path, `tcp://host:port` or `http(s)://`. TLS as DOCKER_TLS_VERIFY and DOCKER_CERT_PATH say."""
    environ = environ or {}
    if text.startswith("/"):
        return Address(text=f"unix://{text}", socket=text)
    parts = urlsplit(text)
    if parts.scheme == "unix" and parts.path.startswith("/"):
        return Address(text=text, socket=parts.path)
    if parts.scheme not in ("tcp", "http", "https"):
        raise _unusable(text, "only unix:// and tcp:// are spoken here")
    try:
        host, port = parts.hostname, parts.port
    except ValueError as exc:
        raise _unusable(text, str(exc)) from exc
    if not host:
        raise _unusable(text, "it names no host")
    wants_tls = parts.scheme == "https" or bool(environ.get("DOCKER_TLS_VERIFY"))
    certificates = environ.get("DOCKER_CERT_PATH") or str(Path(environ.get("HOME", "/")) / ".docker")
    return Address(
        text=text, host=host, port=port or (2376 if wants_tls else 2375), certificates=certificates if wants_tls else ""
    )


def _unusable(text: str, why: str) -> Invalid:
    message = f"{text!r} is no address of a container engine: {why}"
    return Invalid(
        message, code="docker-host", faults=(Fault("docker_host", message),), hint="unix:///var/run/docker.sock"
    )
