#include "plan/plan_options.h"

#include <algorithm>
#include <cmath>

#include "base/options.h"
#include "sizes/sizes.h"

namespace sab {
namespace {

/// Of one column, in any order.
std::vector<PerColumn> sorted_boundaries(std::span<const double> given) {
    std::vector<double> boundaries(given.begin(), given.end());
    for (std::size_t i = 0; i < boundaries.size(); ++i)
        if (std::isnan(boundaries[i]))
            refuse_argument(named("options.boundaries[", i, "]"), "nan", "must be a number");
    std::ranges::sort(boundaries);
    if (const auto twin = std::ranges::adjacent_find(boundaries); twin != boundaries.end())
        refuse_argument("options.boundaries", no_value, *twin,
                        " stands there twice: boundaries must differ from each other");
    std::vector<PerColumn> ends;
    ends.reserve(boundaries.size());
    for (const double boundary : boundaries) ends.push_back({boundary});
    return ends;
}

/// Of several columns, one number each.
std::vector<PerColumn> corners(const double* given, std::size_t count, std::size_t columns) {
    std::vector<PerColumn> corners(count);
    for (std::size_t i = 0; i < count; ++i)
        for (std::size_t j = 0; j < columns; ++j) {
            corners[i][j] = given[i * columns + j];
            if (std::isnan(corners[i][j]))
                refuse_argument(named("options.boundaries[", i, "][", j, "]"), "nan",
                                "must be a number");
            if (i > 0 && corners[i][j] <= corners[0][j])
                refuse_argument(named("options.boundaries[", i, "][", j, "]"), corners[i][j],
                                "must be above the first one, ", corners[0][j]);
        }
    return corners;
}

std::vector<PerColumn> read_boundaries(const sab_plan_options& given, std::size_t columns) {
    const std::size_t count = given.boundary_count;
    if (given.bucket_rule != SAB_BUCKETS_BOUNDARIES) return {};
    sab::items(given.boundaries, count, "options.boundaries", "options.boundary_count");
    if (columns == 1) {
        const std::span<const double> own(given.boundaries, count);
        check(count >= 2, "options.boundary_count", count, "must be at least 2");
        return sorted_boundaries(own);
    }
    check(count >= 2, "options.boundary_count", count, "must be at least 2");
    return corners(given.boundaries, count, columns);
}

std::vector<uint64_t> read_batch_sizes(const sab_plan_options& given, std::size_t buckets) {
    const std::size_t count = given.batch_size_count;
    const std::span<const uint64_t> own =
        sab::items(given.batch_sizes, count, "options.batch_sizes", "options.batch_size_count");
    if (count > 1) {  // before any is read
        check(given.bucket_rule == SAB_BUCKETS_BOUNDARIES, "options.batch_size_count", count,
              "must be 0 or 1 unless the boundaries are given");
        check(count == buckets, "options.batch_size_count", count,
              "must be 1 or the number of buckets, ", buckets);
    }
    std::vector<uint64_t> sizes(own.begin(), own.end());
    for (std::size_t i = 0; i < sizes.size(); ++i) {
        if (sizes[i] == 0)
            refuse_argument(named("options.batch_sizes[", i, "]"), "0", "must be at least 1");
        // No plan has more samples. Sums of samples and batch sizes cannot overflow.
        sizes[i] = std::min<uint64_t>(sizes[i], UINT32_MAX);
    }
    return sizes;
}

constexpr const char* not_with_buckets =
    "must not be given with SAB_BUCKETS_BOUNDARIES (1) or SAB_BUCKETS_OPTIMAL (2)";

/// The options that belong to one bucket rule.
void check_bucket_rule(const sab_plan_options& given, std::size_t columns) {
    const sab_bucket_rule rule = given.bucket_rule;
    check(rule >= SAB_BUCKETS_AUTO && rule <= SAB_BUCKETS_OPTIMAL, "options.bucket_rule", rule,
          "must be one of SAB_BUCKETS_AUTO (0) to SAB_BUCKETS_OPTIMAL (2)");
    check(columns == 1 || rule != SAB_BUCKETS_OPTIMAL, "options.bucket_rule", rule,
          "must not be SAB_BUCKETS_OPTIMAL (2) for several columns");
    check(given.padding_target >= 0 && given.padding_target < 1, "options.padding_target",
          given.padding_target, "must be above 0 and below 1");
    check(rule == SAB_BUCKETS_AUTO || given.padding_target == 0, "options.padding_target",
          given.padding_target, not_with_buckets);
    check(rule == SAB_BUCKETS_BOUNDARIES ||
              (given.boundary_count == 0 && given.boundaries == nullptr),
          "options.boundary_count", given.boundary_count, "goes with SAB_BUCKETS_BOUNDARIES only");
    const bool is_optimal = rule == SAB_BUCKETS_OPTIMAL, is_auto = rule == SAB_BUCKETS_AUTO;
    check(is_optimal ? given.bucket_count >= 1 : given.bucket_count == 0, "options.bucket_count",
          given.bucket_count,
          is_optimal ? "must be at least 1" : "goes with SAB_BUCKETS_OPTIMAL only");
    check(is_auto || given.bucket_batches == 0, "options.bucket_batches", given.bucket_batches,
          not_with_buckets);
    check(is_auto || given.max_shape_count == 0, "options.max_shape_count", given.max_shape_count,
          not_with_buckets);
    check(given.shapes == SAB_SHAPES_ANY || given.shapes == SAB_SHAPES_AUTO, "options.shapes",
          given.shapes, "must be SAB_SHAPES_ANY (0) or SAB_SHAPES_AUTO (1)");
    check(is_auto || given.shapes == SAB_SHAPES_ANY, "options.shapes", "SAB_SHAPES_AUTO",
          not_with_buckets);
    const bool has_shapes = given.max_shape_count > 0, is_chosen = given.shapes == SAB_SHAPES_AUTO;
    check(given.bucket_batches == 0 || !(has_shapes || is_chosen), "options.bucket_batches",
          given.bucket_batches,
          "must not be given with options.max_shapes, nor where options.shapes is SAB_SHAPES_AUTO "
          "(1)");
    check(
        given.padding_target == 0 || !has_shapes || is_chosen, "options.padding_target",
        given.padding_target,
        "must not be given with options.max_shapes, unless options.shapes is SAB_SHAPES_AUTO (1)");
}

void check_fewest(const sab_plan_options& given) {
    const uint64_t fewest = given.min_batch_size;
    if (fewest <= 1) return;
    const auto refuse = [&](bool holds, std::string_view rule) {
        check(holds, "options.min_batch_size", fewest, rule);
    };
    refuse(given.bucket_rule == SAB_BUCKETS_AUTO, not_with_buckets);
    refuse(given.max_shape_count == 0, "must not be given with options.max_shapes");
    refuse(given.shapes == SAB_SHAPES_ANY, "does not go with SAB_SHAPES_AUTO (1)");
    refuse(given.oversize != SAB_OVERSIZE_SINGLE,
           "does not go with SAB_OVERSIZE_SINGLE (2), whose batches have one sample");
    refuse(given.max_batch_size == 0 || fewest <= given.max_batch_size,
           "must be at most options.max_batch_size");
    refuse(given.batch_size_count != 1 || fewest <= given.batch_sizes[0],
           "must be at most options.batch_sizes[0]");
}

/// One number, or one for each id.
std::vector<std::size_t> read_shapes(const sab_plan_options& given) {
    if (given.separate_by_count > 0) require(given.separate_by, "options.separate_by");
    const std::span<const uint64_t> shapes = sab::items(
        given.max_shapes, given.max_shape_count, "options.max_shapes", "options.max_shape_count");
    check(shapes.size() <= 1 || given.separate_by != nullptr, "options.max_shape_count",
          shapes.size(), "must be 0 or 1 without options.separate_by");
    for (std::size_t i = 0; i < shapes.size(); ++i)
        if (shapes[i] == 0)
            refuse_argument(named("options.max_shapes[", i, "]"), "0", "must be at least 1");
    return {shapes.begin(), shapes.end()};
}

}  // namespace

PerColumn read_multiples(const double* given, std::size_t count, std::size_t columns,
                         std::string_view name) {
    const std::string count_name = text(name, "_count"), array_name = text(name, "s");
    const std::span<const double> own = items(given, count, array_name, count_name);
    check(own.size() <= 1 || own.size() == columns, count_name, own.size(),
          "must be 0, 1 or the number of columns, ", columns);
    PerColumn multiples{};
    for (std::size_t j = 0; j < columns && !own.empty(); ++j) {
        const std::size_t from = own.size() == 1 ? 0 : j;
        multiples[j] = own[from];
        check(multiples[j] >= 0 && multiples[j] <= largest_size, text(array_name, "[", from, "]"),
              multiples[j], "must be from 0 to 2^53");
    }
    return multiples;
}

PlanOptions::PlanOptions(const sab_plan_options& given, ColumnNames columns)
    : bucket_rule(given.bucket_rule),
      padding_target(given.padding_target),
      bucket_count(given.bucket_count),
      bucket_batches(given.bucket_batches),
      max_batch_size(given.max_batch_size),
      min_batch_size(given.min_batch_size),
      batch_size_multiple(given.batch_size_multiple),
      tail(given.tail),
      oversize(given.oversize),
      chooses_shapes(given.shapes == SAB_SHAPES_AUTO),
      has_ids(given.separate_by != nullptr),
      progress(given.progress, given.progress_ctx),
      threads(static_cast<std::size_t>(std::max<uint64_t>(given.threads, 1))) {
    if (given.budget_count == 0 && given.batch_size_count == 0)
        refuse_argument("options.budget_count", "0", "a budget or a batch size must be given");
    check(given.budget_count > 0 || batch_size_multiple <= 1, "options.batch_size_multiple",
          batch_size_multiple, "goes with a budget only");
    check_bucket_rule(given, columns.size());
    default_to(padding_target, 0.01);
    default_to(batch_size_multiple, 1);
    check(tail >= SAB_TAIL_KEEP && tail <= SAB_TAIL_WRAP, "options.tail", tail,
          "must be one of SAB_TAIL_KEEP (0) to SAB_TAIL_WRAP (2)");
    check(oversize >= SAB_OVERSIZE_ERROR && oversize <= SAB_OVERSIZE_SINGLE, "options.oversize",
          oversize, "must be one of SAB_OVERSIZE_ERROR (0) to SAB_OVERSIZE_SINGLE (2)");
    check(given.threads <= SAB_MAX_PLAN_THREADS, "options.threads", given.threads,
          "must be at most ", SAB_MAX_PLAN_THREADS);
    boundaries = read_boundaries(given, columns.size());
    length_multiples = read_multiples(given.length_multiples, given.length_multiple_count,
                                      columns.size(), "options.length_multiple");
    batch_sizes = read_batch_sizes(given, std::max<std::size_t>(boundaries.size(), 1) - 1);
    check_fewest(given);
    if (const std::vector<std::size_t> shapes = read_shapes(given); shapes.size() == 1)
        max_shapes = shapes[0];
    else
        id_shapes = shapes;
    budgets = read_budgets(given.budgets, given.budget_count, columns, "options.budgets");
}

void PlanOptions::check_kept_costs() const {
    for (std::size_t i = 0; i < budgets.size(); ++i)
        if (budgets[i].cost.is_callback())
            refuse_argument(named("options.budgets[", i, "].cost"), no_value,
                            "is a callback: the plan of a mixture is made again in each epoch, and "
                            "must have costs of terms");
}

std::span<const int64_t> ids_of(const sab_plan_options& given, std::size_t count) {
    if (given.separate_by == nullptr) return {};
    check(given.separate_by_count == count, "options.separate_by_count", given.separate_by_count,
          "must be the number of samples, ", count);
    return {given.separate_by, count};
}

}  // namespace sab
