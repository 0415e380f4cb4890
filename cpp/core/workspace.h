#pragma once

#include <cstdint>
#include <memory>
#include <type_traits>
#include <vector>

#include "core/tensor.h"

namespace sam_rlx {

// Stack of scratch memory for one thread of control. It grows during the first call and is one
// block afterwards: a second call of the same size allocates nothing.
//
// A function takes its result first and then opens a Scope for its scratch, so that the result
// outlives the scratch.
class Workspace {
  // The end of what is taken.
  struct Position {
    std::size_t block = 0;    // the block in use
    std::int64_t used = 0;    // bytes of it that are taken
    std::int64_t before = 0;  // bytes taken from the blocks before it
  };

 public:
  Workspace() = default;
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;

  // Undefined contents, valid until the enclosing Scope closes.
  View floats(const Shape& shape) { return {array<float>(shape.numel()), shape}; }

  template <class T>
  T* array(std::int64_t count) {
    static_assert(std::is_trivially_destructible_v<T>);
    return static_cast<T*>(take(checked_multiply(count, static_cast<std::int64_t>(sizeof(T)))));
  }

  // For a loop whose threads need scratch of their own for whole layers: `count` workspaces, kept
  // for the next loop.
  void reserve_threads(int count);
  Workspace& of_thread(int thread) {
    SAM_RLX_DCHECK(0 <= thread && static_cast<std::size_t>(thread) < threads_.size());
    return *threads_[static_cast<std::size_t>(thread)];
  }

  std::int64_t capacity_bytes() const;

  // Gives back on destruction what was taken since construction. Scopes close in the reverse order
  // of their opening.
  class Scope {
   public:
    explicit Scope(Workspace& workspace) : workspace_(workspace), begin_(workspace.top_) {
      depth_ = ++workspace_.open_scopes_;
    }
    ~Scope() {
      SAM_RLX_DCHECK(depth_ == workspace_.open_scopes_);
      workspace_.close(begin_);
    }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    Workspace& workspace_;
    Position begin_;
    int depth_ = 0;
  };

 private:
  void* take(std::int64_t bytes);
  void close(const Position& begin) noexcept;

  std::vector<AlignedBlock> blocks_;
  std::vector<std::unique_ptr<Workspace>> threads_;
  Position top_;
  std::int64_t peak_ = 0;  // most bytes ever taken at once
  int open_scopes_ = 0;
};

}  // namespace sam_rlx
