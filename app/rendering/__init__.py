"""Engine results as JSON text, one module a resource, shared by responses and streams."""
