"""The HTTP interface of feeds: routes, models, parsing of request bodies."""
