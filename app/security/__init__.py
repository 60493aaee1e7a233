"""Who may do what: API keys, tokens, tickets, and the scopes that they carry."""
