#include "sampler/rest.h"

#include <algorithm>
#include <tuple>

#include "sampler/cost_order.h"
#include "sampler/even_order.h"
#include "sampler/state.h"

namespace sab {

Rest::Rest(const Sequence& epoch, RestBegin begin, std::span<const uint64_t> most, uint64_t fewest,
           uint64_t world_size, const EpochOptions& epoch_options)
    : epoch_(epoch), begin_(std::move(begin)), cuts_(most.size()) {
    const std::vector<Whole> wholes = measure();
    uint64_t batches = 0;
    for (std::size_t b = 0; b < most.size(); ++b) {
        cuts_[b].divide(std::max<uint64_t>(1, most[b]), fewest);
        batches += cuts_[b].batches;
    }
    const uint64_t last = batches % world_size;
    const auto rule = epoch_.rule();
    const bool keeps_dues = has_mixtures && rule == Sequence::Rule::dues,
               by_cost = rule == Sequence::Rule::equal_cost;
    // Batches chosen for their samples are far from the dues: as few as have one for each rank.
    for (uint64_t chosen = keeps_dues ? 0 : last;; chosen = std::min(last, 2 * chosen + 1)) {
        choose_last_step(chosen);
        const uint64_t fixed =
            lay_out(wholes, world_size, epoch_options, by_cost && world_size > 1);
        if (keeps_dues) keep_dues(fixed, batches - chosen, world_size);
        uint64_t in_last = 0;
        for (uint64_t i = batches - last; i < batches; ++i) in_last += samples(i) / fewest;
        if (chosen == last || in_last >= world_size) return;
    }
}

Rest::Rest(const Rest& other, const Sequence& epoch)
    : epoch_(epoch),
      begin_(other.begin_),
      cuts_(other.cuts_),
      starts_(other.starts_),
      is_short_(other.is_short_),
      next_(other.next_) {}

/// As few batches as can be, all but one with `most` samples. If that one would have too few, all
/// share the samples evenly. Where that leaves each of them too few, one batch is left out.
void Rest::Cut::divide(uint64_t most_samples, uint64_t fewest) {
    most = most_samples;
    batches = left / most + (left % most != 0);
    if (batches == 0) return;
    shorts = 1;
    short_samples = left - (batches - 1) * most;
    if (short_samples >= fewest) return;
    if (most < fewest) {
        batches = shorts = 0;
    } else if (left < batches * fewest) {
        short_samples = most;
        shorts = std::min<uint64_t>(--batches, 1);
    } else {
        short_samples = left / batches;
        shorts = batches - left % batches;
        most = short_samples + (left % batches != 0);
    }
}

/// Counts what is left of each bucket, and links the batches of the epoch, which it returns.
std::vector<Rest::Whole> Rest::measure() {
    std::vector<Whole> wholes(epoch_.batches() - begin_.batch);
    std::vector<std::size_t> last(cuts_.size());
    next_.resize(wholes.size());
    for (std::size_t i = 0; i < wholes.size(); ++i) {
        const uint64_t position = begin_.batch + i, samples = epoch_.samples(position);
        const std::size_t b = epoch_.bucket(position);
        wholes[i] = {static_cast<uint32_t>(b), static_cast<uint32_t>(samples)};
        Cut& of = cuts_[b];
        if (of.left > 0) next_[last[b]] = static_cast<uint32_t>(position);
        of.left += samples;
        of.sample_cost = epoch_.cost(position) / static_cast<double>(samples);
        of.length = epoch_.length(position);
        last[b] = i;
    }
    for (std::size_t b = 0; b < begin_.done.size(); ++b) {
        check_consistent(begin_.done[b] <= cuts_[b].left);
        cuts_[b].left -= begin_.done[b];
    }
    return wholes;
}

/// Chooses the batches with the most samples. Shorter ones of a bucket then come before them.
void Rest::choose_last_step(uint64_t left) {
    std::vector<std::tuple<uint64_t, std::size_t, uint64_t>> alike;  // samples, bucket, batches
    for (std::size_t b = 0; b < cuts_.size(); ++b) {
        const Cut& of = cuts_[b];
        if (of.batches == 0) continue;
        alike.emplace_back(of.most, b, of.batches - of.shorts);
        alike.emplace_back(of.short_samples, b, of.shorts);
    }
    std::ranges::sort(alike, std::greater{});
    for (Cut& of : cuts_) of.last_step = 0;
    for (const auto& [samples, b, count] : alike) {
        const uint64_t chosen = std::min(left, count);
        cuts_[b].last_step += chosen;
        left -= chosen;
    }
}

/// Puts the batches in order. Returns the number of those that begin the epoch because they are
/// among its costliest, in whole steps.
uint64_t Rest::lay_out(std::span<const Whole> wholes, uint64_t world_size,
                       const EpochOptions& epoch_options, bool by_cost) {
    std::vector<Label> labels;
    uint64_t fixed = 0;
    const auto is_short = [&](std::size_t b, uint64_t index) {
        const Cut& of = cuts_[b];
        return index + of.last_step + of.shorts >= of.batches;
    };
    walk(wholes, is_short, [&](std::size_t b, uint64_t index, const Start& start) {
        const Cut& of = cuts_[b];
        if (index + of.last_step >= of.batches) return;
        labels.push_back({static_cast<uint32_t>(b), is_short(b, index)});
        if (start.batch < epoch_options.costliest_first) fixed = labels.size();
    });
    fixed += (world_size - fixed % world_size) % world_size;
    if (by_cost) sort_steps(labels, fixed, world_size, epoch_options.mix_lengths);
    for (std::size_t b = 0; b < cuts_.size(); ++b)
        for (uint64_t i = 1; i <= cuts_[b].last_step; ++i)
            labels.push_back({static_cast<uint32_t>(b), i + cuts_[b].shorts > cuts_[b].batches});
    cut(labels, wholes);
    return fixed;
}

/// Puts the first `count` batches of a mixture in another order, in which every source is near its
/// due.
void Rest::keep_dues(uint64_t fixed, uint64_t count, uint64_t world_size) {
    const EpochChoice& choice = *epoch_.choice();
    SourceAmounts amounts(choice.sources(), choice.extremes().second);
    std::vector<uint32_t> buckets;
    std::vector<double> costs;
    Batch batch;
    for (uint64_t i = 0; i < count; ++i) {
        fill(i, 0, samples(i), batch);
        amounts.add(batch.count, [&](std::size_t k) {
            const auto sample = static_cast<std::size_t>(batch.buffer[k]);
            return SourceAmounts::Part{choice.source_of()[sample], choice.size_of(sample)};
        });
        amounts.finish();
        buckets.push_back(static_cast<uint32_t>(bucket(i)));
        costs.push_back(cost(i));
    }
    const std::vector<Start> starts = starts_;
    const std::vector<bool> is_short = is_short_;
    std::size_t to = 0;
    for (const uint32_t i : even_merge(amounts, buckets, costs, fixed, world_size)) {
        starts_[to] = starts[i];
        is_short_[to++] = is_short[i];
    }
}

/// Calls `visit(bucket, index, start)` for each batch, in the order of their first samples.
template <class IsShort, class Visit>
void Rest::walk(std::span<const Whole> wholes, const IsShort& is_short, Visit&& visit) const {
    struct Next {
        uint64_t samples;  ///< before the next batch, from the batch of the epoch at hand on
        uint64_t batches;
    };
    std::vector<Next> progress(cuts_.size());
    for (std::size_t b = 0; b < begin_.done.size(); ++b) progress[b].samples = begin_.done[b];
    auto position = static_cast<uint32_t>(begin_.batch);
    for (const auto& [b, samples] : wholes) {
        const Cut& of = cuts_[b];
        auto& [next, index] = progress[b];
        for (; next < samples && index < of.batches; ++index) {
            visit(b, index, Start{position, static_cast<uint32_t>(next)});
            next += is_short(b, index) ? of.short_samples : of.most;
        }
        next -= std::min<uint64_t>(next, samples);
        ++position;
    }
}

/// Sorts the batches of some steps by cost, so that those of each step cost nearly the same. The
/// steps stand in the order of their first batches.
void Rest::sort_steps(std::vector<Label>& labels, uint64_t first, uint64_t world_size,
                      bool mix_lengths) const {
    constexpr uint64_t most_steps = 64;
    const bool by_length =
        !mix_lengths && std::ranges::any_of(cuts_, [](const Cut& of) { return of.length > 0; });
    const double equal_cost = by_length ? CostOrder::equal_cost_by_length : CostOrder::equal_cost;
    struct Priced {
        double cost;
        std::size_t place;
        Label label;
    };
    std::vector<Priced> batches;
    std::vector<std::pair<std::size_t, std::size_t>> steps;  // the first place, and the step
    for (; first < labels.size(); first += batches.size()) {
        const uint64_t count = std::min(labels.size() - first, most_steps * world_size);
        batches.clear();
        for (const Label& label : std::span(labels).subspan(first, count))
            batches.push_back({cuts_[label.bucket].cost(label), batches.size(), label});
        std::ranges::stable_sort(batches, std::greater{}, &Priced::cost);
        // Where those of nearly equal cost are not sorted by length, they stay as they are, so that
        // steps mix buckets.
        for (auto band = batches.begin(), next = band; band != batches.end(); band = next) {
            next = std::find_if(band, batches.end(), [&](const Priced& batch) {
                return batch.cost < equal_cost * band->cost;
            });
            std::ranges::sort(band, next, {}, [&](const Priced& batch) {
                const double length = by_length ? cuts_[batch.label.bucket].length : 0;
                return std::pair(-length, batch.place);
            });
        }
        steps.clear();
        for (std::size_t i = 0; i < count; i += world_size) {
            const auto step = std::span(batches).subspan(i, world_size);
            steps.emplace_back(std::ranges::min(step, {}, &Priced::place).place, i);
        }
        std::ranges::sort(steps);
        auto to = labels.begin() + static_cast<std::ptrdiff_t>(first);
        for (const auto& [place, step] : steps)
            to = std::ranges::transform(std::span(batches).subspan(step, world_size), to,
                                        &Priced::label)
                     .out;
    }
}

/// Gives each batch of a bucket, in order, its first sample.
void Rest::cut(std::span<const Label> labels, std::span<const Whole> wholes) {
    std::vector<std::size_t> end;  // of the places of each bucket
    end.reserve(cuts_.size());
    for (const Cut& of : cuts_) end.push_back((end.empty() ? 0 : end.back()) + of.batches);
    std::vector<uint32_t> places(labels.size());
    std::vector<uint64_t> index(cuts_.size());
    const auto place = [&](std::size_t b, uint64_t i) -> uint32_t& {
        return places[end[b] - cuts_[b].batches + i];
    };
    is_short_.resize(labels.size());
    for (std::size_t i = 0; i < labels.size(); ++i) {
        const auto [b, is_short] = labels[i];
        is_short_[i] = is_short;
        place(b, index[b]++) = static_cast<uint32_t>(i);
    }
    starts_.resize(labels.size());
    walk(
        wholes, [&](std::size_t b, uint64_t i) -> bool { return is_short_[place(b, i)]; },
        [&](std::size_t b, uint64_t i, const Start& start) { starts_[place(b, i)] = start; });
}

uint64_t Rest::samples(uint64_t position) const {
    const Cut& of = cuts_[bucket(position)];
    return is_short_[position] ? of.short_samples : of.most;
}

double Rest::cost(uint64_t position) const {
    const uint64_t batch = starts_[position].batch;
    return epoch_.cost(batch) * static_cast<double>(samples(position)) /
           static_cast<double>(epoch_.samples(batch));
}

PerColumn Rest::total(uint64_t position) const {
    Batch whole;
    fill(position, 0, samples(position), whole);
    return whole.total;
}

BatchSums Rest::sums() const {
    std::vector<uint64_t> before = begin_.done, left;  // by bucket: samples
    before.resize(cuts_.size());
    for (const Cut& of : cuts_) left.push_back(of.samples());
    BatchSums sums;
    for (uint64_t position = begin_.batch; position < epoch_.batches(); ++position) {
        const std::size_t b = epoch_.bucket(position);
        const uint64_t samples = epoch_.samples(position), first = std::min(before[b], samples),
                       count = std::min(left[b], samples - first);
        before[b] -= first;
        left[b] -= count;
        if (count == samples) {  // without its indices
            sums.add(epoch_.sums_at(position));
        } else if (count > 0) {
            epoch_.fill(position, first, count, part_);
            sums.add({static_cast<double>(count), part_.total});
        }
    }
    return sums;
}

void Rest::fill(uint64_t position, uint64_t first, uint64_t count, Batch& batch) const {
    uint64_t from = starts_[position].batch, skip = starts_[position].sample + first;
    const auto samples_here = [&] { return epoch_.samples(from) - skip; };
    while (count > 0 && skip >= epoch_.samples(from)) {
        skip -= epoch_.samples(from);
        from = next_[from - begin_.batch];
    }
    uint64_t done = std::min(count, samples_here());
    epoch_.fill(from, count == 0 ? 0 : skip, done, batch);
    for (skip = 0; done < count;) {
        from = next_[from - begin_.batch];
        const uint64_t some = std::min(count - done, samples_here());
        epoch_.fill(from, 0, some, part_);
        batch.room(done + some);
        std::copy_n(part_.buffer.begin(), some,
                    batch.buffer.begin() + static_cast<std::ptrdiff_t>(done));
        for (std::size_t c = 0; c < batch.columns; ++c) {
            batch.longest[c] = std::max(batch.longest[c], part_.longest[c]);
            batch.padded_length[c] = std::max(batch.padded_length[c], part_.padded_length[c]);
            batch.total[c] += part_.total[c];
        }
        done += some;
    }
    // The batches of the epoch may be pieces that are padded to the length of another bucket.
    if (done > 0 && epoch_.plan()->has_few_shapes())
        pad_to(*epoch_.plan(), bucket(position), batch);
}

std::vector<BucketShape> Rest::shapes() const {
    std::vector<BucketShape> shapes;
    for (std::size_t b = 0; b < cuts_.size(); ++b) {
        const Cut& of = cuts_[b];
        if (of.batches > of.shorts) shapes.push_back({of.most, b});
        if (of.shorts > 0 && of.short_samples > 0) shapes.push_back({of.short_samples, b});
    }
    return shapes;
}

std::vector<int64_t> Rest::left_out() const {
    std::vector<uint64_t> taken(cuts_.size());  // samples of the rest that are before a batch
    for (std::size_t b = 0; b < cuts_.size(); ++b) {
        const Cut& of = cuts_[b];
        taken[b] = of.samples();
        if (!begin_.done.empty()) taken[b] += begin_.done[b];
    }
    std::vector<int64_t> indices;
    for (uint64_t position = begin_.batch; position < epoch_.batches(); ++position) {
        const uint64_t samples = epoch_.samples(position);
        uint64_t& before = taken[epoch_.bucket(position)];
        const uint64_t here = std::min(before, samples);
        before -= here;
        if (here == samples) continue;
        epoch_.fill(position, here, samples - here, part_);
        const auto first = part_.buffer.begin();
        indices.insert(indices.end(), first, first + static_cast<std::ptrdiff_t>(samples - here));
    }
    return indices;
}

RestBegin Rest::after(uint64_t batches) const {
    RestBegin at = begin_;
    at.done.resize(cuts_.size());
    for (uint64_t i = 0; i < batches; ++i) at.done[bucket(i)] += samples(i);
    for (; at.batch < epoch_.batches(); ++at.batch) {
        uint64_t& done = at.done[epoch_.bucket(at.batch)];
        if (done < epoch_.samples(at.batch)) break;
        done -= epoch_.samples(at.batch);
    }
    if (std::ranges::all_of(at.done, [](uint64_t done) { return done == 0; })) at.done.clear();
    return at;
}

}  // namespace sab
