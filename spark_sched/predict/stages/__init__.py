"""Forecasts of a job's stages, from earlier runs of the same job name."""
