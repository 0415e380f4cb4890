#include "masks/geometry.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "core/error.h"
#include "core/parallel.h"
#include "masks/overlap.h"
#include "ops/resize.h"

namespace sam_rlx {
namespace {

// Rows of one work item. A constant, so that results do not depend on the number of threads.
constexpr std::int64_t kMaskRows = 96;  // docs/develop/optimizations.md: work-items

// Taps of both steps, for all masks of a call.
struct UpscalePlan {
  MaskGeometry sizes;
  bool two_steps = false;
  LinearTaps y_first, x_first, y_last, x_last;

  UpscalePlan(Workspace& workspace, const MaskGeometry& geometry)
      : sizes(geometry), two_steps(geometry.side > 0) {
    if (two_steps) {
      y_first = linear_taps(workspace, sizes.low_height, sizes.side, sizes.input_height);
      x_first = linear_taps(workspace, sizes.low_width, sizes.side, sizes.input_width);
    } else {
      sizes.input_height = sizes.low_height;
      sizes.input_width = sizes.low_width;
    }
    y_last = linear_taps(workspace, sizes.input_height, sizes.height, sizes.height);
    x_last = linear_taps(workspace, sizes.input_width, sizes.width, sizes.width);
  }
  std::int64_t scratch_floats() const { return 3 * sizes.input_width + 3 * sizes.width; }
};

// Two neighbouring rows, kept by the parity of their index.
struct RowPair {
  float* data = nullptr;
  std::int64_t width = 0;
  std::array<std::int32_t, 2> held{-1, -1};

  float* slot(std::int32_t y) const { return data + (y % 2) * width; }
  // Gives row y its slot. Whether another row was there: row y must be made.
  bool replaces(std::int32_t y) {
    return std::exchange(held[static_cast<std::size_t>(y % 2)], y) != y;
  }
};

// Rows of one upscaled mask. Fast when they are asked for in ascending order.
class UpscaledRows {
 public:
  UpscaledRows(const UpscalePlan& plan, const float* low_res, float* scratch)
      : plan_(plan), low_res_(low_res), input_row_(scratch) {
    const std::int64_t input_width = plan.sizes.input_width, width = plan.sizes.width;
    stretched_ = {scratch + input_width, input_width};
    finished_ = {scratch + 3 * input_width, width};
    row_ = scratch + 3 * input_width + 2 * width;
  }

  // A row of scratch memory that a caller may use as `out`.
  float* row_buffer() const { return row_; }

  void row(std::int64_t y, float* out) {
    const LinearTaps& taps = plan_.y_last;
    const float* const a = finished(taps.lower[y]);
    const float* const b = finished(taps.upper[y]);
    blend_rows(a, taps.lower_weight[y], b, taps.upper_weight[y], plan_.sizes.width, out);
  }

 private:
  // Row y of the low-resolution mask, widened to the square.
  const float* stretched(std::int32_t y) {
    float* const slot = stretched_.slot(y);
    if (stretched_.replaces(y)) {
      resample_row(low_res_ + y * plan_.sizes.low_width, plan_.x_first, slot);
    }
    return slot;
  }
  // Row y of the cropped square.
  const float* input_row(std::int32_t y) {
    if (!plan_.two_steps) return low_res_ + y * plan_.sizes.low_width;
    const LinearTaps& taps = plan_.y_first;
    const float* const a = stretched(taps.lower[y]);
    const float* const b = stretched(taps.upper[y]);
    blend_rows(a, taps.lower_weight[y], b, taps.upper_weight[y], plan_.sizes.input_width,
               input_row_);
    return input_row_;
  }
  // Row y of the cropped square, at the final width.
  const float* finished(std::int32_t y) {
    float* const slot = finished_.slot(y);
    if (finished_.replaces(y)) resample_row(input_row(y), plan_.x_last, slot);
    return slot;
  }

  const UpscalePlan& plan_;
  const float* low_res_;
  float* input_row_;
  RowPair stretched_, finished_;
  float* row_ = nullptr;
};

std::string hw(std::int64_t height, std::int64_t width) {
  return std::to_string(height) + " x " + std::to_string(width);
}

void check(const char* where, const MaskGeometry& s) {
  const bool sizes = s.low_height > 0 && s.low_width > 0 && s.height > 0 && s.width > 0;
  const bool square = s.side == 0 || (s.input_height > 0 && s.input_height <= s.side &&
                                      s.input_width > 0 && s.input_width <= s.side);
  if (!sizes || !square) {
    fail(where, "masks of at least one pixel and an input inside its square",
         "masks " + hw(s.low_height, s.low_width) + ", input " + hw(s.input_height, s.input_width) +
             " in " + std::to_string(s.side) + ", result " + hw(s.height, s.width));
  }
}

// One pointer a mask.
std::vector<const float*> split(const char* where, ConstView low_res, const MaskGeometry& s) {
  if (low_res.shape.rank() != 3 || low_res.shape[1] != s.low_height ||
      low_res.shape[2] != s.low_width) {
    fail(where,
         "masks (K, " + std::to_string(s.low_height) + ", " + std::to_string(s.low_width) + ")",
         low_res.shape.str());
  }
  std::vector<const float*> masks;
  for (std::int64_t k = 0; k < low_res.shape[0]; ++k) masks.push_back(low_res[k].data);
  return masks;
}

// Calls use(mask, begin, end, rows) for blocks of rows of every mask.
template <class Use>
void for_each_block(Context& ctx, const std::vector<const float*>& low_res,
                    const MaskGeometry& geometry, std::int64_t block_rows, const Use& use) {
  const Workspace::Scope scratch(ctx.workspace);
  const UpscalePlan plan(ctx.workspace, geometry);
  const std::int64_t floats = plan.scratch_floats();
  float* const memory = ctx.workspace.array<float>(floats * std::max(ctx.num_threads, 1));
  const std::int64_t blocks = (geometry.height + block_rows - 1) / block_rows;
  parallel_for({ctx.num_threads, static_cast<std::int64_t>(low_res.size()) * blocks, 1,
                2 * block_rows * geometry.width * kNumberWork},
               [&](std::int64_t item, std::int64_t /*end*/, int thread) {
                 const std::int64_t mask = item / blocks, begin = item % blocks * block_rows;
                 UpscaledRows rows(plan, low_res[static_cast<std::size_t>(mask)],
                                   memory + floats * thread);
                 use(mask, begin, std::min(begin + block_rows, geometry.height), rows);
               });
}

void threshold_row(const float* x, std::int64_t count, float threshold, std::uint8_t* out) {
  for (std::int64_t i = 0; i < count; ++i) out[i] = x[i] > threshold ? 1 : 0;
}

// Rows of the logits of several objects, one object after the other.
class ObjectRows {
 public:
  ObjectRows(const UpscalePlan& plan, const std::vector<ObjectMask>& masks, float given_logit,
             float* scratch)
      : masks_(masks), width_(plan.sizes.width), given_logit_(given_logit), rows_(scratch) {
    scratch += width_ * static_cast<std::int64_t>(masks.size());
    for (const ObjectMask& mask : masks) {
      upscaled_.emplace_back(plan, mask.low_res, scratch);
      scratch += plan.scratch_floats();
    }
  }

  // (K, width)
  float* row(std::int64_t y) {
    for (std::size_t k = 0; k < masks_.size(); ++k) {
      float* const out = rows_ + static_cast<std::int64_t>(k) * width_;
      if (masks_[k].low_res != nullptr) {
        upscaled_[k].row(y, out);
        continue;
      }
      const std::uint8_t* const given = masks_[k].given + y * width_;
      std::transform(given, given + width_, out,
                     [this](std::uint8_t bit) { return bit != 0 ? given_logit_ : -given_logit_; });
    }
    return rows_;
  }

 private:
  const std::vector<ObjectMask>& masks_;
  std::int64_t width_;
  float given_logit_;
  float* rows_;
  std::vector<UpscaledRows> upscaled_;
};

}  // namespace

void postprocess_masks(Context& ctx, ConstView low_res, const MaskGeometry& geometry, View out) {
  check("postprocess_masks", geometry);
  const std::vector<const float*> masks = split("postprocess_masks", low_res, geometry);
  const Shape expected{low_res.shape[0], geometry.height, geometry.width};
  if (out.shape != expected) fail("postprocess_masks", "result " + expected.str(), out.shape.str());
  for_each_block(ctx, masks, geometry, kMaskRows,
                 [&](std::int64_t mask, std::int64_t begin, std::int64_t end, UpscaledRows& rows) {
                   float* const target = out[mask].data;
                   for (std::int64_t y = begin; y < end; ++y)
                     rows.row(y, target + y * geometry.width);
                 });
}

void binarize_masks(Context& ctx, ConstView low_res, const MaskGeometry& geometry, float threshold,
                    std::uint8_t* out) {
  check("binarize_masks", geometry);
  const std::vector<const float*> masks = split("binarize_masks", low_res, geometry);
  const std::int64_t width = geometry.width;
  for_each_block(ctx, masks, geometry, kMaskRows,
                 [&](std::int64_t mask, std::int64_t begin, std::int64_t end, UpscaledRows& rows) {
                   float* const row = rows.row_buffer();
                   for (std::int64_t y = begin; y < end; ++y) {
                     rows.row(y, row);
                     threshold_row(row, width, threshold,
                                   out + (mask * geometry.height + y) * width);
                   }
                 });
}

void binarize_apart(Context& ctx, const std::vector<ObjectMask>& masks, float given_logit,
                    const MaskGeometry& geometry, float threshold, std::uint8_t* out) {
  check("binarize_apart", geometry);
  const Workspace::Scope scratch(ctx.workspace);
  const UpscalePlan plan(ctx.workspace, geometry);
  const auto count = static_cast<std::int64_t>(masks.size());
  const std::int64_t height = geometry.height, width = geometry.width;
  const std::int64_t floats = count * (plan.scratch_floats() + width);
  float* const memory = ctx.workspace.array<float>(floats * std::max(ctx.num_threads, 1));
  const std::int64_t blocks = (height + kMaskRows - 1) / kMaskRows;
  parallel_for({ctx.num_threads, blocks, 1, 4 * count * kMaskRows * width * kNumberWork},
               [&](std::int64_t block, std::int64_t /*end*/, int thread) {
                 ObjectRows rows(plan, masks, given_logit, memory + floats * thread);
                 const std::int64_t begin = block * kMaskRows;
                 for (std::int64_t y = begin; y < std::min(begin + kMaskRows, height); ++y) {
                   const View logits{rows.row(y), {count, 1, width}};
                   apply_non_overlapping_constraints_(logits);
                   for (std::int64_t k = 0; k < count; ++k) {
                     threshold_row(logits[k].data, width, threshold,
                                   out + (k * height + y) * width);
                   }
                 }
               });
}

void summarize_masks(Context& ctx, const std::vector<const float*>& low_res,
                     const MaskGeometry& geometry, const SummaryArgs& args, MaskSummary* out) {
  check("summarize_masks", geometry);
  const MaskFrame& frame = args.frame;
  if (frame.x0 < 0 || frame.y0 < 0 || frame.x0 + geometry.width > frame.width ||
      frame.y0 + geometry.height > frame.height) {
    fail_internal("summarize_masks: a mask outside its frame");
  }
  const std::int64_t width = geometry.width;
  for_each_block(ctx, low_res, geometry, geometry.height,
                 [&](std::int64_t mask, std::int64_t begin, std::int64_t end, UpscaledRows& rows) {
                   float* const row = rows.row_buffer();
                   std::vector<std::uint8_t> bits(static_cast<std::size_t>(width));
                   RleEncoder encoder;
                   encoder.start(geometry.height, width);
                   MaskSummary summary;
                   for (std::int64_t y = begin; y < end; ++y) {
                     rows.row(y, row);
                     summary.count_high += count_above(row, width, args.high);
                     summary.count_low += count_above(row, width, args.low);
                     threshold_row(row, width, args.threshold, bits.data());
                     encoder.add_row(bits.data());
                   }
                   summary.box = encoder.box();
                   summary.rle = encoder.finish(frame);
                   out[mask] = std::move(summary);
                 });
}

float stability_score(std::int64_t count_high, std::int64_t count_low) {
  return static_cast<float>(count_high) / static_cast<float>(count_low);
}

float stability_score(const float* logits, std::int64_t count, double threshold, double offset) {
  return stability_score(count_above(logits, count, static_cast<float>(threshold + offset)),
                         count_above(logits, count, static_cast<float>(threshold - offset)));
}

std::int64_t count_above(const float* x, std::int64_t count, float threshold) {
  std::int64_t total = 0;
  constexpr std::int64_t kBlock = 1 << 16;
  for (std::int64_t begin = 0; begin < count; begin += kBlock) {
    const std::int64_t end = std::min(begin + kBlock, count);
    std::int32_t block = 0;
    for (std::int64_t i = begin; i < end; ++i) block += x[i] > threshold ? 1 : 0;
    total += block;
  }
  return total;
}

}  // namespace sam_rlx
