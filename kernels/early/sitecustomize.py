"""Starts a Python program before its turn.

kbisect puts this directory first on PYTHONPATH. The interpreter imports sitecustomize at its start, before the
program. One process writes which modules it has imported from outside the repository, at its end and before the
first line that it sends by os.write. Those that are started early import these, and more when their list is
replaced, note what that took, and wait until kbisect says in the descriptor KBISECT_GATE that it is their turn.
Where nothing is said they exit. The program finds what was imported when it imports it itself.
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
        _replace(path, "".join(n + "\n" for n in names))

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


class _Missed:
    """The last finder: it notes which modules nobody has found."""

    def __init__(self):
        self.names = set()

    def find_spec(self, name, path=None, target=None):
        if "." not in name:
            self.names.add(name)


class _Imported:
    """What was imported early, in groups: an import and all that it brought along.

    The program gets a group, and those before it, when it asks for a module of it. Where its import could now end
    otherwise, because the program has changed variables or where modules are looked for, the process starts anew, and
    those that follow import nothing.
    """

    def __init__(self, list_of_modules):
        import importlib.machinery
        import os

        self.os, self.importlib, self.list = os, importlib, list_of_modules
        self.groups, self.place, self.handed = [], {}, 0
        self.variables = dict(os.environ)
        self.seen, self.missed = set(sys.modules), _Missed()
        self.path, self.folder, self.pid = list(sys.path), os.getcwd(), os.getpid()

    def get(self, name):
        """Imports a module, whatever comes of it."""
        before = dict(self.os.environ)
        self.missed.names = set()
        sys.meta_path.append(self.missed)
        try:
            __import__(name)
        except Exception:
            pass  # the program imports it in its own order
        finally:
            if self.missed in sys.meta_path:
                sys.meta_path.remove(self.missed)
        names = [n for n in list(sys.modules) if n not in self.seen]
        self.seen.update(names)
        after = dict(self.os.environ)
        changed = {n: after.get(n) for n in set(before) | set(after) if before.get(n) != after.get(n)}
        self.groups.append((names, {n.partition(".")[0] for n in names} | self.missed.names, changed))

    def _set(self, variables):
        for name, value in variables.items():
            if value is not None:
                self.os.environ[name] = value
            else:
                self.os.environ.pop(name, None)

    def hide(self, variables):
        """Takes all back, so that the program begins as it always does."""
        self.variables.update(variables)
        self.start = dict(self.variables)
        for _, _, changed in self.groups:
            self._set({n: self.variables.get(n) for n in changed})
        self._set(variables)
        self.modules, self.cut = {}, []
        for k, (names, _, _) in enumerate(self.groups):
            for name in names:
                if name in sys.modules:
                    self.modules[name], self.place[name] = sys.modules.pop(name), k
        for name, module in self.modules.items():  # importing a module makes it an attribute of its package
            package, _, own = name.rpartition(".")
            known = getattr(self.modules.get(package), "__dict__", {})
            if known.get(own) is module and self.place[package] < self.place[name]:
                self.cut.append((name, known, own))
                del known[own]
        if self.modules:
            sys.meta_path.insert(0, self)

    def find_spec(self, name, path=None, target=None):
        if self.place.get(name, -1) < self.handed:
            return None
        module = self.modules[name]
        spec = self.importlib.machinery.ModuleSpec(name, self, origin=getattr(module, "__file__", None), is_package=hasattr(module, "__path__"))
        spec.loader_state = getattr(module, "__spec__", None)
        return spec

    def create_module(self, spec):
        if self.place[spec.name] >= self.handed:
            self._hand_out(self.place[spec.name])
        return self.modules[spec.name]

    def exec_module(self, module):
        if getattr(module.__spec__, "loader", None) is self:
            module.__spec__ = module.__spec__.loader_state

    def _hand_out(self, last):
        groups = self.groups[self.handed : last + 1]
        if self.os.getpid() == self.pid and self._begins() and not self._same(set().union(*(tops for _, tops, _ in groups))):
            self._start_anew()
        for names, _, changed in groups:
            self._set(changed)
            self.variables.update(changed)
            for name in names:
                if name in self.modules:
                    sys.modules.setdefault(name, self.modules[name])
        for name, known, own in self.cut:
            if name in sys.modules:
                known.setdefault(own, self.modules[name])
        self.handed = max(self.handed, last + 1)
        if self.handed == len(self.groups) and self in sys.meta_path:
            sys.meta_path.remove(self)

    def _begins(self):
        """Whether the program itself asks, or a module that is being imported.

        By the time a function of a library does, much has run, which may have changed variables too.
        """
        frame = sys._getframe()
        while frame is not None:
            file = frame.f_code.co_filename
            if not file.startswith("<frozen importlib") and file not in (__file__, self.importlib.__file__):
                return frame.f_code.co_name == "<module>" or self.os.path.abspath(file).startswith(self.folder + self.os.sep)
            frame = frame.f_back
        return False

    def _same(self, tops):
        """Whether the program has changed no variable, and nothing that decides where these are found, or are not."""
        ours = "KBISECT_"  # a probe may have set some
        were = {n: v for n, v in self.variables.items() if v is not None and not n.startswith(ours)}
        if {n: v for n, v in self.os.environ.items() if not n.startswith(ours)} != were:
            return False
        if [p for p in sys.path if p in self.path] != [p for p in self.path if p in sys.path]:
            return False
        for entry in set(sys.path) ^ set(self.path):
            for top in tops:
                spec = self.importlib.machinery.PathFinder.find_spec(top, [entry])
                if spec is not None and spec.loader is not None:
                    return False
        return True

    def _start_anew(self):
        os = self.os
        _replace(self.list, "")
        os.chdir(self.folder)
        with open("/proc/self/cmdline", "rb") as f:
            argv = f.read().split(b"\0")[:-1]
        os.execve(sys.executable, argv, self.start)


def _replace(path, text):
    import os

    with open(path + ".new", "w") as f:
        f.write(text)
    os.rename(path + ".new", path)


def _import(path, imported):
    import os

    with open(path) as f:
        names = f.read().split()
    used = set()  # packages whose import uses a device
    for name in names:
        if name in sys.modules:
            continue
        imported.get(name)
        if _uses_device():
            used.add(name.partition(".")[0])
            break
    if used:  # not before its turn: those that follow leave it out
        _replace(path, "".join(n + "\n" for n in names if n.partition(".")[0] not in used))
        os._exit(1)


def _early(number, path, ready):
    import os
    import select
    import time

    imported = _Imported(path)
    last = None
    while last is None or not select.select([number], [], [], 0.1)[0]:
        found = os.stat(path)
        if last is None or (found.st_ino, found.st_mtime_ns) != (last.st_ino, last.st_mtime_ns):
            last = found
            _import(path, imported)
            _replace(ready, "%f\n" % time.process_time())
    word = b""
    while True:
        more = os.read(number, 1 << 16)
        if not more:
            break
        word += more
    os.close(number)
    if not word:
        os._exit(0)
    variables = {}
    for variable in word.split(b"\0"):
        name, sign, value = variable.partition(b"=")
        if sign:
            variables[os.fsdecode(name)] = os.fsdecode(value)
    imported.hide(variables)


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
