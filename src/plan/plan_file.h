#pragma once
/// The header of a plan file, format version 2. Sections follow in this order, without gaps:
/// coefficients (float64), distinct sizes (float64), buckets (sab::Bucket), first places of the
/// distinct sizes (uint32, one more than there are sizes), order (uint32).

#include <cstdint>

#include "plan/plan.h"

namespace sab {

inline constexpr char plan_magic[8] = {'S', 'A', 'B', 'P', 'L', 'A', 'N', '\0'};
inline constexpr uint32_t plan_byte_order = 0x01020304;
inline constexpr uint32_t plan_file_version = 2;

struct PlanFileHeader {
    char magic[8];
    uint32_t byte_order;  ///< reads as plan_byte_order on a machine of the writer's byte order
    uint32_t version;
    uint64_t checksum;      ///< XXH3 (64 bits) of all that follows it; also the plan's fingerprint
    uint64_t length;        ///< of the whole file
    uint64_t coefficients;  ///< number of
    uint64_t levels;
    uint64_t buckets;
    PlanFacts facts;
};

// The bytes are a format: a change of layout needs a new version.
static_assert(sizeof(PlanFileHeader) == 152 && sizeof(PlanFacts) == 96 && sizeof(Bucket) == 88);

}  // namespace sab
