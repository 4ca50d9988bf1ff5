#include "balance/balanced.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <tuple>

#include "base/hasher.h"
#include "base/log.h"
#include "sampler/capabilities.h"
#include "sampler/cursor.h"
#include "sampler/state.h"

namespace sab {
namespace {

constexpr double heavy_share = 1.0 / 8;  // of a micro-batch's mean cost
constexpr double band_width = 0.99;      // sizes in a band, to the largest
// of sums of as many numbers as there may be samples in a micro-batch
constexpr double rounding_of_sums = 1e-9;
constexpr uint64_t ahead_count = 1024;  // units permuted at once

}  // namespace

/// What samples cost in a row, asked for in ascending order of their sizes.
class RowCost {
public:
    /// `name` is that of the cost in messages.
    RowCost(Cost cost, std::string name) : cost_(std::move(cost)), name_(std::move(name)) {
        cost_.check_row(name_);
    }
    double operator()(double size) {
        const double cost = cost_.in_row(size, name_);
        if (cost < before_)
            fail(SAB_E_ARGUMENT, name_, ": a sample of length ", size, " costs ", cost,
                 ", a shorter one ", before_, ": must never decrease");
        return before_ = cost;
    }

private:
    Cost cost_;
    std::string name_;
    double before_ = 0;
};

/// What micro-batches may hold: how much of it each size takes.
class BalancedSampler::Budgets {
public:
    explicit Budgets(const sab_balanced_options& balanced) {
        for (Budget& budget :
             read_budgets(balanced.budgets, balanced.budget_count, "balanced.budgets")) {
            const double room = budget.limit - budget.cost.constant();
            are_totals_ = are_totals_ && budget.cost.is_total();
            const std::string name = text("balanced.budgets[", all_.size(), "]");
            all_.push_back({{std::move(budget.cost), name + ".cost"}, budget.limit, room, 0});
        }
    }

    /// Takes the next size; false when a sample of it exceeds a budget alone.
    bool take(double size) {
        for (exceeded_ = 0; exceeded_ < all_.size(); ++exceeded_) {
            One& one = all_[exceeded_];
            one.needs = one.cost(size);
            if (one.needs > one.room) return false;
        }
        return true;
    }
    /// By the first budget, of the size that was taken last.
    double cost(double size) const { return all_.empty() ? size : all_[0].needs; }
    double weight(double size) const {
        if (all_.size() <= 1) return cost(size);
        // If the largest fractions of the samples sum to at most 1, so do those of each budget.
        double fraction = 0;
        for (const One& one : all_) fraction = std::max(fraction, one.needs / one.room);
        return fraction;
    }

    /// Of a micro-batch; 0: no budget.
    double capacity(bool has_whole_sizes) const {
        if (all_.empty()) return 0;
        const double exact = all_.size() == 1 ? all_[0].room : 1;
        // Sums of whole numbers are exact. Others are rounded, differently in each order: a little
        // room ensures that none of them is over the budget.
        return all_.size() == 1 && are_totals_ && has_whole_sizes ? exact
                                                                  : exact * (1 - rounding_of_sums);
    }
    /// "balanced.budgets[0].limit = 16", of the budget that the size taken last exceeded.
    std::string exceeded() const {
        return text("balanced.budgets[", exceeded_, "].limit = ", all_[exceeded_].limit);
    }

private:
    struct One {
        RowCost cost;
        double limit;
        double room;   ///< the limit without the constant of the cost
        double needs;  ///< of it, by the size taken last
    };
    std::vector<One> all_;
    std::size_t exceeded_ = 0;
    bool are_totals_ = true;
};

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

BalancedSampler::BalancedSampler(const Sizes& sizes, const sab_balanced_options& balanced,
                                 const sab_sampler_options& options)
    : options_(options),
      samples_(balanced.samples),
      fill_(balanced.fill),
      method_(balanced.method) {
    check_sampler_options(options);
    check(options.world_size <= most_parts / options.micro_batches, "options.world_size",
          options.world_size, "times options.micro_batches = ", options.micro_batches,
          " must be at most ", most_parts);
    check(balanced.fill > 0 && balanced.fill <= 1, "balanced.fill", balanced.fill,
          "must be above 0 and at most 1");
    check(balanced.method >= SAB_PARTITION_KARMARKAR_KARP &&
              balanced.method <= SAB_PARTITION_LONGEST_FIRST,
          "balanced.method", balanced.method,
          "must be SAB_PARTITION_KARMARKAR_KARP (0) or SAB_PARTITION_LONGEST_FIRST (1)");
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
    Budgets budgets(balanced);
    const std::optional<Cost> balance =
        read_balance(balanced.balance, balanced.balance_count, "balanced.balance");

    const Progress progress(balanced.progress, balanced.progress_ctx);
    sorted_ = sort_by_size(sizes, true, progress);
    weigh(balanced, budgets, balance);
    Hasher hash;
    hash.add_all(std::span(sorted_.distinct_sizes));
    hash.add_all(std::span(sorted_.first_offsets));
    hash.add_bytes(sorted_.order.get(), sorted_.count * sizeof(uint32_t));
    fingerprint_ = hash.digest();
    rules_ = rules();
    schedule_.epoch = options.epoch;
    schedule_.cohort = parts();
    schedule_.heavy = heavy_of(schedule_.cohort);
    schedule_.kept = kept_;
    permute_units();
    make_steps(progress);
}

/// Names the first of the samples from the sorted offset `kept` on, which no micro-batch can hold.
[[noreturn]] static void refuse_oversize(const Sorted& sorted, uint64_t kept,
                                         std::string_view budget) {
    const auto count = static_cast<uint32_t>(sorted.count);
    const uint32_t first = first_sample(sorted, static_cast<uint32_t>(kept), count);
    fail(SAB_E_ARGUMENT, std::string_view(described(sorted, first)), ": must fit ", budget,
         " alone; ", count - kept, " of ", count,
         " samples do not. Set balanced.oversize to SAB_OVERSIZE_SKIP (0), or use a larger budget");
}

/// Costs and weights of the distinct sizes, and how many samples are not too large.
void BalancedSampler::weigh(const sab_balanced_options& balanced, Budgets& budgets,
                            const std::optional<Cost>& balance) {
    std::optional<RowCost> balanced_cost;
    if (balance) balanced_cost.emplace(*balance, "balanced.balance[0]");
    has_whole_sizes_ = std::ranges::all_of(sorted_.distinct_sizes,
                                           [](double size) { return size == std::floor(size); });
    capacity_ = budgets.capacity(has_whole_sizes_);

    kept_ = sorted_.count;
    distinct_of_.resize(sorted_.count);
    double all_cost = 0, all_weight = 0;
    for (std::size_t i = 0; i < sorted_.distinct_sizes.size(); ++i) {
        const double size = sorted_.distinct_sizes[i];
        const uint32_t begin = sorted_.first_offsets[i], end = sorted_.first_offsets[i + 1];
        std::fill(distinct_of_.begin() + begin, distinct_of_.begin() + end,
                  static_cast<uint32_t>(i));
        if (begin >= kept_ || !budgets.take(size)) {
            kept_ = std::min<uint64_t>(kept_, begin);
            sample_costs_.push_back({0, capacity_});
            continue;
        }
        SampleCost distinct{balanced_cost ? (*balanced_cost)(size) : budgets.cost(size),
                            budgets.weight(size)};
        if (capacity_ > 0) distinct.weight = std::min(distinct.weight, capacity_);
        sample_costs_.push_back(distinct);
        all_cost += distinct.cost * (end - begin);
        all_weight += distinct.weight * (end - begin);
    }
    const uint64_t over = sorted_.count - kept_;
    if (over > 0 && balanced.oversize == SAB_OVERSIZE_ERROR)
        refuse_oversize(sorted_, kept_, budgets.exceeded());
    if (kept_ == 0)
        fail(SAB_E_ARGUMENT, "sizes: no sample is left: all ", over,
             " are over a budget of a micro-batch alone");
    if (over > 0)
        log(SAB_LOG_WARNING, "skipped ", over, " of ", sorted_.count,
            " samples: each over a budget of a micro-batch alone");
    if (!std::isfinite(all_cost))
        fail(SAB_E_ARGUMENT, balance ? "balanced.balance[0]" : "balanced.budgets[0].cost",
             ": costs must have a finite sum");
    mean_cost_ = all_cost / static_cast<double>(kept_);
    mean_weight_ = all_weight / static_cast<double>(kept_);
}

/// All that says, beside the samples, where a step ends and who takes what of it.
uint64_t BalancedSampler::rules() const {
    Hasher hash;
    for (const uint64_t number : {options_.world_size, options_.micro_batches, samples_,
                                  static_cast<uint64_t>(method_), kept_})
        hash.add(number);
    for (const double number : {fill_, capacity_}) hash.add(number);
    hash.add_all(std::span(sample_costs_));
    return hash.digest();
}

/// How many samples cost so much that they must come in cohorts.
uint64_t BalancedSampler::heavy_of(uint64_t cohort) const {
    if (cohort == 1) return 0;
    const auto all_parts = static_cast<double>(parts());
    double step_samples = static_cast<double>(samples_);
    if (capacity_ > 0 && mean_weight_ > 0) {
        const double fitting = room() / mean_weight_;
        step_samples = samples_ > 0 ? std::min(step_samples, fitting) : fitting;
    }
    if (step_samples == 0) step_samples = static_cast<double>(kept_);  // samples that take no room
    const double least = heavy_share * mean_cost_ * step_samples / all_parts;
    const auto kept_costs =
        std::span(sample_costs_).first(distinct_of_[kept_ - 1] + std::size_t{1});
    const auto first = std::ranges::partition_point(
        kept_costs, [&](const SampleCost& each) { return each.cost <= least; });
    const uint64_t offset =
        sorted_.first_offsets[static_cast<std::size_t>(first - kept_costs.begin())];
    return offset < kept_ ? (kept_ - offset) / cohort * cohort : 0;
}

/// The permutations of the epoch.
void BalancedSampler::permute_units() {
    const auto key = [&](Purpose purpose, uint64_t which) {
        return permutation_key(options_.seed, schedule_.epoch, purpose, which);
    };
    bands_.clear();
    for (uint64_t begin = 0; begin < schedule_.heavy;) {
        // By size, not by cost: whoever goes on with another cost must find the same order.
        const double least =
            band_width * sorted_.distinct_sizes[distinct_of_[schedule_.kept - 1 - begin]];
        const auto first = std::ranges::lower_bound(sorted_.distinct_sizes, least) -
                           sorted_.distinct_sizes.begin();
        const uint64_t end = std::min<uint64_t>(
            schedule_.heavy,
            schedule_.kept - sorted_.first_offsets[static_cast<std::size_t>(first)]);
        bands_.push_back({end, Permutation(end - begin, key(Purpose::cohorts, bands_.size()))});
        begin = end;
    }
    units_ = Permutation(units(), key(Purpose::units, 0));
    ahead_.clear();
    loaded_.reset();
}

uint32_t BalancedSampler::permuted(uint64_t unit) {
    if (unit - ahead_first_ >= ahead_.size()) {
        const uint64_t first = unit - unit % ahead_count;
        ahead_.resize(std::min(ahead_count, units() - first));
        ahead_first_ = first;
        units_.fill(ahead_first_, ahead_);
    }
    return ahead_[unit - ahead_first_];
}

/// Takes what is left of a unit, or the first `most` samples of that, into offsets_: but for those
/// that are too large now.
void BalancedSampler::append(UnitPosition& at, uint64_t most) {
    const uint32_t unit = permuted(at.unit % units());
    const bool is_cohort = unit < cohorts();
    const uint64_t left = (is_cohort ? schedule_.cohort : 1) - at.offset,
                   count = std::min(left, most);
    for (uint64_t i = 0; i < count; ++i) {
        uint64_t offset = unit - cohorts();
        if (is_cohort) {
            const uint64_t from_longest = unit * schedule_.cohort + at.offset + i;
            const auto band = std::ranges::upper_bound(bands_, from_longest, {}, &Band::end);
            const uint64_t first = band->end - band->offsets.count();
            offset = schedule_.kept - 1 - (first + band->offsets(from_longest - first));
        }
        if (offset < kept_) offsets_.push_back(static_cast<uint32_t>(offset));
    }
    at = count == left ? UnitPosition{at.unit + 1, 0} : UnitPosition{at.unit, at.offset + count};
}

/// Of the samples in offsets_ from one on.
double BalancedSampler::weight_from(std::size_t first) const {
    double sum = 0;
    for (std::size_t i = first; i < offsets_.size(); ++i) sum += sample_cost(offsets_[i]).weight;
    return sum;
}

/// The end of the step that begins at a position. Its samples are then in offsets_. `is_full`: no
/// more would have fitted.
BalancedSampler::UnitPosition BalancedSampler::next_start(UnitPosition at, bool& is_full) {
    const UnitPosition begin = at;
    const uint64_t all = parts(),
                   end_unit = options_.last_step == SAB_LAST_STEP_WRAP ? ~uint64_t{0} : units();
    const uint64_t most = samples_ > 0                               ? samples_
                          : options_.last_step == SAB_LAST_STEP_WRAP ? std::max(kept_, all)
                                                                     : kept_;
    offsets_.clear();
    double weight = 0, largest = 0;
    is_full = false;
    while (at.unit < end_unit && offsets_.size() < most) {
        // Of a cohort as many at a time as there are micro-batches, so that each gets another.
        const UnitPosition before = at;
        const std::size_t count = offsets_.size();
        append(at, std::min(most - count, all));
        if (capacity_ == 0) continue;
        double more = weight_from(count);
        if (count > 0 && weight + more > room()) {
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
                more = weight_from(count);
            }
        }
        weight += more;
        for (std::size_t i = count; i < offsets_.size(); ++i)
            largest = std::max(largest, sample_cost(offsets_[i]).weight);
    }
    is_full = is_full || (samples_ > 0 && offsets_.size() == samples_) ||
              (capacity_ > 0 && weight + mean_weight_ > room());
    // The least loaded micro-batch holds at most the mean, so any sample fits if the mean and the
    // largest sample together do not exceed the capacity.
    if (capacity_ > 0 && offsets_.size() > all &&
        weight / static_cast<double>(all) + largest > capacity_) {
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
    const uint64_t end = units();
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
    double left = weight_from(0) / 2;
    offsets_.clear();
    for (middle = begin; (left > 0 || offsets_.size() < parts()) && middle != end;) {
        const std::size_t count = offsets_.size();
        append(middle, parts());
        left -= weight_from(count);
    }
    const bool fits = middle.unit < end.unit && assign();
    if (fits) gather(middle, end);
    if (!fits || !assign()) middle = before;
}

/// Gathers the samples between two positions.
void BalancedSampler::gather(UnitPosition at, UnitPosition end) {
    offsets_.clear();
    while (at != end) append(at, at.unit == end.unit ? end.offset - at.offset : schedule_.cohort);
}

/// Deals the samples in offsets_ to the micro-batches of the step; false when they do not fit.
bool BalancedSampler::assign() {
    costs_.clear();
    weights_.clear();
    for (const uint32_t offset : offsets_) {
        costs_.push_back(sample_cost(offset).cost);
        if (capacity_ > 0) weights_.push_back(sample_cost(offset).weight);
    }
    part_of_.resize(offsets_.size());
    return partitioner_.partition(costs_, weights_, {method_, parts(), false, capacity_}, part_of_);
}

/// Makes a step, counted from schedule_.first, the one at hand.
void BalancedSampler::load(uint64_t step) {
    if (loaded_ == step) return;
    loaded_.reset();
    gather(starts_[step], starts_[step + 1]);
    if (!assign()) fail(SAB_E_INTERNAL, "balanced sampler: a step does not fit its micro-batches");
    total_ = 0;
    for (const uint32_t offset : offsets_) total_ += sorted_.distinct_sizes[distinct_of_[offset]];

    // Parts in random order, so that no rank always gets the costliest; several of a rank so that
    // ranks are even, too.
    const auto all = static_cast<uint32_t>(parts());
    part_costs_.assign(all, 0);
    for (std::size_t i = 0; i < offsets_.size(); ++i) part_costs_[part_of_[i]] += costs_[i];
    rank_of_part_.resize(all);
    const Permutation shuffled(all, permutation_key(options_.seed, schedule_.epoch, Purpose::parts,
                                                    schedule_.first_step + step));
    if (options_.micro_batches == 1 || options_.world_size == 1) {
        for (uint32_t part = 0; part < all; ++part)
            rank_of_part_[part] = static_cast<uint32_t>(shuffled(part) / options_.micro_batches);
    } else {
        partitioner_.partition(part_costs_, {}, {method_, options_.world_size, true, 0},
                               rank_of_part_);
        const Permutation ranks(options_.world_size,
                                permutation_key(options_.seed, schedule_.epoch, Purpose::parts,
                                                ~(schedule_.first_step + step)));
        for (uint32_t& rank : rank_of_part_) rank = static_cast<uint32_t>(ranks(rank));
    }
    slot_of_part_.resize(all);
    std::vector<uint32_t> next(options_.world_size);
    for (uint32_t i = 0; i < all; ++i) {
        const auto part = static_cast<uint32_t>(shuffled(i));
        const uint32_t rank = rank_of_part_[part];
        slot_of_part_[part] = rank * static_cast<uint32_t>(options_.micro_batches) + next[rank]++;
    }
    slot_begin_.assign(all + 1, 0);
    for (const uint32_t part : part_of_) ++slot_begin_[slot_of_part_[part] + 1];
    std::partial_sum(slot_begin_.begin(), slot_begin_.end(), slot_begin_.begin());
    dealt_.resize(offsets_.size());
    std::vector<std::size_t> to(slot_begin_.begin(), slot_begin_.end() - 1);
    for (std::size_t i = 0; i < offsets_.size(); ++i)
        dealt_[to[slot_of_part_[part_of_[i]]]++] = offsets_[i];
    loaded_ = step;
}

void BalancedSampler::fill(uint64_t position, EpochBatch& placed) {
    const uint64_t after = position - schedule_.first_position,
                   step = after / options_.micro_batches;
    load(step);
    const uint64_t slot = options_.rank * options_.micro_batches + after % options_.micro_batches;
    const std::size_t begin = slot_begin_[slot], end = slot_begin_[slot + 1];
    Batch& batch = placed.batch;
    batch.fill(end - begin, [&](uint64_t i) {
        const uint32_t offset = dealt_[begin + i];
        return Sample{sorted_.order[offset], sorted_.distinct_sizes[distinct_of_[offset]]};
    });
    batch.padded_length = batch.total;
    batch.is_row = true;
    batch.cu_seqlens.clear();
    if (has_whole_sizes_ && batch.total <= std::numeric_limits<int32_t>::max()) {
        batch.cu_seqlens.push_back(0);
        for (std::size_t i = begin; i < end; ++i)
            batch.cu_seqlens.push_back(
                batch.cu_seqlens.back() +
                static_cast<int32_t>(sorted_.distinct_sizes[distinct_of_[dealt_[i]]]));
    }
    placed.epoch = schedule_.epoch;
    placed.position = position;
    placed.step = schedule_.first_step + step;
    placed.micro_batch = after % options_.micro_batches;
}

StepTotals BalancedSampler::step_of(const EpochBatch& batch) {
    load(batch.step - schedule_.first_step);
    return {options_.micro_batches, offsets_.size(), total_};
}

uint64_t BalancedSampler::read(uint64_t position, uint64_t /*room*/, EpochBatch& batch) {
    fill(position, batch);
    return batch.batch.count;
}

/// Goes elsewhere. A failure leaves all as it was.
template <class Body>
void BalancedSampler::attempt(Body&& body) {
    auto mine = std::tie(schedule_, bands_, units_, starts_, position_);
    auto before = std::make_tuple(schedule_, bands_, units_, starts_, position_);
    try {
        body();
    } catch (...) {
        mine = std::move(before);
        ahead_.clear();
        loaded_.reset();
        throw;
    }
}

void BalancedSampler::go_to_epoch(uint64_t epoch) {
    attempt([&] {
        schedule_ = {epoch, parts(), heavy_of(parts()), kept_, {}, 0, 0, 0};
        position_ = 0;
        permute_units();
        make_steps({});
    });
}

std::size_t BalancedSampler::save(std::span<std::byte> out) const {
    const uint64_t step = (position_ - schedule_.first_position) / options_.micro_batches;
    const BalancedState state{order_state(),
                              schedule_.took_over,
                              schedule_.first_step + step,
                              starts_[step].unit,
                              schedule_.cohort,
                              schedule_.heavy,
                              schedule_.kept,
                              rules_,
                              starts_[step].offset};
    return write_state(kind(), fingerprint_, std::as_bytes(std::span(&state, 1)), out);
}

/// Refuses a state whose fields cannot be, as far as they show it without the epoch's layout.
void BalancedSampler::check_state(const BalancedState& state) const {
    check_consistent(state.cohort >= 1 && state.cohort <= most_parts);
    check_consistent(state.kept >= 1 && state.kept <= sorted_.count && state.heavy <= state.kept &&
                     state.heavy % state.cohort == 0 && state.offset < state.cohort);
    check_consistent(state.order.position >= state.took_over && state.step <= state.order.position);
}

/// Goes where a state was saved. `is_alike`: the steps end where they did for those who saved it.
void BalancedSampler::go_to(const BalancedState& state, bool is_alike) {
    const UnitPosition offset{state.unit, state.offset};
    schedule_ = {state.order.epoch, state.cohort, state.heavy, state.kept, {}, 0, 0, 0};
    permute_units();
    check_consistent(offset.offset == 0 || permuted(offset.unit % units()) < cohorts());
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
    read_state(bytes, kind(), fingerprint_, std::as_writable_bytes(std::span(&state, 1)));
    match_order(state.order, options_);
    check_state(state);
    const bool is_alike = state.rules == rules_ && state.order.world_size == options_.world_size &&
                          state.order.micro_batches == options_.micro_batches;
    const uint64_t inside = (state.order.position - state.took_over) % state.order.micro_batches;
    if (!is_alike && inside != 0)
        fail(SAB_E_MISMATCH, "state: was saved inside a step, after micro-batch ", inside, " of ",
             state.order.micro_batches,
             ": another world size, or other options, can only go on from between two steps");
    attempt([&] { go_to(state, is_alike); });
    return state.order.has_ended == 1;
}

sab_balanced_report BalancedSampler::report(const Progress& progress) {
    sab_balanced_report report = SAB_BALANCED_REPORT_INIT;
    report.samples = sorted_.count;
    report.skipped = skipped({});
    report.steps = starts_.size() - 1;
    uint64_t seen = 0;
    double weight = 0, cost = 0, micro_batch_imbalance = 0, rank_imbalance = 0;
    report.largest_rank_imbalance = report.steps > 0 ? 1 : 0;
    std::vector<double> rank_costs(options_.world_size);
    for (uint64_t step = 0; step < report.steps; ++step) {
        if (step % 16 == 0) progress.report(step, report.steps);
        load(step);
        seen += offsets_.size();
        report.total += total_;
        for (const double each : weights_) weight += each;
        std::ranges::fill(rank_costs, 0.0);
        double sum = 0;
        for (std::size_t part = 0; part < part_costs_.size(); ++part) {
            rank_costs[slot_of_part_[part] / options_.micro_batches] += part_costs_[part];
            sum += part_costs_[part];
        }
        const double slowest = std::ranges::max(rank_costs),
                     costliest = std::ranges::max(part_costs_);
        const double imbalance =
            sum > 0 ? slowest * static_cast<double>(options_.world_size) / sum : 1;
        rank_imbalance += imbalance;
        report.largest_rank_imbalance = std::max(report.largest_rank_imbalance, imbalance);
        micro_batch_imbalance += sum > 0 ? costliest * static_cast<double>(parts()) / sum : 1;
        report.time += slowest;
        cost += sum;
    }
    const auto steps = static_cast<double>(std::max<uint64_t>(report.steps, 1));
    // what came before is not known
    report.dropped = options_.last_step == SAB_LAST_STEP_DROP && schedule_.first_position == 0
                         ? kept_ - seen
                         : 0;
    report.fill = capacity_ > 0 ? weight / (capacity_ * static_cast<double>(parts()) * steps) : 0;
    report.rank_imbalance = rank_imbalance / steps;
    report.micro_batch_imbalance = micro_batch_imbalance / steps;
    report.least_time = cost / static_cast<double>(options_.world_size);
    return report;
}

}  // namespace sab
