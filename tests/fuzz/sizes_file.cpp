/// Bytes as a file of each format that sab_sizes_file_new() reads: the first byte selects it.
#include <unistd.h>
#include <cstdlib>
#include <string>

#include "fuzz.h"

namespace {

struct Target {
    const char* format;  // nullptr: detected
    const char* column;
    std::string begin;  // makes most inputs interesting
};

const Target& target_of(uint8_t selector) {
    static const std::string version("\1\0\0\0\0\0\0\0", 8);
    static const std::string mapped = std::string("MMIDIDX\0\0", 9) + version + "\4";
    static const Target targets[] = {{nullptr, nullptr, ""},
                                     {"npy", nullptr, std::string("\x93NUMPY\1\0\x3A\0{", 11)},
                                     {"megatron", nullptr, mapped},
                                     {"fairseq", nullptr, mapped},
                                     {"fairseq", nullptr, std::string("TNTIDX\0\0", 8) + version},
                                     {"datatrove", nullptr, ""},
                                     {"jsonl", "a", "{\"a\": 1}\n{\"a\":"},
                                     {"jsonl", "a.b", "{\"a\": {\"b\": \"t\"}}\n{\"a\":"},
                                     {"numbers", nullptr, "1\n2.5\n"},
                                     {"text", nullptr, "a b\n"},
                                     {"kaldi", nullptr, "a 1\nb 2.5\n"},
                                     {"fasta", nullptr, ">a\nACGT\n"}};
    return targets[selector % (sizeof targets / sizeof *targets)];
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    static char path[] = "/tmp/sab_fuzz_sizes_XXXXXX";
    static const int file = mkstemp(path);
    PROMISE(file >= 0 && ftruncate(file, 0) == 0);
    Input input(data, size);
    const Target& target = target_of(input.take<uint8_t>());
    const auto flags = input.take<uint8_t>();
    std::string bytes = (flags & 1) != 0 ? "" : target.begin;
    bytes.append(reinterpret_cast<const char*>(input.data()), input.left());
    PROMISE(pwrite(file, bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()));
    sab_sizes_file_options options = SAB_SIZES_FILE_OPTIONS_INIT;
    options.format = target.format;
    options.column = target.column;
    const sab_text_unit units[] = {SAB_TEXT_BYTES, SAB_TEXT_WORDS, SAB_TEXT_VALUE,
                                   SAB_TEXT_ALL_BYTES};
    options.text_unit = units[(flags >> 1 & 1) + (flags >> 3 & 2)];
    options.missing = flags >> 2 & 1;
    options.nulls = flags >> 3 & 1;
    options.copy = flags >> 5 & 1;
    sab_sizes* sizes = nullptr;
    const sab_status status = sab_sizes_file_new(path, &options, &sizes);
    // No column is given, all texts of a field are numbers, or options that the format does not
    // use.
    const bool may_refuse =
        (target.format == nullptr || target.column != nullptr ||
         options.text_unit != SAB_TEXT_BYTES || options.missing != 0 || options.nulls != 0) &&
        status == SAB_E_ARGUMENT;
    PROMISE(status == SAB_OK ? sizes != nullptr
                             : sizes == nullptr && (status == SAB_E_FORMAT || may_refuse));
    // Every size was checked but those of .npy files.
    double value = 0;
    sab_sizes_info info = SAB_SIZES_INFO_INIT;
    PROMISE(sizes == nullptr || sab_sizes_get_info(sizes, &info) == SAB_OK);
    const bool is_npy = sizes != nullptr && std::strncmp(info.description, "NumPy", 5) == 0;
    for (size_t i = 0; i < sab_sizes_count(sizes) && i < 100; ++i) {
        const sab_status read = sab_sizes_get(sizes, i, 1, &value);
        PROMISE(is_npy || (read == SAB_OK && value >= 0));
    }
    sab_sizes_free(sizes);
    return 0;
}
