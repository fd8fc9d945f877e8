"""kopf's way to the API server, with patience. As it comes, kopf ends as a whole when one of its watches is answered in a way it
does not expect: 410 instead of a stream, an error within one, a minute of 500s. Here such an answer is one it knows to go on after.
"""

from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from itertools import chain, repeat
from typing import Any, Final, cast

import aiohttp
import kopf
from lightkube.config.kubeconfig import SingleConfig

from windlass.client.kube.api import lines_of
from windlass.client.kube.login import Login

GONE: Final = 410
_KNOWN: Final = frozenset({401, 403, 404, 429})
"""Refusals that kopf has an answer to itself: log in again, ask again, do without."""
_RELIST: Final = b'{"type": "ERROR", "object": {"kind": "Status", "code": 410}}\n'
_HEAD: Final = 32
"""Within so many bytes an event says what it is."""
Known = Callable[[str, bytes], bool]
"""Whether an event of a kind, by its plural, tells nothing new."""


class Endless:
    """The pauses before one more try, in seconds: there is always one more."""

    def __iter__(self) -> Iterator[float]:
        return chain((1, 1, 2, 3, 5), repeat(8))


async def connection(config: SingleConfig, is_known: Known) -> kopf.AiohttpSession:
    """It logs in with what we were given, and asks again when that is refused."""
    login = Login(config)
    headers = await login.headers(anew=True)
    http = aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(ssl=login.context(), limit=0),
        headers=headers,
        proxy=login.proxy(),
        response_class=cast(Any, partial(PatientAnswer, is_known=is_known)),
    )
    return kopf.AiohttpSession(
        server=str(config.cluster.server), default_namespace=config.namespace, aiohttp_session=http
    )


class PatientAnswer(aiohttp.ClientResponse):
    def __init__(self, *arguments: Any, is_known: Known, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._is_known = is_known

    async def start(self, connection: Any) -> aiohttp.ClientResponse:
        await super().start(connection)
        if self.url.query.get("watch") == "true" and self.status in (200, GONE):
            is_known = partial(self._is_known, self.url.name)
            self.content = cast(Any, _Events(self.content, is_gone=self.status == GONE, is_known=is_known))
            self.status = 200
        elif 400 <= self.status < 500 and self.status not in _KNOWN:
            self.status = 503  # asked again, after a pause
        return self


class _Events:
    """A watch's events that are news, an error among them told as the one after which everything is listed anew."""

    def __init__(self, content: aiohttp.StreamReader, *, is_gone: bool, is_known: Callable[[bytes], bool]) -> None:
        self._content = content
        self._is_gone = is_gone
        self._is_known = is_known

    def __getattr__(self, name: str) -> Any:
        return getattr(self._content, name)  # in all else it is what it was

    async def iter_chunked(self, size: int) -> AsyncIterator[bytes]:
        if self._is_gone:
            yield _RELIST
            return
        async for line in lines_of(self._content):
            if b'"ERROR"' in line[:_HEAD]:
                yield _RELIST
            elif not self._is_known(line):
                yield line + b"\n"
