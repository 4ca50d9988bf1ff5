#include "sampler/sampler_options.h"

#include "base/error.h"
#include "base/options.h"

namespace sab {

SamplerOptions::SamplerOptions(const sab_sampler_options& given, bool has_buckets)
    : seed(given.seed),
      epoch(given.epoch),
      rank(given.rank),
      world_size(given.world_size),
      micro_batches(given.micro_batches),
      last_step(given.last_step),
      costliest_first(given.costliest_first),
      mix_lengths(given.mix_lengths == 1),
      steps_per_epoch(given.steps_per_epoch),
      balance(given.balance),
      balance_count(given.balance_count) {
    default_to(world_size, 1);
    default_to(micro_batches, 1);
    check(world_size <= largest_world_size, "options.world_size", world_size,
          "must be at most 2^32 - 1");
    check(rank < world_size, "options.rank", rank, "must be below the world size, ", world_size);
    check(last_step >= SAB_LAST_STEP_SPLIT && last_step <= SAB_LAST_STEP_WRAP, "options.last_step",
          last_step, "must be one of SAB_LAST_STEP_SPLIT (0) to SAB_LAST_STEP_WRAP (2)");
    check(micro_batches <= most_micro_batches, "options.micro_batches", micro_batches,
          "must be at most ", most_micro_batches);
    check(steps_per_epoch <= most_epoch_steps, "options.steps_per_epoch", steps_per_epoch,
          "must be at most 2^32");
    check(given.mix_lengths == 0 || given.mix_lengths == 1, "options.mix_lengths",
          given.mix_lengths, "must be 0 or 1");
    items(balance, balance_count, "options.balance", "options.balance_count");
    if (has_buckets) return;
    check(given.mix_lengths == 0, "options.mix_lengths", given.mix_lengths,
          "must be 0: only the bucket order has this option");
    check(balance_count == 0, "options.balance_count", balance_count,
          "must be 0: only the bucket order has this option");
}

std::optional<Cost> read_balance(const SamplerOptions& options, ColumnNames columns) {
    std::vector<Cost> read =
        read_balances(options.balance, options.balance_count, columns, "options.balance", 1);
    return read.empty() ? std::nullopt : std::optional(std::move(read[0]));
}

void refuse_costliest_first(const SamplerOptions& options, std::string_view why) {
    check(options.costliest_first == 0, "options.costliest_first", options.costliest_first,
          "must be 0: ", why);
}

void refuse_steps_per_epoch(const SamplerOptions& options, std::string_view why) {
    check(options.steps_per_epoch == 0, "options.steps_per_epoch", options.steps_per_epoch,
          "must be 0: ", why);
}

void refuse_shuffling(const SamplerOptions& options) {
    check(options.seed == 0, "options.seed", options.seed, "must be 0: this order is not shuffled");
    refuse_costliest_first(options, "this order is not shuffled");
}

}  // namespace sab
