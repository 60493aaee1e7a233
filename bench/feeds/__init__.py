"""The feeds' benchmark: ways to find whom a post may matter to, and buffers, beside the prototype."""
