#include "sampler/report.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <utility>

#include "base/guard.h"
#include "sampler/cursor.h"
#include "sampler/exchange.h"

namespace sab {
namespace {

constexpr uint32_t no_batch = 0xFFFFFFFFu;

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
    const auto add = [&](double size, double samples) {
        count += samples;
        sum += size * samples;
        squares += size * size * samples;
    };
    plan.verify(plan.distinct_sizes());
    plan.verify(plan.first_offsets());
    plan.verify(plan.codes());
    for (std::size_t number = 0; number < plan.buckets().size(); ++number) {
        const Bucket& bucket = plan.buckets()[number];
        const SizeRange range = plan.size_range(number);
        for (uint32_t distinct = bucket.distinct_begin; distinct < bucket.distinct_end;
             ++distinct) {
            const uint64_t first = std::max(bucket.begin, plan.first_place(distinct)),
                           last = std::min(bucket.end, plan.first_place(distinct + 1));
            const double size = plan.distinct_sizes()[distinct];
            plan.check_size(range.has(size));
            // a size that only exchanged samples have is counted in their own bucket
            if (first < last) add(size, static_cast<double>(last - first));
        }
        for (std::size_t place = bucket.begin; plan.is_coded() && place < bucket.end; ++place) {
            double sum_of_columns = 0;
            for (std::size_t j = 0; j < plan.columns(); ++j) {
                const double size =
                    decoded(plan.codes()[place * plan.columns() + j], plan.distinct_sizes(j));
                plan.check_size(plan.size_range(number, j).has(size));
                sum_of_columns += size;
            }
            add(sum_of_columns, 1);
        }
    }
    if (count == 0) return {0, 0};
    const double mean = sum / count;
    return {mean, std::max(0.0, squares / count - mean * mean)};
}

/// Over all columns.
double sum_of(const PerColumn& numbers) {
    return std::accumulate(numbers.begin(), numbers.end(), 0.0);
}

/// How many others a sample can share a batch with in some epoch: the mean over the places of each
/// bucket. A sample that is exchanged comes to all buckets of its class.
std::vector<double> possible_mates(const Plan& plan) {
    const Exchange exchange(plan);
    const std::span<const Bucket> buckets = plan.buckets();
    std::vector<std::vector<std::size_t>> buckets_of(exchange.classes());
    std::vector<uint64_t> own(buckets.size());  // samples that stay in the bucket
    for (std::size_t b = 0; b < buckets.size(); ++b) {
        own[b] = buckets[b].samples();
        for (const Exchange::Part& part : exchange.parts(b)) {
            own[b] -= part.end - part.begin;
            std::vector<std::size_t>& known = buckets_of[part.size_class];
            if (buckets[b].batch_size > 1 && (known.empty() || known.back() != b))
                known.push_back(b);
        }
    }
    const auto mates_in = [&](std::span<const std::size_t> where) {
        uint64_t count = 0;
        std::set<std::size_t> classes;
        for (const std::size_t b : where) {
            count += own[b];
            for (const Exchange::Part& part : exchange.parts(b)) classes.insert(part.size_class);
        }
        for (const std::size_t k : classes) count += exchange.count(k);
        return count > 0 ? static_cast<double>(count - 1) : 0;
    };
    std::vector<double> of_class, of_bucket;
    for (const std::vector<std::size_t>& where : buckets_of) of_class.push_back(mates_in(where));
    for (std::size_t b = 0; b < buckets.size(); ++b) {
        double sum = buckets[b].batch_size > 1
                         ? static_cast<double>(own[b]) * mates_in(std::span(&b, 1))
                         : 0;
        for (const Exchange::Part& part : exchange.parts(b))
            sum += static_cast<double>(part.end - part.begin) * of_class[part.size_class];
        of_bucket.push_back(sum / std::max(1.0, static_cast<double>(buckets[b].samples())));
    }
    return of_bucket;
}

/// The part of a report that no epoch changes.
sab_plan_report report_of(const PlanFacts& facts) {
    sab_plan_report report{};
    report.samples = facts.samples;
    report.skipped = facts.skipped;
    report.lower_bound = facts.lower_bound;
    report.target_met = facts.nearest_target <= facts.padding_target;
    report.nearest_target = facts.nearest_target;
    return report;
}

/// What the batches of all ranks in one epoch sum up to.
class Sums {
public:
    /// `next_batch`: the batch of the next epoch that each sample is in.
    /// `cost`: that is evened out over the ranks. `times`: how often each sample is to appear.
    Sums(const Plan& plan, Cost cost, const std::vector<uint32_t>& next_batch,
         std::vector<uint32_t> times, uint64_t world_size)
        : plan_(plan),
          next_batch_(next_batch),
          world_size_(world_size),
          sizes_(moments_of(plan)),
          cost_(std::move(cost)),
          times_left_(std::move(times)),
          possible_mates_(possible_mates(plan)) {}

    /// The batches of a rank in a step follow each other.
    void add(uint64_t rank, const Batch& batch) {
        if (batch.count == 0) {
            ++empty_batches_;
            return;
        }
        step_samples_ += batch.count;
        add_samples(batch);
        if (rank == 0) lengths_.add(sum_of(batch.longest));
        rank_cost_ += cost_(batch.count, first_of(batch.padded_length, batch.columns));
    }
    void end_rank() {
        step_cost_ += rank_cost_;
        step_most_ = std::max(step_most_, rank_cost_);
        rank_cost_ = 0;
    }
    void end_step() {
        imbalance_ +=
            step_cost_ > 0 ? step_most_ * static_cast<double>(world_size_) / step_cost_ : 1;
        step_cost_ = step_most_ = 0;
        steps_.add(step_samples_);
        step_samples_ = 0;
    }

    void write_to(sab_plan_report& report) const {
        steps_.write_to(report);
        report.batches = batches_;
        report.empty_batches = empty_batches_;
        report.total = sum_of(totals_);
        report.padded_total = sum_of(padded_totals_);
        report.columns = plan_.columns();
        if (report.totals != nullptr) std::copy_n(totals_.begin(), report.columns, report.totals);
        if (report.padded_totals != nullptr)
            std::copy_n(padded_totals_.begin(), report.columns, report.padded_totals);
        report.repeated = repeated_;
        report.shapes = shapes_.size();
        report.padding = report.padded_total > 0 ? 1 - report.total / report.padded_total : 0;
        report.rank_imbalance =
            report.steps > 0 ? imbalance_ / static_cast<double>(report.steps) : 1;
        report.meet_again = pairs_ > 0 ? met_again_ / pairs_ : 0;
        report.partners = seen_ > 0 ? partners_ / seen_ : 0;
        report.length_correlation = lengths_.value();
        report.variance_ratio = batches_ > 1 && sizes_.variance > 0
                                    ? between_ / static_cast<double>(batches_ - 1) / sizes_.variance
                                    : 1;
        report.dropped =
            report.samples - report.skipped - (static_cast<uint64_t>(seen_) - repeated_);
    }

private:
    void add_samples(const Batch& batch) {
        const auto count = static_cast<double>(batch.count);
        ++batches_;
        seen_ += count;
        sab::add(batch.total, 1, totals_);
        sab::add(batch.padded_length, count, padded_totals_);
        shapes_.emplace(batch.count, batch.padded_length);
        const double deviation = sum_of(batch.total) / count - sizes_.mean;
        between_ += count * deviation * deviation;
        partners_ +=
            count * possible_mates_[static_cast<std::size_t>(batch.bucket) - plan_.first_number()];

        mates_.clear();
        for (uint64_t i = 0; i < batch.count; ++i) {
            const auto index = static_cast<std::size_t>(batch.buffer[i]);
            if (times_left_[index] > 0)
                --times_left_[index];
            else
                ++repeated_;
            if (next_batch_[index] != no_batch) mates_.push_back(next_batch_[index]);
        }
        pairs_ += count * (count - 1) / 2;
        std::ranges::sort(mates_);
        met_again_ += equal_pairs(mates_);
    }

    const Plan& plan_;
    const std::vector<uint32_t>& next_batch_;
    uint64_t world_size_;
    Moments sizes_;
    Cost cost_;
    std::vector<uint32_t> times_left_;    ///< that each sample is to appear
    std::vector<double> possible_mates_;  ///< by bucket
    std::set<std::pair<uint64_t, PerColumn>> shapes_;
    std::vector<uint32_t> mates_;
    LagCorrelation lengths_;
    SamplesOfSteps steps_;
    uint64_t batches_ = 0, empty_batches_ = 0, repeated_ = 0, step_samples_ = 0;
    PerColumn totals_{}, padded_totals_{};
    double between_ = 0, imbalance_ = 0, rank_cost_ = 0, step_cost_ = 0, step_most_ = 0, pairs_ = 0,
           met_again_ = 0, partners_ = 0, seen_ = 0;
};

}  // namespace

void make_report(const sab_plan& plan, SamplerOptions options, const Progress& progress,
                 sab_plan_report* result) {
    options.rank = 0;
    const std::optional<Cost> balance = read_balance(options, plan.impl->names());
    Cursor cursor(make_bucket_sequence(plan, balance ? &*balance : nullptr), options);
    EpochBatch placed;
    const auto each_rank = [&](uint64_t half, auto&& visit, auto&& end_rank, auto&& end_step) {
        const uint64_t count = cursor.batch_count(), of_step = options.micro_batches,
                       steps = count / of_step + (count % of_step != 0);
        for (uint64_t step = 0; step < steps; ++step) {
            if (step % 256 == 0) progress.report(half * steps + step, 2 * steps);
            const uint64_t end = std::min(count, (step + 1) * of_step);
            for (uint64_t rank = 0; rank < options.world_size; ++rank) {
                for (uint64_t position = step * of_step; position < end; ++position) {
                    cursor.fill(position, rank, placed);
                    visit(rank, placed.batch);
                }
                end_rank();
            }
            end_step();
        }
    };

    const EpochChoice* const choice = cursor.choice();
    std::vector<uint32_t> next_batch(
        choice != nullptr ? choice->source_of().size() : plan.impl->facts().samples, no_batch);
    uint32_t name = 0;
    cursor.set_epoch(options.epoch + 1);
    const auto nothing = [] {};
    each_rank(
        0,
        [&](uint64_t, const Batch& batch) {
            for (uint64_t i = 0; i < batch.count; ++i)
                next_batch[static_cast<std::size_t>(batch.buffer[i])] = name;
            ++name;
        },
        nothing, nothing);

    cursor.set_epoch(options.epoch);
    const Plan& of_epoch = *cursor.sequence().plan();
    std::vector<uint32_t> times(next_batch.size(), 1);
    if (choice != nullptr) {
        times.assign(times.size(), 0);
        for (const uint32_t sample : choice->samples(options.epoch)) ++times[sample];
    }
    Sums sums(of_epoch, balance ? *balance : of_epoch.cost(), next_batch, std::move(times),
              options.world_size);
    sab_plan_report report = report_of(of_epoch.facts());
    report.totals = result->totals;
    report.padded_totals = result->padded_totals;
    each_rank(
        1, [&](uint64_t rank, const Batch& batch) { sums.add(rank, batch); },
        [&] { sums.end_rank(); }, [&] { sums.end_step(); });
    sums.write_to(report);
    write_result(report, result);
}

}  // namespace sab
