# Toolchain file: cross-builds for aarch64 (Kunpeng, Graviton, Ampere) with Debian's and Ubuntu's g++-aarch64-linux-gnu.
# Tests run in QEMU's user mode, from qemu-user or qemu-user-static. `make aarch64` uses it.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)

set(CMAKE_FIND_ROOT_PATH /usr/aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)

find_program(MSCT_QEMU_AARCH64 NAMES qemu-aarch64 qemu-aarch64-static)
if(MSCT_QEMU_AARCH64)
  set(CMAKE_CROSSCOMPILING_EMULATOR ${MSCT_QEMU_AARCH64} -L /usr/aarch64-linux-gnu)
endif()
