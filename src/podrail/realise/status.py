"""What is: every PF podrail has to do with, against what is wanted of it. Changes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from podrail.host.seam import Host
from podrail.model.inventory import Pf
from podrail.planning.decide import ranges
from podrail.realise.apply import Intent, Refusal, differing
from podrail.realise.journal import FAILED, Begun, Journal, Note
from podrail.realise.kinds.driver import in_word
from podrail.realise.step import MACHINE, Failed, Gone, Step, Value, kind_of, pending, restrict

SCHEMA = "podrail/status/1"

AS_WANTED, DRIFTED, REFUSED, WAITING, BROKEN, UNFINISHED, UNWANTED, GONE = (
    "as wanted", "drifted", "refused", "waiting", "failed", "unfinished", "to give back", "gone",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Drift:
    """A value that is not as wanted."""

    what: str
    actual: str
    wanted: str
    set_by: str
    of: str = ""
    """Which VFs it is about; it is the same drift when others join them."""

    def to_json(self) -> dict[str, Any]:
        return {
            "what": self.what + self.of,
            "actual": self.actual,
            "wanted": self.wanted,
            "set_by": self.set_by,
        }

    def __str__(self) -> str:
        return f"{self.what}{self.of} is {self.actual}, wanted {self.wanted} ({self.set_by})"


@dataclass(frozen=True, slots=True)
class Standing:
    """One PF, or the machine."""

    subject: str
    name: str
    state: str
    numvfs: int | None = None
    totalvfs: int | None = None
    mtu: int | None = None
    drift: tuple[Drift, ...] = ()
    reason: str = ""
    fix: str = ""
    held: tuple[str, ...] = ()
    changed: bool = False
    """Whether podrail has changed it since it first saw it."""

    def to_json(self) -> dict[str, Any]:
        return {
            "pci": self.subject,
            "name": self.name,
            "state": self.state,
            "numvfs": self.numvfs,
            "totalvfs": self.totalvfs,
            "mtu": self.mtu,
            "drift": [d.to_json() for d in self.drift],
            "reason": self.reason,
            "fix": self.fix,
            "held": list(self.held),
            "changed": self.changed,
        }


@dataclass(frozen=True, slots=True)
class Status:
    """A machine."""

    node: str
    manifests: tuple[str, ...]
    standings: tuple[Standing, ...]
    pending: tuple[str, ...]
    agent: int | None
    notes: tuple[Note, ...]

    @property
    def good(self) -> bool:
        return all(s.state == AS_WANTED for s in self.standings)

    def to_json(self) -> dict[str, Any]:
        return {
            "schema": SCHEMA,
            "node": self.node,
            "manifests": list(self.manifests),
            "pfs": [s.to_json() for s in self.standings],
            "pending": list(self.pending),
            "agent": self.agent,
            "notes": [{"at": n.at, "subject": n.subject, "text": n.text} for n in self.notes],
        }


def status(host: Host, journal: Journal, intent: Intent, agent: int | None) -> Status:
    """Compare the machine with what the manifests kept in the journal want."""
    return Status(
        intent.inventory.node.name,
        tuple(name for name, _ in journal.wanted()),
        tuple(_standings(host, journal, intent)),
        pending(host, [step for job in intent.all_jobs for step in job.steps]),
        agent,
        tuple(journal.notes()),
    )


def drift(host: Host, steps: tuple[Step, ...]) -> Iterator[Drift]:
    """Steps that do not hold, as actual against wanted; one line per kind."""
    for step in steps:
        kind = kind_of(step)
        if kind.watched:
            yield _of_vfs(host, step) or Drift(
                kind.title or kind.name, _actual(host, step), kind.says(step.to), step.set_by
            )


def _of_vfs(host: Host, step: Step) -> Drift | None:
    """Of many VFs only those that differ are worth a word."""
    kind = kind_of(step)
    if not kind.inside_vfs or not isinstance(step.to, dict):
        return None
    try:
        now = kind.read(host, step.target)
    except (Gone, Failed, OSError):
        return None
    keys = kind.differing(now, step.to)
    found, wanted = ({key: of.get(key) for key in keys} for of in (now, step.to))
    pairs = {(in_word(found[key]), in_word(wanted[key])) for key in keys}
    if len(pairs) != 1:
        return Drift(kind.title, kind.says(found), kind.says(wanted), step.set_by)
    ((actual, to),) = pairs
    return Drift(kind.title, actual, to, step.set_by, f" of vf {ranges(map(int, keys))}")


def _actual(host: Host, step: Step) -> str:
    kind = kind_of(step)
    try:
        return kind.says(_now(host, step))
    except Gone:
        return "gone"
    except Failed as no:
        return f"unknown ({no.reason})"
    except OSError as no:
        return f"unreadable ({no.strerror})"


def _now(host: Host, step: Step) -> Value:
    """What was found holds more than the eye needs where it must bring a VF back."""
    kind = kind_of(step)
    if kind.inside_vfs:
        return restrict(kind.read(host, step.target), step.to)
    return kind.found(host, step)


def _standings(host: Host, journal: Journal, intent: Intent) -> Iterator[Standing]:
    latest = journal.latest()
    touched = {seen.subject for seen in journal.seen()}
    for refusal in intent.refusals:
        yield _standing(intent, refusal.subject, REFUSED, touched, refusal=refusal)
    for refusal in intent.waiting:
        yield _standing(intent, refusal.subject, WAITING, touched, refusal=refusal)
    for job in intent.all_jobs:
        off = tuple(drift(host, differing(host, job)))
        state, why = _state(off, latest.get(job.subject))
        yield _standing(intent, job.subject, state, touched, off, why)
    for subject, name in intent.gone:
        reason = "it is not on the PCI bus; what was found on it is kept"
        yield Standing(subject, name, GONE, reason=reason, fix="look at `dmesg` and the slot")
    for subject in intent.given_back:
        yield _standing(intent, subject, UNWANTED, touched, begun=latest.get(subject))


def _state(off: tuple[Drift, ...], begun: Begun | None) -> tuple[str, Begun | None]:
    if begun is not None and begun.unfinished:
        return UNFINISHED, begun
    if not off:
        return AS_WANTED, None
    bad = begun is not None and (begun.state == FAILED or begun.reason)
    return (BROKEN, begun) if bad else (DRIFTED, None)


def _standing(
    intent: Intent, subject: str, state: str, touched: set[str], off: tuple[Drift, ...] = (),
    begun: Begun | None = None, refusal: Refusal | None = None,
) -> Standing:  # fmt: skip
    pf = intent.inventory.pf(subject) or Pf(subject, "", "", "")
    told = refusal or begun
    return Standing(
        subject=subject,
        name=MACHINE if subject == MACHINE else pf.name,
        state=state,
        numvfs=pf.numvfs,
        totalvfs=pf.totalvfs,
        mtu=pf.mtu,
        drift=off,
        reason=told.reason if told else "",
        fix=told.fix if told else "",
        held=tuple(f"vf {i}: {who}" for i, who in pf.vfs.columns("index", "holder") if who),
        changed=subject in touched,
    )
