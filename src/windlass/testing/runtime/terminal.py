"""A way into a fake program: bytes in, what it says out."""

from collections.abc import AsyncIterator, Callable

from windlass.ports.runtime import Stream
from windlass.testing.runtime.machine import FakeMachine
from windlass.testing.runtime.program import Program


class FakeTerminal:
    """`program` may give None for as long as the container was not started. Of those who share `givers`, the last to end its
    input ends the program's."""

    def __init__(
        self, machine: FakeMachine, program: Callable[[], Program | None], givers: list[object] | None = None
    ) -> None:
        self._machine = machine
        self._program = program
        self._givers = [] if givers is None else givers
        self._givers.append(self)
        self.size = (24, 80)

    async def send(self, data: bytes) -> None:
        program = await self._started()
        program.feed(data, self._machine.clock.now())
        self._machine.change()

    async def close_input(self) -> None:
        program = await self._started()
        if self in self._givers:
            self._givers.remove(self)
        if self._givers:
            return
        program.close_input(self._machine.clock.now())
        self._machine.change()

    async def output(self) -> AsyncIterator[tuple[Stream, bytes]]:
        program, given = await self._started(), 0
        while True:
            news = self._machine.news()
            program.advance(self._machine.clock.now())
            is_over = program.end is not None
            for output in program.output[given:]:
                given += 1
                yield output.stream, output.data
            if is_over:
                return
            await self._machine.changed(news, program.wakes_at)

    async def resize(self, *, rows: int, columns: int) -> None:
        self.size = (rows, columns)

    async def exit_code(self) -> int | None:
        program = await self._started()
        return program.end.code if program.end else None

    async def _started(self) -> Program:
        while (program := self._program()) is None:
            await self._machine.changed(self._machine.news(), None)
        return program
