"""The HTTP interface of relays: routes, models, parsing of request bodies."""
