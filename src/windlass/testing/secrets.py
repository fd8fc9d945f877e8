"""Sealing without cryptography, for planes in memory: boxes are numbers, what they hold is here. Passes the port's contract."""

from windlass.core.model.secret import Sealed
from windlass.ports.secrets import Unsealable


class MemorySealer:
    """Outlives the planes that use it, as a directory of keys does."""

    def __init__(self) -> None:
        self.newest = 1
        self.oldest = 1
        self._boxes: dict[bytes, tuple[bytes, bytes, int]] = {}

    def seal(self, value: bytes, *, about: bytes) -> Sealed:
        box = b"box %d" % len(self._boxes)
        self._boxes[box] = value, about, self.newest
        return Sealed(key=self.newest, box=box)

    def open(self, sealed: Sealed, *, about: bytes) -> bytes:
        value, meant, key = self._boxes.get(sealed.box, (b"", b"", 0))
        if sealed.key != key or key < self.oldest or meant != about:
            raise Unsealable("the value was tampered with, or belongs elsewhere")
        return value

    def rotate(self) -> int:
        self.newest += 1
        return self.newest

    def forget_before(self, key: int) -> None:
        self.oldest = max(self.oldest, key)


class MemoryGuard:
    """For a control plane without a node of its own."""

    def __init__(self) -> None:
        self._registries: set[str] = set()

    def is_guarded(self, registry: str) -> bool:
        return registry in self._registries

    async def note_guarded(self, registry: str) -> None:
        self._registries.add(registry)
