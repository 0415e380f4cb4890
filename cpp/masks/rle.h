#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sam_rlx {

// A binary mask as COCO's run-length code: lengths of runs in column-major order, alternately of
// zeros and ones, beginning with zeros (so the first may be 0).
struct Rle {
  std::int64_t height = 0, width = 0;
  std::vector<std::uint32_t> counts;
};

// Inclusive pixel indices, as upstream's batched_mask_to_box; all 0 for an empty mask.
struct PixelBox {
  std::int64_t x0 = 0, y0 = 0, x1 = 0, y1 = 0;
};

// The frame in which a mask that covers only a part of it is encoded: zeros surround the mask,
// whose first pixel is at (x0, y0).
struct MaskFrame {
  std::int64_t height = 0, width = 0;
  std::int64_t x0 = 0, y0 = 0;
};

// Collects the counts of runs that may be empty or equal to their neighbours.
class RunWriter {
 public:
  void add(bool value, std::int64_t length) {
    if (length == 0) return;
    if (value != value_) {
      counts_.push_back(static_cast<std::uint32_t>(length_));
      value_ = value;
      length_ = 0;
    }
    length_ += length;
  }
  std::vector<std::uint32_t> finish() {
    counts_.push_back(static_cast<std::uint32_t>(length_));
    return std::move(counts_);
  }

 private:
  std::vector<std::uint32_t> counts_;
  bool value_ = false;
  std::int64_t length_ = 0;
};

// Encodes a mask that arrives row by row. Keeps only one row and the positions where neighbouring
// rows differ.
class RleEncoder {
 public:
  // Starts a mask. Raises InvalidArgument when it has more pixels than a count can hold.
  void start(std::int64_t height, std::int64_t width);
  // The next row: bytes 0 or 1.
  void add_row(const std::uint8_t* row) {
    begin_row();
    set(0, row, width_);
  }
  // The same in parts: the next row is as the one above it, and the first one is zero, but for what
  // `set` gives of it, bytes 0 or 1.
  void begin_row() { ++next_row_; }
  void set(std::int64_t x, const std::uint8_t* bits, std::int64_t count);
  // After the last row. The frame has room for the mask.
  Rle finish(const MaskFrame& frame);
  Rle finish() { return finish({height_, width_, 0, 0}); }
  // Of the rows so far, in the mask's own pixels. Called before finish.
  PixelBox box() const;
  // Pixels so far that differ from the one above them; zeros are above the first row.
  std::size_t num_changes() const { return changes_.size(); }

 private:
  struct Change {
    std::int32_t x, y;
  };
  void sort_changes();

  std::int64_t height_ = 0, width_ = 0, next_row_ = 0;
  std::vector<std::uint8_t> last_row_;
  std::vector<Change> changes_, sorted_;
  std::vector<std::size_t> column_end_;
};

// Mask (height, width) of bytes 0 or 1, rows row_stride bytes apart.
Rle encode_rle(const std::uint8_t* mask, std::int64_t height, std::int64_t width,
               std::int64_t row_stride);
// Into a contiguous mask (height, width) of bytes 0 or 1.
void decode_rle(const Rle& rle, std::uint8_t* mask);
std::int64_t rle_area(const Rle& rle);
PixelBox rle_box(const Rle& rle);
// Of a contiguous mask (height, width) of bytes, without its code: what lies inside of the box is
// not looked at.
PixelBox mask_box(const std::uint8_t* mask, std::int64_t height, std::int64_t width);
// Raises InvalidArgument when the counts do not add up to height * width.
void check_rle(const Rle& rle);

// COCO's printable form of the counts, as pycocotools writes and reads it.
std::string compress_counts(const std::vector<std::uint32_t>& counts);
std::vector<std::uint32_t> decompress_counts(std::string_view text);

}  // namespace sam_rlx
