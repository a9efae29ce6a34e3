"""Mean task times, by pilots, by history and by both (SLearn)."""
