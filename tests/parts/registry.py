"""A registry on loopback (Distribution 2.8): Docker, containerd and skopeo trust 127.0.0.1 without TLS."""

import http.client
import json
from pathlib import Path
from typing import Any

from tests.parts import present
from tests.parts.failures import PartFailed
from tests.parts.ports import free_port
from tests.parts.process import ServerProcess

_CONFIG = """\
version: 0.1
log: {{level: warn}}
storage:
  filesystem: {{rootdirectory: {directory}/blobs}}
  delete: {{enabled: true}}
http:
  addr: {address}
  secret: tests
"""

_AUTH = """\
auth:
  htpasswd: {{realm: tests, path: {directory}/htpasswd}}
"""
READERS = {
    "alice": ("wonderland", "$2b$04$631zTvXtRVWaUqImDLKsg.nbsEyM7WtYN/ASl8X.AeJgCQ4QSqT7K"),
    "hatter": ("looking-glass", "$2b$04$aqSpwXL0stWX8yq8zQa1xeYLV1GuvQ2cN1bQCbUkaQWup.9IJO/vK"),
}
"""User → password and its bcrypt, of a registry that wants a login."""

_MANIFESTS = ", ".join(
    [
        "application/vnd.docker.distribution.manifest.v2+json",
        "application/vnd.docker.distribution.manifest.list.v2+json",
        "application/vnd.oci.image.manifest.v1+json",
        "application/vnd.oci.image.index.v1+json",
    ]
)


class Registry(ServerProcess):
    """`registry.address` is what stands before the first slash of an image's name."""

    name = "registry"

    def __init__(self, directory: Path | None = None, *, wants_login: bool = False) -> None:
        super().__init__(directory)
        self._wants_login = wants_login
        self.port = free_port()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def prepare(self) -> None:
        config = _CONFIG + (_AUTH if self._wants_login else "")
        (self.directory / "config.yml").write_text(config.format(directory=self.directory, address=self.address))
        lines = [f"{user}:{digest}\n" for user, (_, digest) in READERS.items()]
        (self.directory / "htpasswd").write_text("".join(lines))

    def command(self) -> list[str]:
        return [present.program("docker-registry"), "serve", str(self.directory / "config.yml")]

    def is_ready(self) -> bool:
        try:
            return self.call("GET", "/v2/").status in (200, 401)
        except (OSError, http.client.HTTPException):
            return False

    def call(self, method: str, path: str) -> "Answer":
        """One request of the registry's own API."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        try:
            connection.request(method, path, headers={"Accept": _MANIFESTS})
            response = connection.getresponse()
            return Answer(response.status, dict(response.getheaders()), response.read())
        finally:
            connection.close()

    def repositories(self) -> list[str]:
        return list(self.call("GET", "/v2/_catalog").json()["repositories"])

    def tags(self, repository: str) -> list[str]:
        answer = self.call("GET", f"/v2/{repository}/tags/list")
        return sorted(answer.json()["tags"] or []) if answer.status == 200 else []

    def digest(self, repository: str, tag: str) -> str:
        """The digest of the manifest that the tag points to now."""
        answer = self.call("HEAD", f"/v2/{repository}/manifests/{tag}")
        if answer.status != 200:
            raise PartFailed(f"{repository}:{tag} is not in the registry: {answer.status}")
        return answer.headers["Docker-Content-Digest"]


class Answer:
    """A status, headers and a body."""

    def __init__(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.status, self.headers, self.body = status, headers, body

    def json(self) -> Any:
        return json.loads(self.body)
