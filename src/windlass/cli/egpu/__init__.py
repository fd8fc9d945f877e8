"""The `egpu` command: ephemeral accelerated jobs, with the verbs and flags people know from it."""

from windlass.cli.egpu.app import build

__all__ = ["build"]
