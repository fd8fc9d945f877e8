"""Many at once, and nothing left afterwards."""

import os
from pathlib import Path

import anyio
import pytest

from tests.process.nodes import Node, an_assignment, eventually, finish, output
from windlass.core.model.ids import RunId

pytestmark = pytest.mark.anyio


def _descriptors(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


def _children(pid: int) -> list[str]:
    """States of its children."""
    states = []
    for entry in os.listdir("/proc"):
        try:
            fields = Path(f"/proc/{entry}/stat").read_text().rpartition(")")[2].split() if entry.isdigit() else []
        except OSError:
            continue
        if fields and int(fields[1]) == pid:
            states.append(fields[0])
    return states


async def test_two_hundred_at_once_all_end_as_they_should_and_leave_nothing_behind(node: Node) -> None:
    async with node.runtime() as runtime:
        await runtime.machine()
        executor = node.executor()
        before_executor, before_server = _descriptors(executor), _descriptors(os.getpid())
        ended: dict[int, tuple[int | None, list[bytes]]] = {}

        async def one(number: int) -> None:
            run = RunId(f"r-{number}")
            await runtime.create(
                an_assignment(
                    run, "sh", "-c", "until [ -e go ]; do sleep 0.2; done; echo $0; exit $1", run, str(number)
                )
            )
            await runtime.start(run)
            seen = await finish(runtime, run)
            ended[number] = (seen.exit_code, await output(runtime, run))
            await runtime.remove(run)

        async with anyio.create_task_group() as tasks:
            for number in range(200):
                tasks.start_soon(one, number)
            await eventually(lambda: len(list(node.directory.glob("runs/*/stdout"))) == 200)
            (node.volume / "go").touch()
        assert ended == {n: (n, [f"r-{n}".encode()]) for n in range(200)}
        assert await runtime.observe_all() == ()
        assert list(node.directory.glob("runs/*")) == []
        await eventually(lambda: "Z" not in _children(executor))
        await eventually(lambda: len(_children(executor)) <= 32)
        await eventually(lambda: _descriptors(executor) <= before_executor + 2 * len(_children(executor)))
        assert _descriptors(os.getpid()) <= before_server  # fewer when somebody else's were collected meanwhile
        # The spare shims go too, all but one.
        await eventually(lambda: len(_children(executor)) == 1)
        assert _descriptors(executor) == before_executor + 2
