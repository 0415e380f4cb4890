#include "ops/resize_pillow.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "core/parallel.h"

namespace sam_rlx {
namespace {

constexpr int kMaxBits = 22;
// Output rows of one work item: they share the horizontal pass over their sources.
constexpr std::int64_t kByteRows = 32;  // docs/develop/optimizations.md: work-items
// More would make sizes in bytes overflow 32 bits somewhere, and is no image.
constexpr std::int64_t kMaxSide = 1 << 24;

// Output i of an axis is the sum of weights[i * width + k] * in[first[i] + k] over k < count[i].
struct FixedTaps {
  int bits = kMaxBits;  // of the weights behind the point
  std::int64_t width = 0;
  std::int32_t* first = nullptr;
  std::int32_t* count = nullptr;
  std::int32_t* weights = nullptr;

  std::int32_t half() const { return 1 << (bits - 1); }
};

// Weights have Pillow's bits, or as many as leave them 16 with the sign.
struct Weights {
  const ResizeFilter& filter;
  bool in_16_bits = false;
};

int bits_of(const Weights& kind, double largest) {
  if (!kind.in_16_bits) return kMaxBits;
  constexpr int kLimit = 1 << 15;
  int bits = 0;
  while (bits < kMaxBits && static_cast<int>(0.5 + largest * (1 << (bits + 1))) < kLimit) ++bits;
  return bits;
}

FixedTaps make_taps(Workspace& workspace, std::int64_t in_size, std::int64_t out_size,
                    const Weights& kind) {
  const double scale = static_cast<double>(in_size) / static_cast<double>(out_size);
  const double stretch = std::max(scale, 1.0);
  const double support = kind.filter.support * stretch;
  const double inverse = 1.0 / stretch;
  FixedTaps taps;
  taps.width = static_cast<std::int64_t>(std::ceil(support)) * 2 + 1;
  const std::int64_t size = checked_multiply(out_size, taps.width);
  taps.first = workspace.array<std::int32_t>(out_size);
  taps.count = workspace.array<std::int32_t>(out_size);
  taps.weights = workspace.array<std::int32_t>(size);
  const Workspace::Scope scratch(workspace);
  double* const exact = workspace.array<double>(size);
  double largest = 0.0;
  for (std::int64_t i = 0; i < out_size; ++i) {
    const double centre = (static_cast<double>(i) + 0.5) * scale;
    const auto first = std::max(static_cast<std::int64_t>(centre - support + 0.5), std::int64_t{0});
    const auto last = std::min(static_cast<std::int64_t>(centre + support + 0.5), in_size);
    double* const row = exact + i * taps.width;
    double sum = 0.0;
    for (std::int64_t k = 0; k < last - first; ++k) {
      const double position = (static_cast<double>(k + first) - centre + 0.5) * inverse;
      row[k] = kind.filter.weight(position);
      sum += row[k];
    }
    for (std::int64_t k = 0; k < last - first; ++k) {
      if (sum != 0.0) row[k] /= sum;
      largest = std::max(largest, row[k]);
    }
    taps.first[i] = static_cast<std::int32_t>(first);
    taps.count[i] = static_cast<std::int32_t>(last - first);
  }
  taps.bits = bits_of(kind, largest);
  for (std::int64_t i = 0; i < out_size; ++i) {
    for (std::int64_t k = i * taps.width; k < i * taps.width + taps.count[i]; ++k) {
      const double weight = exact[k] * (1 << taps.bits);
      taps.weights[k] = static_cast<std::int32_t>(weight < 0.0 ? weight - 0.5 : weight + 0.5);
    }
  }
  return taps;
}

std::uint8_t to_byte(std::int32_t sum, int bits) {
  return static_cast<std::uint8_t>(std::clamp(sum >> bits, 0, 255));
}

void horizontal_pass(const std::uint8_t* in, const FixedTaps& taps, std::int64_t width,
                     std::uint8_t* out) {
  for (std::int64_t x = 0; x < width; ++x) {
    const std::uint8_t* pixel = in + 3 * static_cast<std::int64_t>(taps.first[x]);
    const std::int32_t* const weights = taps.weights + x * taps.width;
    std::int32_t r = taps.half(), g = r, b = r;
    for (std::int32_t k = 0; k < taps.count[x]; ++k, pixel += 3) {
      r += pixel[0] * weights[k];
      g += pixel[1] * weights[k];
      b += pixel[2] * weights[k];
    }
    out[3 * x] = to_byte(r, taps.bits);
    out[3 * x + 1] = to_byte(g, taps.bits);
    out[3 * x + 2] = to_byte(b, taps.bits);
  }
}

// Rows `in`, `in + stride`, ... -> out (bytes,); sums (bytes,) is scratch.
void vertical_pass(const std::uint8_t* in, std::int64_t stride, const FixedTaps& taps,
                   std::int64_t y, std::int64_t bytes, std::int32_t* sums, std::uint8_t* out) {
  const std::int32_t* const weights = taps.weights + y * taps.width;
  std::fill_n(sums, bytes, taps.half());
  for (std::int32_t k = 0; k < taps.count[y]; ++k, in += stride) {
    const std::int32_t weight = weights[k];
    for (std::int64_t i = 0; i < bytes; ++i) sums[i] += in[i] * weight;
  }
  for (std::int64_t i = 0; i < bytes; ++i) out[i] = to_byte(sums[i], taps.bits);
}

void check(const ImageView& image, std::int64_t height, std::int64_t width) {
  const auto ok = [](std::int64_t side) { return side > 0 && side <= kMaxSide; };
  if (!ok(image.height) || !ok(image.width)) {
    fail("image", "sides from 1 to " + std::to_string(kMaxSide),
         std::to_string(image.height) + " x " + std::to_string(image.width));
  }
  if (!ok(height) || !ok(width)) {
    fail("resized image", "sides from 1 to " + std::to_string(kMaxSide),
         std::to_string(height) + " x " + std::to_string(width));
  }
}

// Pillow shrinks very tall images by rows first, which rounds differently.
bool is_very_tall(const ImageView& image, std::int64_t height) {
  return image.height > 100 * image.width && height < image.height;
}

struct ResizeJob {
  std::int64_t height = 0, width = 0;
  Weights weights;
};

void resize_very_tall(Context& ctx, const ImageView& image, const ResizeJob& job,
                      const ImageRowSink& sink) {
  const std::int64_t height = job.height, width = job.width;
  const std::int64_t in_bytes = 3 * image.width, bytes = 3 * width;
  const std::int64_t threads = std::max(ctx.num_threads, 1);
  const Workspace::Scope scratch(ctx.workspace);
  const FixedTaps y_taps = make_taps(ctx.workspace, image.height, height, job.weights);
  const FixedTaps x_taps = make_taps(ctx.workspace, image.width, width, job.weights);
  auto* const sums = ctx.workspace.array<std::int32_t>(in_bytes * threads);
  auto* const shrunk = ctx.workspace.array<std::uint8_t>(in_bytes * threads);
  auto* const rows = ctx.workspace.array<std::uint8_t>(bytes * threads);
  parallel_for({ctx.num_threads, height, kByteRows, (in_bytes + bytes) * kFunctionWork},
               [&](std::int64_t begin, std::int64_t end, int thread) {
                 std::uint8_t* const narrow = shrunk + in_bytes * thread;
                 std::uint8_t* const row = rows + bytes * thread;
                 for (std::int64_t y = begin; y < end; ++y) {
                   vertical_pass(image.row(y_taps.first[y]), image.row_stride, y_taps, y, in_bytes,
                                 sums + in_bytes * thread, narrow);
                   if (width != image.width) horizontal_pass(narrow, x_taps, width, row);
                   sink(y, width != image.width ? row : narrow);
                 }
               });
}

void resize_by_columns_first(Context& ctx, const ImageView& image, const ResizeJob& job,
                             const ImageRowSink& sink) {
  const std::int64_t height = job.height, width = job.width;
  const bool horizontal = width != image.width, vertical = height != image.height;
  const std::int64_t bytes = 3 * width;
  const std::int64_t threads = std::max(ctx.num_threads, 1);
  const Workspace::Scope scratch(ctx.workspace);
  FixedTaps x_taps, y_taps;
  if (horizontal) x_taps = make_taps(ctx.workspace, image.width, width, job.weights);
  if (vertical) y_taps = make_taps(ctx.workspace, image.height, height, job.weights);

  // The source rows [first, last) that the output rows [begin, end) read.
  const auto sources = [&](std::int64_t begin, std::int64_t end) {
    if (!vertical) return std::pair{begin, end};
    return std::pair<std::int64_t, std::int64_t>{y_taps.first[begin],
                                                 y_taps.first[end - 1] + y_taps.count[end - 1]};
  };
  std::int64_t most = 0;
  for (std::int64_t begin = 0; begin < height; begin += kByteRows) {
    const auto [first, last] = sources(begin, std::min(begin + kByteRows, height));
    most = std::max(most, last - first);
  }
  auto* const narrowed =
      ctx.workspace.array<std::uint8_t>(horizontal ? checked_multiply(most * threads, bytes) : 0);
  auto* const sums = ctx.workspace.array<std::int32_t>(vertical ? bytes * threads : 0);
  auto* const rows = ctx.workspace.array<std::uint8_t>(vertical ? bytes * threads : 0);

  parallel_for({ctx.num_threads, height, kByteRows, (3 * image.width + bytes) * kFunctionWork},
               [&](std::int64_t begin, std::int64_t end, int thread) {
                 const auto [first, last] = sources(begin, end);
                 const std::uint8_t* base = image.row(first);
                 std::int64_t stride = image.row_stride;
                 if (horizontal) {
                   std::uint8_t* const block = narrowed + most * bytes * thread;
                   for (std::int64_t y = first; y < last; ++y) {
                     horizontal_pass(image.row(y), x_taps, width, block + (y - first) * bytes);
                   }
                   base = block;
                   stride = bytes;
                 }
                 for (std::int64_t y = begin; y < end; ++y) {
                   if (!vertical) {
                     sink(y, base + (y - first) * stride);
                     continue;
                   }
                   std::uint8_t* const row = rows + bytes * thread;
                   vertical_pass(base + (y_taps.first[y] - first) * stride, stride, y_taps, y,
                                 bytes, sums + bytes * thread, row);
                   sink(y, row);
                 }
               });
}

void resize_as_pillow(Context& ctx, const ImageView& image, const ResizeJob& job,
                      const ImageRowSink& sink) {
  check(image, job.height, job.width);
  if (is_very_tall(image, job.height)) return resize_very_tall(ctx, image, job, sink);
  resize_by_columns_first(ctx, image, job, sink);
}

}  // namespace

void resize_pillow(Context& ctx, const ImageView& image, std::int64_t height, std::int64_t width,
                   const ImageRowSink& sink) {
  resize_as_pillow(ctx, image, {height, width, {kTriangleFilter}}, sink);
}

void resize_pillow_bicubic(Context& ctx, const ImageView& image, std::int64_t height,
                           std::int64_t width, const ImageRowSink& sink) {
  resize_as_pillow(ctx, image, {height, width, {kCubicFilter}}, sink);
}

void resize_torchvision(Context& ctx, const ImageView& image, std::int64_t height,
                        std::int64_t width, const ImageRowSink& sink) {
  resize_torchvision(ctx, image, {height, width, kTriangleFilter}, sink);
}

void resize_torchvision(Context& ctx, const ImageView& image, const ByteResize& how,
                        const ImageRowSink& sink) {
  check(image, how.height, how.width);
  const ResizeJob job{how.height, how.width, {how.filter, /*in_16_bits=*/true}};
  resize_by_columns_first(ctx, image, job, sink);
}

}  // namespace sam_rlx
