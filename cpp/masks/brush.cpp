#include "masks/brush.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/error.h"

namespace sam_rlx {
namespace {

constexpr int kLengthBits[] = {3, 4, 8, 16};
constexpr std::int64_t kLongest = std::int64_t{1} << 16;

// Bits of numbers, highest first.
class BitWriter {
 public:
  void write(std::uint32_t value, int bits) {
    pending_ = (pending_ << bits) | value;
    count_ += bits;
    while (count_ >= 8) {
      count_ -= 8;
      bytes_.push_back(static_cast<char>((pending_ >> count_) & 255U));
    }
  }

  // Ends with zeros; a whole byte of them where the last byte is full.
  std::string finish() {
    write(0, 8 - count_);
    return std::move(bytes_);
  }

 private:
  std::string bytes_;
  std::uint64_t pending_ = 0;
  int count_ = 0;  // bits of `pending_` that are not in `bytes_`
};

// The parts of a run that is too long for one all have the largest size.
void write_run(BitWriter& out, std::int64_t length, std::uint32_t value) {
  std::uint32_t size = 0;
  while (size < 3 && length > std::int64_t{1} << kLengthBits[size]) ++size;
  for (; length > 0; length -= kLongest) {
    const std::int64_t part = std::min(length, kLongest);
    out.write(1, 1);  // equal words follow
    out.write(size, 2);
    out.write(static_cast<std::uint32_t>(part - 1), kLengthBits[size]);
    out.write(value, 8);
  }
}

// Where the run that begins at `start` ends.
std::int64_t run_end(const std::uint8_t* mask, std::int64_t start, std::int64_t count) {
  const bool set = mask[start] != 0;
  const std::uint64_t same = set ? 0x0101010101010101U : 0U;
  std::int64_t end = start + 1;
  for (std::uint64_t eight; end + 8 <= count; end += 8) {
    std::memcpy(&eight, mask + end, sizeof eight);
    if (eight != same) break;
  }
  while (end < count && (mask[end] != 0) == set) ++end;
  return end;
}

}  // namespace

std::string encode_brush(const std::uint8_t* mask, std::int64_t height, std::int64_t width) {
  const std::int64_t count = height * width;
  if (count >= std::int64_t{1} << 30) {
    fail("mask", "less than 2^30 pixels", std::to_string(count));
  }
  BitWriter out;
  out.write(static_cast<std::uint32_t>(4 * count), 32);
  out.write(8 - 1, 5);
  for (const int bits : kLengthBits) out.write(static_cast<std::uint32_t>(bits - 1), 4);
  for (std::int64_t start = 0; start < count;) {
    const std::int64_t end = run_end(mask, start, count);
    write_run(out, 4 * (end - start), mask[start] != 0 ? 255 : 0);
    start = end;
  }
  return out.finish();
}

}  // namespace sam_rlx
