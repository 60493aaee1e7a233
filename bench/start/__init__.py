"""What a fresh clone takes to its first list: installing, compiling, starting."""
