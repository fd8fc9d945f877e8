"""Plain routes that tell the envelope which they are, as the framework's own do: measures go by a route's template."""

from starlette.routing import Match, Route
from starlette.types import Scope


class NamedRoute(Route):
    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        match, child_scope = super().matches(scope)
        if match is not Match.NONE:
            child_scope["route"] = self
        return match, child_scope
