#pragma once
/// The plan of one epoch of a mixture whose samples have no indices.

#include <memory>
#include <span>
#include <string_view>

#include "plan/counted_turns.h"
#include "plan/plan.h"

namespace sab {

/// `turns`: what the epoch has of the samples.
std::unique_ptr<sab_plan> make_epoch_plan(std::shared_ptr<const Plan> plan,
                                          std::shared_ptr<const CountedTurns> turns);
/// Whether the bytes are those of such a plan: the image of a plan and one of turns.
bool is_epoch_plan(std::span<const std::byte> image);
std::unique_ptr<sab_plan> read_epoch_plan(std::span<const std::byte> image, std::string_view name);

}  // namespace sab
