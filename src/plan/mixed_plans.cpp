#include "plan/mixed_plans.h"

#include <algorithm>

#include "base/hasher.h"
#include "plan/points.h"

namespace sab {
namespace {

/// The shapes of those ids that the samples of an epoch have.
std::vector<std::size_t> shapes_of(std::span<const std::size_t> shapes,
                                   std::span<const int64_t> all_ids, std::span<const int64_t> ids) {
    if (shapes.empty()) return {};
    const std::vector<int64_t> all = ids_in_order(all_ids), here = ids_in_order(ids);
    check(shapes.size() == all.size(), "options.max_shape_count", shapes.size(),
          "must be the number of ids, ", all.size());
    std::vector<std::size_t> found;
    for (std::size_t i = 0; i < all.size(); ++i)
        if (std::ranges::binary_search(here, all[i])) found.push_back(shapes[i]);
    return found;
}

}  // namespace

SortedMixture::SortedMixture(const Columns& sizes)
    : sorted_(sort_by_size(sizes[0], true, Progress(nullptr, nullptr), sizes.described(0))) {
    const std::span<const uint16_t> source_of = sizes.choice()->source_of();
    const std::vector<uint32_t> places = sizes.choice()->places();
    source_of_.resize(sorted_.count);
    places_.resize(sorted_.count);
    for (std::size_t i = 0; i < sorted_.count; ++i) {
        source_of_[i] = source_of[sorted_.order[i]];
        places_[i] = places[sorted_.order[i]];
    }
}

std::vector<SortedMixture::Window> SortedMixture::windows_of(std::span<const SourceTurns> turns) {
    std::vector<Window> windows;
    windows.reserve(turns.size());
    for (const SourceTurns& of : turns) {
        // If the turns go on at the first place, those before `start` that have none are left out.
        const bool goes_on = of.extra > of.count - of.start;
        windows.push_back({of.least, of.start, goes_on ? of.extra - of.count : of.extra});
    }
    return windows;
}

Sorted SortedMixture::counted(std::span<const SourceTurns> turns) const {
    const std::vector<Window> windows = windows_of(turns);
    Sorted counted;
    for (std::size_t k = 0; k < sorted_.distinct_sizes.size(); ++k) {
        std::size_t here = 0;
        for (uint32_t i = sorted_.first_offsets[k]; i < sorted_.first_offsets[k + 1]; ++i)
            here += windows[source_of_[i]].turns(places_[i]);
        if (here == 0) continue;
        counted.distinct_sizes.push_back(sorted_.distinct_sizes[k]);
        counted.first_offsets.push_back(static_cast<uint32_t>(counted.count));
        counted.count += here;
    }
    counted.first_offsets.push_back(static_cast<uint32_t>(counted.count));
    return counted;
}

MixedPlans::MixedPlans(Columns sizes, PlanOptions options, std::vector<int64_t> ids)
    : sizes_(std::move(sizes)),
      options_(std::move(options)),
      ids_(std::move(ids)),
      can_sort_(sizes_.size() == 1 && !options_.has_ids) {
    options_.check_kept_costs();
    options_.has_one_set = true;
    refuse_oversize();
    first_ = can_sort_ ? make_first() : made_of(sizes_.choice()->samples(0)).plan;
    options_.progress = {};  // of this call
}

/// A later epoch may take samples that are too large, or need more shapes: it is refused now.
void MixedPlans::refuse_oversize() const {
    if (options_.oversize == SAB_OVERSIZE_ERROR
            ? is_oversize_possible()
            : options_.has_singles() && options_.has_few_shapes())
        made_of(sizes_.choice()->possible_samples());
}

/// Whether the smallest or the largest sample that any epoch may have cannot be in a plan.
bool MixedPlans::is_oversize_possible() const {
    if (!can_sort_) return true;
    const auto [least, most] = sizes_.choice()->extremes();
    Sorted both;
    both.distinct_sizes = {least};
    if (most > least) both.distinct_sizes.push_back(most);
    both.count = both.distinct_sizes.size();
    for (uint32_t i = 0; i <= both.count; ++i) both.first_offsets.push_back(i);
    try {
        Plan::make_sorted(std::move(both), options_, sizes_.names()[0]);
        return false;
    } catch (const Error&) {
        return true;  // or two samples are too few for the options
    }
}

const SortedMixture& MixedPlans::sorted() const {
    return sorted_.get([&] { return std::make_unique<const SortedMixture>(sizes_); });
}

std::shared_ptr<const Plan> MixedPlans::make_unordered(std::span<const SourceTurns> turns) const {
    return Plan::make_sorted(sorted().counted(turns), options_, sizes_.names()[0]);
}

/// Sorts only where counting will not do: samplers may never be made.
std::shared_ptr<const Plan> MixedPlans::make_first() const {
    std::optional<Sorted> counted =
        count_by_size(sizes_[0], choice()->turns(0), choice()->source_of(), sizes_.described(0));
    if (!counted) counted = sorted().counted(choice()->source_turns(0));
    return Plan::make_sorted(std::move(*counted), options_, sizes_.names()[0]);
}

MixedPlans::OfEpoch MixedPlans::made_of(std::vector<uint32_t> samples) const {
    std::vector<int64_t> ids(options_.has_ids ? samples.size() : 0);
    for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = ids_[samples[i]];
    PlanOptions options = options_;
    options.id_shapes = shapes_of(options_.id_shapes, ids_, ids);
    auto plan = Plan::make(sizes_.of_samples(samples), options, ids);
    return {std::make_shared<const std::vector<uint32_t>>(std::move(samples)), std::move(plan)};
}

MixedPlans::OfEpoch MixedPlans::make(uint64_t epoch) const {
    return made_of(sizes_.choice()->samples(epoch));
}

std::size_t MixedPlans::skipped(uint64_t epoch, std::span<int64_t> room) const {
    if (first_->facts().skipped == 0 && sizes_.choice()->are_alike(epoch, 0)) return 0;
    const OfEpoch made = make(epoch);
    const std::size_t count = made.plan->skipped(room);
    for (int64_t& index : room.first(std::min(count, room.size())))
        index = (*made.samples)[static_cast<std::size_t>(index)];
    return count;
}

uint64_t MixedPlans::fingerprint() const {
    Hasher hasher;
    hasher.add(first_->fingerprint());
    hasher.add(sizes_.choice()->fingerprint());
    return hasher.digest();
}

}  // namespace sab
