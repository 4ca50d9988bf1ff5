#include "plan/plan_rules.h"

#include <algorithm>
#include <cmath>

namespace sab {

AutomaticRange automatic_range(const PlanOptions& options, uint64_t lower_bound, uint64_t samples) {
    // With 16 batches in a bucket two batch mates meet again in about 1 of 16 epochs, with 4 in 1
    // of 4. A small epoch has no room for that.
    const uint64_t room = std::max<uint64_t>(lower_bound / 16, 1);
    // Buckets are never kept small where there would be millions of them. All of them are in memory
    // and are read before the first batch of a saved plan.
    const uint64_t least = lower_bound >> 16;
    // No plan has more batches than samples.
    const uint64_t given = std::min(options.bucket_batches, samples);
    return given > 0 ? AutomaticRange{given, given}
                     : AutomaticRange{std::max(least, std::min<uint64_t>(room, 4)),
                                      std::max(least, std::min<uint64_t>(room, 16))};
}

double overhead(const Waste& waste, uint64_t lower_bound, bool has_budget) {
    const auto bound = static_cast<double>(lower_bound);
    const double over = (static_cast<double>(waste.batches) - bound) / bound;
    return std::max(waste.share(), has_budget ? over : 0);
}

uint64_t bound_of(double batches) {
    return static_cast<uint64_t>(std::ceil(batches - 1e-9 * batches));
}

PlanFacts facts_of(const BatchSizes& batch_sizes, uint64_t samples) {
    const PlanOptions& options = batch_sizes.options();
    PlanFacts facts{};
    facts.samples = samples;
    facts.length_multiples = options.length_multiples;
    facts.tail = options.tail;
    facts.pads_to_bucket = options.has_few_shapes();
    facts.bucket_rule = options.bucket_rule;
    facts.columns = static_cast<uint32_t>(batch_sizes.columns());
    facts.has_ids = options.has_ids;
    facts.min_batch_size = options.min_batch_size;
    return facts;
}

bool are_whole(std::span<const double> distinct_sizes, double total) {
    return total <= largest_size && std::ranges::all_of(distinct_sizes, [](double size) {
               return size == std::floor(size);
           });
}

void set_batches(Bucket& bucket, uint64_t size, sab_tail tail) {
    const uint64_t samples = bucket.samples();
    // Filled up from itself, a bucket of fewer samples than a batch would show them many times
    // over.
    bucket.batch_size = tail == SAB_TAIL_WRAP ? std::clamp<uint64_t>(samples, 1, size) : size;
    const uint64_t rest = tail == SAB_TAIL_DROP ? 0 : bucket.batch_size - 1;
    bucket.batches = (samples + rest) / bucket.batch_size;
}

std::vector<HeldPart> parts_for_fewest(uint64_t samples, uint64_t batch_size,
                                       const PlanOptions& options) {
    const uint64_t fewest = options.min_batch_size, full = samples / batch_size,
                   tail = samples % batch_size;
    if (batch_size < fewest) return {{samples, 0}};  // of a box, each long in another column
    const bool is_kept = options.keeps_tail() || full == 0;
    if (tail == 0 || tail >= fewest || !is_kept) return {{samples, batch_size}};
    // As many batches as before, the last ones of which share their samples evenly.
    const uint64_t spare = batch_size - fewest,
                   others = spare == 0 ? full + 1 : (fewest - tail + spare - 1) / spare;
    if (others > full) return {{tail, 0}, {samples - tail, batch_size}};
    const uint64_t shared = others * batch_size + tail, even = shared / (others + 1),
                   larger = shared % (others + 1);
    return {{(others + 1 - larger) * even, even},
            {larger * (even + 1), even + 1},
            {samples - shared, batch_size}};
}

std::size_t fewest_shapes(const PlanOptions& options, bool has_inside, bool has_singles) {
    const std::size_t inside = options.keeps_tail() ? 2 : 1;
    return (has_inside ? inside : 0) + (has_singles ? 1 : 0);
}

std::size_t most_shapes(std::size_t limit, std::size_t fewest, std::size_t lengths) {
    constexpr std::size_t most = 1024;
    if (limit > 0) check_shapes(limit, fewest);
    return std::max(fewest, std::min(limit > 0 ? limit : most, fewest - 1 + lengths));
}

void check_shapes(std::size_t shapes, std::size_t fewest) {
    check(shapes >= fewest, "options.max_shapes", shapes, "must be at least ", fewest,
          ": one for full batches, one for the tail of the shortest samples where it is kept, "
          "and one for samples over the budget where each is a batch");
}

void refuse_oversize(const Outside& outside, const BatchSizes& batch_sizes) {
    const std::vector<PerColumn>& boundaries = batch_sizes.options().boundaries;
    std::string rule;
    if (outside.is_over_budget)
        rule = text("must cost at most ",
                    batch_sizes.exceeded(first_of(outside.padded, batch_sizes.columns())),
                    ", in a batch of one");
    else if (batch_sizes.columns() > 1)
        rule = "must be below one of the boundaries in each column, and at least the first";
    else
        rule = text("must be at least the first boundary, ", boundaries.front()[0],
                    ", and below the last, ", boundaries.back()[0]);
    refuse_argument(
        outside.first, rule, "; ", outside.samples, " of ", outside.of, " samples are ",
        boundaries.empty() ? "over the budget" : "outside the boundaries or over the budget",
        ". Set options.oversize to SAB_OVERSIZE_SKIP (1)",
        outside.have_indices ? " or SAB_OVERSIZE_SINGLE (2)" : "",
        boundaries.empty() ? ", or use a larger budget"
                           : ", or use other boundaries or a larger budget");
}

void refuse_all(uint64_t samples, const BatchSizes& batch_sizes, const std::string& smallest) {
    const bool has_boundaries = !batch_sizes.options().boundaries.empty();
    refuse_argument(
        "sizes", no_value, "no sample is left: all ", samples,
        has_boundaries ? " are outside the boundaries or over the " : " are over the ",
        batch_sizes.limits(), smallest.empty() ? "" : ", also the smallest, ",
        std::string_view(smallest),
        has_boundaries ? "; use other boundaries or a larger budget" : "; use a larger budget");
}

void refuse_fewest(uint64_t samples, const PlanOptions& options) {
    refuse_argument("options.min_batch_size", options.min_batch_size,
                    "no batch has so many of the ", samples,
                    " samples; use a smaller one or a larger budget");
}

}  // namespace sab
