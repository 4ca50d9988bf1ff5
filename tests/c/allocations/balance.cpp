// balance
#include <stdlib.h>

#include "../one.h"
#include "data.h"

namespace {

int32_t go_on(void *, uint64_t, uint64_t) {
    return 0;
}

/// The other ranks give what this one gives, but for the rank in the last 8 bytes. They wait for a
/// rank that does not come to a gathering, unless it gave something else than usual at the one
/// before: that it has failed.
struct Ranks {
    uint64_t world_size;
    int gathered = 0;
    uint64_t last = 0;  // hash of what this one gave last
    bool is_usual = false;
};
uint64_t usual[8];  // of the runs without failures
int32_t gather(void *ctx, const void *mine, std::size_t size, void *all) {
    auto *const ranks = static_cast<Ranks *>(ctx);
    ranks->last = 14695981039346656037u;
    for (std::size_t i = 0; i < size; ++i)
        ranks->last = (ranks->last ^ static_cast<const unsigned char *>(mine)[i]) * 1099511628211u;
    if (ranks->is_usual) usual[ranks->gathered] = ranks->last;
    ++ranks->gathered;
    for (uint64_t rank = 0; rank < ranks->world_size; ++rank) {
        auto *const place = static_cast<unsigned char *>(all) + rank * size;
        std::memcpy(place, mine, size);
        if (ranks->world_size > 1) std::memcpy(place + size - sizeof rank, &rank, sizeof rank);
    }
    return 0;
}

/// Makes a call that gathers until it succeeds.
template <class Call>
void meet(Run &run, Ranks &ranks, Call &&call) {
    ranks.is_usual = !run.can_fail();
    while (call() != SAB_OK) {
        run.require(ranks.gathered > 0 && ranks.last != usual[ranks.gathered - 1],
                    "the other ranks wait for one that has failed, or succeed without it");
        ranks.gathered = 0;
    }
}

int32_t make_batches(void *, const int64_t *indices, std::size_t count, sab_batches *batches) {
    for (std::size_t i = 0; i < count; i += 3) {
        const sab_status status =
            sab_bagua_batches_add(batches, indices + i, count - i < 3 ? count - i : 3);
        if (status != SAB_OK) return status;
    }
    return 0;
}

void walk_on(Run &run, sab_sampler *sampler) {
    walk(run, sampler, 4);
    std::vector<unsigned char> state = state_of(run, sampler);
    run.note(state.data(), state.size());
    CALL_OR_SKIP(sab_sampler_set_epoch(sampler, 2));
    walk(run, sampler, 2);
    CALL_OR_SKIP(sab_sampler_state_restore(sampler, state.data(), state.size()));
    walk(run, sampler);
    CALL(sab_sampler_seek(sampler, 2));
    sab_batch batch = SAB_BATCH_INIT;
    CALL_INTO(batch, sab_sampler_at(sampler, 1, &batch));
    run.note_batch(batch);
    walk(run, sampler);
    state = state_of(run, sampler);
    run.note(state.data(), state.size());
}

}  // namespace

SCENARIO(partition, Threads::none) {
    std::vector<uint32_t> parts(lengths().size());
    CALL_INTO(parts,
              sab_items_partition(lengths().data(), lengths().size(), 7, nullptr, parts.data()));
    run.note(parts.data(), parts.size() * sizeof parts[0]);
    sab_partition_options options = SAB_PARTITION_OPTIONS_INIT;
    options.weights = lengths().data();
    const double capacity = 300;
    options.capacities = &capacity;
    options.capacity_count = 1;
    CALL_INTO(parts,
              sab_items_partition(lengths().data(), lengths().size(), 10, &options, parts.data()));
    run.note(parts.data(), parts.size() * sizeof parts[0]);
    options.equal_counts = 1;
    CALL_INTO(parts,
              sab_items_partition(lengths().data(), lengths().size(), 10, &options, parts.data()));
    run.note(parts.data(), parts.size() * sizeof parts[0]);
    options.cost_count = 2;
    options.weights = nullptr;
    options.capacities = nullptr, options.capacity_count = 0;
    options.equal_counts = 0;
    parts.resize(lengths().size() / 2);
    CALL_INTO(parts,
              sab_items_partition(lengths().data(), parts.size(), 10, &options, parts.data()));
    run.note(parts.data(), parts.size() * sizeof parts[0]);
}

SCENARIO(context_plan, Threads::none) {
    const std::vector<double> few(lengths().begin(), lengths().begin() + 12);
    sab_sizes *const sizes = sizes_of(run, few);
    for (const sab_context_groups groups : {SAB_CONTEXT_POWERS_OF_TWO, SAB_CONTEXT_ANY_NUMBER}) {
        sab_context_options options = SAB_CONTEXT_OPTIONS_INIT;
        options.overhead = groups == SAB_CONTEXT_POWERS_OF_TWO ? 0.5 : 0;
        options.groups = groups;
        sab_context_plan *plan = nullptr;
        CALL_INTO(plan, sab_context_plan_new(sizes, 8, 30, &options, &plan));
        sab_context_plan_view view = SAB_CONTEXT_PLAN_VIEW_INIT;
        CALL_INTO(view, sab_context_plan_get_view(plan, &view));
        run.note(&view.makespan, sizeof view.makespan);
        run.note(view.offsets, (view.world_size + 1) * sizeof *view.offsets);
        CALL_PLAIN(sab_context_plan_free(plan));
    }
    CALL_PLAIN(sab_sizes_free(sizes));
}

SCENARIO(step_plan, Threads::none) {
    std::vector<int64_t> groups, prefix, parents;
    for (std::size_t i = 0; i < few_lengths().size(); ++i) {
        groups.push_back(static_cast<int64_t>(i / 3));
        prefix.push_back(1);
        parents.push_back(static_cast<int64_t>(i) / 3 - 1);
    }
    const uint32_t square = 2;
    const sab_cost_term term{1, 1, 1, &square, {}};
    sab_cost *cost = nullptr;
    CALL_INTO(cost, sab_cost_terms_new(&term, 1, &cost));
    const sab_budget budgets[] = {{nullptr, 110}, {cost, 12000}};
    sab_sizes *const sizes = sizes_of(run, few_lengths());
    // One budget, two, groups, padded, padded groups, groups with a prefix, and trees.
    for (int kind = 0; kind < 7; ++kind) {
        sab_step_plan_options options = SAB_STEP_PLAN_OPTIONS_INIT;
        options.world_size = 3;
        options.budgets = budgets;
        options.budget_count = kind == 1 ? 2 : 1;
        if (kind == 2 || kind == 4 || kind == 5) options.groups = groups.data();
        if (kind == 3 || kind == 4) options.padded = 1;
        if (kind == 5) options.prefix = prefix.data();
        if (kind == 6) options.parents = parents.data();
        sab_step_plan *plan = nullptr;
        CALL_INTO(plan, sab_step_plan_new(sizes, &options, &plan));
        sab_step_plan_view view = SAB_STEP_PLAN_VIEW_INIT;
        CALL_INTO(view, sab_step_plan_get_view(plan, &view));
        run.note(view.indices, view.samples * sizeof *view.indices);
        run.note(view.offsets, (3 * view.micro_batches + 1) * sizeof *view.offsets);
        std::vector<double> weights(view.nodes);
        CALL_INTO(weights,
                  sab_step_plan_get_loss_weights(plan, SAB_LOSS_BY_GROUP, nullptr, weights.data()));
        run.note(weights.data(), weights.size() * sizeof weights[0]);
        CALL_PLAIN(sab_step_plan_free(plan));
    }
    CALL_PLAIN(sab_sizes_free(sizes));
    CALL_PLAIN(sab_cost_free(cost));
}

SCENARIO(load_balancing_sampler, Threads::none) {
    sab_sizes *const sizes = sizes_of(run, lengths());
    const sab_sampler_options options = rank_options();
    sab_bagua_options balancing = SAB_BAGUA_OPTIONS_INIT;
    balancing.random_level = 0.5;
    balancing.batch_size = 4;
    sab_sampler *sampler = nullptr;
    CALL_INTO(sampler, sab_bagua_sampler_new(sizes, &balancing, &options, &sampler));
    CALL_PLAIN(sab_sizes_free(sizes));
    walk_on(run, sampler);
    CALL_PLAIN(sab_sampler_free(sampler));
}

SCENARIO(load_balancing_batches, Threads::none) {
    run.allow(SAB_E_CALLBACK);  // of the callback that adds batches
    sab_sizes *const sizes = sizes_of(run, lengths());
    const sab_sampler_options options = rank_options();
    for (const bool asks : {true, false}) {
        sab_bagua_options balancing = SAB_BAGUA_OPTIONS_INIT;
        if (asks) {
            balancing.make_batches = make_batches;
            balancing.make_batches_ctx = run.context();
            balancing.release = Run::release;
        } else {
            balancing.limit = 100;
        }
        sab_sampler *sampler = nullptr;
        CALL_INTO(sampler, sab_bagua_sampler_new(sizes, &balancing, &options, &sampler));
        walk_on(run, sampler);
        CALL_PLAIN(sab_sampler_free(sampler));
    }
    CALL_PLAIN(sab_sizes_free(sizes));
    CALL_FAILS(SAB_E_ARGUMENT, sab_bagua_batches_add(nullptr, nullptr, 0));
}

SCENARIO(balanced_columns, Threads::none) {
    sab_sizes *parts[2] = {sizes_of(run, few_lengths()), sizes_of(run, few_lengths())},
              *sizes = nullptr;
    CALL_INTO(sizes, sab_sizes_columns_new(parts, nullptr, 2, &sizes));
    for (sab_sizes *const part : parts) CALL_PLAIN(sab_sizes_free(part));
    const uint32_t both[] = {1, 1}, second[] = {0, 1};
    const sab_cost_term terms[] = {{1, 1, 2, both, {}}, {2, 1, 2, second, {}}};
    sab_cost *cost = nullptr;
    CALL_INTO(cost, sab_cost_terms_new(terms, 2, &cost));
    const sab_budget budgets[] = {{nullptr, 150}, {cost, 8000}};
    sab_sampler_options options = rank_options();
    sab_balanced_options balanced = SAB_BALANCED_OPTIONS_INIT;
    balanced.budgets = budgets;
    balanced.budget_count = 2;
    sab_sampler *sampler = nullptr;
    CALL_INTO(sampler, sab_balanced_sampler_new(sizes, &balanced, &options, &sampler));
    CALL_PLAIN(sab_sizes_free(sizes));
    CALL_PLAIN(sab_cost_free(cost));
    walk_on(run, sampler);
    sab_balanced_report report = SAB_BALANCED_REPORT_INIT;
    CALL_INTO(report,
              sab_balanced_sampler_get_report(sampler, a_progress(go_on, nullptr), &report));
    note_balance(run, report);
    CALL_PLAIN(sab_sampler_free(sampler));
}

SCENARIO(balanced_sampler, Threads::none) {
    sab_sizes *const sizes = sizes_of(run, lengths());
    sab_sampler_options options = rank_options();
    sab_balanced_options balanced = SAB_BALANCED_OPTIONS_INIT;
    SET_BUDGET(balanced, 120);
    BALANCE_SQUARES(balanced);
    balanced.progress = go_on;
    sab_sampler *sampler = nullptr;
    CALL_INTO(sampler, sab_balanced_sampler_new(sizes, &balanced, &options, &sampler));
    CALL_PLAIN(sab_sizes_free(sizes));
    walk_on(run, sampler);
    sab_balanced_report report = SAB_BALANCED_REPORT_INIT;
    CALL_INTO(report,
              sab_balanced_sampler_get_report(sampler, a_progress(go_on, nullptr), &report));
    note_balance(run, report);
    walk(run, sampler);
    CALL(sab_sampler_set_epoch(sampler, 4));
    take_blocks(run, sampler, 8);
    walk(run, sampler);
    CALL_PLAIN(sab_sampler_free(sampler));
}

SCENARIO(balanced_mixture, Threads::none) {
    sab_sizes *const sources[2] = {sizes_of(run, lengths()), sizes_of(run, lengths())};
    const double repeats[2] = {0.5, 1.2};
    sab_mixture_options mixture = SAB_MIXTURE_OPTIONS_INIT;
    mixture.repeats = repeats;
    mixture.repeat_count = 2;
    sab_sizes *mixed = nullptr;
    CALL_INTO(mixed, sab_mixture_new(sources, 2, &mixture, &mixed));
    for (sab_sizes *const source : sources) CALL_PLAIN(sab_sizes_free(source));
    sab_sampler_options options = rank_options();
    sab_balanced_options balanced = SAB_BALANCED_OPTIONS_INIT;
    SET_BUDGET(balanced, 120);
    sab_sampler *sampler = nullptr;
    CALL_INTO(sampler, sab_balanced_sampler_new(mixed, &balanced, &options, &sampler));
    CALL_PLAIN(sab_sizes_free(mixed));
    walk_on(run, sampler);
    sab_mixture_report reports[2] = {SAB_MIXTURE_REPORT_INIT, SAB_MIXTURE_REPORT_INIT};
    CALL_INTO(reports, sab_mixture_get_report(sampler, a_progress(go_on, nullptr), reports, 2));
    run.note(reports, sizeof reports);
    CALL_PLAIN(sab_sampler_free(sampler));
}

SCENARIO(ranks, Threads::none) {
    setenv("RANK", "2", 1);
    setenv("WORLD_SIZE", "4", 1);
    uint64_t rank = 0, world_size = 0;
    CALL_INTO(rank, sab_ranks_get_from_environment(&rank, &world_size));
    run.note(rank);
    setenv("RANK", "two", 1);
    CALL_FAILS(SAB_E_ARGUMENT, sab_ranks_get_from_environment(&rank, &world_size));
    unsetenv("RANK");
    unsetenv("WORLD_SIZE");
    const uint64_t shape[] = {2, 3, 2};
    const int32_t is_data[] = {1, 0, 1};
    CALL_INTO(rank, sab_ranks_get_from_mesh(shape, is_data, 3, 7, &rank, &world_size));
    run.note(rank);
}

SCENARIO(check_ranks, Threads::none) {
    sab_plan *const plan = plan_with(run, with_budget(300));
    sab_sampler_options options = rank_options();
    sab_sampler *sampler = nullptr;
    CALL_INTO(sampler, sab_bucket_sampler_new(plan, &options, &sampler));
    Ranks ranks;
    ranks.world_size = 3;
    meet(run, ranks, [&] { return CALL_ONCE(sab_ranks_check(sampler, 1, 3, gather, &ranks)); });
    walk(run, sampler, 2);
    CALL_PLAIN(sab_sampler_free(sampler));
    CALL_PLAIN(sab_plan_free(plan));
}

SCENARIO(sharded_sampler, Threads::none) {
    sab_sizes *const sizes = sizes_of(run, lengths());
    const sab_plan_options plan = with_budget(300);
    sab_sampler *sampler = nullptr;
    Ranks ranks;
    ranks.world_size = 1;
    meet(run, ranks, [&] {
        return CALL_ONCE(sab_sharded_sampler_new(sizes, &plan, nullptr, gather, &ranks, &sampler));
    });
    CALL_PLAIN(sab_sizes_free(sizes));
    walk_on(run, sampler);
    CALL_PLAIN(sab_sampler_free(sampler));
}

SCENARIO(sharded_mixture, Threads::none) {
    sab_sizes *const plain = sizes_of(run, lengths());
    std::vector<int64_t> ids(lengths().size());
    for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int64_t>(i % 3);
    const double repeats[] = {1, 0.5, 2.5};
    sab_mixture_options mixing = SAB_MIXTURE_OPTIONS_INIT;
    mixing.repeats = repeats;
    mixing.repeat_count = 3;
    sab_sizes *mixture = nullptr;
    mixing.ids = ids.data();
    mixing.id_count = ids.size();
    CALL(sab_mixture_new(&plain, 1, &mixing, &mixture));
    const sab_plan_options plan = with_budget(300);
    sab_sampler *sampler = nullptr;
    Ranks ranks;
    ranks.world_size = 1;
    meet(run, ranks, [&] {
        return CALL_ONCE(
            sab_sharded_sampler_new(mixture, &plan, nullptr, gather, &ranks, &sampler));
    });
    CALL_PLAIN(sab_sizes_free(mixture));
    CALL_PLAIN(sab_sizes_free(plain));
    walk_on(run, sampler);
    CALL_PLAIN(sab_sampler_free(sampler));
}
