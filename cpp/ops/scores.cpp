#include "ops/scores.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "core/parallel.h"

namespace sam_rlx {
namespace {

constexpr std::int64_t kScoreGrain = 1 << 12;  // docs/develop/optimizations.md: work-items

void check_scores(const char* name, ConstView logits, View out) {
  if (out.shape != logits.shape) fail(name, logits.shape.str(), out.shape.str());
}

}  // namespace

float sigmoid(float x) { return 1.0F / (1.0F + std::exp(-x)); }

float inverse_sigmoid(float x) {
  constexpr float kEps = 1e-3F;
  x = std::clamp(x, 0.0F, 1.0F);
  return std::log(std::max(x, kEps) / std::max(1.0F - x, kEps));
}

void sigmoid_(Context& ctx, View x) {
  parallel_for({ctx.num_threads, x.numel(), kScoreGrain, kFunctionWork},
               [&](std::int64_t begin, std::int64_t end, int) {
                 std::transform(x.data + begin, x.data + end, x.data + begin, sigmoid);
               });
}

void mean_rows(Context& ctx, ConstView x, View out) {
  if (x.shape.rank() != 2 || x.shape[0] < 1) fail("mean_rows", "rows (N, C)", x.shape.str());
  const std::int64_t rows = x.shape[0], cols = x.shape[1];
  const Shape expected{1, cols};
  if (out.shape != expected) fail("mean_rows: result", expected.str(), out.shape.str());
  parallel_for({ctx.num_threads, cols, kScoreGrain, rows * kNumberWork},
               [&](std::int64_t begin, std::int64_t end, int) {
                 for (std::int64_t c = begin; c < end; ++c) {
                   double sum = 0.0;
                   for (std::int64_t r = 0; r < rows; ++r)
                     sum += static_cast<double>(x.data[r * cols + c]);
                   out.data[c] = static_cast<float>(sum / static_cast<double>(rows));
                 }
               });
}

void dot_rows(Context& ctx, ConstView x, ConstView vector, float scale, float limit, View out) {
  if (x.shape.rank() != 2 || vector.numel() != x.shape[1] || out.numel() != x.shape[0]) {
    fail("dot_rows", "a vector and a result for " + x.shape.str(),
         vector.shape.str() + " and " + out.shape.str());
  }
  const std::int64_t cols = x.shape[1];
  parallel_for({ctx.num_threads, x.shape[0], 16, cols * kNumberWork},
               [&](std::int64_t begin, std::int64_t end, int) {
                 for (std::int64_t r = begin; r < end; ++r) {
                   double sum = 0.0;
                   for (std::int64_t c = 0; c < cols; ++c) {
                     sum += static_cast<double>(x.data[r * cols + c]) * vector.data[c];
                   }
                   out.data[r] = std::clamp(static_cast<float>(sum * scale), -limit, limit);
                 }
               });
}

void presence_scores(Context& ctx, ConstView logits, float presence_logit, View out) {
  check_scores("presence_scores", logits, out);
  const float presence = sigmoid(presence_logit);
  parallel_for({ctx.num_threads, logits.numel(), kScoreGrain, kFunctionWork},
               [&](std::int64_t begin, std::int64_t end, int /*thread*/) {
                 std::transform(logits.data + begin, logits.data + end, out.data + begin,
                                [&](float logit) { return sigmoid(logit) * presence; });
               });
}

void joint_logits(Context& ctx, ConstView logits, float presence_logit, View out) {
  constexpr float kLimit = 10.0F;
  presence_scores(ctx, logits, presence_logit, out);
  parallel_for({ctx.num_threads, out.numel(), kScoreGrain, 2 * kFunctionWork},
               [&](std::int64_t begin, std::int64_t end, int) {
                 std::transform(out.data + begin, out.data + end, out.data + begin,
                                [&](float score) {
                                  return std::clamp(inverse_sigmoid(score), -kLimit, kLimit);
                                });
               });
}

}  // namespace sam_rlx
