"""How a part says no."""


class MissingPart(Exception):
    """A server that the test needs is not on this machine, or may not be started by this user."""


class PartFailed(Exception):
    """A server did not start, or died, or refused; carries the end of its log where there is one."""
