// Encodes an image: the way from a checkpoint and pixels to an image embedding, without Python.
//
//   encode_image CHECKPOINT HEIGHT WIDTH < pixels > embedding
//
// Pixels are bytes (H, W, 3), RGB; the embedding is float32 (g, g, C). Exit status 0: done, 1: an
// error, which is printed, 2: the arguments are wrong.

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "core/error.h"
#include "predictors/image/image_front_end.h"

namespace {

void encode(const char* checkpoint, std::int64_t height, std::int64_t width) {
  std::vector<std::uint8_t> pixels(static_cast<std::size_t>(3 * height * width));
  if (std::fread(pixels.data(), 1, pixels.size(), stdin) != pixels.size()) {
    sam_rlx::fail("pixels", std::to_string(pixels.size()) + " bytes", "fewer");
  }
  const std::shared_ptr<const sam_rlx::Model> model = sam_rlx::Model::load(checkpoint, {});
  sam_rlx::Workspace workspace;
  sam_rlx::Context ctx{.kernels = model->kernels(), .workspace = workspace};
  sam_rlx::sam2::ImageFeatures features;
  sam_rlx::ImageFrontEnd::make(model)->encode(ctx, {pixels.data(), height, width, 3 * width},
                                              sam_rlx::Resize::kFloat, {.clicks = &features});
  const sam_rlx::Tensor& embedding = features.embedding;
  std::fwrite(embedding.data(), sizeof(float), static_cast<std::size_t>(embedding.numel()), stdout);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: %s CHECKPOINT HEIGHT WIDTH < pixels > embedding\n", argv[0]);
    return 2;
  }
  try {
    encode(argv[1], std::atoll(argv[2]), std::atoll(argv[3]));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
