#pragma once

#include <functional>

#include "core/context.h"
#include "core/image.h"
#include "ops/resize_filter.h"

namespace sam_rlx {

// Takes row y of a resized image: 3 * width bytes that live until the call returns.
using ImageRowSink = std::function<void(std::int64_t y, const std::uint8_t* row)>;

// Bilinear resize of an image, bit for bit as Pillow's Image.resize(BILINEAR) before version 13:
// the filter widens when shrinking, weights are integers of 22 bits, the horizontal pass comes
// first (second where an image more than 100 times as high as wide gets lower) and rounds to
// bytes, and a side that does not change gets no pass. The sink is called once for each row, from
// several threads, in any order.
void resize_pillow(Context& ctx, const ImageView& image, std::int64_t height, std::int64_t width,
                   const ImageRowSink& sink);

// The same with Pillow's filter BICUBIC, its default: Keys' cubic with a = -0.5.
void resize_pillow_bicubic(Context& ctx, const ImageView& image, std::int64_t height,
                           std::int64_t width, const ImageRowSink& sink);

// The same bit for bit as torchvision resizes uint8 tensors with antialias on CPUs with vector
// instructions: as Pillow, but weights have as many bits as 16 hold, which depends on the axis, and
// the horizontal pass always comes first. Upstream: torchvision.transforms.v2.Resize.
void resize_torchvision(Context& ctx, const ImageView& image, std::int64_t height,
                        std::int64_t width, const ImageRowSink& sink);

// The same with another filter; torchvision's bicubic filter is the cubic one here.
struct ByteResize {
  std::int64_t height = 0, width = 0;
  const ResizeFilter& filter;
};
void resize_torchvision(Context& ctx, const ImageView& image, const ByteResize& how,
                        const ImageRowSink& sink);

}  // namespace sam_rlx
