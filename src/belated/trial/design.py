"""`design`: simulate a trial before it begins, with a learner and with fixed randomisation."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from belated.delays import Delays, FillsDelays
from belated.environments import Public, Resampled
from belated.errors import InvalidValue, check_count
from belated.learners import Learner, TunedLearner
from belated.simulation.informed import marked_names
from belated.simulation.intervals import Interval, mean_interval
from belated.simulation.plot import new_window, settings
from belated.templates.display import counted, html_table
from belated.trial import words
from belated.trial.measures import Measures, measure, more_power, on_best, plain
from belated.trial.plan import DEFAULT_LEARNER, FIXED, Plan
from belated.trial.plot import draw
from belated.trial.trials import Trials, simulate_trials
from belated.trial.world import world_of


@dataclass(frozen=True, repr=False)
class Design:
    """What is to be expected of a trial: the adaptive design and fixed randomisation, on the same patients."""

    plan: Plan
    adaptive: Measures
    fixed: Measures
    trials: tuple[Trials, Trials]
    """The simulated trials at the assumed rates: the adaptive design's, and those of fixed randomisation."""
    more_on_best: Interval
    """Patients on the best arm, more than with fixed randomisation, trial by trial."""
    more_successes: Interval
    more_success_rate: Interval
    more_power: Interval
    """At the same error: of the calibrated z-test."""

    @property
    def designs(self) -> tuple[Measures, Measures]:
        return self.adaptive, self.fixed

    @property
    def verdict(self) -> str:
        """What the adaptive design wins and what it costs, in a few sentences."""
        return words.verdict(self)

    def plot(self) -> Any:
        """Draw the design in a new figure of your matplotlib backend; return the array of axes."""
        with settings():
            return draw(self, new_window(1.0, 1.0))

    def __repr__(self) -> str:
        runs = f"{counted(self.plan.patients, 'patient')}, {counted(self.plan.simulations, 'simulation')}"
        return f"Design({self.adaptive.name}; {self.plan.world.title}; {runs})"

    def _repr_html_(self) -> str:
        header, *rows = self.rows()
        return html_table(repr(self), header, rows)

    def rows(self) -> list[list[str]]:
        """Return the designs as a table shows them: the header first."""
        return words.design_rows(self)

    def as_dict(self) -> dict[str, Any]:
        """Return everything as JSON takes it; a number that there is not is None."""
        plan = self.plan
        return {
            "arms": list(plan.world.labels) or None,
            "rates": list(plan.world.rates),
            "patients": plan.patients,
            "accrual": plan.accrual,
            "unit": plan.world.unit,
            "delay": plan.world.delay.title,
            "learner": plan.tuned.label,
            "told": list(plan.tuned.informed),
            "share_floor": plan.share_floor,
            "stop": plan.stop,
            "looks": plan.looks.tolist(),
            "alpha": plan.alpha,
            "simulations": plan.simulations,
            "seed": plan.seed,
            "verdict": self.verdict,
            "designs": [each.as_dict() for each in self.designs],
            "difference": {
                "best_patients": plain(self.more_on_best),
                "successes": plain(self.more_successes),
                "success_rate": plain(self.more_success_rate),
                "power": plain(self.more_power),
            },
        }


def design(
    rates: Sequence[float] | None = None,
    patients: int | None = None,
    *,
    accrual: float | None = None,
    delay: Delays | FillsDelays | str | int | None = None,
    outcomes: Resampled | Public | str | None = None,
    control: str | int | None = None,
    learner: str | Learner | TunedLearner = DEFAULT_LEARNER,
    share_floor: float | None = None,
    stop: str = "win",
    look_every: int | None = None,
    alpha: float = 0.05,
    simulations: int = 2000,
    seed: int = 0,
    threads: int | None = None,
    progress: bool | None = None,
) -> Design:
    """Simulate a trial, adaptive and with fixed randomisation, at the assumed rates and under the null.

    Parameters
    ----------
    rates
        The assumed success rate of each arm; the first is the control. Under the null all arms have its rate.
    patients
        How many are enrolled, at most.
    accrual, delay
        How many patients are enrolled in a unit of time, such as a day (1 by default, but not where the data are in
        seconds), and how long an outcome takes in the same unit:
        a law of delay, a spec such as `"geometric:mean=10"`, or a whole number, none by default. Every outcome must
        come in the end.
    outcomes, control
        In place of rates and delay, outcomes that were observed: a `Resampled` or `Public`, or a spec for one, such as
        `"resampled:file=log.csv"` or `"public:data=actg175"`. Each patient has the outcome of one of the arm's in the
        data, 0 or 1, with its delay. Where the data have a time, accrual is the number of patients in a unit of it;
        otherwise delays are as many patients as decisions in the data. The control is the first arm, or the one of the
        given label; under the null all arms have its outcomes and delays.
    learner
        Who allocates the patients: a name, a spec or a learner.
    share_floor
        The least share of patients that each arm has at any time, by the setting of that name that every learner takes.
    stop, look_every
        `"win"`: the outcomes are looked at after every `look_every` patients (1 % of them by default), and enrolment
        ends as soon as an arm wins by bets on the recorded randomisation, or by betting if the learner chooses with
        certainty. Decisions are used from the first on as far as all have their outcomes.
        `"never"`: all patients are enrolled; there is one analysis when all outcomes are in.
    alpha
        The level of each analysis.
    simulations, seed, threads, progress
        How many trials are simulated, from which random numbers, on how many threads, and whether a progress bar is
        drawn. Results depend on the seed, not on the threads.

    >>> from belated import trial
    >>> found = trial.design([0.2, 0.6], 40, simulations=20, stop="never")
    >>> bool(found.adaptive.alternative.best_share.mean > 0.5)
    True
    """
    world = world_of(rates, delay, outcomes, control)
    if accrual is None and world.unit == "second":
        raise InvalidValue(
            "accrual is missing, and the delays of the outcomes are in seconds; the number of patients enrolled in a"
            " second is needed: 10 a day are 0.000116",
            "accrual",
        )
    plan = Plan(
        world=world,
        patients=check_count("patients", patients, least=2),
        accrual=1.0 if accrual is None else accrual,
        learner=learner,
        share_floor=share_floor,
        stop=stop,
        look_every=look_every,
        alpha=alpha,
        simulations=simulations,
        seed=seed,
    )
    most = None if threads is None else check_count("threads", threads)
    (adaptive, fixed), (null_adaptive, null_fixed) = simulate_trials(plan, most, progress)
    (name,) = marked_names([(plan.tuned.label, plan.tuned.informed)])

    def more(values: Any) -> Interval:
        return mean_interval(np.asarray(values(adaptive) - values(fixed), dtype=np.float64))

    return Design(
        plan=plan,
        adaptive=measure(plan, name, adaptive, null_adaptive),
        fixed=measure(plan, FIXED, fixed, null_fixed),
        trials=(adaptive, fixed),
        more_on_best=more(lambda trials: on_best(plan, trials)),
        more_successes=more(lambda trials: trials.successes.sum(axis=1)),
        more_success_rate=more(lambda trials: trials.successes.sum(axis=1) / trials.patients),
        more_power=more_power(plan, (adaptive, fixed), (null_adaptive, null_fixed)),
    )
