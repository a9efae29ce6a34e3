"""3Sigma's scheduler (Park et al., §4): options, their worth, the problem, its solvers, the plan."""
