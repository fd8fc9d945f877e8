"""From what was typed to a manifest, and from a project directory to a released job: shared by `run` and `egpu create`."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from windlass.cli.interrupts import endings_raised
from windlass.cli.output import can_redraw, note
from windlass.cli.plain import clean_lines
from windlass.cli.progress import transfer
from windlass.cli.render.values import bytes_of, name_of
from windlass.client.client import Client
from windlass.client.documents import Document, Manifest
from windlass.core.errors import WindlassError

API_VERSION = "windlass.dev/v1"
ARTIFACTS = "/artifacts"


def manifest(
    kind: str,
    *,
    name: str | None,
    labels: Iterable[tuple[str, str]] = (),
    spec: Mapping[str, Any],
    needs: Mapping[str, Any],
) -> Document:
    """What was not given is left out: the defaults are the server's."""
    metadata: Document = {"name": name, "labels": dict(labels) or None}
    resources = {k: v for k, v in needs.items() if v is not None}
    return {
        "apiVersion": API_VERSION,
        "kind": kind,
        "metadata": {k: v for k, v in metadata.items() if v},
        "spec": {k: v for k, v in {**spec, "resources": resources or None}.items() if v is not None},
    }


def submit(client: Client, document: Document, project: Path | None, *, is_quiet: bool = False) -> Manifest:
    """Accepted and, with a project, uploaded, verified and released. A job whose upload fails is taken back."""
    if project is None:
        return client.create(document)
    from windlass.client.pack import Project

    packed = Project(project)  # before the job exists: a wrong directory must leave nothing behind
    if packed.skipped and not is_quiet:
        note(
            f"not uploaded, being special files or links that lead outside: {', '.join(packed.skipped[:5])}{_more(packed.skipped)}"
        )
    with endings_raised():
        job = client.create_for_upload(document)
        try:
            return _fill_and_release(client, job, packed, is_quiet=is_quiet)
        except BaseException:
            note(f"the upload did not finish; taking {name_of(job)} back")
            _take_back(client, job["metadata"]["uid"])
            raise


def _fill_and_release(client: Client, job: Manifest, packed: Any, *, is_quiet: bool) -> Manifest:
    uid = job["metadata"]["uid"]
    is_drawn = can_redraw(err=True) and not is_quiet
    with transfer("checking", packed.length, is_drawn=is_drawn) as told:
        digest = packed.digest(told)
    with transfer("uploading", packed.length, is_drawn=is_drawn) as told:
        packed.on_sent = told
        client.upload(uid, packed, digest=digest)
    if is_drawn:
        note(
            f"{packed.files} {'file' if packed.files == 1 else 'files'}, {bytes_of(packed.length)} uploaded and verified"
        )
    return client.release(uid)


def _take_back(client: Client, uid: str) -> None:
    try:
        client.another().delete(uid, volume=True)
    except WindlassError as exc:
        note(f"it could not be deleted: {clean_lines(exc.message)}")


def _more(names: list[str]) -> str:
    return f" and {len(names) - 5} more" if len(names) > 5 else ""
