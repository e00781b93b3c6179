"""A package with the module paths of PyTorch that the probe hooks, and nothing behind them."""
import torch.cuda  # noqa: F401


def compile(f):
    import torch._dynamo.convert_frame as c

    def compiled(*args):
        c.convert()
        return f(*args)

    return compiled
