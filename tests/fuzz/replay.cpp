/// The fuzz targets without libFuzzer: passes the contents of every file of a folder to one.
/// sab_replay TARGET FOLDER
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <vector>

// FUZZ_TARGETS is TARGET(name) for each; CMakeLists.txt names each one's function after it.
#define TARGET(name) extern "C" int fuzz_##name(const uint8_t* data, size_t size);
FUZZ_TARGETS
#undef TARGET

int main(int argc, char** argv) {
    using Target = int (*)(const uint8_t*, size_t);
#define TARGET(name) {#name, fuzz_##name},
    const std::map<std::string, Target> targets{FUZZ_TARGETS};
    if (argc != 3 || !targets.contains(argv[1])) return 2;
    const Target target = targets.at(argv[1]);
    std::vector<std::filesystem::path> files;
    for (const auto& entry : std::filesystem::directory_iterator(argv[2]))
        files.push_back(entry.path());
    std::ranges::sort(files);
    for (const std::filesystem::path& path : files) {
        std::fprintf(stderr, "%s\n", path.c_str());  // the last one is the one that fails
        std::ifstream file(path, std::ios::binary);
        std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
        bytes.shrink_to_fit();  // so that the sanitizer sees what is read behind it
        // libFuzzer gives no null pointer, also for no bytes
        const char* const data = bytes.empty() ? "" : bytes.data();
        target(reinterpret_cast<const uint8_t*>(data), bytes.size());
    }
    std::printf("%zu passed, 0 failed\n", files.size());
    return files.empty();
}
