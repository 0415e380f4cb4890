#include "masks/iou.h"

#include <algorithm>
#include <bit>

#include "core/error.h"
#include "core/parallel.h"

namespace sam_rlx {
namespace {

constexpr std::int64_t kWordBits = 64;

}  // namespace

BitMasks::BitMasks(Context& ctx, ConstView logits) : count_(logits.shape[0]) {
  const std::int64_t positions = logits.shape[1] * logits.shape[2];
  words_ = (positions + kWordBits - 1) / kWordBits;
  bits_.assign(static_cast<std::size_t>(count_ * words_), 0);
  areas_.assign(static_cast<std::size_t>(count_), 0);
  parallel_for({ctx.num_threads, count_, 1, positions * kNumberWork},
               [&](std::int64_t begin, std::int64_t end, int) {
                 for (std::int64_t k = begin; k < end; ++k) {
                   const float* const mask = logits.data + k * positions;
                   std::uint64_t* const words = bits_.data() + k * words_;
                   std::int64_t area = 0;
                   for (std::int64_t i = 0; i < positions; ++i) {
                     words[i / kWordBits] |= std::uint64_t{mask[i] > 0.0F} << (i % kWordBits);
                   }
                   for (std::int64_t w = 0; w < words_; ++w) area += std::popcount(words[w]);
                   areas_[static_cast<std::size_t>(k)] = area;
                 }
               });
}

std::vector<float> mask_iou(Context& ctx, const BitMasks& a, const BitMasks& b,
                            MaskOverlap overlap) {
  if (a.count() > 0 && b.count() > 0 && a.words() != b.words()) {
    fail("mask_iou", "masks of one size", "different ones");
  }
  const std::int64_t rows = a.count(), columns = b.count(), words = a.words();
  std::vector<float> ious(static_cast<std::size_t>(rows * columns));
  parallel_for({ctx.num_threads, rows, 1, columns * words * kNumberWork},
               [&](std::int64_t begin, std::int64_t end, int) {
                 for (std::int64_t i = begin; i < end; ++i) {
                   for (std::int64_t j = 0; j < columns; ++j) {
                     const std::uint64_t *const x = a.bits(i), *const y = b.bits(j);
                     std::int64_t shared = 0;
                     for (std::int64_t w = 0; w < words; ++w) shared += std::popcount(x[w] & y[w]);
                     const std::int64_t all = overlap == MaskOverlap::kOfUnion
                                                  ? a.area(i) + b.area(j) - shared
                                                  : std::min(a.area(i), b.area(j));
                     ious[static_cast<std::size_t>(i * columns + j)] =
                         static_cast<float>(shared) /
                         static_cast<float>(std::max<std::int64_t>(all, 1));
                   }
                 }
               });
  return ious;
}

}  // namespace sam_rlx
