"""Suite files of A/B tests: what they become, and what is refused before anything starts."""

from pathlib import Path

import numpy as np
import pytest

from spark_sched.errors import BadInputError
from spark_sched.policies import kind_of
from spark_sched_lab.runs.ab.live import _mark as live_mark
from spark_sched_lab.runs.ab.suite import ALONE, parse_suite, read_suite
from spark_sched_lab.runs.demo import design
from spark_sched_lab.runs.workloads.foreground import WORKLOADS
from spark_sched_lab.runs.workloads.programs import PROGRAMS

CONF = Path(__file__).parents[5] / "conf"
WORKLOAD = '[[workload]]\nname = "sleep"\nsleepms = 100\n'
ARMS = '[[arm]]\nname = "stock"\nscheduler = "fair"\n[[arm]]\nname = "P"\nisolation = 0.4\n'


def parse(text):
    return parse_suite(text, "suite.toml")


def arm(*lines):
    return WORKLOAD + '[[arm]]\nname = "stock"\nscheduler = "fair"\n[[arm]]\nname = "b"\n' + "\n".join(lines)


@pytest.mark.parametrize("path", sorted((CONF / "ab").glob("*.toml")), ids=lambda path: path.stem)
def test_the_suites_that_ship_are_valid(path):
    assert read_suite(path).arms


def test_the_deadline_suite_has_the_arms_of_figure_14_on_two_applications():
    suite = read_suite(CONF / "ab" / "deadlines.toml")
    levels = [arm.isolation for arm in suite.arms if not arm.stock]
    assert levels == [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
    assert [job.program.name for job in suite.workloads] == ["kmeans", "svm", "pagerank"]
    assert suite.baseline == "stock"
    assert suite.settings[0] == ALONE
    assert suite.settings[-1] == suite.null == "stock (again)"
    assert suite.arm(suite.null) is suite.arm(ALONE) is suite.arms[0]
    assert len({arm.application for arm in suite.arms}) == 2


def test_the_demos_suite_has_the_demos_sizes_and_marks():
    suite = read_suite(CONF / "ab" / "demo.toml")
    assert (suite.cluster.workers, suite.cluster.slots) == (design.WORKERS, design.SLOTS_PER_WORKER)
    assert suite.background is not None
    assert suite.background.batch == design.FULL.batch
    names = ("partitions", "min_read_s", "max_read_s", "maxiterations")
    sizes = (design.PARALLELISM, design.FULL.min_read_s, design.FULL.max_read_s, design.FULL.passes)
    for job in suite.workloads:
        assert tuple(job.parameters[name] for name in names) == sizes
    assert [job.program.name for job in suite.workloads] == list(WORKLOADS)
    assert suite.baseline == "stock"
    ours = suite.arm("spark_sched")
    assert (ours.isolation, ours.copies, ours.priority) == (design.ISOLATION, design.COPIES, design.PRIORITY)
    assert not ours.properties


def test_lists_of_parameters_are_a_matrix_with_the_last_list_fastest():
    suite = parse('[[workload]]\nname = "sleep"\nsleepms = [10, 20]\ntasks = [1, 2]\nstages = 3\n' + ARMS)
    found = [(job.label, job.parameters["sleepms"], job.parameters["tasks"]) for job in suite.workloads]
    assert found == [
        ("sleep sleepms=10 tasks=1", 10, 1),
        ("sleep sleepms=10 tasks=2", 10, 2),
        ("sleep sleepms=20 tasks=1", 20, 1),
        ("sleep sleepms=20 tasks=2", 20, 2),
    ]


def test_parameters_are_compared_without_case_as_sparkbench_does():
    suite = parse('[[workload]]\nname = "sleep"\nsleepMS = 70\n' + ARMS)
    assert suite.workloads[0].parameters["sleepms"] == 70


def test_an_arms_keys_become_marks_and_settings():
    suite = parse(
        arm('policy = "fair"', 'hold = "3s"', "pre_reserve = 0.7", 'copies = "never"')
        + '\n[[arm]]\nname = "c"\npolicy = "3sigma"\ndeadline = "15s"\n'
    )
    found, due = suite.arms[1:]
    assert (due.deadline_s, due.policy) == (15.0, "3sigma")
    assert (found.copies, found.isolation, found.policy) == ("never", None, "fair")
    assert dict(found.properties) == {
        "spark.sched.planner.policy": "fair",
        "spark.sched.reservation.deadline": "fixed",
        "spark.sched.reservation.maxHold": "3000ms",
        "spark.sched.reservation.preReserveThreshold": "0.7",
    }


def test_shared_settings_hold_for_arms_that_set_nothing_else():
    suite = parse(
        '[settings]\n"spark.sched.reservation.isolation" = 0.3\n' + WORKLOAD + '[[arm]]\nname = "a"\n'
        '[[arm]]\nname = "b"\nisolation = 0.9\n[[arm]]\nname = "c"\n'
        'settings = { "spark.sched.reservation.isolation" = 0.5 }\n'
    )
    assert [arm.isolation for arm in suite.arms] == [0.3, 0.9, 0.5]


def test_an_arm_marks_its_job_with_a_level_only_if_it_sets_one():
    suite = parse(
        '[settings]\n"spark.sched.reservation.isolation" = 0.3\n' + WORKLOAD + '[[arm]]\nname = "tuned"\n'
        'policy = "tuned-reservation"\n[[arm]]\nname = "given"\npolicy = "tuned-reservation"\n'
        "isolation = 0.3\n"
        '[[arm]]\nname = "held"\nhold = "3s"\n'
    )
    assert [arm.isolation for arm in suite.arms] == [None, 0.3, None]
    assert [arm.level for arm in suite.arms] == [0.3, 0.3, 1.0]
    marks = [live_mark(arm, "sleep") for arm in suite.arms]
    assert [mark.isolation for mark in marks if mark is not None] == [None, 0.3, None]
    with pytest.raises(BadInputError, match="the arms 'a' and 'b' have the same settings"):
        parse(WORKLOAD + '[[arm]]\nname = "a"\n[[arm]]\nname = "b"\nisolation = 1.0\n')


@pytest.mark.parametrize(("text", "copies"), [("TRUE", "auto"), ("False", "never")])
def test_a_flag_among_the_settings_is_read_in_any_case(text, copies):
    settings = f'settings = {{ "spark.sched.copies.enabled" = "{text}" }}'
    assert parse(arm(settings, "isolation = 0.5")).arms[1].copies == copies


REFUSED = {
    "an unknown workload": (
        '[[workload]]\nname = "kmean"\n' + ARMS,
        r"unknown workload 'kmean' \(did you mean 'kmeans'\?\)",
    ),
    "an unknown parameter": (
        '[[workload]]\nname = "kmeans"\nmaxiteration = 3\n' + ARMS,
        r"unknown key workload\[0\].maxiteration \(did you mean 'maxiterations'\?\)",
    ),
    "a parameter twice in other case": (
        '[[workload]]\nname = "sleep"\nsleepms = 1\nsleepMS = 2\n' + ARMS,
        "sets a parameter twice",
    ),
    "a wrong parameter": (
        '[[workload]]\nname = "kmeans"\nk = 0\n' + ARMS,
        r"workload\[0\].k is 0 but must be a whole number from 1",
    ),
    "a sleep without a time": ('[[workload]]\nname = "sleep"\n' + ARMS, "neither sleepms nor distribution"),
    "a distribution without its mean": (
        '[[workload]]\nname = "sleep"\ndistribution = "poisson"\n' + ARMS,
        "mean is missing, which the distribution 'poisson' needs",
    ),
    "an empty list": ('[[workload]]\nname = "sleep"\nsleepms = []\n' + ARMS, "a list of at least one"),
    "no workload": (ARMS, "workload is missing"),
    "two workloads of one label": (WORKLOAD * 2 + ARMS, "two workloads have the label 'sleep'"),
    "zero runs": (
        "[runs]\nblocks = 0\n" + WORKLOAD + ARMS,
        "runs.blocks is 0 but must be a whole number from 1",
    ),
    "a first look after the last block": (
        "[runs]\nblocks = 6\nfirst_look = 9\n" + WORKLOAD + ARMS,
        "at most blocks, which is 6",
    ),
    "one arm": (WORKLOAD + '[[arm]]\nname = "a"\n', "two arms or more but there are 1"),
    "two arms of one name": (arm() + ARMS, "two arms have the name 'stock'"),
    "arms that are the same": (
        WORKLOAD + '[[arm]]\nname = "a"\nisolation = 1\n[[arm]]\nname = "b"\n',
        "the arms 'a' and 'b' have the same settings",
    ),
    "arms that differ in a default": (
        WORKLOAD + '[[arm]]\nname = "a"\n[[arm]]\nname = "b"\npolicy = "reservation"\n',
        "the arms 'a' and 'b' have the same settings",
    ),
    "a deadline that no policy reads": (
        arm('deadline = "9s"'),
        r"arm\[1\] \(b\) sets deadline, which the policy 'reservation' does not read: remove it",
    ),
    "a priority under fifo": (
        arm('policy = "fifo"', "priority = 3"),
        "sets priority, which the policy 'fifo'",
    ),
    "a level under fifo": (arm('policy = "fifo"', "isolation = 0.3"), "sets isolation, which the policy"),
    "a hold under a policy that holds nothing": (arm('policy = "las"', 'hold = "3s"'), "sets hold, which"),
    "a level as a setting under fifo": (
        arm('policy = "fifo"', 'settings = { "spark.sched.reservation.isolation" = 0.4 }'),
        "sets isolation, which the policy 'fifo' does not read",
    ),
    "a level without reservations": (
        arm("isolation = 0.3", 'settings = { "spark.sched.reservation.enabled" = false }'),
        "sets isolation, which nothing reads with spark.sched.reservation.enabled=false",
    ),
    "a deadline without a planner": (
        arm('deadline = "9s"', 'settings = { "spark.sched.planner.enabled" = false }'),
        "sets deadline, which the configured order, without a planner, does not read",
    ),
    "a level beside a fixed hold": (
        arm("isolation = 0.3", 'hold = "3s"'),
        r"sets isolation, which a fixed deadline \(hold\) does not depend on",
    ),
    "the same thing twice by key and setting": (
        arm("isolation = 0.2", 'settings = { "spark.sched.reservation.isolation" = 0.4 }'),
        "sets the same thing twice, isolation and spark.sched.reservation.isolation",
    ),
    "copies twice": (
        arm('copies = "auto"', 'settings = { "spark.sched.copies.enabled" = false }'),
        "sets the same thing twice, copies and spark.sched.copies.enabled",
    ),
    "one key twice": (arm("isolation = 0.2", "isolation = 0.2"), "is not a TOML file"),
    "an unknown setting": (
        arm('settings = { "spark.sched.reservation.isolatoin" = 0.4 }'),
        r"unknown setting .* \(did you mean 'spark.sched.reservation.isolation'\?\)",
    ),
    "a setting that is not Spark's": (arm('settings = { "isolation" = 0.4 }'), "unknown setting isolation"),
    "a mark as a setting": (
        arm('settings = { "spark.sched.job.priority" = 4 }'),
        "spark.sched.job.priority marks a job, and no policy reads it here",
    ),
    "a property of the runs": (arm('settings = { "spark.cores.max" = 4 }'), "set by the experiment itself"),
    "a mark under Spark's own scheduler": (
        arm('scheduler = "fifo"', "isolation = 0.5"),
        "sets isolation, which Spark's own FIFO scheduler does not read",
    ),
    "a setting under Spark's own scheduler": (
        arm('scheduler = "fifo"', 'settings = { "spark.sched.copies.enabled" = false }'),
        "sets spark.sched.copies.enabled, which Spark's own FIFO scheduler does not read",
    ),
    "an unknown policy": (arm('policy = "faire"'), r"did you mean 'fair'\?"),
    "an unknown scheduler": (arm('scheduler = "fare"'), r"did you mean 'fair'\?"),
    "an endless time": (
        '[[workload]]\nname = "sleep"\ndistribution = "uniform"\nmax = inf\n' + ARMS,
        r"workload\[0\].max is inf but must be .*, and finite",
    ),
    "a mean that no distribution has": (
        '[[workload]]\nname = "sleep"\ndistribution = "poisson"\nmean = 1e300\n' + ARMS,
        r"mean is 1e\+300 but must be a number from 0 to 86400000",
    ),
    "an endless read": ('[[workload]]\nname = "kmeans"\nmax_read_s = inf\n' + ARMS, "max_read_s is inf"),
    "a number of more than 64 bits": (
        '[[workload]]\nname = "sleep"\nsleepms = 10000000000000000000000\n' + ARMS,
        "sleepms is 10000000000000000000000 but must be a whole number from 1 to 86400000",
    ),
    "a priority that the JVM has not": (arm("priority = 3000000000"), "priority is 3000000000 but must be"),
    "a share above 1": (arm("pre_reserve = 2.0"), "pre_reserve is 2.0 but must be a number from 0 to 1"),
    "two goals of one policy": (
        arm(
            'policy = "tuned-reservation"',
            "[arm.settings]",
            '"spark.sched.policy.tuned-reservation.loss" = 0.1',
            '"spark.sched.policy.tuned-reservation.slowdown" = 1.3',
        ),
        "are both set: set one goal",
    ),
    "background tasks shorter than the trace's": (
        '[background]\nmax_task = "1s"\n' + WORKLOAD + ARMS,
        "background.max_task is '1s' but must be at least 1279ms",
    ),
    "a background without work": (
        '[background]\nwork = "0s"\n' + WORKLOAD + ARMS,
        "background.work is '0ms' but must be at least 1ms",
    ),
    "background tasks without a length": (
        '[background]\nsource = "sleep"\nmean = "0s"\n' + WORKLOAD + ARMS,
        "background.mean is '0ms' but must be at least 1ms",
    ),
    "an isolation above 1": (arm("isolation = 1.5"), "isolation is 1.5 but must be a number from 0 to 1"),
    "an unknown key of an arm": (arm("isolatoin = 0.5"), r"did you mean 'isolation'\?"),
    "an unknown baseline": ('baseline = "stok"\n' + WORKLOAD + ARMS, r"did you mean 'stock'\?"),
    "a name that the runs use": (WORKLOAD + ARMS + '[[arm]]\nname = "alone"\n', "which is reserved"),
    "an unknown table": (
        "[run]\nblocks = 3\n" + WORKLOAD + ARMS,
        r"unknown key run \(did you mean 'runs'\?\)",
    ),
    "no TOML": ("[[arm\n", "suite.toml is not a TOML file"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_bad_suite_is_refused_by_name(case):
    text, sentence = REFUSED[case]
    with pytest.raises(BadInputError, match=sentence) as refused:
        parse(text)
    assert "\n" not in str(refused.value).replace("at line", "")
    assert str(refused.value).startswith("suite.toml")


def test_an_option_is_refused_unless_the_arm_runs_its_policy():
    declared = kind_of("gs-las").options.declared[0]
    option, default = declared.key("gs-las").name, declared.default
    with pytest.raises(BadInputError, match="its policy is 'fair', which does not read it"):
        parse(arm('policy = "fair"', f'settings = {{ "{option}" = "{default}" }}'))
    assert (
        parse(arm('policy = "gs-las"', f'settings = {{ "{option}" = "{default}" }}')).arms[1].policy
        == "gs-las"
    )


@pytest.mark.parametrize(
    ("parameters", "mean"),
    [
        pytest.param({"sleepms": 300}, 300, id="fixed"),
        pytest.param({"distribution": "uniform", "min": 100.0, "max": 300.0}, 200, id="uniform"),
        pytest.param({"distribution": "gaussian", "mean": 500.0, "std": 20.0}, 500, id="gaussian"),
        pytest.param({"distribution": "poisson", "mean": 400.0}, 400, id="poisson"),
        pytest.param({"distribution": "exponential", "mean": 400.0}, 400, id="exponential"),
        pytest.param({"distribution": "pareto", "min": 100.0, "alpha": 3.0}, 150, id="pareto"),
    ],
)
def test_sleeps_follow_their_distribution_and_the_seed(parameters, mean):
    program = PROGRAMS["sleep"]
    whole = {p.name: p.default for p in program.parameters} | parameters | {"stages": 3, "tasks": 2_000}
    assert program.problem(whole) is None
    stages = program.stages(whole, 4)
    assert [len(stage) for stage in stages] == [2_000] * 3
    assert np.mean(stages) == pytest.approx(mean, rel=0.05)
    assert stages == program.stages(whole, 4)


def test_the_stages_of_a_slow_read_are_its_read_times():
    program = PROGRAMS["kmeans"]
    whole = {p.name: p.default for p in program.parameters} | {"maxiterations": 3}
    stages = program.stages(whole, 1)
    assert len(stages) == 3
    assert (min(stages[0]), max(stages[0])) == (800, 1200)
