"""What is on disk: Arrow schemas, manifests and checksums, the codec of the log."""
