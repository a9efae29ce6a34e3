"""How well predictors do on a trace."""
