#include "core/shape.h"

#include <limits>

namespace sam_rlx {

std::int64_t checked_multiply(std::int64_t a, std::int64_t b) {
  if (a < 0 || b < 0 || (b != 0 && a > std::numeric_limits<std::int64_t>::max() / b)) {
    fail("size", "a product of sizes that fits 63 bits",
         std::to_string(a) + " * " + std::to_string(b));
  }
  return a * b;
}

Shape::Shape(std::initializer_list<std::int64_t> dims) {
  for (const std::int64_t size : dims) push_back(size);
}

void Shape::push_back(std::int64_t size) {
  if (rank_ == kMaxRank) fail("shape", "rank of at most 5", "rank " + std::to_string(rank_ + 1));
  dims_[static_cast<std::size_t>(rank_++)] = size;
}

std::int64_t Shape::numel() const {
  std::int64_t product = 1;
  for (int axis = 0; axis < rank_; ++axis) product = checked_multiply(product, (*this)[axis]);
  return product;
}

std::int64_t Shape::rows() const {
  std::int64_t product = 1;
  for (int axis = 0; axis + 1 < rank_; ++axis) product = checked_multiply(product, (*this)[axis]);
  return product;
}

Shape Shape::with_last(std::int64_t size) const {
  Shape result = *this;
  result[-1] = size;
  return result;
}

bool Shape::operator==(const Shape& other) const {
  if (rank_ != other.rank_) return false;
  for (int axis = 0; axis < rank_; ++axis) {
    if ((*this)[axis] != other[axis]) return false;
  }
  return true;
}

std::string Shape::str() const {
  std::string text = "(";
  for (int axis = 0; axis < rank_; ++axis) {
    if (axis > 0) text += ", ";
    text += std::to_string((*this)[axis]);
  }
  return text + (rank_ == 1 ? ",)" : ")");
}

}  // namespace sam_rlx
