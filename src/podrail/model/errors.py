"""The errors podrail raises, and the exit code each one ends a command with.

::

    PodrailError
    ├── UsageError       2  the command line asks for something that does not exist
    ├── ManifestError    3  a manifest cannot be read at all
    ├── Unmeasured       4  the fact asked for could not be measured
    └── Refused          5  the machine or the cluster said no

A message says what was found, what was wanted, and the next step.
"""

from __future__ import annotations


class PodrailError(Exception):
    """The root of everything podrail raises on purpose."""

    exit_code = 1


class UsageError(PodrailError):
    """The command line asks for something that does not exist."""

    exit_code = 2


class ManifestError(PodrailError):
    """A manifest cannot be read at all."""

    exit_code = 3


class Unmeasured(PodrailError):
    """A fact that was asked for could not be measured."""

    exit_code = 4


class Refused(PodrailError):
    """The machine or the cluster said no."""

    exit_code = 5
