"""Runs a submission with custom_kernel(data) against a reference and tells kbisect about it.

    torch_driver.py --submission submission.py [--reference reference.py] [--case "m: 256; n: 512; seed: 1"]...

The reference has generate_input(**case) and either check_implementation(data, result), which returns
true or (true, "") for a right result, or ref_kernel(data), which is called with inputs of a higher
precision where it bears that. Its list CASES (or cases, BENCHMARKS) of dictionaries serves where no
--case is given. A submission that offers capture(data), which returns a function to call instead, or
--graph, has a phase of capture. Phases: import, compile (the first call, cold), warmup, capture, check,
measure.
"""
import argparse
import importlib
import inspect
import os
import sys
import traceback

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import kbisect_harness as kb  # noqa: E402

CRASH = 134  # exit status: an exception is a crash, not a wrong result


class Unfit(Exception):
    """Nothing can be said of this candidate."""


def arguments():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--submission", default="submission.py")
    p.add_argument("--reference", help="default: reference.py beside the submission")
    p.add_argument("--case", action="append", default=[], help='arguments of generate_input, as "m: 256; seed: 1"')
    p.add_argument("--graph", action="store_true", help="capture custom_kernel in a CUDA graph")
    p.add_argument("--samples", type=int, default=50)
    p.add_argument("--seconds", type=float, default=10.0, help="bound on the timings of one case")
    p.add_argument("--inputs", type=int, default=3, help="sets of inputs to rotate through")
    p.add_argument("--rtol", type=float)
    p.add_argument("--atol", type=float)
    return p.parse_args()


def value(text):
    try:
        return int(text)
    except ValueError:
        return text


def parse_case(text):
    pairs = (part.partition(":") for part in text.split(";"))
    return {key.strip(): value(v.strip()) for key, _, v in pairs}


def cases(texts, reference):
    if texts:
        return [(text, parse_case(text)) for text in texts]
    for name in ("CASES", "cases", "BENCHMARKS", "benchmarks"):
        listed = getattr(reference, name, None)
        if isinstance(listed, (list, tuple)) and listed:
            return [("; ".join("%s: %s" % kv for kv in c.items()), dict(c)) for c in listed]
    needed = [p for p in inspect.signature(reference.generate_input).parameters.values()
              if p.default is p.empty and p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    if needed:
        raise Unfit("generate_input needs %s and there are no cases" % ", ".join(p.name for p in needed))
    return [("default", {})]


def load(path):
    """Imports a file by its name, so that it may import its neighbours."""
    path = os.path.abspath(path)
    if not os.path.isfile(path):
        raise Unfit("%s is not there" % os.path.basename(path))
    directory = os.path.dirname(path)
    if directory not in sys.path[:2]:
        sys.path.insert(0, directory)
    return importlib.import_module(os.path.splitext(os.path.basename(path))[0])


def seeded(case, i):
    """Another input of the same case: an output that was remembered is found out."""
    if isinstance(case.get("seed"), int):
        return dict(case, seed=case["seed"] + 13 * i)
    return case


def inputs(reference, case, count):
    """Sets of inputs to rotate through, no more than fit well into the memory of the device."""
    import torch

    out = [reference.generate_input(**case)]
    size = sum(t.numel() * t.element_size() for t in kb.tensors(out[0]))
    if torch.cuda.is_available() and size:
        count = max(1, min(count, int(torch.cuda.mem_get_info()[0] // 4 // size)))
    out += [reference.generate_input(**seeded(case, i)) for i in range(1, count)]
    return out


def widened(data, dtype):
    """The inputs with floating-point tensors in a wider type."""
    import torch

    if isinstance(data, torch.Tensor):
        return data.to(dtype) if data.is_floating_point() else data
    if isinstance(data, dict):
        return {k: widened(v, dtype) for k, v in data.items()}
    if isinstance(data, (tuple, list)):
        return type(data)(widened(v, dtype) for v in data) if not hasattr(data, "_fields") else type(data)(*(widened(v, dtype) for v in data))
    return data


def precise(ref_kernel):
    """The reference in the highest precision that it bears: float64, float32, or as it is."""
    import torch

    def reference(data):
        for dtype in (torch.float64, torch.float32):
            try:
                return ref_kernel(widened(kb.clone(data), dtype))
            except (RuntimeError, TypeError, ValueError, AssertionError, NotImplementedError):
                continue
        return ref_kernel(data)

    return reference


def checker(reference):
    """check(data, result) of the reference, which returns "" or why; None if there is none."""
    check = getattr(reference, "check_implementation", None)
    if check is None:
        return None

    def verdict(data, result):
        said = check(data, result)
        good, why = said if isinstance(said, tuple) else (said, "")
        if isinstance(good, str):  # older ones return the complaint itself
            good, why = not good, good
        return "" if good else why or "check_implementation says so"

    return verdict


def run(args, out):
    import torch  # noqa: F401  its import is the load of the program

    submission = args.submission
    reference = args.reference or os.path.join(os.path.dirname(submission), "reference.py")
    out.phase("import")
    ref = load(reference)
    sub = load(submission)
    for module, name in ((ref, "generate_input"), (sub, "custom_kernel")):
        if not callable(getattr(module, name, None)):
            raise Unfit("%s has no %s" % (module.__name__, name))
    check = checker(ref)
    slow = None if check or not callable(getattr(ref, "ref_kernel", None)) else precise(ref.ref_kernel)
    h = kb.Harness(samples=args.samples, seconds=args.seconds, output=out, cover=False)  # the host's part counts
    for name, case in cases(args.case, ref):
        data = inputs(ref, case, args.inputs)
        offered = getattr(sub, "capture", None)
        graph = args.graph or (offered if callable(offered) else False)
        h.run(name, sub.custom_kernel, data, slow, check, graph=graph, rtol=args.rtol, atol=args.atol)
        del data
    return h.finish()


def main():
    args, out = arguments(), kb.Output()
    try:
        return run(args, out)
    except Unfit as e:
        out.skip(e)
        return 125
    except Exception:
        traceback.print_exc()
        return CRASH


if __name__ == "__main__":
    sys.exit(main())
