"""Range top-k subscriptions: the algorithms of Yu, Agarwal and Yang, and the engine that owns a board's state."""
