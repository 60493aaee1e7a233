"""The speed of the JavaScript client."""
