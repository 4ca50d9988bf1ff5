#include "plan/plan_handle.h"

#include <algorithm>

#include "base/files.h"
#include "plan/epoch_plan.h"
#include "plan/mixed_plans.h"

namespace sab {

std::unique_ptr<sab_plan> make_plan(const Columns& sizes, const PlanOptions& options,
                                    std::span<const int64_t> ids) {
    if (has_mixtures && sizes.choice() != nullptr) return make_mixed_plan(sizes, options, ids);
    return std::make_unique<sab_plan>(Plan::make(sizes, options, ids));
}

std::unique_ptr<sab_plan> read_plan(std::span<const std::byte> image, std::string_view name) {
    if (has_mixtures && is_epoch_plan(image)) return read_epoch_plan(image, name);
    return std::make_unique<sab_plan>(Plan::read(image, name));
}

std::unique_ptr<sab_plan> open_plan(const char* path) {
    constexpr std::size_t head = 4096;  // bytes that usually have the header and the small sections
    auto file = map_file(path);
    std::string name = text("\"", path, "\"");
    // Otherwise the system reads megabytes around the first byte.
    read_ahead(file->first(std::min(file->size(), head)));
    if (has_mixtures && is_epoch_plan(*file)) return read_epoch_plan(*file, name);
    return std::make_unique<sab_plan>(Plan::open(std::move(file), std::move(name)));
}

}  // namespace sab

const std::vector<sab::Shape>& sab_plan::shapes() const {
    return shapes_.get([&] {
        sab::ShapeList list;
        list.add(*impl, sab::bucket_shapes(*impl));
        if (const auto second = impl->second()) list.add(*second, sab::bucket_shapes(*second));
        return std::make_unique<const std::vector<sab::Shape>>(std::move(list).sorted());
    });
}
