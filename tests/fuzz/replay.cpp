/// main() of a fuzz target without libFuzzer: passes the contents of every file of a folder to it.
/// replay FOLDER
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

int main(int argc, char** argv) {
    if (argc != 2) return 2;
    std::vector<std::filesystem::path> files;
    for (const auto& entry : std::filesystem::directory_iterator(argv[1]))
        files.push_back(entry.path());
    std::ranges::sort(files);
    for (const std::filesystem::path& path : files) {
        std::fprintf(stderr, "%s\n", path.c_str());  // the last one is the one that fails
        std::ifstream file(path, std::ios::binary);
        std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
        bytes.shrink_to_fit();  // so that the sanitizer sees what is read behind it
        // libFuzzer gives no null pointer, also for no bytes
        const char* const data = bytes.empty() ? "" : bytes.data();
        LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(data), bytes.size());
    }
    std::printf("%zu passed, 0 failed\n", files.size());
    return files.empty();
}
