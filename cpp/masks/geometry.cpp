#include "masks/geometry.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
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

// Pixels of a row that are compared with the thresholds together.
constexpr std::int64_t kPartPixels = 64;

// On which side of all thresholds of a call numbers lie.
enum class Side : std::uint8_t { kBelow, kAbove, kMixed };

// What lies so far from the thresholds low <= high that means of such numbers do too, however they
// are rounded.
class Bounds {
 public:
  Bounds(float low, float high) : below_(low - margin(low)), above_(high + margin(high)) {}

  // NaN is on no side; infinity times a weight of 0 is NaN, which is above nothing.
  Side side_of(const float* x, std::int64_t count) const {
    if ((x[0] <= below_) != (x[count - 1] <= below_)) return Side::kMixed;
    std::int32_t below = 0, above = 0;
    for (std::int64_t i = 0; i < count; ++i) {
      below += x[i] <= below_ ? 1 : 0;
      above += (x[i] >= above_) & (x[i] <= std::numeric_limits<float>::max()) ? 1 : 0;
    }
    return below == count ? Side::kBelow : above == count ? Side::kAbove : Side::kMixed;
  }

 private:
  // The roundings of two means are below 2^-21 of the threshold; products may underflow.
  static float margin(float threshold) {
    return 0x1p-20F * std::abs(threshold) + 4.0F * std::numeric_limits<float>::min();
  }
  float below_, above_;
};

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
  std::int64_t parts() const { return (sizes.width + kPartPixels - 1) / kPartPixels; }
};

// Two neighbouring rows, kept by the parity of their index.
template <class T>
struct RowPair {
  T* data = nullptr;
  std::int64_t width = 0;
  std::array<std::int32_t, 2> held{-1, -1};

  T* slot(std::int32_t y) const { return data + (y % 2) * width; }
  // Gives row y its slot. Whether another row was there: row y must be made.
  bool replaces(std::int32_t y) {
    return std::exchange(held[static_cast<std::size_t>(y % 2)], y) != y;
  }
};

// Memory for the rows of one mask.
class RowScratch {
 public:
  RowScratch(Workspace& workspace, const UpscalePlan& plan, std::int64_t count)
      : num_floats_(4 * plan.sizes.input_width + 3 * plan.sizes.width),
        num_parts_(2 * plan.parts()),
        floats_(workspace.array<float>(count * num_floats_)),
        sides_(workspace.array<Side>(count * num_parts_)),
        flags_(workspace.array<bool>(count * num_parts_)) {}
  float* floats(std::int64_t index) const { return floats_ + index * num_floats_; }
  // For the parts of two rows.
  Side* sides(std::int64_t index) const { return sides_ + index * num_parts_; }
  bool* flags(std::int64_t index) const { return flags_ + index * num_parts_; }

 private:
  std::int64_t num_floats_, num_parts_;
  float* floats_;
  Side* sides_;
  bool* flags_;
};

// Rows of one mask before the last step.
class InputRows {
 public:
  // scratch: 4 * input_width
  InputRows(const UpscalePlan& plan, const float* low_res, float* scratch)
      : plan_(plan),
        low_res_(low_res),
        stretched_{scratch, plan.sizes.input_width},
        rows_{scratch + 2 * plan.sizes.input_width, plan.sizes.input_width} {}

  // Row y of the cropped square, or of the low-resolution mask with one step. The last rows of both
  // parities stay.
  const float* row(std::int32_t y) {
    if (!plan_.two_steps) return low_res_ + y * plan_.sizes.low_width;
    float* const slot = rows_.slot(y);
    if (rows_.replaces(y)) {
      const LinearTaps& taps = plan_.y_first;
      const float* const a = stretched(taps.lower[y]);
      const float* const b = stretched(taps.upper[y]);
      blend_rows(a, taps.lower_weight[y], b, taps.upper_weight[y], plan_.sizes.input_width, slot);
    }
    return slot;
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

  const UpscalePlan& plan_;
  const float* low_res_;
  RowPair<float> stretched_, rows_;
};

// Rows of one upscaled mask. Fast when they are asked for in ascending order.
class UpscaledRows {
 public:
  UpscaledRows(const UpscalePlan& plan, const float* low_res, const RowScratch& scratch,
               std::int64_t index)
      : plan_(plan),
        input_(plan, low_res, scratch.floats(index)),
        finished_{scratch.floats(index) + 4 * plan.sizes.input_width, plan.sizes.width} {}

  void row(std::int64_t y, float* out) {
    const LinearTaps& taps = plan_.y_last;
    const float* const a = finished(taps.lower[y]);
    const float* const b = finished(taps.upper[y]);
    blend_rows(a, taps.lower_weight[y], b, taps.upper_weight[y], plan_.sizes.width, out);
  }

 private:
  // Row y of the cropped square, at the final width.
  const float* finished(std::int32_t y) {
    float* const slot = finished_.slot(y);
    if (finished_.replaces(y)) resample_row(input_.row(y), plan_.x_last, slot);
    return slot;
  }

  const UpscalePlan& plan_;
  InputRows input_;
  RowPair<float> finished_;
};

// Rows of one upscaled mask that are compared with thresholds. Logits are computed only where those
// that they are the means of lie on different sides: along the borders of the mask. Fast when rows
// are asked for in ascending order.
class ComparedRows {
 public:
  ComparedRows(const UpscalePlan& plan, const float* low_res, const RowScratch& scratch,
               std::int64_t index, const Bounds& bounds)
      : plan_(plan),
        bounds_(bounds),
        input_(plan, low_res, scratch.floats(index)),
        finished_(scratch.floats(index) + 4 * plan.sizes.input_width),
        row_(finished_ + 2 * plan.sizes.width),
        sides_{scratch.sides(index), plan.parts()},
        is_finished_(scratch.flags(index)) {}

  // Row y in parts, from left to right: decided(begin, count, is_above) where all logits are on one
  // side, and logits(begin, count, row) elsewhere.
  template <class Decided, class Logits>
  void parts(std::int64_t y, const Decided& decided, const Logits& logits) {
    const LinearTaps& taps = plan_.y_last;
    const std::int32_t lower = taps.lower[y], upper = taps.upper[y];
    const Side* const a = sides(lower);
    const Side* const b = sides(upper);
    const auto side = [&](std::int64_t part) {
      return a[part] == b[part] ? a[part] : Side::kMixed;
    };
    for (std::int64_t part = 0; part < plan_.parts();) {
      const std::int64_t first = part;
      const Side found = side(first);
      do ++part;
      while (part < plan_.parts() && side(part) == found);
      const std::int64_t begin = first * kPartPixels, count = end_of(part - 1) - begin;
      if (found != Side::kMixed) {
        decided(begin, count, found == Side::kAbove);
        continue;
      }
      blend_rows(finished(lower, first, part) + begin, taps.lower_weight[y],
                 finished(upper, first, part) + begin, taps.upper_weight[y], count, row_);
      logits(begin, count, row_);
    }
  }

 private:
  std::int64_t end_of(std::int64_t part) const {
    return std::min((part + 1) * kPartPixels, plan_.sizes.width);
  }
  // The sides of the parts of row y of the cropped square.
  const Side* sides(std::int32_t y) {
    Side* const slot = sides_.slot(y);
    if (sides_.replaces(y)) {
      const LinearTaps& taps = plan_.x_last;
      const float* const row = input_.row(y);
      for (std::int64_t part = 0; part < plan_.parts(); ++part) {
        const std::int32_t begin = taps.lower[part * kPartPixels];
        const std::int32_t last = taps.upper[end_of(part) - 1];
        slot[part] = bounds_.side_of(row + begin, last + 1 - begin);
      }
      std::fill_n(is_finished_ + (y % 2) * plan_.parts(), plan_.parts(), false);
    }
    return slot;
  }
  // Row y of the cropped square at the final width, of which these parts are made.
  const float* finished(std::int32_t y, std::int64_t first, std::int64_t end) {
    float* const row = finished_ + (y % 2) * plan_.sizes.width;
    bool* const is_finished = is_finished_ + (y % 2) * plan_.parts();
    for (std::int64_t part = first; part < end; ++part) {
      if (is_finished[part]) continue;
      const std::int64_t begin = part * kPartPixels;
      while (part < end && !is_finished[part]) is_finished[part++] = true;
      resample_row(input_.row(y), plan_.x_last.part(begin, end_of(part - 1)), row + begin);
    }
    return row;
  }

  const UpscalePlan& plan_;
  const Bounds& bounds_;
  InputRows input_;
  float* finished_;
  float* row_;
  RowPair<Side> sides_;
  bool* is_finished_;
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

// Calls use(mask, begin, end, rows) for blocks of rows of every mask; `options` are what Rows takes
// beside the mask and its memory.
template <class Rows, class Use, class... Options>
void for_each_block(Context& ctx, const std::vector<const float*>& low_res,
                    const MaskGeometry& geometry, std::int64_t block_rows, const Use& use,
                    const Options&... options) {
  const Workspace::Scope scope(ctx.workspace);
  const UpscalePlan plan(ctx.workspace, geometry);
  const RowScratch scratch(ctx.workspace, plan, std::max(ctx.num_threads, 1));
  const std::int64_t blocks = (geometry.height + block_rows - 1) / block_rows;
  parallel_for({ctx.num_threads, static_cast<std::int64_t>(low_res.size()) * blocks, 1,
                2 * block_rows * geometry.width * kNumberWork},
               [&](std::int64_t item, std::int64_t /*end*/, int thread) {
                 const std::int64_t mask = item / blocks, begin = item % blocks * block_rows;
                 Rows rows(plan, low_res[static_cast<std::size_t>(mask)], scratch, thread,
                           options...);
                 use(mask, begin, std::min(begin + block_rows, geometry.height), rows);
               });
}

void threshold_row(const float* x, std::int64_t count, float threshold, std::uint8_t* out) {
  for (std::int64_t i = 0; i < count; ++i) out[i] = x[i] > threshold ? 1 : 0;
}

// Rows of the logits of several objects, one object after the other.
class ObjectRows {
 public:
  // rows: (K, width); scratch: of one mask, from `first` on, for each
  ObjectRows(const UpscalePlan& plan, const std::vector<ObjectMask>& masks, float given_logit,
             float* rows, const RowScratch& scratch, std::int64_t first)
      : masks_(masks), width_(plan.sizes.width), given_logit_(given_logit), rows_(rows) {
    for (const ObjectMask& mask : masks) {
      upscaled_.emplace_back(plan, mask.low_res, scratch, first++);
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
  for_each_block<UpscaledRows>(
      ctx, masks, geometry, kMaskRows,
      [&](std::int64_t mask, std::int64_t begin, std::int64_t end, UpscaledRows& rows) {
        float* const target = out[mask].data;
        for (std::int64_t y = begin; y < end; ++y) rows.row(y, target + y * geometry.width);
      });
}

void binarize_masks(Context& ctx, ConstView low_res, const MaskGeometry& geometry, float threshold,
                    std::uint8_t* out) {
  check("binarize_masks", geometry);
  const std::vector<const float*> masks = split("binarize_masks", low_res, geometry);
  const std::int64_t width = geometry.width;
  for_each_block<ComparedRows>(
      ctx, masks, geometry, kMaskRows,
      [&](std::int64_t mask, std::int64_t begin, std::int64_t end, ComparedRows& rows) {
        for (std::int64_t y = begin; y < end; ++y) {
          std::uint8_t* const row = out + (mask * geometry.height + y) * width;
          rows.parts(
              y,
              [&](std::int64_t x, std::int64_t count, bool is_above) {
                std::fill_n(row + x, count, std::uint8_t{is_above});
              },
              [&](std::int64_t x, std::int64_t count, const float* logits) {
                threshold_row(logits, count, threshold, row + x);
              });
        }
      },
      Bounds(threshold, threshold));
}

void binarize_apart(Context& ctx, const std::vector<ObjectMask>& masks, float given_logit,
                    const MaskGeometry& geometry, float threshold, std::uint8_t* out) {
  check("binarize_apart", geometry);
  const Workspace::Scope scope(ctx.workspace);
  const UpscalePlan plan(ctx.workspace, geometry);
  const auto count = static_cast<std::int64_t>(masks.size());
  const std::int64_t height = geometry.height, width = geometry.width;
  const std::int64_t threads = std::max(ctx.num_threads, 1);
  float* const memory = ctx.workspace.array<float>(threads * count * width);
  const RowScratch scratch(ctx.workspace, plan, threads * count);
  const std::int64_t blocks = (height + kMaskRows - 1) / kMaskRows;
  parallel_for({ctx.num_threads, blocks, 1, 4 * count * kMaskRows * width * kNumberWork},
               [&](std::int64_t block, std::int64_t /*end*/, int thread) {
                 ObjectRows rows(plan, masks, given_logit, memory + thread * count * width, scratch,
                                 thread * count);
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
  const auto [low, high] = std::minmax({args.low, args.threshold, args.high});
  for_each_block<ComparedRows>(
      ctx, low_res, geometry, geometry.height,
      [&](std::int64_t mask, std::int64_t begin, std::int64_t end, ComparedRows& rows) {
        std::vector<std::uint8_t> bits(static_cast<std::size_t>(width));
        std::vector<Side> above(bits.size() / kPartPixels + 1, Side::kMixed);  // of the row before
        RleEncoder encoder;
        encoder.start(geometry.height, width);
        MaskSummary summary;
        for (std::int64_t y = begin; y < end; ++y) {
          encoder.begin_row();
          rows.parts(
              y,
              [&](std::int64_t x, std::int64_t count, bool is_above) {
                summary.count_high += is_above ? count : 0;
                summary.count_low += is_above ? count : 0;
                const Side side = is_above ? Side::kAbove : Side::kBelow;
                for (const std::int64_t x1 = x + count; x < x1; x += kPartPixels) {
                  Side& known = above[static_cast<std::size_t>(x / kPartPixels)];
                  if (std::exchange(known, side) == side) continue;
                  const std::int64_t part = std::min(kPartPixels, x1 - x);
                  std::fill_n(bits.data(), part, std::uint8_t{is_above});
                  encoder.set(x, bits.data(), part);
                }
              },
              [&](std::int64_t x, std::int64_t count, const float* logits) {
                summary.count_high += count_above(logits, count, args.high);
                summary.count_low += count_above(logits, count, args.low);
                threshold_row(logits, count, args.threshold, bits.data());
                encoder.set(x, bits.data(), count);
                std::fill_n(above.data() + x / kPartPixels, (count - 1) / kPartPixels + 1,
                            Side::kMixed);
              });
        }
        summary.box = encoder.box();
        summary.rle = encoder.finish(frame);
        out[mask] = std::move(summary);
      },
      Bounds(low, high));
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
