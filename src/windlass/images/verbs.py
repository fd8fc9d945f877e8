"""What each command does once its options are read: open a session, work, print, answer with an exit code."""

import json
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from windlass.core.distribution import BadReference, parse_reference
from windlass.images import render
from windlass.images.copying import CopyOrder, copy_image
from windlass.images.errors import ImageSyncError
from windlass.images.initial import initial_settings
from windlass.images.progress import Progress, Quiet, bars
from windlass.images.pruning import prune_nodes, read_protected
from windlass.images.report import EXIT_COULD_NOT_RUN, EXIT_OK, Report
from windlass.images.session import (
    Interrupted,
    Invocation,
    Session,
    jittered_pause,
    local_now,
    open_session,
    run_interruptibly,
)
from windlass.images.status import take_status
from windlass.images.sync import Choices, synchronise


def sync(invocation: Invocation, *, is_dry_run: bool, source: str | None, as_json: bool, is_quiet: bool) -> int:
    choices = Choices(is_dry_run=is_dry_run, source=source)

    def work(session: Session) -> int:
        async def run(progress: Progress) -> Report:
            return await synchronise(session.config, session.logs, progress, choices=choices, pause=jittered_pause)

        report = _watched(run, is_quiet=is_quiet)
        _show(_json(report.as_json()) if as_json else render.summary(report))
        if not sys.stdout.isatty():
            # cron mails what it hears, and hears only this when the summary goes elsewhere
            aloud = [render.failures(report)] if report.exit_code else []
            _say("".join(f"{line}\n" for line in (*aloud, *render.unmatched_warnings(report.unmatched))))
        return report.exit_code

    return _in_session(invocation, work, "SYNC")


def status(invocation: Invocation, *, shape: str, is_strict: bool) -> int:
    def work(session: Session) -> int:
        seen = run_interruptibly(lambda: take_status(session.config))
        if shape == "json":
            _show(_json(seen.as_json()))
        elif shape == "csv":
            sys.stdout.write(render.matrix_csv(seen))
        else:
            _show(render.matrix(seen))
        if shape != "text" or not sys.stdout.isatty():
            lines = (*map(str, seen.faults.values()), *render.unmatched_warnings(seen.unmatched))
            _say("".join(f"{line}\n" for line in lines))
        return seen.exit_code(is_strict=is_strict)

    return _in_session(msgspec.structs.replace(invocation, only_looks=True), work, "STATUS")


def prune(invocation: Invocation, *, protect: Sequence[str], is_real: bool, as_json: bool) -> int:
    def work(session: Session) -> int:
        protected = read_protected(session.config.settings.protect_file, protect)
        now = int(local_now().timestamp())
        report = run_interruptibly(
            lambda: prune_nodes(session.config, session.logs, protected, is_real=is_real, now=now)
        )
        _show(_json(report.as_json()) if as_json else report.as_text())
        return report.exit_code

    return _in_session(invocation, work, "PRUNE")


def copy(invocation: Invocation, image: str, *, source: str | None, targets: Sequence[str], as_json: bool) -> int:
    def work(session: Session) -> int:
        try:
            name = parse_reference(image)
        except BadReference as error:
            raise ImageSyncError("image.invalid", str(error), where="IMAGE") from error
        order = CopyOrder(name=name, source=source, targets=tuple(targets))

        async def run(progress: Progress) -> Report:
            return await copy_image(session.config, session.logs, progress, order, pause=jittered_pause)

        report = _watched(run)
        _show(_json(report.as_json()) if as_json else render.summary(report))
        return report.exit_code

    return _in_session(invocation, work, "COPY")


def write_settings(path: Path) -> int:
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(initial_settings(path.suffix == ".toml"))
    except FileExistsError:
        _say(f"{path}: there is one already; it was not touched\n")
        return EXIT_COULD_NOT_RUN
    except OSError as error:
        _say(f"{path}: {error.strerror}\n")
        return EXIT_COULD_NOT_RUN
    _show(f"{path} written. Set NODES and PREFIXES in it (and LOG_DIR), then try: image-sync --config {path} --dry-run")
    return EXIT_OK


def _watched(run: Callable[[Progress], Awaitable[Report]], *, is_quiet: bool = False) -> Report:
    """With bars where somebody looks."""

    async def visibly() -> Report:
        with bars() as shown:
            return await run(shown)

    is_seen = sys.stderr.isatty() and not is_quiet
    return run_interruptibly(visibly if is_seen else lambda: run(Quiet()))


def _in_session(invocation: Invocation, work: Callable[[Session], int], verb: str) -> int:
    """Everything a run can end by becomes its exit code here, and leaves its line."""
    try:
        with open_session(invocation, stderr=_say) as session:
            try:
                return work(session)
            except Interrupted as interruption:
                if not invocation.only_looks:
                    session.logs.error(f"{verb} INTERRUPTED: signal {interruption.number}", always=True)
                raise
            except ImageSyncError as error:
                if not invocation.only_looks:
                    session.logs.error(str(error), always=True)
                raise
    except ImageSyncError as error:
        _say(f"image-sync: {error}\n")
        return EXIT_COULD_NOT_RUN
    except Interrupted as interruption:
        _say(f"image-sync: interrupted by signal {interruption.number}\n")
        return interruption.exit_code


def _json(document: Any) -> str:
    return json.dumps(document, indent=2, ensure_ascii=False)


def _show(text: str) -> None:
    sys.stdout.write(f"{text}\n")


def _say(text: str) -> None:
    sys.stderr.write(text)


__all__ = ["copy", "prune", "status", "sync", "write_settings"]
