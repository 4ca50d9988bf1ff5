#include "balance/step_cuts.h"

#include <algorithm>

#include "balance/partition.h"
#include "base/hasher.h"
#include "sampler/state.h"

namespace sab {
namespace {

constexpr double heavy_share = 1.0 / 8;  // of a micro-batch's mean cost

}  // namespace

StepRules::StepRules(const sab_balanced_options& balanced, const SamplerOptions& own)
    : options(own), samples(balanced.samples), fill(balanced.fill) {
    check(own.world_size <= most_parts / own.micro_batches, "options.world_size", own.world_size,
          "times options.micro_batches = ", own.micro_batches, " must be at most ", most_parts);
    check(fill > 0 && fill <= 1, "balanced.fill", fill, "must be above 0 and at most 1");
    check(balanced.oversize == SAB_OVERSIZE_SKIP || balanced.oversize == SAB_OVERSIZE_ERROR,
          "balanced.oversize", balanced.oversize,
          "must be SAB_OVERSIZE_ERROR (0) or SAB_OVERSIZE_SKIP (1)");
    if (samples == 0 && balanced.budget_count == 0)
        refuse_argument("balanced.samples", "0", "samples of a step, or a budget, must be given");
    check(samples == 0 || samples >= parts(), "balanced.samples", samples,
          "must be at least the number of micro-batches of a step, ", parts());
}

/// Samples that cost so much that they must come in cohorts are heavy.
UnitCounts StepRules::unit_counts(const WeighedSamples& all, bool is_mixture) const {
    const uint64_t cohort = parts();
    UnitCounts counts{cohort, 0, all.end};
    if (cohort == 1) return counts;
    double step_samples = static_cast<double>(samples);
    for (std::size_t i = 0; i < all.capacities.size(); ++i) {
        if (all.mean_weight[i] == 0) continue;
        const double fitting = room(all, i) / all.mean_weight[i];
        step_samples = step_samples > 0 ? std::min(step_samples, fitting) : fitting;
    }
    if (step_samples == 0)
        step_samples = static_cast<double>(all.kept);  // samples that take no room
    PerBudget mean{};                                  // of a micro-batch
    for (std::size_t k = 0; k < all.balances; ++k)
        mean[k] = all.mean_cost[k] * step_samples / static_cast<double>(cohort);
    // Of the distinct sizes the first one that costs more than this share of a micro-batch.
    const auto first_above = [&](double share) {
        std::size_t distinct = 0;
        const auto is_above = [&] {
            const double* const costs = all.costs.data() + distinct * all.balances;
            for (std::size_t k = 0; k < all.balances; ++k)
                if (costs[k] > share * mean[k]) return !all.is_left_out[distinct];
            return false;
        };
        while (distinct < all.extents.size() && !is_above()) ++distinct;
        return distinct;
    };
    // A cohort leads the sources of a mixture away from their dues. It has to where a sample costs
    // more than a full micro-batch of others: only ranks that all have one are even then.
    if (is_mixture && first_above((1 + rounding_of_sums) / fill) == all.extents.size())
        return counts;
    const uint64_t offset = all.first_offsets[first_above(heavy_share)];
    if (offset < all.end) counts.heavy = (all.end - offset) / cohort * cohort;
    return counts;
}

uint64_t StepRules::hash(const WeighedSamples& all) const {
    Hasher hash;
    for (const uint64_t number : {options.world_size, options.micro_batches, samples, all.kept})
        hash.add(number);
    hash.add(fill);
    for (const auto* numbers : {&all.capacities, &all.costs, &all.weights})
        hash.add_all(std::span(*numbers));
    return hash.digest();
}

StepCuts::StepCuts(const StepRules& rules, std::shared_ptr<const WeighedSamples> samples,
                   const EpochChoice* choice, uint64_t epoch, const UnitCounts& counts)
    : rules_(rules),
      samples_(std::move(samples)),
      epoch_(epoch),
      counts_(counts),
      order_(samples_, counts, rules.options.seed, epoch, choice) {}

/// All steps from a position on.
void StepCuts::cut(UnitPosition first, const Progress& progress) {
    const sab_last_step last_step = rules_.options.last_step;
    const uint64_t end = order_.units();
    check_consistent(first.offset == 0 ||
                     first.offset < order_.samples_of(order_.at(first.unit % end)));
    starts_.assign(1, first);
    sums_ = {};
    while (starts_.back().unit < end) {
        const Cut step = next_step(starts_.back());
        const bool is_short_last = step.end.unit >= end && !step.is_full;
        if (step.end.unit >= end && offsets_.empty()) break;
        if (is_short_last && last_step == SAB_LAST_STEP_DROP) break;
        starts_.push_back(step.end);
        add_to_sums();
        if (starts_.size() % 64 == 0) progress.report(std::min(step.end.unit, end), end);
        if (is_short_last && last_step == SAB_LAST_STEP_SPLIT && rules_.samples == 0 && steps() > 1)
            even_out();
    }
}

/// The samples in offsets_.
void StepCuts::add_to_sums() {
    sums_.samples += static_cast<double>(offsets_.size());
    for (const uint32_t offset : offsets_) {
        const std::span<const double> sizes = samples_->sizes_of(offset);
        for (std::size_t j = 0; j < sizes.size(); ++j) sums_.total[j] += sizes[j];
    }
}

/// The step that begins at a position.
StepCuts::Cut StepCuts::next_step(UnitPosition begin) {
    const uint64_t most = most_samples();
    offsets_.clear();
    Cut cut{begin};
    while (!cut.is_full && offsets_.size() < most &&
           (rules_.wraps() || cut.end.unit < order_.units()))
        take_unit(cut);
    cut.is_full = cut.is_full || (rules_.samples > 0 && offsets_.size() == rules_.samples) ||
                  (has_budgets() && exceeds_room(cut.load, samples_->mean_weight));
    if (may_not_fit(cut.load)) shorten(begin, cut);
    return cut;
}

uint64_t StepCuts::most_samples() const {
    if (rules_.samples > 0) return rules_.samples;
    return rules_.wraps() ? std::max<uint64_t>(samples_->kept, rules_.parts()) : samples_->kept;
}

/// Takes the next unit; of a cohort as many samples at a time as there are micro-batches, so that
/// each gets another. The step is full where they exceed its room and each micro-batch has
/// something.
void StepCuts::take_unit(Cut& cut) {
    const UnitPosition before = cut.end;
    const std::size_t count = offsets_.size();
    const uint64_t all = rules_.parts(), most = most_samples() - count;
    append(cut.end, std::min(most, all));
    if (!has_budgets()) return;
    Load more = load_from(count);
    if (count > 0 && exceeds_room(cut.load, more.weights)) {
        cut.is_full = count >= all;
        if (cut.is_full || !assign()) {
            offsets_.resize(count);
            cut.end = before;
        }
        if (cut.is_full) return;
        // Every micro-batch gets something: what there is, or one for each that would have
        // nothing, which always fits.
        if (offsets_.size() == count) {
            append(cut.end, std::min(most, all - count));
            more = load_from(count);
        }
    }
    cut.load.add(more);
}

/// Ends a step earlier, until its micro-batches hold it or have one sample each.
void StepCuts::shorten(UnitPosition begin, Cut& cut) {
    const std::size_t taken = offsets_.size(), least = rules_.parts();
    std::size_t count = taken;
    while (count > least && !assign()) {
        count = std::max(least, count - std::max<std::size_t>(1, count / 32));
        offsets_.resize(count);
    }
    if (count == taken) return;
    cut.is_full = true;
    cut.end = begin;
    offsets_.clear();
    while (offsets_.size() < count) append(cut.end, count - offsets_.size());
}

/// A last step of a few samples would be uneven: it shares those of the step before, half of the
/// weight each, but at least a sample for each micro-batch of the step before.
void StepCuts::even_out() {
    UnitPosition& middle = starts_[starts_.size() - 2];
    const UnitPosition begin = starts_[starts_.size() - 3], end = starts_.back(), before = middle;
    gather(begin, end);
    double left = load_from(0).share / 2;
    offsets_.clear();
    for (middle = begin; (left > 0 || offsets_.size() < rules_.parts()) && middle != end;) {
        const std::size_t count = offsets_.size();
        append(middle, rules_.parts());
        left -= load_from(count).share;
    }
    const bool fits = middle.unit < end.unit && assign();
    if (fits) gather(middle, end);
    if (!fits || !assign()) middle = before;
}

/// Takes what is left of a unit, or the first `most` samples of that, into offsets_: but for those
/// that are too large now.
void StepCuts::append(UnitPosition& at, uint64_t most) {
    const uint32_t unit = order_.at(at.unit % order_.units());
    const uint64_t left = order_.samples_of(unit) - at.offset, count = std::min(left, most);
    for (uint64_t i = 0; i < count; ++i) {
        const uint32_t offset = order_.offset(unit, at.offset + i);
        if (is_kept(offset)) offsets_.push_back(offset);
    }
    at = count == left ? UnitPosition{at.unit + 1, 0} : UnitPosition{at.unit, at.offset + count};
}

/// Gathers the samples between two positions.
void StepCuts::gather(UnitPosition at, UnitPosition end) {
    offsets_.clear();
    while (at != end) append(at, at.unit == end.unit ? end.offset - at.offset : counts_.cohort);
}

void StepCuts::Load::add(const Load& more) {
    for (std::size_t j = 0; j < weights.size(); ++j) weights[j] += more.weights[j];
    share += more.share;
    largest = std::max(largest, more.largest);
}

/// Of the samples in offsets_ from one on.
StepCuts::Load StepCuts::load_from(std::size_t first) const {
    Load load;
    for (std::size_t i = first; i < offsets_.size() && has_budgets(); ++i) {
        const double* const weights = samples_->weights_of(offsets_[i]);
        const double share = samples_->share_of(offsets_[i]);
        for (std::size_t j = 0; j < samples_->capacities.size(); ++j) load.weights[j] += weights[j];
        load.share += share;
        load.largest = std::max(load.largest, share);
    }
    return load;
}

bool StepCuts::exceeds_room(const Load& load, const PerBudget& more) const {
    for (std::size_t j = 0; j < samples_->capacities.size(); ++j)
        if (load.weights[j] + more[j] > rules_.room(*samples_, j)) return true;
    return false;
}

/// The least loaded micro-batch holds at most the mean, so any sample fits if the mean and the
/// largest sample together do not exceed the capacity.
bool StepCuts::may_not_fit(const Load& load) const {
    if (!has_budgets() || offsets_.size() <= rules_.parts()) return false;
    const double capacity = samples_->capacities.size() == 1
                                ? samples_->capacities[0]
                                : 1 - 4 * rounding_share(offsets_.size());
    return load.share / static_cast<double>(rules_.parts()) + load.largest > capacity;
}

/// Deals the samples in offsets_ to the micro-batches of the step; false when they do not fit.
bool StepCuts::assign() {
    step_ = StepItems(offsets_, *samples_);
    part_of_.resize(offsets_.size());
    if (offsets_.empty()) return true;
    rows_.begin(step_, rules_.options.world_size);
    return rows_.assign(rules_.options.micro_batches, StepRows::Effort::usual, part_of_);
}

void StepCuts::load(uint64_t step) {
    gather(starts_[step], starts_[step + 1]);
    if (!assign()) fail(SAB_E_INTERNAL, "balanced sampler: a step does not fit its micro-batches");
}

}  // namespace sab
