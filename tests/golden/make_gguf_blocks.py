"""make_gguf_blocks.py - hashes of blocks of GGUF's types, as PyPI's gguf dequantizes them: the table `dequantized` of
tests/interchange/test_gguf_read.c.

    python3 tests/golden/make_gguf_blocks.py          needs gguf, numpy

The bytes of the blocks are those of a linear congruential generator; the upper bits of the fp16 factors are cleared, so
that no number is infinite. The hash is FNV-1a of the bytes of the fp32 numbers."""
import gguf
import numpy as np

TYPES = {"F16": [], "BF16": [], "Q8_0": [0], "Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q4_K": [0, 2],
         "Q5_K": [0, 2], "Q6_K": [208, 208]}
BLOCKS = 64


def made(count):
    x, out = 1, []
    for _ in range(count):
        x = (x * 1664525 + 1013904223) % 2**32
        out.append(x >> 24)
    return np.array(out, dtype=np.uint8)


for name, factors in TYPES.items():
    kind = gguf.GGMLQuantizationType[name]
    size, length = gguf.GGML_QUANT_SIZES[kind]
    if size == 1:
        length *= 32
    data = made(BLOCKS * length).reshape(BLOCKS, length)
    for place in set(factors):
        data[:, place + 1] &= 0xBF
    if size == 1:
        data[:, 1::2] &= 0xBF
    numbers = gguf.dequantize(data, kind).astype("<f4").tobytes()
    value = 2166136261
    for byte in numbers:
        value = (value ^ byte) * 16777619 % 2**32
    print(f"    {{ CE_GGUF_{name}, {{ {', '.join(map(str, factors)) or -1} }}, 0x{value:08x} }},")
