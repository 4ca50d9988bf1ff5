# For musl, with a toolchain that goes by the usual names and libraries under a folder of their own:
# cmake -DCMAKE_TOOLCHAIN_FILE=cmake/x86_64-linux-musl.cmake -DCMAKE_FIND_ROOT_PATH=FOLDER. What runs there is tested by tests/packages/musl.sh.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR x86_64)
set(CMAKE_C_COMPILER x86_64-linux-musl-cc)
set(CMAKE_CXX_COMPILER x86_64-linux-musl-c++)
# What this machine has itself is for another C library.
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
