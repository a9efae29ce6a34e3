"""Pages, plots and the basis of a measurement: what every report is made of."""
