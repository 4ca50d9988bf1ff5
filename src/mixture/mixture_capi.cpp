#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/guard.h"
#include "mixture/mixture.h"
#include "mixture/report.h"

namespace {

/// From one to the next it is the size of the caller's struct.
std::vector<sab_mixture_report*> check_reports(sab_mixture_report* reports, std::size_t count) {
    std::vector<sab_mixture_report*> all;
    for (auto* next = reinterpret_cast<char*>(reports); all.size() < count;) {
        auto* const report = reinterpret_cast<sab_mixture_report*>(next);
        const std::string name = sab::text("reports[", all.size(), "]");
        sab::check_result(report, name);
        sab::check(report->struct_size % alignof(sab_mixture_report) == 0, name + ".struct_size",
                   report->struct_size, "must be a multiple of ", alignof(sab_mixture_report));
        all.push_back(report);
        next += report->struct_size;
    }
    return all;
}

}  // namespace

extern "C" {

sab_status sab_mixture_new(const sab_sizes* const* sources, size_t count,
                           const sab_mixture_options* options, sab_sizes** sizes) noexcept {
    return sab::guard_new(sizes, "sizes", [&] {
        const auto given = sab::read_options(options);
        sab::check(count >= 1 && count <= SAB_MAX_SOURCES, "count", count, "must be from 1 to ",
                   SAB_MAX_SOURCES);
        sab::require(static_cast<const void*>(sources), "sources");
        sab::Columns made = sab::mix_sources({sources, count}, given);
        return new sab_sizes{{}, std::move(made)};
    });
}

sab_status sab_mixture_get_source(const sab_sizes* sizes, size_t index, uint64_t epoch,
                                  sab_mixture_source* source) noexcept {
    return sab::guard([&] {
        sab::require(sizes, "sizes");
        sab::check_result(source, "source");
        const sab::Mixture& mixture = sab::Mixture::of(sizes->impl);
        sab::check(index < mixture.sources(), "index", index,
                   "must be below the number of sources, ", mixture.sources());
        sab::write_result(mixture.describe(index, epoch), source);
    });
}

sab_status sab_mixture_get_counts(const sab_sizes* sizes, uint64_t epoch, uint32_t* counts,
                                  size_t count) noexcept {
    return sab::guard([&] {
        sab::require(sizes, "sizes");
        const sab::Mixture& mixture = sab::Mixture::of(sizes->impl);
        sab::check(count == sizes->impl.count(), "count", count, "must be the number of samples, ",
                   sizes->impl.count());
        sizes->impl.refuse_shard();
        sab::require(counts, "counts");
        std::ranges::copy(mixture.counts(epoch), counts);
    });
}

sab_status sab_mixture_get_report(sab_sampler* sampler, const sab_progress_options* options,
                                  sab_mixture_report* reports, size_t count) noexcept {
    return sab::guard([&] {
        sab::require(sampler, "sampler");
        if (count > 0) sab::require(reports, "reports");
        const std::vector<sab_mixture_report*> results = check_reports(reports, count);
        const std::vector<sab_mixture_report> made =
            sab::report_sources(*sampler->impl, sab::read_progress(options), count);
        for (size_t s = 0; s < count; ++s) sab::write_result(made[s], results[s]);
    });
}

}  // extern "C"
