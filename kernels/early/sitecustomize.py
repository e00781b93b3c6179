"""Starts a Python program before its turn.

kbisect puts this directory first on PYTHONPATH. The interpreter imports sitecustomize at its start, before the
program. One process writes which modules it has imported from outside the repository, at its end and before the
first line that it sends by os.write. Those that are started early import these, and more when their list is
replaced, note what that took, and wait until kbisect says in the descriptor KBISECT_GATE that it is their turn.
Where nothing is said they exit.
Afterwards this module gets out of the way.
"""
import sys


def _learn(path, root):
    import atexit
    import os

    def write():
        names = []
        for name, module in list(sys.modules.items()):
            try:  # some make up what they are asked for, and fail
                spec, file = getattr(module, "__spec__", None), getattr(module, "__file__", None)
                if not isinstance(file, str) or getattr(spec, "name", None) != name or name in ("sitecustomize", "usercustomize"):
                    continue
            except Exception:
                continue
            file = os.path.realpath(file)
            if os.path.isabs(file) and not file.startswith(root + os.sep):
                names.append(name)
        with open(path + ".new", "w") as f:
            f.write("".join(n + "\n" for n in names))
        os.rename(path + ".new", path)

    def quietly():
        try:
            write()
        except Exception:
            pass

    atexit.register(quietly)
    number, real, wrote = int(os.environ.get("KBISECT_FD", "-1")), os.write, []

    def first(fd, data, /):
        if fd == number and not wrote:  # it has loaded
            wrote.append(True)
            os.write = real
            quietly()
        return real(fd, data)

    os.write = first


def _link_bytecode(root):
    """Has this process and later ones find the bytecode that lies beside installed modules, so that none compiles them.

    Python looks below PYTHONPYCACHEPREFIX only, and sees for itself whether what it finds there is out of date.
    """
    import importlib._bootstrap_external as loader
    import os

    where = loader.cache_from_source

    def linked(path, *args, **kwargs):
        found = where(path, *args, **kwargs)
        try:
            if not os.path.lexists(found) and not os.path.realpath(path).startswith(root + os.sep):
                beside = os.path.join(os.path.dirname(path), "__pycache__", os.path.basename(found))
                if os.path.exists(beside):
                    os.makedirs(os.path.dirname(found), exist_ok=True)
                    os.symlink(beside, found)
        except OSError:
            pass
        return found

    loader.cache_from_source = linked


def _uses_device():
    """Whether this process has made a context on a device. To have looked for devices is no harm."""
    with open("/proc/self/maps") as f:
        if "/libcuda.so" not in f.read():
            return False
    import ctypes

    cuda = ctypes.CDLL("libcuda.so.1")
    count, flags, active = ctypes.c_int(0), ctypes.c_uint(0), ctypes.c_int(0)
    if cuda.cuDeviceGetCount(ctypes.byref(count)) != 0:
        return False  # not even initialised
    for device in range(count.value):
        if cuda.cuDevicePrimaryCtxGetState(device, ctypes.byref(flags), ctypes.byref(active)) != 0 or active.value:
            return True
    return False


def _import(path):
    import os

    with open(path) as f:
        names = f.read().split()
    used = set()  # packages whose import uses a device
    for name in names:
        before = len(sys.modules)
        try:
            __import__(name)
        except Exception:
            pass  # the program imports it in its own order
        if len(sys.modules) > before and _uses_device():
            used.add(name.partition(".")[0])
            break
    if used:  # not before its turn: those that follow leave it out
        with open(path + ".new", "w") as f:
            f.write("".join(n + "\n" for n in names if n.partition(".")[0] not in used))
        os.rename(path + ".new", path)
        os._exit(1)


def _early(number, path, ready):
    import os
    import select
    import time

    last = None
    while last is None or not select.select([number], [], [], 0.1)[0]:
        found = os.stat(path)
        if last is None or (found.st_ino, found.st_mtime_ns) != (last.st_ino, last.st_mtime_ns):
            last = found
            _import(path)
            with open(ready + ".new", "w") as f:
                f.write("%f\n" % time.process_time())
            os.rename(ready + ".new", ready)
    word = b""
    while True:
        more = os.read(number, 1 << 16)
        if not more:
            break
        word += more
    os.close(number)
    if not word:
        os._exit(0)
    for variable in word.split(b"\0"):
        name, sign, value = variable.partition(b"=")
        if sign:
            os.environb[name] = value


def _start():
    import os

    here = os.path.dirname(os.path.abspath(__file__))
    taken = {n: os.environ.pop(n, None) for n in ("KBISECT_GATE", "KBISECT_LEARN_MODULES", "KBISECT_EARLY_MODULES", "KBISECT_EARLY_READY", "KBISECT_OUTSIDE_OF")}
    path = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if path and os.path.abspath(path[0]) == here:
        if path[1:]:
            os.environ["PYTHONPATH"] = os.pathsep.join(path[1:])
        else:
            del os.environ["PYTHONPATH"]
    if taken["KBISECT_LEARN_MODULES"]:
        root = os.path.realpath(taken["KBISECT_OUTSIDE_OF"])
        _learn(taken["KBISECT_LEARN_MODULES"], root)
        try:
            if sys.pycache_prefix:
                _link_bytecode(root)
        except Exception:
            pass
    if taken["KBISECT_GATE"]:
        try:
            _early(int(taken["KBISECT_GATE"]), taken["KBISECT_EARLY_MODULES"], taken["KBISECT_EARLY_READY"])
        except BaseException:
            os._exit(1)  # the program must not begin before its turn


_start()
