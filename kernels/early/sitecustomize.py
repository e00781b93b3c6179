"""Starts a Python program before its turn.

kbisect puts this directory first on PYTHONPATH. The interpreter imports sitecustomize at its start, before the
program. One process writes at its end which modules it has imported from outside the repository; those that are
started early import these, and then read the descriptor KBISECT_GATE until kbisect says in it that it is their turn.
Where nothing is said they exit. Afterwards this module gets out of the way.
"""
import sys


def _learn(path, root):
    import atexit
    import os

    def write():
        names = []
        for name, module in list(sys.modules.items()):
            spec, file = getattr(module, "__spec__", None), getattr(module, "__file__", None)
            if not isinstance(file, str) or getattr(spec, "name", None) != name or name in ("sitecustomize", "usercustomize"):
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


def _early(number, path, ready):
    import os

    try:
        with open(path) as f:
            names = f.read().split()
    except OSError:
        names = []
    for name in names:
        try:
            __import__(name)
        except Exception:
            pass  # the program imports it in its own order
    for entry in os.listdir("/proc/self/fd"):
        try:
            if os.readlink("/proc/self/fd/" + entry).startswith("/dev/nvidia"):
                os._exit(1)  # a device is not to be used before its turn
        except OSError:
            pass
    open(ready, "w").close()
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
        _learn(taken["KBISECT_LEARN_MODULES"], os.path.realpath(taken["KBISECT_OUTSIDE_OF"]))
    if taken["KBISECT_GATE"]:
        try:
            _early(int(taken["KBISECT_GATE"]), taken["KBISECT_EARLY_MODULES"], taken["KBISECT_EARLY_READY"])
        except BaseException:
            os._exit(1)  # the program must not begin before its turn


_start()
