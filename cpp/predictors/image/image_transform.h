#pragma once

#include <array>
#include <string>

#include "core/context.h"
#include "core/image.h"

namespace sam_rlx {

// (height, width).
struct Size {
  std::int64_t height = 0, width = 0;
  bool operator==(const Size&) const = default;
};
// Whether an image may have this size.
bool is_image_size(Size size) noexcept;
// Raises InvalidArgument when it may not.
void check_size(const std::string& where, Size size);

// SAM's image transform: the longer side becomes `side`, values are normalized, and zeros fill
// the square at the right and at the bottom. Upstream: ResizeLongestSide and Sam.preprocess.
struct ImageTransform {
  std::int64_t side = 1024;
  std::array<float, 3> mean{123.675F, 116.28F, 103.53F};
  std::array<float, 3> std{58.395F, 57.12F, 57.375F};

  // Size of the resized image inside the square. Raises InvalidArgument when a side is empty.
  Size resized_hw(Size orig_hw) const;

  // uint8 RGB -> out (side, side, 3); returns the size of the part that is image.
  Size preprocess(Context& ctx, const ImageView& image, View out) const;
};

// SAM 2's image transform: both sides become `side`, bilinear with antialias in float32, values
// are divided by 255 and normalized. Upstream: sam2/utils/transforms.py, SAM2Transforms.
struct SquareTransform {
  std::int64_t side = 1024;
  std::array<float, 3> mean{0.485F, 0.456F, 0.406F};
  std::array<float, 3> std{0.229F, 0.224F, 0.225F};

  // uint8 RGB -> out (side, side, 3). Raises InvalidArgument when a side is empty.
  void preprocess(Context& ctx, const ImageView& image, View out) const;
};

// Both sides become `side` and values become bytes again, which are divided by 255 and normalized:
// SAM 3's image transform, and that of the video loaders of both families. torchvision resizes in
// float on GPUs and in integers on CPUs: one grey level apart on some pixels. Upstream:
// sam3/model/sam3_image_processor.py, Sam3Processor; sam2/utils/misc.py, load_video_frames;
// sam3/model/io_utils.py, load_resource_as_video_frames.
struct ByteSquareTransform {
  std::int64_t side = 1008;
  Resize resize = Resize::kFloat;
  std::array<float, 3> mean{0.5F, 0.5F, 0.5F};
  std::array<float, 3> std{0.5F, 0.5F, 0.5F};
  bool multiplies = true;  // by the inverse of 255

  // uint8 RGB -> out (side, side, 3). Raises InvalidArgument when a side is empty.
  void preprocess(Context& ctx, const ImageView& image, View out) const;
};

}  // namespace sam_rlx
