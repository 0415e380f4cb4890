#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "core/shape.h"

namespace sam_rlx {

// Memory for numbers: 64-byte aligned; large blocks come from the system with huge pages asked
// for and go back to it when freed. Contents are undefined. Raises std::bad_alloc.
struct FreeAligned {
  std::size_t bytes = 0;
  bool mapped = false;  // of a file: nothing is freed, its pages are released
  void operator()(void* pointer) const noexcept;
};
using AlignedBlock = std::unique_ptr<void, FreeAligned>;
AlignedBlock allocate_aligned(std::size_t bytes);

// Lets pages of a mapped file leave the resident set. They come back when they are read again.
void release_pages(const void* begin, std::size_t bytes) noexcept;

// How often allocate_aligned was called: tests hold steady state to zero.
std::int64_t allocation_count() noexcept;

// Pointer and shape of contiguous row-major floats that somebody else owns.
struct View {
  float* data = nullptr;
  Shape shape;

  std::int64_t numel() const { return shape.numel(); }
  // Entry `i` of the first axis.
  View operator[](std::int64_t i) const;
  // The same numbers in another shape.
  View reshape(const Shape& other) const;
};

struct ConstView {
  const float* data = nullptr;
  Shape shape;

  ConstView() = default;
  ConstView(const float* pointer, const Shape& sizes) : data(pointer), shape(sizes) {}
  ConstView(const View& view) : data(view.data), shape(view.shape) {}  // NOLINT(runtime/explicit)

  std::int64_t numel() const { return shape.numel(); }
  explicit operator bool() const { return data != nullptr; }
  ConstView operator[](std::int64_t i) const;
  ConstView reshape(const Shape& other) const;
};

// Owns floats. Movable, not copyable; clone() copies.
class Tensor {
 public:
  Tensor() = default;
  explicit Tensor(const Shape& shape);
  static Tensor zeros(const Shape& shape);
  static Tensor copy_of(ConstView source);
  // Numbers that are read where they lie in a mapped file, which stays mapped until they are freed
  // or somebody asks to write them, who gets a copy.
  static Tensor mapped(ConstView source);

  // Copies what lies in a mapped file.
  void own() {
    if (block_.get_deleter().mapped) *this = clone();
  }
  Tensor clone() const { return copy_of(*this); }
  bool empty() const { return block_ == nullptr; }
  float* data() {
    own();
    return static_cast<float*>(block_.get());
  }
  const float* data() const { return static_cast<const float*>(block_.get()); }
  const Shape& shape() const { return shape_; }
  std::int64_t numel() const { return shape_.numel(); }

  View view() { return {data(), shape_}; }
  ConstView view() const { return {data(), shape_}; }
  operator View() { return view(); }             // NOLINT(runtime/explicit)
  operator ConstView() const { return view(); }  // NOLINT(runtime/explicit)

 private:
  AlignedBlock block_;
  Shape shape_;
};

}  // namespace sam_rlx
