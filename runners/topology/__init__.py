"""Where a host's cores and memory are, and which of them a job may use."""

from __future__ import annotations

from runners.topology.cpulist import format_list, parse_list
from runners.topology.record import here, read_file, written
from runners.topology.topology import Core, Node, Topology

__all__ = ["Core", "Node", "Topology", "format_list", "here", "parse_list", "read_file", "written"]
