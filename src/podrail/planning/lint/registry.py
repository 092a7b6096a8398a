"""One registry of lint rules: the CLI, the documentation and the tests all read it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from podrail.model.bundle import Bundle, Resource
from podrail.model.document import Path
from podrail.model.finding import LINT, Finding, Status, Where


@dataclass(frozen=True, slots=True)
class Hit:
    """One place where a rule is broken."""

    resource: Resource
    path: Path
    actual: str
    expected: str
    fix: str
    key: bool = False
    """Point at the key instead of its value."""
    evidence: tuple[str, ...] = ()
    where: Where | None = None
    """A place inside an embedded document (the JSON of `ipam`), instead of `path`."""
    status: Status | None = None
    """Overrides the rule's own."""


Check = Callable[[Bundle], Iterable[Hit]]


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule: what it is called, how bad it is, and why it matters."""

    id: str
    status: Status
    why: str
    errata: tuple[str, ...]
    check: Check

    def findings(self, bundle: Bundle) -> Iterator[Finding]:
        for hit in self.check(bundle):
            yield Finding(
                id=self.id,
                layer=LINT,
                subject=hit.resource.subject,
                status=hit.status or self.status,
                actual=hit.actual,
                expected=hit.expected,
                why=self.why,
                fix=hit.fix,
                evidence=hit.evidence,
                where=hit.where or hit.resource.where(*hit.path, key=hit.key),
            )


def some(names: Iterable[str], most: int = 8) -> str:
    """The first of many names, and how many more there are."""
    listed = list(names)
    more = f" and {len(listed) - most} more" if len(listed) > most else ""
    return ", ".join(listed[:most]) + more


_rules: dict[str, Rule] = {}


def rule(
    id: str, status: Status, why: str, *, errata: tuple[str, ...] = ()
) -> Callable[[Check], Check]:
    """Register a check: a generator over a bundle that yields a Hit for each fault."""

    def register(check: Check) -> Check:
        assert id not in _rules, f"two rules are called {id}"
        _rules[id] = Rule(id, status, why, errata, check)
        return check

    return register


def registered() -> tuple[Rule, ...]:
    """Every rule whose module has been imported, by id."""
    return tuple(_rules[id] for id in sorted(_rules))
