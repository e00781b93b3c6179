"""Has torch.profiler watch what a Python program gives its device to do, for kbisect explain.

kbisect puts this directory first on PYTHONPATH. When the program has imported torch, profiling of the
device begins; when a process ends, its trace goes to a file of its own in KBISECT_PROFILE_DIR. Only
the device is watched, not the operators: that costs little, and says which kernels were launched, how
often and how. Every failure of its own is swallowed. A program that profiles itself is left alone.
"""
import sys


def _profile():
    import os

    folder = os.environ["KBISECT_PROFILE_DIR"]
    state = {"profile": None, "pid": None}

    def begin(torch):
        if not torch.cuda.is_available():
            return
        from torch.profiler import ProfilerActivity, profile

        watch = profile(activities=[ProfilerActivity.CUDA])
        watch.__enter__()
        state["profile"], state["pid"] = watch, os.getpid()
        import atexit

        atexit.register(end)
        terminated(end)

    def end():
        watch = state["profile"]
        if watch is None or state["pid"] != os.getpid():
            return
        state["profile"] = None
        try:
            import torch

            if torch.cuda.is_initialized():
                torch.cuda.synchronize()
            watch.__exit__(None, None, None)
            name = os.path.join(folder, "trace-%d" % os.getpid())
            watch.export_chrome_trace(name + ".part.json")
            os.rename(name + ".part.json", name + ".json")
            compiled()
        except Exception:
            pass

    def compiled():
        counters = getattr(sys.modules.get("torch._dynamo.utils"), "counters", None)
        if not counters:
            return
        breaks = sum(counters.get("graph_break", {}).values())
        frames = counters.get("frames", {}).get("ok", 0)
        graphs = counters.get("stats", {}).get("unique_graphs", 0)
        sys.stderr.write("\nkbisect-profile: frames %d, graphs %d, breaks %d\n" % (frames, graphs, breaks))
        sys.stderr.flush()

    def terminated(act):
        # The workers of a pool are ended by SIGTERM, without their atexit functions.
        import signal
        import threading

        if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGTERM) != signal.SIG_DFL:
            return

        def last(number, frame):
            act()
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)

        signal.signal(signal.SIGTERM, last)

    class Finder:
        """The first finder: waits for torch, once."""

        def find_spec(self, name, path=None, target=None):
            if name != "torch":
                return None
            sys.meta_path.remove(self)
            for finder in list(sys.meta_path):
                find = getattr(finder, "find_spec", None)
                spec = find(name, path, target) if find else None
                if spec is not None:
                    arm(spec)
                    return spec
            return None

    def arm(spec):
        loader = spec.loader
        original = getattr(loader, "exec_module", None)
        if original is None:
            return

        def exec_module(module):
            loader.__dict__.pop("exec_module", None)
            original(module)
            try:
                begin(module)
            except Exception:
                state["profile"] = None

        try:
            loader.exec_module = exec_module
        except Exception:
            pass

    sys.meta_path.insert(0, Finder())


try:
    if "KBISECT_PROFILE_DIR" in __import__("os").environ:
        _profile()
except Exception:
    pass
