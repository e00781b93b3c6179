"""Times a kernel properly and tells kbisect about it. One file, Python 3.8 or newer, PyTorch optional.

    import kbisect_harness as kb

    h = kb.Harness()
    for n in (1 << 10, 1 << 20):
        h.run(f"n={n}", kernel, inputs=[make(n, seed) for seed in range(3)], reference=slow_but_right)

A run is one case: a first call, warm-up until the times are stable, capture of a CUDA graph (graph=True),
a check of every set of inputs against the reference, and the timings, each a phase of its own. On a
CUDA device the times are those of device events, with the L2 cache flushed before each call and the
whole device synchronised after it; elsewhere those of time.perf_counter_ns. The device is kept busy until
a call is enqueued, so that the host's part is not in its times: that is the metric "host". With
cover=False the device waits for the host, as where whole submissions are timed. A processor that something
else slows down is left for another one, and what was timed on it is timed again. Facts go as lines to the
descriptor KBISECT_FD, or to standard output where there is none.
"""
import glob
import math
import os
import statistics
import sys
import time

__all__ = ["Harness", "Output", "compare", "tolerance", "tensors"]


class Output:
    """The lines of the trial protocol: one fact, one line, one write."""

    def __init__(self, fd=None):
        if fd is None:
            fd = int(os.environ.get("KBISECT_FD", "1"))
        self.fd = fd

    def line(self, word, text):
        text = " ".join(str(text).split())
        data = ("%s: %s\n" % (word, text))[:4000].rstrip("\n").encode("utf-8", "replace") + b"\n"
        sys.stdout.flush()  # so that both keep their order where they are one
        while data:
            data = data[os.write(self.fd, data):]

    def phase(self, name):
        self.line("phase", name)

    def case(self, name):
        self.line("case", name)

    def sample(self, seconds):
        self.line("sample", "%.6g us" % (seconds * 1e6))

    def metric(self, name, value, unit=""):
        self.line("metric " + name, "%.9g %s" % (value, unit))

    def check(self, why=""):
        """Says that a check passed, or why it did not."""
        self.line("check", "fail " + str(why) if why else "pass")

    def skip(self, why):
        self.line("skip", why)

    def infra(self, why):
        self.line("infra", why)


def _torch():
    """PyTorch if the program has imported it, else None: without tensors there is no need for it."""
    return sys.modules.get("torch")


def _cuda():
    torch = _torch()
    return torch is not None and torch.cuda.is_available()


class _Processor:
    """Keeps the thread on a processor that nothing else slows down. On a shared machine a neighbour on the other half of
    a core doubles the times of the host for a second or two, and the scheduler of a virtual machine does not see that.

    A fixed loop shows it, never the kernel's own times, so that no timing is chosen by its outcome. After a move the
    thread may run anywhere again: threads that it starts must not share one processor."""

    slow = 1.3  # times the shortest loop
    most = 16  # processors to look at
    block = 0.02  # seconds of timings after which to look again
    repeats = 2  # of a block
    spare = 0.1  # seconds for all repeats of a case

    def __init__(self):
        self.shortest = math.inf
        self.spent = 0.0  # seconds on repeats in this case
        self.fixed = not (hasattr(os, "sched_setaffinity") and hasattr(os, "sched_getaffinity"))

    def loop(self):
        """The seconds that a fixed loop takes here, now."""
        begun, total = time.perf_counter(), 0
        for i in range(2000):
            total += i & 7
        return time.perf_counter() - begun

    def calm(self):
        """Whether the loop is short. It gets a second try, as the kernel may have emptied the caches."""
        for _ in range(2):
            took = self.loop()
            self.shortest = min(self.shortest, took)
            if took <= self.slow * self.shortest:
                return True
        return False

    def settle(self):
        """Leaves this processor if the loop is long here."""
        if not self.fixed and (self.shortest == math.inf or not self.calm()):
            self.move()

    def move(self):
        """Goes to a processor on which the loop is short, or to the one where it is shortest. The first move
        looks at all of them, to see how short it can be."""
        first, best = self.shortest == math.inf, (math.inf, -1)
        try:
            allowed = os.sched_getaffinity(0)
            try:
                for cpu in self.near(allowed)[: self.most]:
                    os.sched_setaffinity(0, {cpu})
                    self.loop()  # fills its caches
                    took = self.loop()
                    best = min(best, (took, cpu))
                    if not first and took <= self.slow * self.shortest:
                        break
                self.shortest = min(self.shortest, best[0])
                os.sched_setaffinity(0, {best[1]})
            finally:
                os.sched_setaffinity(0, allowed)
        except Exception:  # where it may not be set, or no processor is told: no reason to end the program
            self.fixed = True

    def near(self, allowed):
        """Those of the processors that share the memory of the present one, which comes first."""
        with open("/proc/thread-self/stat") as f:
            here = int(f.read().rsplit(")", 1)[1].split()[36])
        node = glob.glob("/sys/devices/system/cpu/cpu%d/node*/cpu[0-9]*" % here)
        cpus = sorted(allowed & {int(os.path.basename(path)[3:]) for path in node} or allowed)
        at = cpus.index(here) if here in cpus else 0
        return cpus[at:] + cpus[:at]

    def take(self, block):
        """What block returns. It is called again if something slowed the processor down meanwhile, within bounds."""
        for n in range(self.repeats + 1):
            self.settle()
            begun = time.perf_counter()
            result = block()
            took = time.perf_counter() - begun
            if self.fixed or n == self.repeats or self.spent + took > self.spare or self.calm():
                break
            self.spent += took
        return result


class _CPU:
    """Times a call by the clock of the host."""

    name = "cpu"

    def flush(self):
        pass

    def cover(self, calls):
        return None

    def synchronize(self):
        pass

    def time(self, call):
        start = time.perf_counter_ns()
        result = call()
        return (time.perf_counter_ns() - start) * 1e-9, result


class _CUDA:
    """Times a call by events on the device."""

    name = "cuda"
    idle = 20e-6  # seconds that a synchronisation of an idle device may take
    most = 2e-3  # seconds of flushing before a call

    def __init__(self):
        self.torch = _torch()
        props = self.torch.cuda.get_device_properties(self.torch.cuda.current_device())
        size = getattr(props, "L2_cache_size", 0) or 256 << 20
        self.scratch = self.torch.empty(size, dtype=self.torch.int8, device="cuda")
        self.flushes = 1

    def flush(self):
        for _ in range(self.flushes):
            self.scratch.zero_()

    def cover(self, calls):
        """Has a call flush for longer than the host takes to enqueue it; returns that time in seconds."""
        self.flushes = 1
        one = statistics.median(self.time(lambda: None)[0] for _ in range(3))  # of the events themselves
        hosts, flushed, enqueued = [], [], []
        for i in range(max(9, len(calls))):
            self.torch.cuda.synchronize()
            begun = time.perf_counter()
            calls[i % len(calls)]()
            hosts.append(time.perf_counter() - begun)
            seconds, took = self.time(self._flushed)
            flushed.append(seconds - one)
            enqueued.append(took)
        host = statistics.median(hosts)
        gain = statistics.median(flushed) - statistics.median(enqueued)
        if gain > 0:
            self.flushes = 1 + min(int(1.5 * host / gain), int(self.most / statistics.median(flushed)))
        return host

    def _flushed(self):
        begun = time.perf_counter()
        self.scratch.zero_()
        return time.perf_counter() - begun

    def synchronize(self):
        self.torch.cuda.synchronize()

    def time(self, call):
        start, end = (self.torch.cuda.Event(enable_timing=True) for _ in range(2))
        self.flush()  # keeps the device busy while the call is enqueued
        start.record()
        result = call()
        end.record()
        end.synchronize()
        before = time.perf_counter()
        self.torch.cuda.synchronize()
        rest = time.perf_counter() - before
        seconds = start.elapsed_time(end) * 1e-3
        if rest > self.idle:  # work on a stream that the events do not see belongs to the call
            seconds += rest
        return seconds, result


class Harness:
    """Runs cases. samples: timings of a case; a fixed number, so that trials can be compared.
    seconds bounds the timings of one case, warmup its warm-up. cover: the times are the device's alone."""

    def __init__(self, samples=50, seconds=10.0, warmup=2.0, output=None, cover=True):
        if samples < 1:
            raise ValueError("samples: at least 1")
        self.covered = cover
        self.samples, self.seconds, self.warmup = samples, seconds, warmup
        self.out = output or Output()
        self.device = _CUDA() if _cuda() else _CPU()
        self.processor = _Processor()
        self.failed = 0

    def run(self, name, kernel, inputs, reference=None, check=None, graph=False, outputs=None, rtol=None, atol=None):
        """One case. kernel(data) is called with each of inputs in turn. check(data, result) returns
        "" or why the result is wrong; without it the result is compared with reference(data), which
        ought to compute in higher precision. outputs(data) names tensors that the kernel writes to;
        they are poisoned before a check. graph is True for a CUDA graph of each call, or a function of
        the data that returns what to call instead. Reports whether the checks passed."""
        out = self.out
        out.case(name)
        out.phase("compile")
        cold, first = self.device.time(lambda: kernel(inputs[0]))
        out.metric("cold", cold, "s")
        out.phase("warmup")
        self._warm(lambda i: kernel(inputs[i % len(inputs)]))
        calls = [_call(kernel, data) for data in inputs]
        if graph:
            out.phase("capture")
            calls = [self._capture(call) if graph is True else graph(data) for call, data in zip(calls, inputs)]
        out.phase("check")
        if outputs is None:
            outputs = _written(first)
        why = self._check(calls, inputs, reference, check, outputs, rtol, atol)
        if reference is not None or check is not None:
            out.check(why)
            self.failed += bool(why)
        out.phase("measure")
        self.processor.spent = 0.0
        host = self.processor.take(lambda: self.device.cover(calls)) if self.covered else None
        if host is not None:
            out.metric("host", host * 1e6, "us")
        self._measure(calls)
        return not why

    def _warm(self, call):
        """Calls until two windows in a row have the same median within 1 % or, after 0.1 s, within what they scatter by."""
        start, times, calm, before = time.perf_counter(), [], 0, None
        n = 0
        while calm < 2 and (n < 3 or time.perf_counter() - start < self.warmup) and n < 1000:
            if not times:
                self.processor.settle()
            seconds, _ = self.device.time(lambda: call(n))
            n += 1
            times.append(seconds)
            if len(times) == 5:
                _, low, median, high, _ = sorted(times)
                scatter = high - low if time.perf_counter() - start > 0.1 else 0
                calm = calm + 1 if before is not None and abs(median - before) <= max(0.01 * before, scatter) else 0
                before, times = median, []
        self.out.metric("warmup calls", n)

    def _capture(self, call):
        """Captures one call in a CUDA graph; the replay returns the tensors of the capture."""
        torch = _torch()
        if not _cuda():
            raise RuntimeError("graph=True needs a CUDA device")
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            result = call()
        self.device.synchronize()

        def replay():
            graph.replay()
            return result

        return replay

    def _check(self, calls, inputs, reference, check, outputs, rtol, atol):
        for call, data in zip(calls, inputs):
            if reference is None and check is None:
                return ""
            kept = clone(data)  # the kernel may write into its inputs
            for tensor in outputs(data):
                poison(tensor)
            result = call()
            self.device.synchronize()
            why = check(kept, result) if check else compare(result, reference(kept), rtol, atol)
            if why:
                return why
        return ""

    def _measure(self, calls):
        start, done = time.perf_counter() - self.processor.spent, 0

        def wanted(made):  # whether one more is; repeats since the start take no time
            return made < self.samples and (made < 3 or time.perf_counter() - start - self.processor.spent <= self.seconds)

        def block():
            times, begun = [], time.perf_counter()
            while not times or len(times) < 5 and wanted(done + len(times)) and time.perf_counter() - begun < self.processor.block:
                times.append(self.device.time(calls[(done + len(times)) % len(calls)])[0])
            return times

        while wanted(done):
            for seconds in self.processor.take(block):
                self.out.sample(seconds)
                done += 1

    def finish(self):
        """Says that only the end of the process is left. The exit status of the program: 1 when a check failed."""
        self.out.phase("teardown")
        return 1 if self.failed else 0


def _call(kernel, data):
    return lambda: kernel(data)


def tensors(value):
    """All tensors in a nest of tuples, lists and dictionaries."""
    torch = _torch()
    if torch is not None and isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (tuple, list)):
        return [t for v in value for t in tensors(v)]
    return []


def _written(result):
    """Which inputs a kernel writes to: those whose memory it returned in its first call."""
    pointers = {t.data_ptr() for t in tensors(result) if t.numel()}
    places = {}

    def outputs(data):
        found = tensors(data)
        if not places:  # of the first inputs: by place, as other inputs have other memory
            places["of"] = [i for i, t in enumerate(found) if t.numel() and t.data_ptr() in pointers]
        return [found[i] for i in places["of"] if i < len(found)]

    return outputs


def poison(tensor):
    """Fills a tensor with what no kernel computes, so that what it leaves alone is seen."""
    if tensor.is_floating_point() and tensor.element_size() > 1:
        tensor.fill_(math.nan)
    else:
        tensor.view(_torch().uint8).fill_(0xFF)


def clone(value):
    """A copy of a nest of tensors; other values stay as they are."""
    torch = _torch()
    if torch is not None and isinstance(value, torch.Tensor):
        return value.clone()
    if isinstance(value, dict):
        return {k: clone(v) for k, v in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(clone(v) for v in value))
    if isinstance(value, (tuple, list)):
        return type(value)(clone(v) for v in value)
    return value


# Relative and absolute tolerance by the type of the result.
_TOLERANCES = {
    "float64": (1e-9, 1e-11),
    "float32": (1e-4, 1e-5),
    "float16": (1e-2, 1e-3),
    "bfloat16": (2e-2, 1e-2),
}


def tolerance(dtype):
    """(rtol, atol) for a dtype of PyTorch, or for a Python float."""
    name = str(dtype).rsplit(".", 1)[-1]
    if name.startswith("float8"):
        return 0.15, 0.1
    return _TOLERANCES.get(name, (0.0, 0.0))


def compare(got, want, rtol=None, atol=None):
    """Why two results differ by more than the tolerances, or "". Results are tensors, numbers, or
    nests of these; want may be of a higher precision."""
    if isinstance(want, dict) and isinstance(got, dict) and want.keys() == got.keys():
        got, want = [got[k] for k in want], list(want.values())
    if isinstance(want, (tuple, list)):
        if not isinstance(got, (tuple, list)) or len(got) != len(want):
            return "the result has another structure than the reference"
        for g, w in zip(got, want):
            why = compare(g, w, rtol, atol)
            if why:
                return why
        return ""
    if tensors(want) or tensors(got):
        return _compare_tensors(got, want, rtol, atol)
    dtype = "float64" if isinstance(want, float) else "int"
    r, a = tolerance(dtype)
    r, a = (r if rtol is None else rtol), (a if atol is None else atol)
    if got == want or isinstance(want, float) and math.isnan(want) and isinstance(got, float) and math.isnan(got):
        return ""
    try:
        near = abs(got - want) <= a + r * abs(want)
    except TypeError:
        near = False
    return "" if near else "%r instead of %r" % (got, want)


def _compare_tensors(got, want, rtol, atol):
    torch = _torch()
    if not isinstance(got, torch.Tensor) or not isinstance(want, torch.Tensor):
        return "the result is %s, the reference %s" % (type(got).__name__, type(want).__name__)
    if got.shape != want.shape:
        return "shape %s instead of %s" % (tuple(got.shape), tuple(want.shape))
    r, a = tolerance(got.dtype)
    r, a = (r if rtol is None else rtol), (a if atol is None else atol)
    wide = torch.complex128 if got.is_complex() or want.is_complex() else torch.float64
    g, w = got.detach().to(wide), want.detach().to(device=got.device, dtype=wide)
    both = torch.isnan(g) & torch.isnan(w) | (g == w)
    far = ~(both | ((g - w).abs() <= a + r * w.abs()))
    bad = int(far.sum())
    if not bad:
        return ""
    at = int(far.reshape(-1).to(torch.uint8).argmax())
    g, w = g.reshape(-1)[at].item(), w.reshape(-1)[at].item()
    return "%d of %d values differ, the first at %d: %.6g instead of %.6g" % (bad, far.numel(), at, g, w) if wide == torch.float64 else \
        "%d of %d values differ, the first at %d: %s instead of %s" % (bad, far.numel(), at, g, w)
