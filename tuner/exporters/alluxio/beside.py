"""What goes beside a site file: the JVM's memory, mount options, and the same settings for Kubernetes."""

from __future__ import annotations

from collections.abc import Mapping

from spaces.alluxio import FUSE_OPTIONS, USUAL_OPTIONS, jvm_option, mount_options
from tuner.exporters.alluxio.options import Options
from tuner.exporters.alluxio.site import head, values
from tuner.recommendation import Recommendation


def env(recommendation: Recommendation, options: Options) -> str:
    """Lines for conf/alluxio-env.sh, which Alluxio's scripts source. The last -XX of a kind counts."""
    memory = jvm_option(int(recommendation.config["direct_memory"]))
    lines = [
        "# Put these lines into conf/alluxio-env.sh: the memory of the JVM is no property.",
        *_comments(recommendation, options),
    ]
    return "\n".join([*lines, f'ALLUXIO_FUSE_JAVA_OPTS="${{ALLUXIO_FUSE_JAVA_OPTS:-}} {memory}"', ""])


def mount_line(recommendation: Recommendation, options: Options) -> str:
    """The options for -o of `alluxio-fuse mount`, which wins over the property of the site file."""
    lines = ["# For `alluxio-fuse mount -o OPTIONS`; what stands there wins over alluxio.fuse.mount.options."]
    return "\n".join([*lines, *_comments(recommendation, options), ",".join(mount_options(recommendation.config)), ""])


def operator_yaml(recommendation: Recommendation, options: Options) -> str:
    """The part of an AlluxioCluster that the settings are; spec.properties hold for all components."""
    properties = _properties(recommendation, options)
    properties.pop(FUSE_OPTIONS, None)
    open3 = options.version is not None and options.version.line == "open3"
    document = {
        "apiVersion": f"k8s-operator.alluxio.com/{'v1alpha1' if open3 else 'v1'}",
        "kind": "AlluxioCluster",
        "metadata": {"name": "alluxio"},
        "spec": {
            **({"properties": properties} if properties else {}),
            "fuse": {
                "jvmOptions": [jvm_option(int(recommendation.config["direct_memory"]))],
                "mountOptions": [
                    "allow_other",
                    *mount_options(recommendation.config, ("entry_timeout=3600", "attr_timeout=3600")),
                ],
            },
        },
    }
    return _yaml(
        document, "Merge this into your AlluxioCluster; FUSE pods take it when they are created anew.", recommendation, options
    )


def fluid_yaml(recommendation: Recommendation, options: Options) -> str:
    """The part of Fluid's AlluxioRuntime that the settings are."""
    properties = _properties(recommendation, options)
    properties.pop(FUSE_OPTIONS, None)
    fuse_options = ",".join(["ro", *mount_options(recommendation.config, USUAL_OPTIONS)])
    document = {
        "apiVersion": "data.fluid.io/v1alpha1",
        "kind": "AlluxioRuntime",
        "metadata": {"name": "alluxio"},
        "spec": {
            **({"properties": properties} if properties else {}),
            "fuse": {
                "args": ["fuse", f"--fuse-opts={fuse_options}"],
                "jvmOptions": [jvm_option(int(recommendation.config["direct_memory"]))],
            },
        },
    }
    return _yaml(
        document, "Merge this into your AlluxioRuntime; FUSE pods take it when they are created anew.", recommendation, options
    )


def _properties(recommendation: Recommendation, options: Options) -> dict[str, str]:
    return values(recommendation, "", options)


def _comments(recommendation: Recommendation, options: Options) -> list[str]:
    return [f"# {line}" for line in head(recommendation, options)]


def _yaml(document: Mapping[str, object], use: str, recommendation: Recommendation, options: Options) -> str:
    import yaml

    # Values are strings to Kubernetes: the dumper quotes those that would be read as something else.
    text = yaml.safe_dump(dict(document), sort_keys=False, width=1000)
    return "\n".join([f"# {use}", *_comments(recommendation, options), text])
