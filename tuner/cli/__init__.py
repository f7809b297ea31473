"""The command line: thin commands, one module a family."""
