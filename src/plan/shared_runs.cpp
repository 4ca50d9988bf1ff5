#include "plan/shared_runs.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace sab {
namespace {

/// Given boundaries say which sizes a bucket has.
bool are_exchanged(const PlanFacts& facts) {
    return facts.bucket_rule != SAB_BUCKETS_BOUNDARIES;
}

/// A field of the lengths of a bucket, in each column.
double* field_of(PlanBuckets& made, std::size_t bucket, std::size_t field, std::size_t columns) {
    return made.lengths.data() + (bucket * BucketLengths::fields + field) * columns;
}

/// Samples of the sizes from `least` to `most` in a column may be in the bucket.
void widen(PlanBuckets& made, std::size_t bucket, std::size_t column, std::size_t columns,
           double least, double most) {
    for (const std::size_t field : {0, 2}) {  // lower, shortest
        double& known = field_of(made, bucket, field, columns)[column];
        known = std::min(known, least);
    }
    for (const std::size_t field : {1, 3}) {  // upper, longest
        double& known = field_of(made, bucket, field, columns)[column];
        known = std::max(known, most);
    }
}

/// The class of each point: samples with the same id whose sizes are padded to the same lengths.
std::vector<uint32_t> size_classes(const CodedSamples& samples) {
    const Points& points = samples.points();
    const std::size_t columns = points.columns;
    std::vector<uint32_t> classes(points.size());
    std::iota(classes.begin(), classes.end(), 0u);
    const PerColumn& multiples = samples.options().length_multiples;
    if (std::none_of(multiples.begin(), multiples.begin() + static_cast<std::ptrdiff_t>(columns),
                     [](double multiple) { return multiple > 0; }))
        return classes;
    std::vector<std::vector<uint32_t>> padded(columns);  // a number for each size
    for (std::size_t j = 0; j < columns; ++j) {
        const std::span<const double> sizes = samples.distinct()[j];
        padded[j].resize(sizes.size());
        for (std::size_t i = 1; i < sizes.size(); ++i)
            padded[j][i] = padded[j][i - 1] + (samples.batch_sizes().padded(sizes[i], j) !=
                                               samples.batch_sizes().padded(sizes[i - 1], j));
    }
    const auto compare = [&](uint32_t a, uint32_t b) {
        for (std::size_t j = 0; j < columns; ++j) {
            const uint32_t of_a = padded[j][points.codes[a * columns + j]],
                           of_b = padded[j][points.codes[b * columns + j]];
            if (of_a != of_b) return of_a < of_b ? -1 : 1;
        }
        return 0;
    };
    for (std::size_t id = 0; id < points.ids.size(); ++id) {
        const uint32_t first = points.first_points[id], last = points.first_points[id + 1];
        std::vector<uint32_t> sorted(last - first);
        std::iota(sorted.begin(), sorted.end(), first);
        std::ranges::sort(sorted, [&](uint32_t a, uint32_t b) { return compare(a, b) < 0; });
        for (std::size_t i = 1; i < sorted.size(); ++i)
            if (compare(sorted[i - 1], sorted[i]) == 0) classes[sorted[i]] = classes[sorted[i - 1]];
    }
    return classes;
}

}  // namespace

std::vector<SharedRun> runs_across(const SizeCounts& counts, std::span<const uint64_t> borders,
                                   const std::function<double(double)>& padded) {
    const std::span<const double> sizes = counts.distinct_sizes;
    std::vector<SharedRun> runs;
    std::size_t high = 0;  // the first distinct size above those of the class at the border
    uint64_t begin = 0, end = 0;
    for (std::size_t i = 1; i + 1 < borders.size(); ++i) {
        const std::size_t at = counts.distinct_at(borders[i]);
        if (at >= high) {
            std::size_t low = at;
            const double length = padded(sizes[at]);
            while (low > 0 && padded(sizes[low - 1]) == length) --low;
            for (high = at + 1; high < sizes.size() && padded(sizes[high]) == length;) ++high;
            // What lies outside the buckets is not exchanged.
            begin = std::max(borders.front(), counts.first_places[low]);
            end = std::min(borders.back(), counts.first_places[high]);
        }
        // A class may also begin at the border.
        if (begin < borders[i] && (runs.empty() || runs.back().begin != begin))
            runs.push_back({begin, end, runs.size()});
    }
    return runs;
}

void share_runs(const SizeCounts& counts, const BatchSizes& batch_sizes, const PlanFacts& facts,
                PlanBuckets& made) {
    if (!are_exchanged(facts)) return;
    std::vector<std::size_t> filled;
    for (std::size_t b = 0; b < made.buckets.size(); ++b)
        if (made.buckets[b].samples() > 0) filled.push_back(b);
    std::ranges::sort(filled, {}, [&](std::size_t b) { return made.buckets[b].begin; });
    std::vector<uint64_t> borders;
    borders.reserve(filled.size() + 1);
    for (const std::size_t b : filled) borders.push_back(made.buckets[b].begin);
    borders.push_back(made.buckets[filled.back()].end);
    made.shared_runs =
        runs_across(counts, borders, [&](double size) { return batch_sizes.padded(size, 0); });
    std::size_t next = 0;
    for (const SharedRun& run : made.shared_runs) {
        const std::size_t first = counts.distinct_at(run.begin),
                          last = counts.distinct_at(run.end - 1);
        while (made.buckets[filled[next]].end <= run.begin) ++next;
        for (std::size_t i = next; i < filled.size(); ++i) {
            Bucket& bucket = made.buckets[filled[i]];
            if (bucket.begin >= run.end) break;
            bucket.distinct_begin = std::min(bucket.distinct_begin, static_cast<uint32_t>(first));
            bucket.distinct_end = std::max(bucket.distinct_end, static_cast<uint32_t>(last) + 1);
            widen(made, filled[i], 0, 1, counts.distinct_sizes[first], counts.distinct_sizes[last]);
        }
    }
}

void share_runs(const CodedSamples& samples, std::span<const Draft> drafts, PlanArrays& arrays) {
    if (!are_exchanged(arrays.facts)) return;
    const Points& points = samples.points();
    const std::size_t columns = points.columns;
    const std::vector<uint32_t> classes = size_classes(samples);
    constexpr uint32_t none = ~uint32_t{0}, several = none - 1;
    // of a class: its bucket, or that it lies in several
    std::vector<uint32_t> bucket_of(points.size(), none);
    std::vector<uint32_t> class_of;  // of each stretch of each bucket
    for (uint32_t b = 0; b < drafts.size(); ++b)
        for (const Stretch& stretch : drafts[b].stretches) {
            const uint32_t own = classes[samples.point_at(stretch.first)];
            class_of.push_back(own);
            if (stretch.count > 0)
                bucket_of[own] = bucket_of[own] == none || bucket_of[own] == b ? b : several;
        }
    struct Extremes {
        PerColumn least, most;
    };
    std::vector<Extremes> sizes;  // of the shared classes
    std::vector<uint32_t> number(points.size(), none);
    const auto each_shared = [&](auto&& visit) {
        std::size_t next = 0;
        uint64_t place = 0;
        for (std::size_t b = 0; b < drafts.size(); ++b)
            for (const Stretch& stretch : drafts[b].stretches) {
                const uint32_t own = class_of[next++];
                if (stretch.count > 0 && bucket_of[own] == several)
                    visit(b, stretch, place, number[own]);
                place += stretch.count;
            }
    };
    each_shared([&](std::size_t, const Stretch& stretch, uint64_t place, uint32_t& own) {
        const PerColumn here = samples.sizes_of(samples.point_at(stretch.first));
        if (own == none) {
            own = static_cast<uint32_t>(sizes.size());
            sizes.push_back({here, here});
        }
        for (std::size_t j = 0; j < columns; ++j) {
            sizes[own].least[j] = std::min(sizes[own].least[j], here[j]);
            sizes[own].most[j] = std::max(sizes[own].most[j], here[j]);
        }
        std::vector<SharedRun>& runs = arrays.shared_runs;
        if (!runs.empty() && runs.back().end == place && runs.back().size_class == own)
            runs.back().end += stretch.count;
        else
            runs.push_back({place, place + stretch.count, own});
    });
    each_shared([&](std::size_t b, const Stretch&, uint64_t, uint32_t own) {
        for (std::size_t j = 0; j < columns; ++j)
            widen(arrays, b, j, columns, sizes[own].least[j], sizes[own].most[j]);
    });
}

}  // namespace sab
