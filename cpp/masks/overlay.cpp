#include "masks/overlay.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>

#include "core/error.h"

namespace sam_rlx {
namespace {

constexpr std::int64_t kTile = 32;  // rows and columns that are drawn together
constexpr int kMaxLine = 1024;
constexpr Rgb kEdge{20, 20, 20}, kRim{255, 255, 255};

// Rows or columns [begin, end).
struct Span {
  std::int64_t begin = 0, end = 0;
};

// The part of [low, high] that lies in [0, count), as whole pixels.
Span clipped(double low, double high, std::int64_t count) {
  const auto limit = static_cast<double>(count);
  return {static_cast<std::int64_t>(std::clamp(low, 0.0, limit)),
          static_cast<std::int64_t>(std::clamp(high, 0.0, limit))};
}

// Rows and columns of a mask.
struct Region {
  Span rows, columns;
};

// One mask: a filling, and an outline where both mask and background are nearby. The share of mask
// pixels around a pixel, a square's mean taken twice, is 1 deep inside, 0 far outside and about 1/2
// on the border.
class MaskPainter {
 public:
  MaskPainter(const PaintedMask& mask, std::int64_t height, std::int64_t width,
              const Overlay& overlay)
      : mask_(mask), height_(height), width_(width), opacity_(overlay.opacity) {
    radius_ = static_cast<std::int64_t>(std::ceil(overlay.line));
    if (rle_area(*mask.runs) > 0) {
      const PixelBox box = rle_box(*mask.runs);
      sides_ = widened({{box.y0, box.y1 + 1}, {box.x0, box.x1 + 1}}, radius_,
                       {{0, height_}, {0, width_}});
      find_columns();
    }
    for (std::size_t c = 0; c < 3; ++c) {
      light_[c] = mask.color[c] + (255.0F - mask.color[c]) * 0.35F;
    }
    for (std::size_t i = 0; i < pattern_.size(); ++i) pattern_[i] = mask.color[i % 3];
  }

  // What is within the radius of a pixel of the mask: all that is drawn on.
  const Region& sides() const { return sides_; }

  // Blends into rows [begin, end), which `band` (end - begin, width, 3) holds. `decoded` is
  // scratch.
  void paint(Span rows, float* band, std::vector<std::uint8_t>& decoded) {
    const std::int64_t first = rows.begin;
    rows = {std::max(rows.begin, sides_.rows.begin), std::min(rows.end, sides_.rows.end)};
    if (rows.begin >= rows.end) return;
    decode({rows, sides_.columns}, decoded);
    for (std::int64_t x = sides_.columns.begin; x < sides_.columns.end; x += kTile) {
      const Region tile{rows, {x, std::min(x + kTile, sides_.columns.end)}};
      float* const pixels = band + 3 * (width_ * (rows.begin - first) + x);
      switch (surroundings(tile)) {
        case Kind::kOutside:
          break;
        case Kind::kInside:
          fill(tile, pixels);
          break;
        case Kind::kMixed:
          find_shares(tile);
          paint_border(tile, pixels);
      }
    }
  }

 private:
  enum class Kind { kOutside, kInside, kMixed };

  // The run of each column that the next rows are in. Bands come from above to below, so that each
  // run is passed once.
  struct Column {
    std::size_t run = 0;
    std::int64_t end = 0;  // of the run, in pixels
  };

  void find_columns() {
    Column column{0, mask_.runs->counts[0]};
    for (std::int64_t x = sides_.columns.begin; x < sides_.columns.end; ++x) {
      column = passed(column, x * height_);
      columns_.push_back(column);
    }
  }

  // The run that holds pixel `position`, from `column` on.
  Column passed(Column column, std::int64_t position) const {
    while (column.end <= position) column.end += mask_.runs->counts[++column.run];
    return column;
  }

  // The pixels that count for a tile with these rows.
  void decode(const Region& tile, std::vector<std::uint8_t>& out) {
    const auto [rows, columns] = widened(tile, 2 * radius_, sides_);
    first_row_ = rows.begin;
    first_column_ = columns.begin;
    pitch_ = columns.end - columns.begin;
    out.assign(static_cast<std::size_t>(pitch_ * (rows.end - rows.begin)), 0);
    pixels_ = out.data();
    for (std::int64_t x = columns.begin; x < columns.end; ++x) {
      const std::int64_t top = x * height_, stop = top + rows.end;
      Column& column = columns_[static_cast<std::size_t>(x - sides_.columns.begin)];
      column = passed(column, top + rows.begin);
      Column run = column;
      for (std::int64_t at = top + rows.begin; at < stop; at = run.end) {
        run = passed(run, at);
        for (std::int64_t i = at; run.run % 2 != 0 && i < std::min(run.end, stop); ++i) {
          out[static_cast<std::size_t>((i - top - first_row_) * pitch_ + x - first_column_)] = 1;
        }
      }
    }
  }

  // A pixel of sides_, and those behind it in its row.
  const std::uint8_t* at(std::int64_t y, std::int64_t x) const {
    return pixels_ + (y - first_row_) * pitch_ + (x - first_column_);
  }

  static Region widened(const Region& region, std::int64_t by, const Region& limit) {
    return {{std::max(limit.rows.begin, region.rows.begin - by),
             std::min(limit.rows.end, region.rows.end + by)},
            {std::max(limit.columns.begin, region.columns.begin - by),
             std::min(limit.columns.end, region.columns.end + by)}};
  }

  // Whether all pixels that count for a tile are of one kind.
  Kind surroundings(const Region& tile) const {
    const auto [rows, columns] = widened(tile, 2 * radius_, sides_);
    const std::int64_t count = columns.end - columns.begin;
    bool any = false, all = true;
    for (std::int64_t y = rows.begin; y < rows.end; ++y) {
      const std::uint8_t* const pixels = at(y, columns.begin);
      std::int64_t set = 0;
      for (std::int64_t i = 0; i < count; ++i) set += pixels[i] != 0 ? 1 : 0;
      any = any || set > 0;
      all = all && set == count;
      if (any && !all) return Kind::kMixed;
    }
    return any ? Kind::kInside : Kind::kOutside;
  }

  void fill(const Region& tile, float* pixels) const {
    const std::int64_t count = 3 * (tile.columns.end - tile.columns.begin);
    for (std::int64_t y = tile.rows.begin; y < tile.rows.end; ++y, pixels += 3 * width_) {
      for (std::int64_t i = 0; i < count; ++i) {
        pixels[i] += opacity_ * (pattern_[static_cast<std::size_t>(i)] - pixels[i]);
      }
    }
  }

  // shares_ of a tile. Edges of `sides_` are repeated outwards, at each of the two steps.
  void find_shares(const Region& tile) {
    const Region around = widened(tile, radius_, sides_);
    pad(around, [&](std::int64_t y, std::int64_t x) { return *this->at(y, x) != 0 ? 1.0F : 0.0F; });
    average(around, once_);
    const std::int64_t pitch = around.columns.end - around.columns.begin;
    pad(tile, [&](std::int64_t y, std::int64_t x) {
      const std::int64_t row = y - around.rows.begin;
      return once_[static_cast<std::size_t>(row * pitch + x - around.columns.begin)];
    });
    average(tile, shares_);
  }

  // padded_: the values in a region and a radius around it.
  template <class At>
  void pad(const Region& region, const At& at) {
    const auto [rows, columns] = region;
    const auto [top, bottom] = sides_.rows;
    const auto [left, right] = sides_.columns;
    const Span wide{columns.begin - radius_, columns.end + radius_};
    const Span inside{std::max(wide.begin, left), std::min(wide.end, right)};
    padded_.resize(
        static_cast<std::size_t>((rows.end - rows.begin + 2 * radius_) * (wide.end - wide.begin)));
    float* out = padded_.data();
    for (std::int64_t y = rows.begin - radius_; y < rows.end + radius_; ++y) {
      const std::int64_t row = std::clamp(y, top, bottom - 1);
      out = std::fill_n(out, inside.begin - wide.begin, at(row, inside.begin));
      for (std::int64_t x = inside.begin; x < inside.end; ++x) *out++ = at(row, x);
      out = std::fill_n(out, wide.end - inside.end, at(row, inside.end - 1));
    }
  }

  // Means over squares of padded_: over columns, then over rows, each rounded to float32. Sums of
  // such numbers are exact in double, so their order does not matter.
  void average(const Region& region, std::vector<float>& out) {
    const std::int64_t size = 2 * radius_ + 1;
    const std::int64_t height = region.rows.end - region.rows.begin;
    const std::int64_t width = region.columns.end - region.columns.begin;
    const std::int64_t pitch = width + size - 1;
    const double part = 1.0 / static_cast<double>(size);
    out.resize(static_cast<std::size_t>(height * width));
    means_.resize(static_cast<std::size_t>(pitch));
    sums_.assign(static_cast<std::size_t>(pitch), 0.0);
    double* const sums = sums_.data();
    float* const means = means_.data();
    const auto add = [&](std::int64_t y) {
      const float* const row = padded_.data() + y * pitch;
      for (std::int64_t x = 0; x < pitch; ++x) sums[x] += static_cast<double>(row[x]);
    };
    for (std::int64_t y = 0; y < size - 1; ++y) add(y);
    for (std::int64_t y = 0; y < height; ++y) {
      add(y + size - 1);
      const float* const oldest = padded_.data() + y * pitch;
      for (std::int64_t x = 0; x < pitch; ++x) {
        means[x] = static_cast<float>(sums[x] * part);
        sums[x] -= static_cast<double>(oldest[x]);
      }
      double sum = 0.0;
      for (std::int64_t x = 0; x < size; ++x) sum += static_cast<double>(means[x]);
      float* const line = out.data() + y * width;
      line[0] = static_cast<float>(sum * part);
      for (std::int64_t x = 1; x < width; ++x) {
        sum += static_cast<double>(means[x + size - 1]) - static_cast<double>(means[x - 1]);
        line[x] = static_cast<float>(sum * part);
      }
    }
  }

  void paint_border(const Region& tile, float* pixels) const {
    const std::int64_t count = tile.columns.end - tile.columns.begin;
    const float* share = shares_.data();
    for (std::int64_t y = tile.rows.begin; y < tile.rows.end; ++y, pixels += 3 * width_) {
      const std::uint8_t* const inside = at(y, tile.columns.begin);
      for (std::int64_t x = 0; x < count; ++x, ++share) {
        const float border = std::clamp(2.0F - 4.0F * std::abs(*share - 0.5F), 0.0F, 1.0F);
        const float filling = inside[x] != 0 ? opacity_ : 0.0F;
        const float alpha = filling + (1.0F - filling) * border;
        if (alpha == 0.0F) continue;
        for (std::size_t c = 0; c < 3; ++c) {
          const float paint = border * light_[c] + (1.0F - border) * mask_.color[c];
          float& value = pixels[3 * x + static_cast<std::int64_t>(c)];
          value += alpha * (paint - value);
        }
      }
    }
  }

  PaintedMask mask_;
  std::int64_t height_, width_, radius_ = 0;
  std::vector<Column> columns_;  // of sides_
  // What is decoded, where it begins in the image, and how far its rows are apart.
  const std::uint8_t* pixels_ = nullptr;
  std::int64_t first_row_ = 0, first_column_ = 0, pitch_ = 0;
  float opacity_;
  Region sides_;
  Rgb light_{};                             // of the outline
  std::array<float, 3 * kTile> pattern_{};  // the colour of a row of the filling
  std::vector<float> padded_, means_, once_, shares_;
  std::vector<double> sums_;
};

void blend(float* pixel, double alpha, const Rgb& color) {
  for (std::size_t c = 0; c < 3; ++c) {
    const auto step = static_cast<double>(color[c] - pixel[c]);
    pixel[c] = static_cast<float>(static_cast<double>(pixel[c]) + alpha * step);
  }
}

// What a mark is drawn on.
Region reach_of(const PaintedBox& box, double line, std::int64_t height, std::int64_t width) {
  const double far = line / 2 + 3.0;
  const auto [left, right] = std::minmax(box.x0, box.x1);
  const auto [top, bottom] = std::minmax(box.y0, box.y1);
  return {clipped(top - far, bottom + far, height), clipped(left - far, right + far, width)};
}

// The outline by the distance of each pixel's centre from it.
void paint_box(const PaintedBox& box, double line, std::int64_t y, Span columns, float* row) {
  const double down =
      std::abs(static_cast<double>(y) + 0.5 - (box.y0 + box.y1) / 2) - (box.y1 - box.y0) / 2;
  for (std::int64_t x = columns.begin; x < columns.end; ++x) {
    const double across =
        std::abs(static_cast<double>(x) + 0.5 - (box.x0 + box.x1) / 2) - (box.x1 - box.x0) / 2;
    const double distance = std::abs(std::max(across, down));
    const double dark = std::clamp((line + 2.0) / 2 + 0.5 - distance, 0.0, 1.0);
    if (dark == 0.0) continue;
    blend(row + 3 * x, dark, kEdge);
    blend(row + 3 * x, std::clamp(line / 2 + 0.5 - distance, 0.0, 1.0), box.color);
  }
}

Region reach_of(const PaintedPoint& point, double line, std::int64_t height, std::int64_t width) {
  const double far = std::floor(3.2 * line) + 3.0;
  return {clipped(point.y - far, point.y + far + 1.0, height),
          clipped(point.x - far, point.x + far + 1.0, width)};
}

// A disc with a white rim and a thin dark edge.
void paint_point(const PaintedPoint& point, double line, std::int64_t y, Span columns, float* row) {
  const double radius = 3.2 * line;
  for (std::int64_t x = columns.begin; x < columns.end; ++x) {
    const double distance =
        std::hypot(static_cast<double>(x) + 0.5 - point.x, static_cast<double>(y) + 0.5 - point.y);
    const auto disc = [&](double size, const Rgb& color) {
      blend(row + 3 * x, std::clamp(size + 0.5 - distance, 0.0, 1.0), color);
    };
    disc(radius + 1.0, kEdge);
    disc(radius, kRim);
    disc(radius * 0.72, point.color);
  }
}

bool holds(Span span, std::int64_t i) { return span.begin <= i && i < span.end; }

void round_row(const float* row, std::int64_t count, std::uint8_t* out) {
  // Adding and taking away 1.5 * 2^23 rounds to the nearest whole number, halves to even.
  constexpr float kShift = 12582912.0F;
  for (std::int64_t i = 0; i < count; ++i) {
    const float shifted = row[i] + kShift;
    std::int32_t bits;
    std::memcpy(&bits, &shifted, sizeof bits);
    out[i] = static_cast<std::uint8_t>(bits & 255);
  }
}

}  // namespace

void draw_overlay(const ImageView& image, const Overlay& overlay, std::uint8_t* out) {
  if (!(overlay.line >= 1.0 && overlay.line <= kMaxLine)) {
    fail("line", "1 to " + std::to_string(kMaxLine), std::to_string(overlay.line));
  }
  const std::int64_t height = image.height, width = image.width;
  std::vector<MaskPainter> painters;
  painters.reserve(overlay.masks.size());
  for (const PaintedMask& mask : overlay.masks) painters.emplace_back(mask, height, width, overlay);
  std::vector<Region> boxes, points;
  for (const PaintedBox& box : overlay.boxes) {
    boxes.push_back(reach_of(box, overlay.line, height, width));
  }
  for (const PaintedPoint& point : overlay.points) {
    points.push_back(reach_of(point, overlay.line, height, width));
  }
  std::vector<float> band(static_cast<std::size_t>(3 * kTile * width));
  std::vector<std::uint8_t> decoded;
  for (std::int64_t y = 0; y < height; y += kTile) {
    const Span rows{y, std::min(y + kTile, height)};
    // Other columns stay as they are.
    Span used{width, 0};
    const auto use = [&](const Region& region) {
      if (region.rows.begin >= rows.end || region.rows.end <= rows.begin) return;
      if (region.columns.begin >= region.columns.end) return;
      used = {std::min(used.begin, region.columns.begin), std::max(used.end, region.columns.end)};
    };
    for (const MaskPainter& painter : painters) use(painter.sides());
    for (const Region& reach : boxes) use(reach);
    for (const Region& reach : points) use(reach);
    if (used.begin >= used.end) used = {0, 0};
    for (std::int64_t row = rows.begin; row < rows.end; ++row) {
      const std::uint8_t* const source = image.row(row);
      std::copy(source + 3 * used.begin, source + 3 * used.end,
                band.data() + 3 * (width * (row - y) + used.begin));
    }
    for (MaskPainter& painter : painters) painter.paint(rows, band.data(), decoded);
    for (std::int64_t row = rows.begin; row < rows.end; ++row) {
      float* const pixels = band.data() + 3 * width * (row - y);
      for (std::size_t i = 0; i < boxes.size(); ++i) {
        if (!holds(boxes[i].rows, row)) continue;
        paint_box(overlay.boxes[i], overlay.line, row, boxes[i].columns, pixels);
      }
      for (std::size_t i = 0; i < points.size(); ++i) {
        if (!holds(points[i].rows, row)) continue;
        paint_point(overlay.points[i], overlay.line, row, points[i].columns, pixels);
      }
      const std::uint8_t* const source = image.row(row);
      std::uint8_t* const target = out + 3 * width * row;
      std::copy_n(source, 3 * used.begin, target);
      round_row(pixels + 3 * used.begin, 3 * (used.end - used.begin), target + 3 * used.begin);
      std::copy(source + 3 * used.end, source + 3 * width, target + 3 * used.end);
    }
  }
}

}  // namespace sam_rlx
