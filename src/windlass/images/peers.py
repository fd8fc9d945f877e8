"""Node-to-node copy: images that the registry does not give come from nodes that have them.

`core.distribution.sender_rounds` draws the tree, `transfer` makes one send of it; here it is decided who sends to whom and
what came of it. A node that has the content under another name needs no copy, only the name.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence

import anyio
import msgspec

from windlass.core.distribution import CellState, Image, Inventory, Reference, Row, Send, Want, sender_rounds
from windlass.images.errors import NodeError
from windlass.images.exports import naming
from windlass.images.nodes import Node
from windlass.images.pulls import Cause, Tools, cause_of
from windlass.images.report import Outcome, Result, Way
from windlass.images.tasks import task_group
from windlass.images.text import show_size
from windlass.images.transfer import Delivery, Parcel, Transfer


def is_worth_a_copy(want: Want, result: Result) -> bool:
    """Did the registry fail, and may a peer step in?

    Not where the registry *denied* it: a copy must not hand out what a node has no right to. Not for a moved tag:
    nobody but the registry knows which version is right.
    """
    if result.outcome is Outcome.SUCCESS or result.reason in ("DISK", "NODE", "SSH") or want.has_moved:
        return False
    return cause_of(result.detail) is not Cause.DENIED


def planned_way(want: Want, row: Row, nodes: Mapping[str, Node], *, is_settled: bool) -> Way:
    """Who could send it, for a dry run. Nobody sends a moved tag before somebody says which version counts."""
    if want.has_moved and not is_settled:
        return Way(via="peers")
    platform = nodes[want.node].platform
    holders = (row.versions[0][1]) if row.versions else ()
    return Way(via="peers", senders=tuple(name for name in holders if nodes[name].platform == platform))


async def copy_from_peers(
    nodes: Mapping[str, Node],
    inventories: dict[str, Inventory],
    wants: Sequence[Want],
    rows: Mapping[Reference, Row],
    tools: Tools,
    results: list[Result],
    *,
    is_settled: bool = False,
) -> None:
    """Every want gets exactly one result, added as it comes. `inventories` grows with what arrives: later sends know of it.

    `is_settled`: somebody said which version of a moved tag counts; else none is copied.
    """
    results += [] if is_settled else [_moved(want, rows[want.name]) for want in wants if want.has_moved]
    wants = [want for want in wants if is_settled or not want.has_moved]
    for name in nodes:
        if mine := [want for want in wants if want.node == name]:
            tools.progress.expect(name, len(mine), sum(want.size for want in mine))
    by_image: defaultdict[str, list[Want]] = defaultdict(list)
    for want in wants:
        by_image[want.image_id].append(want)
    lines = {name: anyio.Semaphore(tools.settings.max_parallel) for name in nodes}
    spreads = [_Spread(nodes, inventories, group, rows, tools, lines, results) for group in by_image.values()]
    async with task_group() as tasks:
        for family in _families(spreads):
            tasks.start_soon(_one_by_one, family)


def _moved(want: Want, row: Row) -> Result:
    versions = "; ".join(f"{image_id[:19]} on {', '.join(nodes)}" for image_id, nodes in row.versions)
    detail = f"the tag means different images ({versions}) and no registry says which; --source NODE settles it"
    return Result(
        node=want.node, name=str(want.name), outcome=Outcome.FAILED, reason="MOVED", detail=detail, via="peers"
    )


def _families(spreads: Sequence["_Spread"]) -> list[list["_Spread"]]:
    """Images that may share layers, by the lowest one. Each waits for the one before, so a common layer goes once."""
    families: defaultdict[str, list[_Spread]] = defaultdict(list)
    for spread in spreads:
        families[spread.lowest_layer].append(spread)
    return sorted(families.values(), key=lambda family: -sum(spread.size for spread in family))


async def _one_by_one(family: Sequence["_Spread"]) -> None:
    for spread in family:
        await spread.run()


class _Spread:
    """One image, from its holders to all that lack it or one of its names."""

    def __init__(
        self,
        nodes: Mapping[str, Node],
        inventories: dict[str, Inventory],
        wants: Sequence[Want],
        rows: Mapping[Reference, Row],
        tools: Tools,
        lines: Mapping[str, anyio.Semaphore],
        results: list[Result],
    ) -> None:
        self._nodes = nodes
        self._inventories = inventories
        self._wants = wants
        self._tools = tools
        self._lines = lines
        self._names = tuple(dict.fromkeys(want.name for want in wants))
        self._rows = [rows[name] for name in self._names]
        self._image = self._rows[0].content()
        self._transfer = Transfer(nodes, inventories, tools)
        self._settled: set[str] = set()
        self._results = results
        self._counted: set[str] = set()
        """Nodes whose bytes stand in a result: they are those of the image, not of each of its names."""
        self.size = max(row.size for row in self._rows)

    @property
    def lowest_layer(self) -> str:
        """Empty where the runtime's listing does not say: all such images count as one family."""
        return self._image.layers[0] if self._image.layers else ""

    async def run(self) -> None:
        lackers = list(dict.fromkeys(want.node for want in self._wants))
        for name in lackers:
            if (image := self._content_on(name)) is not None:
                await self._give_names(name, image)
        rest = [name for name in lackers if name not in self._settled]
        for platform in sorted({self._nodes[name].platform for name in rest}, key=str):
            some = [name for name in rest if self._nodes[name].platform == platform]
            holders = [
                name for name, node in self._nodes.items() if node.platform == platform and self._content_on(name)
            ]
            await self._tree(holders, some)
            left = [name for name in some if name not in self._settled]
            self._finish(left, Delivery(reason="PEER", detail=f"no node of platform {platform} could send it"))

    def _content_on(self, name: str) -> Image | None:
        """The image on that node: the same config, or, on another platform, the same index."""
        inventory = self._inventories.get(name)
        if inventory is None:
            return None
        if found := next((image for image in inventory.images if image.id == self._image.id), None):
            return found
        cells = (row.cells.get(name) for row in self._rows)
        return next((cell.image for cell in cells if cell and cell.state is CellState.PRESENT), None)

    async def _give_names(self, name: str, image: Image) -> None:
        node = self._nodes[name]
        started = anyio.current_time()
        trouble = ""
        try:
            for wanted in [want.name for want in self._wants if want.node == name]:
                finished = await node.shell.run(await naming(node, image, wanted, self._tools.settings))
                trouble = trouble or (finished.stderr or f"exit {finished.exit}" if finished.exit else "")
        except NodeError as error:
            trouble = str(error)
        self._finish([name], Delivery(reason="PEER" if trouble else "", detail=trouble), started=started, via=name)

    async def _tree(self, holders: Sequence[str], lackers: Sequence[str]) -> None:
        """Round by round. Who failed to receive does not send; those it was to feed are dealt out anew."""
        waiting, senders = list(lackers), list(holders)
        bad: set[str] = set()
        while waiting and senders:
            sends = sender_rounds(senders, waiting, fanout=self._tools.settings.peer_fanout)[0]
            served: list[str] = []
            async with task_group() as tasks:
                for send in sends:
                    tasks.start_soon(self._send, send, served, bad)
            waiting = [name for name in waiting if name not in self._settled]
            used = {send.sender for send in sends} | bad
            senders = [*served, *(name for name in senders if name not in used)]
            if waiting and not senders:
                # Nobody new can send: the holders themselves may still serve the others.
                senders = [name for name in holders if name not in bad]

    async def _send(self, send: Send, served: list[str], bad: set[str]) -> None:
        started = anyio.current_time()
        image = self._content_on(send.sender)
        assert image is not None
        async with self._tools.total, _Lines(self._lines, {send.sender, *send.receivers}):
            try:
                parcel = Parcel(image=image, names=self._names, size=self.size)
                deliveries = await self._transfer.run(send.sender, send.receivers, parcel)
            except NodeError as error:
                # Its receivers stay waiting for another sender.
                bad.add(send.sender)
                self._tools.logs.warning(f"{send.sender} cannot send {self._names[0]}: {error}")
                return
        for name, delivery in deliveries.items():
            self._finish([name], delivery, started=started, via=send.sender)
            if not delivery.reason:
                served.append(name)
                self._remember(name, image)
                moved = show_size(delivery.received_bytes)
                self._tools.logs.info(f"{name}: {self._names[0]}: copied from {send.sender}, {moved} travelled")

    def _remember(self, name: str, image: Image) -> None:
        """What came, under the names it has there: it may be the next to send."""
        here = msgspec.structs.replace(image, tags=tuple(wanted for wanted in self._names if wanted.tag))
        has = self._inventories[name]
        self._inventories[name] = msgspec.structs.replace(has, images=(*has.images, here))

    def _finish(
        self, names: Sequence[str], delivery: Delivery, *, started: float | None = None, via: str = "peers"
    ) -> None:
        now = anyio.current_time()
        failed = Outcome.TIMEOUT if delivery.is_late else Outcome.FAILED
        for want in self._wants:
            if want.node not in names or want.node in self._settled:
                continue
            result = Result(
                node=want.node,
                name=str(want.name),
                outcome=failed if delivery.reason else Outcome.SUCCESS,
                reason=delivery.reason,
                detail=delivery.detail,
                via=via,
                seconds=now - (now if started is None else started),
                moved_bytes=0 if want.node in self._counted else delivery.received_bytes,
            )
            self._counted.add(want.node)
            self._results.append(result)
            self._tools.progress.done(want.node, want.size, ok=result.outcome is Outcome.SUCCESS)
        self._settled.update(names)


class _Lines:
    """A line on every party of a send, taken in one order by everybody: two sends never wait for each other."""

    def __init__(self, lines: Mapping[str, anyio.Semaphore], parties: set[str]) -> None:
        self._lines = [lines[name] for name in sorted(parties)]
        self._held: list[anyio.Semaphore] = []

    async def __aenter__(self) -> None:
        try:
            for line in self._lines:
                await line.acquire()
                self._held.append(line)
        except BaseException:
            self._release()
            raise

    async def __aexit__(self, *_: object) -> None:
        self._release()

    def _release(self) -> None:
        while self._held:
            self._held.pop().release()
