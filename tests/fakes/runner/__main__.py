"""Speaks the frames of envhub.protocol.runner; `env_args` of `load` choose what goes wrong. Standard library only."""

import ctypes
import hashlib
import json
import os
import socket
import struct
import sys
import threading
import time
import urllib.error
import urllib.request

LOCK = threading.Lock()
ARGS = {}
CONNECTION = socket.socket(socket.AF_UNIX)


def send(frame):
    body = json.dumps(frame).encode()
    with LOCK:
        CONNECTION.sendall(struct.pack(">I", len(body)) + body)


def receive():
    head = CONNECTION.recv(4, socket.MSG_WAITALL)
    if len(head) < 4:
        sys.exit(0)
    (length,) = struct.unpack(">I", head)
    return json.loads(CONNECTION.recv(length, socket.MSG_WAITALL))


def load(command):
    ARGS.update(command["env_args"])
    print("loading", command["env_id"], os.environ.get("OPENAI_BASE_URL"), os.environ.get("API_SECRET"), flush=True)
    mode = ARGS.get("load")
    time.sleep(ARGS.get("load_s", 0))
    if mode == "fatal":
        failure = {"kind": "environment", "code": "no_load_environment", "message": "nothing to load", "hint": "x"}
        send({"type": "fatal", "failure": failure, "traceback": "Traceback: here"})
    elif mode == "exit":
        os._exit(3)
    elif mode == "crash":
        ctypes.string_at(0)
    elif mode == "nonsense":
        CONNECTION.sendall(struct.pack(">I", 2**31))
    else:
        hello = {"generation": "legacy", "verifiers": "0.0", "python": "3", "env_class": "Fake"}
        send({"type": "hello", **hello, "requires_group": bool(ARGS.get("requires_group"))})


def describe():
    print("describing", flush=True)
    time.sleep(ARGS.get("describe_s", 0))
    split = {"size": ARGS.get("size", 4), "rows": []}
    send({"type": "described", "env_class": "Fake", "splits": {"eval": split}})


def call(group, index, messages):
    """One model call, whose answer is added to the messages; the answer's id and how it went."""
    policy = group["policy"]
    key = policy["keys"][index - group["first_index"]]
    url = policy["base_url"].replace("{rollout}", key) + "/chat/completions"
    body = {"model": "m", "messages": messages}
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=60) as response:
            answer = json.load(response)
            messages.append(answer["choices"][0]["message"])
            return answer["id"], None
    except urllib.error.HTTPError as error:
        return None, json.load(error)["error"]


def chatter():
    while True:
        send({"type": "log", "text": "still here"})
        time.sleep(0.05)


def rollout(group, index):
    example = group["example"]
    marker = f"/box/crashed-{example}"
    if ARGS.get("crash_on") == example and not (ARGS.get("crash_once") and os.path.exists(marker)):
        open(marker, "w").close()
        os._exit(9)
    if ARGS.get("hang_on") == example:
        time.sleep(3600)
    if lacks := ARGS.get("lacks"):
        failure = {"kind": "environment", "type": "RuntimeError", "message": f"no {lacks}", "traceback": "here"}
        record = {"example": example, "rollout": index, "example_hash": hashlib.sha256(b"%d" % example).hexdigest()}
        record |= {"outcome": "failed", "failure": failure}
        needs = [{"kind": ARGS.get("needs_kind", "program"), "name": lacks}] if ARGS.get("needs") else []
        send({"type": "rollout", "id": group["id"], "record": record, "needs": needs})
        return
    print("rollout", example, flush=True)
    time.sleep(ARGS.get("slow_s", 0))
    messages = [{"role": "user", "content": f"example {example}"}]
    identity, error = call(group, index, messages)
    identities = [identity] if identity else []
    for number in range(1, ARGS.get("calls", 1)):
        messages.append({"role": "user", "content": f"{ARGS.get('word', 'go on')} {number}"})
        identity, error = call(group, index, messages)
        identities.append(identity)
    record = {"example": example, "rollout": index, "example_hash": hashlib.sha256(b"%d" % example).hexdigest()}
    if error is not None and not ARGS.get("swallow_errors"):
        kind = {"hub_infrastructure": "infrastructure", "hub_limit": "limit"}.get(error["type"], "policy")
        failure = {"kind": kind, "type": "Error", "message": error["message"]}
        record |= {"outcome": "failed", "failure": failure}
    else:
        record |= {"outcome": "ok", "reward": 1.0, "metrics": {"exact": 1.0}}
    frame = {"type": "rollout", "id": group["id"], "record": record, "response_ids": identities}
    if ARGS.get("spill"):
        path = f"/box/spilled-{example}-{index}.json"
        with open(path, "w") as file:
            json.dump(frame, file)
        frame = {"type": "rollout_file", "id": group["id"], "path": path}
    send(frame)


def run_group(group):
    if group.get("example_hash") not in (None, hashlib.sha256(b"%d" % group["example"]).hexdigest()):
        failure = {"kind": "environment", "code": "dataset_changed", "message": "another row", "hint": ""}
        send({"type": "fatal", "failure": failure, "traceback": ""})
        return
    if ARGS.get("chatter"):
        threading.Thread(target=chatter, daemon=True).start()
    if ARGS.get("unasked"):
        send({"type": "hello", "generation": "legacy", "verifiers": "0.0", "python": "3", "env_class": "Fake"})
    for index in range(group["first_index"], group["first_index"] + group["n"]):
        rollout(group, index)
    if ARGS.get("lie"):
        send({"type": "rollout", "id": group["id"], "record": {"example": 0}})
        send({"type": "rollout", "id": "somebody-else", "record": {}})
        send({"type": "what is this"})
    send({"type": "group", "id": group["id"]})


def main():
    CONNECTION.connect(os.environ["ENVHUB_CHANNEL"])
    while True:
        command = receive()
        kind = command["type"]
        if kind == "load":
            load(command)
        elif kind == "describe":
            describe()
        elif kind == "group":
            threading.Thread(target=run_group, args=(command,), daemon=True).start()
        elif kind == "shutdown":
            print("shutting down", flush=True)
            os._exit(0)


main()
