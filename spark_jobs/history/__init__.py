"""Jobs that replay a history against a snapshot: events of matchers, trajectories on maps."""
