"""The verbs of `egpu` and where each lives."""

from collections.abc import Mapping

import click

from windlass.cli.app import App
from windlass.cli.command import connection_options
from windlass.cli.lazy import Verb

_HERE = "windlass.cli.egpu"
RUN, LOOK, FILES, CHANGE = "Run something", "Look at it", "Files", "Change it"

VERBS: Mapping[str, Verb] = {
    "create": Verb(at=f"{_HERE}.create:create", section=RUN, help="Create a job; with a project, upload it and watch."),
    "copy-file": Verb(
        at="windlass.cli.commands.files:copy_file", section=RUN, help="Fetch a URL into a job's volume beforehand."
    ),
    "get": Verb(at=f"{_HERE}.verbs:get", section=LOOK, help="One job."),
    "list": Verb(at=f"{_HERE}.verbs:list_all", section=LOOK, help="All of them."),
    "watch": Verb(at=f"{_HERE}.verbs:watch", section=LOOK, help="Changes as they happen."),
    "logs": Verb(at="windlass.cli.commands.logs:logs", section=LOOK, help="What a job printed."),
    "download": Verb(at="windlass.cli.commands.files:download", section=FILES, help="Fetch a job's artifacts."),
    "debug": Verb(at=f"{_HERE}.verbs:debug", section=FILES, help="A shell beside a job's volume."),
    "cancel": Verb(at="windlass.cli.commands.change:cancel", section=CHANGE, help="Stop jobs."),
    "delete": Verb(at=f"{_HERE}.verbs:delete", section=CHANGE, help="Remove jobs and, if asked, their volumes."),
    "cleanup": Verb(at="windlass.cli.commands.change:cleanup", section=CHANGE, help="Remove volumes that are due."),
    "completion": Verb(at="windlass.cli.commands.completion:completion", section="Other", help="Set up your shell."),
}
EXAMPLES = """\b
  egpu create my-job --project-dir ./code
  egpu copy-file my-job https://example.com/cat.jpg && egpu create my-job --watch
  egpu download my-job output.json"""


def build() -> click.Group:
    return App(
        name="egpu",
        help=f"Ephemeral accelerated jobs: one picture in, one answer out, nothing left behind.\n\n{EXAMPLES}",
        verbs=VERBS,
        params=connection_options(),
        no_args_is_help=True,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    )
