"""Where messages come from: one module a broker."""
