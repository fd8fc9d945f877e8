"""Node-to-node copy: images that the registry does not give come from nodes that have them.

`core.distribution.sender_rounds` draws the tree; `exports` knows the runtimes; `relay` moves the bytes. Only missing
layers travel where the runtimes allow it, and a receiver whose loader refuses such a thin stream gets the whole.
"""

import contextlib
from collections import defaultdict
from collections.abc import Mapping, Sequence

import anyio
import msgspec

from windlass.core.distribution import Image, Inventory, Reference, Row, Send, Want, sender_rounds
from windlass.images.errors import NodeError
from windlass.images.exports import Export, Import, export_from, import_to
from windlass.images.guard import NoRoom
from windlass.images.nodes import Node
from windlass.images.pulls import Cause, Tools, cause_of
from windlass.images.relay import Arrival, Target, relay
from windlass.images.report import Outcome, Result
from windlass.images.tasks import task_group
from windlass.images.text import show_size


def is_worth_a_copy(want: Want, result: Result) -> bool:
    """Did the registry fail, and may a peer step in?

    Not where the registry *denied* it: a copy must not hand out what a node has no right to. Not for a moved tag:
    nobody but the registry knows which version is right.
    """
    if result.outcome is Outcome.SUCCESS or result.reason in ("DISK", "NODE", "SSH") or want.has_moved:
        return False
    return cause_of(result.detail) is not Cause.DENIED


async def copy_from_peers(
    nodes: Mapping[str, Node],
    inventories: dict[str, Inventory],
    wants: Sequence[Want],
    rows: Mapping[Reference, Row],
    tools: Tools,
    *,
    is_settled: bool = False,
) -> list[Result]:
    """Every want gets exactly one result. `inventories` grows with what arrives, so later sends know of it.

    `is_settled`: somebody said which version of a moved tag counts; else none is copied.
    """
    results = [] if is_settled else [_moved(want, rows[want.name]) for want in wants if want.has_moved]
    wants = [want for want in wants if is_settled or not want.has_moved]
    lines = {name: anyio.Semaphore(tools.settings.max_parallel) for name in nodes}
    by_image: defaultdict[str, list[Want]] = defaultdict(list)
    for want in wants:
        by_image[want.image_id].append(want)
    for name in nodes:
        mine = [want for want in wants if want.node == name]
        if mine:
            tools.progress.expect(name, len(mine), sum(want.size for want in mine))
    spreads = [_Spread(nodes, inventories, g, rows[g[0].name], tools, lines, results) for g in by_image.values()]
    async with task_group() as tasks:
        for family in _families(spreads):
            tasks.start_soon(_one_by_one, family)
    return results


def _families(spreads: Sequence["_Spread"]) -> list[list["_Spread"]]:
    """Images that may share layers, by the lowest one. Each waits for the one before, so a common layer goes once."""
    families: defaultdict[str, list[_Spread]] = defaultdict(list)
    for spread in spreads:
        families[spread.lowest_layer].append(spread)
    return sorted(families.values(), key=lambda family: -sum(spread.size for spread in family))


async def _one_by_one(family: Sequence["_Spread"]) -> None:
    for spread in family:
        await spread.run()


def _moved(want: Want, row: Row) -> Result:
    versions = "; ".join(f"{image_id[:19]} on {', '.join(nodes)}" for image_id, nodes in row.versions)
    detail = f"the tag means different images ({versions}) and no registry says which; --source NODE settles it"
    return Result(
        node=want.node, name=str(want.name), outcome=Outcome.FAILED, reason="MOVED", detail=detail, via="peers"
    )


class _Spread:
    """One image, from its holders to all that lack it."""

    def __init__(
        self,
        nodes: Mapping[str, Node],
        inventories: dict[str, Inventory],
        wants: Sequence[Want],
        row: Row,
        tools: Tools,
        lines: Mapping[str, anyio.Semaphore],
        results: list[Result],
    ) -> None:
        self._nodes = nodes
        self._inventories = inventories
        self._wants = wants
        self._row = row
        self._tools = tools
        self._lines = lines
        self._results = results
        self._names = tuple(dict.fromkeys(want.name for want in wants))
        self._image = row.content()
        self._done: set[str] = set()

    @property
    def lowest_layer(self) -> str:
        """Empty where the runtime's listing does not say: all such images count as one family."""
        return self._image.layers[0] if self._image.layers else ""

    @property
    def size(self) -> int:
        return self._row.size

    async def run(self) -> None:
        lackers = list(dict.fromkeys(want.node for want in self._wants))
        platforms = {self._nodes[name].platform for name in lackers}
        for platform in sorted(platforms, key=str):
            some = [name for name in lackers if self._nodes[name].platform == platform]
            holders = [
                name
                for name in self._row.holders()
                if name in self._nodes and name not in lackers and self._nodes[name].platform == platform
            ]
            if not holders:
                self._fail(some, "PEER", f"no node of platform {platform} has it")
                continue
            await self._tree(holders, some)
        self._fail([name for name in lackers if name not in self._done], "PEER", "no sender was left")

    async def _tree(self, holders: Sequence[str], lackers: Sequence[str]) -> None:
        """Round by round. Who failed to receive does not send; those it was to feed are dealt out anew."""
        waiting = list(lackers)
        senders = list(holders)
        bad_senders: set[str] = set()
        while waiting and senders:
            sends = sender_rounds(senders, waiting, fanout=self._tools.settings.peer_fanout)[0]
            served: list[str] = []
            async with task_group() as tasks:
                for send in sends:
                    tasks.start_soon(self._send, send, served, bad_senders)
            waiting = [name for name in waiting if name not in self._done]
            fresh = [name for name in served if name not in bad_senders]
            used = {send.sender for send in sends} | bad_senders
            senders = fresh + [name for name in senders if name not in used]
            if waiting and not senders:
                # Every receiver of this round failed: the holders themselves may still serve the others.
                senders = [name for name in holders if name not in bad_senders]

    async def _send(self, send: Send, served: list[str], bad_senders: set[str]) -> None:
        parties = sorted({send.sender, *send.receivers})
        started = anyio.current_time()
        async with self._tools.total:
            # In one order for everybody, so that two sends never wait for each other.
            await self._acquire(parties)
            try:
                await self._transfer(send, served, started)
            except NodeError as error:
                # The sender cannot serve; its receivers stay waiting for another one.
                bad_senders.add(send.sender)
                self._tools.logs.warning(f"{send.sender} cannot send {self._names[0]}: {error}")
            finally:
                for name in parties:
                    self._lines[name].release()

    async def _acquire(self, parties: Sequence[str]) -> None:
        held: list[str] = []
        try:
            for name in parties:
                await self._lines[name].acquire()
                held.append(name)
        except BaseException:
            for name in held:
                self._lines[name].release()
            raise

    async def _transfer(self, send: Send, served: list[str], started: float) -> None:
        settings = self._tools.settings
        export = await export_from(self._nodes[send.sender], self._sent_image(send.sender), self._names, settings)
        ways: dict[str, Import] = {}
        skips: dict[str, frozenset[str]] = {}
        for name in send.receivers:
            if way := await self._prepare(name, export, skips, started):
                ways[name] = way
        if not ways:
            return
        with contextlib.ExitStack() as room:
            for name in ways:
                room.enter_context(self._tools.guard.reserved(self._nodes[name], self._row.size))
            arrivals = await self._thin_or_whole(send.sender, export, ways, skips)
            refused = {name: ways[name] for name, arrival in arrivals.items() if arrival.exit and skips[name]}
            if refused:
                names = ", ".join(refused)
                self._tools.logs.info(f"{names}: the loader wants the whole of {self._names[0]}; sending it")
                arrivals |= await self._relay(send.sender, export, refused, dict.fromkeys(refused, frozenset()))
        for name, arrival in arrivals.items():
            await self._arrived(send.sender, name, ways[name], arrival, served, started)

    async def _prepare(
        self, name: str, export: Export, skips: dict[str, frozenset[str]], started: float
    ) -> Import | None:
        """A receiver that cannot take it is out at once and holds nobody up."""
        node = self._nodes[name]
        try:
            await self._tools.guard.check(node, self._row.size)
            skips[name] = await export.members_held(node, self._inventories[name])
            return await import_to(node, self._image, self._names, self._inventories[name], self._tools.settings)
        except NoRoom as error:
            self._fail([name], "DISK", str(error), started)
        except NodeError as error:
            self._fail([name], "PEER", str(error), started)
        return None

    async def _thin_or_whole(
        self, sender: str, export: Export, ways: Mapping[str, Import], skips: dict[str, frozenset[str]]
    ) -> dict[str, Arrival]:
        """A node whose tar cannot cut members out of a stream still sends: everything."""
        try:
            return await self._relay(sender, export, ways, skips)
        except NodeError as error:
            if not any(skips.values()):
                raise
            self._tools.logs.info(f"{sender}: {error}; sending the whole of {self._names[0]}")
            skips.update(dict.fromkeys(skips, frozenset()))
            return await self._relay(sender, export, ways, skips)

    async def _relay(
        self, sender: str, export: Export, ways: Mapping[str, Import], skips: Mapping[str, frozenset[str]]
    ) -> dict[str, Arrival]:
        """What all receivers have is cut out on the sending node; what only some have, here."""
        common = frozenset.intersection(*(skips[name] for name in ways))
        save = export.save()
        stages = (save, ("tar", "-f", "-", "--delete", *sorted(common))) if common else (save,)
        targets = [
            Target(node=name, shell=self._nodes[name].shell, load=way.load, skip=skips[name] - common)
            for name, way in ways.items()
        ]
        shell = self._nodes[sender].shell
        relayed = await relay(shell, stages, targets, timeout_seconds=self._tools.settings.timeout_seconds)
        self._tools.traffic.sent(sender, relayed.sent_bytes)
        for arrival in relayed.arrivals:
            self._tools.traffic.received(arrival.node, arrival.received_bytes)
        if relayed.sender_fault:
            await self._undo(ways)
            raise NodeError("peer.sender", f"cannot send ({relayed.sender_fault})", where=sender)
        return {arrival.node: arrival for arrival in relayed.arrivals}

    async def _arrived(
        self, sender: str, name: str, way: Import, arrival: Arrival, served: list[str], started: float
    ) -> None:
        node = self._nodes[name]
        if arrival.exit == 0:
            for argv in way.then:
                await node.shell.run(argv)
            self._remember(name)
            served.append(name)
            moved = show_size(arrival.received_bytes)
            self._tools.logs.info(f"{name}: {self._names[0]}: copied from {sender}, {moved} travelled")
            self._finish([name], Outcome.SUCCESS, "", "", started, via=sender, moved=arrival.received_bytes)
            return
        await self._undo({name: way})
        outcome = Outcome.TIMEOUT if arrival.exit == 124 else Outcome.FAILED
        self._finish([name], outcome, f"EXIT {arrival.exit}", arrival.detail, started, via=sender)

    async def _undo(self, ways: Mapping[str, Import]) -> None:
        for name, way in ways.items():
            for argv in way.undo:
                await self._nodes[name].shell.run(argv)

    def _sent_image(self, sender: str) -> Image:
        """As the sender has it: its layers, in its runtime's terms."""
        images = {image.id: image for image in self._inventories[sender].images}
        return images.get(self._image.id, self._image)

    def _remember(self, name: str) -> None:
        inventory = self._inventories[name]
        self._inventories[name] = msgspec.structs.replace(inventory, images=(*inventory.images, self._image))

    def _fail(self, names: Sequence[str], reason: str, detail: str, started: float | None = None) -> None:
        begun = anyio.current_time() if started is None else started
        self._finish(names, Outcome.FAILED, reason, detail, begun)

    def _finish(
        self,
        names: Sequence[str],
        outcome: Outcome,
        reason: str,
        detail: str,
        started: float,
        *,
        via: str = "peers",
        moved: int = 0,
    ) -> None:
        for want in self._wants:
            if want.node not in names or want.node in self._done:
                continue
            # The bytes are those of the image, not of each of its names.
            first = not any(r.node == want.node and r.name in map(str, self._names) for r in self._results)
            self._results.append(
                Result(
                    node=want.node,
                    name=str(want.name),
                    outcome=outcome,
                    reason=reason,
                    detail=detail,
                    via=via,
                    seconds=anyio.current_time() - started,
                    moved_bytes=moved if first else 0,
                )
            )
            self._tools.progress.done(want.node, want.size, ok=outcome is Outcome.SUCCESS)
        self._done.update(names)
