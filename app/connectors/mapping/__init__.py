"""Messages of others as events: which field is the id, which are the attributes, a JSON pointer each."""
