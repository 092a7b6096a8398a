"""What is asked of a machine: manifests and what was said beside them, kept over a boot."""

from __future__ import annotations

from dataclasses import dataclass

from podrail.model.bundle import Bundle, read
from podrail.model.finding import Finding, Status
from podrail.planning.lint import lint
from podrail.realise.apply import Consent
from podrail.realise.journal import Journal

_ACTED_ON = frozenset(
    {"SriovNetworkNodePolicy", "SriovNetworkPoolConfig", "SriovOperatorConfig", "HostProfile",
     "file"}
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Asked:
    """Manifests, and what the operator said beside them."""

    manifests: tuple[tuple[str, str], ...] = ()
    labels: tuple[tuple[str, str], ...] = ()
    management: frozenset[str] = frozenset()
    prefix: str = ""
    firmware: bool = False

    @property
    def names(self) -> str:
        return ", ".join(name for name, _ in self.manifests) or "nothing"

    @property
    def consent(self) -> Consent:
        """Force is said once and never kept: nobody looks on."""
        return Consent(management=self.management, firmware=self.firmware)

    def bundle(self) -> Bundle:
        return read(self.manifests, self.prefix or None)

    def keep(self, journal: Journal) -> None:
        """So that a boot, `podrail status` or an agent finds it."""
        journal.want(
            self.manifests,
            labels=",".join(f"{k}={v}" for k, v in self.labels),
            prefix=self.prefix,
            management=",".join(sorted(self.management)),
            firmware="yes" if self.firmware else "",
        )


def kept(journal: Journal) -> Asked:
    """What the journal holds."""
    settings = journal.settings()
    pairs = [p.partition("=")[::2] for p in settings.get("labels", "").split(",") if p]
    return Asked(
        tuple(journal.wanted()),
        tuple((key, value) for key, value in pairs),
        frozenset(filter(None, settings.get("management", "").split(","))),
        settings.get("prefix", ""),
        bool(settings.get("firmware")),
    )


def wrong(bundle: Bundle) -> list[Finding]:
    """What lint finds wrong in objects that would be acted on."""
    found = lint(bundle)
    return [f for f in found if f.status is Status.FAIL and f.subject.kind in _ACTED_ON]
