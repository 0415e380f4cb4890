#include "ops/boxes.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "core/parallel.h"
#include "ops/scores.h"

namespace sam_rlx {
namespace {

constexpr std::int64_t kBoxGrain = 1 << 12;  // docs/develop/optimizations.md: work-items

void check_boxes(const char* name, const Shape& shape) {
  if (shape.rank() != 2 || shape[1] != 4) fail(name, "boxes (n, 4)", shape.str());
}

float log_distance(double distance) {
  const double magnitude = std::log2(std::abs(8.0 * distance) + 1.0) / 3.0;
  return static_cast<float>(std::copysign(magnitude, distance));
}

// Cells i / side seen from the edges center -/+ extent / 2: out (side, 2).
void edge_distances(float center, float extent, std::int64_t side, float* out) {
  const double low = static_cast<double>(center) - 0.5 * static_cast<double>(extent);
  const double high = static_cast<double>(center) + 0.5 * static_cast<double>(extent);
  for (std::int64_t i = 0; i < side; ++i) {
    const double position = static_cast<double>(i) / static_cast<double>(side);
    out[2 * i] = log_distance(position - low);
    out[2 * i + 1] = log_distance(position - high);
  }
}

}  // namespace

void refine_boxes_(Context& ctx, View boxes, ConstView delta) {
  check_boxes("refine_boxes_", boxes.shape);
  if (delta.shape != boxes.shape) fail("refine_boxes_", boxes.shape.str(), delta.shape.str());
  parallel_for({ctx.num_threads, boxes.numel(), kBoxGrain, 2 * kFunctionWork},
               [&](std::int64_t begin, std::int64_t end, int /*thread*/) {
                 for (std::int64_t i = begin; i < end; ++i) {
                   boxes.data[i] = sigmoid(inverse_sigmoid(boxes.data[i]) + delta.data[i]);
                 }
               });
}

void box_corners(Context& ctx, ConstView boxes, float width, float height, View out) {
  check_boxes("box_corners", boxes.shape);
  if (out.shape != boxes.shape) fail("box_corners", boxes.shape.str(), out.shape.str());
  parallel_for({ctx.num_threads, boxes.shape[0], kBoxGrain, 4 * kNumberWork},
               [&](std::int64_t begin, std::int64_t end, int /*thread*/) {
                 for (std::int64_t i = begin; i < end; ++i) {
                   const float* const box = boxes.data + 4 * i;
                   float* const to = out.data + 4 * i;
                   to[0] = (box[0] - 0.5F * box[2]) * width;
                   to[1] = (box[1] - 0.5F * box[3]) * height;
                   to[2] = (box[0] + 0.5F * box[2]) * width;
                   to[3] = (box[1] + 0.5F * box[3]) * height;
                 }
               });
}

void box_distances(Context& ctx, ConstView boxes, View rows, View cols) {
  check_boxes("box_distances", boxes.shape);
  const std::int64_t count = boxes.shape[0];
  for (const View& axis : {rows, cols}) {
    if (axis.shape.rank() != 3 || axis.shape[0] != count || axis.shape[2] != 2) {
      fail("box_distances: result", "(" + std::to_string(count) + ", side, 2)", axis.shape.str());
    }
  }
  const std::int64_t height = rows.shape[1], width = cols.shape[1];
  parallel_for({ctx.num_threads, count, 4, 2 * (height + width) * kFunctionWork},
               [&](std::int64_t begin, std::int64_t end, int /*thread*/) {
                 for (std::int64_t i = begin; i < end; ++i) {
                   const float* const box = boxes.data + 4 * i;
                   edge_distances(box[1], box[3], height, rows.data + 2 * i * height);
                   edge_distances(box[0], box[2], width, cols.data + 2 * i * width);
                 }
               });
}

void encode_coordinates(Context& ctx, ConstView x, const CoordinateCode& code, View out) {
  const std::int64_t half = code.frequencies.numel();
  const auto encoded = static_cast<std::int64_t>(code.encoded.size());
  const std::int64_t width = encoded * 2 * half + static_cast<std::int64_t>(code.plain.size());
  if (x.shape.rank() != 2) fail("encode_coordinates", "coordinates (n, m)", x.shape.str());
  const Shape expected{x.shape[0], width};
  if (out.shape != expected) fail("encode_coordinates: result", expected.str(), out.shape.str());
  const std::int64_t columns = x.shape[1];
  parallel_for({ctx.num_threads, x.shape[0], 8, 2 * encoded * half * kFunctionWork},
               [&](std::int64_t begin, std::int64_t end, int /*thread*/) {
                 for (std::int64_t i = begin; i < end; ++i) {
                   const float* const from = x.data + i * columns;
                   float* to = out.data + i * width;
                   for (const int column : code.encoded) {
                     for (std::int64_t k = 0; k < half; ++k) {
                       const float angle = from[column] * code.frequencies.data[k];
                       *to++ = std::sin(angle);
                       *to++ = std::cos(angle);
                     }
                   }
                   for (const int column : code.plain) *to++ = from[column];
                 }
               });
}

}  // namespace sam_rlx
