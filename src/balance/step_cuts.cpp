#include "balance/step_cuts.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "balance/micro_batches.h"
#include "balance/partition.h"
#include "base/hasher.h"
#include "base/rounding.h"
#include "sampler/state.h"

namespace sab {
namespace {

constexpr double heavy_share = 1.0 / 8;  // of a micro-batch's mean cost
constexpr double usual_fill = 0.95;
constexpr double no_limit = std::numeric_limits<double>::infinity();

/// 1 / mean of the balanced costs.
PerBudget mean_scales(const WeighedSamples& samples) {
    PerBudget scales{};
    for (std::size_t k = 0; k < samples.balances; ++k)
        scales[k] = samples.mean_cost[k] > 0 ? 1 / samples.mean_cost[k] : 0;
    return scales;
}

}  // namespace

StepRules::StepRules(const sab_balanced_options& balanced, const SamplerOptions& own)
    : options(own),
      samples(balanced.samples),
      fill(balanced.fill == 0 ? usual_fill : balanced.fill) {
    check(balanced.padded == 0 || balanced.padded == 1, "balanced.padded", balanced.padded,
          "must be 0 or 1");
    check(balanced.padded == 0 || balanced.fill == 0, "balanced.fill", balanced.fill,
          "must be 0 with balanced.padded, whose micro-batches may be full");
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
    if (cohort == 1 || all.padded) return counts;
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
    all.multiples.add_to(hash);
    if (!all.padded) return hash.digest();
    const auto add = [&](const Cost& cost) {
        hash.add(uint64_t{cost.terms().size()});
        hash.add_bytes(cost.terms().data(), cost.terms().size_bytes());
    };
    for (const Budget& budget : all.padded->budgets) add(budget.cost);
    for (const Cost& cost : all.padded->balance) add(cost);
    return hash.digest();
}

StepCuts::StepCuts(const StepRules& rules, std::shared_ptr<const WeighedSamples> samples,
                   const EpochChoice* choice, uint64_t epoch, const UnitCounts& counts)
    : rules_(rules),
      samples_(std::move(samples)),
      epoch_(epoch),
      counts_(counts),
      order_(samples_, counts, rules.options.seed, epoch, choice) {
    if (!samples_->padded) return;
    const auto& [budgets, balance] = *samples_->padded;
    runs_.emplace(samples_->columns, budgets, balance, mean_scales(*samples_));
}

/// What an order has from a position on.
StepCuts::Left StepCuts::left_from(UnitPosition at) {
    const auto kept = static_cast<double>(samples_->kept);
    if (at == UnitPosition{} && counts_.kept == samples_->end)
        return {samples_->kept, samples_->mean_share * kept};
    Left left;
    while (at.unit < order_.units()) {
        offsets_.clear();
        append(at, counts_.cohort);
        left.samples += offsets_.size();
        left.share += load_from(0).share;
    }
    return left;
}

uint64_t StepCuts::all_samples_steps() const {
    return rules_.samples > 0 ? ceiling(samples_->kept, rules_.samples) : 0;
}

Pace StepCuts::cut(UnitPosition first, Pace least, const Progress& progress) {
    check_consistent(first.offset == 0 ||
                     first.offset < order_.samples_of(order_.at(first.unit % order_.units())));
    const Left left = left_from(first);
    Pace pace = least;
    if (pace.steps == 0 && rules_.samples > 0) pace.steps = ceiling(left.samples, rules_.samples);
    if (pace.steps > 0 && cut_into(first, pace, progress)) return pace;
    const Pace fastest = fastest_pace(first, progress);
    // One sample a micro-batch always fits.
    const uint64_t most = ceiling(left.samples, rules_.parts());
    pace.spared = std::max(pace.spared, fastest.spared);
    pace.steps = std::max(pace.steps, fastest.steps + static_cast<uint64_t>(pace.spared));
    for (pace.steps = std::min(most, pace.steps); !cut_into(first, pace, progress);) {
        check_consistent(pace.steps < most);
        const uint64_t missing = left_over_ * pace.steps / left.samples;
        pace.steps = std::min(
            most, pace.steps + std::max({uint64_t{1}, missing,
                                         static_cast<uint64_t>(std::ceil(pace.spared / 2))}));
    }
    return pace;
}

StepCuts::Overfull StepCuts::overfull() {
    Overfull found;
    UnitPosition at;
    for (uint64_t step = 0; step < all_samples_steps(); ++step) {
        offsets_.clear();
        take(at, std::min(rules_.samples, samples_->kept - step * rules_.samples));
        sort_first(offsets_.size());
        read_lengths(offsets_.size());
        const uint64_t runs = runs_->fewest(lengths_);
        if (found.needed == 0 && runs > rules_.parts()) found = {step, runs, 0};
        found.most = std::max(found.most, runs);
    }
    return found;
}

/// That of steps which each take as many samples as they can. The more these differ, the more is
/// spared: among n steps that can take c +- s, those that take c (1 - s^2 / 2 d) lag behind by d.
Pace StepCuts::fastest_pace(UnitPosition first, const Progress& progress) {
    Pace pace;
    double sum = 0, squares = 0;
    uint64_t likely_most = rules_.parts();
    for (Left left = left_from(first); left.samples > 0; ++pace.steps) {
        Aim aim = full_aim(left);
        aim.likely_most = std::min(aim.most, likely_most);
        const Cut cut = next_step(first, aim);
        first = cut.end;
        likely_most = offsets_.size();
        left.samples -= std::min<uint64_t>(left.samples, likely_most);
        const double taken = runs_ ? static_cast<double>(likely_most) : cut.load.share;
        if (left.samples > 0) sum += taken, squares += taken * taken;
        if (pace.steps % 64 == 0)
            progress.report(std::min(first.unit, order_.units()), order_.units());
    }
    const double steps = static_cast<double>(pace.steps), mean = sum / std::max(1.0, steps - 1);
    if (mean > 0) {
        const double variance = squares / (steps - 1) / (mean * mean) - 1;
        pace.spared = std::min(steps / 64, std::sqrt(steps / 2 * std::max(variance, 0.0)));
    }
    return pace;
}

/// All steps take the same share. Where a step does not hold it, the next ones take more.
bool StepCuts::cut_into(UnitPosition first, const Pace& pace, const Progress& progress) {
    starts_.assign(1, first);
    sums_ = {};
    const Left all = left_from(first);
    Left left = all;
    left_over_ = 1;
    const bool has_all_samples =
        rules_.samples > 0 && pace.steps == ceiling(all.samples, rules_.samples);
    const uint64_t full = has_all_samples ? rules_.samples : rules_.parts();
    for (uint64_t step = 0; step < pace.steps; ++step) {
        if (left.samples == 0) return false;
        const Cut cut = next_step(starts_.back(),
                                  has_all_samples ? full_aim(left) : aim_of(all, left, step, pace));
        const uint64_t count = offsets_.size();
        if (has_all_samples && count < std::min(full, left.samples)) return false;
        left.samples -= std::min(left.samples, count);
        left.share -= cut.load.share;
        if (left.samples == 0 && count < full && rules_.options.last_step == SAB_LAST_STEP_DROP)
            break;
        starts_.push_back(cut.end);
        add_to_sums();
        if (starts_.size() % 64 == 0)
            progress.report(std::min(cut.end.unit, order_.units()), order_.units());
    }
    left_over_ = left.samples;
    return left_over_ == 0;
}

/// As many samples as a step may have.
StepCuts::Aim StepCuts::full_aim(const Left& left) const {
    uint64_t most = left.samples;
    if (rules_.wraps()) most = std::max(most, std::max(rules_.parts(), rules_.samples));
    if (rules_.samples > 0) most = std::min(most, rules_.samples);
    return {0, most, no_limit, most};
}

/// What a step of several must take so that the last one takes what is left. Those at the end share
/// what is spared.
StepCuts::Aim StepCuts::aim_of(const Left& all, const Left& left, uint64_t step,
                               const Pace& pace) const {
    constexpr double sharing = 8;  // steps, for each step that is spared
    const uint64_t others = pace.steps - step - 1, least = others * rules_.parts(),
                   largest = others * rules_.samples;
    Aim aim = full_aim(left);
    if (others == 0) return aim;
    const double of_all =
        static_cast<double>(step + 1) / (static_cast<double>(pace.steps) - pace.spared);
    const auto steps_left = static_cast<double>(others + 1);
    const auto due = [&](double whole, double rest) {
        const double usual = whole * of_all - (whole - rest);
        if (steps_left > (sharing + 1) * pace.spared) return usual;
        return std::min(usual, rest / steps_left * (1 + 1 / sharing));
    };
    aim.share = due(all.share, left.share);
    // The others have a sample for each micro-batch, too, and no more samples than they may.
    uint64_t most = left.samples > least ? left.samples - least : 0;
    aim.least = rules_.parts();
    if (rules_.samples > 0 && left.samples > largest)
        aim.least = std::max(aim.least, left.samples - largest);
    if (runs_) {
        const double count =
            due(static_cast<double>(all.samples), static_cast<double>(left.samples));
        most = std::min(most, static_cast<uint64_t>(std::max(std::ceil(count), 0.0)));
    }
    aim.most = std::min(aim.most, std::max(most, rules_.parts()));
    aim.likely_most = aim.most;
    return aim;
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
StepCuts::Cut StepCuts::next_step(UnitPosition begin, const Aim& aim) {
    offsets_.clear();
    return runs_ ? next_padded(begin, aim) : next_rows(begin, aim);
}

StepCuts::Cut StepCuts::next_rows(UnitPosition begin, const Aim& aim) {
    Cut cut{begin};
    while (!cut.is_full && offsets_.size() < aim.most &&
           (offsets_.size() < aim.least || cut.load.share < aim.share) &&
           (rules_.wraps() || cut.end.unit < order_.units()))
        take_unit(cut, aim.most);
    if (may_not_fit(cut.load)) shorten(begin, cut);
    return cut;
}

/// The most samples whose runs are no more than there are micro-batches: searched for in growing
/// steps, then in halves.
StepCuts::Cut StepCuts::next_padded(UnitPosition begin, const Aim& aim) {
    const uint64_t parts = rules_.parts(), step = std::max<uint64_t>(1, aim.likely_most / 8);
    UnitPosition taken = begin;
    sorted_.clear();
    const auto fits = [&](uint64_t count) {
        if (count > sorted_.size()) {
            const uint64_t more = std::min(aim.most, count + step);
            take(taken, more);
            sort_first(more);
        }
        read_lengths(count);
        return runs_->fewest(lengths_) <= parts;
    };
    uint64_t fitting = std::min(parts, aim.most), too_many = aim.most + 1;
    for (uint64_t count = std::max(fitting, aim.likely_most); too_many - fitting > 1;) {
        const bool is_fitting = count == fitting || fits(count);
        (is_fitting ? fitting : too_many) = count;
        if (too_many - fitting <= step)
            count = fitting + (too_many - fitting) / 2;
        else
            count = is_fitting ? fitting + step : too_many - step;
    }
    Cut cut{begin};
    offsets_.clear();
    take(cut.end, fitting);
    return cut;
}

/// Takes samples until offsets_ has so many, or the epoch ends.
void StepCuts::take(UnitPosition& at, uint64_t count) {
    while (offsets_.size() < count && (rules_.wraps() || at.unit < order_.units()))
        append(at, count - offsets_.size());
}

/// Sorts the first samples of offsets_ by size, as all samples are.
void StepCuts::sort_first(std::size_t count) {
    sorted_.clear();
    for (uint64_t place = 0; place < std::min(count, offsets_.size()); ++place)
        sorted_.push_back(uint64_t{offsets_[place]} << 32 | place);
    std::ranges::sort(sorted_, std::greater());
}

/// Of the first samples of offsets_, in the order of sorted_, which has them all.
void StepCuts::read_lengths(std::size_t count) {
    lengths_.clear();
    for (const uint64_t each : sorted_) {
        if (static_cast<uint32_t>(each) >= count) continue;
        const std::span<const double> sizes = samples_->laid_sizes_of(each >> 32);
        lengths_.insert(lengths_.end(), sizes.begin(), sizes.end());
    }
}

/// Takes the next unit; of a cohort as many samples at a time as there are micro-batches, so that
/// each gets another. The step is full where they exceed its room and each micro-batch has
/// something.
void StepCuts::take_unit(Cut& cut, uint64_t most_samples) {
    const UnitPosition before = cut.end;
    const std::size_t count = offsets_.size();
    const uint64_t all = rules_.parts(), most = most_samples - count;
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
    take(cut.end, count);
    cut.load = load_from(0);
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
    if (runs_) return assign_padded();
    rows_.begin(step_, rules_.options.world_size);
    return rows_.assign(rules_.options.micro_batches, StepRows::Effort::usual, part_of_);
}

/// Runs of the samples by size.
bool StepCuts::assign_padded() {
    const uint64_t parts = rules_.parts();
    const std::span<const Cost> balance = samples_->padded->balance;
    sort_first(offsets_.size());
    read_lengths(offsets_.size());
    std::vector<double> costs(balance.size() * parts);
    if (!runs_->divide(lengths_, parts, 0, costs, [&](std::size_t i, uint32_t part) {
            part_of_[static_cast<uint32_t>(sorted_[i])] = part;
        }))
        return false;
    parts_to_ranks({costs, balance.size(), parts}, rules_.options.world_size, part_of_);
    return true;
}

void StepCuts::load(uint64_t step) {
    gather(starts_[step], starts_[step + 1]);
    if (!assign()) fail(SAB_E_INTERNAL, "balanced sampler: a step does not fit its micro-batches");
}

}  // namespace sab
