// base, sizes, plan
#include <cstdio>
#include <filesystem>

#include "../one.h"
#include "data.h"

namespace {

int32_t size_of(void *, int64_t index, double *size) {
    // the first that is no whole number moves all to doubles
    *size = lengths()[static_cast<std::size_t>(index)] + (index == 50 ? 0.5 : 0);
    return 0;
}
int32_t go_on(void *, uint64_t, uint64_t) {
    return 0;
}
int32_t cost_of(void *, uint64_t, const double *, const double *totals, std::size_t, double *cost) {
    *cost = 3 + totals[0];
    return 0;
}
void ignore(void *, sab_log_level, const char *) {}

void note_plan(Run &run, const sab_plan *plan) {
    sab_plan_info info = SAB_PLAN_INFO_INIT;
    CALL_INTO(info, sab_plan_get_info(plan, &info));
    run.note(info.limits, info.budget_count * sizeof *info.limits);
    info.limits = nullptr;
    info.column_names = nullptr;
    run.note(&info, sizeof info);
    for (std::size_t i = 0; i < info.buckets; ++i) {
        sab_bucket bucket = SAB_BUCKET_INIT;
        CALL_INTO(bucket, sab_plan_get_bucket(plan, i, &bucket));
        run.note(bucket.total, bucket.columns * sizeof *bucket.total);
        run.note(bucket.cost);
    }
    sab_shape shape = SAB_SHAPE_INIT;
    CALL_INTO(shape, sab_plan_get_shape(plan, 0, &shape));
    run.note(shape.count);
    std::size_t size = 0;
    CALL_INTO(size, sab_plan_write(plan, nullptr, 0, &size));
    std::vector<unsigned char> image(size);
    CALL_INTO(image, sab_plan_write(plan, image.data(), size, &size));
    run.note(image.data(), image.size());
    std::vector<int64_t> skipped(info.skipped);
    CALL_INTO(skipped, sab_plan_get_skipped(plan, skipped.data(), skipped.size(), &size));
    run.note(skipped.data(), skipped.size() * sizeof skipped[0]);
}

void play_plan(Run &run, const sab_plan_options &options) {
    sab_plan *const plan = plan_with(run, options);
    note_plan(run, plan);
    CALL_PLAIN(sab_plan_free(plan));
}

std::string description_of(Run &run, const sab_sizes *sizes) {
    sab_sizes_info info = SAB_SIZES_INFO_INIT;
    CALL_INTO(info, sab_sizes_get_info(sizes, &info));
    return info.description;
}

}  // namespace

SCENARIO(base, Threads::none) {
    CALL_PLAIN(sab_log_set_callback(ignore, nullptr));
    run.note_text(CALL_PLAIN(sab_status_name(SAB_E_IO)));
    run.note_text(CALL_PLAIN(sab_version_string()));
    run.note(uint64_t{CALL_PLAIN(sab_abi_version())});
    sab_sizes *sizes = nullptr;
    CALL_FAILS(SAB_E_ARGUMENT, sab_sizes_new(nullptr, 5, SAB_FLOAT64, nullptr, &sizes));
    CALL_PLAIN(sab_last_error_message());
    CALL_PLAIN(sab_last_error_argument());
    CALL_PLAIN(sab_last_error_value());
    CALL_PLAIN(sab_last_error_rule());
    CALL_PLAIN(sab_last_error_code());
    CALL_PLAIN(sab_log_set_callback(nullptr, nullptr));
}

SCENARIO(sizes, Threads::none) {
    sab_sizes_options options = SAB_SIZES_OPTIONS_INIT;
    options.copy = 1;
    sab_sizes *sizes = nullptr;
    CALL_INTO(sizes,
              sab_sizes_new(lengths().data(), lengths().size(), SAB_FLOAT64, &options, &sizes));
    double size = 0;
    CALL_INTO(size, sab_sizes_get(sizes, 7, 1, &size));
    run.note(size);
    CALL_FAILS(SAB_E_ARGUMENT, sab_sizes_get(sizes, 1000, 1, &size));
    std::vector<double> values(lengths().size());
    CALL_INTO(values, sab_sizes_get(sizes, 0, values.size(), values.data()));
    run.note(values.data(), values.size() * sizeof values[0]);
    CALL_FAILS(SAB_E_ARGUMENT, sab_sizes_get(sizes, 1, values.size(), values.data()));
    run.note(uint64_t{CALL_PLAIN(sab_sizes_count(sizes))});
    CALL_PLAIN(sab_sizes_free(sizes));
}

SCENARIO(sizes_callback, Threads::none) {
    sab_sizes *sizes = nullptr;
    CALL_INTO(sizes, sab_sizes_callback_new(lengths().size(), size_of, nullptr,
                                            a_progress(go_on, nullptr), &sizes));
    for (std::size_t i = 0; i < lengths().size(); ++i) {
        double size = 0;
        CALL_INTO(size, sab_sizes_get(sizes, i, 1, &size));
        run.note(size);
    }
    CALL_PLAIN(sab_sizes_free(sizes));
}

// Enough samples for two threads.
SCENARIO(plan_in_threads, Threads::some) {
    static const std::vector<uint8_t> many = [] {
        std::vector<uint8_t> numbers(140000);
        for (std::size_t i = 0; i < numbers.size(); ++i)
            numbers[i] = static_cast<uint8_t>(1 + i * 7 % 40);
        return numbers;
    }();
    sab_sizes *sizes = nullptr;
    CALL_INTO(sizes, sab_sizes_new(many.data(), many.size(), SAB_UINT8, nullptr, &sizes));
    sab_plan *plan = nullptr;
    sab_plan_options options = with_budget(300);
    options.threads = 2;
    CALL_INTO(plan, sab_plan_new(sizes, &options, &plan));
    sab_plan_info info = SAB_PLAN_INFO_INIT;
    CALL_INTO(info, sab_plan_get_info(plan, &info));
    run.note(info.fingerprint);
    CALL_PLAIN(sab_plan_free(plan));
    CALL_PLAIN(sab_sizes_free(sizes));
}

SCENARIO(sizes_join, Threads::none) {
    sab_sizes *const part = sizes_of(run, lengths()), *const parts[] = {part, part};
    sab_sizes *sizes = nullptr;
    CALL_INTO(sizes, sab_sizes_join_new(parts, 2, &sizes));
    run.note_text(description_of(run, sizes).c_str());
    std::size_t index = 0, row = 0;
    CALL_INTO(row, sab_sizes_locate(sizes, 130, &index, &row));
    run.note(uint64_t{row});
    sab_plan *plan = nullptr;
    const sab_plan_options options = with_budget(300);
    CALL_INTO(plan, sab_plan_new(sizes, &options, &plan));
    note_plan(run, plan);
    CALL_PLAIN(sab_plan_free(plan));
    CALL_PLAIN(sab_sizes_free(sizes));
    CALL_PLAIN(sab_sizes_free(part));
}

SCENARIO(sizes_columns, Threads::none) {
    sab_sizes *const part = sizes_of(run, lengths());
    sab_sizes *named = nullptr, *columns = nullptr;
    const char *const name = "the lengths of the source";
    CALL_INTO(named, sab_sizes_columns_new(&part, &name, 1, &named));
    sab_sizes *const parts[] = {part, part};
    CALL_INTO(columns, sab_sizes_columns_new(parts, nullptr, 2, &columns));
    run.note_text(description_of(run, columns).c_str());
    double size[2] = {};
    CALL_INTO(size, sab_sizes_get(columns, 3, 1, size));
    run.note(size[1]);
    sab_sizes_info info = SAB_SIZES_INFO_INIT;
    CALL_INTO(info, sab_sizes_get_info(named, &info));
    run.note_text(info.column_names[0]);
    CALL_PLAIN(sab_sizes_free(columns));
    CALL_PLAIN(sab_sizes_free(named));
    CALL_PLAIN(sab_sizes_free(part));
}

SCENARIO(plan_of_columns, Threads::none) {
    sab_sizes *const part = sizes_of(run, lengths()), *const parts[] = {part, part};
    sab_sizes *columns = nullptr;
    CALL_INTO(columns, sab_sizes_columns_new(parts, nullptr, 2, &columns));
    std::vector<int64_t> ids(lengths().size());
    for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int64_t>(i % 2);
    sab_plan_options options = with_budget(600);
    options.bucket_batches = 2;
    options.separate_by = ids.data();
    options.separate_by_count = ids.size();
    sab_plan *plan = nullptr;
    CALL_INTO(plan, sab_plan_new(columns, &options, &plan));
    note_plan(run, plan);
    CALL_PLAIN(sab_plan_free(plan));
    CALL_PLAIN(sab_sizes_free(columns));
    CALL_PLAIN(sab_sizes_free(part));
}

// A stream of two record batches with a text column, of which the second sample is null.
struct TextColumn {
    int arrays_left = 2, released = 0;
    ArrowSchema text{}, *columns = &text;
    ArrowArray texts{}, *children = &texts;
    const void *text_buffers[3] = {"\xFD", offsets, "abcdefghij"}, *none = nullptr;

    static constexpr int32_t offsets[] = {0, 2, 5, 10};
    ArrowArrayStream stream() {
        text.format = "u";
        text.name = "text";
        text.release = [](ArrowSchema *schema) { schema->release = nullptr; };
        texts.length = 3;
        texts.null_count = 1;
        texts.n_buffers = 3;
        texts.buffers = text_buffers;
        texts.release = [](ArrowArray *array) { array->release = nullptr; };
        return {schema_of, next_of, nullptr, [](ArrowArrayStream *of) { of->release = nullptr; },
                this};
    }
    static int schema_of(ArrowArrayStream *of, ArrowSchema *out) {
        auto *const self = static_cast<TextColumn *>(of->private_data);
        self->arrays_left = 2;  // a call that is made again begins again
        *out = self->text;
        out->format = "+s";
        out->n_children = 1;
        out->children = &self->columns;
        return 0;
    }
    ArrowArray array() {
        ArrowArray made{};
        made.length = 3;
        made.n_buffers = 1;
        made.buffers = &none;
        made.n_children = 1;
        made.children = &children;
        made.private_data = this;
        made.release = [](ArrowArray *of) {
            ++static_cast<TextColumn *>(of->private_data)->released;
            of->release = nullptr;
        };
        return made;
    }
    static int next_of(ArrowArrayStream *of, ArrowArray *out) {
        auto *const self = static_cast<TextColumn *>(of->private_data);
        *out = self->arrays_left-- > 0 ? self->array() : ArrowArray{};
        return 0;
    }
};

void note_sizes(Run &run, sab_sizes *sizes) {
    run.note_text(description_of(run, sizes).c_str());
    for (std::size_t i = 0; i < CALL_PLAIN(sab_sizes_count(sizes)); ++i) {
        double size = 0;
        CALL_INTO(size, sab_sizes_get(sizes, i, 1, &size));
        run.note(size);
    }
    CALL_PLAIN(sab_sizes_free(sizes));
}

SCENARIO(sizes_arrow, Threads::none) {
    TextColumn column;
    ArrowArrayStream stream = column.stream();
    ArrowSchema schema{};
    TextColumn::schema_of(&stream, &schema);
    sab_sizes_arrow_options options = SAB_SIZES_ARROW_OPTIONS_INIT;
    sab_sizes *sizes = nullptr;
    ArrowArray array = column.array();
    CALL_FAILS(SAB_E_ARGUMENT, sab_sizes_arrow_new(&array, &schema, "txt", nullptr, &sizes));
    CALL_FAILS(SAB_E_ARGUMENT, sab_sizes_arrow_new(&array, &schema, "text", nullptr, &sizes));
    run.require(column.released == 0, "a failed call released the array");
    for (const sab_text_unit unit : {SAB_TEXT_BYTES, SAB_TEXT_ALL_BYTES, SAB_TEXT_WORDS}) {
        options.nulls = SAB_NULLS_ZERO;
        options.text_unit = unit;
        array = column.array();
        CALL_INTO(sizes, sab_sizes_arrow_new(&array, &schema, "text", &options, &sizes));
        note_sizes(run, sizes);
    }
    run.require(column.released == 3, "each array is released once");
    CALL_INTO(sizes, sab_sizes_arrow_stream_new(&stream, nullptr, &options, &sizes));
    run.require(stream.release == nullptr, "the stream was not taken over");
    note_sizes(run, sizes);
}

SCENARIO(sizes_npy, Threads::none) {
    const std::string path = folder + "/sizes.npy", missing = folder + "/missing.npy";
    FILE *const file = std::fopen(path.c_str(), "wb");
    const char header[] = "{'descr': '<f8', 'fortran_order': False, 'shape': (120,), }";
    std::fprintf(file, "\x93NUMPY%c%c%c%c%-117s\n", 1, 0, 118, 0, header);
    std::fwrite(lengths().data(), sizeof(double), 120, file);
    std::fclose(file);
    sab_sizes_file_options options = SAB_SIZES_FILE_OPTIONS_INIT;
    sab_sizes *sizes = nullptr;
    for (options.copy = 0; options.copy <= 1; ++options.copy) {
        CALL_INTO(sizes, sab_sizes_file_new(path.c_str(), &options, &sizes));
        double size = 0;
        CALL_INTO(size, sab_sizes_get(sizes, 119, 1, &size));
        run.note(size);
        CALL_PLAIN(sab_sizes_free(sizes));
    }
    CALL_FAILS(SAB_E_IO, sab_sizes_file_new(missing.c_str(), nullptr, &sizes));
    std::filesystem::resize_file(path, 127);
    CALL_FAILS(SAB_E_FORMAT, sab_sizes_file_new(path.c_str(), nullptr, &sizes));
}

SCENARIO(sizes_file, Threads::none) {
    const struct {
        const char *bytes;
        std::size_t count;
        const char *column;
    } files[] = {
        {"MMIDIDX\0\0\1\0\0\0\0\0\0\0\4\1\0\0\0\0\0\0\0\7\0\0\0\0\0\0\0\0\0\0\0", 38, nullptr},
        {"\3\0\0\0\0\0\0\0\5\0\0\0\0\0\0\0", 16, nullptr},
        {"{\"a\": {\"b\": 5}}\n{\"a\": {\"b\": 2.5}}\n", 34, "a.b"},
        {"5\n2.5\n", 6, nullptr},
        {"one\ntwo lines\n", 14, nullptr},
        {">one\nACGT\n", 10, nullptr}};
    for (const auto &[bytes, count, column] : files) {
        const bool is_index = bytes[0] == '\3';
        const std::string path = folder + (is_index ? "/sizes.ds.index" : "/sizes");
        FILE *const file = std::fopen(path.c_str(), "wb");
        std::fwrite(bytes, 1, count, file);
        std::fclose(file);
        sab_sizes_file_options options = SAB_SIZES_FILE_OPTIONS_INIT;
        options.column = column;
        options.progress = go_on;
        sab_sizes *sizes = nullptr;
        for (options.copy = 0; options.copy <= static_cast<int>(is_index); ++options.copy) {
            CALL_INTO(sizes, sab_sizes_file_new(path.c_str(), &options, &sizes));
            double size = 0;
            CALL_INTO(size, sab_sizes_get(sizes, 0, 1, &size));
            run.note(size);
            run.note_text(description_of(run, sizes).c_str());
            CALL_PLAIN(sab_sizes_free(sizes));
        }
        options.copy = 0;
        options.column = "none";
        if (column != nullptr)
            CALL_FAILS(SAB_E_FORMAT, sab_sizes_file_new(path.c_str(), &options, &sizes));
    }
}

SCENARIO(plan_auto, Threads::none) {
    sab_plan_options options = with_budget(300);
    options.progress = go_on;
    play_plan(run, options);
}

SCENARIO(plan_boundaries, Threads::none) {
    play_plan(run, with_boundaries());
}

SCENARIO(plan_optimal, Threads::none) {
    sab_plan_options options = with_budget(300);
    options.bucket_rule = SAB_BUCKETS_OPTIMAL;
    options.bucket_count = 4;
    play_plan(run, options);
}

SCENARIO(plan_fewest_batches, Threads::none) {
    sab_plan_options options = with_budget(300);
    options.bucket_batches = 2;
    play_plan(run, options);
}

SCENARIO(plan_shapes, Threads::none) {
    sab_plan_options options = with_budget(40);
    options.max_shapes = one_count(5), options.max_shape_count = 1;
    options.oversize = SAB_OVERSIZE_SINGLE;
    play_plan(run, options);
}

SCENARIO(plan_skip, Threads::none) {
    CALL_PLAIN(sab_log_set_callback(ignore, nullptr));
    sab_plan_options options = with_budget(30);
    options.oversize = SAB_OVERSIZE_SKIP;
    play_plan(run, options);
    CALL_PLAIN(sab_log_set_callback(nullptr, nullptr));
}

SCENARIO(plan_budgets, Threads::none) {
    const uint32_t linear = 1;
    const sab_cost_term terms[] = {
        {1, 0, 0, nullptr, {}}, {1, 1, 1, &linear, {}}, {0.5, 1, 0, nullptr, {}}};
    const double weight = 2;
    sab_cost *costs[3] = {};
    CALL_INTO(costs[0], sab_cost_terms_new(terms, 3, &costs[0]));
    CALL_INTO(costs[1], sab_cost_padded_new(&weight, 1, &costs[1]));
    CALL_INTO(costs[2], sab_cost_callback_new(cost_of, nullptr, nullptr, &costs[2]));
    const double length = 7;
    for (const sab_cost *const cost : costs) {
        double value = 0;
        CALL_INTO(value, sab_cost_evaluate(cost, 3, &length, nullptr, 1, &value));
        run.note(value);
    }
    sab_cost *none = nullptr;
    CALL_FAILS(SAB_E_ARGUMENT, sab_cost_terms_new(terms, 0, &none));
    const sab_budget budgets[] = {
        {costs[0], 300}, {costs[1], 500}, {costs[2], 280}, {nullptr, 290}};
    sab_plan_options options = SAB_PLAN_OPTIONS_INIT;
    options.budgets = budgets;
    options.budget_count = 4;
    sab_plan *const plan = plan_with(run, options);
    for (sab_cost *const cost : costs) CALL_PLAIN(sab_cost_free(cost));
    note_plan(run, plan);
    CALL_PLAIN(sab_plan_free(plan));
}

SCENARIO(plan_files, Threads::none) {
    const std::string path = folder + "/a.plan";
    sab_plan *const plan = plan_with(run, with_budget(300));
    CALL(sab_plan_save(plan, path.c_str()));
    sab_plan *opened = nullptr, *read = nullptr, *copy = nullptr;
    CALL_INTO(opened, sab_plan_file_new(path.c_str(), &opened));
    note_plan(run, opened);
    CALL(sab_plan_check(opened));
    CALL_INTO(copy, sab_plan_copy_new(opened, &copy));
    note_plan(run, copy);
    std::size_t size = 0;
    CALL(sab_plan_write(plan, nullptr, 0, &size));
    std::vector<unsigned char> image(size);
    CALL(sab_plan_write(plan, image.data(), size, &size));
    CALL_INTO(read, sab_plan_bytes_new(image.data(), size, &read));
    note_plan(run, read);
    image[size / 2] ^= 1;
    sab_plan *damaged = nullptr;
    CALL_FAILS(SAB_E_FORMAT, sab_plan_bytes_new(image.data(), size, &damaged));
    for (sab_plan *const each : {plan, opened, copy, read}) CALL_PLAIN(sab_plan_free(each));
}

SCENARIO(plan_file_is_replaced, Threads::none) {
    // A save that fails leaves the old file.
    const std::string path = folder + "/b.plan";
    sab_plan *const first = plan_with(run, with_budget(300)), *const second =
                                                                  plan_with(run, with_budget(200));
    CALL(sab_plan_save(first, path.c_str()));
    CALL_OR_SKIP(sab_plan_save(second, path.c_str()));
    sab_plan *opened = nullptr;
    CALL_INTO(opened, sab_plan_file_new(path.c_str(), &opened));
    note_plan(run, opened);
    for (sab_plan *const each : {first, second, opened}) CALL_PLAIN(sab_plan_free(each));
}

SCENARIO(create_buckets, Threads::none) {
    const std::vector<int32_t> whole(lengths().begin(), lengths().end());
    sab_sizes *sizes = nullptr;
    CALL_INTO(sizes, sab_sizes_new(whole.data(), whole.size(), SAB_INT32, nullptr, &sizes));
    std::vector<int64_t> boundaries(51), counts(50);
    std::size_t count = 0;
    CALL_INTO(boundaries, sab_bionemo_create_buckets(sizes, 10, 5, boundaries.data(), counts.data(),
                                                     counts.size(), &count));
    run.note(boundaries.data(), (count + 1) * sizeof boundaries[0]);
    run.note(counts.data(), count * sizeof counts[0]);
    CALL_PLAIN(sab_sizes_free(sizes));
}

SCENARIO(plan_report, Threads::none) {
    sab_plan *const plan = plan_with(run, with_budget(300));
    const sab_sampler_options options = rank_options();
    sab_plan_report report = SAB_PLAN_REPORT_INIT;
    CALL_INTO(report, sab_plan_get_report(plan, &options, a_progress(go_on, nullptr), &report));
    run.note(&report, sizeof report);
    CALL_PLAIN(sab_plan_free(plan));
}
