"""The operations of relays, one module for each kind of sub-resource; importing them adds them to the router."""

from app.api.relays.router import router
from app.api.relays.routes import commands, links, notifications, relays, subscriptions

__all__ = ["commands", "links", "notifications", "relays", "router", "subscriptions"]
