"""SR-IOV of a twin: VFs come and go as drivers/pci/iov.c makes them."""

from __future__ import annotations

import errno

from podrail.host.twin import PciFunction, TwinHost, VfSettings, fail
from podrail.host.twins import drivers, modules, pci, spec
from podrail.host.twins.numbers import kstrtobool, kstrtoul
from podrail.model.vf import pci_address, pci_number


def store_numvfs(host: TwinHost, real: str, text: str) -> None:
    """drivers/pci/iov.c:sriov_numvfs_store, check for check and in its order."""
    function = host.at(real)
    wanted = kstrtoul(text, top=0xFFFF)
    if wanted is None:
        raise fail(errno.EINVAL, real)
    if wanted > int(host.text(f"{function.path}/sriov_totalvfs", "0")):
        raise fail(errno.ERANGE, real)
    if wanted == len(function.vfs):
        return
    if host.driver(function) not in drivers.SRIOV:
        raise fail(errno.ENOENT, real)
    if wanted and function.vfs:
        raise fail(errno.EBUSY, real)
    if wanted:
        enable(host, function, wanted)
    else:
        drivers.drop_vfs(host, function)


def store_autoprobe(host: TwinHost, real: str, text: str) -> None:
    """drivers/pci/iov.c:sriov_drivers_autoprobe_store."""
    wanted = kstrtobool(text)
    if wanted is None:
        raise fail(errno.EINVAL, real)
    host.put(real, f"{int(wanted)}\n")


def _vf_spec(pf: spec.Function, sriov: spec.Sriov, address: str) -> spec.Function:
    return spec.Function(
        address=address,
        vendor=pf.vendor,
        device=sriov.vf_device,
        class_=pf.class_,
        subsystem=pf.subsystem,
        revision=pf.revision,
        link=pf.link,
        payload=pf.payload,
        read_request=pf.read_request,
        relaxed_ordering=pf.relaxed_ordering,
    )


def _default_settings(pf: PciFunction) -> VfSettings:
    """igb checks spoofing from the start (igb_vf_configure), mlx5 does not; an InfiniBand VF's
    port is down until somebody says otherwise (MLX5_POLICY_DOWN)."""
    port = pf.spec.port
    infiniband = port is not None and port.infiniband
    return VfSettings(
        spoofchk=pf.spec.vendor == 0x8086,
        state="disable" if infiniband else "auto",
    )


def enable(host: TwinHost, pf: PciFunction, count: int) -> None:
    """drivers/pci/iov.c:sriov_enable, then one pci_iov_add_virtfn per VF."""
    iov = pf.spec.sriov
    assert iov is not None
    pf.settings = [_default_settings(pf) for _ in range(count)]
    first = pci_number(pf.address) + iov.offset
    raw = pci.config(_vf_spec(pf.spec, iov, pf.address), virtual=True)
    above = pf.path.rpartition("/")[0]
    for index in range(count):
        address = pci_address(first + index * iov.stride)
        vf = PciFunction(
            spec=_vf_spec(pf.spec, iov, address),
            path=f"{above}/{address}",
            numa=pf.numa,
            parent=pf.parent,
            physfn=pf,
            index=index,
        )
        pf.vfs.append(vf)
        pci.add(host, vf, raw)
        host.put_link(f"{vf.path}/physfn", f"../{pf.address}")
        host.put_link(f"{pf.path}/virtfn{index}", f"../{address}")
        host.uevent("change", vf.path, "pci")  # drivers/pci/iov.c:pci_iov_sysfs_link
        drivers.probe(host, vf)
    drivers.show_vf_count(host, pf)
    host.uevent("change", pf.path, "pci")
    modules.load_for(host, pf.vfs[0])
