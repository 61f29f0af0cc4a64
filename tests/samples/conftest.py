"""Makes the modules of the Python samples importable, as they are for the samples' scripts."""

import sys
from pathlib import Path

SAMPLES = Path(__file__).parents[2] / "samples" / "python"
sys.path[:0] = [str(SAMPLES / sample) for sample in ("generator", "lenet5", "super_resolution")]
