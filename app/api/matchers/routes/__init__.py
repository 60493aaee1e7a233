"""The operations of matchers, one module for each kind of sub-resource; importing them adds them to the router."""

from app.api.matchers.router import router
from app.api.matchers.routes import match, matchers, subscriptions

__all__ = ["match", "matchers", "router", "subscriptions"]
