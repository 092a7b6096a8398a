"""The CPU's frequency governor, of every cpufreq policy (the CPUs that share one clock)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from podrail.host.seam import Host
from podrail.realise.functions import names
from podrail.realise.step import Failed, Kind, Step, Value, kind

_CPUFREQ = "/sys/devices/system/cpu/cpufreq"


@kind
class Governor(Kind):
    """One governor for all, or, as found, policy → governor."""

    name = "governor"

    def read(self, host: Host, target: str) -> Value:
        policies = [name for name in names(host, _CPUFREQ) if name.startswith("policy")]
        if not policies:
            raise Failed(
                "this machine has no cpufreq: a hypervisor or the firmware sets its clock",
                "leave out cpu.governor here, and set it on the host below or in the BIOS",
            )
        return {p: host.read(f"{_CPUFREQ}/{p}/scaling_governor").strip() for p in policies}

    def holds(self, host: Host, step: Step) -> bool:
        now = self.read(host, step.target)
        wish = _each(now, step.to)
        for policy in self.differing(now, wish):
            _refuse(host, policy, wish[policy])
        return not self.differing(now, wish)

    def write(self, host: Host, target: str, value: Value) -> None:
        now = self.read(host, target)
        wish = _each(now, value)
        for policy in self.differing(now, wish):
            _refuse(host, policy, wish[policy])
            host.write(f"{_CPUFREQ}/{policy}/scaling_governor", wish[policy])

    def says(self, value: Value) -> str:
        if not isinstance(value, Mapping):
            return str(value)
        counts = Counter(value.values())
        if len(counts) == 1:
            return str(next(iter(counts)))
        return ", ".join(f"{one} ({n} of {counts.total()})" for one, n in sorted(counts.items()))


def _each(now: Mapping[str, str], value: Value) -> dict[str, str]:
    """What every policy of this machine is to have; a CPU that went offline took its policy."""
    if isinstance(value, Mapping):
        return {policy: str(one) for policy, one in value.items() if policy in now}
    return dict.fromkeys(now, str(value))


def _refuse(host: Host, policy: str, governor: str) -> None:
    offered = host.read(f"{_CPUFREQ}/{policy}/scaling_available_governors").split()
    if governor not in offered:
        raise Failed(
            f"{policy} has no governor {governor}; it offers {', '.join(offered) or 'none'}",
            "choose one of these, or load the module of the other (cpufreq_NAME)",
        )
