#include "sampler/state.h"

#include <vector>

#include "sampler/constructors.h"

namespace sab {
namespace {

constexpr uint32_t state_version = 6;

/// A kind of sampler that has states.
struct StateKind {
    const char* constructor;
    /// Between samplers of the kind with another fingerprint.
    const char* difference = "other sizes or options";
    const char* way = "";  ///< what to do where this is another budget
};

constexpr const char* lower =
    "; for another budget within an epoch make the sampler with the plan of the state, restore it, "
    "and call sab_sampler_set_budget()";

/// Those of which states say more.
constexpr StateKind state_kinds[] = {
    {"sab_bucket_sampler_new", "another plan or balance", lower},
    {"sab_sequential_sampler_new", "another plan", lower},
    {"sab_costliest_sampler_new", "another plan"},
    {"sab_packed_sampler_new", "other sizes or options of the packing",
     "; the rows of an epoch keep their capacity: restore it with that capacity, or begin the next "
     "epoch with sab_sampler_set_epoch()"},
    {"sab_balanced_sampler_new", "other sizes"},
    {"sab_sharded_sampler_new", "another plan or other shards"},
    {"sab_ordered_sampler_new", "other indices, other sizes or another budget",
     "; the batches of an epoch keep their budget: restore it with that budget, or begin the next "
     "epoch with sab_sampler_set_epoch()"},
    {"sab_bagua_sampler_new", "other complexities or options"},
};

StateKind find_kind(uint32_t number) {
    for (const StateKind& kind : state_kinds)
        if (static_cast<uint32_t>(kind_of(kind.constructor)) == number) return kind;
    for (const char* const constructor : sampler_constructors)
        if (static_cast<uint32_t>(kind_of(constructor)) == number) return {constructor};
    return {"a constructor that this library does not have"};
}

const char* name_of(sab_last_step last_step) {
    switch (last_step) {
        case SAB_LAST_STEP_SPLIT: return "SAB_LAST_STEP_SPLIT (0)";
        case SAB_LAST_STEP_DROP: return "SAB_LAST_STEP_DROP (1)";
        default: return "SAB_LAST_STEP_WRAP (2)";
    }
}

std::vector<uint64_t> numbers_in(std::span<const std::byte> bytes) {
    std::vector<uint64_t> numbers(bytes.size() / sizeof(uint64_t));
    if (!numbers.empty())
        std::memcpy(numbers.data(), bytes.data(), numbers.size() * sizeof(uint64_t));
    return numbers;
}

}  // namespace

std::size_t write_state(SamplerKind kind, uint64_t fingerprint, const EpochChoice* choice,
                        const OrderState& order, std::span<const std::byte> body,
                        std::span<const uint64_t> numbers, std::span<std::byte> out) {
    std::vector<uint64_t> proportions;
    if (has_mixtures && choice != nullptr) proportions = choice->proportions(order.epoch);
    const auto chosen = std::as_bytes(std::span(proportions)), after_body = std::as_bytes(numbers),
               place = std::as_bytes(std::span(&order, 1));
    const std::size_t size =
        sizeof(StateHeader) + place.size() + body.size() + after_body.size() + chosen.size();
    if (out.size() < size) return size;
    const StateHeader header{{'S', 'A', 'B', 'S'},
                             state_version,
                             0,
                             static_cast<uint32_t>(size),
                             static_cast<uint32_t>(kind),
                             fingerprint,
                             numbers.size()};
    write_sealed(header, {place, body, after_body, chosen}, out.first(size));
    return size;
}

std::vector<uint64_t> read_state(std::span<const std::byte> state, SamplerKind kind,
                                 uint64_t fingerprint, const EpochChoice* choice, OrderState& order,
                                 std::span<std::byte> body) {
    if (state.size() >= 4 && std::memcmp(state.data(), "SABP", 4) == 0)
        mismatch_state("was saved with steps_per_epoch, this sampler has none");
    const auto header = read_sealed<StateHeader>(state, "SABS", "a sampler", state_version);
    const StateKind own = find_kind(static_cast<uint32_t>(kind));
    if (header.kind != static_cast<uint32_t>(kind))
        mismatch_state("was saved by another kind of sampler: it is of ",
                       find_kind(header.kind).constructor, ", this sampler of ", own.constructor);
    auto saved = state.subspan(sizeof header);
    for (const auto part : {std::as_writable_bytes(std::span(&order, 1)), body}) {
        const std::size_t size = std::min(saved.size(), part.size());
        std::ranges::copy(saved.first(size), part.begin());
        saved = saved.subspan(size);
    }
    const std::size_t numbers =
        std::min<std::size_t>(saved.size() / sizeof(uint64_t), header.numbers);
    const auto chosen = saved.subspan(numbers * sizeof(uint64_t));
    if (has_mixtures && choice != nullptr && header.fingerprint != fingerprint)
        choice->match_proportions(order.epoch, numbers_in(chosen));
    if (header.fingerprint != fingerprint)
        mismatch_state("was saved with ", own.difference, ": fingerprint ", header.fingerprint,
                       ", this sampler has ", fingerprint, own.way);
    const std::size_t own_chosen =
        has_mixtures && choice != nullptr ? choice->proportions(order.epoch).size() : 0;
    check_consistent(numbers == header.numbers);
    check_state_size(state.size(), sizeof header + sizeof order + body.size() +
                                       (numbers + own_chosen) * sizeof(uint64_t));
    return numbers_in(saved.first(numbers * sizeof(uint64_t)));
}

void match_state(const char* what, uint64_t saved, uint64_t own) {
    if (saved != own)
        mismatch_state("was saved with ", what, " ", saved, ", this sampler has ", own);
}

void match_order(const OrderState& saved, const SamplerOptions& options) {
    match_state("order version", saved.version, order_version);
    match_state("seed", saved.seed, options.seed);
    if (saved.last_step != options.last_step)
        mismatch_state("was saved with last_step ", name_of(saved.last_step), ", this sampler has ",
                       name_of(options.last_step));
    check_consistent(saved.world_size >= 1 && saved.world_size <= largest_world_size &&
                     saved.micro_batches >= 1 && saved.micro_batches <= most_micro_batches);
    check_consistent(saved.position <= uint64_t{1} << 62 && saved.has_ended <= 1);
}

void check_consistent(bool is_sound) {
    if (!is_sound) refuse_state("its position is not one of this epoch; the state is damaged");
}

}  // namespace sab
