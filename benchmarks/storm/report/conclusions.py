"""Pure: what a scenario showed, in sentences that follow from the figures."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from benchmarks.storm.report import wording
from benchmarks.storm.report.differences import difference
from benchmarks.storm.report.wording import listed

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from benchmarks.storm.arms import Arm
    from benchmarks.storm.report.session import Group, Session
    from benchmarks.storm.report.wording import Column
    from benchmarks.storm.scenario import Scenario
    from benchmarks.storm.summary import Estimate

DEFAULT: Final = "default"
OURS: Final = wording.arm(DEFAULT)
KEPT: Final = 0.97
AMPLIFIED: Final = 1.1
SOON: Final = 1.0
TARGETED: Final = ("sustained", "metastable")


@dataclass(frozen=True, slots=True)
class Findings:
    """The arms of one scenario on one backend.

    Attributes:
        groups: Those with valid runs.
        invalid: Those with runs that must not be used.
        drivers: The driver of each arm.
        left: Seconds of a run after the overload.
    """

    groups: tuple[Group, ...]
    invalid: tuple[Group, ...]
    drivers: dict[str, str]
    left: float
    is_targeted: bool

    @property
    def ours(self) -> list[Group]:
        return [group for group in self.groups if self.drivers.get(group.arm) == "motorlite"]

    @property
    def peers(self) -> list[Group]:
        return [group for group in self.groups if group not in self.ours]

    @property
    def default(self) -> Group | None:
        return next((group for group in self.groups if group.arm == DEFAULT), None)


def findings(session: Session, scenario: Scenario, backend: str) -> Findings:
    groups = session.groups(scenario.name, backend)
    arms: Sequence[Arm] = session.arms
    return Findings(
        tuple(group for group in groups if group.records),
        tuple(group for group in groups if group.left_out),
        {arm.name: arm.driver for arm in arms},
        scenario.seconds - scenario.overload[1],
        any(name.startswith(TARGETED) for name in (scenario.name, scenario.family)),
    )


def conclusion(session: Session, scenario: Scenario, backend: str) -> list[str]:
    """Sentences: goodput, attempts, recovery, failures, the peers, the targets, and what is not valid."""
    found = findings(session, scenario, backend)
    if not found.groups:
        return ["No run of this scenario is valid, so it shows nothing.", *_invalid(found)]
    sentences = [_goodput(found), _attempts(found), _recovery(found), _failures(found), *_against_peers(found)]
    if found.is_targeted:
        sentences += _targets(found)
    return [sentence for sentence in [*sentences, *_invalid(found)] if sentence]


def _estimates(found: Iterable[Group], column: Column) -> list[tuple[str, Estimate]]:
    pairs = [(wording.arm(group.arm), group.estimates[column.figure]) for group in found]
    return [(arm, estimate) for arm, estimate in pairs if not math.isnan(estimate.mean)]


def _goodput(found: Findings) -> str:
    pairs = sorted(_estimates(found.groups, wording.SHARE), key=lambda pair: -pair[1].mean)
    if not pairs:
        return ""
    kept = [arm for arm, estimate in pairs if estimate.mean >= KEPT]
    others = [(arm, estimate) for arm, estimate in pairs if estimate.mean < KEPT]
    if not kept:
        (best, share), *rest = others
        return (
            f"While the servers are overloaded, no arm keeps {wording.threshold(KEPT)} of the goodput that is "
            f"attainable: the best is {best} with {wording.percent(share.mean)}{_rest(rest, wording.SHARE)}."
        )
    whole = f"While the servers are overloaded, {named(kept)} {'keep' if len(kept) > 1 else 'keeps'} at least"
    return f"{whole} {wording.threshold(KEPT)} of the goodput that is attainable{_rest(others, wording.SHARE, '; ')}."


def named(arms: Sequence[str]) -> str:
    """All of them up to six, else the first and a number."""
    return listed(arms) if len(arms) <= 6 else f"{', '.join(arms[:5])} and {len(arms) - 5} more"


def _rest(pairs: Sequence[tuple[str, Estimate]], column: Column, lead: str = "; ") -> str:
    """The remaining arms in their order: each, or the first and the last of many."""
    if not pairs:
        return ""
    each = [f"{arm} {wording.value(column, estimate.mean)}" for arm, estimate in pairs]
    if len(each) <= 4:
        return f"{lead}{listed(each)}"
    (first, best), (last, worst) = pairs[0], pairs[-1]
    most, least = wording.value(column, best.mean), wording.value(column, worst.mean)
    if most == least:
        return f"{lead}all others {most}"
    return f"{lead}the other {len(each)} between {most} ({first}) and {least} ({last})"


def _attempts(found: Findings) -> str:
    pairs = sorted(_estimates(found.groups, wording.AMPLIFICATION), key=lambda pair: pair[1].mean)
    if not pairs:
        return ""
    if len(pairs) <= 4:
        each = [f"{wording.value(wording.AMPLIFICATION, estimate.mean)} with {arm}" for arm, estimate in pairs]
        text = f"Attempts per request since the overload began: {listed(each)}"
    else:
        (first, least), (last, most) = pairs[0], pairs[-1]
        text = (
            f"Attempts per request since the overload began: between {wording.times(least.mean)} with {first} and "
            f"{wording.times(most.mean)} with {last}"
        )
        if found.default is not None and OURS not in (first, last):
            text += f", {wording.times(found.default.estimates['amplification'].mean)} of motorlite's default ({OURS})"
    if found.default is not None:
        estimates = found.default.estimates
        mean, settled = estimates["amplification"].mean, estimates["settled"].mean
        if mean - settled > wording.SETTLED.noise:
            text += f"; in the last third of the overload {OURS} sends {settled:.2f}"
    return f"{text}."


def _recovery(found: Findings) -> str:
    pairs = _estimates(found.groups, wording.RECOVERY)
    if not pairs:
        return ""
    soon = [arm for arm, estimate in pairs if not estimate.infinite and estimate.mean <= SOON]
    late = sorted(((a, e) for a, e in pairs if not e.infinite and e.mean > SOON), key=lambda pair: pair[1].mean)
    some = [(arm, e) for arm, e in pairs if 0 < e.infinite < e.n]
    never = [arm for arm, e in pairs if e.infinite == e.n]
    clauses = []
    if soon:
        everybody = "all arms" if len(soon) == len(pairs) > 1 else named(soon)
        clauses.append(f"{everybody} {'recover' if len(soon) > 1 else 'recovers'} within a second")
    clauses += [f"{arm} needs {estimate.mean:.1f} s" for arm, estimate in late]
    clauses += [f"{arm} does not recover in {e.infinite} of {e.n} runs" for arm, e in some]
    if never:
        verb = "do" if len(never) > 1 else "does"
        clauses.append(f"{named(never)} {verb} not recover in the {found.left:g} s that are left{_stuck(found)}")
    return f"After the overload, {listed(clauses)}."


def _stuck(found: Findings) -> str:
    """What goodput remains of those that do not recover."""
    shares = [
        group.estimates["after"].mean
        for group in found.groups
        if group.estimates["recovery"].infinite == group.estimates["recovery"].n > 0
    ]
    most, least = wording.percent(max(shares)), wording.percent(min(shares))
    return f" (goodput stays at {most})" if most == least else f" (goodput stays at {least} to {most})"


def _failures(found: Findings) -> str:
    pairs = sorted(_estimates(found.groups, wording.ERRORS), key=lambda pair: pair[1].mean)
    if not pairs:
        return ""
    (first, least), (last, most) = pairs[0], pairs[-1]
    if most.mean <= wording.ERRORS.noise:
        return "Hardly any request fails."
    if most.mean - least.mean <= wording.ERRORS.noise:
        return f"With every arm {wording.percent(most.mean)} of the requests of a run fail."
    return (
        f"Of all requests of a run, the fewest fail with {first} ({wording.percent(least.mean)}), the most with {last} "
        f"({wording.percent(most.mean)})."
    )


def _against_peers(found: Findings) -> list[str]:
    """Whether the default needs fewer attempts per success than each peer."""
    if found.default is None or not found.peers:
        return []
    column = wording.PER_SUCCESS
    places: dict[str, list[str]] = {"ahead of": [], "level with": [], "behind": []}
    for peer in found.peers:
        one = difference(column, peer, found.default)
        place = {"better": "ahead of", "worse": "behind"}.get(one.verdict, "level with")
        places[place].append(f"{wording.arm(peer.arm)} ({wording.value(column, one.first.mean)})")
    own = wording.value(column, found.default.estimates[column.figure].mean)
    every = "every peer: " if len(places["ahead of"]) == len(found.peers) else ""
    clauses = [f"{place} {every}{listed(peers)}" for place, peers in places.items() if peers]
    return [f"With {own} attempts per success {OURS} is {listed(clauses)}."]


def _targets(found: Findings) -> list[str]:
    """Goodput, amplification and recovery that the project wants, and who has them."""
    met = {group.arm: targets(group) for group in found.ours}
    wanted = (
        f"at least {wording.threshold(KEPT)} of the attainable goodput, at most {AMPLIFIED:g} attempts per request in "
        f"the last third of the overload, recovery within {SOON:g} s"
    )
    all_of_them = [wording.arm(arm) for arm, missed in met.items() if not missed]
    if found.default is not None and not met[DEFAULT]:
        return [f"motorlite's default reaches the targets ({wanted})."]
    sentences = []
    if found.default is not None:
        sentences.append(f"motorlite's default misses targets ({wanted}): {listed(met[DEFAULT])}.")
    if all_of_them:
        verb = "reach" if len(all_of_them) > 1 else "reaches"
        sentences.append(f"Of motorlite's policies, {named(all_of_them)} {verb} all of them.")
    elif met:
        sentences.append("None of motorlite's policies that were run reaches all of them.")
    return sentences


def targets(group: Group) -> list[str]:
    """The targets that an arm misses, with what it has."""
    estimates = group.estimates
    share, settled, recovery = (estimates[name].mean for name in ("share", "settled", "recovery"))
    missed = []
    if not share >= KEPT:
        missed.append(f"goodput is {wording.value(wording.SHARE, share)}")
    if not settled <= AMPLIFIED:
        missed.append(f"attempts per request are {wording.value(wording.SETTLED, settled)}")
    if not (recovery <= SOON or math.isnan(recovery)):
        after = "never comes" if math.isinf(recovery) else f"takes {recovery:.1f} s"
        missed.append(f"recovery {after}")
    return missed


def _invalid(found: Findings) -> list[str]:
    return [
        f"Left out as not valid: {group.left_out} {'run' if group.left_out == 1 else 'runs'} of "
        f"{wording.arm(group.arm)} ({group.invalid[0]}{', for example' if len(group.invalid) > 1 else ''})."
        for group in found.invalid
    ]
