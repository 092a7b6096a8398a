"""Manifests × machine → jobs, and the jobs done: what `apply`, `reset` and the agent share."""

from __future__ import annotations

import errno
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from podrail.host.seam import Host, exists
from podrail.inventory import discover
from podrail.inventory.pci import ADDRESS
from podrail.inventory.reader import Reader
from podrail.model.bundle import Bundle
from podrail.model.errors import Refused
from podrail.model.inventory import Inventory, Pf
from podrail.model.plan import Action, Change, NodePlan, PfPlan
from podrail.model.policy import Policy, policies
from podrail.model.profile import profiles
from podrail.planning.decide import wants_vfio
from podrail.planning.merge import Wish
from podrail.planning.planner import Planner
from podrail.realise.crew import resume_all, work
from podrail.realise.engine import RESET, Outcome, Tell, silent
from podrail.realise.functions import at
from podrail.realise.guids import Pool, lacking, pools
from podrail.realise.journal import OPEN, Job, Journal
from podrail.realise.kinds.files import RDMA_CONF, rdma_netns_conf
from podrail.realise.kinds.firmware import shared_vfs
from podrail.realise.profile import preview, profile_steps
from podrail.realise.refusals import explain
from podrail.realise.state import State
from podrail.realise.step import MACHINE, Failed, Gone, Step, kind_of, pending
from podrail.realise.wanted import steps

APPLY = "apply"
_PROFILE = "profile "
_KERNEL_ARGUMENTS = "kernel arguments"
_NETWORK_MANAGER = "/etc/NetworkManager"
_DAEMON = "sriov-network-c"  # TASK_COMM_LEN cuts sriov-network-config-daemon


@dataclass(frozen=True, slots=True)
class Consent:
    """What the operator allows beyond the careful default."""

    force: bool = False
    """Touch held VFs, and a node that the upstream operator keeps."""
    management: frozenset[str] = frozenset()
    firmware: bool = False
    """Set a card's firmware, which takes a reboot to come true."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A PF that stays as it is, and why."""

    subject: str
    name: str
    reason: str
    fix: str


@dataclass(frozen=True, slots=True)
class Intent:
    """What manifests mean for a machine as it stands."""

    inventory: Inventory
    plan: NodePlan
    jobs: tuple[Job, ...]
    """One for every PF that policies select, as wanted or not."""
    tuning: tuple[Job, ...] = ()
    """Host profiles; done when the PFs are."""
    refusals: tuple[Refusal, ...] = ()
    waiting: tuple[Refusal, ...] = ()
    """PFs that can be done after a reboot."""
    given_back: tuple[str, ...] = ()
    """What podrail has changed and nobody wants any more."""
    gone: tuple[tuple[str, str], ...] = ()
    """PFs podrail has changed that are not on the PCI bus now, with the names they had."""

    @property
    def all_jobs(self) -> tuple[Job, ...]:
        return (*self.jobs, *self.tuning)


def intend(
    host: Host, bundle: Bundle, journal: Journal, labels: Mapping[str, str], consent: Consent
) -> Intent:
    """Look at the machine and spell out what the manifests want of it. Changes nothing."""
    inventory = discover(host, labels)
    planner = Planner.of(
        bundle, allow_management=consent.management, allow_firmware=consent.firmware
    )
    node = planner.node(inventory)
    wishes = {pf.pci: (pf, wish) for pf, wish in planner.wishes(inventory)}
    guids = _pools(host, wishes)
    refusals = (
        *_refusals(node, wishes, consent),
        *_lacking(wishes, guids),
        *_renamed(journal, inventory, policies(bundle), wishes),
    )
    waiting = tuple(_waiting(node, wishes))
    left_out = {r.subject for r in (*refusals, *waiting)}
    tuned = profile_steps(profiles(bundle), inventory)
    impossible = tuple(_impossible(host, inventory, tuned))
    refusals = (*refusals, *impossible)
    left_out |= {r.subject for r in impossible}
    tuning = tuple(job for job in _tuning(tuned) if job.subject not in left_out)
    jobs = tuple(_jobs(host, node, wishes, left_out, guids, consent))
    in_vain = tuple(_in_vain(host, jobs))
    refusals = (*refusals, *in_vain)
    jobs = tuple(job for job in jobs if job.subject not in {r.subject for r in in_vain})
    stays = {job.subject for job in tuning} | set(
        _subjects((*refusals, *spared(inventory, consent.management)))
    )
    return Intent(
        inventory=inventory,
        plan=replace(node, settings=preview(host, tuned)),
        jobs=jobs,
        tuning=tuning,
        refusals=refusals,
        waiting=waiting,
        given_back=_unwanted(journal, inventory, {*wishes, *stays}),
        gone=_gone(journal, inventory),
    )


def _unwanted(journal: Journal, inventory: Inventory, wanted: Collection[str]) -> tuple[str, ...]:
    """A NIC that is not there now may come back: what was found on it is kept."""
    there = {device.address for device in inventory.pci}
    ours = {seen.subject for seen in journal.seen()} - {MACHINE, *wanted}
    return tuple(sorted(s for s in ours if s.startswith(_PROFILE) or s in there))


def _subjects(refusals: Sequence[Refusal]) -> Iterator[str]:
    """What a refusal of a PF stands for: the PF, and the profile on it."""
    for refusal in refusals:
        yield refusal.subject
        yield f"{_PROFILE}{refusal.subject}"


def _gone(journal: Journal, inventory: Inventory) -> tuple[tuple[str, str], ...]:
    there = {device.address for device in inventory.pci}
    ours = {seen.subject for seen in journal.seen() if ADDRESS.fullmatch(seen.subject)}
    names = journal.names()
    return tuple((pci, names.get(pci, "")) for pci in sorted(ours - there))


def _impossible(host: Host, inventory: Inventory, tuned: Sequence[Step]) -> Iterator[Refusal]:
    """Settings that this machine does not have are refused before anything is touched."""
    for step in tuned:
        try:
            kind_of(step).holds(host, step)
        except Failed as no:
            pf = inventory.pf(step.target)
            name = f"profile {step.set_by} on {pf.name if pf else step.target}"
            yield Refusal(f"{_PROFILE}{step.target}", name, f"{step.kind}: {no.reason}", no.fix)
        except (Gone, OSError):
            continue


def _in_vain(host: Host, jobs: Sequence[Job]) -> Iterator[Refusal]:
    """The card's firmware is as wanted and in force, and yet the kernel sees too few VFs."""
    for job in jobs:
        if not job.steps or any(step.kind != "firmware" for step in job.steps):
            continue
        if not differing(host, job) and not pending(host, job.steps):
            yield Refusal(
                job.subject, job.name,
                "its firmware offers the VFs that are wanted, and sriov_totalvfs shows fewer",
                "switch SR-IOV on in the BIOS for this slot, and boot",
            )  # fmt: skip


def _tuning(tuned: Sequence[Step]) -> Iterator[Job]:
    by_target: dict[str, list[Step]] = {}
    for step in tuned:
        by_target.setdefault(step.target, []).append(step)
    for target, given in by_target.items():
        yield Job(f"{_PROFILE}{target}", tuple(given))


def _waiting(node: NodePlan, wishes: Mapping[str, tuple[Pf, Wish]]) -> Iterator[Refusal]:
    """vfio-pci takes no device before the kernel has its IOMMU."""
    if not any(change.field == _KERNEL_ARGUMENTS for change in node.system):
        return
    for pci, (pf, wish) in wishes.items():
        if wants_vfio(wish):
            reason = "vfio-pci needs the IOMMU, which the kernel arguments bring at the next boot"
            yield Refusal(pci, pf.name, reason, "reboot; an agent then goes on by itself")


def _refusals(
    node: NodePlan, wishes: Mapping[str, tuple[Pf, Wish]], consent: Consent
) -> Iterator[Refusal]:
    for pf in node.pfs:
        if pf.pci not in wishes:
            continue
        if pf.action is Action.REFUSE:
            yield Refusal(pf.pci, pf.name, pf.refused or "", pf.fix or "")
        elif not consent.firmware and any(c.field == "linkType" for c in pf.changes):
            reason = "linkType is a setting of the card's firmware, and takes a reboot"
            yield Refusal(pf.pci, pf.name, reason, "say --firmware to have it set")
        elif pf.disturbs.pods and not consent.force:
            yield _held(pf)


def _renamed(
    journal: Journal, inventory: Inventory, wanted: Sequence[Policy], wishes: Collection[str]
) -> Iterator[Refusal]:
    """A PF that a policy selects by the name it no longer has: not unwanted, but lost."""
    named = {entry.name: policy.name for policy in wanted for entry in policy.pf_names}
    ours = {seen.subject for seen in journal.seen()}
    for pci, was in journal.names().items():
        pf = inventory.pf(pci)
        if pf and pci in ours and pci not in wishes and was != pf.name and was in named:
            yield Refusal(pci, pf.name, *_lost_name(pf, was, named[was]))


def _lost_name(pf: Pf, was: str, policy: str) -> tuple[str, str]:
    if not pf.name:
        return (
            f"it was {was} when podrail set it up and has no netdev now (driver "
            f"{pf.driver or 'none'}); policy {policy} selects {was}",
            f"bind its driver: `lspci -k -s {pf.pci}` names it",
        )
    return (
        f"it was {was} when podrail set it up and is {pf.name} now; policy {policy} selects {was}",
        f"name {pf.name} in pfNames, or: ip link property add dev {pf.name} altname {was}",
    )


def _held(pf: PfPlan) -> Refusal:
    return Refusal(
        pf.pci, pf.name,
        f"{pf.action.value} would disturb {', '.join(pf.disturbs.pods)}",
        "end what holds them (a pod: drain the node), or say --force",
    )  # fmt: skip


def _jobs(
    host: Host, node: NodePlan, wishes: Mapping[str, tuple[Pf, Wish]], refused: Collection[str],
    guids: Sequence[Pool], consent: Consent,
) -> Iterator[Job]:  # fmt: skip
    unmanage = exists(host, _NETWORK_MANAGER)
    machine = tuple(_machine_steps(node.system))
    if machine:
        yield Job(MACHINE, machine)
    card = shared_vfs({pci: int(wish.num_vfs.value or 0) for pci, (_, wish) in wishes.items()})
    for pci, (pf, wish) in wishes.items():
        if pci not in refused:
            spelled = steps(pf, wish, guids, unmanage=unmanage, card_vfs=card[pci])
            yield Job(pci, spelled, consent.force, pf.name)


def _pools(host: Host, wishes: Mapping[str, tuple[Pf, Wish]]) -> Sequence[Pool]:
    """The file of GUIDs is nobody's business on a machine where no InfiniBand port is wanted."""
    return pools(host) if any(pf.link_type == "ib" for pf, _ in wishes.values()) else ()


def _lacking(wishes: Mapping[str, tuple[Pf, Wish]], guids: Sequence[Pool]) -> Iterator[Refusal]:
    for pci, (pf, wish) in wishes.items():
        found = lacking(pf, int(wish.num_vfs.value or 0), guids) if pf.link_type == "ib" else None
        if found:
            yield Refusal(pci, pf.name, *found)


def _machine_steps(changes: Sequence[Change]) -> Iterator[Step]:
    for change in changes:
        if change.field == _KERNEL_ARGUMENTS:
            wanted = dict.fromkeys(str(change.new).split(), True)
            yield Step("kernel-args", MACHINE, wanted, change.set_by)
        elif change.field == "RDMA namespace mode":
            yield Step("rdma-netns", MACHINE, change.new, change.set_by)
            yield Step("file", RDMA_CONF, rdma_netns_conf(str(change.new)), change.set_by)


def differing(host: Host, job: Job) -> tuple[Step, ...]:
    """The steps of a job that do not hold now."""
    return tuple(step for step in job.steps if not _holds(host, step))


def _holds(host: Host, step: Step) -> bool:
    try:
        return kind_of(step).holds(host, step)
    except (Gone, Failed, OSError):
        return False


# --- doing it ---------------------------------------------------------------------------------


def boot_id(host: Host) -> str:
    return (Reader(host).text("/proc/sys/kernel/random/boot_id", quiet=True) or "").strip()


def realise(host: Host, state: State, intent: Intent, tell: Tell = silent) -> list[Outcome]:
    """Do the jobs that have something to do, and give back what nobody wants."""
    journal = state.journal
    outcomes = give_back(host, state, intent.given_back, tell) if intent.given_back else []
    for stage in (intent.jobs, intent.tuning):
        jobs = [job for job in stage if differing(host, job)]
        writable(host, jobs)
        if jobs:
            run = journal.open_run(APPLY, boot_id(host), jobs)
            outcomes += work(host, journal, run, APPLY, jobs, tell)
    return outcomes


def give_back(
    host: Host, state: State, subjects: Collection[str] | None = None, tell: Tell = silent,
    *, force: bool = False, spare: Sequence[Refusal] = (),
) -> list[Outcome]:  # fmt: skip
    """Everything, or some subjects, as they were at first sight."""
    left = set(_subjects(spare))
    known = [job for job in reset_jobs(state.journal, force) if job.subject not in left]
    jobs = [job for job in known if subjects is None or job.subject in subjects]
    if not jobs:
        return []
    writable(host, jobs)
    run = state.journal.open_run(RESET, boot_id(host), jobs)
    return work(host, state.journal, run, RESET, jobs, tell)


def reset_jobs(journal: Journal, force: bool = False) -> list[Job]:
    """What was first changed last is given back first."""
    by_subject: dict[str, list[Step]] = {}
    for seen in reversed(journal.seen()):
        by_subject.setdefault(seen.subject, []).append(
            Step(seen.kind, seen.target, seen.was, "as found")
        )
    return [Job(subject, tuple(given), force) for subject, given in by_subject.items()]


def spared(inventory: Inventory, allowed: Collection[str]) -> tuple[Refusal, ...]:
    """PFs that the machine is reached through by now: giving them back could cut it off."""
    return tuple(
        Refusal(
            pf.pci, pf.name,
            f"it carries the machine's management path: {pf.management}",
            f"say --allow-management {pf.name or pf.pci}",
        )
        for pf in inventory.pfs
        if pf.management and not {pf.pci, pf.name, *pf.altnames} & set(allowed)
    )  # fmt: skip


def resume(
    host: Host, state: State, tell: Tell = silent, *, allowed: Collection[str] = ()
) -> list[Outcome]:
    """Finish or take back what an earlier process left unfinished, but not on a PF that the
    machine is reached through by now."""
    unfinished = state.journal.unfinished()
    if not unfinished:
        return []
    spare = {r.subject: r for r in spared(discover(host), allowed)}
    going = [begun for begun in unfinished if begun.subject not in spare]
    left = [spare[b.subject] for b in unfinished if b.subject in spare]
    outcomes = resume_all(host, state.journal, boot_id(host), going, tell)
    return [*outcomes, *(Outcome(r.subject, OPEN, reason=r.reason, fix=r.fix) for r in left)]


def refuse_beside_upstream(host: Host, consent: Consent) -> None:
    """Two masters of one node undo each other's work."""
    pid = None if consent.force else upstream_daemon(host)
    if pid is not None:
        raise Refused(
            f"the upstream operator keeps this node: its config daemon runs (pid {pid}). Take the "
            "node out of SriovOperatorConfig's configDaemonNodeSelector first; its VFs stay, and "
            "podrail takes them over as they are"
        )


def upstream_daemon(host: Host) -> int | None:
    reader = Reader(host)
    for pid in filter(str.isdecimal, reader.names("/proc", quiet=True)):
        if (reader.text(f"/proc/{pid}/comm", quiet=True) or "").strip() == _DAEMON:
            return int(pid)
    return None


def writable(host: Host, jobs: Sequence[Job]) -> None:
    """Writing the number of VFs there is changes nothing (drivers/pci/iov.c:sriov_numvfs_store)
    and shows whether the machine lets itself be changed at all."""
    for job in jobs:
        path = f"{at(job.subject)}/sriov_numvfs"
        if job.subject == MACHINE or not exists(host, path):
            continue
        try:
            host.write(path, host.read(path).strip())
        except OSError as no:
            if no.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
                reason, fix = explain(Step("check", path, None), no)
                raise Refused(f"nothing was changed: {reason}. Next: {fix}") from no
