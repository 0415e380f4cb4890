#include "ops/embedding.h"

#include <algorithm>
#include <string>

#include "core/error.h"
#include "core/parallel.h"

namespace sam_rlx {
namespace {

constexpr std::int64_t kGrain = 16;  // rows

}  // namespace

void embedding(Context& ctx, ConstView table, const std::int64_t* ids, View out) {
  if (table.shape.rank() != 2 || out.shape.rank() != 2 || out.shape[1] != table.shape[1]) {
    fail("embedding", "rows as those of a table " + table.shape.str(), out.shape.str());
  }
  const std::int64_t count = out.shape[0], width = out.shape[1];
  const std::int64_t* const wrong = std::find_if(
      ids, ids + count, [&](std::int64_t id) { return id < 0 || id >= table.shape[0]; });
  if (wrong != ids + count) {
    fail("ids", "numbers from 0 to " + std::to_string(table.shape[0] - 1), std::to_string(*wrong));
  }
  parallel_for(ctx.num_threads, count, kGrain, [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t i = begin; i < end; ++i) {
      std::copy_n(table.data + ids[i] * width, width, out.data + i * width);
    }
  });
}

}  // namespace sam_rlx
