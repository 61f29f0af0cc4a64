"""From shapes, dtype and attributes to kernels and their tiling, and the launches of one operator call.

What decides, in this order:

    dimensions   1-D [N, C, L] is 2-D [N, C, 1, L]
    dtype        the dtype of the products (conv_common.Problem.compute_dtype)
    shape class  direct: K1 reads x itself (no padding, stride 1, channels a multiple of 16)
                 packed: K0 pads x and splits it by the strides
                 folded: K0 folds all taps into the channels (few channels per group)
    fusion       half: K0, K1, K2; true: K0, K12

Half is the default: which is faster has to be measured on the machine (docs/ASCEND.md).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from conv_common import CUBE_CORES, Plan, Problem, make_tiling

DTYPES = ("float16", "bfloat16", "float32")


@dataclass(frozen=True)
class Route:
    """The kernels of one call in launch order, the shape class, and the plan with every tiling."""

    kernels: tuple[str, ...]
    shape_class: str
    plan: Plan


def make_problem(
    x_shape: Sequence[int],
    filter_shape: Sequence[int],
    dtype: str,
    has_bias: bool = True,
    strides: Sequence[int] = (1, 1),
    pads: Sequence[int] = (0, 0, 0, 0),
    dilations: Sequence[int] = (1, 1),
    groups: int = 1,
    cube_math_type: int = 0,
) -> Problem:
    """The problem of x [N, Ci, H, W] and filter [Co, Ci / groups, Kh, Kw], or [N, Ci, L] and [Co, Ci / groups, K].

    Attributes are those of aclnnFusedConvTanh; 1-D ones may have one element (pads: one or two). Raises ValueError,
    naming the argument, for shapes that do not fit together. y may not be empty: an empty y launches nothing.
    """
    dims = len(x_shape) - 2
    if dims not in (1, 2) or len(filter_shape) != len(x_shape):
        raise ValueError(f"conv_tanh: x and filter must both be 3-D or 4-D, got {list(x_shape)}, {list(filter_shape)}")
    if dtype not in DTYPES:
        raise ValueError(f"conv_tanh: dtype must be one of {', '.join(DTYPES)}, got {dtype}")
    if dims == 1:
        x_shape, filter_shape = (*x_shape[:2], 1, x_shape[2]), (*filter_shape[:2], 1, filter_shape[2])
        strides, dilations = (1, strides[-1]), (1, dilations[-1])
        pads = (0, 0, *pads[-2:]) if len(pads) > 1 else (0, 0, pads[0], pads[0])
    elif len(pads) == 2:
        pads = (pads[0], pads[0], pads[1], pads[1])
    n, ci, hi, wi = x_shape
    co, channels, kh, kw = filter_shape
    if groups < 1 or channels * groups != ci or co % groups:
        raise ValueError(
            f"conv_tanh: groups must divide Ci and Co, filter.shape[1] be Ci / groups; got groups {groups}, "
            f"Ci {ci}, Co {co}, filter.shape[1] {channels}"
        )
    if min(*strides, *dilations) < 1 or min(pads) < 0:
        raise ValueError("conv_tanh: strides and dilations must be > 0, pads >= 0")
    if not 0 <= cube_math_type <= 3:
        raise ValueError(f"conv_tanh: cubeMathType must be from 0 to 3, got {cube_math_type}")
    reach_h = hi + pads[0] + pads[1] - dilations[0] * (kh - 1) - 1
    reach_w = wi + pads[2] + pads[3] - dilations[1] * (kw - 1) - 1
    if min(reach_h, reach_w) < 0 or min(n, ci, co, hi, wi, kh, kw) < 1:
        raise ValueError(f"conv_tanh: filter {list(filter_shape)} does not fit into padded x {list(x_shape)}")
    return Problem(
        dtype=dtype,
        n=n,
        ci=ci,
        hi=hi,
        wi=wi,
        co=co,
        kh=kh,
        kw=kw,
        ho=reach_h // strides[0] + 1,
        wo=reach_w // strides[1] + 1,
        stride_h=strides[0],
        stride_w=strides[1],
        pad_top=pads[0],
        pad_bottom=pads[1],
        pad_left=pads[2],
        pad_right=pads[3],
        dilation_h=dilations[0],
        dilation_w=dilations[1],
        groups=groups,
        has_bias=int(has_bias),
        cube_math_type=cube_math_type,
    )


def route(problem: Problem, cores: int = CUBE_CORES, fusion: str = "half") -> Route:
    """Kernels and tiling for a problem on a number of AIC cores; fusion: half or true."""
    if fusion not in ("half", "true"):
        raise ValueError(f"conv_tanh: fusion must be half or true, got {fusion}")
    plan = make_tiling(problem, cores, fusion == "true")
    if not plan.pack.pack_x:
        shape_class = "direct"
    else:
        shape_class = "folded" if plan.conv.taps < plan.pack.taps else "packed"
    return Route(("k0_pack", "k12_fused") if plan.fused else ("k0_pack", "k1_conv", "k2_tanh"), shape_class, plan)


def launch(
    route: Route,
    kernels: Mapping[str, Any],
    datatypes: Mapping[str, Any],
    problem: Problem,
    tensors: Mapping[str, Any],
    stream: Any = None,
) -> None:
    """Launches the kernels of a route.

    kernels: name -> kernel; datatypes: dtype name -> pl data type; tensors: x, filter, bias, x_packed, filter_packed,
    wst and y on the device, None for those that the route does not use. Works alike for PyPTO Pro and the executor.
    """
    plan = route.plan
    io, compute = datatypes[problem.dtype], datatypes[plan.compute_dtype]
    x_packed = tensors["x_packed"] if plan.pack.pack_x else tensors["x"]
    filter_packed, y = tensors["filter_packed"], tensors["y"]
    # A parameter that a kernel does not touch is null.
    packed = tensors["x_packed"] if plan.pack.pack_x else None
    kernels["k0_pack"][stream, plan.pack_blocks, plan.pack_key, {"x": io, "x_packed": compute}](
        tensors["x"], tensors["filter"], tensors["bias"], packed, filter_packed, None, plan.pack
    )
    if plan.fused:
        kernels["k12_fused"][stream, plan.conv_blocks, plan.conv_key, {"x_packed": compute, "y": io}](
            x_packed, filter_packed, y, None, plan.conv
        )
        return
    kernels["k1_conv"][stream, plan.conv_blocks, plan.conv_key, {"x_packed": compute}](
        x_packed, filter_packed, tensors["wst"], None, plan.conv
    )
    kernels["k2_tanh"][stream, plan.tanh_blocks, plan.tanh_key, {"y": io}](tensors["wst"], y, None, plan.tanh)
