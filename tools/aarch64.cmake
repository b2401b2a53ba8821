# Toolchain: the operators for 64-bit ARM on a Debian machine of another kind; their tests run under qemu.
# Packages: gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64 -L /usr/aarch64-linux-gnu)
