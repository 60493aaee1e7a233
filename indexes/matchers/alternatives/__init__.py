"""Other indexes that a matcher can be configured with."""
