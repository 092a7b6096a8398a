"""One resource as the kubelet sees it: a socket, a list that changes, and what is handed out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from threading import Condition

from podrail.attach.deviceplugin import allocate, api
from podrail.attach.deviceplugin.allocate import Given
from podrail.attach.deviceplugin.health import Marks
from podrail.attach.deviceplugin.nodes import Nodes, nodes
from podrail.attach.deviceplugin.papers import Papers, Say
from podrail.attach.deviceplugin.prefer import Place, prefer
from podrail.attach.deviceplugin.resources import Pool, Slot
from podrail.attach.deviceplugin.rpc import Context, Handler, Refusal, Server, handler
from podrail.host.seam import Host

OPTIONS = api.DevicePluginOptions(get_preferred_allocation_available=True)


class Endpoint:
    """Serves one resource, also one without devices."""

    def __init__(self, host: Host, pool: Pool, papers: Papers, say: Say, *, cdi: bool) -> None:
        self._host, self._papers, self._say, self._cdi = host, papers, say, cdi
        self._changed = Condition()
        self._pool, self._listed, self._version = pool, api.ListAndWatchResponse(), 0
        self._server: Server | None = None
        self._closing = False
        self._watchers = 0
        self.registered = False
        self.problem = ""

    @property
    def pool(self) -> Pool:
        return self._pool

    @property
    def listed(self) -> list[api.Device]:
        """What the kubelet was told last."""
        with self._changed:
            return list(self._listed.devices)

    @property
    def watched(self) -> bool:
        """Whether a kubelet listens."""
        return self._watchers > 0

    # --- what is offered ------------------------------------------------------------------------

    def offer(self, pool: Pool, marks: Marks) -> None:
        """Offer these devices from now on; whoever watches is told if something changed."""
        self._papers.keep(pool, {slot.id: self._described(slot) for slot in pool.slots})
        listed = api.ListAndWatchResponse(devices=[_device(slot, marks) for slot in pool.slots])
        with self._changed:
            self._pool = pool
            if listed != self._listed or not self._version:
                self._listed, self._version = listed, self._version + 1
                self._changed.notify_all()

    def _given(self, slot: Slot) -> list[Given]:
        return [Given(slot, one, nodes(self._host, one, slot.traits)) for one in slot.members]

    def _described(self, slot: Slot) -> list[Given]:
        """With its files only where papers name them: of 1000 VFs a look at /dev is not free."""
        if self._cdi or slot.traits.vdpa:
            return self._given(slot)
        return [Given(slot, one, Nodes()) for one in slot.members]

    # --- its socket -----------------------------------------------------------------------------

    def open(self, directory: str, *, registry: bool) -> None:
        """Serve in a directory of the kubelet's; OSError where that cannot be."""
        self.close()
        self._closing = False
        path = self._pool.resource.socket(directory)
        self._server = Server(path, self._handlers(path, registry=registry))

    def close(self) -> None:
        """Serve no more: end every call, take the socket away."""
        server, self._server = self._server, None
        self.registered = False
        if server is not None:
            server.hide()  # a stream that ends while the socket stands is a plugin that broke
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        if server is not None:
            server.stop()

    def serves(self, directory: str) -> bool:
        """Whether its own socket is there: the kubelet removes it when it starts."""
        path = self._pool.resource.socket(directory)
        return self._server is not None and self._server.path == path and self._server.there

    def superseded(self, directory: str) -> bool:
        """Whether another process serves it now: an update that starts before this one ends."""
        path = self._pool.resource.socket(directory)
        return self._server is not None and self._server.path == path and self._server.superseded

    def _handlers(self, path: str, *, registry: bool) -> Sequence[Handler]:
        plugin = (
            handler(api.GET_OPTIONS, lambda request, context: OPTIONS),
            handler(api.LIST_AND_WATCH, self._watch),
            handler(api.GET_PREFERRED, self._preferred),
            handler(api.ALLOCATE, self._allocate),
            handler(api.PRE_START, lambda request, context: api.PreStartContainerResponse()),
        )
        if not registry:
            return plugin
        info = api.PluginInfo(
            type=api.DEVICE_PLUGIN,
            name=str(self._pool.resource),
            endpoint=path,
            supported_versions=[api.VERSION],
        )
        watched = handler(api.GET_INFO, lambda request, context: info)
        return (*plugin, watched, handler(api.NOTIFY, self._notified))

    # --- what the kubelet asks ------------------------------------------------------------------

    def _notified(
        self, status: api.RegistrationStatus, context: Context
    ) -> api.RegistrationStatusResponse:
        self.registered = status.plugin_registered
        self.problem = self.problem if not self.registered else ""
        if not status.plugin_registered:
            self.troubled(f"is refused by the kubelet: {status.error}")
        return api.RegistrationStatusResponse()

    def troubled(self, why: str) -> None:
        """Say what keeps it from being used, once for each reason."""
        if why != self.problem:
            self._say(f"{self._pool.resource} {why}")
        self.problem = why

    def _watch(self, request: api.Empty, context: Context) -> Iterator[api.ListAndWatchResponse]:
        """The list now, and again whenever it changes; it ends only when the endpoint does."""
        if not context.add_callback(self._ended):
            return
        with self._changed:
            self._watchers += 1
        seen = 0
        while context.is_active() and not self._closing:
            with self._changed:
                while self._version == seen and context.is_active() and not self._closing:
                    self._changed.wait()
                new, seen, listed = self._version != seen, self._version, self._listed
            if new:
                yield listed

    def _ended(self) -> None:
        with self._changed:
            self._watchers -= 1
            self._changed.notify_all()

    def _preferred(
        self, request: api.PreferredAllocationRequest, context: Context
    ) -> api.PreferredAllocationResponse:
        places = {slot.id: Place(slot.pf, slot.numa) for slot in self._pool.slots}
        chosen = (
            prefer(one.available_deviceIDs, one.must_include_deviceIDs, one.allocation_size, places)
            for one in request.container_requests
        )
        answers = [api.ContainerPreferredAllocationResponse(deviceIDs=ids) for ids in chosen]
        return api.PreferredAllocationResponse(container_responses=answers)

    def _allocate(self, request: api.AllocateRequest, context: Context) -> api.AllocateResponse:
        pool = self._pool
        asked = [list(one.devices_ids) for one in request.container_requests]
        given = [self._hand_out(pool, ids) for ids in asked]
        if self._cdi:
            self._papers.keep_cdi(pool, {slot.id: self._given(slot) for slot in pool.slots})
        answers = [allocate.answer(pool, one, cdi=self._cdi) for one in given]
        self._say(f"{pool.resource}: {', '.join(id for ids in asked for id in ids)} handed out")
        return api.AllocateResponse(container_responses=answers)

    def _hand_out(self, pool: Pool, ids: Sequence[str]) -> list[Given]:
        known = {slot.id: slot for slot in pool.slots}
        lost = [id for id in ids if id not in known]
        if lost:
            raise Refusal("NOT_FOUND", f"{pool.resource} has no device {', '.join(lost)} any more")
        given = [one for id in ids for one in self._given(known[id])]
        bare = [one.one.id for one in given if _lacks_verbs(one)]
        if bare and not (pool.shared and len(bare) < len(given)):
            raise Refusal(
                "FAILED_PRECONDITION",
                f"{', '.join(bare)}: no /dev/infiniband/uverbsN; is ib_uverbs loaded?",
            )
        return given


def _lacks_verbs(given: Given) -> bool:
    """It had an RDMA device, and yet no file leads to it."""
    return given.slot.traits.rdma and given.one.rdma is not None and not given.nodes.rdma


def _device(slot: Slot, marks: Marks) -> api.Device:
    mark = marks.get(slot.id)
    fault = mark.fault if mark else None
    device = api.Device(ID=slot.id, health=api.UNHEALTHY if fault else api.HEALTHY)
    if slot.numa is not None:
        device.topology.nodes.append(api.NUMANode(ID=slot.numa))
    return device


def changes(before: Marks, after: Marks) -> Mapping[str, str]:
    """Id → what became of its health, in words."""
    told = {}
    for id, mark in after.items():
        fault = before[id].fault if id in before else None
        if mark.fault != fault:
            told[id] = f"unhealthy: {mark.fault}" if mark.fault else "healthy again"
    return told
