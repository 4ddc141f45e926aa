"""Attacks on other processes: the worker, the agent and the rest of the host."""

from ..options import Protection
from .attack import Attack

ATTACKS = (
    Attack(
        "read the worker's environment",
        """
        for entry in os.listdir('/proc'):
            if entry.isdigit():
                try:
                    found = ARG['secret'].encode() in open(f'/proc/{entry}/environ', 'rb').read()
                    if found and int(entry) != os.getpid():
                        return entry
                except OSError:
                    pass
        """,
    ),
    Attack(
        "read a secret from a command line",
        """
        for entry in os.listdir('/proc'):
            if entry.isdigit() and int(entry) != os.getpid():
                try:
                    if ARG['secret'].encode() in open(f'/proc/{entry}/cmdline', 'rb').read():
                        return entry
                except OSError:
                    pass
        """,
    ),
    Attack(
        "see the host's processes",
        "return [e for e in os.listdir('/proc') if e.isdigit() and int(e) > 30000]",
    ),
    Attack(
        "signal a process of the host",
        "os.kill(ARG['pid'], 0); return ARG['pid'] > 30 and os.path.exists('/proc/%d' % ARG['pid'])",
    ),
    Attack("read the agent's memory", "return open(f'/proc/{agent()}/mem', 'rb')"),
    Attack("list the agent's descriptors", "return os.listdir('/proc/2/fd')", own=True),  # only their numbers
    Attack(
        "open the agent's descriptors",
        """
        found = []
        for number in range(64):
            try:
                found.append(os.open(f'/proc/{agent()}/fd/{number}', os.O_RDONLY | os.O_NONBLOCK))
            except OSError:
                pass
        return found
        """,
    ),
    Attack("read the first process's environment", "return open('/proc/1/environ', 'rb').read()"),
    Attack("trace another process", "return syscall('ptrace', 16, os.getppid(), 0, 0) == 0"),
    Attack(
        "trace a child of its own",
        """
        pid = os.fork()
        if pid == 0:
            time.sleep(5); os._exit(0)
        try:
            return syscall('ptrace', 16, pid, 0, 0) == 0
        finally:
            os.kill(pid, 9)
        """,
        off=Protection.SECCOMP,
    ),
    Attack(
        "read another process's memory by call",
        "return syscall('process_vm_readv', os.getppid(), 0, 0, 0, 0, 0) == 0",
        off=Protection.SECCOMP,
    ),
    Attack(
        "steal a descriptor", "return syscall('pidfd_getfd', os.pidfd_open(os.getpid()), 0, 0)", off=Protection.SECCOMP
    ),
    Attack(
        "find an inherited descriptor",
        """
        own = os.open('/proc/self/fd', os.O_RDONLY)
        numbers = [int(n) for n in os.listdir('/proc/self/fd')]
        aims = {n: os.readlink(f'/proc/self/fd/{n}') for n in numbers if 2 < n < own}
        return {n: aim for n, aim in aims.items() if not aim.startswith('/proc')}
        """,
    ),
    Attack(
        "hide from the memory killer",
        """
        os.write(os.open('/proc/self/oom_score_adj', os.O_WRONLY), b'0')
        return int(open('/proc/self/oom_score_adj').read()) == 0
        """,
        off=Protection.PROC,
    ),
    Attack("take real-time priority", "os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(50)); return True"),
    Attack("take a higher priority", "os.setpriority(os.PRIO_PROCESS, 0, -10); return True"),
    Attack(
        "raise a limit",
        """
        try:
            resource.setrlimit(resource.RLIMIT_NPROC, (100000, 100000))
        except ValueError:
            return False
        return True
        """,
    ),
    Attack("become root", "os.setresuid(0, 0, 0); return True", own=True),
    Attack("change the groups", "os.setgroups([0]); return True", own=True),
    Attack(
        "hold a capability",
        """
        for line in open('/proc/self/status'):
            name, _, value = line.partition(':')
            if name in ('CapInh', 'CapPrm', 'CapEff', 'CapAmb', 'CapBnd') and int(value, 16):
                return line
            if name == 'NoNewPrivs' and value.strip() != '1':
                return line
        """,
    ),
    Attack("see the host's System V memory", "return len(open('/proc/sysvipc/shm').readlines()) > 1"),
)
