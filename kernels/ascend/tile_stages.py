"""What K1 and K12, and K2 and K12, do with one tile. The kernels' compiler inlines these functions.

multiply_tile, Cube. The K loop runs over the bias block, then over (tap, channels). GM -> L1 moves 512 bytes of channels
at a time, L1 -> L0 128 bytes; both are double-buffered, each by its own tile groups:

    A  filter_packed [m, k]  --MTE2-->  L1 [TileM, k_l1]  --MTE1-->  L0A [TileM, k_l0]  \\
                                                                                         --M-->  L0C [TileM, TileN]
    B  x_packed      [k, n]  --MTE2-->  L1 [k_l1, TileN]  --MTE1-->  L0B [k_l0, TileN]  /

B of tap (kh, kw) is x_packed at a constant shift (see conv_common.py): there is no im2col buffer. Hardware has a bias
table, but it adds along N; here the output channels are M, so the bias is one more block of K: A holds the bias in its
first column, B ones in its first row.

tanh_tile, Vector, float32 in and out, no branch:

    |z| <  0.625: z * (1 + s * P(s)), s = z^2, P of degree 4
    |z| >= 0.625: (1 - e) / (1 + e), e = exp(-2 |z|), with the sign of z

e is in (0, 0.29], so nothing overflows and nothing cancels; inf gives +-1, NaN fails both comparisons and passes through
exp. -0 and the smallest values come out of the first form as they are. P is the minimax fit of (tanh(z) / z - 1) / s in
s on [0, 0.625^2]: relative error of tanh 4.4e-9 before rounding. With exp within 1 ULP and the other operations
correctly rounded the result is within 2.1 ULP; each ULP of error in exp adds at most 0.7.
"""

import pypto_pro.language as pl
from conv_common import K_BLOCK, ConvTiling

TANH_SPLIT = 0.625
TANH_C0 = -0.33333281941946774
TANH_C1 = 0.13331442196818688
TANH_C2 = -0.05373971499530978
TANH_C3 = 0.020639087003258755
TANH_C4 = -0.005704986769520491


def multiply_tile(
    acc,
    a_l1s,
    b_l1s,
    bias_l1s,
    ones,
    lefts,
    rights,
    filter_matrix,
    x_matrix,
    out_channel,
    plane,
    position,
    m,
    n,
    k_l1,
    k_l0,
    unit_flag,
    tiling: ConvTiling,
):
    """acc[0:m, 0:n] = the convolution with bias of output channels out_channel.. at flat pixels position..

    plane is the first plane of the image and group. unit_flag 1: acc is handed to FIX by phase, 0: by its mutex.
    """
    pl.set_validshape(acc, [m, n])
    if tiling.has_bias == 1:
        bias_l1 = bias_l1s.next()
        bias_left = lefts.next()
        bias_right = rights.next()
        pl.set_validshape(bias_l1, [m, K_BLOCK])
        pl.set_validshape(bias_left, [m, K_BLOCK])
        pl.set_validshape(bias_right, [K_BLOCK, n])
        pl.load(bias_l1, filter_matrix, [out_channel, tiling.k_size])
        pl.move(bias_left, bias_l1, offset=[0, 0])
        pl.move(bias_right, ones, offset=[0, 0])
        if unit_flag == 1:
            pl.matmul(acc, bias_left, bias_right, phase=pl.AccPhase.Partial)
        else:
            pl.matmul(acc, bias_left, bias_right)

    steps_per_tap = (tiling.k_channels + k_l1 - 1) // k_l1
    steps = tiling.taps * steps_per_tap
    for step in pl.range(0, steps):
        tap = step // steps_per_tap
        channel = step % steps_per_tap * k_l1
        depth = pl.min(k_l1, tiling.k_channels - channel)
        y = tap // tiling.taps_w * tiling.dilation_h
        x = tap % tiling.taps_w * tiling.dilation_w
        phase = y % tiling.stride_h * tiling.phases_w + x % tiling.stride_w
        shift = y // tiling.stride_h * tiling.pitch + x // tiling.stride_w
        a_l1 = a_l1s.next()
        b_l1 = b_l1s.next()
        pl.set_validshape(a_l1, [m, depth])
        pl.set_validshape(b_l1, [depth, n])
        pl.load(a_l1, filter_matrix, [out_channel, tap * tiling.k_channels + channel])
        pl.load(b_l1, x_matrix, [plane + phase * tiling.k_channels + channel, position + shift])
        for offset in pl.range(0, depth, k_l0):
            width = pl.min(k_l0, depth - offset)
            left = lefts.next()
            right = rights.next()
            pl.set_validshape(left, [m, width])
            pl.set_validshape(right, [width, n])
            pl.move(left, a_l1, offset=[0, offset])
            pl.move(right, b_l1, offset=[offset, 0])
            # All terms count upwards: step and offset are unsigned.
            remaining = (steps - 1 - step) * k_l1 + depth - offset
            if step + offset + tiling.has_bias == 0:
                if unit_flag == 1:
                    if remaining <= k_l0:
                        pl.matmul(acc, left, right, phase=pl.AccPhase.Final)
                    else:
                        pl.matmul(acc, left, right, phase=pl.AccPhase.Partial)
                else:
                    pl.matmul(acc, left, right)
            else:
                if unit_flag == 1:
                    if remaining <= k_l0:
                        pl.matmul_acc(acc, acc, left, right, phase=pl.AccPhase.Final)
                    else:
                        pl.matmul_acc(acc, acc, left, right, phase=pl.AccPhase.Partial)
                else:
                    pl.matmul_acc(acc, acc, left, right)


def tanh_tile(out, z, small, work, mask):
    """out = tanh(z), all float32 tiles of one valid shape; small, work and the UINT8 mask are overwritten."""
    pl.abs(small, z)
    pl.mul(work, small, -2.0)
    pl.exp(work, work)
    pl.mul(out, work, -1.0)
    pl.add(out, out, 1.0)
    pl.add(work, work, 1.0)
    pl.div(out, out, work)
    pl.mul(work, out, -1.0)
    pl.lt(mask, z, 0.0)
    pl.select(out, mask, work, out, work)

    pl.lt(mask, small, TANH_SPLIT)
    pl.mul(work, z, z)
    pl.mul(small, work, TANH_C4)
    pl.add(small, small, TANH_C3)
    pl.mul(small, small, work)
    pl.add(small, small, TANH_C2)
    pl.mul(small, small, work)
    pl.add(small, small, TANH_C1)
    pl.mul(small, small, work)
    pl.add(small, small, TANH_C0)
    pl.mul(small, small, work)
    pl.add(small, small, 1.0)
    pl.mul(small, small, z)
    pl.select(out, mask, small, out, work)
