/// Bytes as a histogram, with the checksum made right so that the deeper checks are reached. What
/// is accepted is written as the same bytes, merges and subtracts, and makes plans whose samples
/// have places, and packings of as many sequences as are in their bins.
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <numeric>

#include "../c/one.h"
#include "fuzz.h"

static constexpr size_t checksum_at = 16, covered_from = 24;

static std::vector<uint8_t> image_of(const sab_histogram* histogram) {
    size_t size = 0, same = 0;
    PROMISE(sab_histogram_write(histogram, nullptr, 0, &size) == SAB_OK);
    std::vector<uint8_t> image(size);
    PROMISE(sab_histogram_write(histogram, image.data(), size, &same) == SAB_OK && same == size);
    return image;
}

/// One to be damaged, of one or two columns.
static std::vector<uint8_t> a_histogram(size_t columns) {
    static const uint8_t numbers[] = {3, 7, 7, 2, 3, 200, 41, 3};
    sab_sizes *column = nullptr, *sizes = nullptr;
    sab_histogram* histogram = nullptr;
    PROMISE(sab_sizes_new(numbers, sizeof numbers, SAB_UINT8, nullptr, &column) == SAB_OK);
    const std::vector<const sab_sizes*> same(columns, column);
    PROMISE(sab_sizes_columns_new(same.data(), nullptr, columns, &sizes) == SAB_OK);
    PROMISE(sab_histogram_new(&histogram) == SAB_OK);
    PROMISE(sab_histogram_add(histogram, sizes, nullptr) == SAB_OK);
    std::vector<uint8_t> image = image_of(histogram);
    sab_histogram_free(histogram);
    sab_sizes_free(sizes);
    sab_sizes_free(column);
    return image;
}

/// Locates the last sample of each size, for which the plan file is read again.
static void plan_of(const sab_histogram* histogram, const sab_histogram_info& info) {
    sab_plan_options options = SAB_PLAN_OPTIONS_INIT;
    SET_BUDGET(options, 1000);
    options.oversize = SAB_OVERSIZE_SKIP;
    if (info.columns == 1) {
        options.bucket_rule = SAB_BUCKETS_OPTIMAL;
        options.bucket_count = 3;
    }
    sab_plan* plan = nullptr;
    if (sab_histogram_plan_new(histogram, &options, &plan) != SAB_OK) return;
    const double* const sizes = info.entry_sizes;
    std::vector<uint64_t> numbers(info.entry_counts, info.entry_counts + info.entries);
    for (uint64_t& number : numbers) --number;
    std::vector<int64_t> found(info.entries);
    sab_places places = SAB_PLACES_INIT;
    places.counts = found.data();
    sab_sampler_options order = SAB_SAMPLER_OPTIONS_INIT;
    order.world_size = 3;
    sab_plan* copy = nullptr;
    PROMISE(sab_plan_copy_new(plan, &copy) == SAB_OK);
    PROMISE(sab_histogram_plan_locate(copy, &order, nullptr, sizes, numbers.data(), nullptr,
                                      info.entries, &places) == SAB_OK);
    for (size_t i = 0; i < info.entries; ++i) {
        const double* const own = sizes + i * info.columns;
        PROMISE(found[i] == (std::accumulate(own, own + info.columns, 0.0) <= 1000 ? 1 : 0));
    }
    sab_plan_free(copy);
    sab_plan_free(plan);
}

static void packing_of(const sab_histogram* histogram) {
    sab_packed_options pack = SAB_PACKED_OPTIONS_INIT;
    pack.capacities = one_count(50), pack.capacity_count = 1;
    pack.split = 1;
    sab_packing* packing = nullptr;
    if (sab_histogram_packing_new(histogram, &pack, &packing) != SAB_OK) return;
    sab_packed_info info = SAB_PACKED_INFO_INIT;
    PROMISE(sab_packing_get_info(packing, &info) == SAB_OK && info.bins >= info.lower_bound);
    size_t count = 0;
    const uint64_t *bins = nullptr, *begins = nullptr;
    const uint32_t* sequences = nullptr;
    PROMISE(sab_packing_get_patterns(packing, &count, &bins, &begins, nullptr, &sequences) ==
            SAB_OK);
    uint64_t in_bins = 0;
    for (size_t i = 0; i < count; ++i)
        for (uint64_t part = begins[i]; part < begins[i + 1]; ++part)
            in_bins += bins[i] * sequences[part];
    PROMISE(in_bins == info.sequences);
    sab_packing_free(packing);
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    // The input is a patch list on a real histogram: (place, byte) pairs; or, with its first bit
    // set, the raw image.
    static const std::vector<uint8_t> made[2] = {a_histogram(1), a_histogram(2)};
    Input input(data, size);
    std::vector<uint8_t> image;
    const auto mode = input.take<uint8_t>();
    if (mode & 1) {
        image.assign(input.data(), input.data() + input.left());
    } else {
        image = made[mode >> 1 & 1];
        while (input.left() > 0) {
            const auto place = input.take<uint16_t>() % image.size();
            image[place] = input.take<uint8_t>();
        }
    }
    if (!(mode & 4) && image.size() > covered_from) {
        const uint64_t checksum =
            XXH3_64bits(image.data() + covered_from, image.size() - covered_from);
        std::memcpy(image.data() + checksum_at, &checksum, sizeof checksum);
    }
    sab_histogram* histogram = nullptr;
    const sab_status status = sab_histogram_bytes_new(image.data(), image.size(), &histogram);
    PROMISE((status == SAB_OK) == (histogram != nullptr) &&
            (status == SAB_OK || status == SAB_E_FORMAT));
    if (status != SAB_OK) return 0;
    PROMISE(image_of(histogram) == image);
    sab_histogram_info info = SAB_HISTOGRAM_INFO_INIT;
    PROMISE(sab_histogram_get_info(histogram, &info) == SAB_OK);
    if (info.sources == 0) plan_of(histogram, info);
    if (info.columns == 1 && info.sources == 0) packing_of(histogram);
    const sab_status merged = sab_histogram_merge(histogram, histogram);
    PROMISE(merged == SAB_OK || 2 * info.samples > std::uint64_t{1} << 48);
    if (merged == SAB_OK) {
        sab_histogram* same = nullptr;
        PROMISE(sab_histogram_bytes_new(image.data(), image.size(), &same) == SAB_OK);
        PROMISE(sab_histogram_subtract(histogram, same) == SAB_OK && image_of(histogram) == image);
        sab_histogram_free(same);
    }
    sab_histogram_free(histogram);
    return 0;
}
