#include "core/workspace.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <new>

#include "core/asan.h"

namespace sam_rlx {
namespace {

constexpr std::int64_t kAlign = 64;
constexpr std::int64_t kMinBlock = 64 * 1024;  // not tuned

std::int64_t block_bytes(const AlignedBlock& block) {
  return static_cast<std::int64_t>(block.get_deleter().bytes);
}

}  // namespace

void* Workspace::take(std::int64_t bytes) {
  if (bytes > std::numeric_limits<std::int64_t>::max() - kAlign) throw std::bad_alloc();
  bytes = (std::max<std::int64_t>(bytes, 1) + kAlign - 1) / kAlign * kAlign;
  if (blocks_.empty()) {
    const std::int64_t size = std::max({bytes, peak_, kMinBlock});
    blocks_.push_back(allocate_aligned(static_cast<std::size_t>(size)));
  }
  while (bytes > block_bytes(blocks_[top_.block]) - top_.used) {
    if (top_.block + 1 == blocks_.size()) {
      blocks_.push_back(allocate_aligned(static_cast<std::size_t>(std::max(bytes, kMinBlock))));
    }
    top_ = {top_.block + 1, 0, top_.before + top_.used};
  }
  auto* const result = static_cast<std::byte*>(blocks_[top_.block].get()) + top_.used;
  top_.used += bytes;
  peak_ = std::max(peak_, top_.before + top_.used);
  SAM_RLX_UNPOISON(result, static_cast<std::size_t>(bytes));
  return result;
}

void Workspace::close(const Position& begin) noexcept {
  --open_scopes_;
  top_ = begin;
  const bool empty = top_.before + top_.used == 0;
  if (open_scopes_ == 0 && empty && blocks_.size() > 1) blocks_.clear();  // next: one of `peak_`
  for (std::size_t i = top_.block; i < blocks_.size(); ++i) {
    [[maybe_unused]] const std::int64_t kept = i == top_.block ? top_.used : 0;
    SAM_RLX_POISON(static_cast<std::byte*>(blocks_[i].get()) + kept,
                   static_cast<std::size_t>(block_bytes(blocks_[i]) - kept));
  }
}

void Workspace::reserve_threads(int count) {
  while (static_cast<int>(threads_.size()) < count) {
    threads_.push_back(std::make_unique<Workspace>());
  }
}

std::int64_t Workspace::capacity_bytes() const {
  std::int64_t total = 0;
  for (const AlignedBlock& block : blocks_) total += block_bytes(block);
  for (const auto& thread : threads_) total += thread->capacity_bytes();
  return total;
}

}  // namespace sam_rlx
