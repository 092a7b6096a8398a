"""A resource's name, and all the names that follow from it."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass

_SUBDOMAIN = re.compile(
    r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", re.ASCII
)
_NAME = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]", re.ASCII)
_QUOTA = "requests."
_LONGEST_PREFIX, _LONGEST_NAME = 253, 63
_LONGEST_SOCKET = 107  # sizeof(sun_path) less its zero byte, unix(7)


@dataclass(frozen=True, slots=True, order=True)
class Resource:
    """`prefix/name`, as pods ask for it."""

    prefix: str
    name: str

    def __str__(self) -> str:
        return f"{self.prefix}/{self.name}"

    @property
    def wrong(self) -> str | None:
        """Why the kubelet refuses it (pkg/apis/core/v1/helper:IsExtendedResourceName), or None."""
        if not _SUBDOMAIN.fullmatch(self.prefix):
            return f"{self.prefix!r} is no lower-case domain such as nvidia.com"
        if f"{self.prefix}/".endswith("kubernetes.io/"):
            return "the domain kubernetes.io belongs to Kubernetes itself"
        if self.prefix.startswith(_QUOTA):
            return f"a domain that starts with `{_QUOTA}` means a quota"
        if len(_QUOTA + self.prefix) > _LONGEST_PREFIX:
            return f"the prefix is over {_LONGEST_PREFIX - len(_QUOTA)} characters long"
        if not _NAME.fullmatch(self.name) or len(self.name) > _LONGEST_NAME:
            return (
                f"{self.name!r} is no name of at most {_LONGEST_NAME} letters, digits, '-', '_' "
                "and '.' that starts and ends with a letter or digit"
            )
        return None

    @property
    def variables(self) -> tuple[str, ...]:
        """`PCIDEVICE_…` in upstream's spelling and, where a shell cannot use that, in another."""
        upstream = f"PCIDEVICE_{self.prefix}_{self.name}".upper().replace(".", "_")
        return tuple(dict.fromkeys((upstream, upstream.replace("-", "_"))))

    @property
    def dashed(self) -> str:
        """As device-info files spell it."""
        return str(self).replace("/", "-")

    @property
    def cdi_class(self) -> str:
        """The class of a CDI kind has no dot in older releases of the specification."""
        return self.name.replace(".", "_")

    def socket(self, directory: str) -> str:
        """The path of its socket, shortened where a Unix socket cannot be that long."""
        whole = f"{directory}/{self.prefix}_{self.name}.sock"
        if len(whole.encode()) <= _LONGEST_SOCKET:
            return whole
        digest = hashlib.sha256(str(self).encode()).hexdigest()[:16]
        return f"{directory}/podrail_{digest}.sock"


def resource(text: str) -> Resource:
    """`nvidia.com/rail_a` taken apart; `wrong` says what is missing where there is no prefix."""
    prefix, slash, name = text.partition("/")
    return Resource(prefix, name) if slash else Resource("", text)
