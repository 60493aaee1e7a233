"""The REST service: requests become commands, commands go through one writer, outcomes reach who asked for them."""
