# Builds and runs first.cpp with an installed libsab.
cp "$REPOSITORY"/docs/code/first.cpp .
# [compile]
c++ -std=c++17 first.cpp $(pkg-config --cflags --libs sab) -o first
./first
# [end]
