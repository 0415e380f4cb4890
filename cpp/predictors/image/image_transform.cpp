#include "predictors/image/image_transform.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "core/parallel.h"
#include "ops/resize.h"
#include "ops/resize_antialias.h"
#include "ops/resize_pillow.h"

namespace sam_rlx {

bool is_image_size(Size size) noexcept {
  return size.height >= 1 && size.width >= 1 && size.height <= kMaxImageSide &&
         size.width <= kMaxImageSide && size.height <= kMaxImagePixels / size.width;
}

void check_size(const std::string& where, Size size) {
  if (is_image_size(size)) return;
  fail(where,
       "sides of 1 to " + std::to_string(kMaxImageSide) + " and at most " +
           std::to_string(kMaxImagePixels) + " pixels",
       std::to_string(size.height) + " x " + std::to_string(size.width));
}

namespace {

// The normalized value of every byte, for each channel.
using ByteTable = std::array<std::array<float, 3>, 256>;

// What each byte is worth.
using Levels = std::array<float, 256>;

template <class Value>
Levels levels_of(const Value& value) {
  Levels levels;
  for (std::size_t byte = 0; byte < levels.size(); ++byte) {
    levels[byte] = value(static_cast<float>(byte));
  }
  return levels;
}

// (level - mean) / std
ByteTable normalise(const Levels& levels, const std::array<float, 3>& mean,
                    const std::array<float, 3>& std) {
  ByteTable table;
  for (std::size_t byte = 0; byte < table.size(); ++byte) {
    for (std::size_t c = 0; c < 3; ++c) table[byte][c] = (levels[byte] - mean[c]) / std[c];
  }
  return table;
}

void look_up(const ByteTable& table, const std::uint8_t* row, std::int64_t width, float* out) {
  for (std::int64_t x = 0; x < 3 * width; x += 3) {
    out[x] = table[row[x]][0];
    out[x + 1] = table[row[x + 1]][1];
    out[x + 2] = table[row[x + 2]][2];
  }
}

bool is_square(const ImageView& image, std::int64_t side) {
  return image.height == side && image.width == side;
}

// An image that has the size of `out` (side, side, 3) already.
void look_up_image(Context& ctx, const ByteTable& table, const ImageView& image, View out) {
  const std::int64_t side = out.shape[0];
  parallel_for({ctx.num_threads, side, 64, 3 * side * kNumberWork},
               [&](std::int64_t y0, std::int64_t y1, int) {
                 for (std::int64_t y = y0; y < y1; ++y) {
                   look_up(table, image.row(y), side, out.data + 3 * y * side);
                 }
               });
}

std::string text(Size size) {
  return std::to_string(size.height) + " x " + std::to_string(size.width);
}

}  // namespace

Size ImageTransform::resized_hw(Size orig_hw) const {
  if (orig_hw.height <= 0 || orig_hw.width <= 0) {
    fail("image", "at least one pixel", text(orig_hw));
  }
  const double scale = static_cast<double>(side) * 1.0 /
                       static_cast<double>(std::max(orig_hw.height, orig_hw.width));
  const auto scaled = [&](std::int64_t size) {
    return static_cast<std::int64_t>(static_cast<double>(size) * scale + 0.5);
  };
  const Size input_hw{scaled(orig_hw.height), scaled(orig_hw.width)};
  if (input_hw.height <= 0 || input_hw.width <= 0) {
    fail("image",
         "sides that stay at least one pixel when the longer one becomes " + std::to_string(side),
         text(orig_hw));
  }
  return input_hw;
}

Size ImageTransform::preprocess(Context& ctx, const ImageView& image, View out) const {
  if (out.shape != Shape{side, side, 3}) {
    fail_internal("preprocess into " + out.shape.str());
  }
  const Size input_hw = resized_hw({image.height, image.width});
  const ByteTable table = normalise(levels_of([](float byte) { return byte; }), mean, std);
  const std::int64_t row_floats = 3 * side;
  resize_pillow(ctx, image, input_hw.height, input_hw.width,
                [&](std::int64_t y, const std::uint8_t* row) {
                  float* const target = out.data + y * row_floats;
                  look_up(table, row, input_hw.width, target);
                  std::fill(target + 3 * input_hw.width, target + row_floats, 0.0F);
                });
  std::fill(out.data + input_hw.height * row_floats, out.data + out.numel(), 0.0F);
  return input_hw;
}

namespace {

// (1, H, W) -> (1, side, side)
using ResizePlane = void (*)(Context& ctx, ConstView plane, View out);

void resize_cubic(Context& ctx, ConstView plane, View out) {
  resize_bicubic_hwc(ctx, plane.reshape({plane.shape[1], plane.shape[2], 1}),
                     out.reshape({out.shape[1], out.shape[2], 1}));
}

// How an image is resized in float: what a byte is worth, and by which filter.
struct FloatResize {
  const Levels& levels;
  ResizePlane resize = resize_bilinear_antialias;
};

// Resizes an image in float, one channel at a time: large images are held once in float.
// finish(c, row, out) takes a row of channel c of the result, `side` numbers that it may change, to
// out[0], out[3], ...
template <class Finish>
void resize_channels(Context& ctx, const ImageView& image, View out, const FloatResize& how,
                     const Finish& finish) {
  if (image.height <= 0 || image.width <= 0) {
    fail("image", "at least one pixel", text({image.height, image.width}));
  }
  const std::int64_t side = out.shape[0];
  const Workspace::Scope scratch(ctx.workspace);
  const View plane = ctx.workspace.floats({1, image.height, image.width});
  const View resized = ctx.workspace.floats({1, side, side});
  for (std::size_t c = 0; c < 3; ++c) {
    parallel_for({ctx.num_threads, image.height, 64, image.width * kNumberWork},
                 [&](std::int64_t y0, std::int64_t y1, int) {
                   for (std::int64_t y = y0; y < y1; ++y) {
                     const std::uint8_t* const row = image.row(y) + c;
                     float* const target = plane.data + y * image.width;
                     for (std::int64_t x = 0; x < image.width; ++x)
                       target[x] = how.levels[row[3 * x]];
                   }
                 });
    how.resize(ctx, plane, resized);
    parallel_for({ctx.num_threads, side, 64, side * kNumberWork},
                 [&](std::int64_t y0, std::int64_t y1, int) {
                   for (std::int64_t y = y0; y < y1; ++y) {
                     finish(c, resized.data + y * side, out.data + 3 * y * side + c);
                   }
                 });
  }
}

}  // namespace

void SquareTransform::preprocess(Context& ctx, const ImageView& image, View out) const {
  if (out.shape != Shape{side, side, 3}) fail_internal("preprocess into " + out.shape.str());
  const Levels levels = levels_of([](float byte) { return byte / 255.0F; });
  if (is_square(image, side)) {
    return look_up_image(ctx, normalise(levels, mean, std), image, out);
  }
  resize_channels(ctx, image, out, {levels}, [&](std::size_t c, float* row, float* to) {
    const std::int64_t count = side;
    const float center = mean[c], scale = std[c];
    // Divided in vectors, then taken apart.
    for (std::int64_t x = 0; x < count; ++x) row[x] = (row[x] - center) / scale;
    for (std::int64_t x = 0; x < count; ++x) to[3 * x] = row[x];
  });
}

void ByteSquareTransform::preprocess(Context& ctx, const ImageView& image, View out) const {
  if (out.shape != Shape{side, side, 3}) fail_internal("preprocess into " + out.shape.str());
  // Upstream multiplies by the inverse.
  constexpr auto kFactor = static_cast<float>(1.0 / 255.0);
  const Levels scaled =
      levels_of([&](float byte) { return multiplies ? kFactor * byte : byte / 255.0F; });
  const ByteTable table = normalise(scaled, mean, std);
  if (is_square(image, side)) return look_up_image(ctx, table, image, out);
  const ImageRowSink sink = [&](std::int64_t y, const std::uint8_t* row) {
    look_up(table, row, side, out.data + y * 3 * side);
  };
  if (resize == Resize::kInteger) return resize_torchvision(ctx, image, side, side, sink);
  if (resize == Resize::kBicubic) return resize_pillow_bicubic(ctx, image, side, side, sink);
  if (resize == Resize::kBilinear) return resize_pillow(ctx, image, side, side, sink);
  const Levels levels = levels_of([](float byte) { return byte; });
  const ResizePlane filter = resize == Resize::kCubic ? resize_cubic : resize_bilinear_antialias;
  resize_channels(ctx, image, out, {levels, filter}, [&](std::size_t c, float* row, float* to) {
    for (std::int64_t x = 0; x < side; ++x) {
      // Rounds halves to even, as upstream does.
      const float level = std::clamp(std::nearbyint(row[x]), 0.0F, 255.0F);
      to[3 * x] = table[static_cast<std::size_t>(level)][c];
    }
  });
}

}  // namespace sam_rlx
