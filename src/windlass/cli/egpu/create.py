"""`egpu create`: the job, its project uploaded and verified before anything starts, then its course until the end."""

from pathlib import Path
from typing import Any

import click

from windlass.cli import exits
from windlass.cli.command import CommandWithWords, client_of, words_after_dashes
from windlass.cli.follow import follow_to_end
from windlass.cli.output import is_terminal, note, say
from windlass.cli.parameters import Duration, GivenPath, Pair, not_empty
from windlass.cli.render.values import name_of
from windlass.cli.submission import manifest, submit
from windlass.client.documents import Document

KIND = "EphemeralAccelerationJob"
MODELS = ("resnet50", "mobilenet_v3_small")


@click.command(cls=CommandWithWords)
@click.argument("name", callback=not_empty)
@click.option("--project-dir", type=GivenPath(), metavar="DIR", help="Upload DIR to /artifacts first.")
@click.option("--image", help="Any image; else the inference workload.")
@click.option("--model", metavar="NAME", help=f"{' or '.join(MODELS)}.  [default: resnet50]")
@click.option("--gpu", type=click.IntRange(0), metavar="N", help="Accelerators; 0 runs on the CPU.  [default: 1]")
@click.option("--cpu", metavar="CORES", help="Cores, such as 2 or 500m.  [default: 1]")
@click.option("--memory", metavar="SIZE", help="Memory, such as 2Gi.  [default: 512Mi]")
@click.option("--timeout", type=Duration(), metavar="TIME", help="End it after this long, such as 90s or 2h.")
@click.option("--retries", type=click.IntRange(0, 100), metavar="N", help="Further attempts after a failure.")
@click.option("--ttl", type=Duration(), metavar="TIME", help="Keep the ended container this long.  [default: 0]")
@click.option("--pvc-ttl", type=Duration(), metavar="TIME", help="Keep the volume this long.  [default: 1h]")
@click.option("--pvc-size", metavar="SIZE", help="Size of the volume.  [default: 1Gi]")
@click.option("--storage-class", metavar="NAME", help="Where volumes have classes.")
@click.option("--input", "input_path", metavar="PATH", help="The picture.  [default: /artifacts/input.jpg]")
@click.option("--output", "output_path", metavar="PATH", help="The answer.  [default: /artifacts/output.json]")
@click.option("-e", "--env", type=Pair(from_environment=True), multiple=True, help="A variable; KEY alone takes yours.")
@click.option("--watch/--no-watch", default=None, help="Follow it to its end.  [default: with --project-dir]")
@click.pass_context
def create(ctx: click.Context, /, name: str, project_dir: Path | None, watch: bool | None, **given: Any) -> None:
    """Create the job NAME, and its volume if that is not there yet.

    With --project-dir nothing starts before the upload is complete and verified; the job is then watched to its end and
    its exit code returned. A command may follow after `--`.
    """
    client = client_of(ctx)
    job = submit(client, _manifest(name, words_after_dashes(ctx) or (), given), project_dir)
    say(f"{name_of(job)} created", err=watch is not False and project_dir is not None)
    if not (project_dir is not None if watch is None else watch):
        return
    code = follow_to_end(client, job)
    if code == exits.OK and is_terminal(err=True):
        note(f"`{client.command(f'download {name_of(job)}', program='egpu')}` fetches what it made")
    ctx.exit(code)


def _manifest(name: str, command: tuple[str, ...], given: dict[str, Any]) -> Document:
    spec = {
        "image": given["image"],
        "command": list(command) or None,
        "model": given["model"],
        "input": {"path": given["input_path"]} if given["input_path"] else None,
        "output": {"path": given["output_path"]} if given["output_path"] else None,
        "env": dict(given["env"]) or None,
        "timeoutSeconds": given["timeout"],
        "retries": given["retries"],
        "ttlSecondsAfterFinished": given["ttl"],
        "pvcTTLSecondsAfterFinished": given["pvc_ttl"],
        "pvcSize": given["pvc_size"],
        "storageClass": given["storage_class"],
    }
    needs = {"cpu": given["cpu"], "memory": given["memory"], "gpu": given["gpu"]}
    return manifest(KIND, name=name, spec=spec, needs=needs)
