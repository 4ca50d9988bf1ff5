#include "sampler/report.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "sampler/cursor.h"

namespace sab {
namespace {

/// Pearson correlation of successive numbers.
class LagCorrelation {
public:
    void add(double x) {
        if (has_last_) {
            // around any fixed number: the first, which keeps the sums small
            const double dx = last_ - mean_, dy = x - mean_;
            ++pairs_;
            x_ += dx;
            y_ += dy;
            xx_ += dx * dx;
            yy_ += dy * dy;
            xy_ += dx * dy;
        } else {
            mean_ = x;
        }
        last_ = x;
        has_last_ = true;
    }
    double value() const {
        if (pairs_ < 2) return 0;
        const double n = static_cast<double>(pairs_);
        const double vx = xx_ - x_ * x_ / n, vy = yy_ - y_ * y_ / n;
        return vx > 0 && vy > 0 ? (xy_ - x_ * y_ / n) / std::sqrt(vx * vy) : 0;
    }

private:
    bool has_last_ = false;
    double last_ = 0, mean_ = 0;
    uint64_t pairs_ = 0;
    double x_ = 0, y_ = 0, xx_ = 0, yy_ = 0, xy_ = 0;
};

/// Mean and variance of the sizes of a whole epoch.
struct Moments {
    double mean, variance;
};
Moments moments_of(const Plan& plan) {
    double count = 0, squares = 0, sum = 0;
    for (const Bucket& bucket : plan.buckets())
        for (uint32_t level = bucket.level_begin; level < bucket.level_end; ++level) {
            const uint32_t first = std::max(bucket.begin, plan.level_first()[level]),
                           last = std::min(bucket.end, plan.level_first()[level + 1]);
            const double size = plan.level_size()[level];
            count += last - first;
            sum += size * (last - first);
            squares += size * size * (last - first);
        }
    if (count == 0) return {0, 0};
    const double mean = sum / count;
    return {mean, std::max(0.0, squares / count - mean * mean)};
}

/// The pairs of equal numbers; sorts them.
double equal_pairs(std::vector<uint32_t>& numbers) {
    std::ranges::sort(numbers);
    double pairs = 0;
    for (std::size_t i = 0; i < numbers.size();) {
        std::size_t end = i;
        while (end < numbers.size() && numbers[end] == numbers[i]) ++end;
        pairs += static_cast<double>(end - i) * static_cast<double>(end - i - 1) / 2;
        i = end;
    }
    return pairs;
}

/// The part of a report that no epoch changes.
sab_report report_of(const PlanFacts& facts) {
    sab_report report{};
    report.samples = facts.samples;
    report.skipped = facts.skipped;
    report.lower_bound = facts.lower_bound;
    report.target_met = facts.nearest_target <= facts.padding_target;
    report.nearest_target = facts.nearest_target;
    return report;
}

Cost cost_of(const Plan& plan) {
    if (plan.facts().cost == SAB_COST_CALLBACK) return Cost();
    return Cost(plan.facts().cost, {plan.coefficients().begin(), plan.coefficients().end()},
                nullptr, nullptr);
}

}  // namespace

sab_report make_report(std::shared_ptr<const Plan> plan, sab_sampler_options options,
                       const Progress& progress) {
    options.rank = 0;
    options.step_totals = 0;
    const PlanFacts& facts = plan->facts();
    Cursor cursor(make_bucket_sequence(plan), options);
    const uint64_t steps = cursor.batch_count();
    PlacedBatch placed;
    const auto each_batch = [&](uint64_t done, auto&& visit) {
        for (uint64_t step = 0; step < steps; ++step) {
            if (step % 256 == 0) progress.report(done + step, 2 * steps);
            for (uint64_t rank = 0; rank < options.world_size; ++rank) {
                cursor.fill(step, rank, placed);
                visit(step, rank, placed.batch);
            }
        }
    };

    // Which batch of the next epoch each sample is in.
    constexpr uint32_t none = 0xFFFFFFFFu;
    std::vector<uint32_t> next_batch(facts.samples, none);
    uint32_t name = 0;
    cursor.set_epoch(options.epoch + 1);
    each_batch(0, [&](uint64_t, uint64_t, const Batch& batch) {
        for (uint64_t i = 0; i < batch.count; ++i)
            next_batch[static_cast<std::size_t>(batch.buffer[i])] = name;
        ++name;
    });

    sab_report report = report_of(facts);
    report.steps = steps;
    const Moments sizes = moments_of(*plan);
    const Cost cost = cost_of(*plan);
    std::set<std::pair<uint64_t, double>> shapes;
    std::vector<uint32_t> mates;
    LagCorrelation lengths;
    std::vector<bool> is_seen(facts.samples);
    double between = 0, imbalance = 0, step_cost = 0, step_most = 0, pairs = 0, met_again = 0,
           partners = 0, seen = 0;
    cursor.set_epoch(options.epoch);
    each_batch(steps, [&](uint64_t, uint64_t rank, const Batch& batch) {
        const auto count = static_cast<double>(batch.count);
        if (batch.count > 0) {
            ++report.batches;
            seen += count;
            report.total += batch.total;
            report.padded_total += count * batch.padded_length;
            shapes.emplace(batch.count, batch.padded_length);
            for (uint64_t i = 0; i < batch.count; ++i) {
                auto sample = is_seen[static_cast<std::size_t>(batch.buffer[i])];
                report.repeated += sample;
                sample = true;
            }
            if (rank == 0) lengths.add(batch.longest);
            const double deviation = batch.total / count - sizes.mean;
            between += count * deviation * deviation;
            const Bucket& bucket = plan->buckets()[static_cast<std::size_t>(batch.bucket)];
            if (bucket.batch_size > 1)
                partners += count * static_cast<double>(bucket.samples() - 1);

            mates.clear();
            for (uint64_t i = 0; i < batch.count; ++i)
                if (const uint32_t next = next_batch[static_cast<std::size_t>(batch.buffer[i])];
                    next != none)
                    mates.push_back(next);
            pairs += count * (count - 1) / 2;
            met_again += equal_pairs(mates);
        }
        const double this_cost =
            batch.count > 0 ? cost(batch.count, plan->priced(batch.padded_length)) : 0;
        step_cost += this_cost;
        step_most = std::max(step_most, this_cost);
        if (rank + 1 == options.world_size) {
            imbalance +=
                step_cost > 0 ? step_most * static_cast<double>(options.world_size) / step_cost : 1;
            step_cost = step_most = 0;
        }
    });
    report.shapes = shapes.size();
    report.padding = report.padded_total > 0 ? 1 - report.total / report.padded_total : 0;
    report.rank_imbalance = steps > 0 ? imbalance / static_cast<double>(steps) : 1;
    report.meet_again = pairs > 0 ? met_again / pairs : 0;
    report.partners = seen > 0 ? partners / seen : 0;
    report.length_correlation = lengths.value();
    report.variance_ratio = report.batches > 1 && sizes.variance > 0
                                ? between / static_cast<double>(report.batches - 1) / sizes.variance
                                : 1;
    report.dropped =
        facts.samples - facts.skipped - (static_cast<uint64_t>(seen) - report.repeated);
    return report;
}

}  // namespace sab
