"""A node in memory: `FakeMachine` is what survives an agent's crash, `FakeRuntime` the port on it. `program` has the commands."""

from windlass.testing.runtime.machine import FakeMachine, Happening
from windlass.testing.runtime.program import Program
from windlass.testing.runtime.runtime import FakeRuntime

__all__ = ["FakeMachine", "FakeRuntime", "Happening", "Program"]
