"""podrail: every GPU pod its own rail, planned, made, verified and measured."""

__version__ = "0.1.0"
