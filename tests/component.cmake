# For projects that build the LibTorch component without the core: what the first CMakeLists.txt says
# of versions and of the compiler. Before project(), which takes ${SAB_VERSION}.
file(STRINGS ${CMAKE_CURRENT_LIST_DIR}/../CMakeLists.txt lines REGEX "^(project\\(libsab|set\\(SAB_ABI_MAJOR)")
string(REGEX MATCH "VERSION ([0-9.]+).*SAB_ABI_MAJOR ([0-9]+)" versions "${lines}")
set(SAB_VERSION ${CMAKE_MATCH_1})
set(SAB_ABI_MAJOR ${CMAKE_MATCH_2})
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_C_STANDARD 11)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
