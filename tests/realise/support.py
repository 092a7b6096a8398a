"""What the tests of realise share: policies, a machine with its journal, trees compared whole."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

from click.testing import CliRunner, Result

import podrail.realise.kinds  # noqa: F401 - enters every kind of step in the registry
from podrail.cli import cli
from podrail.host.seam import Host, Ran
from podrail.host.twin import TwinHost, VfSettings
from podrail.host.twins import twin
from podrail.model.bundle import read
from podrail.realise.apply import Consent, Intent, give_back, intend, realise, resume
from podrail.realise.engine import Outcome
from podrail.realise.state import State

Point = Callable[[str], None]
Tree = dict[str, Any]


class Died(BaseException):
    """The process is gone: no handler of the program may see this."""


# --- manifests --------------------------------------------------------------------------------


def policy(name: str, pf: str, num_vfs: int, **spec: Any) -> str:
    """A SriovNetworkNodePolicy for one PF (`ens8f0`, `ens8f0#0-3`), as JSON, which is YAML."""
    return json.dumps(
        {
            "apiVersion": "sriovnetwork.openshift.io/v1",
            "kind": "SriovNetworkNodePolicy",
            "metadata": {"name": name, "namespace": "sriov-network-operator"},
            "spec": {
                "resourceName": name.replace("-", "_"),
                "nodeSelector": {},
                "numVfs": num_vfs,
                "nicSelector": {"pfNames": [pf]},
                **spec,
            },
        }
    )


def text_of(*policies: str) -> str:
    return "\n---\n".join(policies)


# --- a machine --------------------------------------------------------------------------------


@dataclass
class Bench:
    """A twin with its journal on disk; each call is a process of its own."""

    host: TwinHost
    place: Path
    at_point: Point | None = None
    resumed: list[Outcome] = field(default_factory=list)
    intent: Intent | None = None

    def state(self) -> State:
        return State(str(self.place), at_point=self.at_point)

    def apply(self, *policies: str, force: bool = False, partial: bool = False) -> list[Outcome]:
        """What `podrail apply` does; refusals end it before anything is touched."""
        bundle = read([("policies.yaml", text_of(*policies))])
        with self.state() as state, state.working():
            self.resumed = resume(self.host, state)
            self.intent = intend(self.host, bundle, state.journal, {}, Consent(force))
            if self.intent.refusals and not partial:
                return []
            state.journal.want([("policies.yaml", text_of(*policies))])
            return realise(self.host, state, self.intent)

    def reset(self, *, force: bool = False) -> list[Outcome]:
        """What `podrail reset` does."""
        with self.state() as state, state.working():
            self.resumed = resume(self.host, state)
            state.journal.want(())
            return give_back(self.host, state, force=force)

    def resume(self) -> list[Outcome]:
        with self.state() as state, state.working():
            return resume(self.host, state)

    def refused(self) -> list[str]:
        return [r.reason for r in self.intent.refusals] if self.intent else []


def bench(name: str, place: Path) -> Bench:
    return Bench(twin(name), place)


def good(outcomes: Iterable[Outcome]) -> None:
    for outcome in outcomes:
        assert outcome.state == "done", outcome


def run_of(host: TwinHost, *argv: str) -> None:
    ran = host.run(argv)
    assert ran.rc == 0, ran.stderr


def pf_of(host: TwinHost, name: str) -> str:
    """The PCI address behind a netdev."""
    return host.resolve(f"/sys/class/net/{name}/device").rpartition("/")[2]


def vf_of(host: TwinHost, pf: str, index: int) -> str:
    link = host.readlink(f"/sys/bus/pci/devices/{pf}/virtfn{index}")
    return link.rpartition("/")[2]


def numvfs(host: TwinHost, pf: str) -> int:
    return int(host.read(f"/sys/bus/pci/devices/{pf}/sriov_numvfs"))


# --- trees ------------------------------------------------------------------------------------

_NUMBERED_BY_TIME = ("/ifindex", "/iflink")
_MODULES = re.compile(
    r"/(sys/module/|proc/modules|sys/bus/pci/drivers/(vfio-pci|igbvf)/[a-z_]+$|dev/vfio/vfio$)"
)
"""A module that was loaded stays: nobody asks for it back."""
_ROCE_GUID = re.compile(r"/infiniband/mlx5_\d+/node_guid$")
"""The twin makes a RoCE VF's node GUID from its ifindex."""


def tree(host: TwinHost, *, settings: bool = True) -> Tree:
    """Every file and link, and what `ip` shows of VFs, without what depends on when it was made."""
    _all_made(host)
    found: Tree = {}
    for path, content in (*host._files.items(), *_links(host)):
        if not path.endswith(_NUMBERED_BY_TIME) and not _MODULES.match(path):
            found[path] = _plain(path, content)
    if settings:
        for function in host.functions.values():
            found[f"vf settings of {function.address}"] = [_shown(s) for s in function.settings]
    found["routes"] = list(host.routes)
    return found


def _all_made(host: TwinHost) -> None:
    """What a twin puts off until somebody looks."""
    while host._unmade:
        host._unmade.popitem()[1]()


def _shown(settings: VfSettings) -> dict[str, Any]:
    """`ip` does not tell an administrator's MAC from one the VF told its PF."""
    return {key: value for key, value in asdict(settings).items() if key != "admin_mac"}


def _links(host: TwinHost) -> Iterable[tuple[str, Any]]:
    return ((path, f"-> {target}") for path, target in host._links.items())


def _plain(path: str, content: Any) -> Any:
    if _ROCE_GUID.search(path) and str(content).startswith("0000:0000:0000:"):
        return "set" if str(content).strip("0:\n") else "zero"
    return content


def differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """Readable: the first places where two trees are not the same."""
    keys = sorted(k for k in {*old, *new} if old.get(k, "gone") != new.get(k, "gone"))
    return [f"{k}: {old.get(k, 'gone')!r} -> {new.get(k, 'gone')!r}" for k in keys[:20]]


def same(old: Tree, new: Tree) -> None:
    assert not (found := differences(old, new)), "\n".join(found)


def of(whole: Tree, *names: str) -> Tree:
    """All that belongs to some functions."""
    return {path: content for path, content in whole.items() if any(n in path for n in names)}


# --- the command line -------------------------------------------------------------------------


@dataclass
class Cli:
    """`podrail VERB` on a twin that outlives the verb."""

    host: Host
    place: Path

    def __call__(self, verb: str, *argv: str, stdin: str | None = None) -> Result:
        words = [verb, "--state", str(self.place), *argv]
        with patch("podrail.cli.machine.opened", lambda *_: (self.host, dict(self.host.labels))):
            result = CliRunner().invoke(cli, words, input=stdin)
        assert isinstance(result.exception, SystemExit | None), result.exc_info
        return result

    def apply(self, *policies: str, options: Sequence[str] = ()) -> Result:
        return self("apply", "-f", "-", *options, stdin=text_of(*policies))


# --- holding a VF -----------------------------------------------------------------------------

CHECKPOINT = "/var/lib/kubelet/device-plugins/kubelet_internal_checkpoint"


def hold_by_pod(host: TwinHost, vf: str) -> None:
    entry = {"PodUID": "8d2f-1", "ContainerName": "train", "DeviceIDs": {"-1": [vf]}}
    host.put(CHECKPOINT, json.dumps({"Data": {"PodDeviceEntries": [entry]}, "Checksum": 1}))


def hold_by_netns(host: TwinHost, vf: str) -> None:
    """As sriov-cni leaves it: the netdev is out of sight, its directory is empty."""
    _all_made(host)
    host.put(f"/var/lib/cni/sriov/pci/{vf}", "/var/run/netns/cni-1\n")
    host.put("/var/run/netns/cni-1", "")
    function = host.functions[vf]
    host.remove(f"/sys/class/net/{function.netdev}")
    host.remove(f"{function.path}/net/{function.netdev}")


def hold_by_vfio(host: TwinHost, vf: str) -> None:
    host.put_link("/proc/4711/fd/7", f"/dev/vfio/{host.functions[vf].group}")


def hold_by_verbs(host: TwinHost, vf: str) -> None:
    shown = json.dumps([{"ifname": host.functions[vf].rdma, "qp": 1, "ctx": 2}])
    argv = ("rdma", "-j", "resource")
    host.put_program(argv, Ran(argv, 0, shown))
