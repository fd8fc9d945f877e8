"""What a job asks for and a node has: integers with their own arithmetic. GPUs asked for are a count, GPUs held are device ids."""

from msgspec import Struct


class Resources(Struct, frozen=True, omit_defaults=True, gc=False, cache_hash=True):
    cpu_millis: int = 0
    memory_bytes: int = 0
    gpus: int = 0

    def __add__(self, other: "Resources") -> "Resources":
        return Resources(
            self.cpu_millis + other.cpu_millis, self.memory_bytes + other.memory_bytes, self.gpus + other.gpus
        )

    def __sub__(self, other: "Resources") -> "Resources":
        return Resources(
            self.cpu_millis - other.cpu_millis, self.memory_bytes - other.memory_bytes, self.gpus - other.gpus
        )

    def __mul__(self, times: int) -> "Resources":
        return Resources(self.cpu_millis * times, self.memory_bytes * times, self.gpus * times)

    def fits_in(self, room: "Resources") -> bool:
        return self.cpu_millis <= room.cpu_millis and self.memory_bytes <= room.memory_bytes and self.gpus <= room.gpus


NOTHING = Resources()
