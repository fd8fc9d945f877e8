"""The runtime port on Docker and Podman: runs are containers named by the run's id.

The one thing that must never happen is a second start. Engines start an exited container again when asked, so `start` looks
first, one at a time per run; and it looks twice at a container that this process did not create itself, because a killed
agent's start may still be on its way inside the engine. What it made a moment ago it starts without a look: whoever else would
start it is still between its two.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager, suppress
from typing import Any, Final

import anyio

from windlass.adapters.runtime.backoff import Backoff
from windlass.adapters.runtime.docker import machine as machines
from windlass.adapters.runtime.docker.address import parse_address
from windlass.adapters.runtime.docker.containers import Known, create_container, delete_container
from windlass.adapters.runtime.docker.debugging import debug_shell
from windlass.adapters.runtime.docker.early import EarlyStreams, joined
from windlass.adapters.runtime.docker.engine import Engine, Facts
from windlass.adapters.runtime.docker.hardening import run_container
from windlass.adapters.runtime.docker.hijack import Hijacked
from windlass.adapters.runtime.docker.images import Images
from windlass.adapters.runtime.docker.inputs import Inputs
from windlass.adapters.runtime.docker.labels import RUN, Owner
from windlass.adapters.runtime.docker.logs import follow, last_printed
from windlass.adapters.runtime.docker.networks import Networks
from windlass.adapters.runtime.docker.observing import observed, used
from windlass.adapters.runtime.docker.refusals import REFUSED, readable_start_error
from windlass.adapters.runtime.docker.slices import Slices
from windlass.adapters.runtime.docker.subnets import Addresses
from windlass.adapters.runtime.docker.terminals import (
    Fed,
    attached,
    ended_with,
    executed,
    open_output,
    open_terminal,
)
from windlass.adapters.runtime.docker.users import user_of
from windlass.adapters.runtime.docker.validation import check_command, check_id
from windlass.adapters.runtime.docker.volumes import OPEN_TO_ALL, TAR, Volumes
from windlass.adapters.runtime.listening import Listening
from windlass.adapters.runtime.tars import directories
from windlass.adapters.secrets.memory_files import MemoryFiles
from windlass.core.errors import Conflict, Invalid, NotFound, Unavailable, WindlassError
from windlass.core.model.assignment import Assignment
from windlass.core.model.ids import Millis, NodeId, RunId, VolumeId
from windlass.core.model.job import JobSpec
from windlass.core.model.secret import NOTHING_HANDED, Handed
from windlass.core.model.variables import ARTIFACTS
from windlass.ports.clock import Clock
from windlass.ports.failpoints import NONE as NO_FAILPOINTS
from windlass.ports.failpoints import Failpoints
from windlass.ports.runtime import (
    ANY_VOLUME,
    ANYBODY,
    IDLE_MS,
    ImageAccess,
    LogLine,
    LogPosition,
    Machine,
    Observed,
    Phase,
    StartFailed,
    Terminal,
    Traits,
    Used,
    VolumeWish,
)

SETTLE: Final = Millis(500)
"""Between two looks at a container that somebody else created. An engine that answers twice has long read what was sent before."""
WAIT_SECONDS: Final = 300.0
"""A wait is asked anew after this long: the safety net under a connection that died without a word."""
CREATED_SECONDS: Final = 1.0
LOOKS_AT_ONCE: Final = 8
_ONE_LOOK: Final = {"stream": "false", "one-shot": "true"}
KILLED: Final = 137
CAUSE_PAUSES: Final = (Millis(150), Millis(300), Millis(600), Millis(1200))
"""Between looks at a run that was killed, until the engine says what for."""
ADDRESSES: Final = Addresses()
_OVER: Final = frozenset({Phase.EXITED, Phase.ABSENT})


class DockerRuntime:
    """Open with `async with DockerRuntime.open(...)`. The engine may be down at that moment."""

    traits = Traits()

    def __init__(self, engine: Engine, owner: Owner, clock: Clock, networks: Networks) -> None:
        self._engine = engine
        self._owner = owner
        self._clock = clock
        self._images = Images(engine, clock)
        self._volumes = Volumes(engine, owner)
        self._slices = Slices(engine, owner)
        self._networks = networks
        self._secret_files = MemoryFiles(f"{owner.installation}-{owner.node}")
        self._known: dict[RunId, Known] = {}
        self._own_creations: dict[RunId, Millis] = {}
        """Since when at most they have been there."""
        self._failures: dict[RunId, str] = {}
        """Why a start failed, for engines that keep no record of it (Podman)."""
        self._stopped: set[RunId] = set()
        """Asked to end by us: why such a one was killed is known."""
        self._starting: dict[RunId, anyio.Lock] = {}
        self._early = EarlyStreams()
        self._inputs = Inputs(engine)

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        docker_host: str,
        *,
        installation: str,
        node: str,
        clock: Clock,
        environ: Mapping[str, str] | None = None,
        addresses: Addresses | None = ADDRESSES,
        failpoints: Failpoints = NO_FAILPOINTS,
    ) -> AsyncIterator["DockerRuntime"]:
        """`environ` is where DOCKER_TLS_VERIFY and DOCKER_CERT_PATH are looked up; tenants' networks are cut from `addresses`."""
        check_id(installation, field="installation")
        check_id(node, field="node")
        engine, owner = Engine(parse_address(docker_host, environ)), Owner(installation=installation, node=node)
        runtime = cls(engine, owner, clock, Networks(engine, owner, clock, addresses, failpoints))
        try:
            yield runtime
        finally:
            await runtime.close()

    async def close(self) -> None:
        await self._early.close()
        await self._engine.close()

    async def machine(self) -> Machine:
        await self._engine.ping()  # its facts are kept, and outlive it
        smi = await machines.ask_smi() if self._engine.address.is_local else ""
        facts, slices_lack = await self._engine.facts(), await self._slices.lack()
        return machines.machine(facts, smi, slices_lack=slices_lack, networks_lack=await self._networks.lack())

    def ensure_image(self, image: str, *, access: ImageAccess = ANYBODY) -> AsyncIterator[str]:
        return self._images.ensure(image, access)

    async def ensure_volume(
        self, volume: VolumeId, *, labels: Mapping[str, str], wish: VolumeWish = ANY_VOLUME
    ) -> None:
        await self._volumes.ensure(volume, labels)

    async def put_archive(self, volume: VolumeId, path: str, tar: AsyncIterator[bytes]) -> None:
        await self._volumes.put(volume, path, tar)

    def get_archive(self, volume: VolumeId, path: str) -> AsyncIterator[bytes]:
        return self._volumes.get(volume, path)

    async def remove_volume(self, volume: VolumeId) -> None:
        await self._volumes.remove(volume)

    async def volumes(self) -> tuple[VolumeId, ...]:
        return await self._volumes.names()

    async def create(self, assignment: Assignment, *, handed: Handed = NOTHING_HANDED) -> None:
        run = assignment.run
        places = {
            "secrets": self._secrets_directory(run) if handed.files else "",
            "parent": await self._slices.parent(assignment.slice),
            "network": await self._networks.mode(assignment),
        }
        began = self._clock.now()

        def config(facts: Facts) -> dict[str, Any]:
            return run_container(assignment, owner=self._owner, facts=facts, handed=handed, **places)

        try:
            container = await create_container(self._engine, run, config)
        except Conflict as exc:
            record = await self._inspect(run)
            if record is None:
                raise await self._name_taken(run) from exc
            if observed(run, record).phase is not Phase.CREATED:
                return
        except Unavailable as exc:
            self._networks.notice(assignment.tenant, exc)
            raise
        else:
            self._known[run] = _known(container, assignment.spec)
            self._own_creations[run] = began
        await self._open_volume(assignment)
        if handed.files:
            await self._give_files(run, handed)

    async def start(self, run: RunId, *, handed: Handed = NOTHING_HANDED) -> None:
        """What is handed over was given at `create`: an engine wants variables there, and files are in place before a start."""
        lock = self._starting.setdefault(run, anyio.Lock())
        try:
            async with lock:
                await self._start(run)
        finally:
            if not lock.statistics().tasks_waiting and not lock.locked():
                self._starting.pop(run, None)

    async def observe(self, run: RunId) -> Observed:
        record = await self._inspect(run)
        return Observed(run=run, phase=Phase.ABSENT) if record is None else self._observed(run, record)

    async def usage(self, run: RunId) -> Used | None:
        """By the engine's own counters, which go with the container's cgroup: after its end there is nothing to ask."""
        known = await self._identify(run)
        if known is None:
            return None
        try:
            stats = await self._engine.call("GET", f"/containers/{known.id}/stats", params=_ONE_LOOK)
        except (NotFound, Conflict):
            return None
        return used(stats)

    async def observe_all(self) -> tuple[Observed, ...]:
        params = self._owner.filters(RUN) | {"all": "true"}
        listed = await self._engine.call("GET", "/containers/json", params=params)
        runs = [RunId(c["Labels"][RUN]) for c in listed if self._owner.owns(c.get("Labels"))]
        seen: list[Observed] = []
        failures: list[Unavailable] = []
        limiter = anyio.CapacityLimiter(LOOKS_AT_ONCE)

        async def look(run: RunId) -> None:
            async with limiter:
                try:
                    seen.append(await self.observe(run))
                except Unavailable as exc:
                    failures.append(exc)

        async with anyio.create_task_group() as tasks:
            for run in runs:
                tasks.start_soon(look, run)
        if failures:  # a part of the truth would pass for all of it
            raise failures[0]
        return tuple(sorted((s for s in seen if s.phase is not Phase.ABSENT), key=lambda s: s.run))

    async def wait(self, run: RunId) -> Observed:
        backoff = Backoff(self._clock, run)
        is_created = False
        while True:
            try:
                if is_created:
                    # Any end from now on. In short turns, because one may have slipped in since the last look.
                    await self._ended(run, "next-exit", CREATED_SECONDS)
                else:
                    await self._ended(run, "not-running", WAIT_SECONDS)
                seen = await self.observe(run)
                if seen.phase in _OVER:
                    self._secret_files.drop(run)  # with its end, not with its removal, which may be days later
                    return await self._with_its_cause(seen)
                is_created = seen.phase is Phase.CREATED
                backoff.reset()
            except Unavailable:
                is_created = False  # look again first
                await backoff.pause()

    async def _with_its_cause(self, seen: Observed) -> Observed:
        """An engine may notice a moment after the end that it was for want of memory: a kill is looked at again."""
        for pause in CAUSE_PAUSES:
            if seen.exit_code != KILLED or seen.is_oom or seen.run in self._stopped:
                break
            await self._clock.sleep_until(Millis(self._clock.now() + pause))
            again = await self.observe(seen.run)
            if again.phase is not Phase.EXITED:
                break
            seen = again
        return seen

    async def stop(self, run: RunId, *, grace_ms: Millis) -> None:
        known = await self._identify(run)
        if known is None:
            return
        grace = -(-grace_ms // 1000)
        self._stopped.add(run)
        try:
            await self._engine.call(
                "POST", f"/containers/{known.id}/stop", params={"t": str(grace)}, seconds=grace + 30.0
            )
        except NotFound:
            return

    async def logs(self, run: RunId, *, after: LogPosition) -> AsyncIterator[LogLine]:
        async def is_over() -> bool:
            seen = await self.observe(run)
            return seen.phase in _OVER or (seen.phase is Phase.CREATED and bool(seen.error))

        following = follow(
            self._engine,
            lambda: self._identify(run),
            after=after,
            is_over=is_over,
            backoff=Backoff(self._clock, run),
        )
        async with aclosing(following) as lines:
            async for line in lines:
                await self._early.passed(run, len(line.text))
                yield line

    async def remove(self, run: RunId) -> None:
        known = await self._identify(run)
        if known is not None:
            await delete_container(self._engine, known.id)
        await self._early.let_go(run)
        self._secret_files.drop(run)
        self._forget(run)

    async def slices(self) -> tuple[NodeId, ...]:
        return await self._slices.names()

    async def end_slice(self, node: NodeId) -> None:
        await self._slices.end(node)

    async def tidy(self, *, idle_ms: Millis = IDLE_MS) -> None:
        await self._networks.tidy(idle_ms=idle_ms)

    @asynccontextmanager
    async def attach(self, run: RunId) -> AsyncIterator[Terminal]:
        """A run without a terminal is listened to from its first line on, and so is a terminal by the first who comes; who comes
        later sees the end of what was printed."""
        known = await self._require(run)
        if known.has_input:
            async with self._heard(run, known) as heard, self._inputs.giver(known.id) as giver:
                yield Fed(heard, giver)
            return
        if not known.has_terminal:
            yield self._listening(run, known)
            return
        stream = self._early.take(run) or await self._rejoin(known)
        async with attached(self._engine, known.id, stream) as terminal:
            yield terminal

    @asynccontextmanager
    async def _heard(self, run: RunId, known: Known) -> AsyncIterator[Terminal]:
        """As it prints, also what no newline has ended yet, for the first who comes; for others, its log."""
        stream = self._early.take(run)
        if stream is None:
            yield self._listening(run, known)
            return
        async with attached(self._engine, known.id, stream, has_terminal=False) as terminal:
            yield terminal

    def _listening(self, run: RunId, known: Known) -> Listening:
        return Listening(self.logs(run, after=LogPosition()), lambda: ended_with(self._engine, known.id))

    @asynccontextmanager
    async def execute(self, run: RunId, command: tuple[str, ...], *, wants_terminal: bool) -> AsyncIterator[Terminal]:
        check_command(command)
        known = await self._require(run)
        async with executed(self._engine, known.id, command, wants_terminal=wants_terminal) as terminal:
            yield terminal

    @asynccontextmanager
    async def debug(
        self,
        volume: VolumeId,
        *,
        name: str,
        image: str,
        command: tuple[str, ...],
        labels: Mapping[str, str],
        keep: bool,
    ) -> AsyncIterator[Terminal]:
        async with debug_shell(
            self._engine,
            self._owner,
            volume,
            name=name,
            image=image,
            command=command,
            labels=labels,
            keep=keep,
        ) as terminal:
            yield terminal

    async def remove_all(self) -> int:
        params = self._owner.filters() | {"all": "true"}
        listed = await self._engine.call("GET", "/containers/json", params=params)
        containers = [str(c["Id"]) for c in listed if self._owner.owns(c.get("Labels"))]
        for container in containers:
            await delete_container(self._engine, container)
        self._secret_files.drop_all()
        volumes = await self._volumes.remove_all()
        await self._networks.remove_all()
        await self._slices.end_all()
        self._known.clear()
        self._own_creations.clear()
        return len(containers) + volumes

    async def _name_taken(self, run: RunId) -> WindlassError:
        """Somebody had the name a moment ago, and it is not one of ours: gone since, or a stranger's?"""
        try:
            await self._engine.call("GET", f"/containers/{run}/json")
        except NotFound:
            return Unavailable(f"a container {run} was just being removed", code="name-released")
        return Conflict(f"the engine has a container {run} that is not ours", code="name-taken")

    async def _open_volume(self, assignment: Assignment) -> None:
        """A new volume belongs to root, and an image that runs as somebody else could not write to it. Its directory is opened
        to all, because only this job's containers ever see it. Through the container just made, before it starts: that costs
        one call and only such images pay for it."""
        if await self._images.runs_as_root(assignment.spec.image):
            return
        known = await self._require(assignment.run)
        # Docker leaves the directory it unpacks into as it is; Podman does not see a volume below another path.
        path, entry = (ARTIFACTS, ".") if await self._engine.is_podman() else ("/", ARTIFACTS.strip("/"))
        tar = directories((entry,), mode=OPEN_TO_ALL)
        async with self._engine.stream(
            "PUT", f"/containers/{known.id}/archive", params={"path": path}, data=tar, content_type=TAR, seconds=60
        ) as answer:
            await answer.read()

    def _secrets_directory(self, run: RunId) -> str:
        check_id(run, field="run")
        if not self._engine.address.is_local:
            raise StartFailed("secret files need an engine on the agent's own machine", hint="use variables")
        return str(self._secret_files.directory(run))

    async def _give_files(self, run: RunId, handed: Handed) -> None:
        """Into memory, for the user the container runs as; an agent that finds the container made writes them anew."""
        record = await self._inspect(run)
        if record is None:
            raise _no_container(run)
        user = await user_of(self._engine, str(record["Id"]), str(record["Config"].get("User") or ""))
        self._secret_files.put(run, handed.files, user=user, group=user)

    async def _start(self, run: RunId) -> None:
        if not self._is_just_made(run) and not await self._is_startable(run):
            return
        known = await self._require(run)
        await self._attach_early(run, known)
        try:
            await self._networks.start(known.id)
        except (Invalid, NotFound, Conflict, Unavailable) as exc:
            if exc.code != REFUSED:
                raise
            await self._explain(run, exc)
        finally:
            self._own_creations.pop(run, None)

    async def _attach_early(self, run: RunId, known: Known) -> None:
        with suppress(WindlassError):  # without it the first words are in the log all the same: no reason not to start
            if known.has_terminal:
                await self._early.keep(run, await open_terminal(self._engine, known.id))
            elif known.has_input and not await self._engine.is_podman():
                # Podman ends a run's input with anybody who was attached and goes; and its log has unfinished lines too.
                await self._early.keep(run, await open_output(self._engine, known.id))

    async def _rejoin(self, known: Known) -> Hijacked:
        """Attached first and shown the log then, so that no line falls between the two."""
        stream = await open_terminal(self._engine, known.id)
        try:
            printed = await last_printed(self._engine, known)
            await stream.prepend(lambda live: joined(printed, live))
        except BaseException:
            await stream.aclose()
            raise
        return stream

    def _is_just_made(self, run: RunId) -> bool:
        made = self._own_creations.get(run)
        return made is not None and self._clock.now() - made < SETTLE

    async def _is_startable(self, run: RunId) -> bool:
        seen = await self.observe(run)
        if seen.phase is Phase.CREATED and run not in self._own_creations:
            await self._clock.sleep_until(Millis(self._clock.now() + SETTLE))
            seen = await self.observe(run)
        if seen.phase is Phase.ABSENT:
            raise _no_container(run)
        if seen.phase is Phase.CREATED and seen.error:
            raise StartFailed(seen.error)
        return seen.phase is Phase.CREATED

    async def _explain(self, run: RunId, refused: WindlassError) -> None:
        """The engine refused a start: did it run all the same, and if not, why?"""
        seen = await self.observe(run)
        if seen.phase is Phase.ABSENT:
            raise _no_container(run)
        if seen.phase is not Phase.CREATED:
            return
        self._failures[run] = seen.error or readable_start_error(refused.message)
        raise StartFailed(self._failures[run]) from refused

    async def _ended(self, run: RunId, condition: str, seconds: float) -> None:
        """Returns when the engine says so, or has nothing of that name. Unavailable also when `seconds` are over."""
        known = await self._identify(run)
        if known is None:
            return
        try:
            await self._engine.call(
                "POST", f"/containers/{known.id}/wait", params={"condition": condition}, seconds=seconds
            )
        except (NotFound, Conflict):
            return

    async def _identify(self, run: RunId) -> Known | None:
        """Which container this is, looked up once; None when there is none of ours."""
        if run not in self._known:
            await self._inspect(run)
        return self._known.get(run)

    async def _require(self, run: RunId) -> Known:
        known = await self._identify(run)
        if known is None:
            raise _no_container(run)
        return known

    async def _inspect(self, run: RunId) -> Mapping[str, Any] | None:
        check_id(run, field="run")
        try:
            record = await self._engine.call("GET", f"/containers/{run}/json")
        except NotFound:
            self._forget(run)
            return None
        if not self._owner.owns(record["Config"].get("Labels")) or record["Config"]["Labels"].get(RUN) != run:
            self._forget(run)
            return None
        has_terminal = bool(record["Config"].get("Tty"))
        has_input = bool(record["Config"].get("OpenStdin")) and not has_terminal
        self._known[run] = Known(str(record["Id"]), has_terminal, has_input)
        return record  # type: ignore[no-any-return]

    def _observed(self, run: RunId, record: Mapping[str, Any]) -> Observed:
        seen = observed(run, record)
        if seen.phase is Phase.CREATED and not seen.error and run in self._failures:
            seen = Observed(run=run, phase=seen.phase, token=seen.token, error=self._failures[run])
        return seen

    def _forget(self, run: RunId) -> None:
        self._known.pop(run, None)
        self._own_creations.pop(run, None)
        self._failures.pop(run, None)
        self._stopped.discard(run)


def _no_container(run: RunId) -> NotFound:
    return NotFound(f"no container for run {run}", code="run-not-found")


def _known(container: str, spec: JobSpec) -> Known:
    return Known(container, spec.wants_terminal, spec.wants_input and not spec.wants_terminal)
