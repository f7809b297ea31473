"""Alluxio's site file and what goes beside it: written by version, merged, read, and linted."""

from __future__ import annotations

from runners.alluxio.secrets import masked
from tuner.exporters import format as contract
from tuner.exporters.alluxio import beside, site
from tuner.exporters.alluxio.lint import fix, lint, matches
from tuner.exporters.alluxio.options import FileOptions, machine_options, read
from tuner.exporters.alluxio.site import merge, present, present_notes
from tuner.exporters.format import Format, find_format
from tuner.recommendation import Recommendation

FORMATS = (
    Format("site", site.FILENAME, "the site file, or with --into its block in yours"),
    Format("env", "alluxio-env.sh", "lines for conf/alluxio-env.sh: the memory of the FUSE process"),
    Format("mount", "mount-options.txt", "options for alluxio-fuse mount -o"),
    Format("operator", "alluxio-cluster.yaml", "what to merge into an AlluxioCluster of Alluxio's operator"),
    Format("fluid", "alluxio-runtime.yaml", "what to merge into an AlluxioRuntime of Fluid"),
)
FILE_OPTIONS = FileOptions

__all__ = [
    "FILE_OPTIONS",
    "FORMATS",
    "fix",
    "lint",
    "machine_options",
    "masked",
    "matches",
    "merge",
    "present",
    "present_notes",
    "render",
]

_WRITERS = {
    "site": site.site_file,
    "env": beside.env,
    "mount": beside.mount_line,
    "operator": beside.operator_yaml,
    "fluid": beside.fluid_yaml,
}


def render(recommendation: Recommendation, format: str, options: contract.Options) -> dict[str, str]:
    """The file of that format. Raises WrongUsage."""
    chosen = find_format(FORMATS, format)
    return {chosen.filename: _WRITERS[chosen.name](recommendation, read(options, recommendation))}
