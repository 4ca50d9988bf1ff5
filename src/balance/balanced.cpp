#include "balance/balanced.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <tuple>

#include "balance/micro_batches.h"
#include "base/hasher.h"
#include "sampler/capabilities.h"
#include "sampler/cursor.h"
#include "sampler/state.h"

namespace sab {
namespace {

constexpr double heavy_share = 1.0 / 8;  // of a micro-batch's mean cost

}  // namespace

/// The body of a saved state: where the ranks stood in the order of the epoch.
struct BalancedState {
    OrderState order;
    uint64_t took_over;  ///< position at which these options took over
    uint64_t step;       ///< of the optimizer
    uint64_t unit;       ///< of the order, in which the step begins
    uint64_t cohort;     ///< with `heavy` and `kept`: of those who began the epoch
    uint64_t heavy;
    uint64_t kept;
    uint64_t rules;   ///< hash of all that says where steps end
    uint64_t offset;  ///< samples of the unit that are before the step
};
static_assert(sizeof(BalancedState) == sizeof(OrderState) + std::size_t{8} * 8);

BalancedSampler& BalancedSampler::of(Sampler& sampler) {
    need_kind(sampler, "sab_balanced_sampler_new");
    return static_cast<BalancedSampler&>(sampler);
}

BalancedSampler::BalancedSampler(const Columns& sizes, const sab_balanced_options& balanced,
                                 const sab_sampler_options& options)
    : options_(options), samples_(balanced.samples), fill_(balanced.fill) {
    check_sampler_options(options);
    check(options.world_size <= most_parts / options.micro_batches, "options.world_size",
          options.world_size, "times options.micro_batches = ", options.micro_batches,
          " must be at most ", most_parts);
    check(balanced.fill > 0 && balanced.fill <= 1, "balanced.fill", balanced.fill,
          "must be above 0 and at most 1");
    check(balanced.oversize == SAB_OVERSIZE_SKIP || balanced.oversize == SAB_OVERSIZE_ERROR,
          "balanced.oversize", balanced.oversize,
          "must be SAB_OVERSIZE_SKIP (0) or SAB_OVERSIZE_ERROR (1)");
    if (balanced.samples == 0 && balanced.budget_count == 0)
        fail(SAB_E_ARGUMENT,
             "balanced.samples = 0 and balanced.budget_count = 0: samples of a step, or a budget, "
             "must be given");
    check(balanced.samples == 0 || balanced.samples >= parts(), "balanced.samples",
          balanced.samples, "must be at least the number of micro-batches of a step, ", parts());
    check(sizes.count() > 0, "sizes.count", sizes.count(), "must be at least 1");

    const Progress progress(balanced.progress, balanced.progress_ctx);
    samples_of_ = std::make_shared<const EpochSamples>(sizes, balanced, progress);
    take_samples(options.epoch, progress);
    begin_epoch(options.epoch);
    make_steps(progress);
    check_any_step(options, options.epoch, batch_count());
}

/// Those of an epoch, if they are not those at hand.
void BalancedSampler::take_samples(uint64_t epoch, const Progress& progress) {
    if (weighed_ != nullptr && samples_of_->are_alike(epoch, schedule_.epoch)) return;
    weighed_ = samples_of_->of(epoch, progress);
    rules_ = rules();
}

/// With the samples at hand.
void BalancedSampler::begin_epoch(uint64_t epoch) {
    schedule_ = {epoch, unit_counts(), {}, 0, 0, 0};
    position_ = 0;
    order_units();
}

void BalancedSampler::order_units() {
    order_ = UnitOrder(weighed_, schedule_.counts, options_.seed, schedule_.epoch, choice());
}

/// Of those who begin an epoch.
UnitCounts BalancedSampler::unit_counts() const {
    return {parts(), heavy_of(parts()), weighed_->end};
}

/// All that says, beside the samples, where a step ends and who takes what of it.
uint64_t BalancedSampler::rules() const {
    Hasher hash;
    for (const uint64_t number :
         {options_.world_size, options_.micro_batches, samples_, weighed_->kept})
        hash.add(number);
    hash.add(fill_);
    for (const auto* numbers : {&weighed_->capacities, &weighed_->costs, &weighed_->weights})
        hash.add_all(std::span(*numbers));
    return hash.digest();
}

/// How many samples cost so much that they must come in cohorts.
uint64_t BalancedSampler::heavy_of(uint64_t cohort) const {
    if (cohort == 1) return 0;
    const WeighedSamples& all = *weighed_;
    const auto all_parts = static_cast<double>(parts());
    double step_samples = static_cast<double>(samples_);
    for (std::size_t i = 0; i < all.capacities.size(); ++i) {
        if (all.mean_weight[i] == 0) continue;
        const double fitting = room(i) / all.mean_weight[i];
        step_samples = step_samples > 0 ? std::min(step_samples, fitting) : fitting;
    }
    if (step_samples == 0)
        step_samples = static_cast<double>(all.kept);  // samples that take no room
    PerBudget mean{};                                  // of a micro-batch
    for (std::size_t k = 0; k < all.balances; ++k)
        mean[k] = all.mean_cost[k] * step_samples / all_parts;
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
    if (choice() != nullptr && first_above((1 + rounding_of_sums) / fill_) == all.extents.size())
        return 0;
    const std::size_t first = first_above(heavy_share);
    const uint64_t offset = all.first_offsets[first];
    return offset < all.end ? (all.end - offset) / cohort * cohort : 0;
}

/// Takes what is left of a unit, or the first `most` samples of that, into offsets_: but for those
/// that are too large now.
void BalancedSampler::append(UnitPosition& at, uint64_t most) {
    const uint32_t unit = order_.at(at.unit % order_.units());
    const uint64_t left = order_.samples_of(unit) - at.offset, count = std::min(left, most);
    for (uint64_t i = 0; i < count; ++i) {
        const uint32_t offset = order_.offset(unit, at.offset + i);
        if (is_kept(offset)) offsets_.push_back(offset);
    }
    at = count == left ? UnitPosition{at.unit + 1, 0} : UnitPosition{at.unit, at.offset + count};
}

/// Of the samples in offsets_ from one on.
BalancedSampler::Load BalancedSampler::load_from(std::size_t first) const {
    Load load;
    for (std::size_t i = first; i < offsets_.size() && has_budgets(); ++i) {
        const double* const weights = weighed_->weights_of(offsets_[i]);
        const double share = weighed_->share_of(offsets_[i]);
        for (std::size_t j = 0; j < weighed_->capacities.size(); ++j) load.weights[j] += weights[j];
        load.share += share;
        load.largest = std::max(load.largest, share);
    }
    return load;
}

bool BalancedSampler::exceeds_room(const Load& load, const PerBudget& more) const {
    for (std::size_t j = 0; j < weighed_->capacities.size(); ++j)
        if (load.weights[j] + more[j] > room(j)) return true;
    return false;
}

/// The least loaded micro-batch holds at most the mean, so any sample fits if the mean and the
/// largest sample together do not exceed the capacity.
bool BalancedSampler::may_not_fit(const Load& load) const {
    if (!has_budgets() || offsets_.size() <= parts()) return false;
    const double capacity = weighed_->capacities.size() == 1
                                ? weighed_->capacities[0]
                                : 1 - 4 * rounding_share(offsets_.size());
    return load.share / static_cast<double>(parts()) + load.largest > capacity;
}

/// The end of the step that begins at a position. Its samples are then in offsets_. `is_full`: no
/// more would have fitted.
BalancedSampler::UnitPosition BalancedSampler::next_start(UnitPosition at, bool& is_full) {
    const UnitPosition begin = at;
    const uint64_t all = parts(), kept = weighed_->kept,
                   end_unit =
                       options_.last_step == SAB_LAST_STEP_WRAP ? ~uint64_t{0} : order_.units();
    const uint64_t most = samples_ > 0                               ? samples_
                          : options_.last_step == SAB_LAST_STEP_WRAP ? std::max(kept, all)
                                                                     : kept;
    offsets_.clear();
    Load load;
    is_full = false;
    while (at.unit < end_unit && offsets_.size() < most) {
        // Of a cohort as many at a time as there are micro-batches, so that each gets another.
        const UnitPosition before = at;
        const std::size_t count = offsets_.size();
        append(at, std::min(most - count, all));
        if (!has_budgets()) continue;
        Load more = load_from(count);
        if (count > 0 && exceeds_room(load, more.weights)) {
            is_full = count >= all;
            if (is_full || !assign()) {
                offsets_.resize(count);
                at = before;
            }
            if (is_full) break;
            // Every micro-batch gets something: what there is, or one for each that would have
            // nothing, which always fits.
            if (offsets_.size() == count) {
                append(at, std::min(most - count, all - count));
                more = load_from(count);
            }
        }
        for (std::size_t j = 0; j < more.weights.size(); ++j) load.weights[j] += more.weights[j];
        load.share += more.share;
        load.largest = std::max(load.largest, more.largest);
    }
    is_full = is_full || (samples_ > 0 && offsets_.size() == samples_) ||
              (has_budgets() && exceeds_room(load, weighed_->mean_weight));
    if (may_not_fit(load)) {
        const std::size_t taken = offsets_.size();
        std::size_t count = taken;
        while (count > all && !assign())
            offsets_.resize(
                count = std::max<std::size_t>(all, count - std::max<std::size_t>(1, count / 32)));
        if (count < taken) {
            is_full = true;
            offsets_.clear();
            for (at = begin; offsets_.size() < count;) append(at, count - offsets_.size());
        }
    }
    return at;
}

/// All steps of the epoch from where these options took over.
void BalancedSampler::make_steps(const Progress& progress) {
    starts_.assign(1, schedule_.first);
    loaded_.reset();
    const uint64_t end = order_.units();
    for (UnitPosition at = schedule_.first; at.unit < end;) {
        bool is_full = false;
        at = next_start(at, is_full);
        if (at.unit >= end &&
            (offsets_.empty() || (options_.last_step == SAB_LAST_STEP_DROP && !is_full)))
            break;
        starts_.push_back(at);
        if (starts_.size() % 64 == 0) progress.report(std::min(at.unit, end), end);
        if (at.unit >= end && !is_full && samples_ == 0 &&
            options_.last_step == SAB_LAST_STEP_SPLIT && starts_.size() > 2)
            even_out();
    }
}

/// A last step of a few samples would be uneven: it shares those of the step before, half of the
/// weight each, but at least a sample for each micro-batch of the step before.
void BalancedSampler::even_out() {
    UnitPosition& middle = starts_[starts_.size() - 2];
    const UnitPosition begin = starts_[starts_.size() - 3], end = starts_.back(), before = middle;
    gather(begin, end);
    double left = load_from(0).share / 2;
    offsets_.clear();
    for (middle = begin; (left > 0 || offsets_.size() < parts()) && middle != end;) {
        const std::size_t count = offsets_.size();
        append(middle, parts());
        left -= load_from(count).share;
    }
    const bool fits = middle.unit < end.unit && assign();
    if (fits) gather(middle, end);
    if (!fits || !assign()) middle = before;
}

/// Gathers the samples between two positions.
void BalancedSampler::gather(UnitPosition at, UnitPosition end) {
    offsets_.clear();
    while (at != end)
        append(at, at.unit == end.unit ? end.offset - at.offset : schedule_.counts.cohort);
}

/// Deals the samples in offsets_ to the micro-batches of the step; false when they do not fit.
bool BalancedSampler::assign() {
    step_ = StepItems(offsets_, *weighed_);
    part_of_.resize(offsets_.size());
    if (offsets_.empty()) return true;
    rows_.begin(step_, options_.world_size);
    return rows_.assign(options_.micro_batches, StepRows::Effort::usual, part_of_);
}

/// The costs of the micro-batches: the first of all, then the second of all, and so on.
void BalancedSampler::add_up_costs() {
    const ItemTable costs = step_.cost_table();
    part_costs_.assign(weighed_->balances * parts(), 0);
    for (std::size_t k = 0; k < costs.kinds; ++k)
        for (std::size_t i = 0; i < costs.items; ++i)
            part_costs_[k * parts() + part_of_[i]] += costs[k][i];
}

/// Ranks in random order, so that none always gets the costliest. The micro-batches of each are
/// the costliest first, so that those of similar cost run at the same time.
void BalancedSampler::number_parts(uint64_t step) {
    const uint64_t of_rank = options_.micro_batches;
    add_up_costs();
    std::vector<uint32_t> places =
        places_by_cost({part_costs_, weighed_->balances, parts()}, of_rank);
    const Permutation ranks(options_.world_size,
                            permutation_key(options_.seed, schedule_.epoch, Purpose::parts,
                                            schedule_.first_step + step));
    for (std::size_t part = 0; part < places.size(); ++part)
        places[part] += static_cast<uint32_t>(ranks(part / of_rank) * of_rank);
    for (uint32_t& part : part_of_) part = places[part];
    const std::vector<double> costs = part_costs_;
    for (std::size_t i = 0; i < costs.size(); ++i)
        part_costs_[i - i % parts() + places[i % parts()]] = costs[i];
}

/// Makes a step, counted from schedule_.first, the one at hand.
void BalancedSampler::load(uint64_t step) {
    if (loaded_ == step) return;
    loaded_.reset();
    gather(starts_[step], starts_[step + 1]);
    if (!assign()) fail(SAB_E_INTERNAL, "balanced sampler: a step does not fit its micro-batches");
    total_.fill(0);
    for (const uint32_t offset : offsets_) {
        const std::span<const double> sizes = weighed_->sizes_of(offset);
        for (std::size_t j = 0; j < sizes.size(); ++j) total_[j] += sizes[j];
    }
    fill_empty(step_.cost_table()[0], parts(), options_.micro_batches, true, part_of_);
    number_parts(step);
    part_begin_.assign(parts() + 1, 0);
    for (const uint32_t part : part_of_) ++part_begin_[part + 1];
    std::partial_sum(part_begin_.begin(), part_begin_.end(), part_begin_.begin());
    dealt_.resize(offsets_.size());
    std::vector<std::size_t> to(part_begin_.begin(), part_begin_.end() - 1);
    for (std::size_t i = 0; i < offsets_.size(); ++i) dealt_[to[part_of_[i]]++] = offsets_[i];
    loaded_ = step;
}

/// Makes samples, by their offsets, the batch.
void BalancedSampler::show(std::span<const uint32_t> offsets, Batch& batch) const {
    const std::size_t count = columns();
    batch.columns = count;
    batch.longest.fill(0);
    batch.total.fill(0);
    const std::span<int64_t> indices = batch.room(offsets.size());
    for (std::size_t i = 0; i < offsets.size(); ++i) {
        indices[i] = weighed_->order[offsets[i]];
        const std::span<const double> sizes = weighed_->sizes_of(offsets[i]);
        for (std::size_t j = 0; j < count; ++j) {
            batch.longest[j] = std::max(batch.longest[j], sizes[j]);
            batch.total[j] += sizes[j];
        }
    }
    batch.bucket = -1;
    batch.padded_length = batch.total;
    batch.capacity.fill(-1);
    batch.is_row = true;
    batch.cu_seqlens.clear();
    const double most = std::ranges::max(batch.total);
    if (!weighed_->has_whole_sizes || most > std::numeric_limits<int32_t>::max()) return;
    for (std::size_t j = 0; j < count; ++j) {
        std::vector<int32_t>& cu_seqlens = batch.cu_seqlens.emplace_back(1, 0);
        cu_seqlens.reserve(offsets.size() + 1);
        for (const uint32_t offset : offsets)
            cu_seqlens.push_back(cu_seqlens.back() +
                                 static_cast<int32_t>(weighed_->sizes_of(offset)[j]));
    }
}

void BalancedSampler::fill(uint64_t position, uint64_t rank, EpochBatch& placed) {
    const uint64_t after = position - schedule_.first_position,
                   step = after / options_.micro_batches;
    load(step);
    const uint64_t part = rank * options_.micro_batches + after % options_.micro_batches;
    const std::size_t begin = part_begin_[part], end = part_begin_[part + 1];
    Batch& batch = placed.batch;
    show(std::span(dealt_).subspan(begin, end - begin), batch);
    placed.epoch = schedule_.epoch;
    placed.position = position;
    placed.step = schedule_.first_step + step;
    placed.micro_batch = after % options_.micro_batches;
}

StepTotals BalancedSampler::step_of(const EpochBatch& batch) {
    load(batch.step - schedule_.first_step);
    return {options_.micro_batches, offsets_.size(), total_};
}

/// Goes elsewhere. A failure leaves all as it was.
template <class Body>
void BalancedSampler::attempt(Body&& body) {
    auto mine = std::tie(weighed_, rules_, schedule_, order_, starts_, position_);
    auto before = std::make_tuple(weighed_, rules_, schedule_, order_, starts_, position_);
    try {
        body();
    } catch (...) {
        mine = std::move(before);
        loaded_.reset();
        throw;
    }
}

void BalancedSampler::go_to_epoch(uint64_t epoch) {
    attempt([&] {
        take_samples(epoch, {});
        begin_epoch(epoch);
        make_steps({});
        check_any_step(options_, epoch, batch_count());
    });
}

std::size_t BalancedSampler::save(std::span<std::byte> out) const {
    const uint64_t step = (position_ - schedule_.first_position) / options_.micro_batches;
    const BalancedState state{order_state(),
                              schedule_.took_over,
                              schedule_.first_step + step,
                              starts_[step].unit,
                              schedule_.counts.cohort,
                              schedule_.counts.heavy,
                              schedule_.counts.kept,
                              rules_,
                              starts_[step].offset};
    return write_state(kind(), fingerprint(), choice(), state.order,
                       std::as_bytes(std::span(&state, 1)), {}, out);
}

/// Refuses a state that cannot be, as far as it shows without the epoch's layout. Says whether the
/// steps end where they did for those who saved it.
bool BalancedSampler::check_state(const BalancedState& state) const {
    check_consistent(state.cohort >= 1 && state.cohort <= most_parts);
    check_consistent(state.kept >= 1 && state.kept <= weighed_->count &&
                     state.heavy <= state.kept && state.heavy % state.cohort == 0 &&
                     state.offset < state.cohort);
    check_consistent(columns() == 1 || state.kept == weighed_->count);
    check_consistent(state.order.position >= state.took_over && state.step <= state.order.position);
    const bool is_alike = state.rules == rules_ && state.order.world_size == options_.world_size &&
                          state.order.micro_batches == options_.micro_batches;
    const uint64_t inside = (state.order.position - state.took_over) % state.order.micro_batches;
    if (!is_alike && inside != 0)
        fail(SAB_E_MISMATCH, "state: was saved inside a step, after micro-batch ", inside, " of ",
             state.order.micro_batches,
             ": another world size, or other options, can only go on from between two steps");
    return is_alike;
}

/// Goes where a state was saved, in the epoch whose samples are at hand.
void BalancedSampler::go_to(const BalancedState& state, bool is_alike) {
    const UnitPosition offset{state.unit, state.offset};
    schedule_ = {state.order.epoch, {state.cohort, state.heavy, state.kept}, {}, 0, 0, 0};
    order_units();
    check_consistent(offset.offset < order_.samples_of(order_.at(offset.unit % order_.units())));
    position_ = state.order.position;
    // nothing took over yet: all of the epoch can be reached
    const bool is_whole = is_alike && state.took_over == 0;
    if (!is_whole) {
        schedule_.first = offset;
        schedule_.first_step = state.step;
        schedule_.first_position =
            position_ - (position_ - state.took_over) % state.order.micro_batches;
        schedule_.took_over = is_alike ? state.took_over : position_;
    }
    make_steps({});
    check_consistent(position_ <= batch_count());
    if (is_whole) check_consistent(starts_[position_ / options_.micro_batches] == offset);
}

bool BalancedSampler::go_to_state(std::span<const std::byte> bytes) {
    BalancedState state{};
    const auto numbers = read_state(bytes, kind(), fingerprint(), choice(), state.order,
                                    std::as_writable_bytes(std::span(&state, 1)));
    check_consistent(numbers.empty());
    match_order(state.order, options_);
    attempt([&] {
        take_samples(state.order.epoch, {});
        go_to(state, check_state(state));
    });
    return state.order.has_ended == 1;
}

double imbalance_of(std::span<const double> costs, double sum) {
    return sum > 0 ? std::ranges::max(costs) * static_cast<double>(costs.size()) / sum : 1;
}

/// Adds the costs of the step at hand, by one of the balanced costs.
void BalancedSampler::measure(std::size_t balance, sab_balanced_report& report) const {
    const std::span part_costs(part_costs_.data() + balance * parts(), parts());
    std::vector<double> rank_costs(options_.world_size);
    double sum = 0;
    for (std::size_t part = 0; part < part_costs.size(); ++part) {
        rank_costs[part / options_.micro_batches] += part_costs[part];
        sum += part_costs[part];
    }
    const double imbalance = imbalance_of(rank_costs, sum);
    report.rank_imbalance[balance] += imbalance;
    report.largest_rank_imbalance[balance] =
        std::max(report.largest_rank_imbalance[balance], imbalance);
    report.micro_batch_imbalance[balance] += imbalance_of(part_costs, sum);
    report.time[balance] += std::ranges::max(rank_costs);
    report.least_time[balance] += sum;
}

sab_balanced_report BalancedSampler::report(const Progress& progress) {
    sab_balanced_report report = SAB_BALANCED_REPORT_INIT;
    report.samples = weighed_->count;
    report.skipped = skipped({});
    report.steps = starts_.size() - 1;
    report.columns = columns();
    report.balance_count = weighed_->balances;
    const std::size_t caps = weighed_->capacities.size();
    uint64_t seen = 0;
    PerBudget weights{};
    for (uint64_t step = 0; step < report.steps; ++step) {
        if (step % 16 == 0) progress.report(step, report.steps);
        load(step);
        seen += offsets_.size();
        for (std::size_t j = 0; j < columns(); ++j) report.total[j] += total_[j];
        for (std::size_t j = 0; j < caps; ++j)
            for (const double weight : step_.weight_table()[j]) weights[j] += weight;
        for (std::size_t k = 0; k < weighed_->balances; ++k) measure(k, report);
    }
    const auto steps = static_cast<double>(std::max<uint64_t>(report.steps, 1));
    // what came before is not known
    report.dropped = options_.last_step == SAB_LAST_STEP_DROP && schedule_.first_position == 0
                         ? weighed_->kept - seen
                         : 0;
    for (std::size_t j = 0; j < caps; ++j)
        report.fill = std::max(report.fill, weights[j] / (weighed_->capacities[j] *
                                                          static_cast<double>(parts()) * steps));
    for (std::size_t k = 0; k < weighed_->balances; ++k) {
        report.rank_imbalance[k] /= steps;
        report.micro_batch_imbalance[k] /= steps;
        report.least_time[k] /= static_cast<double>(options_.world_size);
    }
    return report;
}

}  // namespace sab
