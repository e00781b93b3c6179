import torch

# What the submission is tried on: arguments of generate_input.
CASES = [
    {"m": 64, "n": 256, "k": 128, "seed": 1},
    {"m": 256, "n": 512, "k": 256, "seed": 2},
]


def generate_input(m, n, k, seed):
    device = "cuda" if torch.cuda.is_available() else "cpu"
    dtype = torch.float16 if device == "cuda" else torch.float32
    gen = torch.Generator(device=device).manual_seed(seed)

    def matrix(rows, columns):
        return (torch.randn(rows, columns, device=device, generator=gen) / columns**0.5).to(dtype)

    return matrix(m, k), matrix(k, n), matrix(k, n)


def ref_kernel(data):
    """Is called with float64 copies of the inputs; the tolerance is that of the result's type."""
    a, b1, b2 = data
    return torch.nn.functional.silu(a @ b1) * (a @ b2)
