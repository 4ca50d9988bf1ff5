#include "balance/balanced.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "balance/micro_batches.h"
#include "balance/partition.h"
#include "base/log.h"
#include "base/rounding.h"
#include "base/saved_state.h"
#include "base/sorting.h"
#include "sampler/state.h"

namespace sab {

namespace {

/// The steps of the first epochs are cut to find their number.
constexpr uint64_t epochs_cut = 3;

}  // namespace

BalancedSequence::BalancedSequence(const Columns& sizes, const sab_balanced_options& balanced,
                                   const SamplerOptions& options)
    : rules_(balanced, options), progress_(balanced.progress, balanced.progress_ctx) {
    check(sizes.count() > 0, "sizes.count", sizes.count(), "must be at least 1");
    samples_of_ = std::make_shared<const EpochSamples>(sizes, balanced, progress_);
    find_steps();
}

/// The fewest steps into which the first epochs are cut. Later ones are drawn again until they fit.
void BalancedSequence::find_steps() {
    const auto all = samples_at(0);
    count_ = all->count;
    for (uint64_t epoch = epochs_cut; epoch-- > 0;) {
        if (!samples_of_->are_alike(epoch, 0)) continue;
        StepCuts cuts = uncut(all, epoch, unit_counts(*all));
        pace_ = cuts.cut({}, pace_, progress_);
        if (all->padded && rules_.samples > 0 && pace_.steps > cuts.all_samples_steps())
            refuse_samples(cuts);
    }
    if (rules_.samples > 0 && pace_.steps == ceiling(all->kept, rules_.samples)) return;
    constexpr double most_deviations = 3;
    pace_.steps += static_cast<uint64_t>(
        std::ceil(most_deviations * samples_of_->deviation() * static_cast<double>(pace_.steps)));
    pace_.steps = std::min(pace_.steps, ceiling(all->kept, rules_.parts()));
}

void BalancedSequence::refuse_samples(StepCuts& cuts) const {
    const auto& [step, needed, most] = cuts.overfull();
    std::string limits;
    for (const Budget& budget : cuts.samples()->padded->budgets)
        limits += text(limits.empty() ? "" : ", ", budget.limit);
    const uint64_t world = rules_.options.world_size;
    refuse_argument("balanced.samples", rules_.samples, "step ", step, " of epoch ", cuts.epoch(),
                    " needs ", needed, " micro-batches under balanced.budgets of ",
                    std::string_view(limits), ": must fit the ", rules_.parts(),
                    " of a step. For this epoch, options.micro_batches = ", ceiling(most, world),
                    " would do; otherwise use fewer samples or a larger budget");
}

/// All of an epoch. False when it must be drawn again.
bool BalancedSequence::cut_epoch(StepCuts& cuts) const {
    if (cuts.samples()->count == count_) return cuts.cut_into({}, pace_, progress_);
    cuts.cut({}, {}, progress_);
    return true;
}

std::shared_ptr<const WeighedSamples> BalancedSequence::samples_at(uint64_t epoch) const {
    const StepCuts& present = present_.cuts;
    if (present.samples() != nullptr && samples_of_->are_alike(epoch, present.epoch()))
        return present.samples();
    return samples_of_->of(epoch, progress_);
}

std::unique_ptr<Sequence::EpochOrder> BalancedSequence::make_epoch_order(
    const EpochOptions& epoch_options) const {
    const uint64_t epoch = epoch_options.epoch;
    const auto all = samples_at(epoch);
    UnitCounts counts = unit_counts(*all);
    Present made;
    made.rules = rules_.hash(*all);
    made.cuts = uncut(all, epoch, counts);
    while (!cut_epoch(made.cuts) && counts.redraws < most_redraws) {
        ++counts.redraws;
        made.cuts = uncut(all, epoch, counts);
    }
    if (made.cuts.is_all_cut()) return std::make_unique<EpochOrderOf<Present>>(std::move(made));
    // A mixture's epoch has other samples than epoch 0.
    counts.redraws = 0;
    made.cuts = uncut(all, epoch, counts);
    made.cuts.cut({}, pace_, progress_);
    log(SAB_LOG_WARNING, "epoch ", epoch, " of the mixture has ", made.cuts.steps(),
        " steps: its samples do not fit ", pace_.steps, " steps, as those of other epochs do");
    return std::make_unique<EpochOrderOf<Present>>(std::move(made));
}

void BalancedSequence::exchange(EpochOrder& epoch_order) noexcept {
    std::swap(present_, static_cast<EpochOrderOf<Present>&>(epoch_order).value);
    step_parts_.step.reset();
}

/// docs/internals/formats.md says what the numbers are.
std::vector<uint64_t> BalancedSequence::state_body(uint64_t step) const {
    const auto& [cuts, rules, first_step, took_over] = present_;
    const UnitPosition &begin = cuts.start(step), &first = cuts.start(0);
    const UnitCounts& counts = cuts.counts();
    return {took_over, first_step + step, begin.unit,     counts.cohort, counts.heavy, counts.kept,
            rules,     begin.offset,      counts.redraws, first.unit,    first.offset};
}

Sequence::Restored BalancedSequence::restored(const OrderState& order,
                                              std::span<const uint64_t> body) const {
    const uint64_t took_over = body[0], step = body[1];
    const UnitCounts counts{body[3], body[4], body[5], body[8]};
    const UnitPosition begin{body[2], body[7]}, first{body[9], body[10]};
    const auto all = samples_at(order.epoch);
    check_consistent(counts.cohort >= 1 && counts.cohort <= most_parts);
    check_consistent(counts.kept >= 1 && counts.kept <= all->count && counts.heavy <= counts.kept &&
                     counts.heavy % counts.cohort == 0 && begin.offset < counts.cohort &&
                     first.offset < counts.cohort && counts.redraws <= most_redraws);
    check_consistent(all->columns == 1 || counts.kept == all->count);
    check_consistent(order.position >= took_over && step <= order.position);
    Present made;
    made.rules = rules_.hash(*all);
    // Whether the steps end where they did for those who saved it.
    const bool is_alike = body[6] == made.rules && order.world_size == rules_.options.world_size &&
                          order.micro_batches == rules_.options.micro_batches;
    const uint64_t inside = (order.position - took_over) % order.micro_batches;
    if (!is_alike && inside != 0)
        mismatch_state(
            "was saved inside a step, after micro-batch ", inside, " of ", order.micro_batches,
            ": another world size, or other options, can only go on from between two steps");
    if (!is_alike && order.position == 0)  // as if others had not begun the epoch
        return {make_epoch_order({.seed = order.seed, .epoch = order.epoch}), 0, 0};
    made.cuts = uncut(all, order.epoch, counts);
    if (!is_alike) {
        made.first_step = step;
        made.took_over = order.position;
        made.cuts.cut(begin, {}, {});
        return {std::make_unique<EpochOrderOf<Present>>(std::move(made)), order.position, step};
    }
    made.took_over = took_over;
    if (took_over > 0)
        made.cuts.cut(first, {}, {});
    else if (!cut_epoch(made.cuts))
        made.cuts.cut({}, pace_, {});
    const uint64_t at = (order.position - took_over) / order.micro_batches;
    check_consistent(at <= made.cuts.steps() && at <= step && made.cuts.start(at) == begin);
    made.first_step = step - at;
    const uint64_t first_step = made.first_step;
    return {std::make_unique<EpochOrderOf<Present>>(std::move(made)), took_over, first_step};
}

/// Of the micro-batches, by each of the balanced costs.
std::vector<double> BalancedSequence::costs_of(std::span<const uint32_t> part_of) const {
    const WeighedSamples& all = epoch_samples();
    const uint64_t parts = rules_.parts();
    if (!all.padded) return present_.cuts.items().cost_table().sums(part_of, parts);
    std::vector<double> costs(all.balances * parts);
    std::vector<PaddedShape> shapes(parts);
    for (std::size_t i = 0; i < part_of.size(); ++i)
        shapes[part_of[i]].add(all.laid_sizes_of(present_.cuts.offsets()[i]));
    for (std::size_t k = 0; k < all.balances; ++k)
        for (uint64_t part = 0; part < parts; ++part)
            costs[k * parts + part] = shapes[part].cost(all.padded->balance[k], all.columns);
    return costs;
}

/// Ranks in random order, so that none always gets the costliest. The micro-batches of each are
/// the costliest first, so that those of similar cost run at the same time.
void BalancedSequence::number_parts(uint64_t step, std::span<uint32_t> part_of) const {
    const StepCuts& cuts = present_.cuts;
    const uint64_t parts = rules_.parts(), of_rank = rules_.options.micro_batches;
    const std::vector<double> costs = costs_of(part_of);
    std::vector<uint32_t> places =
        places_by_cost({costs, epoch_samples().balances, parts}, of_rank);
    const Permutation ranks(rules_.options.world_size,
                            permutation_key(rules_.options.seed, cuts.epoch(), Purpose::parts,
                                            present_.first_step + step));
    for (std::size_t part = 0; part < places.size(); ++part)
        places[part] += static_cast<uint32_t>(ranks(part / of_rank) * of_rank);
    for (uint32_t& part : part_of) part = places[part];
    step_parts_.costs.resize(costs.size());
    for (std::size_t i = 0; i < costs.size(); ++i)
        step_parts_.costs[i - i % parts + places[i % parts]] = costs[i];
}

/// Makes a step the one at hand.
void BalancedSequence::load(uint64_t step) const {
    if (step_parts_.step == step) return;
    step_parts_.step.reset();
    present_.cuts.load(step);
    const std::span<const uint32_t> offsets = present_.cuts.offsets();
    std::vector<uint32_t> part_of = present_.cuts.part_of();
    fill_empty(present_.cuts.items().cost_table()[0], rules_.parts(), rules_.options.micro_batches,
               true, part_of);
    number_parts(step, part_of);
    step_parts_.offsets.resize(offsets.size());
    group_items(
        offsets.size(), rules_.parts(), step_parts_.begins,
        [&](std::size_t i) { return part_of[i]; },
        [&](std::size_t i, std::size_t at) { step_parts_.offsets[at] = offsets[i]; });
    step_parts_.step = step;
}

/// Makes the step of a batch the one at hand. Returns the number of its micro-batch.
uint64_t BalancedSequence::part_at(uint64_t position) const {
    const uint64_t of_rank = rules_.options.micro_batches, world = rules_.options.world_size,
                   micro_batch = position / world;
    load(micro_batch / of_rank);
    return position % world * of_rank + micro_batch % of_rank;
}

std::span<const uint32_t> BalancedSequence::offsets_at(uint64_t position) const {
    const uint64_t part = part_at(position);
    const std::size_t begin = step_parts_.begins[part], end = step_parts_.begins[part + 1];
    return std::span(step_parts_.offsets).subspan(begin, end - begin);
}

const StepItems& BalancedSequence::items(uint64_t step) const {
    load(step);
    return present_.cuts.items();
}

std::vector<PaddedShape> BalancedSequence::part_shapes(uint64_t step) const {
    load(step);
    std::vector<PaddedShape> shapes(rules_.parts());
    for (uint64_t part = 0; part < shapes.size(); ++part)
        for (std::size_t i = step_parts_.begins[part]; i < step_parts_.begins[part + 1]; ++i)
            shapes[part].add(epoch_samples().laid_sizes_of(step_parts_.offsets[i]));
    return shapes;
}

std::span<const double> BalancedSequence::part_costs(uint64_t step, std::size_t balance) const {
    load(step);
    return std::span(step_parts_.costs).subspan(balance * rules_.parts(), rules_.parts());
}

double BalancedSequence::cost(uint64_t position) const {
    const uint64_t part = part_at(position);
    return step_parts_.costs[part];
}

PerColumn BalancedSequence::total(uint64_t position) const {
    PerColumn total{};
    for (const uint32_t offset : offsets_at(position)) {
        const std::span<const double> sizes = epoch_samples().sizes_of(offset);
        for (std::size_t j = 0; j < sizes.size(); ++j) total[j] += sizes[j];
    }
    return total;
}

void BalancedSequence::fill(uint64_t position, uint64_t /*first*/, uint64_t /*count*/,
                            Batch& batch) const {
    const std::span<const uint32_t> offsets = offsets_at(position);
    const WeighedSamples& all = epoch_samples();
    const std::size_t count = all.columns;
    batch.columns = count;
    batch.longest.fill(0);
    batch.total.fill(0);
    const std::span<int64_t> indices = batch.room(offsets.size());
    for (std::size_t i = 0; i < offsets.size(); ++i) {
        indices[i] = all.order[offsets[i]];
        const std::span<const double> sizes = all.sizes_of(offsets[i]);
        for (std::size_t j = 0; j < count; ++j) {
            batch.longest[j] = std::max(batch.longest[j], sizes[j]);
            batch.total[j] += sizes[j];
        }
    }
    batch.bucket = -1;
    batch.capacity.fill(-1);
    batch.cu_seqlens.clear();
    batch.cu_seqlens_unpadded.clear();
    batch.is_row = all.padded == nullptr;
    if (batch.is_row) return fill_row(offsets, batch);
    for (std::size_t j = 0; j < count; ++j)
        batch.padded_length[j] = all.multiples.length(batch.longest[j], j);
}

/// What a row has and a padded batch does not.
void BalancedSequence::fill_row(std::span<const uint32_t> offsets, Batch& batch) const {
    const WeighedSamples& all = epoch_samples();
    PerColumn laid{};
    for (const uint32_t offset : offsets)
        for (std::size_t j = 0; j < all.columns; ++j) laid[j] += all.laid_sizes_of(offset)[j];
    for (std::size_t j = 0; j < all.columns; ++j)
        batch.padded_length[j] = all.multiples.row(laid[j], j);
    const double most = std::ranges::max(batch.padded_length);
    if (!all.has_whole_sizes || most > std::numeric_limits<int32_t>::max()) return;
    const auto accumulate = [&](auto& columns, auto sizes_of) {
        for (std::size_t j = 0; j < all.columns; ++j) {
            std::vector<int32_t>& ends = columns.emplace_back(1, 0);
            ends.reserve(offsets.size() + 1);
            for (const uint32_t offset : offsets)
                ends.push_back(ends.back() + static_cast<int32_t>(sizes_of(offset)[j]));
        }
    };
    accumulate(batch.cu_seqlens, [&](uint32_t offset) { return all.laid_sizes_of(offset); });
    if (!all.multiples.round_lengths()) return;
    accumulate(batch.cu_seqlens_unpadded, [&](uint32_t offset) { return all.sizes_of(offset); });
}

}  // namespace sab
