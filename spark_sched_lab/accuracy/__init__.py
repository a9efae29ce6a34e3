"""The accuracy of predictors on a trace."""
