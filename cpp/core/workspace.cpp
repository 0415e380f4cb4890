#include "core/workspace.h"

#include <algorithm>
#include <cstddef>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#define SAM_RLX_POISON(pointer, bytes) ASAN_POISON_MEMORY_REGION(pointer, bytes)
#define SAM_RLX_UNPOISON(pointer, bytes) ASAN_UNPOISON_MEMORY_REGION(pointer, bytes)
#else
#define SAM_RLX_POISON(pointer, bytes) ((void)0)
#define SAM_RLX_UNPOISON(pointer, bytes) ((void)0)
#endif

namespace sam_rlx {
namespace {

constexpr std::int64_t kAlign = 64;
constexpr std::int64_t kMinBlock = 64 * 1024;  // not tuned

std::int64_t size_of(const AlignedBlock& block) {
  return static_cast<std::int64_t>(block.get_deleter().bytes);
}

}  // namespace

void* Workspace::take(std::int64_t bytes) {
  bytes = (std::max<std::int64_t>(bytes, 1) + kAlign - 1) / kAlign * kAlign;
  if (blocks_.empty()) {
    const std::int64_t size = std::max({bytes, peak_, kMinBlock});
    blocks_.push_back(allocate_aligned(static_cast<std::size_t>(size)));
  }
  while (used_ + bytes > size_of(blocks_[block_])) {
    if (block_ + 1 == blocks_.size()) {
      blocks_.push_back(allocate_aligned(static_cast<std::size_t>(std::max(bytes, kMinBlock))));
    }
    before_ += used_;
    used_ = 0;
    ++block_;
  }
  auto* const result = static_cast<std::byte*>(blocks_[block_].get()) + used_;
  used_ += bytes;
  peak_ = std::max(peak_, before_ + used_);
  SAM_RLX_UNPOISON(result, static_cast<std::size_t>(bytes));
  return result;
}

void Workspace::close(std::size_t block, std::int64_t used, std::int64_t before) noexcept {
  --open_scopes_;
  block_ = block;
  used_ = used;
  before_ = before;
  if (open_scopes_ == 0 && blocks_.size() > 1) blocks_.clear();  // next: one block of `peak_`
  for (std::size_t i = block_; i < blocks_.size(); ++i) {
    [[maybe_unused]] const std::int64_t kept = i == block_ ? used_ : 0;
    SAM_RLX_POISON(static_cast<std::byte*>(blocks_[i].get()) + kept,
                   static_cast<std::size_t>(size_of(blocks_[i]) - kept));
  }
}

void Workspace::reserve_threads(int count) {
  while (static_cast<int>(threads_.size()) < count) {
    threads_.push_back(std::make_unique<Workspace>());
  }
}

std::int64_t Workspace::capacity_bytes() const {
  std::int64_t total = 0;
  for (const AlignedBlock& block : blocks_) total += size_of(block);
  for (const auto& thread : threads_) total += thread->capacity_bytes();
  return total;
}

}  // namespace sam_rlx
