"""Sources of environments that attack whoever runs them. Each is a package with one module; see test_hostile.py."""

from __future__ import annotations

HEAD = """
import asyncio, glob, os, socket, sys, time
import verifiers as vf
from datasets import Dataset

ROWS = Dataset.from_list([{"question": f"Say {n}.", "answer": str(n)} for n in range(4)])
"""

# Each metric is 1 when something of the host could be reached.
SNOOP = (
    HEAD
    + """
def reach(host, port):
    try:
        socket.create_connection((host, port), timeout=2).close()
        return 1.0
    except OSError:
        return 0.0

def sees(path):
    try:
        return float(bool(os.listdir(path) if os.path.isdir(path) else open(path, "rb").read(1)))
    except OSError:
        return 0.0

def load_environment(secret_file="/nonexistent", hub_port=1, mark="none"):
    async def host_file(completion):
        return sees(secret_file)

    async def shadow(completion):
        home = set(os.listdir("/root") if os.path.isdir("/root") else ()) - set(sys.base_prefix.split("/"))
        return float(bool(home)) or sees("/etc/shadow") or sees(os.path.dirname(secret_file))

    async def variables(completion):
        names = [name for name in os.environ if name.startswith(("HUB_", "WORKER_", "CELERY"))]
        return float(bool(names) or mark in "".join(os.environ.values()))

    async def others(completion):
        found = b"".join(open(path, "rb").read() for path in glob.glob("/proc/[0-9]*/environ") if os.access(path, 4))
        return float(mark.encode() in found or b"hubw_" in found or b"hubr_" in found)

    async def hub(completion):
        return reach("127.0.0.1", hub_port)

    async def internet(completion):
        return reach("1.1.1.1", 443) or reach("169.254.169.254", 80) or reach("10.0.0.1", 53)

    async def writes(completion):
        for path in (secret_file, "/usr/bin/escaped"):
            try:
                open(path, "a").close()
                return 1.0
            except OSError:
                pass
        return 0.0

    funcs = [host_file, shadow, variables, others, hub, internet, writes]
    return vf.SingleTurnEnv(dataset=ROWS, rubric=vf.Rubric(funcs=funcs))
"""
)

FORK_BOMB = (
    HEAD
    + """
def load_environment():
    while True:
        try:
            if os.fork() == 0:
                time.sleep(600)
        except OSError as error:
            raise RuntimeError(f"no more processes: {error.strerror}")
"""
)

LOUD = (
    HEAD
    + """
def load_environment(megabytes=0):
    piece = b"spam " * 200_000
    for _ in range(megabytes):
        os.write(1, piece)
    return vf.SingleTurnEnv(dataset=ROWS, rubric=vf.Rubric(funcs=[lambda completion: 1.0]))
"""
)

# "file" fills its disk while it loads, "rollout" gives every rollout so much state that its record cannot be kept.
GREEDY = (
    HEAD
    + """
def load_environment(what="", megabytes=0):
    piece = b"spam " * 200_000
    if what == "file":
        with open("/tmp/fill", "wb") as file:
            for _ in range(megabytes):
                file.write(piece)

    async def reward(completion, state):
        if what == "rollout":
            state["opaque"] = (piece * megabytes).decode()
        return 1.0

    return vf.SingleTurnEnv(dataset=ROWS, rubric=vf.Rubric(funcs=[reward]))
"""
)

ENDLESS = (
    HEAD
    + """
def load_environment():
    async def slow(completion, answer):
        if answer == "1":
            await asyncio.sleep(10_000)
        if answer == "2":
            time.sleep(10_000)
        return 1.0

    return vf.SingleTurnEnv(dataset=ROWS, rubric=vf.Rubric(funcs=[slow]))
"""
)

# A wheel's .pth runs at every start of its interpreter; this one writes where the worker could, were it one of ours.
PTH = "import os; open({path!r}, 'a').write('started ')\n"

SMALL = (
    HEAD
    + """
def load_environment():
    return vf.SingleTurnEnv(dataset=ROWS, rubric=vf.Rubric(funcs=[lambda completion: 1.0]))
"""
)
