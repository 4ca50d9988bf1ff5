/// JSON lines: sab_sizes_file_new() against simdjson alone: json_lines FILE FIELD. The field is a
/// number. Prints the rates, the least time of interleaved runs.
#include <sab.h>
#include <simdjson.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <limits>

namespace {

constexpr int rounds = 7;

template <class Read>
void measure(Read read, double& least) {
    const auto begin = std::chrono::steady_clock::now();
    read();
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - begin;
    least = std::min(least, passed.count());
}

/// The sum of a field over all documents; the file is read in this time, too.
uint64_t sum_by_dom(const char* path, const char* field) {
    const simdjson::padded_string file = simdjson::padded_string::load(path);
    simdjson::dom::parser parser;
    uint64_t sum = 0;
    for (const auto document : parser.parse_many(file)) sum += uint64_t(document[field]);
    return sum;
}

uint64_t sum_on_demand(const char* path, const char* field) {
    const simdjson::padded_string file = simdjson::padded_string::load(path);
    simdjson::ondemand::parser parser;
    simdjson::ondemand::document_stream documents = parser.iterate_many(file);
    uint64_t sum = 0;
    for (auto document : documents) sum += uint64_t(document[field]);
    return sum;
}

uint64_t sum_by_libsab(const char* path, const char* field) {
    sab_sizes_file_options options = SAB_SIZES_FILE_OPTIONS_INIT;
    options.column = field;
    sab_sizes* sizes = nullptr;
    if (sab_sizes_file_new(path, &options, &sizes) != SAB_OK) {
        std::fprintf(stderr, "%s\n", sab_last_error_message());
        return 0;
    }
    uint64_t sum = 0;
    for (std::size_t i = 0; i < sab_sizes_count(sizes); ++i) {
        double size = 0;
        if (sab_sizes_get(sizes, i, 1, &size) == SAB_OK) sum += static_cast<uint64_t>(size);
    }
    sab_sizes_free(sizes);
    return sum;
}

void read_only(const char* path, const char* field) {
    sab_sizes_file_options options = SAB_SIZES_FILE_OPTIONS_INIT;
    options.column = field;
    sab_sizes* sizes = nullptr;
    if (sab_sizes_file_new(path, &options, &sizes) != SAB_OK)
        std::fprintf(stderr, "%s\n", sab_last_error_message());
    sab_sizes_free(sizes);
}

}  // namespace

int main(int count, char** arguments) {
    if (count != 3) {
        std::fprintf(stderr, "json_lines FILE FIELD\n");
        return 2;
    }
    const char *const path = arguments[1], *const field = arguments[2];
    const uint64_t sum = sum_by_libsab(path, field);
    if (sum == 0 || sum != sum_by_dom(path, field) || sum != sum_on_demand(path, field)) {
        std::fprintf(stderr, "the sums of the field differ\n");
        return 1;
    }
    constexpr double never = std::numeric_limits<double>::infinity();
    double dom = never, on_demand = never, libsab = never;
    for (int round = 0; round < rounds; ++round) {
        measure([&] { sum_by_dom(path, field); }, dom);
        measure([&] { sum_on_demand(path, field); }, on_demand);
        measure([&] { read_only(path, field); }, libsab);
    }
    const double bytes = static_cast<double>(simdjson::padded_string::load(path).value().size());
    std::printf("%-24s %10s\n", "reader", "MB/s");
    std::printf("%-24s %10.0f\n", "simdjson, parse_many", bytes / dom / 1e6);
    std::printf("%-24s %10.0f\n", "simdjson, iterate_many", bytes / on_demand / 1e6);
    std::printf("%-24s %10.0f\n", "sab_sizes_file_new", bytes / libsab / 1e6);
}
