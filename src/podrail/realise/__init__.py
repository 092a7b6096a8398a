"""Plan → machine: steps with their undo, a journal, and the way back."""
