"""Other indexes that a relay can be configured with."""
