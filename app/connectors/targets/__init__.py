"""Where stream events go: one module a broker, and one for those that FastStream publishes to."""
