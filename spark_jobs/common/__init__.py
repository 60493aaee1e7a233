"""What all jobs share: command line, session, input, image parts, progress."""
