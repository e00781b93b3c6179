from .graphs import CUDAGraph, graph  # noqa: F401
