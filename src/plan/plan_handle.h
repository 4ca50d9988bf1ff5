#pragma once
/// How the handle of a plan is made: of sizes, of bytes, of a file.

#include <memory>
#include <span>
#include <string_view>

#include "plan/plan.h"

namespace sab {

/// Of sizes, which may be a mixture.
std::unique_ptr<sab_plan> make_plan(const Columns& sizes, const PlanOptions& options,
                                    std::span<const int64_t> ids);
std::unique_ptr<sab_plan> read_plan(std::span<const std::byte> image,
                                    std::string_view name = "data");
std::unique_ptr<sab_plan> open_plan(const char* path);

}  // namespace sab
