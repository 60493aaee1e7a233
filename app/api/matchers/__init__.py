"""The HTTP interface of matchers: routes, models, parsing of request bodies."""
