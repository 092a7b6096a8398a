"""The files that tell others of devices: device-info of each, and the CDI file of a resource."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from podrail.attach.deviceplugin import allocate
from podrail.attach.deviceplugin.allocate import DEVICE_INFO, Given
from podrail.attach.deviceplugin.naming import Resource
from podrail.attach.deviceplugin.resources import Pool
from podrail.host.seam import Host
from podrail.inventory.pci import ADDRESS

Say = Callable[[str], None]


class Papers:
    """Keeps the files of all resources; what fails is said, and stops nobody."""

    def __init__(self, host: Host, say: Say, *, cdi: bool = False) -> None:
        self._host, self._say, self._cdi = host, say, cdi

    def keep(self, pool: Pool, given: Mapping[str, Sequence[Given]]) -> None:
        """Make the files of a resource as its devices are, and take those of lost ones away."""
        wanted = {
            allocate.device_info_file(pool.resource, slot.id): _info(given[slot.id])
            for slot in pool.slots
            if allocate.is_function(slot)
        }
        for path in self._stale(pool.resource, wanted):
            self._unlink(path)
        for path, text in wanted.items():
            self._place(path, text)
        if self._cdi:
            self.keep_cdi(pool, given)

    def keep_cdi(self, pool: Pool, given: Mapping[str, Sequence[Given]]) -> None:
        text, path = allocate.cdi_spec(pool, given), allocate.cdi_file(pool.resource)
        if text:
            self._place(path, text)
        else:
            self._unlink(path)

    def drop(self, resource: Resource) -> None:
        """Take all files of a resource away."""
        for path in self._stale(resource, {}):
            self._unlink(path)
        if self._cdi:
            self._unlink(allocate.cdi_file(resource))

    def _stale(self, resource: Resource, wanted: Mapping[str, str]) -> list[str]:
        """Files of this resource and no other: `a.com-rail` also begins `a.com-rail-b-…`."""
        mine = re.compile(rf"{re.escape(resource.dashed)}-{ADDRESS.pattern}-device\.json", re.ASCII)
        try:
            names = self._host.entries(DEVICE_INFO)
        except OSError:
            return []
        paths = [f"{DEVICE_INFO}/{name}" for name in names if mine.fullmatch(name)]
        return [path for path in paths if path not in wanted]

    def _place(self, path: str, text: str) -> None:
        if self._stands(path, text):
            return
        try:
            self._host.place(path, text)
        except OSError as no:
            self._say(f"{path} cannot be written ({no.strerror}): Multus will not tell of it")

    def _stands(self, path: str, text: str) -> bool:
        with suppress(OSError):
            return self._host.read(path) == text
        return False

    def _unlink(self, path: str) -> None:
        try:
            self._host.unlink(path)
        except FileNotFoundError:
            return
        except OSError as no:
            self._say(f"{path} cannot be removed ({no.strerror}): remove it by hand")


def _info(given: Sequence[Given]) -> str:
    vdpa = next((path for one in given for path in one.nodes.vdpa), None)
    return allocate.device_info(given[0].slot, vdpa)
