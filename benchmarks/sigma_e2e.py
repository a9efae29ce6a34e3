"""3Sigma's end-to-end comparison (§5, §6.1) in the simulator: misses, goodput and best-effort latency.

Per seed one E2E workload (`spark_sched_lab.traces.generators.e2e`: 256 one-slot nodes in 8 partitions, load
1.4, half of the work with deadlines of 20 to 80 % slack, c² = 4), the same for all policies. The predictor
has learned another workload of the generator first, twice as long, as §5 pre-trains; `point-perf-est` knows
every runtime, and `3sigma-uncalibrated` plans with the histograms themselves, as the paper does. The
planner's cycle is 2 s. SLO jobs due within the hours simulated count; goodput is the work of jobs that ended
by then (late ones too), at full speed: a job that ran in a slower place has done no more. Best-effort
latency is over those that ended, and how many did not stands beside it. Differences are formed seed by seed;
bounds are of 95 % (docs/adr/0023-intervals-of-paired-runs.md).

    python benchmarks/sigma_e2e.py [--hours 5] [--seeds 1,2,3,4,5] [--policies 3sigma,…] [--kept DIR]
"""

from __future__ import annotations

from pathlib import Path

import click
from _common import publish, stderr

from benchmarks.papers.figures import Value
from benchmarks.papers.runs import RunSpec, Store, execute
from benchmarks.papers.three_sigma.comparison import arm_run
from benchmarks.papers.three_sigma.summaries import LABELS, METRICS, differences, mean_ci


@click.command(help=__doc__)
@click.option("--hours", default=5.0, help="Hours simulated.")
@click.option("--load", default=1.4, help="Offered work over capacity.")
@click.option("--seeds", default="1,2,3,4,5", help="Of the workloads, separated by commas.")
@click.option("--policies", default=",".join(LABELS), help="Policies, separated by commas.")
@click.option("--kept", type=click.Path(path_type=Path), help="Where finished runs are kept and taken from.")
@click.option("--json", "json_output", is_flag=True, help="One JSON document on standard output.")
def main(hours: float, load: float, seeds: str, policies: str, kept: Path | None, json_output: bool) -> None:
    numbers, names = [int(seed) for seed in seeds.split(",")], policies.split(",")
    wanted = {(name, seed): arm_run(name, seed, hours, load) for seed in numbers for name in names}

    def done(run: RunSpec, was_kept: bool) -> None:
        stderr.print(run.arguments, "kept" if was_kept else "done")

    store = None if kept is None else Store(kept)
    results = execute(list(wanted.values()), workers=1, store=store, done=done)
    found = {name: [results[wanted[name, seed]] for seed in numbers] for name in names}
    lines = []
    for name, mine in found.items():
        means = []
        for field, what, unit in METRICS:
            values = [each[field] for each in mine if each[field] is not None]
            means.append(f"{what} {_bounded(*mean_ci(values))} {unit}" if values else f"{what}: none ended")
        lines.append(f"{name}: {', '.join(means)}")
    if "3sigma" in names:
        for other in names:
            if other != "3sigma":
                of = [
                    differences("3sigma", other, found, "slo_miss_percent", "points"),
                    differences("3sigma", other, found, "goodput_machine_h", "", percent=True),
                    differences("3sigma", other, found, "be_latency_s", "", percent=True),
                ]
                lines.append(
                    f"3sigma less {other}: misses {_value(of[0])}, goodput {_value(of[1])}, "
                    f"BE latency {_value(of[2])}"
                )
    runs = [each for mine in found.values() for each in mine]
    publish({"runs": len(numbers), "hours": hours, "load": load, "results": runs}, lines, json_output)


def _value(value: Value) -> str:
    return "none" if value.ours is None else f"{_bounded(value.ours, value.ci95)} {value.unit}"


def _bounded(mean: float, interval: tuple[float, float] | None) -> str:
    return f"{mean:.1f}" + ("" if interval is None else f" ({interval[0]:.1f} to {interval[1]:.1f})")


if __name__ == "__main__":
    main()
