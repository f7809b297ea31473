"""Files that users' programs take as they are: one module a target, all meeting the contract in `tuner.exporters.format`."""
