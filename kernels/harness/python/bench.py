"""An example: a prefix sum in plain Python, checked against a slow and sure one."""
import random
import sys

import kbisect_harness as kb


def kernel(values):
    """The code under test."""
    out, total = [], 0.0
    for v in values:
        total += v
        out.append(total)
    return out


def reference(values):
    import fractions

    total, out = fractions.Fraction(0), []
    for v in values:
        total += fractions.Fraction(v)
        out.append(float(total))
    return out


def make(n, seed):
    rng = random.Random(seed)
    return [rng.random() for _ in range(n)]


def main():
    h = kb.Harness(samples=30)
    for n in (1000, 4000):
        h.run("n=%d" % n, kernel, inputs=[make(n, seed) for seed in range(3)], reference=reference)
    return h.finish()


if __name__ == "__main__":
    sys.exit(main())
