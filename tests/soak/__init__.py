"""A service in the shape of production for hours: churn, readers, faults by the minute, and no difference allowed."""
