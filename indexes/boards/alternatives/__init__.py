"""Other indexes that a board can be configured with."""
