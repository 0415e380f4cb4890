#pragma once

#include <cstdint>

#include "core/blocks.h"
#include "core/context.h"

namespace sam_rlx {

// Rows of a table (V, C) by their numbers: out (N, C) with out[i] = table[ids[i]]. Raises
// InvalidArgument when a number is not in [0, V); nothing is written then.
void embedding(Context& ctx, ConstView table, const std::int64_t* ids, View out);
// The same for a table in blocks: the rows are unpacked.
void embedding(Context& ctx, const BlockRows& table, const std::int64_t* ids, View out);

}  // namespace sam_rlx
