"""The programs of a twin: each answers from the state of the machine, as the real one would."""
