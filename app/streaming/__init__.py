"""Live subscriptions, their readers, and the streams that carry changes to them."""
