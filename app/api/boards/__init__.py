"""The HTTP interface of boards: routes, models, parsing of request bodies."""
