"""The HTTP interface of maps: routes, models, parsing of request bodies."""
