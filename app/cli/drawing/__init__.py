"""Pictures for the command line: the (l, r) plane with tiles, maps with zones."""
