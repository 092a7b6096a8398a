"""Numbers on the wire: k8s.io/kubelet/pkg/apis, deviceplugin/v1beta1, pluginregistration/v1."""

from __future__ import annotations

import pytest

from podrail.attach.deviceplugin import api

NUMBERS = {
    "RegisterRequest": {"version": 1, "endpoint": 2, "resource_name": 3, "options": 4},
    "DevicePluginOptions": {"pre_start_required": 1, "get_preferred_allocation_available": 2},
    "ListAndWatchResponse": {"devices": 1},
    "Device": {"ID": 1, "health": 2, "topology": 3},
    "TopologyInfo": {"nodes": 1},
    "NUMANode": {"ID": 1},
    "PreferredAllocationRequest": {"container_requests": 1},
    "ContainerPreferredAllocationRequest": {
        "available_deviceIDs": 1,
        "must_include_deviceIDs": 2,
        "allocation_size": 3,
    },
    "PreferredAllocationResponse": {"container_responses": 1},
    "ContainerPreferredAllocationResponse": {"deviceIDs": 1},
    "AllocateRequest": {"container_requests": 1},
    "ContainerAllocateRequest": {"devices_ids": 1},
    "AllocateResponse": {"container_responses": 1},
    "ContainerAllocateResponse": {
        "envs": 1,
        "mounts": 2,
        "devices": 3,
        "annotations": 4,
        "cdi_devices": 5,
    },
    "DeviceSpec": {"container_path": 1, "host_path": 2, "permissions": 3},
    "CDIDevice": {"name": 1},
    "PreStartContainerRequest": {"devices_ids": 1},
    "PreStartContainerResponse": {},
    "Empty": {},
    "PluginInfo": {"type": 1, "name": 2, "endpoint": 3, "supported_versions": 4},
    "RegistrationStatus": {"plugin_registered": 1, "error": 2},
    "RegistrationStatusResponse": {},
    "InfoRequest": {},
}


@pytest.mark.parametrize(("name", "fields"), NUMBERS.items(), ids=NUMBERS)
def test_field_numbers(name: str, fields: dict[str, int]) -> None:
    found = getattr(api, name).DESCRIPTOR.fields
    assert {field.name: field.number for field in found} == fields


def test_bytes_as_the_kubelet_sends_them() -> None:
    """Tag and length by hand: field << 3 | 2 for text and messages, | 0 for numbers."""
    request = api.RegisterRequest(version="v1", endpoint="e", resource_name="r")
    request.options.get_preferred_allocation_available = True
    assert request.SerializeToString() == b"\x0a\x02v1\x12\x01e\x1a\x01r\x22\x02\x10\x01"
    device = api.Device(ID="a", health="Healthy")
    device.topology.nodes.append(api.NUMANode(ID=1))
    assert device.SerializeToString() == b"\x0a\x01a\x12\x07Healthy\x1a\x04\x0a\x02\x08\x01"


def test_methods_are_called_what_the_kubelet_calls_them() -> None:
    assert api.REGISTER.path == "/v1beta1.Registration/Register"
    assert api.LIST_AND_WATCH.path == "/v1beta1.DevicePlugin/ListAndWatch"
    assert api.GET_OPTIONS.path == "/v1beta1.DevicePlugin/GetDevicePluginOptions"
    assert api.GET_PREFERRED.path == "/v1beta1.DevicePlugin/GetPreferredAllocation"
    assert api.ALLOCATE.path == "/v1beta1.DevicePlugin/Allocate"
    assert api.PRE_START.path == "/v1beta1.DevicePlugin/PreStartContainer"
    assert api.GET_INFO.path == "/pluginregistration.Registration/GetInfo"
    assert api.NOTIFY.path == "/pluginregistration.Registration/NotifyRegistrationStatus"
