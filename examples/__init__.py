"""Small applications on Rankcast, one for each resource; each runs against the service at RANKCAST_URL and ends."""
