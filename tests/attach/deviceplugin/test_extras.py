"""Facts that only some selectors ask for, on machines that have them."""

from __future__ import annotations

from podrail.attach.deviceplugin.candidates import ACCELERATOR, AUXILIARY, candidates
from podrail.attach.deviceplugin.configs import Wanted
from podrail.attach.deviceplugin.nodes import extras, nodes
from podrail.attach.deviceplugin.resources import Slot, Traits, offer
from podrail.host.twin import PciFunction
from podrail.host.twins import pci, spec
from tests.attach.deviceplugin.machines import Machine, configured

PF = "0000:9c:00.0"


def slots(machine: Machine, wanted: Wanted) -> tuple[Slot, ...]:
    inventory = machine.look()
    found = candidates(inventory, extras(machine, inventory, wanted.asks))
    return offer(wanted, inventory, found).pools[0].slots


def test_nothing_is_read_that_nobody_asks_for() -> None:
    machine = Machine("roce-cx6", ens8f0=2)
    machine.twin.put(machine.resolve(f"/sys/bus/pci/devices/{PF}") + "/acpi_index", "7\n")
    assert extras(machine, machine.look(), frozenset()).functions == {}
    assert configured(resourceName="a", selectors={"pfNames": ["ens8f0"]}).asks == frozenset()


def test_acpi_indexes() -> None:
    machine = Machine("roce-cx6", ens8f0=2)
    vf = machine.function("ens8f0", 1)
    machine.twin.put(f"{vf.path}/acpi_index", "7\n")
    wanted = configured(resourceName="a", selectors={"acpiIndexes": ["7"]})
    assert [slot.id for slot in slots(machine, wanted)] == [vf.address]


def test_vdpa_devices() -> None:
    machine = Machine("roce-cx6", ens8f0=2)
    for number, driver in enumerate(("vhost_vdpa", "virtio_vdpa")):
        place = f"{machine.function('ens8f0', number).path}/vdpa{number}"
        machine.twin.put_dir(f"{place}/vhost-vdpa-{number}")
        machine.twin.put_link(f"/sys/bus/vdpa/devices/vdpa{number}", f"../../..{place[4:]}")
        machine.twin.put_link(f"{place}/driver", f"/sys/bus/vdpa/drivers/{driver}")
    machine.twin.put_dir("/sys/bus/vdpa/drivers/vhost_vdpa")
    machine.twin.put("/dev/vhost-vdpa-0", "")
    found = slots(machine, configured(resourceName="a", selectors={"vdpaType": "vhost"}))
    assert [slot.id for slot in found] == [machine.vf("ens8f0", 0)]
    one = found[0].members[0]
    assert nodes(machine, one, found[0].traits).vdpa == ("/dev/vhost-vdpa-0",)


def test_subfunctions() -> None:
    machine = Machine("roce-cx6")
    path = machine.resolve(f"/sys/bus/pci/devices/{PF}")
    for number, kind in enumerate(("sf", "sf", "eth")):
        name = f"mlx5_core.{kind}.{number + 2}"
        machine.twin.put(f"{path}/{name}/sfnum", f"{number + 88}\n")
        machine.twin.put_dir(f"{path}/{name}/net/enp156s0f0s{number}")
        machine.twin.put_link(f"/sys/bus/auxiliary/devices/{name}", f"../../..{path[4:]}/{name}")
    wanted = configured(
        resourceName="a",
        deviceType=AUXILIARY,
        selectors={"auxTypes": ["sf"], "pfNames": ["ens8f0#89-99"]},
    )
    found = slots(machine, wanted)
    assert [slot.id for slot in found] == ["mlx5_core.sf.3"]
    assert found[0].members[0].netdev == "enp156s0f0s1"
    assert found[0].pf == PF


def accelerator(machine: Machine, address: str) -> PciFunction:
    made = PciFunction(
        spec.Function(address, vendor=0x8086, device=0x4940, class_=0x120000),
        f"/sys/devices/pci0000:00/{address}",
        numa=0,
    )
    pci.add(machine.twin, made, pci.config(made.spec))
    return made


def test_accelerators() -> None:
    """VFs, and PFs without; the class of NICs never gets in."""
    machine = Machine("roce-cx6", ens8f0=2)
    plain, split, vf = (accelerator(machine, f"0000:0{n}:00.0") for n in (1, 2, 3))
    machine.twin.put_link(f"{split.path}/virtfn0", f"../{vf.address}")
    machine.twin.put_link(f"{vf.path}/physfn", f"../{split.address}")
    found = slots(machine, configured(resourceName="a", deviceType=ACCELERATOR, selectors={}))
    assert [slot.id for slot in found] == [plain.address, vf.address]
    assert found[1].traits == Traits()
    assert found[1].pf == split.address
