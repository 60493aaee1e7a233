"""The papers' tables and the comparisons with other systems, as commands."""
