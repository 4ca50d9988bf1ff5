#include "steps/step_in_chunks.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

#include "base/log.h"

namespace sab {

ChunkedStep step_in_chunks(Probe& probe, uint64_t count,
                           const sab_step_in_chunks_options& options) {
    check(count >= 1, "count", count, "must be at least 1");
    require(reinterpret_cast<const void*>(options.chunk), "options.chunk");
    std::vector<double> weights;
    if (options.sample_weights != nullptr) {
        double sum = 0;
        for (uint64_t i = 0; i < count; ++i) {
            const double weight = options.sample_weights[i];
            if (!(weight >= 0 && std::isfinite(weight)))
                refuse_argument(named("options.sample_weights[", i, "]"), weight,
                                "must be finite and not negative");
            sum += weight;
        }
        check(sum > 0 && std::isfinite(sum), "options.sample_weights", no_value, "their sum is ",
              sum, ": ", "must be finite and above 0");
        for (uint64_t i = 0; i < count; ++i) weights.push_back(options.sample_weights[i] / sum);
    }
    ChunkedStep step{options.chunk_size == 0 ? count : std::min(options.chunk_size, count), 0};
    Probe::Rng rng(probe);
    for (;;) {
        if (options.begin != nullptr)
            Probe::hook([&] { return options.begin(options.ctx); }, "begin");
        bool fits = true;
        for (uint64_t first = 0; fits && first < count; first += step.chunk_size) {
            const uint64_t size = std::min(step.chunk_size, count - first);
            double weight = static_cast<double>(size) / static_cast<double>(count);
            if (!weights.empty()) {
                weight = 0;
                for (uint64_t i = first; i < first + size; ++i) weight += weights[i];
                // the mean loss of nothing is no number, and no number times 0 is none
                if (weight == 0) continue;
            }
            const int32_t code = probe.work(
                "chunk", [&] { return options.chunk(options.ctx, first, size, weight); });
            if (code != 0 && code != SAB_OUT_OF_MEMORY)
                fail_callback(text("chunk of ", size, " samples from ", first), code);
            fits = code == 0;
        }
        if (fits) return step;
        ++step.out_of_memory;
        probe.release_cache();
        rng.restore();
        if (step.chunk_size == 1)
            fail(SAB_E_DEVICE_MEMORY, "not enough memory even for a batch of one: a step of ",
                 count, " samples, one at a time, ran out");
        log(SAB_LOG_WARNING, "a step of ", count, " samples ran out of memory in parts of ",
            step.chunk_size, ": trying parts of ", step.chunk_size / 2);
        step.chunk_size /= 2;
    }
}

void guarded_step(MemoryGuard& guard, const sab_batch& batch,
                  const sab_step_in_chunks_options& options) {
    const auto work = [&](Probe& probe) {
        const ChunkedStep done = step_in_chunks(probe, batch.count, options);
        if (done.out_of_memory > 0) return MemoryGuard::Outcome::ran_out;
        return done.chunk_size < batch.count ? MemoryGuard::Outcome::in_parts
                                             : MemoryGuard::Outcome::whole;
    };
    guard.step(batch, std::ref(work));  // a copy would take memory, and might fail before the step
}

}  // namespace sab
