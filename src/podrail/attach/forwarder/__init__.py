"""What a container runtime runs: a tiny program that asks the attach service and prints its answer.

`forwarder.c` is that program, `forwarder.py` its twin for machines without a compiler.
"""
