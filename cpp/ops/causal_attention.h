#pragma once

#include <cstdint>
#include <span>

#include "core/context.h"

namespace sam_rlx {

// Self-attention inside of short runs of rows, such as the tokens of texts: a row attends to the
// rows of its run up to itself; one that may attend to none gets zeros. Scores of a run and a head
// are built: a run has some tens of rows.
struct CausalAttentionArgs {
  ConstView qkv;                         // (R, 3C): queries, keys, values; heads inside each third
  std::span<const std::int64_t> begins;  // first row of each run, and R behind them
  std::int64_t num_heads = 0;
  float scale = 1.0F;
  const bool* hidden = nullptr;  // (R,): rows that no row attends to, or null
};

// out (R, C).
void causal_attention(Context& ctx, const CausalAttentionArgs& args, View out);

}  // namespace sam_rlx
