"""What a user would pick instead, doing the same work side by side."""
