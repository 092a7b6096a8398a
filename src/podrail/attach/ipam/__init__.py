"""Addresses for rails: whereabouts and nv-ipam configurations from a pool of our own, static ones
as they are written, the others by the installed plugin. `plan.plan_addresses` is the way in."""
