#!/usr/bin/env python3
"""Time of bfloat16 products and causal attention in PyTorch on a GPU, in the shapes of the test
"how long products and attention take on the GPU": cuBLAS, and the fastest of flash attention and cuDNN.

Usage: bench_kernels_torch.py
"""
import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel


def microseconds(work, rounds=5, times=10):
    work()
    best = float("inf")
    for _ in range(rounds):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(times):
            work()
        end.record()
        torch.cuda.synchronize()
        best = min(best, 1e3 * begin.elapsed_time(end) / times)
    return best


def random(*shape):
    return torch.rand(*shape, device="cuda", dtype=torch.bfloat16) * 2 - 1


def attention(b, s, h, d, backend):
    """Forward, then backward alone."""
    # As layers see them: [b, s, h, d] in memory.
    q, k, v = (random(b, s, h, d).transpose(1, 2).requires_grad_() for _ in range(3))
    d_out = random(b, s, h, d).transpose(1, 2)
    with sdpa_kernel(backend):
        def forward():
            return F.scaled_dot_product_attention(q, k, v, is_causal=True)

        out = forward()
        yield microseconds(forward)
        yield microseconds(
            lambda: torch.autograd.grad(out, (q, k, v), d_out, retain_graph=True))


def main():
    for m, n, k in [(8192, 8192, 8192), (32768, 3072, 768), (32768, 50304, 768),
                    (8192, 6400, 1600)]:
        a, b = random(m, k), random(n, k)
        print(f"speed: product {m}x{n}x{k} {microseconds(lambda: a @ b.T):.0f} us", flush=True)
    for shape in [(32, 1024, 12, 64), (8, 1024, 25, 64), (4, 4096, 16, 128)]:
        times = {}
        for name, backend in [("flash", SDPBackend.FLASH_ATTENTION),
                              ("cuDNN", SDPBackend.CUDNN_ATTENTION)]:
            try:
                times[name] = list(attention(*shape, backend))
            except RuntimeError as error:
                print(f"{name} {shape}: {error}", flush=True)
        text = "x".join(map(str, shape))
        for i, direction in enumerate(["forward", "backward"]):
            by_name = ", ".join(f"{name} {t[i]:.0f} us" for name, t in times.items())
            print(f"speed: attention {direction} {text} {by_name or 'none'}", flush=True)
    print(f"torch {torch.__version__}, {torch.cuda.get_device_name()}")


main()
