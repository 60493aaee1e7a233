"""The blocking client, generated. `rankcast_client.sync` names it."""
