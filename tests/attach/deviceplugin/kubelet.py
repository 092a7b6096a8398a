"""A strict kubelet: real gRPC, the real one's checks and habits, and no patience with a plugin.

pkg/kubelet/cm/devicemanager/plugin/v1beta1/{server,handler,client}.go,
pkg/kubelet/cm/devicemanager/manager.go and pkg/kubelet/pluginmanager. Where the real one shrugs
(two registrations, a stream that ends), this one keeps it in `violations`.
"""

from __future__ import annotations

import os
import re
import select
import stat
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Condition, Thread
from time import monotonic

from podrail.attach.deviceplugin import api
from podrail.attach.deviceplugin.kubelet import Directory, Places
from podrail.attach.deviceplugin.rpc import (
    Channel,
    Context,
    Refusal,
    Server,
    Stream,
    Unanswered,
    channel,
    handler,
    identity,
)

CHECKPOINT = "kubelet_internal_checkpoint"
SECONDS = 20.0
_QUALIFIED = re.compile(r"(?:[a-z0-9-]+\.)*[a-z0-9-]+/[A-Za-z0-9](?:[\w.-]{0,61}[A-Za-z0-9])?")


@dataclass
class Plugin:
    """One resource a plugin has registered."""

    resource: str
    socket: str
    opened: Channel
    stack: ExitStack
    options: api.DevicePluginOptions
    stream: Stream[api.ListAndWatchResponse]
    identity: tuple[int, int, int] | None
    devices: dict[str, api.Device] = field(default_factory=dict)
    updates: int = 0
    given: set[str] = field(default_factory=set)
    gone: bool = False

    @property
    def healthy(self) -> list[str]:
        return [id for id, device in self.devices.items() if device.health == api.HEALTHY]

    @property
    def unhealthy(self) -> list[str]:
        return [id for id, device in self.devices.items() if device.health == api.UNHEALTHY]


class Kubelet:
    """Serves and calls as the kubelet does, in one root directory."""

    def __init__(self, root: Path, *, watcher: bool) -> None:
        self.places = Places(str(root / "plugins_registry"), str(root / "device-plugins"))
        self.watcher = watcher
        self.plugins: dict[str, Plugin] = {}
        self.violations: list[str] = []
        self.refuses = ""
        """A reason to want no plugin at all."""
        self.registrations: list[str] = []
        self._changed = Condition()
        self._leaving = False
        self._server: Server | None = None
        self._threads: list[Thread] = []
        self._seen: dict[str, tuple[int, int, int] | None] = {}
        self._bell = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)

    # --- its life -------------------------------------------------------------------------------

    def start(self, *, clean: bool = True) -> Kubelet:
        """server.go:Start: clean the directory, then serve in it; then look for sockets."""
        self._leaving = False
        Path(self.places.plugins).mkdir(parents=True, exist_ok=True)
        for path in Path(self.places.plugins).iterdir() if clean else ():
            if path.name != CHECKPOINT:
                path.unlink()
        self._server = Server(
            f"{self.places.plugins}/kubelet.sock", [handler(api.REGISTER, self._register)]
        )
        if self.watcher:
            Path(self.places.registry).mkdir(exist_ok=True)
            self._run(self._look)
        return self

    def stop(self) -> None:
        """Gone in an instant, with its connections; what plugins made stays where it is."""
        self._leaving = True
        os.eventfd_write(self._bell, 1)
        with self._changed:
            plugins, self.plugins = list(self.plugins.values()), {}
        for plugin in plugins:
            plugin.gone = True
            plugin.stream.cancel()
            plugin.stack.close()
        if self._server is not None:
            self._server.stop()
        for thread in self._threads:
            thread.join(SECONDS)
            assert not thread.is_alive(), thread.name
        self._threads.clear()
        self._seen.clear()
        with suppress(BlockingIOError):
            os.eventfd_read(self._bell)

    def restart(self) -> None:
        self.stop()
        self.start()

    def _run(self, target: Callable[[], None]) -> None:
        thread = Thread(target=target, name="kubelet", daemon=True)
        self._threads.append(thread)
        thread.start()

    # --- how it learns of plugins ---------------------------------------------------------------

    def _register(self, request: api.RegisterRequest, context: Context) -> api.Empty:
        """server.go:Register."""
        if request.version != api.VERSION:
            raise Refusal("UNKNOWN", f"unsupported version {request.version!r}")
        if "/" in request.endpoint or not request.endpoint:
            raise Refusal("UNKNOWN", f"endpoint {request.endpoint!r} is no file name")
        self._admit(request.resource_name, f"{self.places.plugins}/{request.endpoint}")
        return api.Empty()

    def _look(self) -> None:
        """plugin_watcher.go: what is there already, then whatever comes and goes."""
        directory = Directory()
        directory.look_at(self.places.registry)
        poll = select.poll()
        for fd in (directory.fileno(), self._bell):
            poll.register(fd, select.POLLIN)
        while not self._leaving:
            directory.drain()
            self._reconcile()
            poll.poll(SECONDS * 1000)
        directory.close()

    def _reconcile(self) -> None:
        place = Path(self.places.registry)
        names = (path for path in place.iterdir() if not path.name.startswith("."))
        now = {str(path): identity(str(path)) for path in names if path.is_socket()}
        for path in [p for p in self._seen if now.get(p) != self._seen[p]]:
            self._forget(path)
            del self._seen[path]
        for path, found in now.items():
            if path not in self._seen:
                self._seen[path] = found
                self._found(path)

    def _found(self, path: str) -> None:
        """operation_generator.go:GenerateRegisterPluginFunc."""
        try:
            with channel(path) as opened:
                info = opened.call(api.GET_INFO, api.InfoRequest(), timeout=5)
                error = self._validate(path, info)
                status = api.RegistrationStatus(plugin_registered=not error, error=error)
                opened.call(api.NOTIFY, status, timeout=5)
        except Unanswered as no:
            if Path(path).exists():
                self._blame(f"{path}: {no}")

    def _validate(self, path: str, info: api.PluginInfo) -> str:
        if info.type != api.DEVICE_PLUGIN:
            return f"no handler registered for plugin type: {info.type}"
        if api.VERSION not in info.supported_versions:
            return f"manager version, {api.VERSION}, is not among {list(info.supported_versions)}"
        if info.endpoint not in ("", path):
            return f"endpoint {info.endpoint} is not the socket it was found at"
        try:
            self._admit(info.name, path)
        except Refusal as no:
            return no.why
        return ""

    def _admit(self, resource: str, socket: str) -> None:
        """handler.go:ValidatePlugin and connectClient."""
        if self.refuses:
            raise Refusal("UNKNOWN", self.refuses)
        if not _QUALIFIED.fullmatch(resource) or "kubernetes.io/" in resource:
            raise Refusal("UNKNOWN", f"the ResourceName {resource!r} is invalid")
        self._check_socket(socket)
        if resource in self.plugins:
            self._blame(f"{resource} is registered twice")
            raise Refusal("ALREADY_EXISTS", f"{resource} is registered already")
        stack = ExitStack()
        opened = stack.enter_context(channel(socket))
        try:
            options = opened.call(api.GET_OPTIONS, api.Empty(), timeout=5)
        except Unanswered as no:
            stack.close()
            raise Refusal("UNKNOWN", f"failed to dial device plugin: {no}") from no
        stream = opened.stream(api.LIST_AND_WATCH, api.Empty())
        plugin = Plugin(resource, socket, opened, stack, options, stream, identity(socket))
        with self._changed:
            self.plugins[resource] = plugin
            self.registrations.append(resource)
            self._changed.notify_all()
        self._run(lambda: self._receive(plugin))

    def _check_socket(self, path: str) -> None:
        try:
            mode = os.lstat(path).st_mode
        except OSError as no:
            raise Refusal("UNKNOWN", f"no socket at {path}: {no.strerror}") from no
        if not stat.S_ISSOCK(mode):
            raise Refusal("UNKNOWN", f"{path} is no socket")
        if stat.S_IMODE(mode) & 0o077:
            self._blame(f"{path} may be opened by others: {stat.S_IMODE(mode):o}")

    def _forget(self, path: str) -> None:
        with self._changed:
            mine = [p for p in self.plugins.values() if p.socket == path]
            for plugin in mine:
                plugin.gone = True
                del self.plugins[plugin.resource]
            self._changed.notify_all()
        for plugin in mine:
            plugin.stream.cancel()
            plugin.stack.close()

    # --- what a plugin tells --------------------------------------------------------------------

    def _receive(self, plugin: Plugin) -> None:
        """client.go:Run."""
        try:
            for response in plugin.stream:
                self._update(plugin, response)
            why = "the plugin ended it"
        except Unanswered as no:
            why = str(no)
        with self._changed:
            if not plugin.gone and not self._leaving:
                plugin.gone = True
                if identity(plugin.socket) == plugin.identity:
                    self._blame(f"{plugin.resource} closed ListAndWatch: {why}")
                if self.plugins.get(plugin.resource) is plugin:
                    del self.plugins[plugin.resource]
                plugin.stack.close()
            self._changed.notify_all()

    def _update(self, plugin: Plugin, response: api.ListAndWatchResponse) -> None:
        devices = {device.ID: device for device in response.devices}
        if len(devices) != len(response.devices):
            self._blame(f"{plugin.resource} lists a device twice")
        for id, device in devices.items():
            if not 0 < len(id) <= 63:
                self._blame(f"{plugin.resource}: {id!r} is no device id")
            if device.health not in (api.HEALTHY, api.UNHEALTHY):
                self._blame(f"{plugin.resource}: {id} has health {device.health!r}")
        with self._changed:
            if plugin.updates and devices == plugin.devices:
                self._blame(f"{plugin.resource} told the same twice")
            plugin.devices, plugin.updates = devices, plugin.updates + 1
            self._changed.notify_all()

    # --- pods -----------------------------------------------------------------------------------

    def allocate(self, resource: str, count: int) -> api.ContainerAllocateResponse:
        """manager.go:devicesToAllocate and Allocate, for a container of a new pod."""
        plugin = self.plugins[resource]
        free = [id for id in plugin.healthy if id not in plugin.given]
        assert len(free) >= count, f"{resource}: {count} wanted, {len(free)} free"
        ids = self._chosen(plugin, free, count)
        plugin.given.update(ids)
        return self.ask(resource, ids)

    def ask(self, resource: str, ids: list[str]) -> api.ContainerAllocateResponse:
        """Allocate these, whatever the plugin offers."""
        plugin = self.plugins[resource]
        one = api.ContainerAllocateRequest(devices_ids=ids)
        try:
            answer = plugin.opened.call(api.ALLOCATE, api.AllocateRequest(container_requests=[one]))
        except Unanswered as no:
            if no.code == "NOT_FOUND" and set(ids) <= set(plugin.devices):
                self.until(lambda: not set(ids) <= set(plugin.devices), f"{ids} vanished silently")
            raise
        assert len(answer.container_responses) == 1
        return answer.container_responses[0]

    def _chosen(self, plugin: Plugin, free: list[str], count: int) -> list[str]:
        if not plugin.options.get_preferred_allocation_available:
            return free[:count]
        one = api.ContainerPreferredAllocationRequest(
            available_deviceIDs=free, allocation_size=count
        )
        request = api.PreferredAllocationRequest(container_requests=[one])
        ids = list(plugin.opened.call(api.GET_PREFERRED, request).container_responses[0].deviceIDs)
        assert len(ids) == len(set(ids)) == count, ids
        assert set(ids) <= set(free), ids
        return ids

    # --- tests wait for it ----------------------------------------------------------------------

    def until(self, holds: Callable[[], object], what: str = "it") -> None:
        """Wait until something holds; looked at whenever a plugin does something, and often."""
        end = monotonic() + SECONDS
        with self._changed:
            while not holds():
                assert monotonic() < end, f"{what}: not in {SECONDS} s ({self.violations})"
                self._changed.wait(0.02)

    def knows(self, resource: str, count: int) -> Plugin:
        """Wait until a resource has this many devices, healthy or not."""
        self.until(
            lambda: (p := self.plugins.get(resource)) and p.updates and len(p.devices) == count,
            f"{count} of {resource}",
        )
        return self.plugins[resource]

    def has(self, resource: str, healthy: int) -> Plugin:
        """Wait until a resource has this many healthy devices."""
        self.until(
            lambda: (p := self.plugins.get(resource)) and p.updates and len(p.healthy) == healthy,
            f"{healthy} healthy of {resource}",
        )
        return self.plugins[resource]

    def _blame(self, text: str) -> None:
        self.violations.append(text)
