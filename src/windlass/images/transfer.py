"""One send of the tree: an image from one node to some others, thin where their runtimes allow, whole where not.

Who is at fault decides what follows: a sender that cannot send raises, and `peers` deals its receivers out anew; a receiver
that cannot take it gets a `Delivery` that says why, and holds up nobody.
"""

import contextlib
from collections.abc import Mapping, Sequence

from msgspec import Struct

from windlass.core.distribution import Image, Inventory, Reference
from windlass.images.errors import NodeError
from windlass.images.exports import Export, Import, export_from, import_to
from windlass.images.guard import NoRoom
from windlass.images.nodes import Node
from windlass.images.pulls import Tools
from windlass.images.relay import Arrival, Target, relay


class Parcel(Struct, frozen=True, kw_only=True):
    image: Image
    """As the sender has it: its layers, in its runtime's terms."""
    names: tuple[Reference, ...]
    """As the receivers want it called."""
    size: int


class Delivery(Struct, frozen=True, kw_only=True):
    """How it ended at one receiver; all well when `reason` is empty."""

    reason: str = ""
    detail: str = ""
    is_late: bool = False
    received_bytes: int = 0


class Transfer:
    def __init__(self, nodes: Mapping[str, Node], inventories: Mapping[str, Inventory], tools: Tools) -> None:
        self._nodes = nodes
        self._inventories = inventories
        self._tools = tools

    async def run(self, sender: str, receivers: Sequence[str], parcel: Parcel) -> dict[str, Delivery]:
        """A delivery for each receiver. `NodeError`: the sender cannot; nobody got anything."""
        export = await export_from(self._nodes[sender], parcel.image, parcel.names, self._tools.settings)
        ways: dict[str, Import] = {}
        skips: dict[str, frozenset[str]] = {}
        deliveries: dict[str, Delivery] = {}
        for name in receivers:
            try:
                ways[name], skips[name] = await self._prepare(name, export, parcel)
            except NoRoom as error:
                deliveries[name] = Delivery(reason="DISK", detail=str(error))
            except NodeError as error:
                deliveries[name] = Delivery(reason="PEER", detail=str(error))
        if ways:
            with contextlib.ExitStack() as room:
                for name in ways:
                    room.enter_context(self._tools.guard.reserved(self._nodes[name], parcel.size))
                arrivals = await self._stream(sender, export, ways, skips)
            for name, arrival in arrivals.items():
                deliveries[name] = await self._settle(name, ways[name], arrival)
        return deliveries

    async def _prepare(self, name: str, export: Export, parcel: Parcel) -> tuple[Import, frozenset[str]]:
        node, has = self._nodes[name], self._inventories[name]
        await self._tools.guard.check(node, parcel.size)
        way = await import_to(node, parcel.image, parcel.names, export, has, self._tools.settings)
        return way, await export.members_held(node, has)

    async def _stream(
        self, sender: str, export: Export, ways: Mapping[str, Import], skips: dict[str, frozenset[str]]
    ) -> dict[str, Arrival]:
        """Thin first. A tar that cannot cut members out, or a loader that wants everything, gets the whole."""
        try:
            arrivals = await self._relay(sender, export, ways, skips)
        except NodeError as error:
            if not any(skips.values()):
                raise
            self._tools.logs.info(f"{error}; sending everything")
            skips = dict.fromkeys(skips, frozenset())
            arrivals = await self._relay(sender, export, ways, skips)
        refused = {name: ways[name] for name, arrival in arrivals.items() if arrival.exit and skips[name]}
        if refused:
            self._tools.logs.info(f"{', '.join(refused)}: the loader wants the whole image; sending it")
            arrivals |= await self._relay(sender, export, refused, dict.fromkeys(refused, frozenset()))
        return arrivals

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
        late = self._tools.settings.timeout_seconds
        relayed = await relay(self._nodes[sender].shell, stages, targets, timeout_seconds=late)
        self._tools.traffic.sent(sender, relayed.sent_bytes)
        for arrival in relayed.arrivals:
            self._tools.traffic.received(arrival.node, arrival.received_bytes)
        if relayed.sender_fault:
            for name, way in ways.items():
                await self._run_all(name, way.undo)
            raise NodeError("peer.sender", f"cannot send ({relayed.sender_fault})", where=sender)
        return {arrival.node: arrival for arrival in relayed.arrivals}

    async def _settle(self, name: str, way: Import, arrival: Arrival) -> Delivery:
        if arrival.exit:
            await self._run_all(name, way.undo)
            reason, late = f"EXIT {arrival.exit}", arrival.exit == 124
            return Delivery(reason=reason, detail=arrival.detail, is_late=late, received_bytes=arrival.received_bytes)
        trouble = await self._run_all(name, way.then)
        return Delivery(reason="PEER" if trouble else "", detail=trouble, received_bytes=arrival.received_bytes)

    async def _run_all(self, name: str, commands: Sequence[tuple[str, ...]]) -> str:
        """The first complaint, or nothing."""
        try:
            for argv in commands:
                finished = await self._nodes[name].shell.run(argv)
                if finished.exit:
                    return f"{' '.join(argv[:3])}: exit {finished.exit}: {finished.stderr}"
        except NodeError as error:
            return str(error)
        return ""
