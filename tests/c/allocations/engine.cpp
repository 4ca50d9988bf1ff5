// engine
#include "../one.h"
#include "data.h"

namespace {

void note_histogram(Run &run, const sab_histogram *histogram) {
    std::size_t size = 0;
    CALL(sab_histogram_write(histogram, nullptr, 0, &size));
    std::vector<unsigned char> bytes(size);
    CALL_INTO(bytes, sab_histogram_write(histogram, bytes.data(), size, &size));
    run.note(bytes.data(), size);
    sab_histogram_info info = SAB_HISTOGRAM_INFO_INIT;
    CALL_INTO(info, sab_histogram_get_info(histogram, &info));
    run.note(info.fingerprint);
    sab_histogram *copy = nullptr;
    CALL_INTO(copy, sab_histogram_bytes_new(bytes.data(), size, &copy));
    CALL_INTO(info, sab_histogram_get_info(copy, &info));
    run.note(info.entry_sizes, info.entries * info.columns * sizeof *info.entry_sizes);
    CALL_PLAIN(sab_histogram_free(copy));
}

/// Each sample's first place on three ranks.
void note_places(Run &run, const sab_plan *plan, const std::vector<uint64_t> &numbers) {
    const std::vector<double> &sizes = lengths();
    const sab_sampler_options options = rank_options();
    std::vector<int64_t> batches(sizes.size()), slots(sizes.size());
    sab_places places = SAB_PLACES_INIT;
    places.batches = batches.data();
    places.slots = slots.data();
    run.call("sab_histogram_plan_locate", Run::Kind::must, SAB_OK,
             [&] {
                 return sab_histogram_plan_locate(plan, &options, nullptr, sizes.data(),
                                                  numbers.data(), nullptr, sizes.size(), &places);
             },
             {Run::out(batches), Run::out(slots)});
    run.note(batches.data(), batches.size() * sizeof batches[0]);
    run.note(slots.data(), slots.size() * sizeof slots[0]);
}

}  // namespace

SCENARIO(histograms, Threads::none) {
    sab_sizes *const sizes = sizes_of(run, lengths());
    sab_histogram *histogram = nullptr, *other = nullptr;
    CALL_INTO(histogram, sab_histogram_new(&histogram));
    CALL_INTO(other, sab_histogram_new(&other));
    CALL_OR_SKIP(sab_histogram_add(histogram, sizes, nullptr));
    std::vector<uint64_t> numbers(lengths().size());
    CALL_INTO(numbers, sab_histogram_add(other, sizes, numbers.data()));
    run.note(numbers.data(), numbers.size() * sizeof numbers[0]);
    CALL_OR_SKIP(sab_histogram_merge(histogram, other));
    note_histogram(run, histogram);
    CALL_OR_SKIP(sab_histogram_merge(histogram, histogram));
    CALL(sab_histogram_merge(histogram, other));
    CALL_OR_SKIP(sab_histogram_subtract(histogram, other));
    note_histogram(run, histogram);
    sab_sizes *const columns[] = {sizes, sizes};
    sab_sizes *pairs = nullptr;
    CALL_INTO(pairs, sab_sizes_columns_new(columns, nullptr, 2, &pairs));
    CALL_FAILS(SAB_E_MISMATCH, sab_histogram_add(other, pairs, nullptr));
    CALL_PLAIN(sab_histogram_free(histogram));
    CALL_INTO(histogram, sab_histogram_new(&histogram));
    CALL(sab_histogram_add(histogram, pairs, numbers.data()));
    note_histogram(run, histogram);
    CALL_PLAIN(sab_sizes_free(pairs));
    CALL_PLAIN(sab_histogram_free(histogram));
    CALL_PLAIN(sab_histogram_free(other));
    CALL_PLAIN(sab_sizes_free(sizes));
}

SCENARIO(plan_of_a_histogram, Threads::none) {
    sab_sizes *const sizes = sizes_of(run, lengths());
    sab_histogram *histogram = nullptr;
    std::vector<uint64_t> numbers(lengths().size());
    CALL_INTO(histogram, sab_histogram_new(&histogram));
    CALL_INTO(numbers, sab_histogram_add(histogram, sizes, numbers.data()));
    const sab_plan_options options = with_budget(150);
    sab_plan *plan = nullptr, *copy = nullptr;
    CALL_INTO(plan, sab_histogram_plan_new(histogram, &options, &plan));
    note_places(run, plan, numbers);
    CALL_INTO(copy, sab_plan_copy_new(plan, &copy));
    note_places(run, copy, numbers);
    sab_sampler *sampler = nullptr;
    CALL_FAILS(SAB_E_UNSUPPORTED, sab_bucket_sampler_new(plan, nullptr, &sampler));
    CALL_PLAIN(sab_plan_free(copy));
    CALL_PLAIN(sab_plan_free(plan));
    CALL_PLAIN(sab_histogram_free(histogram));
    CALL_PLAIN(sab_sizes_free(sizes));
}

SCENARIO(plan_of_pairs, Threads::none) {
    sab_sizes *const sizes = sizes_of(run, lengths());
    sab_sizes *const columns[] = {sizes, sizes};
    sab_sizes *pairs = nullptr;
    CALL_INTO(pairs, sab_sizes_columns_new(columns, nullptr, 2, &pairs));
    sab_histogram *histogram = nullptr;
    CALL_INTO(histogram, sab_histogram_new(&histogram));
    CALL(sab_histogram_add(histogram, pairs, nullptr));
    const sab_plan_options options = with_budget(300);
    sab_plan *plan = nullptr, *copy = nullptr;
    CALL_INTO(plan, sab_histogram_plan_new(histogram, &options, &plan));
    CALL_INTO(copy, sab_plan_copy_new(plan, &copy));
    const double size[] = {lengths()[0], lengths()[0]};
    const uint64_t number = 0;
    std::vector<int64_t> batches(1);
    sab_places places = SAB_PLACES_INIT;
    places.batches = batches.data();
    CALL_INTO(batches, sab_histogram_plan_locate(copy, nullptr, nullptr, size, &number, nullptr, 1,
                                                 &places));
    run.note(batches.data(), sizeof batches[0]);
    CALL_PLAIN(sab_plan_free(copy));
    CALL_PLAIN(sab_plan_free(plan));
    CALL_PLAIN(sab_histogram_free(histogram));
    CALL_PLAIN(sab_sizes_free(pairs));
    CALL_PLAIN(sab_sizes_free(sizes));
}

SCENARIO(plan_of_an_epoch, Threads::none) {
    sab_sizes *const sizes = sizes_of(run, lengths());
    sab_sizes *const sources[] = {sizes, sizes};
    sab_sizes *mixture = nullptr;
    CALL_INTO(mixture, sab_mixture_new(sources, 2, nullptr, &mixture));
    sab_histogram *histogram = nullptr, *of_epoch = nullptr;
    CALL_INTO(histogram, sab_histogram_new(&histogram));
    CALL(sab_histogram_add(histogram, mixture, nullptr));
    const double repeats[] = {1, 1.5};
    CALL_INTO(of_epoch, sab_histogram_epoch_new(histogram, repeats, 2, 1, 0, &of_epoch));
    const sab_plan_options options = with_budget(300);
    sab_plan *plan = nullptr, *copy = nullptr;
    CALL_INTO(plan, sab_histogram_plan_new(of_epoch, &options, &plan));
    size_t size = 0;
    CALL(sab_plan_write(plan, nullptr, 0, &size));
    std::vector<unsigned char> bytes(size);
    CALL(sab_plan_write(plan, bytes.data(), bytes.size(), &size));
    CALL_INTO(copy, sab_plan_bytes_new(bytes.data(), bytes.size(), &copy));
    const double length = lengths()[0];
    const uint64_t number = 0;
    const uint32_t source = 1;
    sab_sampler_options order = SAB_SAMPLER_OPTIONS_INIT;
    order.epoch = 1;
    std::vector<int64_t> batches(1);
    sab_places places = SAB_PLACES_INIT;
    places.batches = batches.data();
    CALL_INTO(batches, sab_histogram_plan_locate(copy, &order, &source, &length, &number, nullptr,
                                                 1, &places));
    run.note(batches.data(), sizeof batches[0]);
    CALL_PLAIN(sab_plan_free(copy));
    CALL_PLAIN(sab_plan_free(plan));
    CALL_PLAIN(sab_histogram_free(of_epoch));
    CALL_PLAIN(sab_histogram_free(histogram));
    CALL_PLAIN(sab_sizes_free(mixture));
    CALL_PLAIN(sab_sizes_free(sizes));
}

SCENARIO(packing_of_a_histogram, Threads::none) {
    sab_sizes *const sizes = sizes_of(run, lengths());
    sab_histogram *histogram = nullptr;
    std::vector<uint64_t> numbers(lengths().size());
    CALL_INTO(histogram, sab_histogram_new(&histogram));
    CALL_INTO(numbers, sab_histogram_add(histogram, sizes, numbers.data()));
    sab_packed_options pack = SAB_PACKED_OPTIONS_INIT;
    pack.method = SAB_PACK_HISTOGRAM;
    pack.capacities = one_count(150), pack.capacity_count = 1;
    pack.max_sequences = 6;
    sab_packing *packing = nullptr;
    CALL_INTO(packing, sab_histogram_packing_new(histogram, &pack, &packing));
    sab_packed_info info = SAB_PACKED_INFO_INIT;
    CALL_INTO(info, sab_packing_get_info(packing, &info));
    run.note(info.bins);
    const uint64_t *bins = nullptr;
    CALL_INTO(bins, sab_packing_get_patterns(packing, nullptr, &bins, nullptr, nullptr, nullptr));
    const sab_sampler_options options = rank_options();
    std::vector<int64_t> slots(lengths().size());
    sab_places places = SAB_PLACES_INIT;
    places.slots = slots.data();
    CALL_INTO(slots, sab_packing_locate(packing, &options, lengths().data(), numbers.data(),
                                        nullptr, lengths().size(), &places));
    run.note(slots.data(), slots.size() * sizeof slots[0]);
    CALL_PLAIN(sab_packing_free(packing));
    CALL_PLAIN(sab_histogram_free(histogram));
    CALL_PLAIN(sab_sizes_free(sizes));
}
