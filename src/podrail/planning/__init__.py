"""Manifests × inventory → findings and Plan. Pure."""
