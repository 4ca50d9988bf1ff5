#include "pack/row_mixing.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "sampler/permutation.h"
#include "sampler/report.h"

namespace sab {
namespace {

/// Samples and pieces of an epoch.
struct Walked {
    std::size_t columns = 1;
    PerColumn capacities{};
    std::vector<uint64_t> places;  ///< sample << 32 | row
    std::vector<double> sizes;     ///< one a column of each
    std::vector<uint64_t> ends;    ///< of rows
};

Walked walk(const Sequence& rows, const EpochOptions& epoch_options) {
    const std::unique_ptr<Sequence> walked = rows.copy();
    if (const auto order = rows.make_epoch_order(epoch_options)) walked->exchange(*order);
    Walked epoch;
    Batch batch;
    for (uint64_t row = 0; row < walked->batches(); ++row) {
        walked->fill(row, 0, walked->samples(row), batch);
        epoch.columns = batch.columns;
        epoch.capacities = batch.capacity;
        for (uint64_t i = 0; i < batch.count; ++i) {
            epoch.places.push_back(static_cast<uint64_t>(batch.buffer[i]) << 32 | row);
            for (std::size_t j = 0; j < batch.columns; ++j) {
                const int32_t* const ends = &batch.cu_seqlens[j][i];
                epoch.sizes.push_back(ends[1] - ends[0]);
            }
        }
        epoch.ends.push_back(epoch.places.size());
    }
    return epoch;
}

std::size_t fullest(const Walked& epoch) {
    PerColumn totals{};
    for (std::size_t i = 0; i < epoch.sizes.size(); ++i)
        totals[i % epoch.columns] += epoch.sizes[i] / epoch.capacities[i % epoch.columns];
    return static_cast<std::size_t>(
        std::max_element(totals.begin(), totals.begin() + epoch.columns) - totals.begin());
}

double pairs_of(double samples) {
    return samples * (samples - 1) / 2;
}

/// Share of the pairs of a row that share one in the other epoch, too.
double meet_again(std::vector<uint64_t> first, std::vector<uint64_t> second) {
    for (std::vector<uint64_t>* each : {&first, &second}) {
        std::ranges::sort(*each);
        each->erase(std::ranges::unique(*each).begin(), each->end());
    }
    std::vector<uint64_t> rows, both;  // of the first epoch; of both
    auto from = second.begin();
    for (const uint64_t place : first) {
        rows.push_back(place & 0xFFFFFFFFu);
        while (from != second.end() && *from >> 32 < place >> 32) ++from;
        for (auto at = from; at != second.end() && *at >> 32 == place >> 32; ++at)
            both.push_back(place << 32 | (*at & 0xFFFFFFFFu));
    }
    std::ranges::sort(rows);
    std::ranges::sort(both);
    const double pairs = equal_pairs(rows);
    return pairs > 0 ? equal_pairs(both) / pairs : 0;
}

double deviation_of(const std::vector<double>& means) {
    double sum = 0, squares = 0;
    for (const double mean : means) sum += mean;
    const double mean = sum / static_cast<double>(means.size());
    for (const double each : means) squares += (each - mean) * (each - mean);
    return std::sqrt(squares / static_cast<double>(means.size()));
}

/// Mean lengths of the rows.
std::vector<double> means_of(const Walked& epoch, std::size_t column) {
    std::vector<double> means;
    uint64_t i = 0;
    for (const uint64_t end : epoch.ends) {
        const auto samples = static_cast<double>(end - i);
        double sum = 0;
        for (; i < end; ++i) sum += epoch.sizes[i * epoch.columns + column];
        means.push_back(sum / samples);
    }
    return means;
}

void add_random_rows(const Walked& epoch, std::size_t column, uint64_t key, RowMixing& mixing) {
    const uint64_t count = epoch.places.size();
    uint64_t most = 0, begin = 0;  // samples of a row, which options may limit
    for (const uint64_t end : epoch.ends) most = std::max(most, end - std::exchange(begin, end));
    const Permutation shuffled(count, key);
    std::vector<double> means;
    PerColumn sums{};
    double samples = 0, pairs = 0;
    const auto end_row = [&] {
        pairs += pairs_of(samples);
        means.push_back(sums[column] / samples);
        sums = {};
        samples = 0;
    };
    for (uint64_t i = 0; i < count; ++i) {
        const double* const sizes = &epoch.sizes[shuffled(i) * epoch.columns];
        bool fits = samples < static_cast<double>(most);
        for (std::size_t j = 0; j < epoch.columns; ++j)
            fits = fits && sums[j] + sizes[j] <= epoch.capacities[j];
        if (!fits) end_row();
        for (std::size_t j = 0; j < epoch.columns; ++j) sums[j] += sizes[j];
        ++samples;
    }
    end_row();
    const double all = pairs_of(static_cast<double>(count));
    mixing.random_meet_again = all > 0 ? pairs / all : 0;
    mixing.random_length_deviation = deviation_of(means);
}

}  // namespace

RowMixing measure_mixing(const Sequence& rows, uint64_t seed, uint64_t epoch) {
    EpochOptions options;
    options.seed = seed;
    options.epoch = epoch;
    const Walked first = walk(rows, options);
    ++options.epoch;
    const Walked second = walk(rows, options);
    RowMixing mixing;
    if (first.places.empty()) return mixing;
    const std::size_t column = fullest(first);
    mixing.meet_again = meet_again(first.places, second.places);
    mixing.length_deviation = deviation_of(means_of(first, column));
    add_random_rows(first, column, permutation_key(seed, epoch, Purpose::rows, ~uint64_t{0}),
                    mixing);
    return mixing;
}

}  // namespace sab
