#include "loading/weight_hash.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <utility>

#include "core/cores.h"
#include "core/parallel.h"

namespace sam_rlx {
namespace {

// Odd numbers whose products spread the bits of a word.
constexpr std::uint64_t kFirst = 0x9E3779B185EBCA87, kSecond = 0xC2B2AE3D27D4EB4F;
constexpr std::size_t kLanes = 4;  // independent sums, so that their products overlap
constexpr std::size_t kWord = sizeof(std::uint64_t);
constexpr std::size_t kPiece = std::size_t{1} << 20;  // that one thread reads

std::uint64_t mixed(std::uint64_t sum, std::uint64_t word) {
  return std::rotl(sum + word * kSecond, 31) * kFirst;
}

std::uint64_t word_at(const char* bytes, std::size_t count) {
  std::uint64_t word = 0;
  std::memcpy(&word, bytes, count);
  return word;
}

std::uint64_t hash_bytes(const char* at, std::size_t bytes, std::uint64_t state) {
  state = mixed(state, bytes);
  std::array<std::uint64_t, kLanes> sums;
  for (std::size_t i = 0; i < kLanes; ++i) sums[i] = state + i;
  for (; bytes >= kLanes * kWord; bytes -= kLanes * kWord, at += kLanes * kWord) {
    for (std::size_t i = 0; i < kLanes; ++i)
      sums[i] = mixed(sums[i], word_at(at + i * kWord, kWord));
  }
  for (; bytes > 0;) {
    const std::size_t count = bytes < kWord ? bytes : kWord;
    sums[0] = mixed(sums[0], word_at(at, count));
    bytes -= count;
    at += count;
  }
  for (const std::uint64_t sum : sums) state = mixed(state, sum);
  return state;
}

}  // namespace

void WeightHasher::parameter(const std::string& path, Tensor& value, const Shape& shape) {
  add_name(path, shape);
  if (value.empty()) return;
  add_values(std::as_const(value).data(), sizeof(float) * static_cast<std::size_t>(value.numel()));
}

void WeightHasher::matrix_parameter(const std::string& path, Matrix matrix, const Shape& shape) {
  if (!matrix.blocks) return parameter(path, matrix.value, shape);
  add_name(path, shape);
  const BlockRows& blocks = matrix.blocks;
  names_ = mixed(names_, static_cast<std::uint64_t>(blocks.format));
  add_values(blocks.bytes.get(), static_cast<std::size_t>(blocks.rows * blocks.row_bytes()));
}

void WeightHasher::add_name(const std::string& path, const Shape& shape) {
  names_ = hash_bytes(path.data(), path.size(), names_);
  for (int i = 0; i < shape.rank(); ++i) {
    names_ = mixed(names_, static_cast<std::uint64_t>(shape[i]));
  }
}

void WeightHasher::add_values(const void* data, std::size_t bytes) {
  names_ = mixed(names_, bytes);
  const char* const values = static_cast<const char*>(data);
  for (std::size_t first = 0; first < bytes; first += kPiece) {
    pieces_.push_back({values + first, std::min(kPiece, bytes - first)});
  }
}

std::string WeightHasher::hex() const {
  const auto count = static_cast<std::int64_t>(pieces_.size());
  std::vector<std::uint64_t> numbers(pieces_.size());
  constexpr std::int64_t kWork = kPiece / sizeof(float) * kNumberWork;
  parallel_for({loading_threads(count * kWork), count, 1, kWork}, [&](std::int64_t begin,
                                                                      std::int64_t end, int) {
    for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i) {
      numbers[i] = hash_bytes(pieces_[i].data, pieces_[i].bytes, 0);
    }
  });
  std::uint64_t value = names_;
  for (const std::uint64_t number : numbers) value = mixed(value, number);
  value = (value ^ (value >> 33)) * kSecond;
  value ^= value >> 29;
  std::string digits(16, '0');
  for (auto digit = digits.rbegin(); digit != digits.rend(); ++digit, value >>= 4) {
    *digit = "0123456789abcdef"[value & 15];
  }
  return digits;
}

}  // namespace sam_rlx
