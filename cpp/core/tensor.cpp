#include "core/tensor.h"

#include <cstdlib>
#include <cstring>
#include <limits>
#include <new>

#include "core/asan.h"
#include "core/error.h"

#if !defined(_WIN32)
#include <sys/mman.h>
#include <unistd.h>
#endif

namespace sam_rlx {
namespace {

constexpr std::size_t kAlignment = 64;
std::atomic<std::int64_t> g_allocations{0};

#if defined(__linux__)
// From this size on, blocks are mapped: freed memory leaves the process at once, and huge pages
// spare thousands of page faults (docs/develop/optimizations.md: arena).
constexpr std::size_t kMapFrom = std::size_t{1} << 20;
#else
constexpr std::size_t kMapFrom = std::numeric_limits<std::size_t>::max();
#endif

std::size_t round_up_bytes(std::size_t bytes, std::size_t multiple) {
  if (bytes > std::numeric_limits<std::size_t>::max() - multiple) throw std::bad_alloc();
  return (bytes + multiple - 1) / multiple * multiple;
}

}  // namespace

void FreeAligned::operator()(void* pointer) const noexcept {
  if (mapped) return release_pages(pointer, bytes);
#if defined(__linux__)
  if (bytes >= kMapFrom) {
    SAM_RLX_UNPOISON(pointer, bytes);  // the next mapping may have this address
    munmap(pointer, bytes);
    return;
  }
#endif
  ::operator delete(pointer, std::align_val_t{kAlignment});
}

AlignedBlock allocate_aligned(std::size_t bytes) {
  g_allocations.fetch_add(1, std::memory_order_relaxed);
  bytes = round_up_bytes(bytes == 0 ? 1 : bytes, kAlignment);
#if defined(__linux__)
  if (bytes >= kMapFrom) {
    void* const pointer =
        mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pointer == MAP_FAILED) throw std::bad_alloc();
    madvise(pointer, bytes, MADV_HUGEPAGE);  // a wish: failure changes only the speed
    return AlignedBlock(pointer, FreeAligned{bytes});
  }
#endif
  return AlignedBlock(::operator new(bytes, std::align_val_t{kAlignment}), FreeAligned{bytes});
}

#if defined(_WIN32)
void release_pages(const void* /*begin*/, std::size_t /*bytes*/) noexcept {}  // nothing is mapped
#else
void release_pages(const void* begin, std::size_t bytes) noexcept {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  const std::size_t before = reinterpret_cast<std::uintptr_t>(begin) % page;
  // Pages that a neighbour shares may go too: they are clean and come back from the file.
  auto* const first = static_cast<std::byte*>(const_cast<void*>(begin)) - before;
  madvise(first, before + bytes, MADV_DONTNEED);
}
#endif

std::int64_t allocation_count() noexcept { return g_allocations.load(std::memory_order_relaxed); }

namespace {

Shape without_first(const Shape& shape) {
  Shape rest;
  for (int axis = 1; axis < shape.rank(); ++axis) rest.push_back(shape[axis]);
  return rest;
}

void check_same_size(const Shape& from, const Shape& to) {
  if (from.numel() != to.numel()) fail_internal("reshape of " + from.str() + " to " + to.str());
}

// Entry `i` of the first axis, of a View or ConstView.
template <class V>
V entry(const V& view, std::int64_t i) {
  SAM_RLX_DCHECK(view.shape.rank() > 0 && 0 <= i && i < view.shape[0]);
  const Shape rest = without_first(view.shape);
  const std::int64_t size = rest.numel();
  SAM_RLX_DCHECK(view.data != nullptr || size == 0);
  return {view.data + i * size, rest};
}

}  // namespace

View View::operator[](std::int64_t i) const { return entry(*this, i); }

View View::reshape(const Shape& other) const {
  check_same_size(shape, other);
  return {data, other};
}

ConstView ConstView::operator[](std::int64_t i) const { return entry(*this, i); }

ConstView ConstView::reshape(const Shape& other) const {
  check_same_size(shape, other);
  return {data, other};
}

Tensor::Tensor(const Shape& shape)
    : block_(allocate_aligned(static_cast<std::size_t>(
          checked_multiply(shape.numel(), static_cast<std::int64_t>(sizeof(float)))))),
      shape_(shape) {}

Tensor Tensor::mapped(ConstView source) {
  Tensor result;
  const auto bytes = static_cast<std::size_t>(source.numel()) * sizeof(float);
  result.block_ = AlignedBlock(const_cast<float*>(source.data), {.bytes = bytes, .mapped = true});
  result.shape_ = source.shape;
  return result;
}

Tensor Tensor::zeros(const Shape& shape) {
  Tensor result(shape);
  std::memset(result.data(), 0, static_cast<std::size_t>(shape.numel()) * sizeof(float));
  return result;
}

Tensor Tensor::copy_of(ConstView source) {
  Tensor result(source.shape);
  if (source.numel() > 0) {
    SAM_RLX_DCHECK(source.data != nullptr);
    std::memcpy(result.data(), source.data,
                static_cast<std::size_t>(source.numel()) * sizeof(float));
  }
  return result;
}

}  // namespace sam_rlx
