"""An environment of an owner who looks for another's, which runs beside it on the same worker; see test_two_owners.py.

Its model tells it when to plant its own traces, in its box and in its sandbox, and then everything that the other has
planted: names, ports, keys, ids and addresses. It looks for them from its box and from its sandbox.
"""

from __future__ import annotations

# Runs in either. `plant NAME` leaves a process that serves the traces, and prints what there is to find; `look FACTS`
# prints what was found of that. FACTS are hidden in base64, so that no look finds itself.
SPY = r'''
import base64, ctypes, fcntl, json, os, re, socket, subprocess, sys, time, urllib.error, urllib.request
libc = ctypes.CDLL(None, use_errno=True)
GATEWAY = "http://127.0.0.1:31980"
PROGRAMS = "tac yes comm fold tsort ptx pr".split()

def facts(name):
    number = sum(name.encode())
    return {
        "secret": "secret-of-" + name, "abstract": "neighbour-" + name, "port": 20000 + number, "shm": 70000 + number,
        "used": "/usr/bin/" + PROGRAMS[number % len(PROGRAMS)], "places": places(), "urls": [],
    }

def places():
    """Folders of the host that are its own."""
    fields = [line.split() for line in open("/proc/self/mountinfo")]
    words = {word for line in fields for path in (line[3], line[4]) for word in path.split("/")}
    return sorted(word for word in words if re.fullmatch("envhub(-[0-9a-f]+){4}|[0-9a-f]{16}", word))

def plant(name):
    mine = facts(name)
    for folder in ("/tmp", "/dev/shm", "~/.cache/pip", "~/.cache/uv", "~/.cache/huggingface", "/opt/venv", "/usr/lib"):
        folder = os.path.expanduser(folder)
        try:
            os.makedirs(folder, exist_ok=True)
            open(f"{folder}/{mine['secret']}", "w").write(mine["secret"])
        except OSError:
            pass
    command = [sys.executable, "-c", open(__file__).read() if "__file__" in globals() else SOURCE, "serve", name]
    own = {**os.environ, "SPY": mine["secret"]}
    child = subprocess.Popen(command, env=own, start_new_session=True, stdout=subprocess.PIPE, text=True)
    assert child.stdout.readline() == "ready\n"
    models = {value for value in os.environ.values() if value.startswith(GATEWAY + "/r/")}
    mine["urls"] = [f"{value}/chat/completions" for value in models]
    return mine

def serve(name):
    mine = facts(name)
    tcp = socket.create_server(("127.0.0.1", mine["port"]))
    unix = socket.socket(socket.AF_UNIX)
    unix.bind("\0" + mine["abstract"])
    unix.listen()
    libc.shmget(mine["shm"], 4096, 0o1666)
    held = open(mine["used"], "rb")
    fcntl.flock(held, fcntl.LOCK_EX)
    print("ready", flush=True)
    while True:
        open(mine["used"], "rb").close()
        time.sleep(0.05)

def tried(function, *arguments):
    try:
        return function(*arguments)
    except OSError:
        return None

def opened(path):
    with open(path, "rb") as file:
        return file.read(100_000)

def processes(other):
    numbers = [number for number in os.listdir("/proc") if number.isdigit() and int(number) != os.getpid()]
    read = [tried(opened, f"/proc/{number}/{name}") or b"" for number in numbers for name in ("cmdline", "environ")]
    return [one.decode(errors="replace")[:100] for one in read if other["secret"].encode() in one]

def files(other):
    found = []
    for folder, folders, names in os.walk("/"):
        if folder == "/":
            folders[:] = [name for name in folders if name not in ("proc", "sys")]
        found += [f"{folder}/{name}" for name in (*folders, *names) if other["secret"] in name]
    return found

def abstract(other):
    with socket.socket(socket.AF_UNIX) as unix:
        unix.connect("\0" + other["abstract"])
        return True

def watched(other):
    watch = libc.inotify_init1(os.O_NONBLOCK)
    assert libc.inotify_add_watch(watch, other["used"].encode(), 0x21) >= 0
    time.sleep(1)
    return len(os.read(watch, 4096))

def locked(other):
    with open(other["used"], "rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return other["used"]

def addresses(other):
    found = []
    body = json.dumps({"model": "any", "messages": [{"role": "user", "content": "Are you there?"}]}).encode()
    for url in other["urls"]:
        request = urllib.request.Request(url, body, {"Content-Type": "application/json"})
        try:
            urllib.request.urlopen(request, timeout=20).read()
        except urllib.error.HTTPError as error:
            if error.code not in (401, 403, 404, 502):
                found.append(f"{url}: {error.code}")
        except OSError:
            pass
        else:
            found.append(url)
    return found

def look(other):
    looks = {
        "processes": processes, "files": files, "abstract socket": abstract, "watch": watched, "lock": locked,
        "port": lambda other: bool(socket.create_connection(("127.0.0.1", other["port"]), 2)),
        "sockets": lambda other: other["abstract"].encode() in opened("/proc/net/unix"),
        "shared memory": lambda other: libc.shmget(other["shm"], 0, 0) >= 0,
        "mounts": lambda other: sorted(set(places()) & set(other["places"])),
        "addresses": addresses,
    }
    found = {name: tried(one, other) for name, one in looks.items()}
    found["groups"] = tried(os.listdir, "/sys/fs/cgroup") or [
        line for line in open("/proc/self/cgroup") if not line.endswith(":/\n")
    ]
    found["keys"] = libc.syscall(250, 0, -3, 1) >= 0 or tried(opened, "/proc/keys")
    return {name: value for name, value in found.items() if value}

if sys.argv[1] == "serve":
    serve(sys.argv[2])
else:
    argument = sys.argv[2]
    done = plant(argument) if sys.argv[1] == "plant" else look(json.loads(base64.b64decode(argument)))
    print(json.dumps(done))
'''

SOURCE = (
    f"SPY = {SPY!r}\n"
    + r'''
import asyncio, base64, json, shlex, sys
import verifiers as vf
from datasets import Dataset

GATEWAY = "http://127.0.0.1:31980"


async def in_box(*arguments):
    command = [sys.executable, "-c", f"SOURCE = {SPY!r}\n" + SPY, *arguments]
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    out = await process.stdout.readline()
    return json.loads(out)


class Neighbour(vf.SandboxEnv):
    def __init__(self, **options):
        super().__init__(**options)
        self.add_tool(self.meet, args_to_skip=["state"])

    def update_tool_args(self, tool_name, tool_args, messages, state, **options):
        if tool_name == "meet":
            return {**tool_args, "state": state}
        return super().update_tool_args(tool_name, tool_args, messages, state, **options)

    async def in_sandbox(self, state, *arguments):
        spy = base64.b64encode((f"SOURCE = {SPY!r}\n" + SPY).encode()).decode()
        program = f"import base64; exec(base64.b64decode({spy!r}))"
        command = " ".join(shlex.quote(word) for word in ("python3", "-c", program, *arguments))
        done = await self.sandbox_client.execute_command(state["sandbox_id"], command, timeout=300)
        assert done.exit_code == 0, done.stderr
        return json.loads(done.stdout)

    async def reached(self, sandbox_id):
        """Whether the client of this box reaches a sandbox."""
        try:
            return (await self.sandbox_client.execute_command(sandbox_id, "echo reached", timeout=20)).stdout
        except Exception:
            return ""

    async def meet(self, step: str, argument: str = "", state: dict = None) -> str:
        """Do one step.

        Args:
            step: plant, look or wait
            argument: of that step
        """
        if step == "plant":
            await self.sandbox_client.wait_for_creation(state["sandbox_id"])
            box = await in_box("plant", argument)
            box["urls"] = [f"{str(state['client'].client.base_url).rstrip('/')}/chat/completions"]
            sandbox = await self.in_sandbox(state, "plant", argument + "-sandbox")
            return json.dumps({"box": box, "sandbox": sandbox, "id": state["sandbox_id"]})
        if step == "look":
            other = json.loads(argument)
            found = {}
            for kind in ("box", "sandbox"):
                known = base64.b64encode(json.dumps(other[kind]).encode()).decode()
                found[f"{kind} from the box"] = await in_box("look", known)
                found[f"{kind} from the sandbox"] = await self.in_sandbox(state, "look", known)
            found["sandbox by its id"] = await self.reached(other["id"])
            return json.dumps(found)
        await asyncio.sleep(1)
        return "{}"


def load_environment() -> vf.Environment:
    rows = Dataset.from_list([{"question": "Who is there?", "answer": "nobody"}])
    rubric = vf.Rubric(funcs=[lambda completion: 1.0])
    return Neighbour(dataset=rows, rubric=rubric, docker_image="python:3.11-slim", max_turns=1000)
'''
)
