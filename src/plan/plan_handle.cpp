#include "plan/plan_handle.h"

#include <algorithm>

#include "base/files.h"
#include "base/hasher.h"
#include "plan/counted_turns.h"
#include "plan/mixed_plans.h"

namespace sab {

std::unique_ptr<sab_plan> make_plan(const Columns& sizes, const PlanOptions& options,
                                    std::span<const int64_t> ids) {
    if (has_mixtures && sizes.choice() != nullptr) {
        sizes.refuse_shard();
        auto epochs = std::make_shared<const MixedPlans>(
            sizes, options, std::vector<int64_t>(ids.begin(), ids.end()));
        return std::make_unique<sab_plan>(epochs->first(), epochs);
    }
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

const std::shared_ptr<const sab::Plan>& sab_plan::of_all_epochs(std::string_view caller) const {
    if (epochs != nullptr)
        sab::fail(SAB_E_UNSUPPORTED, caller,
                  ": the plan is of a mixture, whose plan is made again in each epoch");
    return impl;
}

uint64_t sab_plan::fingerprint() const {
    if (sab::has_mixtures && epochs != nullptr) return epochs->fingerprint();
    if (!sab::has_mixtures || turns == nullptr) return impl->fingerprint();
    sab::Hasher hasher;
    hasher.add(impl->fingerprint());
    hasher.add_all(turns->write());
    return hasher.digest();
}

std::size_t sab_plan::skipped(std::span<int64_t> room) const {
    return sab::has_mixtures && epochs != nullptr ? epochs->skipped(0, room) : impl->skipped(room);
}

std::size_t sab_plan::write(std::span<std::byte> room) const {
    const sab::Plan& own = *of_all_epochs("sab_plan_write");
    if (!sab::has_mixtures || turns == nullptr) return own.write(room);
    const std::vector<std::byte> of_turns = turns->write();
    const std::size_t first = own.write({}), size = first + of_turns.size();
    if (size > room.size()) return size;
    own.write(room.first(first));
    std::ranges::copy(of_turns, room.begin() + static_cast<std::ptrdiff_t>(first));
    return size;
}

void sab_plan::save(const char* path) const {
    if (turns == nullptr) return of_all_epochs("sab_plan_save")->save(path);
    std::vector<std::byte> image(write({}));
    write(image);
    sab::replace_file(path, sab::ImageParts{std::span<const std::byte>(image)});
}

std::unique_ptr<sab_plan> sab_plan::copy() const {
    return std::make_unique<sab_plan>(of_all_epochs("sab_plan_copy_new")->copy(), nullptr, turns);
}

const std::vector<sab::Shape>& sab_plan::shapes() const {
    return shapes_.get([&] {
        sab::ShapeList list;
        list.add(*impl, sab::bucket_shapes(*impl));
        if (const auto second = impl->second()) list.add(*second, sab::bucket_shapes(*second));
        return std::make_unique<const std::vector<sab::Shape>>(std::move(list).sorted());
    });
}
