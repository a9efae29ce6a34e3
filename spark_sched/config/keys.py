"""Every setting of the scheduler, declared once.

The JVM side reads the same names and defaults (``jvm-bridge/…/Settings.scala``); a test compares the two,
and ``docs/reference/configuration.md`` is made from this file.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

from spark_sched.config import values
from spark_sched.config.values import ValueKind

T = TypeVar("T")

PREFIX = "spark.sched."
JOB_PREFIX = "spark.sched.job."
#: Options of policies, each declared beside its policy: ``spark.sched.policy.NAME.OPTION``.
POLICY_PREFIX = "spark.sched.policy."

_INT_MIN, _INT_MAX = -(2**31), 2**31 - 1


@dataclass(frozen=True)
class ConfigKey(Generic[T]):
    """A setting: its full name, kind of value, default (as text), doc and the version that introduced it.

    ``kind`` is "application" for properties of the whole application and "job" for local properties that
    mark the work of one thread. A job key's default is empty: the mark is absent.
    """

    name: str
    value: ValueKind[T]
    default: str
    doc: str
    since: str = "0.1.0"
    kind: Literal["application", "job"] = "application"


RESERVATION_ENABLED = ConfigKey(
    "spark.sched.reservation.enabled",
    values.flag(),
    "true",
    "Hold slots for a job's next stage. With `false` the scheduler behaves as Spark's own.",
)
RESERVATION_ISOLATION = ConfigKey(
    "spark.sched.reservation.isolation",
    values.number(0, 1),
    "1.0",
    "Isolation level P of jobs that set none: the probability with which a job's held slots last until its "
    "next stage starts. With 1, slots are held for at most `maxHold`; with 0, no slots are held. For levels "
    "between, `spark.sched.reservation.deadline` selects how the deadline of a reservation follows from P "
    "(Speculative Slot Reservation, §IV).",
)
RESERVATION_MIN_PRIORITY = ConfigKey(
    "spark.sched.reservation.minPriority",
    values.whole(_INT_MIN, _INT_MAX, "priority"),
    "1",
    "Jobs below this priority hold no slots, unless they set an isolation level of their own.",
)
RESERVATION_DEADLINE = ConfigKey(
    "spark.sched.reservation.deadline",
    values.choice("calibrated", "pareto", "fixed"),
    "calibrated",
    "How the deadline of a reservation follows from P. `calibrated`: from the task times of the job's "
    "earlier stages, or else of other jobs' stages, corrected by the share of stages that ended in time; "
    "without enough of these times, slots stay held for a share P of the stages, chosen at random. "
    "`pareto`: from the stage's own finished tasks, by the paper's formula. `fixed`: `maxHold` for every P "
    "above 0.",
)
RESERVATION_MAX_HOLD = ConfigKey(
    "spark.sched.reservation.maxHold",
    values.time_ms(),
    "10min",
    "The longest time that a slot is held, at any isolation level.",
)
RESERVATION_GAP = ConfigKey(
    "spark.sched.reservation.gap",
    values.time_ms(),
    "10s",
    "Longest time that slots stay held between two actions of one job, while the driver's own code runs. A "
    "job without an explicit end (a mark by name, a job group) counts as ended when it has been idle for "
    "this long; its recorded end is its last activity.",
)
RESERVATION_FIRST_GAP = ConfigKey(
    "spark.sched.reservation.firstGap",
    values.time_ms(),
    "1s",
    "How long slots stay held after the first action of a job without a history. If earlier runs of the job "
    "paused there, it is the least time that slots stay held. After later actions slots stay held for twice "
    "the longest of the job's latest pauses, at least 500 ms and at most `gap`; if all of these pauses were "
    "longer than that, the slots are released.",
)
RESERVATION_IDLE_SHARE = ConfigKey(
    "spark.sched.reservation.idleShare",
    values.number(0, 1),
    "0.25",
    "Share of all slots that one job may hold on average while it pauses between actions. Slots beyond this "
    "share are released early; 1 means no limit.",
)
LIMITS_IDLE_SHARE = ConfigKey(
    "spark.sched.limits.idleShare",
    values.number(0, 1),
    "0.4",
    "Share of all slots that all jobs of the application together may hold on average while they pause "
    "between actions. Jobs of the lowest priority release their slots first.",
)
LIMITS_IDLE_BURST = ConfigKey(
    "spark.sched.limits.idleBurst",
    values.time_ms(),
    "5s",
    "How much held slot time may exceed `reservation.idleShare` and `limits.idleShare` for a short time. "
    "The value is a length of time: the allowed slot time is that of all slots held for this long.",
)
LIMITS_IDLE_WAITING_COST = ConfigKey(
    "spark.sched.limits.idleWaitingCost",
    values.number(1, 100),
    "2",
    "How many times its time a slot that a pausing job holds costs while tasks of other jobs wait for slots. "
    "During such waiting `reservation.idleShare`, `limits.idleShare` and `limits.idleBurst` allow the part "
    "1/`idleWaitingCost` of what they allow otherwise, but for a share of 1, which bounds nothing; with a "
    "cost of 1 waiting changes nothing.",
)
RESERVATION_PRE_RESERVE_THRESHOLD = ConfigKey(
    "spark.sched.reservation.preReserveThreshold",
    values.number(0, 1),
    "0.5",
    "Fraction R: when this fraction of a stage's tasks has finished, a wider next stage claims slots that "
    "other jobs release.",
)
RESERVATION_ALPHA = ConfigKey(
    "spark.sched.reservation.alpha",
    values.number(1.01, 100),
    "1.6",
    "Prior shape α of the Pareto distribution of task times, used until enough tasks have finished. It "
    "affects `pareto` deadlines and the idle time that equation 4 predicts.",
)
RESERVATION_ALPHA_WEIGHT = ConfigKey(
    "spark.sched.reservation.alphaWeight",
    values.number(0, 1e6),
    "5",
    "Weight of the prior α, as a number of finished tasks; with 0 the prior is ignored after the first few "
    "tasks.",
)
RESERVATION_LOOKAHEAD = ConfigKey(
    "spark.sched.reservation.lookahead",
    values.choice("job", "stage"),
    "job",
    "`job`: a marked job holds slots for its widest stage so far, because the needs of its next action are "
    "unknown. `stage`: it holds slots for the next stage only, as in Algorithm 1.",
)
COPIES_ENABLED = ConfigKey(
    "spark.sched.copies.enabled",
    values.flag(),
    "true",
    "Run copies of straggling tasks on held idle slots; the first to finish wins.",
)
COPIES_MIN_TASK_TIME = ConfigKey(
    "spark.sched.copies.minTaskTime",
    values.time_ms(),
    "100ms",
    "A task gets no copy before it has run for this long.",
)
COPIES_MIN_SLOWDOWN = ConfigKey(
    "spark.sched.copies.minSlowdown",
    values.number(0, 1000),
    "1.5",
    "A task gets a copy only after it has run for this many times its stage's typical (geometric mean) task "
    "time. In a stage that runs Python it must run 2 s plus `spark.python.task.killTimeout` longer, because "
    "a killed Python task keeps its slot for up to that time. With 0, tasks get copies as soon as "
    "`minTaskTime` has passed.",
)
PLACEMENT = ConfigKey(
    "spark.sched.placement",
    values.choice("spread", "pack"),
    "spread",
    "`spread`: tasks start on executors in random order, one on each in turn, as in Spark. `pack`: "
    "executors with held slots are filled first, then those with the most running tasks, so that dynamic "
    "allocation can release the others. Even with `pack`, tasks are spread while a barrier stage waits, and "
    "while a task waits whose job has a deadline that the plan in force does not forecast to be met with a "
    "probability of 95 %. They are also spread from the moment at which a task has waited for "
    "`spark.dynamicAllocation.schedulerBacklogTimeout` until no task has waited that long for "
    "`spark.dynamicAllocation.executorIdleTimeout`.",
)
PLACEMENT_HEADROOM = ConfigKey(
    "spark.sched.placement.headroom",
    values.number(0, 0.9),
    "0.25",
    "With `spark.sched.placement=pack`, the share of one executor's slots, rounded down, that stays free "
    "for bursts; it counts once for all executors in use together. An executor without tasks gets a task "
    "only when all other slots of the executors in use are taken. When all executors are in use, tasks take "
    "the free slots, too. With more headroom fewer executors are released, and fewer bursts wait for new "
    "ones.",
)
PLANNER_ENABLED = ConfigKey(
    "spark.sched.planner.enabled",
    values.flag(),
    "true",
    "Start the planner process. Without it the scheduler applies only the settings of this page.",
)
PLANNER_PYTHON = ConfigKey(
    "spark.sched.planner.python",
    values.text("path", required=True),
    "python3",
    "Python that runs the planner; `spark-sched conf` and `submit` set it to the Python they run in. If it "
    "is not set, the Python of `spark.pyspark.python` or of the variable `PYSPARK_PYTHON` is tried first. A "
    "Python without the package runs the one that the jar of a Maven repository carries, if it is 3.11 or "
    "newer and has NumPy. If none runs the planner, only the settings of this page apply, and the driver "
    "logs that once. It imports nothing from the driver's working directory, and only absolute folders of "
    "`PYTHONPATH` apply.",
)
PLANNER_PACKAGE = ConfigKey(
    "spark.sched.planner.package",
    values.text("path"),
    "",
    "Folder of the `spark_sched` package that the planner runs, so that planner and scheduler have the same "
    "version; `spark-sched conf` and `submit` set it to the folder of their own package. If it is empty, or "
    "missing on the driver's machine, the planner runs the package that is installed for `planner.python`.",
)
PLANNER_POLICY = ConfigKey(
    "spark.sched.planner.policy",
    values.text("policy name", required=True),
    "reservation",
    "Name of the policy that makes the plans.",
)
PLANNER_SOLVER = ConfigKey(
    "spark.sched.planner.solver",
    values.text("solver name", required=True),
    "prices",
    "Solver of policies that plan start times: `prices`, `highs`, `cbc`, or `pulp:NAME` for another solver "
    "that PuLP finds. All but `prices` need the extra `solvers`.",
)
PLANNER_INTERVAL = ConfigKey(
    "spark.sched.planner.interval",
    values.time_ms(),
    "200ms",
    "Longest time from an event to the plan that takes it into account.",
)
PLANNER_PLAN_VALIDITY = ConfigKey(
    "spark.sched.planner.planValidity",
    values.time_ms(),
    "10s",
    "A plan older than this no longer applies; the configured defaults apply until a new plan arrives.",
)
PLANNER_START_TIMEOUT = ConfigKey(
    "spark.sched.planner.startTimeout",
    values.time_ms(),
    "30s",
    "A planner that has not asked for events within this time is restarted.",
)
PLANNER_STALL_TIMEOUT = ConfigKey(
    "spark.sched.planner.stallTimeout",
    values.time_ms(),
    "10s",
    "A planner silent for this long is restarted.",
)
PLANNER_DRAIN_TIMEOUT = ConfigKey(
    "spark.sched.planner.drainTimeout",
    values.time_ms(),
    "2s",
    "How long the application waits at its end for the planner to read the last events and store what it "
    "learned; if no planner runs then, one more is started. If the history cannot be used for that long, "
    "what the jobs taught is lost to it. The application waits only if `history.path` or `events.path` is "
    "set.",
)
PLANNER_RESTART_BACKOFF = ConfigKey(
    "spark.sched.planner.restartBackoff",
    values.time_ms(),
    "500ms",
    "Pause before the first restart of a planner; it doubles with every further restart.",
)
PLANNER_RESTART_BACKOFF_MAX = ConfigKey(
    "spark.sched.planner.restartBackoffMax",
    values.time_ms(),
    "30s",
    "Longest pause between restarts.",
)
EVENTS_QUEUE_CAPACITY = ConfigKey(
    "spark.sched.events.queueCapacity",
    values.whole(16, 10_000_000),
    "10000",
    "Largest number of events that wait for the planner. If there are more, the oldest are dropped and "
    "counted, and the planner rebuilds its state from the scheduler's.",
)
EVENTS_PATH = ConfigKey(
    "spark.sched.events.path",
    values.text("path"),
    "",
    "File to which the planner appends every event as a line of JSON; empty: no file.",
)
HISTORY_PATH = ConfigKey(
    "spark.sched.history.path",
    values.database(),
    "",
    "Where runtimes, task times, stages of earlier runs and what policies remember are kept: a SQLite file, "
    "which several applications may share, or `postgresql://user@host/database`. Empty: in memory.",
)
HISTORY_PASSWORD = ConfigKey(
    "spark.sched.history.password",
    values.text("text"),
    "",
    "Password of the history's database. The driver removes it from the application's configuration and "
    "passes it to the planner alone. Empty: PostgreSQL uses `~/.pgpass`, `PGPASSWORD` or its other sources.",
)
LIMITS_MAX_PRIORITY = ConfigKey(
    "spark.sched.limits.maxPriority",
    values.whole(_INT_MIN, _INT_MAX, "priority"),
    "2147483647",
    "Highest priority that a mark can give a job; a higher one is lowered to it, with a warning.",
)
LIMITS_MAX_ISOLATION = ConfigKey(
    "spark.sched.limits.maxIsolation",
    values.number(0, 1),
    "1.0",
    "Highest isolation level that a mark can give a job; a higher one is lowered to it, with a warning.",
)
LIMITS_MARKS = ConfigKey(
    "spark.sched.limits.marks",
    values.words("id", "name", "user", "priority", "deadline", "isolation", "class", "copies"),
    "id,name,user,priority,deadline,isolation,class,copies",
    "Marks that are accepted; others are ignored with a warning. Anyone who can run a query can mark it, so "
    "remove the marks that users must not set: `deadline` if the policy prefers jobs with a deadline, "
    "`copies` because `never` protects a job from eviction, `user` if a tenant must not use another's name. "
    "With Spark Connect the user is always the one that the server knows.",
)
LIMITS_JOBS_PER_USER = ConfigKey(
    "spark.sched.limits.jobsPerUser",
    values.whole(1, 10_000, "jobs"),
    "1000",
    "The most jobs that one user has at a time. Further work of the user is one job, without marks and "
    "without copies, until one of the jobs ends. All users together have 10,000 jobs at most.",
)
QUEUES = ConfigKey(
    "spark.sched.queues",
    values.queues(),
    "",
    "The queues of tenants with their limits, and the rules that place jobs in them, as one line of JSON. "
    "`spark-sched conf`, `submit` and `spark_sched.conf` make it of a TOML file (`--queues FILE`, "
    "`queues=FILE`), which docs/how-to/queues.md explains. Empty: no queues. The driver enforces it even "
    "without a planner.",
)
QUEUES_FILE = ConfigKey(
    "spark.sched.queues.file",
    values.text(),
    "",
    "The file of `spark.sched.queues` on the driver's machine. The driver watches it, and its changes take "
    "effect while the application runs. It may be missing or empty at first: then the queues come with it. "
    "`--queues FILE` and `queues=FILE` set it. Without this setting, the queues change by `spark-sched "
    "queue` alone.",
)
MODE = ConfigKey(
    "spark.sched.mode",
    values.choice("on", "shadow", "off"),
    "on",
    "What the scheduler does. `on`: it decides which task gets which slot. `shadow`: it makes plans and "
    "counts what it would have done, but Spark's own scheduler decides every placement. `off`: it holds no "
    "slots and does not start the planner. `spark-sched mode` switches the mode while the application runs.",
)
STEERING_ENABLED = ConfigKey(
    "spark.sched.steering.enabled",
    values.flag(),
    "true",
    "Whether users can change jobs, the policy and the mode over the network (`spark-sched set`, `hold`, "
    "`policy` and so on). `spark.ui.killEnabled` must also be true, and `spark.modify.acls` lists the users "
    "who may, as for Spark's kill links.",
)
UI_HOSTS = ConfigKey(
    "spark.sched.ui.hosts",
    values.hosts(),
    "",
    "Further host names or addresses under which users reach the Spark UI, for example that of a gateway. "
    "Requests for the status, the tab *Scheduling* and changes are refused unless their host is `localhost`, "
    "an address or a name of the driver's machine, a gateway that Spark's own settings name "
    "(`spark.ui.proxyRedirectUri`, `spark.ui.reverseProxyUrl`, the masters under `spark.ui.reverseProxy`), "
    "or one of these. `*` accepts every host, and with it the pages of every site.",
)
SEED = ConfigKey(
    "spark.sched.seed",
    values.whole(0, _INT_MAX, "seed"),
    "0",
    "Seed of the planner's random generator: the same seed and events give the same plans.",
)

JOB_ID = ConfigKey(
    "spark.sched.job.id",
    values.text("text"),
    "",
    "Distinguishes two runs of the same name; `spark_sched.job` makes a new id for every `with` block.",
    kind="job",
)
JOB_NAME = ConfigKey(
    "spark.sched.job.name",
    values.text("text"),
    "",
    "Name of the job. The planner learns from earlier runs of the same user and name.",
    kind="job",
)
JOB_USER = ConfigKey(
    "spark.sched.job.user",
    values.text("text"),
    "",
    "Owner of the job, where no server knows one; `SET` does not count.",
    kind="job",
)
JOB_PRIORITY = ConfigKey(
    "spark.sched.job.priority",
    values.whole(_INT_MIN, _INT_MAX, "priority"),
    "",
    "Priority of the job; the higher one wins. Work without a mark has priority 0.",
    kind="job",
)
JOB_DEADLINE = ConfigKey(
    "spark.sched.job.deadline",
    values.whole(0, 2**63 - 1, "milliseconds since 1970 (UTC)"),
    "",
    "When the job must end. Also accepted: a length of time from the job's first stage (`15 min`, `1h30m`) "
    "and an ISO time (`2026-01-31T18:00`, in the driver's time zone unless it names one).",
    kind="job",
)
JOB_ISOLATION = ConfigKey(
    "spark.sched.job.isolation",
    values.number(0, 1),
    "",
    "Isolation level P of this job, instead of `spark.sched.reservation.isolation`.",
    kind="job",
)
JOB_CLASS = ConfigKey(
    "spark.sched.job.class",
    values.text("text"),
    "",
    "Class of the job (for example `etl` or `interactive`), for policies that distinguish classes.",
    kind="job",
)
JOB_COPIES = ConfigKey(
    "spark.sched.job.copies",
    values.choice("auto", "never"),
    "",
    "`never` for jobs whose tasks write outside Spark's commit protocol: their tasks are not copied, evicted "
    "or speculated, and only failed tasks run again. `auto` also allows copies and evictions in the "
    "micro-batches of a stream, which have none by default.",
    kind="job",
)

ALL: tuple[ConfigKey[Any], ...] = tuple(key for key in list(globals().values()) if isinstance(key, ConfigKey))
BY_NAME: dict[str, ConfigKey[Any]] = {key.name: key for key in ALL}
