"""Volumes by tenant and name. A deleted job may leave its volume to its TTL while its name is used again: it means the newest."""

from windlass.core.model.ids import TenantId, VolumeId
from windlass.core.model.volume import Volume

Called = tuple[TenantId, str]


class Namesakes:
    def __init__(self) -> None:
        self.newest: dict[Called, VolumeId] = {}
        self._shared: dict[Called, set[VolumeId]] = {}
        """Names that more than one has, with all who do."""

    def add(self, volume: Volume) -> None:
        name = volume.tenant, volume.name
        known = self.newest.setdefault(name, volume.id)
        if known != volume.id:
            self._shared.setdefault(name, {known}).add(volume.id)
            self.newest[name] = max(known, volume.id)  # ids are UUIDv7: the greatest is the newest

    def discard(self, volume: Volume) -> None:
        """One that is in it."""
        name = volume.tenant, volume.name
        others = self._shared.get(name)
        if others is None:
            del self.newest[name]
            return
        others.discard(volume.id)
        self.newest[name] = max(others)
        if len(others) == 1:
            del self._shared[name]
