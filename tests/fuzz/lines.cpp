/// Lines that the reader gets in blocks of 1 to 64 bytes, or as a whole. The sizes of texts,
/// numbers and JSON lines are those of the lines as they were written.
#include <unistd.h>
#include <zstd.h>
#include <cstdlib>
#include <string>

#include "fuzz.h"

namespace {

/// Each block is a frame of Zstandard, and the reader gets the content of one frame at a time.
std::string in_frames(const std::string& content, size_t block) {
    std::string frames;
    for (size_t begin = 0; begin < content.size(); begin += block) {
        const std::string part = content.substr(begin, block);
        std::string frame(ZSTD_compressBound(part.size()), '\0');
        frame.resize(
            ZSTD_compress(frame.data(), frame.size(), part.data(), part.size(), /* level */ 1));
        frames += frame;
    }
    return frames;
}

/// A line with the size of each format that is read: a text, a number, a field of JSON.
std::string line_of(int format, unsigned size, unsigned noise) {
    if (format == 0) return std::string(size, static_cast<char>('a' + noise % 26));
    if (format == 1) return std::to_string(size);
    std::string fields = "\"text\": \"" + std::string(noise, 'x') + "\"";
    const std::string own = "\"size\": " + std::to_string(size);
    fields = noise % 2 == 0 ? fields + ", " + own : own + "," + fields;
    return "{" + fields + "}";
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    static char path[] = "/tmp/sab_fuzz_lines_XXXXXX";
    static const int file = mkstemp(path);
    PROMISE(file >= 0 && ftruncate(file, 0) == 0);
    Input input(data, size);
    const size_t block = input.take<uint8_t>() % 65;
    const int format = input.take<uint8_t>() % 3;
    const auto ends = input.take<uint8_t>();
    std::string content;
    std::vector<unsigned> written;
    while (input.left() > 0) {
        written.push_back(input.take<uint8_t>());
        content += line_of(format, written.back(), input.take<uint8_t>());
        const bool is_last = input.left() == 0;
        if (!is_last || (ends & 1) != 0) content += (ends & 2) != 0 ? "\r\n" : "\n";
    }
    // A last line without a byte and without an end is none.
    if (format == 0 && (ends & 1) == 0 && !written.empty() && written.back() == 0)
        written.pop_back();
    if (block > 0) content = in_frames(content, block);
    PROMISE(pwrite(file, content.data(), content.size(), 0) ==
            static_cast<ssize_t>(content.size()));
    static const char* const formats[] = {"text", "numbers", "jsonl"};
    sab_sizes_file_options options = SAB_SIZES_FILE_OPTIONS_INIT;
    options.format = formats[format];
    options.column = format == 2 ? "size" : nullptr;
    sab_sizes* sizes = nullptr;
    PROMISE(sab_sizes_file_new(path, &options, &sizes) == SAB_OK);
    PROMISE(sab_sizes_count(sizes) == written.size());
    for (size_t i = 0; i < written.size(); ++i) {
        double value = 0;
        PROMISE(sab_sizes_get(sizes, i, 1, &value) == SAB_OK && value == written[i]);
    }
    sab_sizes_free(sizes);
    return 0;
}
