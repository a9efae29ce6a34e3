"""Mean task times from pilots, from history and from both (SLearn)."""
