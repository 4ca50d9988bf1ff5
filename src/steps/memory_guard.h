#pragma once
/// Keeps a run within its memory: measures the peaks of its steps and lowers the budget of its
/// sampler in time.

#include <exception>
#include <functional>
#include <memory>
#include <vector>

#include "base/handle.h"
#include "cost/cost.h"
#include "memory/probe.h"
#include "sab/steps.h"
#include "sampler/sampler.h"

namespace sab {

class MemoryGuard {
public:
    MemoryGuard(std::shared_ptr<Probe> probe, Sampler& sampler,
                const sab_memory_guard_options& options);

    enum class Outcome { whole, in_parts, ran_out, failed };
    /// Runs a step of at least one sample by `work`, from begin() to end(). A step that fails is
    /// counted, too.
    void step(const sab_batch& batch, const std::function<Outcome(Probe&)>& work);
    void begin();
    void end(const sab_batch& batch, bool ran_out);
    sab_memory_guard_info info() const;

private:
    struct Step {
        double number, cost, peak;
    };
    /// peak = constant + slope * cost, and what lies above that.
    struct Refit {
        double constant, slope, creep;
    };
    void finish(const sab_batch& batch, Outcome outcome, std::exception_ptr failure);
    void record(const sab_batch& batch, Outcome outcome);
    bool lower(double limit);
    Refit refit() const;
    void judge();

    std::shared_ptr<Probe> probe_;
    Cursor& sampler_;  ///< whose first budget is lowered
    sab_memory_guard_options options_;
    Cost cost_;
    bool in_bytes_;
    int64_t budget_ = 0;                 ///< bytes that peaks may have
    std::unique_ptr<Probe::Span> span_;  ///< of the step that has begun
    std::vector<Step> window_;           ///< a ring, of steps that had samples
    std::size_t oldest_ = 0;
    double ran_out_cost_;     ///< least cost of a batch that ran out since the last judgement
    bool has_whole_ = false;  ///< whether a step was whole since the last judgement
    uint64_t steps_ = 0, out_of_memory_ = 0, lowered_ = 0;
    int64_t peak_ = -1;
    double peaks_ = 0;  ///< their sum
    uint64_t peak_count_ = 0;
    double creep_ = 0;
};

}  // namespace sab

struct sab_memory_guard {
    sab::Tag<sab_memory_guard> tag{};
    sab::MemoryGuard impl;
};
