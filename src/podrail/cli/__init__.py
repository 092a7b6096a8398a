"""A thin skin: one file per verb."""
