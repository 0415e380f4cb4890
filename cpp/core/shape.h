#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <string>

#include "core/error.h"

namespace sam_rlx {

// Multiplies sizes and raises InvalidArgument when the product does not fit.
std::int64_t checked_multiply(std::int64_t a, std::int64_t b);

// Sizes of a dense row-major array of rank 0 to 5.
class Shape {
 public:
  static constexpr int kMaxRank = 5;

  Shape() = default;
  Shape(std::initializer_list<std::int64_t> dims);

  int rank() const { return rank_; }
  // Negative indices count from the end.
  std::int64_t operator[](int axis) const { return dims_[index(axis)]; }
  std::int64_t& operator[](int axis) { return dims_[index(axis)]; }

  std::int64_t numel() const;
  std::int64_t last() const { return (*this)[-1]; }
  // Product of all sizes but the last: the number of rows of a (rows, last) matrix.
  std::int64_t rows() const;
  Shape with_last(std::int64_t size) const;
  void push_back(std::int64_t size);

  bool operator==(const Shape& other) const;
  bool operator!=(const Shape& other) const { return !(*this == other); }
  // "(2, 3)"
  std::string str() const;

 private:
  std::size_t index(int axis) const {
    SAM_RLX_DCHECK(-rank_ <= axis && axis < rank_);
    return static_cast<std::size_t>(axis < 0 ? axis + rank_ : axis);
  }
  std::array<std::int64_t, kMaxRank> dims_{};
  int rank_ = 0;
};

}  // namespace sam_rlx
