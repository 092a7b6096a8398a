"""An agent on a twin, its clock in the hand of the test."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

from podrail.agent.keeper import Keeper
from podrail.agent.loop import Loop
from podrail.agent.notify import Notifier
from podrail.agent.reports import Report, Reporter
from podrail.agent.signals import Signals
from podrail.agent.wanted import FromJournal, Source
from podrail.host.seam import Ran
from podrail.host.twin import PciFunction, TwinHost
from podrail.host.twins import consequences, drivers, pci
from podrail.realise.asked import Asked
from podrail.realise.state import State

ENS2, ENP67 = "0000:81:00.0", "0000:43:00.0"
CHECKPOINT = "/var/lib/kubelet/device-plugins/kubelet_internal_checkpoint"


def policy(name: str = "rail-a", vfs: int = 4, pfs: str = "ens2", extra: str = "mtu: 9000") -> str:
    return f"""\
apiVersion: sriovnetwork.openshift.io/v1
kind: SriovNetworkNodePolicy
metadata: {{name: {name}, namespace: sriov-network-operator}}
spec:
  resourceName: {name.replace("-", "_")}
  nodeSelector: {{}}
  numVfs: {vfs}
  {extra}
  nicSelector: {{pfNames: [{pfs}]}}
"""


class Clock:
    """Goes forward when told to."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Told(Reporter):
    """Keeps the reports, and writes them as the agent would."""

    def __init__(self, state: State) -> None:
        super().__init__(state.journal, to=io.StringIO())
        self.reports: list[Report] = []

    def __call__(self, report: Report) -> None:
        self.reports.append(report)
        super().__call__(report)

    def take(self) -> list[Report]:
        found, self.reports = self.reports, []
        return found

    def lines(self) -> list[str]:
        """What was said since the last time, as people read it."""
        return [str(report) for report in self.take()]


class Rig:
    """One agent, turned by hand."""

    def __init__(
        self, host: TwinHost, place: Path, *manifests: str,
        source: Callable[[State], Source] | None = None,
    ) -> None:  # fmt: skip
        self.host, self.clock, self.state = host, Clock(), State(str(place))
        if manifests:
            self.want(*manifests)
        self.told, self.signals = Told(self.state), Signals()
        self.watch = host.watch()
        found = source(self.state) if source else FromJournal(self.state.journal, Asked())
        self.keeper = Keeper(host, self.state, found, self.watch, self.told, self.clock)
        self.loop = Loop(
            self.keeper, self.watch, self.signals, Notifier({}, self.clock), clock=self.clock
        )

    def want(self, *manifests: str) -> None:
        named = [(f"{n}.yaml", text) for n, text in enumerate(manifests)]
        self.state.journal.want(named)

    def begin(self) -> Rig:
        self.loop.full()
        self.told.take()
        return self

    def turn(self, seconds: float = 0.0) -> list[str]:
        """One turn after some time; what was said."""
        self.clock.now += seconds
        self.loop.turn()
        return self.told.lines()

    def run(self, pf: str = ENS2) -> int:
        """The number of the last run in which a PF was worked on."""
        return self.state.journal.latest()[pf].run

    def close(self) -> None:
        self.watch.close()
        self.state.close()

    # --- what strangers do ----------------------------------------------------------------------

    def write(self, name: str, text: str, pf: str = ENS2) -> None:
        self.host.write(f"/sys/bus/pci/devices/{pf}/{name}", text)

    def read(self, name: str, pf: str = ENS2) -> str:
        return self.host.read(f"/sys/bus/pci/devices/{pf}/{name}").strip()

    def ip(self, *words: str) -> Ran:
        ran = self.host.run(("ip", *words))
        assert ran.rc == 0, ran
        return ran

    def unplug(self, pf: str = ENS2) -> PciFunction:
        function = self.host.functions[pf]
        consequences.change(self.host, f"/sys/bus/pci/devices/{pf}", None)
        return function

    def plug(self, function: PciFunction) -> None:
        """As it comes out of its box: no VFs, the driver's defaults."""
        fresh = PciFunction(function.spec, function.path, function.numa, parent=function.parent)
        pci.add(self.host, fresh, pci.config(fresh.spec))
        drivers.probe(self.host, fresh)

    def hold(self, vf: str) -> None:
        """The kubelet has given a VF to a pod."""
        entry = f'{{"PodUID":"p1","ContainerName":"c","DeviceIDs":{{"0":["{vf}"]}}}}'
        self.host.put(CHECKPOINT, f'{{"Data":{{"PodDeviceEntries":[{entry}]}}}}')

    def let_go(self) -> None:
        self.host.put(CHECKPOINT, '{"Data":{"PodDeviceEntries":[]}}')


def tree(host: TwinHost) -> tuple[object, ...]:
    """Everything a twin holds."""
    settings = {pf.address: list(pf.settings) for pf in host.functions.values()}
    return dict(host._files), dict(host._links), settings, {**host.netdevs}
