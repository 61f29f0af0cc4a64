"""Makes the modules of the super-resolution sample importable, as they are for its scripts."""

import sys
from pathlib import Path

SAMPLE = Path(__file__).parents[2] / "samples" / "python" / "super_resolution"
sys.path.insert(0, str(SAMPLE))
