#include "masks/rle.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>

#include "core/error.h"
#include "core/shape.h"

namespace sam_rlx {
namespace {

constexpr std::int64_t kMaxPixels = std::numeric_limits<std::uint32_t>::max();

void check_frame(std::int64_t height, std::int64_t width) {
  if (height < 0 || width < 0 || checked_multiply(height, width) > kMaxPixels) {
    fail("mask", "at most " + std::to_string(kMaxPixels) + " pixels",
         std::to_string(height) + " x " + std::to_string(width));
  }
}

// Bytes that are looked at together.
using Words = std::array<std::uint64_t, 4>;
constexpr std::int64_t kWords = sizeof(Words);

Words words_at(const std::uint8_t* bytes) {
  Words words;
  std::memcpy(words.data(), bytes, kWords);
  return words;
}

// The index of the first byte that is not 0; `count` if there is none.
std::int64_t first_one(const std::uint8_t* bytes, std::int64_t count) {
  std::int64_t i = 0;
  for (; i + kWords <= count; i += kWords) {
    const Words a = words_at(bytes + i);
    if ((a[0] | a[1] | a[2] | a[3]) != 0) break;
  }
  while (i < count && bytes[i] == 0) ++i;
  return i;
}

bool same_words(const std::uint8_t* x, const std::uint8_t* y) {
  const Words a = words_at(x), b = words_at(y);
  return ((a[0] ^ b[0]) | (a[1] ^ b[1]) | (a[2] ^ b[2]) | (a[3] ^ b[3])) == 0;
}

// Masks with more changes than a pixel in so many are encoded pixel by pixel.
constexpr std::int64_t kPixelsPerChange = 16;

// The runs of a mask of many: some columns at a time are copied one behind the other, so that runs
// are found in the order of memory.
std::vector<std::uint32_t> dense_counts(const std::uint8_t* mask, std::int64_t height,
                                        std::int64_t width, std::int64_t row_stride) {
  constexpr std::int64_t kColumns = 64;  // a cache line of a row
  std::vector<std::uint8_t> columns(static_cast<std::size_t>(kColumns * height));
  std::vector<std::uint32_t> ends(columns.size());
  std::vector<std::uint32_t> counts;
  std::uint32_t first = 0, last = 0;
  std::uint8_t previous = 0;
  for (std::int64_t x = 0; x < width; x += kColumns) {
    const std::int64_t count = std::min(kColumns, width - x);
    for (std::int64_t y = 0; y < height; ++y) {
      const std::uint8_t* const row = mask + y * row_stride + x;
      for (std::int64_t i = 0; i < count; ++i) {
        columns[static_cast<std::size_t>(i * height + y)] = row[i];
      }
    }
    // Without a branch: half of the pixels of a noisy mask begin a run.
    const auto pixels = static_cast<std::size_t>(count * height);
    std::size_t runs = 0;
    for (std::size_t i = 0; i < pixels; ++i) {
      ends[runs] = first + static_cast<std::uint32_t>(i);
      runs += columns[i] != previous ? 1 : 0;
      previous = columns[i];
    }
    for (std::size_t i = 0; i < runs; ++i) {
      counts.push_back(ends[i] - last);
      last = ends[i];
    }
    first += static_cast<std::uint32_t>(pixels);
  }
  counts.push_back(first - last);
  return counts;
}

}  // namespace

void RleEncoder::start(std::int64_t height, std::int64_t width) {
  check_frame(height, width);
  height_ = height;
  width_ = width;
  next_row_ = 0;
  changes_.clear();
  last_row_.assign(static_cast<std::size_t>(width), 0);
}

void RleEncoder::set(std::int64_t first, const std::uint8_t* bits, std::int64_t count) {
  const auto y = static_cast<std::int32_t>(next_row_ - 1);
  std::uint8_t* const before = last_row_.data() + first;
  for (std::int64_t x = 0; x < count; x += kWords) {
    const std::int64_t end = std::min(x + kWords, count);
    if (end - x == kWords && same_words(bits + x, before + x)) continue;
    for (std::int64_t i = x; i < end; ++i) {
      if (bits[i] == before[i]) continue;
      changes_.push_back({static_cast<std::int32_t>(first + i), y});
      before[i] = bits[i];
    }
  }
}

// By column. Rows ascend already, and counting keeps their order.
void RleEncoder::sort_changes() {
  column_end_.assign(static_cast<std::size_t>(width_) + 1, 0);
  for (const Change& change : changes_) ++column_end_[static_cast<std::size_t>(change.x) + 1];
  for (std::size_t x = 1; x < column_end_.size(); ++x) column_end_[x] += column_end_[x - 1];
  sorted_.resize(changes_.size());
  // Each entry begins as the start of its column and ends as its end.
  for (const Change& change : changes_) {
    sorted_[column_end_[static_cast<std::size_t>(change.x)]++] = change;
  }
}

Rle RleEncoder::finish(const MaskFrame& frame) {
  check_frame(frame.height, frame.width);
  sort_changes();
  RunWriter runs;
  if (height_ > 0) {
    runs.add(false, frame.x0 * frame.height);
    std::size_t next = 0;
    for (std::int64_t x = 0; x < width_; ++x) {
      runs.add(false, frame.y0);
      bool value = false;
      std::int64_t y = 0;
      for (; next < column_end_[static_cast<std::size_t>(x)]; ++next) {
        runs.add(value, sorted_[next].y - y);
        y = sorted_[next].y;
        value = !value;
      }
      runs.add(value, height_ - y);
      runs.add(false, frame.height - frame.y0 - height_);
    }
    runs.add(false, (frame.width - frame.x0 - width_) * frame.height);
  } else {
    runs.add(false, frame.height * frame.width);
  }
  return {frame.height, frame.width, runs.finish()};
}

PixelBox RleEncoder::box() const {
  if (next_row_ == 0) return {};
  const auto set = [](std::uint8_t value) { return value != 0; };
  PixelBox box{width_, height_, -1, -1};
  // A column holds a one if it changes anywhere.
  for (const Change& change : changes_) {
    box.x0 = std::min<std::int64_t>(box.x0, change.x);
    box.x1 = std::max<std::int64_t>(box.x1, change.x);
  }
  if (!changes_.empty()) {
    box.y0 = std::min<std::int64_t>(box.y0, changes_.front().y);
    box.y1 = changes_.back().y - 1;
  }
  if (std::any_of(last_row_.begin(), last_row_.end(), set)) box.y1 = next_row_ - 1;
  return box.x1 < box.x0 ? PixelBox{} : box;
}

Rle encode_rle(const std::uint8_t* mask, std::int64_t height, std::int64_t width,
               std::int64_t row_stride) {
  RleEncoder encoder;
  encoder.start(height, width);
  for (std::int64_t y = 0; y < height; ++y) {
    encoder.add_row(mask + y * row_stride);
    if (encoder.num_changes() > static_cast<std::size_t>(height * width / kPixelsPerChange)) {
      return {height, width, dense_counts(mask, height, width, row_stride)};
    }
  }
  return encoder.finish();
}

void check_rle(const Rle& rle) {
  check_frame(rle.height, rle.width);
  std::int64_t sum = 0;
  for (const std::uint32_t count : rle.counts) sum += count;
  if (sum != rle.height * rle.width) {
    fail("rle counts",
         "a sum of " + std::to_string(rle.height) + " * " + std::to_string(rle.width) + " pixels",
         std::to_string(sum));
  }
}

void decode_rle(const Rle& rle, std::uint8_t* mask) {
  std::memset(mask, 0, static_cast<std::size_t>(rle.height * rle.width));
  std::int64_t position = 0;
  bool value = false;
  for (const std::uint32_t count : rle.counts) {
    const std::int64_t end = position + count;
    while (value && position < end) {
      const std::int64_t x = position / rle.height, y = position % rle.height;
      const std::int64_t rows = std::min(rle.height - y, end - position);
      std::uint8_t* const column = mask + y * rle.width + x;
      for (std::int64_t i = 0; i < rows; ++i) column[i * rle.width] = 1;
      position += rows;
    }
    position = end;
    value = !value;
  }
}

std::int64_t rle_area(const Rle& rle) {
  std::int64_t area = 0;
  for (std::size_t i = 1; i < rle.counts.size(); i += 2) area += rle.counts[i];
  return area;
}

PixelBox rle_box(const Rle& rle) {
  PixelBox box{rle.width, rle.height, -1, -1};
  std::int64_t position = 0;
  for (std::size_t i = 0; i < rle.counts.size(); position += rle.counts[i++]) {
    if (i % 2 == 0 || rle.counts[i] == 0) continue;
    const std::int64_t last = position + rle.counts[i] - 1;
    const std::int64_t x0 = position / rle.height, x1 = last / rle.height;
    box.x0 = std::min(box.x0, x0);
    box.x1 = std::max(box.x1, x1);
    // A run that goes on into the next column touches its last and its first pixel.
    box.y0 = std::min(box.y0, x1 > x0 ? 0 : position % rle.height);
    box.y1 = std::max(box.y1, x1 > x0 ? rle.height - 1 : last % rle.height);
  }
  return box.x1 < 0 ? PixelBox{} : box;
}

PixelBox mask_box(const std::uint8_t* mask, std::int64_t height, std::int64_t width) {
  const auto first = [&](std::int64_t y, std::int64_t begin, std::int64_t end) {
    return begin + first_one(mask + y * width + begin, end - begin);
  };
  PixelBox box{width, 0, -1, -1};
  while (box.y0 < height && first(box.y0, 0, width) == width) ++box.y0;
  if (box.y0 == height) return {};
  box.y1 = height - 1;
  while (first(box.y1, 0, width) == width) --box.y1;
  for (std::int64_t y = box.y0; y <= box.y1; ++y) {
    box.x0 = first(y, 0, box.x0);
    for (std::int64_t x = first(y, box.x1 + 1, width); x < width; x = first(y, x + 1, width)) {
      box.x1 = x;
    }
  }
  return box;
}

// Each count, from the fourth on, as the difference from the count before the last; then groups of
// five bits, lowest first, as characters from '0' on, with 32 added where more groups follow.
std::string compress_counts(const std::vector<std::uint32_t>& counts) {
  std::string text;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    std::int64_t rest = counts[i];
    if (i > 2) rest -= counts[i - 2];
    for (bool more = true; more;) {
      const auto group = static_cast<int>(rest & 31);
      rest >>= 5;
      more = (group & 16) != 0 ? rest != -1 : rest != 0;
      text.push_back(static_cast<char>('0' + group + (more ? 32 : 0)));
    }
  }
  return text;
}

std::vector<std::uint32_t> decompress_counts(std::string_view text) {
  std::vector<std::uint32_t> counts;
  std::size_t i = 0;
  while (i < text.size()) {
    std::int64_t value = 0;
    bool more = true;
    for (int shift = 0; more; shift += 5) {
      const int group = i < text.size() ? text[i] - '0' : -1;
      if (group < 0 || group > 63 || shift > 35) {
        fail("compressed rle counts", "complete groups of characters '0' to 'o'",
             "something else at character " + std::to_string(i));
      }
      ++i;
      more = group > 31;
      value |= static_cast<std::int64_t>(group & 31) << shift;
      if (!more && (group & 16) != 0) value -= std::int64_t{1} << (shift + 5);
    }
    if (counts.size() > 2) value += counts[counts.size() - 2];
    if (value < 0 || value > kMaxPixels) {
      fail("compressed rle counts", "counts of 32 bits", std::to_string(value));
    }
    counts.push_back(static_cast<std::uint32_t>(value));
  }
  return counts;
}

}  // namespace sam_rlx
