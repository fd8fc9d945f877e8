"""How a kubeconfig's user logs in: certificates are in the TLS context; tokens, renewed files and login plugins give a header."""

import base64
import json
import os
from collections.abc import Mapping
from pathlib import Path
from ssl import SSLContext
from typing import Any, Final
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import anyio
from lightkube.config.client_adapter import verify_cluster
from lightkube.config.kubeconfig import SingleConfig
from lightkube.config.models import NameValue, User, UserExec
from lightkube.core.exceptions import ConfigError

from windlass.core.errors import Invalid

PLUGIN_SECONDS: Final = 60.0
PLUGIN_VERSIONS: Final = tuple(f"client.authentication.k8s.io/{name}" for name in ("v1", "v1beta1", "v1alpha1"))
_KNOWN_TO_LIGHTKUBE: Final = PLUGIN_VERSIONS[1]


class Login:
    def __init__(self, config: SingleConfig) -> None:
        self._config = config
        self._user = config.user or User()
        if self._user.auth_provider:
            hint = "the provider's own login plugin (user.exec) has taken its place"
            raise Invalid("auth-provider in a kubeconfig is no longer supported", code="kube-config", hint=hint)
        self._bearer = ""

    def context(self) -> SSLContext:
        """Whom to trust, and the certificate to show, if there is one."""
        try:
            return verify_cluster(self._config.cluster, self._user, self._config.abs_file)
        except (ConfigError, OSError) as exc:
            raise Invalid(f"a certificate of the kubeconfig cannot be used: {exc}", code="kube-config") from exc

    def proxy(self) -> str | None:
        """By which the server is reached, if the environment names one. Asked for once: aiohttp, left to it, would look into
        the environment and into ~/.netrc before every request."""
        server = urlsplit(str(self._config.cluster.server))
        return None if proxy_bypass(server.hostname or "") else getproxies().get(server.scheme)

    async def bearer(self, *, anew: bool = False) -> str:
        """The token, or none. `anew` when the last one was refused: a pod's is renewed in its file, a plugin's expires."""
        if self._bearer and not anew:
            return self._bearer
        user = self._user
        if user.token_file:
            self._bearer = await anyio.Path(self._config.abs_file(user.token_file)).read_text()
        elif user.token:
            self._bearer = user.token
        elif user.exec:
            self._bearer = await _ask_plugin(user.exec)
        self._bearer = self._bearer.strip()
        return self._bearer

    async def headers(self, *, anew: bool = False) -> dict[str, str]:
        if token := await self.bearer(anew=anew):
            return {"Authorization": f"Bearer {token}"}
        if self._user.username and self._user.password:
            pair = base64.b64encode(f"{self._user.username}:{self._user.password}".encode()).decode()
            return {"Authorization": f"Basic {pair}"}
        return {}


def prepare_plugin(config: SingleConfig) -> None:
    """What kubectl does before it asks a login plugin: tell it which version it is to answer in, and find it."""
    plugin = config.user.exec if config.user else None
    if plugin is None:
        return
    if plugin.apiVersion not in PLUGIN_VERSIONS:
        raise _unusable(plugin, f"speaks {plugin.apiVersion}, which is none of {', '.join(PLUGIN_VERSIONS)}")
    ask = {"apiVersion": plugin.apiVersion, "kind": "ExecCredential", "spec": {"interactive": False}}
    plugin.env = [*(plugin.env or ()), NameValue(name="KUBERNETES_EXEC_INFO", value=json.dumps(ask))]
    plugin.apiVersion = _KNOWN_TO_LIGHTKUBE  # it answers as it was asked, and the answers are alike
    if os.sep in plugin.command:  # relative to the kubeconfig; a bare name is looked up
        plugin.command = str(config.abs_file(plugin.command))


async def _ask_plugin(plugin: UserExec) -> str:
    environment = {**os.environ, **{one.name: one.value for one in plugin.env or ()}}
    try:
        with anyio.fail_after(PLUGIN_SECONDS):
            done = await anyio.run_process([plugin.command, *(plugin.args or ())], env=environment, check=False)
    except (OSError, TimeoutError) as exc:
        raise _unusable(plugin, f"could not be run: {exc or 'it took too long'}") from exc
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip()[-300:]
        raise _unusable(plugin, f"ended with {done.returncode}: {said}")
    return _token(plugin, done.stdout)


def _token(plugin: UserExec, answer: bytes) -> str:
    try:
        found: Any = json.loads(answer)
        status: Mapping[str, Any] = found["status"]
        token = status.get("token")
    except (ValueError, KeyError, TypeError, AttributeError) as exc:
        raise _unusable(plugin, "did not answer with an ExecCredential") from exc
    if not isinstance(token, str) or not token:
        raise _unusable(plugin, "gave no token; certificates from plugins are not supported")
    return token


def _unusable(plugin: UserExec, words: str) -> Invalid:
    hint = plugin.installHint or "run it by hand to see what it says, or use a kubeconfig with a token or a certificate"
    return Invalid(f"the kubeconfig's login plugin {Path(plugin.command).name} {words}", code="kube-config", hint=hint)
