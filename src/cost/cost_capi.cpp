#include "base/guard.h"
#include "cost/cost.h"

extern "C" {

sab_status sab_cost_padded_new(const double* weights, size_t columns, sab_cost** cost) noexcept {
    return sab::guard_new(cost, "cost",
                          [&] { return new sab_cost{{}, sab::Cost(weights, columns)}; });
}

sab_status sab_cost_terms_new(const sab_cost_term* terms, size_t count, sab_cost** cost) noexcept {
    return sab::guard_new(cost, "cost", [&] {
        if (count > 0) sab::require(terms, "terms");
        return new sab_cost{{}, sab::Cost(sab::read_terms({terms, count}), false)};
    });
}

sab_status sab_cost_transformer_new(uint64_t hidden, uint64_t layers, sab_cost** cost) noexcept {
    return sab::guard_new(cost, "cost",
                          [&] { return new sab_cost{{}, sab::transformer_cost(hidden, layers)}; });
}

sab_status sab_cost_callback_new(sab_cost_fn fn, void* ctx, void (*release)(void* ctx),
                                 sab_cost** cost) noexcept {
    return sab::guard_new(cost, "cost", [&] {
        auto* const made = new sab_cost{{}, sab::Cost(fn, ctx), {ctx, release}};
        made->ctx.own();
        return made;
    });
}

sab_status sab_cost_evaluate(const sab_cost* cost, uint64_t count, const double* lengths,
                             const double* totals, size_t columns, double* value) noexcept {
    return sab::guard([&] {
        sab::require(cost, "cost");
        sab::require(lengths, "lengths");
        sab::require(value, "value");
        *value = cost->impl.evaluate(count, {lengths, columns}, totals);
    });
}

void sab_cost_free(sab_cost* cost) noexcept {
    sab::free_handle(cost);
}

}  // extern "C"
