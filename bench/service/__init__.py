"""`rankcast bench service`: single writes to all five resources, beside a plain FastAPI route that commits one row."""
