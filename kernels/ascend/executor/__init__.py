"""A NumPy executor for the part of PyPTO Pro that the kernels of this folder use.

It runs the very kernel files where `pypto_pro` is not installed: every core and vector core of the grid, with sections,
tile groups, valid shapes, phases, casts, mutexes and cross-core events, and it fails on what hardware would get wrong:
tiles outside their buffer, misalignment, overlapping live tiles, reads of data that was never written, a buffer used
again while another pipe may still need it, overlapping output of two cores, a wrong order of phases, accesses outside
of GM, negative values of unsigned loop variables, tails without compact.

It is an executor for this subset, not a simulator: it knows nothing of time, of the bits of hardware's exp and division,
nor of operations that the kernels do not use.

    types        data types, enumerations, TileType, unsigned integers
    memory       GM views, on-chip buffers, tiles and tile groups
    ordering     which operation waits for which
    machine      Cube and vector cores, events
    operations   what each operation does and checks
    rounding     casts
    language     the names of pl
    frontend     @pl.jit, TilingKey, the launch
"""

from .frontend import Kernel, load_kernel
from .memory import GlobalBuffer
from .types import BY_NUMPY, ExecutorError

__all__ = ["BY_NUMPY", "ExecutorError", "GlobalBuffer", "Kernel", "load_kernel"]
