"""Pages for people: what the service is, its reference, and its problem types."""
