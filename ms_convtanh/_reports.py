"""What runs here, and how a problem would run: data about the library."""

import ctypes
import os
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import metadata
from typing import Any

import numpy as np

from ms_convtanh import _library
from ms_convtanh._library import OPERATOR
from ms_convtanh._problem import Attributes, Ints, check_dtype, plan_of, to_ints


@dataclass(frozen=True)
class Features:
    """What the library found and chose. Lists are best first."""

    detected: tuple[str, ...]  # variants that this CPU and operating system can run
    allowed: tuple[str, ...]  # those of them below the ceiling
    built: tuple[str, ...]  # variants in the library
    k1: str  # the convolution variant that a large float32 problem gets
    k2: str  # the tanh variant likewise
    max_isa: str  # the ceiling in force, "" if none
    fusion: str  # auto, half or true
    threads: int  # that a large problem gets
    library: str  # path
    version: str  # of this package
    compiler: str  # that built the library
    cpu: str  # model, as the system names it
    tuning: str  # path of the tuning file in force, "" if none
    numpy: str  # version
    mindspore: str | None  # version, None if it is not installed


@dataclass(frozen=True)
class Candidate:
    """A way to compute a convolution, and what it is estimated to take."""

    k1: str  # convolution variant
    products: int  # of bfloat16 terms for each product of x and filter, in amx; 1 elsewhere
    folded_taps: int  # that fill the reduction of a tile where input channels are few, 1 if none do
    spread_taps: int  # that fill the rows of a tile where output channels are few, 1 if none do
    winograd: bool  # tiles of 2x2 outputs are computed from 16 products for each input channel, not from 36
    microseconds: float  # estimate, for one image on one thread, without tanh

    def __str__(self) -> str:
        details = [
            f"{number} {what}"
            for number, what in (
                (self.products, "products"),
                (self.folded_taps, "folded taps"),
                (self.spread_taps, "spread taps"),
            )
            if number > 1
        ]
        if self.winograd:
            details.append("Winograd")
        how = f" ({', '.join(details)})" if details else ""
        digits = 0 if self.microseconds >= 100 else 2
        return f"{self.k1}{how} {self.microseconds:.{digits}f} us"


@dataclass(frozen=True)
class Plan:
    """How a problem would run."""

    k1: str  # convolution variant
    k2: str  # tanh variant
    fusion: str  # half: tanh after the whole convolution; true: on each block in cache
    direct: bool  # whether the convolution reads x in place where it can
    tile_rows: int  # output rows in a block
    tile_cols: int  # output columns in a block
    tile_co: int  # output channels in a block
    tile_ci: int  # input channels in a step of the reduction
    threads: int
    workspace_bytes: int
    candidates: tuple[Candidate, ...]  # for the convolution, cheapest first; the first one is what the plan takes


def _installed_version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def features() -> Features:
    """Detected, allowed and chosen kernel variants, threads, library path and versions. Does not import MindSpore.

    Raises:
        ValueError: An environment variable of the library has an unknown value.
    """
    info = _library.Info()
    _library.raise_for_status(_library.load().msctGetInfo(ctypes.byref(info)), "features")

    def words(text: bytes) -> tuple[str, ...]:
        return tuple(word for word in text.decode().split(",") if word)

    return Features(
        detected=words(info.detected),
        allowed=words(info.allowed),
        built=words(info.built),
        k1=info.k1.decode(),
        k2=info.k2.decode(),
        max_isa=info.max_isa.decode(),
        fusion=info.fusion.decode(),
        threads=info.threads,
        library=str(_library.PATH),
        version=_library.version(),
        compiler=info.compiler.decode(),
        cpu=_library.load().msctGetCpuModel().decode(errors="replace"),
        tuning=os.fsdecode(info.tuning),
        numpy=np.__version__,
        mindspore=_installed_version("mindspore"),
    )


def _dtype_name(dtype: Any) -> str:
    if isinstance(dtype, str):
        return dtype
    try:
        if dtype is None:  # which NumPy takes for float64
            raise TypeError
        return np.dtype(dtype).name
    except TypeError:
        raise TypeError(f"{OPERATOR}: dtype must be a name or a NumPy dtype, got {dtype!r}") from None


def explain(
    x_shape: Sequence[int],
    filter_shape: Sequence[int],
    dtype: Any = "float32",
    bias: bool = True,
    strides: Ints = (1, 1),
    pads: Ints = (0, 0, 0, 0),
    dilations: Ints = (1, 1),
    groups: int = 1,
) -> Plan:
    """The plan of a problem. Nothing is computed.

    Args:
        x_shape: (N, Cin, H, W) or (N, Cin, L).
        filter_shape: (Cout, Cin / groups, KH, KW) or (Cout, Cin / groups, K).
        dtype: float32, float16 or bfloat16, by name or as a NumPy dtype.
        bias: Whether there is a bias of shape (Cout,).
        strides, pads, dilations, groups: As for `ms_convtanh.native.fused_conv_tanh`.

    Raises:
        TypeError: Another dtype, or sizes that are not ints.
        ValueError: What the operator would refuse.
    """
    name = check_dtype({"x": _dtype_name(dtype)})
    x, conv_filter = to_ints("x_shape", x_shape), to_ints("filter_shape", filter_shape)
    attributes = Attributes.of(len(conv_filter), strides, pads, dilations, groups)
    if bias and not conv_filter:
        raise ValueError(f"{OPERATOR}: filter must be 3- or 4-dimensional, got shape []")
    plan = plan_of(name, x, conv_filter, conv_filter[:1] if bias else None, attributes)
    return Plan(
        k1=plan.k1.decode(),
        k2=plan.k2.decode(),
        fusion=plan.fusion.decode(),
        direct=bool(plan.direct),
        tile_rows=plan.tile_rows,
        tile_cols=plan.tile_cols,
        tile_co=plan.tile_co,
        tile_ci=plan.tile_ci,
        threads=plan.threads,
        workspace_bytes=plan.workspace_bytes,
        candidates=tuple(
            Candidate(c.k1.decode(), c.products, c.folded_taps, c.spread_taps, bool(c.winograd), c.microseconds)
            for c in plan.candidates[: plan.candidate_count]
        ),
    )
