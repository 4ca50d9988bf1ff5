#pragma once
/// The batches of all ranks of an epoch as an Arrow stream.

#include "sampler/sampler.h"

namespace sab {

/// Fills the stream, which takes over the sampler.
void make_schedule(std::unique_ptr<RandomAccess> sampler, ArrowArrayStream& stream);

}  // namespace sab
