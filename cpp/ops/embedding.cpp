#include "ops/embedding.h"

#include <algorithm>
#include <string>

#include "core/error.h"
#include "core/parallel.h"

namespace sam_rlx {
namespace {

constexpr std::int64_t kIdGrain = 16;  // rows (docs/develop/optimizations.md: work-items)

// Calls write(id, row of the result) for every number.
template <class Write>
void write_rows(Context& ctx, const Shape& table, const std::int64_t* ids, View out,
                const Write& write) {
  if (table.rank() != 2 || out.shape.rank() != 2 || out.shape[1] != table[1]) {
    fail("embedding", "rows as those of a table " + table.str(), out.shape.str());
  }
  const std::int64_t count = out.shape[0], width = out.shape[1];
  const std::int64_t* const wrong =
      std::find_if(ids, ids + count, [&](std::int64_t id) { return id < 0 || id >= table[0]; });
  if (wrong != ids + count) {
    fail("ids", "numbers from 0 to " + std::to_string(table[0] - 1), std::to_string(*wrong));
  }
  parallel_for({ctx.num_threads, count, kIdGrain, width * kNumberWork},
               [&](std::int64_t begin, std::int64_t end, int) {
                 for (std::int64_t i = begin; i < end; ++i) write(ids[i], out.data + i * width);
               });
}

}  // namespace

void embedding(Context& ctx, ConstView table, const std::int64_t* ids, View out) {
  write_rows(ctx, table.shape, ids, out, [&](std::int64_t id, float* row) {
    const std::int64_t width = table.shape[1];
    std::copy_n(table.data + id * width, width, row);
  });
}

void embedding(Context& ctx, const BlockRows& table, const std::int64_t* ids, View out) {
  write_rows(ctx, {table.rows, table.cols}, ids, out, [&](std::int64_t id, float* row) {
    unpack_blocks(table.format, table.row(id), table.cols, row);
  });
}

}  // namespace sam_rlx
