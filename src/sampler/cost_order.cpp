#include "sampler/cost_order.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/rounding.h"
#include "base/sorting.h"
#include "sampler/pieces.h"

namespace sab {

CostOrder::CostOrder(std::vector<BatchClass> classes, uint64_t fewest,
                     const EpochOptions& epoch_options)
    : classes_(std::move(classes)), fewest_(std::max<uint64_t>(fewest, 1)) {
    for (const BatchClass& batch_class : classes_) {
        batches_ += batch_class.batches;
        has_lengths_ |= batch_class.length > 0;
        if (batch_class.chain != BatchClass::no_chain)
            chains_ = std::max(chains_, batch_class.chain + 1);
    }
    set_options(epoch_options);
}

CostOrder CostOrder::with_options(const EpochOptions& epoch_options) const {
    CostOrder order = *this;
    order.set_options(epoch_options);
    return order;
}

void CostOrder::set_options(const EpochOptions& epoch_options) {
    const EpochOptions old = std::exchange(epoch_options_, epoch_options);
    if (ranges_.empty() || epoch_options.step_batches != old.step_batches ||
        epoch_options.costliest_first != old.costliest_first ||
        epoch_options.micro_batches != old.micro_batches ||
        epoch_options.mix_lengths != old.mix_lengths)
        lay_out_steps();
    found_position_ = nowhere;
    ranks_key_ = epoch_key(epoch_options.seed, epoch_options.epoch, Purpose::ranks);
    samples_key_ = epoch_key(epoch_options.seed, epoch_options.epoch, Purpose::samples);
    micro_steps_key_ = epoch_key(epoch_options.seed, epoch_options.epoch, Purpose::micro_steps);
    lay_out_bands();
    permute_steps();
}

/// The classes in the order of ids.
std::vector<uint32_t> CostOrder::sorted_classes() const {
    std::vector<uint32_t> sorted = by_descending(keys_of(classes_, &BatchClass::cost));
    if (!is_by_length()) return sorted;
    for (auto band = sorted.begin(), next = band; band != sorted.end(); band = next) {
        const double least = equal_cost_by_length * classes_[*band].cost;
        next = std::find_if(band + 1, sorted.end(),
                            [&](uint32_t k) { return classes_[k].cost < least || least == 0; });
        std::sort(band, next, [&](uint32_t a, uint32_t b) {
            const double of_a = classes_[a].length, of_b = classes_[b].length;
            return of_a != of_b ? of_a > of_b : a < b;
        });
    }
    return sorted;
}

/// How many batches of each class the last step has.
std::vector<uint64_t> CostOrder::last_step_of(const LastStep& choice,
                                              std::span<const uint32_t> by_samples) const {
    std::vector<uint64_t> taken(classes_.size());
    uint64_t left = choice.count;
    const auto take = [&](std::size_t k, uint64_t most) {
        const uint64_t more = std::min({left, most, classes_[k].batches - taken[k]});
        taken[k] += more;
        left -= more;
    };
    for (const uint32_t k : choice.tails) take(k, left);
    take(choice.first, choice.of_first);
    for (std::size_t i = 0; i < by_samples.size() && left > 0; ++i)
        if (by_samples[i] != choice.first) take(by_samples[i], left);
    take(choice.first, left);
    return taken;
}

/// For how much cost the ranks wait in such a last step, of pieces of whole samples, and because of
/// tails that are elsewhere.
double CostOrder::waste_of(std::span<const uint64_t> last, std::span<const uint32_t> tails) const {
    std::vector<BatchRun> runs(chains_);
    double all = 0, highest = 0, waste = 0;
    for (std::size_t k = 0; k < classes_.size(); ++k) {
        const BatchClass& each = classes_[k];
        const double cost = static_cast<double>(last[k]) * each.cost;
        BatchRun& run = runs[each.chain];
        run.batches += last[k];
        run.most_pieces += last[k] * each.samples;
        run.cost += cost;
        all += cost;
        highest = std::max(highest, each.cost);
    }
    for (const uint32_t k : tails)
        if (last[k] == 0) waste += highest - classes_[k].cost;
    std::erase_if(runs, [](const BatchRun& run) { return run.batches == 0; });
    std::vector<uint64_t> samples;
    samples.reserve(runs.size());
    for (const BatchRun& run : runs) samples.push_back(run.most_pieces);
    uint64_t most_pieces = 0;
    for (BatchRun& run : runs)
        most_pieces += run.most_pieces = std::max(run.most_pieces / fewest_, run.batches);
    const auto ranks = static_cast<double>(epoch_options_.step_batches);
    const std::vector<uint64_t> pieces = divide(runs, epoch_options_.step_batches);
    double costliest = 0;
    for (std::size_t i = 0; i < runs.size(); ++i) {
        const uint64_t largest = (samples[i] + pieces[i] - 1) / pieces[i];
        const double share = static_cast<double>(largest) / static_cast<double>(samples[i]);
        costliest = std::max(costliest, share * runs[i].cost);
    }
    if (most_pieces < epoch_options_.step_batches) waste += highest * ranks;  // some get nothing
    return waste + (runs.empty() ? 0 : costliest * ranks - all);
}

/// The batches that do not fill a step are taken from the classes with the most samples. Where the
/// batches of a class follow each other, so that pieces can be of any size, several choices are
/// compared, with and without the tails of chains. A step of tails and full batches would waste
/// what the tails lack; here it is divided, even if it is full.
std::vector<uint64_t> CostOrder::last_step() const {
    const uint64_t world = epoch_options_.step_batches, over = batches_ % world;
    std::vector<uint32_t> tails, first_of_chain(chains_, ~uint32_t{0});
    for (uint32_t k = 0; k < classes_.size() && chains_ > 0; ++k) {
        uint32_t& first = first_of_chain[classes_[k].chain];
        if (first == ~uint32_t{0})
            first = k;
        else
            tails.push_back(k);
    }
    const std::vector<uint32_t> by_samples = by_descending(keys_of(classes_, &BatchClass::samples));
    if (classes_.empty()) return {};
    std::vector<uint64_t> best = last_step_of({over, {}, by_samples[0], over}, by_samples);
    const uint64_t count = over > 0 || tails.empty() ? over : world;
    if (!is_by_length() || chains_ == 0 || world == 1 || count == 0) return best;
    double least = waste_of(best, tails);
    const auto compare = [&](std::span<const uint32_t> first_tails, std::size_t first) {
        constexpr uint64_t most_tries = 32;
        const uint64_t most = std::min(count, classes_[first].batches),
                       step = most / most_tries + 1;
        for (uint64_t of_first = 0; of_first <= most; of_first += step) {
            std::vector<uint64_t> next =
                last_step_of({count, first_tails, first, of_first}, by_samples);
            const double waste = waste_of(next, tails);
            if (waste < least * (1 - 1e-9)) {
                least = waste;
                best = std::move(next);
            }
        }
    };
    if (over > 0) compare({}, by_samples[0]);
    if (!tails.empty() && tails.size() <= count)
        compare(tails, first_of_chain[classes_[tails[0]].chain]);
    return best;
}

void CostOrder::lay_out_steps() {
    const uint64_t world = epoch_options_.step_batches;
    const std::vector<uint64_t> last = last_step();
    full_step_batches_ = batches_ - std::accumulate(last.begin(), last.end(), uint64_t{0});
    const uint64_t full_steps = full_step_batches_ / world;
    costliest_steps_ = std::min(epoch_options_.costliest_first, full_step_batches_);
    costliest_steps_ = costliest_steps_ / world + (costliest_steps_ % world != 0);
    if (is_by_length()) {  // whole steps of the optimizer
        const uint64_t micro_batches = epoch_options_.micro_batches;
        costliest_steps_ = next_multiple(costliest_steps_, micro_batches);
        costliest_steps_ = std::min(costliest_steps_, full_steps);
    }
    ranges_.clear();
    uint64_t id = 0;
    const auto add = [&](std::size_t k, uint64_t first, uint64_t end) {
        if (first < end) ranges_.push_back({k, first, id += end - first});
    };
    std::vector<uint64_t> head(classes_.size());
    uint64_t left = costliest_steps_ * world;
    for (std::size_t k = 0; k < classes_.size() && left > 0; ++k) {
        head[k] = std::min(left, classes_[k].batches - last[k]);
        left -= head[k];
        add(k, 0, head[k]);
    }
    for (const uint32_t k : sorted_classes()) add(k, head[k], classes_[k].batches - last[k]);
    // The batches of a chain stay together.
    for (const uint32_t k : by_ascending(keys_of(classes_, &BatchClass::chain)))
        add(k, classes_[k].batches - last[k], classes_[k].batches);
}

/// Bands of an epoch: each ends before the batch that costs less than nine tenths of its first, or
/// is clearly shorter. Where lengths are mixed, cost alone counts. The first band is cut short by a
/// random amount, so that the borders are others in each epoch.
void CostOrder::lay_out_bands() {
    constexpr double equal_length = 0.97;
    const uint64_t first = costliest_steps_ * epoch_options_.step_batches,
                   random = permutation_key(epoch_options_.seed, epoch_options_.epoch,
                                            Purpose::bands, 0);
    const double short_of = static_cast<double>(random >> 11) * 0x1p-53 * (1 - equal_length);
    double top = 0, longest = 0, least = 0;
    bands_.clear();
    for (const IdRange& range : ranges_) {
        if (range.end_id > full_step_batches_) break;
        if (range.end_id <= first) continue;
        const double cost = classes_[range.batch_class].cost,
                     length = is_by_length() ? classes_[range.batch_class].length : 0;
        if (bands_.empty() || cost < equal_cost * top || length < least) {
            longest = length;
            least = (equal_length + (bands_.empty() ? short_of : 0)) * longest;
            top = cost;
            bands_.push_back({range.end_id, Permutation()});
        }
        bands_.back().end_id = range.end_id;
    }
    uint64_t begin = first;
    for (std::size_t b = 0; b < bands_.size(); ++b) {
        bands_[b].batches = Permutation(
            bands_[b].end_id - begin,
            permutation_key(epoch_options_.seed, epoch_options_.epoch, Purpose::batches, b));
        begin = bands_[b].end_id;
    }
}

/// The sorted steps are divided into as many parts as an optimizer step has micro-steps.
void CostOrder::permute_steps() {
    const uint64_t parts =
        is_by_length() ? std::max<uint64_t>(std::min(epoch_options_.micro_batches, steps()), 1) : 1;
    parts_.resize(parts);
    for (uint64_t part = 0; part < parts; ++part)
        parts_[part] = Permutation(
            first_of_part(part + 1) - first_of_part(part),
            permutation_key(epoch_options_.seed, epoch_options_.epoch, Purpose::steps, part));
}

uint64_t CostOrder::first_of_part(uint64_t part) const {
    return part * steps() / parts_.size();
}

/// The sorted step at a place of the epoch, both counted from the first that is permuted. The
/// micro-steps of an optimizer step are of different parts, in random order. If the last optimizer
/// step has fewer, they are of the parts that have one step more than others.
uint64_t CostOrder::step_at(uint64_t place) const {
    const uint64_t parts = parts_.size();
    if (parts == 1) return parts_[0](place);
    const uint64_t number = place / parts, micro_step = place % parts, over = steps() % parts,
                   part = number < steps() / parts
                              ? Permutation(parts, mix(micro_steps_key_ ^ number))(micro_step)
                              : ((micro_step + 1) * parts + over - 1) / over - 1;
    return first_of_part(part) + parts_[part](number);
}

CostOrder::Found CostOrder::find(uint64_t position) const {
    if (position == found_position_) return found_;
    uint64_t id = position;
    if (position < full_step_batches_) {
        const uint64_t step = position / epoch_options_.step_batches;
        if (step >= costliest_steps_) {
            id = (costliest_steps_ + step_at(step - costliest_steps_)) *
                     epoch_options_.step_batches +
                 position % epoch_options_.step_batches;
            const auto band = std::ranges::upper_bound(bands_, id, {}, &Band::end_id);
            const uint64_t first = band->end_id - band->batches.count();
            id = first + band->batches(id - first);
        }
    }
    const auto range = ranges_.size() == batches_  // one batch each
                           ? ranges_.begin() + static_cast<std::ptrdiff_t>(id)
                           : std::ranges::upper_bound(ranges_, id, {}, &IdRange::end_id);
    const uint64_t first = range == ranges_.begin() ? 0 : std::prev(range)->end_id;
    found_position_ = position;
    return found_ = {range->batch_class, range->first + (id - first)};
}

std::vector<CostOrder::Found> CostOrder::find_all() const {
    const uint64_t world = epoch_options_.step_batches;
    std::vector<uint32_t> steps(full_step_batches_ / world), ids(batches_), range_of(batches_);
    std::iota(steps.begin(), steps.end(), 0u);
    const std::span<uint32_t> permuted = std::span(steps).subspan(costliest_steps_);
    if (parts_.size() == 1)
        parts_[0].fill(0, permuted);
    else
        for (uint64_t place = 0; place < permuted.size(); ++place)
            permuted[place] = static_cast<uint32_t>(step_at(place));
    for (uint32_t& step : permuted) step += static_cast<uint32_t>(costliest_steps_);
    std::iota(ids.begin(), ids.end(), 0u);
    uint64_t first = costliest_steps_ * world;
    for (const Band& band : bands_) {
        const std::span<uint32_t> part(ids.data() + first, band.batches.count());
        band.batches.fill(0, part);
        for (uint32_t& id : part) id += static_cast<uint32_t>(first);
        first = band.end_id;
    }
    const auto begin_of = [&](std::size_t range) {
        return range == 0 ? 0 : ranges_[range - 1].end_id;
    };
    for (std::size_t range = 0; range < ranges_.size(); ++range)
        std::fill(range_of.begin() + static_cast<std::ptrdiff_t>(begin_of(range)),
                  range_of.begin() + static_cast<std::ptrdiff_t>(ranges_[range].end_id),
                  static_cast<uint32_t>(range));
    std::vector<Found> all(batches_);
    for (uint64_t position = 0; position < batches_; ++position) {
        uint64_t place = position;
        if (place < full_step_batches_) place = steps[place / world] * world + place % world;
        const uint32_t id = ids[place], range = range_of[id];
        all[position] = {ranges_[range].batch_class, ranges_[range].first + (id - begin_of(range))};
    }
    return all;
}

}  // namespace sab
