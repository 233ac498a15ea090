# aarch64.cmake - a CMake toolchain that compiles for 64-bit ARM on another machine and runs the tests under qemu-user.
#
#     cmake -B build-aarch64 --toolchain .ci/aarch64.cmake -DCSPEED_CUDA=OFF -DCSPEED_EMULATOR=OFF
#     cmake --build build-aarch64 && ctest --test-dir build-aarch64 -L aarch64
#
# It needs gcc-aarch64-linux-gnu, qemu-user, and the arm64 packages of the libraries (libjansson-dev:arm64 and so on). The
# environment variable CSPEED_AARCH64_ROOT names the folder that holds the usr/ of these packages; by default it is /.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(root "$ENV{CSPEED_AARCH64_ROOT}")
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
set(ENV{PKG_CONFIG_LIBDIR} "${root}/usr/lib/aarch64-linux-gnu/pkgconfig:${root}/usr/share/pkgconfig")
set(ENV{PKG_CONFIG_PATH} "")
set(ENV{PKG_CONFIG_SYSROOT_DIR} "${root}")
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64)
if(root)
  set(CMAKE_SYSROOT "${root}")
  set(libraries "${root}/usr/lib/aarch64-linux-gnu")
  set(CMAKE_EXE_LINKER_FLAGS_INIT "-Wl,-rpath-link,${libraries}:${root}/lib/aarch64-linux-gnu")
  list(APPEND CMAKE_CROSSCOMPILING_EMULATOR -L "${root}" -E "LD_LIBRARY_PATH=${libraries}")
endif()
