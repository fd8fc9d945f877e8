"""The commands on the PATH. Nothing heavy is imported here: a command line is as quick as its first import."""

import sys
from typing import NoReturn

_MOUNTED = {
    "up": "windlass.boot.up:command",
    "down": "windlass.boot.down:command",
    "backup": "windlass.boot.backup:command",
    "restore": "windlass.boot.restore:command",
    "doctor": "windlass.boot.doctor:command",
    "operator": "windlass.boot.operator:command",
    "images": "windlass.images.command:images",
}


def windlass() -> NoReturn:
    from windlass.cli.app import build

    sys.exit(build(_MOUNTED)())


def egpu() -> NoReturn:
    from windlass.cli.egpu.app import build

    sys.exit(build()())


def image_sync() -> NoReturn:
    from windlass.images.command import image_sync as command

    sys.exit(command())
