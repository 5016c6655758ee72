"""A Slurm cluster of two nodes on this machine, in network namespaces of its own.

The nodes state processors and memory that this machine may lack (`config_overrides`), so that a job
never waits for more than it has.
"""

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "ip", "nsenter", "unshare")
NODES = {"node1": "10.77.0.11", "node2": "10.77.0.12"}
CONTROLLER = "10.77.0.1"
NAMESPACE = f"reglue-{os.getpid()}"  # A killed run leaves its own behind.
SBIN = "/usr/sbin"
CONFIG = """
ClusterName=reglue
SlurmctldHost={host}({controller})
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SchedulerType=sched/backfill
SchedulerParameters=batch_sched_delay=1,sched_interval=1
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
ReturnToService=2
SlurmdTimeout=10
SlurmdParameters=config_overrides
MinJobAge=300
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
NodeName=node1 NodeAddr={node1} CPUs=2 RealMemory=16000 State=UNKNOWN
NodeName=node2 NodeAddr={node2} CPUs=2 RealMemory=16000 State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


def find_obstacle() -> str | None:
    """Return why no cluster can be started here, or None."""
    path = f"{os.environ['PATH']}{os.pathsep}{SBIN}"
    absent = [name for name in PROGRAMS if not shutil.which(name, path=path)]
    if absent:
        return f"not installed: {', '.join(absent)}"
    probe = subprocess.run(
        ["unshare", "--net", "--mount", "true"], check=False, capture_output=True
    )
    return "no right to make network namespaces" if probe.returncode else None


@dataclass
class Cluster:
    """Its two nodes see the same folders, as on a cluster with a shared file system."""

    folder: Path
    nodes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def wrap(self, *command: str) -> tuple[str, ...]:
        """Return a command as the controller's machine runs it."""
        return _enter(self.folder, NAMESPACE, *command)

    def ask(self, *command: str) -> str:
        """Run one of Slurm's commands and return what it prints."""
        return subprocess.run(
            self.wrap(*command), capture_output=True, text=True, check=True
        ).stdout

    def describe(self) -> str:
        """Return the state of nodes and jobs, for a message."""
        return self.ask("sinfo", "-N", "-l") + self.ask("squeue", "-o", "%i %T %N %r")

    def find_busy_node(self) -> str | None:
        """Return a node that runs a job."""
        busy = self.ask("squeue", "--noheader", "--states=RUNNING", "--format=%N").split()
        return busy[0] if busy else None

    def kill_node(self, name: str) -> None:
        """End everything on a node at once, as a power cut does."""
        for process in _ip("netns", "pids", f"{NAMESPACE}-{name}").split():
            os.kill(int(process), signal.SIGKILL)
        self.nodes.pop(name).wait()


@contextmanager
def run_cluster() -> Iterator[Cluster]:
    """Start munge, a controller and two nodes; end them and their namespaces afterwards.

    Their folder has a short name, because slurmd's sockets in it have at most 108 characters.
    """
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="slurm-", dir="/tmp")))
        cluster = Cluster(folder)
        (folder / "state").mkdir()
        host = socket.gethostname()
        config = CONFIG.format(folder=folder, host=host, controller=CONTROLLER, **NODES)
        (folder / "slurm.conf").write_text(config)
        _add_network(stack)
        stack.enter_context(_run(_build_munge(folder)))
        _await(lambda: (folder / "munge.socket").exists(), "munge")
        stack.enter_context(_run(cluster.wrap(f"{SBIN}/slurmctld", "-D")))
        for name in NODES:
            slurmd = (f"{SBIN}/slurmd", "-D", "-N", name)
            inside = _enter(folder, f"{NAMESPACE}-{name}", *slurmd)
            cluster.nodes[name] = stack.enter_context(_run(inside))
        _await(lambda: _count_idle(cluster) == len(NODES), "two idle nodes")
        yield cluster
        for name in list(cluster.nodes):
            cluster.kill_node(name)


def _add_network(stack: ExitStack) -> None:
    _ip("netns", "add", NAMESPACE)
    stack.callback(_ip, "netns", "delete", NAMESPACE)
    _ip("-n", NAMESPACE, "link", "set", "lo", "up")
    _ip("-n", NAMESPACE, "link", "add", "bridge", "type", "bridge")
    _ip("-n", NAMESPACE, "addr", "add", f"{CONTROLLER}/24", "dev", "bridge")
    _ip("-n", NAMESPACE, "link", "set", "bridge", "up")
    for name, address in NODES.items():
        inside = f"{NAMESPACE}-{name}"
        _ip("netns", "add", inside)
        stack.callback(_ip, "netns", "delete", inside)
        peer = ("peer", "name", "eth0", "netns", inside)
        _ip("-n", NAMESPACE, "link", "add", name, "type", "veth", *peer)
        _ip("-n", NAMESPACE, "link", "set", name, "master", "bridge", "up")
        _ip("-n", inside, "addr", "add", f"{address}/24", "dev", "eth0")
        _ip("-n", inside, "link", "set", "eth0", "up")
        _ip("-n", inside, "link", "set", "lo", "up")


def _enter(folder: Path, namespace: str, *command: str) -> tuple[str, ...]:
    """Return a command that runs on one of the cluster's machines.

    /etc/slurm is the cluster's, because the plugin clears SLURM_CONF. `ip netns exec` would hide
    the control groups that slurmd asks for.
    """
    bind = f'mount --bind {folder} /etc/slurm && exec "$@"'
    inside = ("unshare", "--mount", "sh", "-c", bind, "sh")
    return ("nsenter", f"--net=/run/netns/{namespace}", *inside, *command)


def _ip(*arguments: str) -> str:
    command = (f"{SBIN}/ip", *arguments)
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def _build_munge(folder: Path) -> tuple[str, ...]:
    key = folder / "munge.key"
    key.write_bytes(os.urandom(128))
    key.chmod(0o600)
    places = ("key-file", "socket", "pid-file", "seed-file", "log-file")
    names = ("munge.key", "munge.socket", "munge.pid", "munge.seed", "munge.log")
    options = [f"--{place}={folder / name}" for place, name in zip(places, names, strict=True)]
    return (f"{SBIN}/munged", "--foreground", "--force", *options)


@contextmanager
def _run(command: tuple[str, ...]) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _count_idle(cluster: Cluster) -> int:
    try:
        states = cluster.ask("sinfo", "--noheader", "--Node", "--format=%t").split()
    except subprocess.CalledProcessError:  # The controller is not up yet.
        return 0
    return states.count("idle")


def _await(is_there: Callable[[], bool], what: str, seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not is_there():
        if time.monotonic() > end:
            pytest.fail(f"no {what} within {seconds:g} s")
        time.sleep(0.2)
