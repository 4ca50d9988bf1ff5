/** @file sab.hpp
 * libsab for C++17: handles that free themselves, errors as exceptions, range-for over batches.
 *
 * A thin layer over sab.h without logic of its own. It is compiled with the program, so the C
 * functions stay the binary interface. It needs no run-time type information.
 *
 *     const sab_budget budget = {nullptr, 4096, {}};  // padded tokens of a batch
 *     auto options = sab::PlanOptions();          // the C struct with its defaults
 *     options.budgets = &budget;
 *     options.budget_count = 1;
 *     const sab::Plan plan(sab::Sizes(lengths), options);
 *     sab::BucketSampler sampler(plan);
 *     for (const sab::Batch &batch : sampler) train(batch.indices, batch.count);
 *
 * All names are in the inline namespace `sab::cpp`; write `sab::Plan`. The library itself uses the
 * namespace `sab` inside. The inline namespace gives this header's symbols different names, so that
 * a program can also link the library statically.
 *
 * - Errors. A failed call throws sab::Error. An exception of a callback comes out of the call.
 * - Ownership. Handles can be moved, not copied. A moved-from handle is refused by SAB_E_ARGUMENT.
 * - The rest of the C interface. get() returns the C handle; a constructor takes one over.
 * - Everything else is as sab.h says: threads, forks, lifetimes, the meaning of each option.
 */
#ifndef SAB_HPP
#define SAB_HPP

#include <sab.h>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <iterator>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace sab {
inline namespace cpp {

/// A failure of the library.
class SAB_API Error : public std::runtime_error {
public:
    /// With the message of the call that failed last in this thread.
    explicit Error(sab_status status)
        : std::runtime_error(sab_last_error_message()),
          status_(status),
          code_(sab_last_error_code()),
          parts_(std::make_shared<const Parts>(
              Parts{sab_last_error_argument(), sab_last_error_value(), sab_last_error_rule()})) {}
    /// One of SAB_E_...
    sab_status status() const noexcept { return status_; }
    /// As sab_last_error_code(): the errno of SAB_E_IO, the code of a callback that failed, or 0.
    int32_t code() const noexcept { return code_; }
    /// The refused argument, such as "sizes[3]"; "" where the failure is about none.
    const std::string &argument() const noexcept { return parts_->argument; }
    /// Its value; without an argument the name of the file.
    const std::string &value() const noexcept { return parts_->value; }
    /// The rule that it breaks; of SAB_E_IO the reason.
    const std::string &rule() const noexcept { return parts_->rule; }

private:
    struct Parts {
        std::string argument, value, rule;
    };
    sab_status status_;
    int32_t code_;
    std::shared_ptr<const Parts> parts_;  // a copy of an exception must not fail
};

/// @cond
namespace detail {

// What a callback threw in the call that is under way in this thread, and the code that says so.
inline std::exception_ptr &thrown() noexcept {
    static thread_local std::exception_ptr kept;
    return kept;
}
inline constexpr int32_t threw = -0x5ab;

// Runs a callback's body, which returns the code for the library. No exception may pass through it.
template <class Body>
int32_t guarded(const Body &body) noexcept {
    try {
        return body();
    } catch (...) {
        thrown() = std::current_exception();
        return threw;
    }
}

template <class Function>
void *context(const Function &function) noexcept {
    return const_cast<void *>(static_cast<const void *>(&function));
}
template <class Function>
const Function &from(void *ctx) noexcept {
    return *static_cast<const Function *>(ctx);
}
}  // namespace detail
/// @endcond

/// Returns a status that is no failure. Throws what a callback threw, otherwise an Error.
inline sab_status check(sab_status status) {
    if (status >= 0) return status;
    if (sab_last_error_code() == detail::threw && detail::thrown()) {
        std::rethrow_exception(std::exchange(detail::thrown(), nullptr));
    }
    throw Error(status);
}

/// A struct of the C interface with its size set and zero in all other fields: the defaults of
/// options.
template <class Struct>
struct Sized : Struct {
    Sized() noexcept : Struct{} { this->struct_size = sizeof(Struct); }
};
using PlanOptions = Sized<sab_plan_options>;
using SamplerOptions = Sized<sab_sampler_options>;
using SizesArrowOptions = Sized<sab_sizes_arrow_options>;
#if SAB_WITH_PACK
using PackedOptions = Sized<sab_packed_options>;
#endif
#if SAB_WITH_BALANCE
using StepPlanOptions = Sized<sab_step_plan_options>;
using BalancedOptions = Sized<sab_balanced_options>;
using ContextOptions = Sized<sab_context_options>;
#endif
#if SAB_WITH_COMPAT
using BionemoOptions = Sized<sab_bionemo_options>;
using BaguaOptions = Sized<sab_bagua_options>;
#endif
#if SAB_WITH_MIXTURE
using MixtureOptions = Sized<sab_mixture_options>;
#endif
#if SAB_WITH_FILES
using SizesFileOptions = Sized<sab_sizes_file_options>;
#endif
#if SAB_WITH_STREAM
using ReadaheadOptions = Sized<sab_readahead_stream_options>;
using PackStreamOptions = Sized<sab_pack_stream_options>;
#endif
#if SAB_WITH_MEMORY
using MeasurementOptions = Sized<sab_measurement_options>;
using ModelOptions = Sized<sab_memory_model_options>;
using ProbeOptions = Sized<sab_probe_options>;
using GuardOptions = Sized<sab_memory_guard_options>;
#endif
#if SAB_WITH_CACHE
using CacheOptions = Sized<sab_cache_options>;
#endif

/// The size of sample `index`.
using SizeFunction = std::function<double(int64_t index)>;
/// The cost of a batch of `count` samples, padded to `length`. For sizes of one column.
using CostFunction = std::function<double(uint64_t count, double length)>;
/// The cost of a batch of `count` samples: the length of each column, and its total.
using ColumnsCostFunction = std::function<double(uint64_t count, const std::vector<double> &lengths,
                                                 const std::vector<double> &totals)>;
/// @cond
namespace detail {

template <class T>
constexpr sab_dtype dtype() {
    static_assert(std::is_arithmetic_v<T> && sizeof(T) <= 8 && !std::is_same_v<T, bool>);
    constexpr int log2 = sizeof(T) == 1 ? 0 : sizeof(T) == 2 ? 1 : sizeof(T) == 4 ? 2 : 3;
    if (std::is_floating_point_v<T>) return SAB_FLOAT32 + (log2 - 2);
    return (std::is_signed_v<T> ? SAB_INT8 : SAB_UINT8) + log2;
}
inline int32_t size_of(void *ctx, int64_t index, double *size) noexcept {
    return guarded([&] { return *size = from<SizeFunction>(ctx)(index), 0; });
}
inline int32_t cost_of(void *ctx, uint64_t count, const double *lengths, const double *totals,
                       size_t columns, double *cost) noexcept {
    return guarded([&] {
        const std::vector<double> each(lengths, lengths + columns), sums(totals, totals + columns);
        return *cost = from<ColumnsCostFunction>(ctx)(count, each, sums), 0;
    });
}
inline int32_t cost_of_one(void *ctx, uint64_t count, const double *lengths, const double *,
                           size_t columns, double *cost) noexcept {
    return guarded([&] {
        if (columns > 1)
            throw std::invalid_argument(
                "cost: is a function of one length, but the "
                "sizes have several columns");
        return *cost = from<CostFunction>(ctx)(count, lengths[0]), 0;
    });
}
template <class Function>
void free_cost(void *ctx) noexcept {
    delete static_cast<Function *>(ctx);
}

}  // namespace detail
/// @endcond

/// A handle of the C interface, freed when it is destroyed.
template <class Raw, void (*free)(Raw *) noexcept>
class Handle {
public:
    /// Takes a C handle over.
    explicit Handle(Raw *raw) noexcept : raw_(raw) {}
    /// The C handle; NULL after a move.
    Raw *get() const noexcept { return raw_.get(); }
    /// Gives the C handle to the caller, who frees it.
    Raw *release() noexcept { return raw_.release(); }

protected:
    // The handle that a constructor of the C interface makes.
    template <class Make, class... Arguments>
    static Raw *created(Make make, Arguments... arguments) {
        Raw *made = nullptr;
        check(make(arguments..., &made));
        return made;
    }
    // A number that the library gives.
    template <class T, class Get>
    T value(Get get_value) const {
        T value{};
        check(get_value(get(), &value));
        return value;
    }
    // A struct that the library fills.
    template <class Struct, class Fill, class... Arguments>
    Struct filled(Fill fill, Arguments... arguments) const {
        Sized<Struct> made;
        check(fill(get(), arguments..., &made));
        return made;
    }
    // An array whose length the library gives first.
    template <class Item, class Write, class... Arguments>
    std::vector<Item> written(Write write, Arguments... arguments) const {
        size_t count = 0;
        check(write(get(), arguments..., nullptr, 0, &count));
        std::vector<Item> items(count);
        check(write(get(), arguments..., items.data(), items.size(), &count));
        return items;
    }

private:
    struct Free {
        void operator()(Raw *raw) const noexcept { free(raw); }
    };
    std::unique_ptr<Raw, Free> raw_;
};

/// The size of each sample; see sab_sizes.
class Sizes : public Handle<sab_sizes, sab_sizes_free> {
public:
    using Handle::Handle;
    /// Copies `count` numbers.
    template <class T>
    Sizes(const T *data, size_t count) : Sizes(from_memory(data, count, 1)) {}
    /// Copies the numbers.
    template <class T>
    explicit Sizes(const std::vector<T> &sizes) : Sizes(sizes.data(), sizes.size()) {}
    /// Calls `size` once for each of `count` samples.
    Sizes(size_t count, const SizeFunction &size)
        : Handle(created(sab_sizes_callback_new, count, &detail::size_of, detail::context(size),
                         nullptr)) {}
    /// Numbers that must stay unchanged while the sizes, and samplers made from them, exist.
    template <class T>
    static Sizes borrowed(const T *data, size_t count) {
        return from_memory(data, count, 0);
    }
    /// An Arrow array or a column of one, without a copy. The sizes own the array then:
    /// `array.release` becomes null. See sab_sizes_arrow_new().
    static Sizes from_arrow(ArrowArray &array, const ArrowSchema &schema,
                            const char *column = nullptr,
                            const sab_sizes_arrow_options &given = SizesArrowOptions()) {
        return Sizes(created(sab_sizes_arrow_new, &array, &schema, column, &given));
    }
    /// The arrays of an Arrow stream, or a column of them, without a copy. The sizes own the stream
    /// then: `stream.release` becomes null. See sab_sizes_arrow_stream_new().
    static Sizes from_arrow(ArrowArrayStream &stream, const char *column = nullptr,
                            const sab_sizes_arrow_options &given = SizesArrowOptions()) {
        return Sizes(created(sab_sizes_arrow_stream_new, &stream, column, &given));
    }
    /// The sizes of the parts, one after the other, without a copy.
    static Sizes join(const std::vector<Sizes> &parts) {
        std::vector<const sab_sizes *> handles;
        for (const Sizes &part : parts) handles.push_back(part.get());
        return Sizes(created(sab_sizes_join_new, handles.data(), handles.size()));
    }
    /// The name of a column, and its sizes.
    using Column = std::pair<const char *, const Sizes *>;
    /// Samples with several sizes, such as {{"source", &source}, {"target", &target}}, without a
    /// copy; see sab_sizes_columns_new().
    static Sizes columns(const std::vector<Column> &columns) {
        std::vector<const sab_sizes *> handles;
        std::vector<const char *> names;
        for (const auto &[name, sizes] : columns) {
            handles.push_back(sizes->get());
            names.push_back(name);
        }
        return Sizes(created(sab_sizes_columns_new, handles.data(), names.data(), handles.size()));
    }
#if SAB_WITH_MIXTURE
    /// Data sets in proportions by their names, such as {{"wiki", &wiki}, {"code", &code}}; see
    /// sab_mixture_new(). The names of the options are not used.
    static Sizes mixture(const std::vector<Column> &sources,
                         sab_mixture_options given = MixtureOptions()) {
        std::vector<const sab_sizes *> handles;
        std::vector<const char *> names;
        for (const auto &[name, sizes] : sources) {
            handles.push_back(sizes->get());
            names.push_back(name);
        }
        given.names = names.data();
        given.name_count = names.size();
        return Sizes(created(sab_mixture_new, handles.data(), handles.size(), &given));
    }
    /// One data set, whose samples have the id of their source, in proportions; see
    /// sab_mixture_new().
    static Sizes mixture(const Sizes &sizes, const std::vector<int64_t> &ids,
                         sab_mixture_options given = MixtureOptions()) {
        const sab_sizes *const only = sizes.get();
        given.ids = ids.data();
        given.id_count = ids.size();
        return Sizes(created(sab_mixture_new, &only, size_t{1}, &given));
    }
#endif
#if SAB_WITH_FILES
    /// Sizes of a file, whose format is detected; see sab_sizes_file_new().
    static Sizes open(const char *path, const sab_sizes_file_options &given = SizesFileOptions()) {
        return Sizes(created(sab_sizes_file_new, path, &given));
    }
#endif
    /// Number of samples.
    size_t size() const noexcept { return sab_sizes_count(get()); }
    sab_sizes_info info() const { return filled<sab_sizes_info>(sab_sizes_get_info); }
    /// The size of a sample, of sizes of one column.
    double operator[](size_t index) const {
        const std::vector<double> sizes = row(index);
        if (sizes.size() > 1) throw std::invalid_argument("sizes: have several columns; use row()");
        return sizes[0];
    }
    /// The sizes of a sample, one a column.
    std::vector<double> row(size_t index) const {
        std::vector<double> sizes(info().columns);
        check(sab_sizes_get(get(), index, 1, sizes.data()));
        return sizes;
    }
    /// The sizes of all samples: one a column for the first, then for the second, ...
    std::vector<double> values() const {
        std::vector<double> sizes(size() * info().columns);
        check(sab_sizes_get(get(), 0, size(), sizes.data()));
        return sizes;
    }
    /// A part of joined sizes or a source of a mixture, and a row of it.
    struct Source {
        size_t part, row;
    };
    /// Where a sample is; other sizes are part 0.
    Source source(size_t index) const {
        Source source{};
        check(sab_sizes_locate(get(), index, &source.part, &source.row));
        return source;
    }
#if SAB_WITH_MIXTURE
    /// A source of a mixture in an epoch; its name belongs to the handle.
    sab_mixture_source mixture_source(size_t index, uint64_t epoch = 0) const {
        return filled<sab_mixture_source>(sab_mixture_get_source, index, epoch);
    }
    /// How often each sample of a mixture appears in an epoch.
    std::vector<uint32_t> mixture_counts(uint64_t epoch = 0) const {
        std::vector<uint32_t> counts(size());
        check(sab_mixture_get_counts(get(), epoch, counts.data(), counts.size()));
        return counts;
    }
#endif

private:
    template <class T>
    static Sizes from_memory(const T *data, size_t count, int32_t copy) {
        Sized<sab_sizes_options> given;
        given.copy = copy;
        return Sizes(created(sab_sizes_new, data, count, detail::dtype<T>(), &given));
    }
};

/// One term of a cost; see sab_cost_term.
struct CostTerm {
    double coefficient;
    uint32_t count_power;
    std::vector<uint32_t> length_powers;
};

/// The cost of a batch; immutable. Threads may share it if they may share its function. See
/// sab_cost.
class Cost : public Handle<sab_cost, sab_cost_free> {
public:
    using Handle::Handle;
    /// A sum of terms.
    explicit Cost(const std::vector<CostTerm> &terms) : Handle(of_terms(terms)) {}
    /// The cost that a function returns. It must never decrease in count or length.
    explicit Cost(CostFunction function)
        : Cost(std::make_unique<CostFunction>(std::move(function)), &detail::cost_of_one) {}
    /// The cost that a function of several columns returns.
    explicit Cost(ColumnsCostFunction function)
        : Cost(std::make_unique<ColumnsCostFunction>(std::move(function)), &detail::cost_of) {}
    /// count * (weights[0] * length of column 0 + weights[1] * length of column 1 + ...).
    static Cost padded(const std::vector<double> &weights = {1}) {
        return Cost(created(sab_cost_padded_new, weights.data(), weights.size()));
    }
    /// The time of a transformer's step; see sab_cost_transformer_new().
    static Cost transformer(uint64_t hidden, uint64_t layers) {
        return Cost(created(sab_cost_transformer_new, hidden, layers));
    }
    /// The cost of `count` samples, padded to `length`.
    double operator()(uint64_t count, double length) const {
        return (*this)(count, std::vector<double>{length});
    }
    /// The cost of `count` samples, padded to a length for each column.
    double operator()(uint64_t count, const std::vector<double> &lengths) const {
        double cost = 0;
        check(sab_cost_evaluate(get(), count, lengths.data(), nullptr, lengths.size(), &cost));
        return cost;
    }

private:
    static sab_cost *of_terms(const std::vector<CostTerm> &terms) {
        std::vector<sab_cost_term> raw;
        for (const CostTerm &term : terms)
            raw.push_back({term.coefficient,
                           term.count_power,
                           static_cast<uint32_t>(term.length_powers.size()),
                           term.length_powers.data(),
                           {}});
        return created(sab_cost_terms_new, raw.data(), raw.size());
    }
    template <class Function>
    Cost(std::unique_ptr<Function> function, sab_cost_fn call)
        : Handle(
              created(sab_cost_callback_new, call, function.get(), &detail::free_cost<Function>)) {
        (void)function.release();  // the cost's now
    }
};

#if SAB_WITH_ENGINE
/// Numbers of samples by size; see sab_histogram.
class Histogram : public Handle<sab_histogram, sab_histogram_free> {
public:
    using Handle::Handle;
    Histogram() : Handle(created(sab_histogram_new)) {}
    explicit Histogram(const Sizes &sizes) : Histogram() { add(sizes); }
    /// From bytes that write() gave.
    static Histogram read(const void *data, size_t size) {
        return Histogram(created(sab_histogram_bytes_new, data, size));
    }
    std::vector<unsigned char> write() const { return written<unsigned char>(sab_histogram_write); }
    void add(const Sizes &sizes) { check(sab_histogram_add(get(), sizes.get(), nullptr)); }
    /// Adds samples, and gives the number of each within its size.
    std::vector<uint64_t> number(const Sizes &sizes) {
        std::vector<uint64_t> numbers(sizes.size());
        check(sab_histogram_add(get(), sizes.get(), numbers.data()));
        return numbers;
    }
    void merge(const Histogram &other) { check(sab_histogram_merge(get(), other.get())); }
    void subtract(const Histogram &other) { check(sab_histogram_subtract(get(), other.get())); }
    /// The histogram of an epoch of a mixture; see sab_histogram_epoch_new(). `repeats`: of each
    /// source; empty: 1 each.
    Histogram epoch(uint64_t epoch, const std::vector<double> &repeats = {},
                    uint64_t seed = 0) const {
        return Histogram(
            created(sab_histogram_epoch_new, get(), repeats.data(), repeats.size(), epoch, seed));
    }
    sab_histogram_info info() const { return filled<sab_histogram_info>(sab_histogram_get_info); }
};

/// Where samples are in an epoch: the arrays of sab_places.
struct Places {
    explicit Places(size_t count)
        : counts(count), ranks(count), batches(count), steps(count), slots(count) {}
    std::vector<int64_t> counts, ranks, batches, steps, slots;
    uint64_t batch_count = 0;
};

namespace detail {

/// The places that sab_histogram_plan_locate() or sab_packing_locate() tells. `columns`: of the
/// sizes.
template <class Locate, class Handle>
Places located(Locate locate, const Handle *handle, const std::vector<double> &sizes,
               size_t columns, const std::vector<uint64_t> &numbers,
               const sab_sampler_options &given, const std::vector<uint64_t> &which) {
    const size_t count = numbers.size();
    if (sizes.size() != count * columns || (!which.empty() && which.size() != count))
        throw std::invalid_argument(
            "sizes, numbers, which: must have one for each sample, and sizes one for each column");
    Places made(count);
    const sab_places places = {sizeof places,       made.counts.data(), made.ranks.data(),
                               made.batches.data(), made.steps.data(),  made.slots.data(),
                               &made.batch_count};
    check(locate(handle, &given, sizes.data(), numbers.data(),
                 which.empty() ? nullptr : which.data(), count, &places));
    return made;
}

}  // namespace detail

/// The arrays of sab_packing_get_patterns(), which belong to the packing.
struct BinPatterns {
    size_t count = 0;
    const uint64_t *bins = nullptr, *begins = nullptr;
    const uint32_t *lengths = nullptr, *sequences = nullptr;
};

/// Which lengths share a bin, of samples without indices; see sab_packing.
class Packing : public Handle<sab_packing, sab_packing_free> {
public:
    using Handle::Handle;
    explicit Packing(const Histogram &histogram, const sab_packed_options &pack)
        : Handle(created(sab_histogram_packing_new, histogram.get(), &pack)) {}
    sab_packed_info info() const { return filled<sab_packed_info>(sab_packing_get_info); }
    BinPatterns patterns() const {
        BinPatterns all;
        check(sab_packing_get_patterns(get(), &all.count, &all.bins, &all.begins, &all.lengths,
                                       &all.sequences));
        return all;
    }
    /// Where samples are in an epoch of a PackedSampler with these options; see
    /// sab_packing_locate(). `which`: the place that is asked for, of each sample; empty: 0.
    Places locate(const std::vector<double> &sizes, const std::vector<uint64_t> &numbers,
                  const sab_sampler_options &given = SamplerOptions(),
                  const std::vector<uint64_t> &which = {}) const {
        return detail::located(sab_packing_locate, get(), sizes, 1, numbers, given, which);
    }
};
#endif

/// @cond
namespace detail {

/// Those that sab_plan_get_shape() or sab_sampler_get_shape() shows.
template <class Get, class Handle>
std::vector<sab_shape> shapes_of(Get get, Handle *handle) {
    std::vector<sab_shape> shapes;
    Sized<sab_shape> shape;
    while (check(get(handle, shapes.size(), &shape)) == SAB_OK) shapes.push_back(shape);
    return shapes;
}

}  // namespace detail
/// @endcond

/// Buckets and batch sizes; immutable, shareable between threads. See sab_plan.
class Plan : public Handle<sab_plan, sab_plan_free> {
public:
    using Handle::Handle;
    explicit Plan(const Sizes &sizes, const sab_plan_options &given)
        : Handle(created(sab_plan_new, sizes.get(), &given)) {}
#if SAB_WITH_ENGINE
    /// Without sample indices.
    explicit Plan(const Histogram &histogram, const sab_plan_options &given)
        : Handle(created(sab_histogram_plan_new, histogram.get(), &given)) {}
#endif
    /// Maps a file that save() wrote.
    static Plan open(const char *path) { return Plan(created(sab_plan_file_new, path)); }
    /// From bytes that write() gave.
    static Plan read(const void *data, size_t size) {
        return Plan(created(sab_plan_bytes_new, data, size));
    }
    /// In memory of its own.
    Plan copy() const { return Plan(created(sab_plan_copy_new, get())); }
    /// Reads all of it. Throws for wrong checksums and content that breaks a rule.
    void check() const { sab::check(sab_plan_check(get())); }
    void save(const char *path) const { sab::check(sab_plan_save(get(), path)); }
    std::vector<unsigned char> write() const { return written<unsigned char>(sab_plan_write); }
    sab_plan_info info() const { return filled<sab_plan_info>(sab_plan_get_info); }
    sab_bucket bucket(size_t index) const { return filled<sab_bucket>(sab_plan_get_bucket, index); }
    /// The shapes of its full batches and tails, the costliest first; see sab_plan_get_shape().
    std::vector<sab_shape> shapes() const { return detail::shapes_of(sab_plan_get_shape, get()); }
    /// The samples outside the boundaries or over the budget, which are left out.
    std::vector<int64_t> skipped() const { return written<int64_t>(sab_plan_get_skipped); }
#if SAB_WITH_ENGINE
    /// Where samples are in an epoch of a BucketSampler with these options; see
    /// sab_histogram_plan_locate(). `sizes`: of each sample one for each column. `which`: the place
    /// that is asked for, of each sample; empty: 0. `sources`: of each sample, for a plan of an
    /// epoch of a mixture.
    Places locate(const std::vector<double> &sizes, const std::vector<uint64_t> &numbers,
                  const sab_sampler_options &given = SamplerOptions(),
                  const std::vector<uint64_t> &which = {},
                  const std::vector<uint32_t> &sources = {}) const {
        if (!sources.empty() && sources.size() != numbers.size())
            throw std::invalid_argument("sources: must have one for each sample");
        const auto locate = [&](const sab_plan *plan, const sab_sampler_options *order,
                                auto... arguments) {
            return sab_histogram_plan_locate(
                plan, order, sources.empty() ? nullptr : sources.data(), arguments...);
        };
        return detail::located(locate, get(), sizes, info().columns, numbers, given, which);
    }
#endif
    /// Statistics of an epoch of a BucketSampler with these options.
    sab_plan_report report(const sab_sampler_options &given = SamplerOptions()) const {
        return filled<sab_plan_report>(sab_plan_get_report, &given, nullptr);
    }
};

/// A batch: the C struct, and a range of the indices of its samples.
struct Batch : Sized<sab_batch> {
    const int64_t *begin() const noexcept { return indices; }
    const int64_t *end() const noexcept { return indices + count; }
    size_t size() const noexcept { return count; }
    /// The positions that the batch takes in memory, over all columns: its samples, padded, or its
    /// row.
    double padded_total() const noexcept {
        const size_t rows = layout == SAB_LAYOUT_ROW ? 1 : count;
        return static_cast<double>(rows) *
               std::accumulate(padded_length, padded_length + columns, 0.0);
    }
};

/// Several batches: the C struct; see sab_block.
struct Block : Sized<sab_block> {
    /// Number of batches.
    size_t size() const noexcept { return count; }
    /// The first sample of a batch, from 0; that of the batch `size()` is behind the last sample.
    const int64_t *begin_of(size_t batch) const noexcept { return indices + offsets[batch]; }
};

/// A cursor over the batches of an epoch, for one thread at a time; see sab_sampler.
class Sampler : public Handle<sab_sampler, sab_sampler_free> {
public:
    using Handle::Handle;
    /// Begins a pass: the current epoch, or the next one after the end; see sab_sampler_begin().
    void begin_pass() { check(sab_sampler_begin(get())); }
    /// Moves to the next batch; false at the end of the epoch.
    bool next(Batch &batch) { return check(sab_next_batch(get(), &batch)) == SAB_OK; }
    /// Moves over at most so many batches; false at the end of the epoch. See sab_next_block().
    bool next_block(Block &block, size_t max_batches = 1024) {
        return check(sab_next_block(get(), max_batches, &block)) == SAB_OK;
    }
    /// A batch of the epoch. Does not move the cursor.
    Batch at(uint64_t position) {
        Batch batch;
        check(sab_sampler_at(get(), position, &batch));
        return batch;
    }
    /// The rows of the batch that was shown last; their arrays are valid as long as it is.
    sab_rows rows() { return filled<sab_rows>(sab_sampler_get_rows); }
    /// The step of the batch that was shown last, over all ranks and micro-batches.
    sab_step step() { return filled<sab_step>(sab_sampler_get_step); }
    /// The batches that all ranks take in the current epoch, as an Arrow stream; see
    /// sab_arrow_schedule_new(). The caller releases it.
    ArrowArrayStream schedule() const { return value<ArrowArrayStream>(sab_arrow_schedule_new); }
    /// The sum of SAB_SAMPLER_... that this sampler supports.
    uint64_t capabilities() const { return value<uint64_t>(sab_sampler_get_capabilities); }
    uint64_t batch_count() const { return value<uint64_t>(sab_sampler_get_batch_count); }
#if SAB_WITH_MIXTURE
    /// What the epoch has of each source of a mixture, whose number of sources is given; see
    /// sab_mixture_get_report().
    std::vector<sab_mixture_report> report_sources(size_t count) {
        std::vector<sab_mixture_report> reports(count, Sized<sab_mixture_report>());
        check(sab_mixture_get_report(get(), nullptr, reports.data(), count));
        return reports;
    }
#endif
    /// The shapes of the batches of the current epoch; their arrays are valid until the next call.
    std::vector<sab_shape> shapes() { return detail::shapes_of(sab_sampler_get_shape, get()); }
    /// The samples that are left out because they are too large.
    std::vector<int64_t> skipped() const { return written<int64_t>(sab_sampler_get_skipped); }
    void set_epoch(uint64_t epoch) { check(sab_sampler_set_epoch(get(), epoch)); }
    void seek(uint64_t position) { check(sab_sampler_seek(get(), position)); }
    uint64_t epoch() const { return tell().first; }
    uint64_t position() const { return tell().second; }
    void set_budget(size_t index, double limit) {
        check(sab_sampler_set_budget(get(), index, limit));
    }
    double budget(size_t index) const {
        double limit = 0;
        check(sab_sampler_get_budget(get(), index, &limit));
        return limit;
    }
    /// Where the cursor is, the same bytes on all ranks.
    std::vector<unsigned char> state() const {
        return written<unsigned char>(sab_sampler_state_save);
    }
    /// Where it was after so many batches of the epoch. The cursor does not move.
    std::vector<unsigned char> state_at(uint64_t position) const {
        return written<unsigned char>(sab_sampler_state_save_at, position);
    }
    /// Continues at a saved state, on any number of ranks and micro-batches.
    void restore(const std::vector<unsigned char> &state) {
        check(sab_sampler_state_restore(get(), state.data(), state.size()));
    }

    /// An input iterator over the batches of a pass.
    class Iterator {
    public:
        using iterator_category = std::input_iterator_tag;
        using value_type = Batch;
        using difference_type = std::ptrdiff_t;
        using pointer = const Batch *;
        using reference = const Batch &;
        Iterator() = default;
        explicit Iterator(Sampler *sampler) : sampler_(sampler) { ++*this; }
        /// Its indices are valid until the iterator moves.
        reference operator*() const noexcept { return batch_; }
        pointer operator->() const noexcept { return &batch_; }
        Iterator &operator++() {
            if (!sampler_->next(batch_)) sampler_ = nullptr;
            return *this;
        }
        void operator++(int) { ++*this; }
        bool operator==(const Iterator &other) const noexcept { return sampler_ == other.sampler_; }
        bool operator!=(const Iterator &other) const noexcept { return !(*this == other); }

    private:
        Sampler *sampler_ = nullptr;
        Batch batch_;
    };
    /// Begins a pass, so a second loop gives the next epoch, or this one again after a `break`.
    Iterator begin() {
        begin_pass();
        return Iterator(this);
    }
    Iterator end() { return {}; }

private:
    std::pair<uint64_t, uint64_t> tell() const {
        std::pair<uint64_t, uint64_t> place;
        check(sab_sampler_tell(get(), &place.first, &place.second));
        return place;
    }
};

/// @cond
namespace detail {

// An argument as the C interface takes it: a handle, a number, the address of a struct.
template <class Raw, void (*free)(Raw *) noexcept>
Raw *passed(const Handle<Raw, free> &handle) noexcept {
    return handle.get();
}
template <class Number>
std::enable_if_t<std::is_arithmetic_v<Number>, Number> passed(const Number &number) noexcept {
    return number;
}
template <class Struct, class = decltype(Struct::struct_size)>
const Struct *passed(const Struct &given) noexcept {
    return &given;
}

}  // namespace detail
/// @endcond

/// A sampler that a constructor of the C interface makes, such as
/// `sab::SamplerOf<sab_bucket_sampler_new>(plan, options)`. The arguments are those of the
/// constructor: objects of this header, structs and numbers. Options at the end may be left out.
template <auto make>
class SamplerOf : public Sampler {
public:
    template <class First, class... Rest>
    explicit SamplerOf(const First &first, const Rest &...rest)
        : Sampler(made(detail::passed(first), detail::passed(rest)...)) {}

private:
    template <class... Raw>
    static sab_sampler *made(Raw... given) {
        constexpr bool is_complete = std::is_invocable_v<decltype(make), Raw..., sab_sampler **>;
        static_assert(is_complete || sizeof...(Raw) < 8, "no arguments of this constructor");
        if constexpr (is_complete)
            return created(make, given...);
        else if constexpr (sizeof...(Raw) < 8)
            return made(given..., nullptr);  // the default options
    }
};

/// Shuffled batches with random access: BucketSampler(plan, options); see sab_bucket_sampler_new().
using BucketSampler = SamplerOf<sab_bucket_sampler_new>;

/// Batches by ascending size: SequentialSampler(plan, options); see sab_sequential_sampler_new().
using SequentialSampler = SamplerOf<sab_sequential_sampler_new>;

/// The costliest batches that an epoch can have: CostliestSampler(plan, count); see
/// sab_costliest_sampler_new().
using CostliestSampler = SamplerOf<sab_costliest_sampler_new>;

/// Greedy batches in the order of the samples; see sab_ordered_sampler_new().
class OrderedSampler : public Sampler {
public:
    OrderedSampler(const Sizes &sizes, double limit,
                   const sab_sampler_options &given = SamplerOptions())
        : Sampler(created(sab_ordered_sampler_new, static_cast<const int64_t *>(nullptr),
                          sizes.size(), sizes.get(), limit, &given)) {}
    /// In an order of your own.
    OrderedSampler(const std::vector<int64_t> &indices, const Sizes &sizes, double limit,
                   const sab_sampler_options &given = SamplerOptions())
        : Sampler(created(sab_ordered_sampler_new, indices.data(), indices.size(), sizes.get(),
                          limit, &given)) {}
};

#if SAB_WITH_COMPAT

/// Greedy batches of samples that a function gives; see
/// sab_bionemo_size_aware_stream_sampler_new().
class BionemoSizeAwareStream : public Sampler {
public:
    /// Sets `index` and `size` of the next sample; returns false at the end of the epoch.
    using Source =
        std::function<bool(uint64_t epoch, uint64_t position, int64_t &index, double &size)>;
    BionemoSizeAwareStream(Source source, double limit)
        : Sampler(make(std::make_unique<Source>(std::move(source)), limit)) {}

private:
    static int32_t next_sample(void *ctx, uint64_t epoch, uint64_t position, int64_t *index,
                               double *size) noexcept {
        return detail::guarded([&] {
            return detail::from<Source>(ctx)(epoch, position, *index, *size) ? 0 : SAB_END;
        });
    }
    static sab_sampler *make(std::unique_ptr<Source> source, double limit) {
        sab_sampler *const made = created(sab_bionemo_size_aware_stream_sampler_new, &next_sample,
                                          source.get(), &free_source, limit);
        (void)source.release();  // the sampler's now
        return made;
    }
    static void free_source(void *ctx) noexcept { delete static_cast<Source *>(ctx); }
};

/// The order of bionemo-size-aware-batching: BionemoSampler(plan, options); see
/// sab_bionemo_sampler_new().
using BionemoSampler = SamplerOf<sab_bionemo_sampler_new>;

/// The order of Bagua's load-balancing sampler: BaguaSampler(complexity, balancing, options); see
/// sab_bagua_sampler_new().
using BaguaSampler = SamplerOf<sab_bagua_sampler_new>;

#endif

/// Samples that are spread over the ranks; see sab_sharded_sampler_new().
class ShardedSampler : public Sampler {
public:
    /// Fills `all` with the `size` bytes of each rank, in their order. Called only now.
    using AllGather = std::function<void(const void *mine, size_t size, void *all)>;
    ShardedSampler(const Sizes &sizes, const sab_plan_options &plan,
                   const sab_sampler_options &given, const AllGather &all_gather)
        : Sampler(created(sab_sharded_sampler_new, sizes.get(), &plan, &given, &gather,
                          detail::context(all_gather))) {}

private:
    static int32_t gather(void *ctx, const void *mine, size_t size, void *all) noexcept {
        return detail::guarded([&] { return detail::from<AllGather>(ctx)(mine, size, all), 0; });
    }
};

#if SAB_WITH_PACK
/// Samples end to end in rows: PackedSampler(sizes, packing, options); see
/// sab_packed_sampler_new().
class PackedSampler : public SamplerOf<sab_packed_sampler_new> {
public:
    using SamplerOf::SamplerOf;
    sab_packed_info info() const { return filled<sab_packed_info>(sab_packed_sampler_get_info); }
    sab_balanced_report report() const {
        return filled<sab_balanced_report>(sab_balanced_sampler_get_report, nullptr);
    }
};
#endif

#if SAB_WITH_BALANCE
/// Steps whose micro-batches cost the same on all ranks: BalancedSampler(sizes, balanced, options);
/// see sab_balanced_sampler_new().
class BalancedSampler : public SamplerOf<sab_balanced_sampler_new> {
public:
    using SamplerOf::SamplerOf;
    sab_balanced_report report() const {
        return filled<sab_balanced_report>(sab_balanced_sampler_get_report, nullptr);
    }
};

/// Samples that are split over groups of ranks; see sab_context_plan.
class ContextPlan : public Handle<sab_context_plan, sab_context_plan_free> {
public:
    using Handle::Handle;
    ContextPlan(const Sizes &lengths, uint64_t world_size, uint64_t limit,
                const sab_context_options &given = ContextOptions())
        : Handle(created(sab_context_plan_new, lengths.get(), world_size, limit, &given)) {}
    /// Arrays that belong to the handle.
    sab_context_plan_view view() const {
        return filled<sab_context_plan_view>(sab_context_plan_get_view);
    }
    /// The parts of a rank in the order in which it computes them.
    std::vector<sab_context_part> parts(uint64_t rank) const {
        const sab_context_plan_view all = view();
        if (rank >= all.world_size)
            throw std::invalid_argument("rank: must be below the number of ranks");
        return {all.parts + all.offsets[rank], all.parts + all.offsets[rank + 1]};
    }
};

/// The samples of one step on ranks and micro-batches; see sab_step_plan_new().
class StepPlan : public Handle<sab_step_plan, sab_step_plan_free> {
public:
    using Handle::Handle;
    StepPlan(const Sizes &sizes, const sab_step_plan_options &given)
        : Handle(created(sab_step_plan_new, sizes.get(), &given)) {}
    /// The arrays belong to the plan.
    sab_step_plan_view view() const { return filled<sab_step_plan_view>(sab_step_plan_get_view); }
    /// The samples of each micro-batch of a rank.
    std::vector<std::vector<int64_t>> rank(uint64_t rank) const {
        const sab_step_plan_view all = view();
        if (rank >= all.world_size) throw std::out_of_range("rank: must be below the world size");
        std::vector<std::vector<int64_t>> found;
        for (uint64_t k = rank * all.micro_batches; k < (rank + 1) * all.micro_batches; ++k)
            found.emplace_back(all.indices + all.offsets[k], all.indices + all.offsets[k + 1]);
        return found;
    }
    /// What each micro-batch of a rank computes once; none without shared tokens.
    std::vector<std::vector<sab_step_segment>> segments(uint64_t rank) const {
        const sab_step_plan_view all = view();
        if (rank >= all.world_size) throw std::out_of_range("rank: must be below the world size");
        std::vector<std::vector<sab_step_segment>> found;
        const uint64_t end = all.segments != nullptr ? (rank + 1) * all.micro_batches : 0;
        for (uint64_t k = rank * all.micro_batches; k < end; ++k)
            found.emplace_back(all.segments + all.segment_offsets[k],
                               all.segments + all.segment_offsets[k + 1]);
        return found;
    }
    /// The weight of each size in the loss of the step. `tokens`: of each size, or empty.
    std::vector<double> loss_weights(sab_loss_weighting weighting,
                                     const std::vector<double> &tokens = {}) const {
        std::vector<double> weights(view().nodes);
        if (!tokens.empty() && tokens.size() != weights.size())
            throw std::invalid_argument("tokens: must be one for each size");
        check(sab_step_plan_get_loss_weights(
            get(), weighting, tokens.empty() ? nullptr : tokens.data(), weights.data()));
        return weights;
    }
};
#endif

#if SAB_WITH_MEMORY
/// A batch to measure: `count` samples, and the padded length of each column.
struct MeasurementPoint {
    uint64_t count;
    std::vector<double> lengths;
};

/// The batches whose measurements say most about a memory model, the largest last; see
/// sab_measurement_points_find().
inline std::vector<MeasurementPoint> measurement_points(const sab_measurement_options &given,
                                                        size_t points) {
    if (points > 1000) throw std::invalid_argument("points: must be at most 1000");
    std::vector<uint64_t> counts(points + 1);  // not empty, so never null
    std::vector<double> lengths(counts.size() * SAB_MAX_COLUMNS);
    check(sab_measurement_points_find(&given, points, counts.data(), lengths.data()));
    std::vector<MeasurementPoint> made;
    for (size_t i = 0; i < points; ++i) {
        const double *const row = &lengths[i * given.column_count];
        made.push_back({counts[i], std::vector<double>(row, row + given.column_count)});
    }
    return made;
}

/// Predicts the peak memory of a batch; immutable, shareable between threads.
class MemoryModel : public Handle<sab_memory_model, sab_memory_model_free> {
public:
    using Handle::Handle;
    /// Fits rows of `features`, one for each of the `peaks`, to them. A row is a count, then the
    /// padded length of each column.
    MemoryModel(const std::vector<double> &features, const std::vector<double> &peaks,
                const sab_memory_model_options &given = ModelOptions())
        : Handle(created(sab_memory_model_fit_new, features.data(), peaks.size(),
                         peaks.empty() ? size_t{0} : features.size() / peaks.size(), peaks.data(),
                         &given)) {}
    static MemoryModel open(const char *path) {
        return MemoryModel(created(sab_memory_model_file_new, path));
    }
    static MemoryModel read(const void *data, size_t size) {
        return MemoryModel(created(sab_memory_model_bytes_new, data, size));
    }
    void save(const char *path) const { check(sab_memory_model_save(get(), path)); }
    std::vector<unsigned char> write() const {
        return written<unsigned char>(sab_memory_model_write);
    }
    sab_memory_model_info info() const {
        return filled<sab_memory_model_info>(sab_memory_model_get_info);
    }
    /// The expected peak of one batch, of as many features as the model has.
    double predict(const std::vector<double> &features) const {
        if (features.size() != info().feature_count)
            throw std::invalid_argument("features: must be as many as those of the model");
        double peak = 0;
        check(sab_memory_model_predict(get(), features.data(), 1, &peak, nullptr));
        return peak;
    }
    /// The upper prediction as a cost, in bytes.
    Cost cost() const {
        sab_cost *cost = nullptr;
        check(sab_memory_model_cost_new(get(), &cost));
        return Cost(cost);
    }
};

/// Reads the memory of a device; see sab_probe.
class Probe : public Handle<sab_probe, sab_probe_free> {
public:
    using Handle::Handle;
    explicit Probe(const char *device, const sab_probe_options &given = ProbeOptions())
        : Handle(created(sab_probe_new, device, &given)) {}
    void reset() { check(sab_probe_reset(get())); }
    void release_cache() { check(sab_probe_release_cache(get())); }
    sab_probe_stats stats() const { return filled<sab_probe_stats>(sab_probe_get_stats); }
};

/// Lowers the budget of a sampler before memory runs out; see sab_memory_guard.
class MemoryGuard : public Handle<sab_memory_guard, sab_memory_guard_free> {
public:
    using Handle::Handle;
    /// The sampler must outlive the guard.
    MemoryGuard(Probe &probe, Sampler &sampler,
                const sab_memory_guard_options &given = GuardOptions())
        : Handle(created(sab_memory_guard_new, probe.get(), sampler.get(), &given)) {}
    /// Begins a step of the caller's own.
    void begin() { check(sab_memory_guard_begin(get())); }
    /// Ends it and judges its peak.
    void end(const sab_batch &batch, bool out_of_memory = false) {
        check(sab_memory_guard_end(get(), &batch, out_of_memory));
    }
    sab_memory_guard_info info() const {
        return filled<sab_memory_guard_info>(sab_memory_guard_get_info);
    }
};
#endif

#if SAB_WITH_CACHE
/// A value of a Cache.
class CacheValue : public Handle<sab_cache_value, sab_cache_value_free> {
public:
    using Handle::Handle;
    /// Whether the cache has the value.
    explicit operator bool() const noexcept { return get() != nullptr; }
    /// Its bytes, valid while this object exists.
    std::string_view bytes() const noexcept {
        size_t size = 0;
        const void *const data = sab_cache_value_data(get(), &size);
        return {static_cast<const char *>(data), size};
    }
};

/// Values made once and kept; shareable between threads. See sab_cache.
class Cache : public Handle<sab_cache, sab_cache_free> {
public:
    using Handle::Handle;
    explicit Cache(const char *url, const sab_cache_options &given = CacheOptions())
        : Handle(created(sab_cache_new, url, &given)) {}
    /// For other processes to open; contains passwords.
    const char *url() const { return stats().url; }
    /// An empty value where the cache has none.
    CacheValue find(std::string_view key) const {
        sab_cache_value *value = nullptr;
        check(sab_cache_get(get(), key.data(), key.size(), &value));
        return CacheValue(value);
    }
    void put(std::string_view key, std::string_view value) {
        check(sab_cache_put(get(), key.data(), key.size(), value.data(), value.size()));
    }
    /// The value of a key; `load` makes it where the cache has none.
    CacheValue get_or_load(std::string_view key, const std::function<std::string()> &load) {
        struct Loading {
            const std::function<std::string()> &load;
            std::string made;
        } loading{load, {}};
        const sab_cache_load_fn call = [](void *ctx, const void *, size_t, const void **data,
                                          size_t *size) noexcept -> int32_t {
            return detail::guarded([&] {
                auto &state = *static_cast<Loading *>(ctx);
                state.made = state.load();
                *data = state.made.data();
                *size = state.made.size();
                return 0;
            });
        };
        sab_cache_value *value = nullptr;
        check(
            sab_cache_get_or_load(get(), key.data(), key.size(), call, &loading, nullptr, &value));
        return CacheValue(value);
    }
    void flush() { check(sab_cache_flush(get())); }
    void clear() { check(sab_cache_clear(get())); }
    uint64_t key_count() const { return value<uint64_t>(sab_cache_get_key_count); }
    sab_cache_stats stats() const { return filled<sab_cache_stats>(sab_cache_get_stats); }
};
#endif

#if SAB_WITH_STREAM
/// Records, one after the other, for one thread at a time; see sab_stream.
class Stream : public Handle<sab_stream, sab_stream_free> {
public:
    using Handle::Handle;
    /// A source: make(arguments..., &stream) is a constructor of the C interface.
    template <class Make, class... Arguments>
    static Stream source(Make make, Arguments... arguments) {
        return Stream(created(make, arguments...));
    }
    /// A stage over this stream, which is then moved from: make(source, arguments..., &stream).
    template <class Make, class... Arguments>
    Stream into(Make make, Arguments... arguments) && {
        Stream made(created(make, get(), arguments...));
        release();  // the new stream's now
        return made;
    }
    /// Moves to the next record; false at the end. It is valid until the next call.
    bool next(sab_record &record) { return check(sab_stream_next(get(), &record)) == SAB_OK; }
    void rewind() { check(sab_stream_rewind(get())); }
    std::vector<unsigned char> state() const {
        return written<unsigned char>(sab_stream_state_save);
    }
    void restore(const std::vector<unsigned char> &state) {
        check(sab_stream_state_restore(get(), state.data(), state.size()));
    }
};
#endif

}  // namespace cpp
}  // namespace sab

#endif
