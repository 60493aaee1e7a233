"""Webhooks: the events of live subscriptions, sent to receivers as signed requests.

`webhooks` has all of them, `sender` is one with its queue, `receivers` sends its requests, `signing` signs them.
"""
