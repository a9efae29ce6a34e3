"""The simulator's engine: clock, agenda, jobs, attempts, and the plan in force."""
