// Runs models with several threads, and from several threads at once: for ThreadSanitizer. The
// arguments are checkpoint files. Results must not depend on the number of threads, to the bit.
// Exit status 0: none does.

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <memory>
#include <thread>
#include <vector>

#include "predictors/image/image_predictor.h"

namespace {

using sam_rlx::ImagePredictor;
using sam_rlx::Model;
using sam_rlx::Tensor;

// Noise: every pixel counts.
std::vector<std::uint8_t> noise(std::int64_t height, std::int64_t width) {
  std::vector<std::uint8_t> pixels(static_cast<std::size_t>(3 * height * width));
  std::uint32_t state = 1;
  for (std::uint8_t& pixel : pixels) {
    state = state * 1664525U + 1013904223U;
    pixel = static_cast<std::uint8_t>(state >> 24);
  }
  return pixels;
}

// Low-resolution masks of three prompts, one after the other.
Tensor masks(const std::shared_ptr<const Model>& model, int num_threads) {
  constexpr std::int64_t kHeight = 90, kWidth = 120, kPrompts = 3;
  const std::vector<std::uint8_t> pixels = noise(kHeight, kWidth);
  ImagePredictor predictor(model, num_threads);
  predictor.set_image({pixels.data(), kHeight, kWidth, 3 * kWidth});
  const double coords[] = {30, 20, 60, 45, 100, 70};
  const std::int32_t labels[] = {1, 1, 1};
  const std::int64_t count = predictor.num_masks(true), side = model->info().mask_side;
  Tensor low_res({kPrompts, count, side, side}), iou({kPrompts, count});
  predictor.decode(
      {.batch = kPrompts, .num_points = 1, .point_coords = coords, .point_labels = labels},
      {.low_res = low_res, .iou = iou});
  return low_res;
}

bool same_bits(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() &&
         std::memcmp(a.data(), b.data(), static_cast<std::size_t>(a.numel()) * sizeof(float)) == 0;
}

bool check(const char* path) {
  const std::shared_ptr<const Model> model = Model::load(path, {});
  const Tensor expected = masks(model, 1);
  bool same = same_bits(expected, masks(model, 4));
  // Two predictors share the weights.
  Tensor results[2];
  {
    std::thread first([&] { results[0] = masks(model, 2); });
    std::thread second([&] { results[1] = masks(model, 2); });
    first.join();
    second.join();
  }
  for (const Tensor& result : results) same = same && same_bits(expected, result);
  std::printf("%s: %s\n", path, same ? "same" : "results depend on the threads");
  return same;
}

}  // namespace

int main(int argc, char** argv) {
  bool all = argc > 1;
  if (!all) std::printf("usage: thread_check CHECKPOINT...\n");
  try {
    for (int i = 1; i < argc; ++i) all = check(argv[i]) && all;
  } catch (const std::exception& error) {
    std::printf("%s\n", error.what());
    return 2;
  }
  return all ? 0 : 1;
}
