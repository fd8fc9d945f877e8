"""`windlass completion`: the script a shell evaluates. Names of jobs are completed from the server."""

import click
from click.shell_completion import get_completion_class

from windlass.cli.output import say

SHELLS = ("bash", "zsh", "fish")


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print a script that makes SHELL complete commands, options and names of jobs.

    \b
      bash:  echo 'eval "$(windlass completion bash)"' >> ~/.bashrc
      zsh:   echo 'eval "$(windlass completion zsh)"' >> ~/.zshrc
      fish:  windlass completion fish > ~/.config/fish/completions/windlass.fish
    """
    root = ctx.find_root()
    name = root.info_name or "windlass"
    kind = get_completion_class(shell)
    assert kind is not None  # the three shells are click's own
    say(kind(root.command, {}, name, f"_{name.replace('-', '_').upper()}_COMPLETE").source())
