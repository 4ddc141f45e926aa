"""Attacks on the host's files and devices."""

from ..options import Protection
from .attack import Attack

ATTACKS = (
    Attack("read a file of the host", "return open(ARG['canary']).read()"),
    Attack(
        "list the home directories of the host",
        """
        found = set(os.listdir('/root') if os.path.isdir('/root') else []) - {'.pyenv', '.local'}
        return found | set(os.listdir('/home') if os.path.isdir('/home') else [])
        """,
        own=True,
    ),
    Attack("read /etc/shadow", "return open('/etc/shadow').read()", own=True),
    Attack(
        "find an account of the host",
        "return set(line.split(':')[0] for line in open('/etc/passwd')) - {'root', 'sandbox'}",
        own=True,
    ),
    Attack("read the host's /var", "return os.listdir('/var')", own=True),
    Attack(
        "reach a container engine's socket", "return socket.socket(socket.AF_UNIX).connect('/run/docker.sock') is None"
    ),
    Attack("write to /usr", "return os.open('/usr/bin/envhub-was-here', os.O_CREAT | os.O_WRONLY)", own=True),
    Attack("write to the root directory", "return os.open('/envhub-was-here', os.O_CREAT | os.O_WRONLY)", own=True),
    Attack("write to /etc/passwd", "return os.open('/etc/passwd', os.O_WRONLY)", own=True),
    Attack(
        "write into a bound directory",
        "return os.open('/bound/was-here', os.O_CREAT | os.O_WRONLY, 0o666)",
        off=Protection.READ_ONLY,
    ),
    Attack("change a bound file", "return os.open('/bound/file', os.O_WRONLY)", off=Protection.READ_ONLY),
    Attack(
        "watch what others open",
        """
        watch = libc.inotify_init1(os.O_NONBLOCK)
        for path in ('/bound/file', '/usr/bin/env'):
            if libc.inotify_add_watch(watch, path.encode(), 0x21) < 0:
                raise RuntimeError(path)
        time.sleep(0.5)
        return os.read(watch, 4096)
        """,
        off=Protection.VIEWS,
    ),
    Attack(
        "meet the lock of another",
        """
        try:
            fcntl.flock(os.open('/bound/file', os.O_RDONLY), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        """,
        off=Protection.VIEWS,
    ),
    Attack("remove the gateway's socket", "os.unlink('/run/hub/gateway.sock'); return True"),
    Attack("leave through /proc/1/root", "return open('/proc/1/root' + ARG['canary']).read()"),
    Attack(
        "leave by climbing with ..",
        "os.chdir('/box'); return open('../' * 60 + ARG['canary'].lstrip('/')).read()",
    ),
    Attack("make a device node", "os.mknod('/box/disk', 0o600 | stat.S_IFBLK, os.makedev(8, 0)); return True"),
    Attack(
        "open a disk or the memory of the machine",
        """
        names = [n for n in ('vda', 'sda', 'nvme0n1', 'mem', 'kmem', 'kmsg', 'port', 'vsock', 'kvm', 'fuse', 'loop0')
                 if os.path.exists('/dev/' + n)]
        return names
        """,
    ),
    Attack("write to /dev", "return os.open('/dev/was-here', os.O_CREAT | os.O_WRONLY)"),
    Attack("replace /dev/null", "os.rename('/dev/null', '/dev/nil'); return True"),
    Attack("set core_pattern", "return os.open('/proc/sys/kernel/core_pattern', os.O_WRONLY)"),
    Attack(
        "pull the magic SysRq",
        """
        trigger = os.open('/proc/sysrq-trigger', os.O_WRONLY)
        return stat.S_ISREG(os.fstat(trigger).st_mode) and os.write(trigger, b'h')
        """,
    ),
    Attack("read the kernel's memory", "return os.read(os.open('/proc/kcore', os.O_RDONLY), 16)"),
    Attack(
        "read the kernel's interrupts, modules and boot line",
        """
        for name in ('interrupts', 'modules', 'cmdline', 'kallsyms', 'timer_list', 'keys'):
            if os.path.exists('/proc/' + name):
                try:
                    if os.read(os.open('/proc/' + name, os.O_RDONLY), 10):
                        return name
                except OSError:
                    pass
        """,
        off=Protection.PROC,
    ),
    Attack("write to the host's cgroups", "return [n for n in os.listdir('/sys/fs/cgroup')]"),
    Attack(
        "use a setuid program",
        """
        command = ['/bin/su', '-c', 'id -u']
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True)
        return done.stdout.strip() == b'0'
        """,
        own=True,
    ),
    Attack(
        "make a setuid program of its own",
        """
        import shutil
        shutil.copy('/usr/bin/id', '/box/id'); os.chmod('/box/id', 0o6755)
        return subprocess.run(['/box/id', '-u'], capture_output=True).stdout.strip() == b'0'
        """,
        own=True,
    ),
)
