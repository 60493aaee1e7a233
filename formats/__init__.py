"""The formats on disk: Arrow schemas, manifests and checksums, and the codec of the log."""
