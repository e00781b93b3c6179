"""Tells kbisect when a Python program imports, builds, compiles and captures.

kbisect puts this directory first on PYTHONPATH. The interpreter imports sitecustomize at its start,
before the program, and this one writes `enter: NAME` and `leave: NAME` to the descriptor KBISECT_FD.
It watches, it never steers: hooks call what they wrap and nothing else, every failure of its own is
swallowed, and without KBISECT_FD nothing is hooked at all. Afterwards it gets out of the way: it
leaves sys.path and runs the sitecustomize that it hides (hidden.py, which is written behind it).
"""
import sys


def _probe():
    import os  # site has loaded it
    from _thread import RLock  # built in

    watch = os.environ.get("KBISECT_PROBE_MODULES", "submission").replace(",", " ").split()
    record = "KBISECT_PROBE_FD"

    def identity(st):
        return st.st_dev, st.st_ino

    def helper():
        # Inductor's pool of compilers and benchmarkers: what they do belongs to the span of the
        # process that waits for them, and they are killed without a word.
        with open("/proc/self/cmdline", "rb") as f:
            args = f.read(1 << 16).split(b"\0")[:8]
        return any(b"torch/_inductor/" in a or b"torch._inductor." in a for a in args)

    def find():
        """The number of the descriptor, the process that has it surely, and its identity."""
        have = os.environ.get(record)
        if have:
            number, pid, dev, ino = (int(x) for x in have.split(":"))
            if helper():
                return None
            return number, pid, (dev, ino)
        number = int(os.environ["KBISECT_FD"])
        st = os.fstat(number)
        if st.st_mode & 0o170000 not in (0o010000, 0o140000):
            return None  # neither pipe nor socket: some launcher has put another file there
        os.environ[record] = "%d:%d:%d:%d" % ((number, os.getpid()) + identity(st))
        return number, os.getpid(), identity(st)

    found = find()
    if found is None:
        return
    number, owner, wanted = found

    counts = {}  # open spans by name, over all threads
    inherited = set()  # of them: those that the parent process has to end
    # The lock is one to reenter: a signal handler may import something while its thread is in here.
    state = {"fd": number, "mute": False, "lock": RLock()}

    def same(fd):
        try:
            return identity(os.fstat(fd)) == wanted
        except OSError:
            return False

    def descriptor():
        """An open descriptor, looked at anew each time: the program may close or reuse numbers."""
        if same(state["fd"]):
            return state["fd"]
        path = "/proc/%d/fd/%d" % (owner, number)
        if identity(os.stat(path)) != wanted:
            raise OSError("gone")
        # Without O_NONBLOCK the open of a pipe that nobody reads would wait for ever.
        fd = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        if not same(fd):
            os.close(fd)
            raise OSError("gone")
        os.set_blocking(fd, True)
        state["fd"] = fd
        return fd

    def say(word, name):
        if state["mute"]:
            return
        try:
            os.write(descriptor(), ("%s: %s\n" % (word, name)).encode())
        except Exception:
            state["mute"] = True  # half a story would be worse than none

    def enter(name):
        with state["lock"]:
            n = counts[name] = counts.get(name, 0) + 1
            if n == 1:
                say("enter", name)

    def leave(name):
        with state["lock"]:
            n = counts[name] = counts.get(name, 0) - 1
            if n == 0:
                if name in inherited:
                    inherited.discard(name)
                else:
                    say("leave", name)

    def forked():
        state["lock"] = RLock()  # its holder may be a thread that is no more
        captures.clear()
        inherited.update(n for n in counts if counts[n] > 0)
        if inherited & {"compile", "extension"}:
            state["mute"] = True  # a worker of the compiler

    def dress(outer, inner):
        """functools.wraps, without its import."""
        for a in ("__module__", "__name__", "__qualname__", "__doc__", "__annotations__"):
            try:
                setattr(outer, a, getattr(inner, a))
            except (AttributeError, TypeError):
                pass
        outer.__dict__.update(getattr(inner, "__dict__", {}))
        outer.__wrapped__ = inner
        # All that is wrapped is in packages that dynamo does not trace into.
        outer._torchdynamo_disable = True
        return outer

    def stamped(function, name):
        def wrapper(*args, **kwargs):
            enter(name)
            try:
                return function(*args, **kwargs)
            finally:
                leave(name)

        wrapper._kbisect = True
        return dress(wrapper, function)

    def wrap(holder, attribute, make):
        """Replaces a function, unless it is missing or replaced already."""
        function = getattr(holder, attribute, None)
        if not callable(function) or getattr(function, "_kbisect", False):
            return False
        wrapper = make(function)
        wrapper._kbisect = True
        setattr(holder, attribute, wrapper)
        return True

    # What is hooked in which module, once its code has run.

    def cpp_extension(module):
        for name in ("_jit_compile", "load", "load_inline"):
            wrap(module, name, lambda f: stamped(f, "extension"))

    class Compiling:
        """The context of one compilation, around that of dynamo."""

        def __init__(self, inner, name):
            self.inner, self.name = inner, name

        def __enter__(self):
            enter(self.name)
            try:
                return self.inner.__enter__()
            except BaseException:
                leave(self.name)
                raise

        def __exit__(self, *exc):
            try:
                return self.inner.__exit__(*exc)
            finally:
                leave(self.name)

    def callbacks(module):
        # Registered callbacks would be forgotten at every torch._dynamo.reset(), so the method that
        # calls them is wrapped. It runs in the thread that compiles.
        def make(install):
            def install_callbacks(self, *args, **kwargs):
                trigger = args[0] if args else kwargs.get("trigger")
                recording = getattr(trigger, "name", "") == "CUDAGRAPH_RECORDING"
                return Compiling(install(self, *args, **kwargs), "capture" if recording else "compile")

            return dress(install_callbacks, install)

        handler = getattr(module, "CompilationCallbackHandler", None)
        if handler is not None and wrap(handler, "install_callbacks", make):
            state["callbacks"] = True

    def codes(code):
        yield code
        for c in code.co_consts:
            if isinstance(c, type(code)):
                for inner in codes(c):
                    yield inner

    def convert_frame(module):
        if not state.get("callbacks"):  # an older torch
            wrap(module, "_compile", lambda f: stamped(f, "compile"))
        inner = getattr(getattr(sys.modules.get("torch._C"), "_dynamo", None), "eval_frame", None)
        for code in codes(_probe.__code__):
            # Where compiled code calls what is wrapped, dynamo is to run our frames, not to compile them.
            inner.skip_code(code)

    captures = set()  # graphs between capture_begin and capture_end

    def graphs(module):
        def enters(f):
            def __enter__(self, *args, **kwargs):
                enter("capture")
                try:
                    return f(self, *args, **kwargs)
                except BaseException:
                    leave("capture")
                    raise

            return dress(__enter__, f)

        def exits(f):
            def __exit__(self, *args, **kwargs):
                try:
                    return f(self, *args, **kwargs)
                finally:
                    leave("capture")

            return dress(__exit__, f)

        def begins(f):
            def capture_begin(self, *args, **kwargs):
                with state["lock"]:
                    new = id(self) not in captures
                    captures.add(id(self))
                if new:
                    enter("capture")
                try:
                    return f(self, *args, **kwargs)
                except BaseException:
                    ended(self)
                    raise

            return dress(capture_begin, f)

        def ended(graph):
            with state["lock"]:
                known = id(graph) in captures
                captures.discard(id(graph))
            if known:
                leave("capture")

        def ends(f):
            def capture_end(self, *args, **kwargs):
                try:
                    return f(self, *args, **kwargs)
                finally:
                    ended(self)

            return dress(capture_end, f)

        context = getattr(module, "graph", None)
        # One without the other would never end.
        if callable(getattr(context, "__enter__", None)) and callable(getattr(context, "__exit__", None)):
            wrap(context, "__enter__", enters)
            wrap(context, "__exit__", exits)
        graph = getattr(module, "CUDAGraph", None)
        if callable(getattr(graph, "capture_begin", None)) and callable(getattr(graph, "capture_end", None)):
            wrap(graph, "capture_begin", begins)
            wrap(graph, "capture_end", ends)

    def triton(module):
        # Where compile is defined: every other name for it is bound later, in modules that import it.
        wrap(module, "compile", lambda f: stamped(f, "compile"))

    hooks = {
        "torch.utils.cpp_extension": cpp_extension,
        "torch._dynamo.callback": callbacks,
        "torch._dynamo.convert_frame": convert_frame,
        "torch.cuda.graphs": graphs,
        "triton.compiler.compiler": triton,
    }

    def hook(name, module):
        try:
            hooks[name](module)
        except Exception:
            pass

    def arm(spec):
        """Makes the loader of one module stamp it, once. The loader stays the same object, and the
        replaced methods vanish when they are called: nothing in the module tells."""
        loader, name = spec.loader, spec.name

        def replace(method, about, around):
            original = getattr(loader, method)

            def once(subject):
                if about(subject) != name:  # a loader that serves several modules, as of a zip file
                    return original(subject)
                loader.__dict__.pop(method, None)
                return around(original, subject)

            loader.__dict__[method] = once

        def span(original, subject):
            enter("import")
            try:
                return original(subject)
            finally:
                leave("import")

        def execute(original, module):
            if name in watch:
                result = span(original, module)
            else:
                result = original(module)
            if name in hooks:
                hook(name, module)
            return result

        replace("exec_module", lambda m: getattr(m, "__name__", None), execute)
        if name in watch and type(loader).__name__ == "ExtensionFileLoader":
            replace("create_module", lambda s: getattr(s, "name", None), span)  # loads the library

    class Finder:
        """The first finder: asks the others about the few modules that matter."""

        def __init__(self):
            self.asking = set()

        def find_spec(self, fullname, path=None, target=None):
            if fullname not in hooks and fullname not in watch or fullname in self.asking:
                return None
            self.asking.add(fullname)
            try:
                spec = self.ask(fullname, path, target)
            finally:
                self.asking.discard(fullname)
            try:
                if spec is not None and spec.loader is not None and not isinstance(spec.loader, type):
                    arm(spec)
            except Exception:
                pass
            return spec

        def ask(self, fullname, path, target):
            for finder in list(sys.meta_path):
                find = getattr(finder, "find_spec", None)
                if finder is self or find is None:
                    continue
                spec = find(fullname, path, target)
                if spec is not None:
                    return spec
            return None

        def invalidate_caches(self):
            pass

    os.register_at_fork(after_in_child=forked)
    sys.meta_path.insert(0, Finder())
    for name in hooks:
        if name in sys.modules:
            hook(name, sys.modules[name])


if sys.version_info >= (3, 8):
    try:
        if "KBISECT_FD" in __import__("os").environ:
            _probe()
    except Exception:
        pass
