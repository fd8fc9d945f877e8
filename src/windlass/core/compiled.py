"""Whether the part that decides is compiled here (decision 0020): the same Windlass either way, so it has to be asked to tell."""

from typing import Final

from windlass.core.world import world

IS_COMPILED: Final = not str(world.__file__).endswith(".py")
