"""`windlass registries`: logins for images that are not everybody's."""

import time

import click

from windlass.cli.command import Command, client_of
from windlass.cli.commands.secrets import show_listed, typed_or_piped
from windlass.cli.output import output_option, say
from windlass.cli.render import lists


@click.group()
def registries() -> None:
    """Your logins at image registries: used to pull your jobs' images, and for nothing else."""


@registries.command(cls=Command)
@click.argument("registry", metavar="HOST[:PORT]")
@click.option("-u", "--username", required=True, help="Who you are there.")
@click.pass_context
def login(ctx: click.Context, registry: str, username: str) -> None:
    """Log in at a registry; the password is asked for, or piped.

    \b
      windlass registries login registry.example.com:5000 -u ci < password.txt

    It is used for images that begin with exactly this HOST[:PORT]. Whether it is right shows at the first pull.
    """
    made = client_of(ctx).log_in(registry, username, typed_or_piped("Password"))
    say(f"registry/{made['registry']} login of {made['username']} kept")


@registries.command("list", cls=Command)
@output_option("table", "wide", "json", "yaml", "name")
@click.pass_context
def list_logins(ctx: click.Context, form: str) -> None:
    """Registries you are logged in at, and as whom."""
    show_listed(client_of(ctx).logins(), form, "registry", lists.LOGINS, lambda i: lists.login_rows(i, time.time()))


@registries.command(cls=Command)
@click.argument("registry", metavar="HOST[:PORT]")
@click.pass_context
def logout(ctx: click.Context, registry: str) -> None:
    """Forget a login. Images that were pulled with it stay, for those whom the registry lets read them."""
    gone = client_of(ctx).log_out(registry)
    say(f"registry/{gone['registry']} login of {gone['username']} removed")
