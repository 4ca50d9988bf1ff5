#include "ranks/ranks.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <map>
#include <string>

#include "sampler/capabilities.h"
#include "sampler/state.h"

namespace sab {
namespace {

uint64_t number_in(const char* name, const char* value) {
    uint64_t number = 0;
    const char* const end = value + std::strlen(value);
    const auto [rest, error] = std::from_chars(value, end, number);
    if (error != std::errc() || rest != end || value == end)
        refuse_argument(name, Quoted(value), "must be a whole number");
    return number;
}

/// What each rank tells the others, so that a failure of one is one of all.
struct Greeting {
    uint32_t order_version;
    int32_t status;
    uint64_t rank;
};

/// What a rank tells of its sampler. All ranks must have the same but for `rank`.
struct Told {
    uint64_t kind;
    uint64_t seed;
    uint64_t fingerprint;
    uint64_t world_size;
    uint64_t micro_batches;
    uint64_t steps_per_epoch;
    uint64_t epoch;
    uint64_t position;
    uint64_t last_step;
    uint64_t costliest_first;
    uint64_t checksum;  ///< of the state
    uint64_t rank;      ///< that the sampler was made with
};

struct Field {
    const char* name;
    uint64_t Told::* value;
};
constexpr Field fields[] = {
    {"sampler of kind", &Told::kind},
    {"seed", &Told::seed},
    {"fingerprint of the samples", &Told::fingerprint},
    {"world size", &Told::world_size},
    {"micro_batches", &Told::micro_batches},
    {"steps_per_epoch", &Told::steps_per_epoch},
    {"epoch", &Told::epoch},
    {"position", &Told::position},
    {"last_step", &Told::last_step},
    {"costliest_first", &Told::costliest_first},
    {"checksum of its other options (budget, cost, caps and the like)", &Told::checksum},
};

Told told_of(RandomAccess& sampler) {
    std::vector<std::byte> state(sampler.save({}));
    sampler.save(state);
    StateHeader header;
    std::memcpy(&header, state.data(), sizeof header);
    const SamplerOptions& options = sampler.cursor().options();
    return {static_cast<uint64_t>(sampler.kind()),
            options.seed,
            sampler.cursor().sequence().fingerprint(),
            options.world_size,
            options.micro_batches,
            options.steps_per_epoch,
            sampler.epoch(),
            sampler.position(),
            static_cast<uint64_t>(options.last_step),
            options.costliest_first,
            header.checksum,
            options.rank};
}

/// "rank 2 has seed 8, the others 7": those that differ from what most have.
std::string odd_ones(const char* name, const std::vector<uint64_t>& values) {
    // without an allocation, which could fail on one rank alone
    if (std::ranges::all_of(values, [&](uint64_t value) { return value == values[0]; })) return {};
    std::map<uint64_t, std::size_t> times;
    for (const uint64_t value : values) ++times[value];
    const uint64_t usual =
        std::ranges::max_element(times, {}, [](const auto& each) { return each.second; })->first;
    constexpr std::size_t most_named = 4;
    std::string named;
    std::size_t count = 0;
    for (std::size_t rank = 0; rank < values.size(); ++rank) {
        if (values[rank] == usual) continue;
        if (++count <= most_named)
            named +=
                text(named.empty() ? "" : ", ", "rank ", rank, " has ", name, " ", values[rank]);
    }
    if (count > most_named) named += text(" and ", count - most_named, " more ranks differ");
    return text(std::string_view(named), ", ",
                values.size() - count == 1 ? "the other" : "the others", " ", usual);
}

}  // namespace

std::pair<uint64_t, uint64_t> ranks_from_environment() {
    static constexpr const char* pairs[][2] = {{"RANK", "WORLD_SIZE"},
                                               {"SLURM_PROCID", "SLURM_NTASKS"},
                                               {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
                                               {"PMI_RANK", "PMI_SIZE"}};
    for (const auto& [rank_name, size_name] : pairs) {
        const char* const rank = std::getenv(rank_name);
        const char* const size = std::getenv(size_name);
        if (rank == nullptr && size == nullptr) continue;
        if (rank == nullptr || size == nullptr)
            refuse_argument(rank != nullptr ? rank_name : size_name, rank != nullptr ? rank : size,
                            "the environment has no ", rank != nullptr ? size_name : rank_name,
                            ": both must be set");
        const uint64_t own = number_in(rank_name, rank), all = number_in(size_name, size);
        check(own < all, rank_name, own, "must be below ", size_name, " = ", all);
        return {own, all};
    }
    return {0, 1};
}

std::pair<uint64_t, uint64_t> data_rank(const uint64_t* shape, const int32_t* is_data,
                                        std::size_t axes, uint64_t rank) {
    check(axes >= 1, "axes", axes, "must be at least 1");
    uint64_t all = 1;
    for (std::size_t i = 0; i < axes; ++i) {
        if (shape[i] < 1) refuse_argument(named("shape[", i, "]"), "0", "must be at least 1");
        if (is_data[i] != 0 && is_data[i] != 1)
            refuse_argument(named("is_data[", i, "]"), is_data[i], "must be 0 or 1");
        if (shape[i] > largest_world_size / all)
            refuse_argument(named("shape[", i, "]"), shape[i],
                            "the mesh must have fewer than 2^32 processes");
        all *= shape[i];
    }
    check(rank < all, "rank", rank, "must be below the number of processes in the mesh, ", all);
    uint64_t own = 0, world_size = 1;
    for (std::size_t i = axes; i-- > 0; rank /= shape[i]) {  // the last axis is the fastest
        if (is_data[i] == 0) continue;
        own += rank % shape[i] * world_size;
        world_size *= shape[i];
    }
    return {own, world_size};
}

namespace {

/// The same on all ranks, since they have the same greetings: no rank goes on where another stops.
/// So nothing is allocated where all is well.
void check_greetings(std::span<const Greeting> greetings) {
    for (std::size_t i = 0; i < greetings.size(); ++i) {
        if (greetings[i].rank != i)
            fail_about(SAB_E_MISMATCH, "all_gather", no_value, "slot ", i, " holds rank ",
                       greetings[i].rank);
        if (greetings[i].status != SAB_OK)
            fail_about(
                SAB_E_MISMATCH, "ranks", no_value, "rank ", i,
                " could not save the state of its sampler: ", sab_status_name(greetings[i].status));
    }
    if (std::ranges::all_of(greetings, [&](const Greeting& each) {
            return each.order_version == greetings[0].order_version;
        }))
        return;
    std::vector<uint64_t> versions;
    for (const Greeting& each : greetings) versions.push_back(each.order_version);
    fail_about(SAB_E_MISMATCH, "ranks", no_value,
               std::string_view(odd_ones("order version", versions)));
}

}  // namespace

void check_ranks(Sampler& sampler, const Ranks& ranks) {
    Told mine{};
    Greeting greeting{order_version, SAB_OK, ranks.rank};
    std::vector<Told> told;
    std::vector<Greeting> greetings;
    std::vector<uint64_t> values, seen_at;
    const std::exception_ptr failure = caught(
        [&] {
            greetings.resize(ranks.world_size);
            told.resize(ranks.world_size);
            values.resize(ranks.world_size);
            seen_at.resize(ranks.world_size, ranks.world_size);
            mine = told_of(need_random_access(sampler, "sab_ranks_check"));
        },
        greeting.status);
    if (failure) {
        ranks.tell(greeting, greetings);
        std::rethrow_exception(failure);
    }
    ranks.gather<Greeting>({&greeting, 1}, greetings);
    check_greetings(greetings);
    ranks.gather<Told>({&mine, 1}, told);

    for (const Field& field : fields) {
        std::ranges::transform(told, values.begin(),
                               [&](const Told& each) { return each.*field.value; });
        if (const std::string odd = odd_ones(field.name, values); !odd.empty())
            fail_about(SAB_E_MISMATCH, "ranks", no_value, std::string_view(odd));
    }
    // each has a shard of its own
    if (sampler.kind() == kind_of("sab_sharded_sampler_new")) return;
    if (mine.world_size != ranks.world_size)
        fail_about(SAB_E_MISMATCH, "ranks", no_value, "their samplers have world size ",
                   mine.world_size, ", but there are ", ranks.world_size, " ranks");
    for (std::size_t i = 0; i < told.size(); ++i) {
        if (told[i].rank >= ranks.world_size)
            fail_about(SAB_E_MISMATCH, "all_gather", no_value, "slot ", i, " holds rank ",
                       told[i].rank, " of ", ranks.world_size, ", which no rank gave");
        uint64_t& other = seen_at[told[i].rank];
        if (other < ranks.world_size)
            fail_about(SAB_E_MISMATCH, "ranks", no_value, "the samplers of ranks ", other, " and ",
                       i, " were both made with rank ", told[i].rank);
        other = i;
    }
}

}  // namespace sab
