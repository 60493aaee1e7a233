"""Commands of ``rankcast`` beside the service's own, a module each, registered in ``app.cli``."""
