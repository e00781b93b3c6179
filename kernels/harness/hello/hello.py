import torch

n = int(torch.ones(1000, device="cuda").sum().item())
print("hello" if n == 1000 else "wrong sum")
raise SystemExit(n != 1000)
