"""The sources of the CANN operator project."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "aclnn/ascend"
OWN = sorted(FOLDER.rglob("*.cpp"))
# Those of the CPU library that its CMakeLists.txt adds.
SHARED = sorted(
    ROOT / name for name in set(re.findall(r"\$\{CONV_TANH_ROOT\}/(\S+\.cc)", (FOLDER / "CMakeLists.txt").read_text()))
)
