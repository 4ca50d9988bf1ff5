/// create_buckets of bionemo-size-aware-batching 1.0.0, after its documentation.
#include "compat/bionemo_create_buckets.h"

#include "plan/sorted.h"

namespace sab {

std::size_t create_buckets(const Sizes& sizes, int64_t max_width, int64_t min_bucket_count,
                           std::span<int64_t> boundaries, std::span<int64_t> bucket_sizes) {
    check(sizes.is_integer(), "sizes", "a float dtype",
          "must be whole numbers of an integer dtype");
    check(sizes.count() > 0, "sizes.count", sizes.count(), "must be at least 1");
    check(max_width >= 1, "max_width", max_width, "must be at least 1");
    check(min_bucket_count >= 1, "min_bucket_count", min_bucket_count, "must be at least 1");
    const Sorted sorted = sort_by_size(sizes, false, Progress());
    const std::size_t distinct_count = sorted.distinct_sizes.size();
    const auto value = [&](std::size_t distinct) {
        return static_cast<int64_t>(sorted.distinct_sizes[distinct]);
    };

    // Walks the distinct sizes; called once to count the buckets and, when they fit, once to write
    // them.
    const auto walk = [&](bool write) {
        std::size_t bucket = 0;
        int64_t edge = value(0);
        if (write) boundaries[0] = edge;
        for (std::size_t start = 0; start < distinct_count;) {
            std::size_t stop = start;
            int64_t samples = 0;
            const auto grow = [&] {
                samples += sorted.first_offsets[stop + 1] - sorted.first_offsets[stop];
                ++stop;
            };
            if (start > 0) grow();  // the size that closed the bucket before begins this one
            while (stop < distinct_count && samples < min_bucket_count &&
                   value(stop) - edge < max_width)
                grow();
            const int64_t upper =
                stop == distinct_count ? value(distinct_count - 1) + 1 : value(stop);
            // A bucket as wide as may be, and empty ones of that width up to the next size; or one
            // narrower bucket.
            const int64_t full_widths = (upper - edge) / max_width;
            const auto added = static_cast<std::size_t>(full_widths > 0 ? full_widths : 1);
            for (std::size_t i = 0; write && i < added; ++i) {
                bucket_sizes[bucket + i] = i == 0 ? samples : 0;
                boundaries[bucket + i + 1] =
                    full_widths > 0 ? edge + max_width * static_cast<int64_t>(i + 1) : upper;
            }
            bucket += added;
            edge = full_widths > 0 ? edge + max_width * full_widths : upper;
            start = stop;
        }
        return bucket;
    };
    const std::size_t count = walk(false);
    if (count <= bucket_sizes.size()) walk(true);
    return count;
}

}  // namespace sab
