"""What webhooks cost those who write."""
