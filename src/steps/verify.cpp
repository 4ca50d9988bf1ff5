#include "steps/verify.h"

#include <algorithm>

#include "base/guard.h"
#include "sampler/cursor.h"
#include "steps/search.h"

namespace sab {

void verify(const sab_plan& plan, Probe& probe, uint64_t count, sab_batch_fn run, void* ctx,
            const Progress& progress, sab_verification* result) {
    check(count >= 1, "count", count, "must be at least 1");
    Cursor costliest(make_costliest_sequence(plan, count), {});
    sab_verification seen{sizeof(sab_verification), 0, -1, -1};
    Probe::Rng rng(probe);
    const uint64_t batches = costliest.batch_count();
    for (EpochBatch placed; costliest.next(placed);) {
        progress.report(seen.batches, batches);
        rng.restore();
        probe.release_cache();
        const Measuring measuring(probe);
        const sab_batch batch = shown(placed);
        const int32_t code = probe.work("run", [&] { return run(ctx, &batch); });
        const sab_probe_stats stats = probe.read();
        ++seen.batches;
        seen.peak = std::max(seen.peak, measuring.span().most(stats.peak));
        seen.total = stats.total;
        if (code == SAB_OUT_OF_MEMORY) {
            write_result(seen, result);
            fail(SAB_E_DEVICE_MEMORY, "costliest batch ", placed.step, ", ", batch.count,
                 " samples padded to ",
                 lengths_text(first_of(placed.batch.padded_length, placed.batch.columns)),
                 ", runs out of memory: lower the budget");
        }
        if (code != 0) fail_callback(text("costliest batch ", placed.step), code);
    }
    rng.restore();
    write_result(seen, result);
}

}  // namespace sab
