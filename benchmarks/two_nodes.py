"""Two nodes of a Ray cluster on this machine, in a network namespace with loopback alone; for `ray_*.py`."""

import os
import sys
from typing import Any

import psutil

from motet.engines.ray_cluster import import_ray

_INSIDE = "MOTET_INSIDE_NAMESPACE"


def enter_namespace() -> None:
    """Start this program again in a network namespace of its own, unless it is in one: nobody reaches Ray's ports."""
    if _INSIDE not in os.environ:
        os.environ[_INSIDE] = "1"
        as_root = [] if os.geteuid() == 0 else ["--map-root-user"]
        up = 'ip link set lo up && exec "$@"'
        os.execvp("unshare", ["unshare", *as_root, "--net", "sh", "-c", up, "sh", sys.executable, *sys.argv])


class Nodes:
    """A cluster of two nodes with a CPU each; the second can be killed and replaced. `more` are options of both."""

    def __init__(self, **more: Any) -> None:
        import_ray()  # before anything of Ray, so that it sends no statistics
        from ray.cluster_utils import Cluster

        self.more = more
        head = {"num_cpus": 1, "include_dashboard": False, **more}
        self.cluster = Cluster(initialize_head=True, head_node_args=head)
        self.second = self.cluster.add_node(num_cpus=1, **more)

    @property
    def address(self) -> str:
        """HOST:PORT of the head."""
        return str(self.cluster.address)

    def kill_second(self) -> None:
        """Kill the second node without warning."""
        self.cluster.remove_node(self.second, allow_graceful=False)

    def replace_second(self) -> None:
        """Add a node for the one that was killed."""
        self.second = self.cluster.add_node(num_cpus=1, **self.more)

    def workers(self) -> list[int]:
        """Return the processes of Motet's workers on both nodes."""
        raylets = [node.all_processes["raylet"][0].process.pid for node in self.cluster.list_all_nodes()]
        found = [child for pid in raylets for child in psutil.Process(pid).children()]
        return [child.pid for child in found if (child.cmdline() or [""])[0].startswith("ray::Actor")]

    def end(self) -> None:
        """End both nodes."""
        self.cluster.shutdown()
