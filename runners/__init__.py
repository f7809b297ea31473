"""How one setting is measured, really: engines, processes and the facts of the machine."""
