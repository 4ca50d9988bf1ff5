#pragma once
/// The batches of all ranks of an epoch as an Arrow stream.

#include "sab/arrow.h"
#include "sampler/cursor.h"

namespace sab {

/// Fills the stream, which takes over the cursor.
void make_schedule(std::unique_ptr<Cursor> cursor, ArrowArrayStream& stream);

}  // namespace sab
