"""What tracing costs: `rankcast bench tracing`."""
