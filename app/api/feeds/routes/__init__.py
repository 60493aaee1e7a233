"""The operations of feeds, one module for each kind of sub-resource; importing them adds them to the router."""

from app.api.feeds.router import router
from app.api.feeds.routes import feeds, posts, subscriptions

__all__ = ["feeds", "posts", "router", "subscriptions"]
