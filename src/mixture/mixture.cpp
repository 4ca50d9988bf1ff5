#include "mixture/mixture.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "base/bits.h"
#include "base/error.h"
#include "base/hasher.h"
#include "base/options.h"
#include "base/rounding.h"
#include "base/saved_state.h"
#include "sampler/permutation.h"

namespace sab {

Mixture::Mixture(const Columns& sizes, std::vector<uint16_t> source_of,
                 std::span<const int64_t> ids, const sab_mixture_options& options)
    : is_shard_(options.all_source_count > 0),
      source_of_(std::move(source_of)),
      seed_(options.seed) {
    for (const int64_t id : ids) sources_.push_back({text(id), id});
    bool is_grouped = true;
    for (std::size_t i = 0; i < source_of_.size(); ++i) {
        Source& source = sources_[source_of_[i]];
        if (source.count++ == 0) source.first = static_cast<uint32_t>(i);
        is_grouped = is_grouped && i == source.first + source.count - 1;
    }
    for (std::size_t i = 0; i < source_of_.size() && !is_grouped; ++i)
        sources_[source_of_[i]].samples.push_back(static_cast<uint32_t>(i));
    read_sizes(sizes);
    read_names(options);
    changes_.push_back({0, first_repeats(options)});
    read_schedule(options);
    keep(options);
    if (!is_shard_) check_samples();
    fingerprint_ = hash();
}

/// Refuses a source without samples, and epochs that have none or too many.
void Mixture::check_samples() {
    for (const Source& source : sources_)
        if (source.count == 0)
            refuse_argument("sizes", no_value, "source ", std::string_view(source.name),
                            " has no sample on any rank: must have at least one");
    for (const Change& change : changes_) {
        uint64_t samples = 0;
        for (std::size_t s = 0; s < sources_.size(); ++s) {
            const uint64_t of_source = taken(s, change.repeats[s]);
            sources_[s].is_possible = sources_[s].is_possible || of_source > 0;
            samples += of_source;
        }
        if (samples == 0)
            refuse_argument("options.repeats", no_value, "epoch ", change.epoch,
                            " has no sample: one source must give at least one");
        if (samples > largest_sample_count)
            refuse_argument("options.repeats", no_value, "epoch ", change.epoch, " has ", samples,
                            " samples: must have at most ", largest_sample_count);
    }
}

/// Keeps what was checked.
void Mixture::keep(const sab_mixture_options& options) {
    const auto copy = [](auto& copied, const auto* items, std::size_t count) {
        if (count > 0) copied.assign(items, items + count);
    };
    copy(given_.repeats, options.repeats, options.repeat_count);
    copy(given_.proportions, options.proportions, options.proportion_count);
    copy(given_.schedule_epochs, options.schedule_epochs, options.schedule_count);
    copy(given_.schedule_repeats, options.schedule_repeats,
         options.schedule_count * sources_.size());
    given_.temperature = options.temperature;
    given_.unit = options.unit;
}

std::shared_ptr<const EpochChoice> Mixture::of_others(std::span<const double> sizes,
                                                      std::vector<uint16_t> source_of) const {
    std::vector<int64_t> ids;
    std::vector<const char*> names;
    for (const Source& source : sources_) {
        ids.push_back(source.id);
        names.push_back(source.name.c_str());
    }
    sab_mixture_options options SAB_MIXTURE_OPTIONS_INIT;
    options.repeats = given_.repeats.data();
    options.repeat_count = given_.repeats.size();
    options.proportions = given_.proportions.data();
    options.proportion_count = given_.proportions.size();
    options.temperature = given_.temperature;
    options.unit = given_.unit;
    options.names = names.data();
    options.name_count = names.size();
    options.schedule_epochs = given_.schedule_epochs.data();
    options.schedule_repeats = given_.schedule_repeats.data();
    options.schedule_count = given_.schedule_epochs.size();
    options.seed = seed_;
    const Columns columns(Sizes(sizes.data(), sizes.size(), SAB_FLOAT64, sizeof(double), nullptr));
    return std::make_shared<const Mixture>(columns, std::move(source_of), ids, options);
}

const Mixture& Mixture::of(const Columns& sizes) {
    if (sizes.choice() == nullptr) refuse_argument("sizes", no_value, "are no mixture");
    return static_cast<const Mixture&>(*sizes.choice());
}

/// Refuses sizes that break the rules.
void Mixture::read_sizes(const Columns& sizes) {
    constexpr std::size_t at_once = 4096;
    const std::size_t count = source_of_.size();
    std::vector<double> values(at_once), sums(at_once);
    sizes_.resize(count);
    for (std::size_t first = 0; first < count; first += at_once) {
        const std::size_t here = std::min(at_once, count - first);
        std::fill_n(sums.begin(), here, 0.0);
        for (std::size_t j = 0; j < sizes.size(); ++j) {
            sizes[j].read(first, std::span(values).first(here), sizes.described(j));
            for (std::size_t i = 0; i < here; ++i) sums[i] += values[i];
        }
        for (std::size_t i = 0; i < here; ++i) {
            Source& source = sources_[source_of_[first + i]];
            source.least = std::min(source.least, sums[i]);
            source.most = std::max(source.most, sums[i]);
            const auto narrow = static_cast<float>(sums[i]);
            if (exact_sizes_.empty() && static_cast<double>(narrow) != sums[i]) {
                exact_sizes_.resize(count);
                std::copy_n(sizes_.begin(), first + i, exact_sizes_.begin());
            }
            sizes_[first + i] = narrow;
            if (!exact_sizes_.empty()) exact_sizes_[first + i] = sums[i];
        }
    }
    if (!exact_sizes_.empty()) std::vector<float>().swap(sizes_);
}

void Mixture::read_names(const sab_mixture_options& options) {
    const auto names =
        items(options.names, options.name_count, "options.names", "options.name_count");
    if (names.empty()) return;
    check(names.size() == sources_.size(), "options.name_count", names.size(),
          "must be the number of sources, ", sources_.size());
    std::map<std::string_view, std::size_t> known;
    for (std::size_t s = 0; s < sources_.size(); ++s) {
        const std::string place = text("options.names[", s, "]");
        require(names[s], place);
        check_column_name(place, names[s]);
        const auto [first, is_new] = known.emplace(names[s], s);
        if (!is_new)
            refuse_argument(place, Quoted(names[s]), "is the name of source ", first->second,
                            ", too");
        sources_[s].name = names[s];
    }
}

void Mixture::check_repeats(std::string_view name, std::size_t first,
                            std::span<const double> repeats) const {
    for (std::size_t s = 0; s < repeats.size(); ++s)
        if (!(repeats[s] >= 0 && std::isfinite(repeats[s])))
            refuse_argument(named(name, "[", first + s, "]"), repeats[s], "source ",
                            std::string_view(sources_[s].name),
                            " must have a number of at least 0");
    if (std::ranges::all_of(repeats, [](double each) { return each == 0; }))
        refuse_argument(name, no_value, "are all 0: at least one must be above 0");
}

std::vector<double> Mixture::first_repeats(const sab_mixture_options& options) const {
    const std::size_t count = sources_.size();
    const bool has_temperature = options.temperature != 0;
    if ((options.repeat_count > 0) + (options.proportion_count > 0) + has_temperature > 1)
        refuse_argument(has_temperature ? "options.temperature" : "options.proportions", no_value,
                        "only one of options.repeats, options.proportions and options.temperature "
                        "can be given");
    check(options.unit == SAB_MIXTURE_SAMPLES || options.unit == SAB_MIXTURE_SIZE, "options.unit",
          options.unit, "must be SAB_MIXTURE_SAMPLES (0) or SAB_MIXTURE_SIZE (1)");
    if (options.unit != SAB_MIXTURE_SAMPLES && options.proportion_count == 0 && !has_temperature)
        refuse_argument("options.unit", no_value, "goes with proportions or temperature only");
    check(options.repeat_count == 0 || options.repeat_count == count, "options.repeat_count",
          options.repeat_count, "must be the number of sources, ", count);
    check(options.proportion_count == 0 || options.proportion_count == count,
          "options.proportion_count", options.proportion_count, "must be the number of sources, ",
          count);
    check(options.temperature >= 0 && std::isfinite(options.temperature), "options.temperature",
          options.temperature, "must be above 0, or 0 where it is not given");
    const auto repeats =
        items(options.repeats, options.repeat_count, "options.repeats", "options.repeat_count");
    const auto proportions = items(options.proportions, options.proportion_count,
                                   "options.proportions", "options.proportion_count");
    if (!repeats.empty()) {
        check_repeats("options.repeats", 0, repeats);
        return {repeats.begin(), repeats.end()};
    }
    if (!proportions.empty()) check_repeats("options.proportions", 0, proportions);
    // Those of a shard depend on all shards.
    if (is_shard_ || (options.proportion_count == 0 && !has_temperature))
        return std::vector<double>(count, 1.0);

    std::vector<double> amounts(count), shares(count);
    if (options.unit == SAB_MIXTURE_SIZE)
        for (std::size_t i = 0; i < source_of_.size(); ++i) amounts[source_of_[i]] += size_of(i);
    else
        for (std::size_t s = 0; s < count; ++s) amounts[s] = static_cast<double>(sources_[s].count);
    if (has_temperature) {
        const double most = *std::ranges::max_element(amounts);  // powers of it would overflow
        for (std::size_t s = 0; s < count && most > 0; ++s)
            shares[s] = std::pow(amounts[s] / most, 1 / options.temperature);
    } else {
        shares.assign(options.proportions, options.proportions + count);
    }
    return by_shares(std::move(shares), amounts);
}

/// The repeats with which the sources have these shares of the sum of the amounts.
std::vector<double> Mixture::by_shares(std::vector<double> shares,
                                       std::span<const double> amounts) const {
    const double all = std::accumulate(amounts.begin(), amounts.end(), 0.0);
    if (all == 0)
        refuse_argument("options.unit", no_value,
                        "all sources have the size 0, and no shares of it");
    const double most = *std::ranges::max_element(shares);
    for (double& share : shares) share /= most;  // the sum of the largest numbers would overflow
    const double all_shares = std::accumulate(shares.begin(), shares.end(), 0.0);
    for (std::size_t s = 0; s < shares.size(); ++s) {
        if (shares[s] > 0 && amounts[s] == 0)
            refuse_argument("options.unit", no_value, "source ", std::string_view(sources_[s].name),
                            " has the size 0, and cannot have a share of all sizes");
        shares[s] = shares[s] > 0 ? shares[s] / all_shares * all / amounts[s] : 0;
    }
    return shares;
}

void Mixture::read_schedule(const sab_mixture_options& options) {
    const auto epochs = items(options.schedule_epochs, options.schedule_count,
                              "options.schedule_epochs", "options.schedule_count");
    const auto all_repeats = items(options.schedule_repeats, epochs.size() * sources_.size(),
                                   "options.schedule_repeats", "options.schedule_count");
    for (std::size_t i = 0; i < epochs.size(); ++i) {
        const uint64_t epoch = epochs[i];
        if (epoch <= changes_.back().epoch)
            refuse_argument(named("options.schedule_epochs[", i, "]"), epoch,
                            "must be above the one before, ", changes_.back().epoch);
        const auto repeats = all_repeats.subspan(i * sources_.size(), sources_.size());
        check_repeats("options.schedule_repeats", i * sources_.size(), repeats);
        changes_.push_back({epoch, {repeats.begin(), repeats.end()}});
    }
}

const Mixture::Change& Mixture::change_at(uint64_t epoch) const {
    return *std::prev(std::ranges::upper_bound(changes_, epoch, {}, &Change::epoch));
}

/// Samples of an epoch; more than there can be where a number would not hold them.
uint64_t Mixture::taken(std::size_t source, double repeat) const {
    constexpr double most = 1e14;  // times SAB_MAX_SOURCES it is below 2^64
    return rounded(std::min(static_cast<double>(sources_[source].count) * repeat, most));
}

/// Where the epoch begins in the order of the source.
uint64_t Mixture::start(std::size_t source, uint64_t epoch) const {
    const uint64_t count = sources_[source].count;
    uint64_t at = 0;
    for (std::size_t i = 0; i < changes_.size() && changes_[i].epoch < epoch; ++i) {
        const uint64_t end =
                           i + 1 < changes_.size() ? std::min(changes_[i + 1].epoch, epoch) : epoch,
                       epochs = end - changes_[i].epoch;
        // counts are below 2^32: no product overflows
        at = (at + epochs % count * (taken(source, changes_[i].repeats[source]) % count)) % count;
    }
    return at;
}

std::pair<double, double> Mixture::extremes() const {
    std::pair<double, double> extremes{largest_size, 0};
    for (const Source& source : sources_) {
        if (!source.is_possible) continue;
        extremes.first = std::min(extremes.first, source.least);
        extremes.second = std::max(extremes.second, source.most);
    }
    return extremes;
}

template <class Visit>
void Mixture::walk_source(std::size_t source, uint64_t place, uint64_t count, Visit&& visit) const {
    const Source& of = sources_[source];
    const Permutation order(of.count, mix(mix(seed_) ^ source));
    std::vector<uint32_t> rows;
    while (count > 0) {
        rows.resize(std::min<uint64_t>({count, of.count - place, 4096}));
        order.fill(place, rows);
        for (const uint32_t row : rows) visit(of.sample(row), static_cast<uint32_t>(place++));
        count -= rows.size();
        place %= of.count;
    }
}

std::vector<SourceTurns> Mixture::source_turns(uint64_t epoch) const {
    std::vector<SourceTurns> turns;
    const Change& change = change_at(epoch);
    for (std::size_t s = 0; s < sources_.size(); ++s) {
        const uint64_t count = sources_[s].count, all = taken(s, change.repeats[s]);
        turns.push_back({static_cast<uint32_t>(all / count), static_cast<uint32_t>(start(s, epoch)),
                         static_cast<uint32_t>(all % count), static_cast<uint32_t>(count)});
    }
    return turns;
}

EpochTurns Mixture::turns(uint64_t epoch) const {
    EpochTurns turns;
    const std::vector<SourceTurns> by_source = source_turns(epoch);
    for (std::size_t s = 0; s < sources_.size(); ++s) {
        turns.by_source.push_back(by_source[s].least);
        if (by_source[s].extra == 0) continue;
        turns.extra.resize(source_of_.size() / 64 + 1);
        walk_source(s, by_source[s].start, by_source[s].extra, [&](uint32_t sample, uint32_t) {
            turns.extra[sample / 64] |= uint64_t{1} << sample % 64;
        });
    }
    return turns;
}

std::vector<uint32_t> Mixture::places() const {
    std::vector<uint32_t> places(source_of_.size());
    for (std::size_t s = 0; s < sources_.size(); ++s)
        walk_source(s, 0, sources_[s].count,
                    [&](uint32_t sample, uint32_t place) { places[sample] = place; });
    return places;
}

std::vector<uint32_t> Mixture::counts(uint64_t epoch) const {
    const EpochTurns times = turns(epoch);
    std::vector<uint32_t> counts(source_of_.size());
    for (std::size_t i = 0; i < counts.size(); ++i) counts[i] = times.of(i, source_of_[i]);
    return counts;
}

bool Mixture::are_alike(uint64_t epoch, uint64_t other) const {
    if (epoch == other) return true;
    const std::vector<double>&repeats = change_at(epoch).repeats,
          &others = change_at(other).repeats;
    for (std::size_t s = 0; s < sources_.size(); ++s) {
        const uint64_t samples = taken(s, repeats[s]), count = sources_[s].count;
        if (samples != taken(s, others[s])) return false;
        if (samples % count != 0 && start(s, epoch) != start(s, other)) return false;
    }
    return true;
}

sab_mixture_source Mixture::describe(std::size_t source, uint64_t epoch) const {
    const Source& of = sources_[source];
    if (is_shard_) return {0, of.name.c_str(), of.id, of.count, 0, 0};
    const double repeat = change_at(epoch).repeats[source];
    return {0, of.name.c_str(), of.id, of.count, repeat, taken(source, repeat)};
}

std::size_t Mixture::row_of(std::size_t sample) const {
    const Source& source = sources_[source_of_[sample]];
    if (source.samples.empty()) return sample - source.first;
    return static_cast<std::size_t>(
        std::ranges::lower_bound(source.samples, static_cast<uint32_t>(sample)) -
        source.samples.begin());
}

uint64_t Mixture::hash() const {
    Hasher hasher;
    hasher.add(seed_);
    hasher.add_all(source_of_);
    hasher.add_all(sizes_);
    hasher.add_all(exact_sizes_);
    for (const Change& change : changes_) {
        hasher.add(change.epoch);
        hasher.add_all(change.repeats);
    }
    return hasher.digest();
}

uint64_t Mixture::options_fingerprint() const {
    Hasher hasher;
    const auto add_all = [&](const auto& items) {
        hasher.add(uint64_t{items.size()});
        hasher.add_all(items);
    };
    hasher.add(uint64_t{sources_.size()});
    for (const Source& source : sources_) {
        hasher.add(source.id);
        add_all(source.name);
    }
    add_all(given_.repeats);
    add_all(given_.proportions);
    add_all(given_.schedule_epochs);
    add_all(given_.schedule_repeats);
    hasher.add(given_.temperature);
    hasher.add(given_.unit);
    hasher.add(seed_);
    return hasher.digest();
}

/// The seed, a hash of the repeats of all epochs, and the repeat of each source in this one.
std::vector<uint64_t> Mixture::proportions(uint64_t epoch) const {
    Hasher hasher;
    for (const Change& change : changes_) {
        hasher.add(change.epoch);
        hasher.add_all(change.repeats);
    }
    std::vector<uint64_t> made{seed_, hasher.digest()};
    for (const double repeat : change_at(epoch).repeats) made.push_back(bits_of(repeat));
    return made;
}

void Mixture::match_proportions(uint64_t epoch, std::span<const uint64_t> saved) const {
    const std::vector<uint64_t> own = proportions(epoch);
    const std::size_t sources = sources_.size(), before = own.size() - sources;
    if (saved.size() <= before) mismatch_state("was saved without a mixture");
    if (saved.size() != own.size())
        mismatch_state("was saved with a mixture of ", saved.size() - before,
                       " sources, this sampler has ", sources);
    for (std::size_t s = 0; s < sources; ++s)
        if (saved[before + s] != own[before + s])
            mismatch_state("was saved with other repeats: source ",
                           std::string_view(sources_[s].name), " had ",
                           number_of(saved[before + s]), " repeats in epoch ", epoch,
                           ", this sampler has ", number_of(own[before + s]));
    if (saved[1] != own[1])
        mismatch_state("was saved with another schedule of repeats, though those of epoch ", epoch,
                       " are the same");
    if (saved[0] != own[0])
        mismatch_state("was saved with the seed ", saved[0], " of the mixture, this sampler has ",
                       own[0]);
}

namespace {

/// The ids of the sources of all shards, if they are given.
std::vector<int64_t> read_all_sources(const sab_mixture_options& options) {
    const auto given = items(options.all_sources, options.all_source_count, "options.all_sources",
                             "options.all_source_count");
    check(given.size() <= SAB_MAX_SOURCES, "options.all_source_count", given.size(),
          "must be at most ", SAB_MAX_SOURCES);
    const std::vector<int64_t> ids(given.begin(), given.end());
    for (std::size_t i = 0; i < ids.size(); ++i)
        if (ids[i] < 0 || (i > 0 && ids[i] <= ids[i - 1]))
            refuse_argument(named("options.all_sources[", i, "]"), ids[i],
                            "must be at least 0, and above the one before");
    return ids;
}

/// The ids that there are, in ascending order.
std::vector<int64_t> distinct_ids(std::span<const int64_t> ids) {
    std::vector<int64_t> known;
    for (std::size_t i = 0; i < ids.size(); ++i) {
        if (ids[i] < 0)
            refuse_argument(named("options.ids[", i, "]"), ids[i], "must be at least 0");
        const auto place = std::ranges::lower_bound(known, ids[i]);
        if (place != known.end() && *place == ids[i]) continue;
        check(known.size() < SAB_MAX_SOURCES, text("options.ids[", i, "]"), ids[i],
              "is one source more than ", SAB_MAX_SOURCES, ", the most that there may be");
        known.insert(place, ids[i]);
    }
    return known;
}

}  // namespace

static Columns mix_by_ids(const Columns& sizes, const sab_mixture_options& options) {
    sizes.refuse_choice("sources[0]");
    if (options.id_count > 0) require(options.ids, "options.ids");
    check(options.id_count == sizes.count(), "options.id_count", options.id_count,
          "must be the number of samples, ", sizes.count());
    const std::span<const int64_t> ids(options.ids, options.id_count);
    std::vector<int64_t> known = read_all_sources(options);
    if (known.empty()) {
        check(!ids.empty(), "options.id_count", 0, "must be at least 1");
        known = distinct_ids(ids);
    }
    std::vector<uint16_t> source_of(ids.size());
    for (std::size_t i = 0; i < ids.size(); ++i) {
        const auto place = std::ranges::lower_bound(known, ids[i]);
        if (place == known.end() || *place != ids[i])
            refuse_argument(named("options.ids[", i, "]"), ids[i],
                            "must be one of options.all_sources");
        source_of[i] = static_cast<uint16_t>(place - known.begin());
    }
    return sizes.dense().chosen_by(
        std::make_shared<const Mixture>(sizes, std::move(source_of), known, options));
}

Columns mix_sources(std::span<const sab_sizes* const> sources, const sab_mixture_options& options) {
    const bool has_ids = options.ids != nullptr || options.id_count > 0;
    check(!has_ids || sources.size() == 1, "count", sources.size(), "must be 1 with options.ids");
    if (sources.size() == 1) {
        require(sources[0], "sources[0]");
        const Columns& only = sources[0]->impl;
        const bool is_empty_shard = only.count() == 0 && options.all_source_count > 1;
        if (has_ids || is_empty_shard) return mix_by_ids(only, options);
    }
    const Columns joined = Columns::join(sources, "sources");
    std::vector<int64_t> ids = read_all_sources(options);
    const bool is_shard = !ids.empty();
    check(!is_shard || ids.size() == sources.size(), "options.all_source_count", ids.size(),
          "must be the number of sources, ", sources.size());
    std::vector<uint16_t> source_of;
    source_of.reserve(joined.count());
    for (std::size_t s = 0; s < sources.size(); ++s) {
        const std::size_t count = sources[s]->impl.count();
        if (count == 0 && !is_shard)
            refuse_argument(named("sources[", s, "]"), no_value,
                            "has no sample: must have at least one");
        if (!is_shard) ids.push_back(static_cast<int64_t>(s));
        source_of.insert(source_of.end(), count, static_cast<uint16_t>(s));
    }
    return joined.dense().chosen_by(
        std::make_shared<const Mixture>(joined, std::move(source_of), ids, options));
}

}  // namespace sab
